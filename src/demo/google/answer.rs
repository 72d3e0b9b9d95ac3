//! Requests and responses of the simulated services.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The default project.
pub const PROJECT: &str = "hai-test";

/// The number of the default project, which Secret Manager returns instead of the project id.
pub const NUMBER: &str = "1234567890";

/// One parsed request.
pub(super) struct ApiRequest {
    pub method: Method,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub body: Value,
    /// `http://host:port`, for links in responses.
    pub base: String,
}

impl ApiRequest {
    /// A query parameter that is not empty: Google's clients send empty defaults (`pageToken=`).
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// One page of `all`, and the token of the next page. The caller's `pageSize` applies if it is smaller than `page`.
    pub fn page<'a, T>(&self, all: &'a [T], page: usize) -> (&'a [T], Option<String>) {
        let wanted = self.parameter("pageSize").or_else(|| self.parameter("maxResults"));
        let wanted = wanted.and_then(|s| s.parse().ok()).filter(|n| *n > 0).unwrap_or(usize::MAX);
        let size = wanted.min(if page == 0 { usize::MAX } else { page });
        let from =
            self.parameter("pageToken").and_then(|t| t.strip_prefix("from-")?.parse().ok()).unwrap_or(0);
        let to = all.len().min(usize::saturating_add(from, size));
        (&all[from.min(all.len())..to], (to < all.len()).then(|| format!("from-{to}")))
    }
}

pub(super) type Answer = (StatusCode, Value);

pub(super) fn ok(body: Value) -> Answer {
    (StatusCode::OK, body)
}

/// The error body of Secret Manager and TPU.
pub(super) fn refusal(code: u16, status: &str, reason: Option<&str>, message: &str) -> Answer {
    let mut error = json!({"code": code, "message": message, "status": status});
    if let Some(reason) = reason {
        let metadata = match reason {
            "SERVICE_DISABLED" => {
                json!({"service": "secretmanager.googleapis.com", "consumer": format!("projects/{PROJECT}")})
            }
            "IAM_PERMISSION_DENIED" => {
                json!({"permission": "secretmanager.versions.access", "resource": format!("projects/{PROJECT}")})
            }
            _ => json!({}),
        };
        error["details"] = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
            "domain": "googleapis.com", "metadata": metadata}]);
    }
    (status_of(code), json!({"error": error}))
}

pub(super) fn status_of(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

pub(super) fn not_found(what: &str) -> Answer {
    refusal(404, "NOT_FOUND", None, &format!("{what} not found."))
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// A time (milliseconds since the Unix epoch) in Google's format, RFC 3339.
pub(in crate::demo) fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or_default().to_string()
}
