//! Converts Google's error responses and the errors of its crates into errors of this program.
//!
//! Sources of the formats: the crates' error chains as observed, google.rpc.ErrorInfo, RFC 6749 section 5.2.

use super::GcpError;
use super::identity::Identity;
use crate::model::text::printable;
use google_cloud_auth::build_errors::Error as BuildError;
use google_cloud_auth::errors::CredentialsError;
use google_cloud_gax::error::rpc::StatusDetails;
use http::HeaderMap;
use serde_json::Value;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

impl GcpError {
    pub(super) fn not_json(code: u16, text: &str) -> Self {
        // Only the text between the tags is of interest.
        let mut begins = String::new();
        let mut tag = false;
        for c in text.chars().take(2000) {
            match c {
                '<' => tag = true,
                '>' => {
                    tag = false;
                    begins.push(' ');
                }
                c if !tag => begins.push(c),
                _ => {}
            }
        }
        let words: Vec<&str> = begins.split_whitespace().take(12).collect();
        Self::NotJson { code, begins: clean(&words.join(" ")) }
    }

    /// Converts an error of the crate that builds credentials.
    pub(super) fn from_build(e: &BuildError) -> Self {
        Self::CredentialsFile { why: clean(&e.to_string()), login: Box::default() }
    }

    /// Converts an error of the login: a refusal by the token endpoint, the metadata server, or the impersonation
    /// service.
    pub(super) fn from_login(e: &CredentialsError, identity: &Identity) -> Self {
        let refused = |why: String| Self::LoginRefused { why, login: Box::default() };
        let error = match answered(e) {
            Some((code @ 500.., _, headers)) => {
                Self::Unavailable { code, after: None }.with_headers(&headers)
            }
            Some((429, page, headers)) => {
                Self::Quota { message: clean(&page), after: None }.with_headers(&headers)
            }
            Some((code, page, _)) => match serde_json::from_str::<Value>(&page) {
                Ok(body) if body["error"].is_object() => Self::from_body(code, &body),
                _ => refused(format!("HTTP status {code}: {}", clean(&page))),
            },
            None => match oauth(e) {
                // Only user logins have grants; another provider's token is refused for other reasons.
                Some(oauth) if oauth["error"] == "invalid_grant" && identity.is_external() => {
                    refused(words_of(&oauth))
                }
                Some(oauth) if oauth["error"] == "invalid_scope" => {
                    Self::Scopes { message: words_of(&oauth), login: Box::default() }
                }
                Some(oauth) if oauth["error"] != "invalid_grant" && !e.is_transient() => {
                    refused(words_of(&oauth))
                }
                _ => match Self::from_chain(e) {
                    Self::Unreachable { why } if !e.is_transient() => refused(why),
                    // The request went to the login's own identity provider, not to Google.
                    Self::Unreachable { why }
                        if identity.is_external() && !chain(e).contains("exchange token") =>
                    {
                        refused(why)
                    }
                    error => error,
                },
            },
        };
        error.read_from(identity)
    }

    /// Converts an error below the HTTP response: credentials, connection, TLS.
    pub(super) fn from_chain(e: &(dyn Error + 'static)) -> Self {
        let chain = chain(e);
        let has = |words: &[&str]| words.iter().any(|w| chain.contains(w));
        let timed_out = times_out(e);
        if has(&["No CA certificates"]) {
            Self::NoCaBundle
        } else if has(&["invalid_rapt"]) {
            Self::Reauthenticate { login: Box::default() }
        } else if has(&[
            "reasonable timeframe",
            "Token used too early",
            "certificate not valid yet",
            "NotValidYet",
            // Google renews its certificates in time: an expired one means that our clock is ahead.
            "certificate expired",
        ]) {
            Self::Clock { why: last(&chain) }
        } else if has(&["invalid_grant"]) {
            Self::GrantExpired { login: Box::default() }
        } else if has(&["application-default login", "metadata.google.internal"]) {
            Self::NoCredentials { login: Box::default() }
        } else if timed_out || has(&["operation timed out", "exceeded the request deadline", "deadline"]) {
            Self::Timeout { after: super::ATTEMPT_TIMEOUT }
        } else if has(&["transient errors", "SERVICE_UNAVAILABLE", "503"]) && !has(&["connect"]) {
            Self::Unavailable { code: 503, after: None }
        } else {
            Self::Unreachable { why: last(&chain) }
        }
    }

    /// Converts the error body of a REST call.
    pub(super) fn from_body(code: u16, body: &Value) -> Self {
        let error = &body["error"];
        let info = error["details"].as_array().into_iter().flatten().find(|d| d["reason"].is_string());
        let metadata = |key: &str| info.and_then(|d| d["metadata"][key].as_str()).unwrap_or_default();
        let reason =
            info.and_then(|d| d["reason"].as_str()).or_else(|| error["errors"][0]["reason"].as_str());
        Refusal {
            code,
            status: error["status"].as_str().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default(),
            reason: reason.unwrap_or_default(),
            permission: metadata("permission"),
            service: metadata("service"),
            consumer: metadata("consumer"),
        }
        .error(retry_delay(&error["details"]))
    }

    /// Converts the error of a long-running operation; `code` is Compute Engine's error code, empty for other services.
    pub(super) fn from_operation(code: &str, text: &str) -> Self {
        let message = clean(text);
        if let Some(constraint) = after(text, "constraints/") {
            return Self::Policy { constraint: clean(constraint), project: String::new(), message };
        }
        match code {
            "QUOTA_EXCEEDED" => Self::Quota { message, after: None },
            "RESOURCE_NOT_FOUND" => Self::NotFound { message },
            code if code.contains("RESOURCE_POOL_EXHAUSTED") || code.contains("STOCKOUT") => {
                Self::NoCapacity { message }
            }
            _ => Self::Operation { message },
        }
    }

    /// Converts an error of Google's own client.
    pub(super) fn from_client(e: &google_cloud_gax::error::Error) -> Self {
        let Some(status) = e.status() else {
            return match e.http_status_code() {
                Some(code) => {
                    let page = e.http_payload().map(|p| String::from_utf8_lossy(p).into_owned());
                    Self::not_json(code, &page.unwrap_or_default())
                }
                None if e.is_timeout() => Self::Timeout { after: super::ATTEMPT_TIMEOUT },
                None if e.is_deserialization() => Self::not_json(200, &chain(e)),
                None => Self::from_chain(e),
            };
        };
        let info = status.details.iter().find_map(|d| match d {
            StatusDetails::ErrorInfo(info) => Some(info),
            _ => None,
        });
        let metadata = |key: &str| info.and_then(|i| i.metadata.get(key)).map_or("", String::as_str);
        let after = status.details.iter().find_map(|d| match d {
            StatusDetails::RetryInfo(info) => info.retry_delay,
            _ => None,
        });
        let after = after.and_then(|delay| Duration::try_from(delay).ok());
        Refusal {
            code: e.http_status_code().unwrap_or_default(),
            status: status.code.name(),
            message: &status.message,
            reason: info.map_or("", |i| i.reason.as_str()),
            permission: metadata("permission"),
            service: metadata("service"),
            consumer: metadata("consumer"),
        }
        .error(after)
        .with_headers(e.http_headers().unwrap_or(&HeaderMap::new()))
    }
}

/// The fields of an error body.
struct Refusal<'a> {
    code: u16,
    status: &'a str,
    message: &'a str,
    reason: &'a str,
    permission: &'a str,
    service: &'a str,
    consumer: &'a str,
}

impl Refusal<'_> {
    /// The error, with the retry delay if Google returned one.
    fn error(&self, after: Option<Duration>) -> GcpError {
        match after {
            Some(after) => self.kind().asking_for(after),
            None => self.kind(),
        }
    }

    fn kind(&self) -> GcpError {
        let message = clean(self.message);
        let consumer = clean(self.consumer.trim_start_matches("projects/"));
        let login = Box::default();
        // Compute names the constraint in its message only, with 412.
        if let Some(constraint) = after(self.message, "constraints/") {
            return GcpError::Policy { constraint: clean(constraint), project: String::new(), message };
        }
        match (self.code, self.reason, self.status) {
            (_, "ACCESS_TOKEN_SCOPE_INSUFFICIENT" | "insufficientPermissions", _) => {
                GcpError::Scopes { message, login }
            }
            (_, "USER_PROJECT_DENIED", _) => {
                GcpError::QuotaProject { refused: consumer, project: String::new(), message, login }
            }
            // Without a quota project a person's calls are charged to gcloud itself, where no API is enabled.
            (_, "SERVICE_DISABLED" | "accessNotConfigured", _)
                if consumer == GCLOUD || self.message.contains("requires a quota project") =>
            {
                GcpError::QuotaProject { refused: String::new(), project: String::new(), message, login }
            }
            (_, "SERVICE_DISABLED" | "accessNotConfigured", _) => {
                let linked = |given: &str, before: &str| match given {
                    "" => clean(after(self.message, before).unwrap_or_default()),
                    given => given.to_owned(),
                };
                let service = linked(&clean(self.service), "/apis/api/");
                GcpError::ApiOff { service, project: linked(&consumer, "?project="), message }
            }
            (_, "BILLING_DISABLED", _) => GcpError::Billing { project: consumer, message },
            (403, ..)
                if self.message.contains("billing disabled")
                    || self.message.contains("billing to be enabled") =>
            {
                GcpError::Billing { project: consumer, message }
            }
            (_, "SECURITY_POLICY_VIOLATED", _) => {
                GcpError::Policy { constraint: String::new(), project: String::new(), message }
            }
            (401, ..) => GcpError::Unauthenticated { message, login },
            (
                403,
                "rateLimitExceeded"
                | "quotaExceeded"
                | "userRateLimitExceeded"
                | "RATE_LIMIT_EXCEEDED"
                | "RESOURCE_QUOTA_EXCEEDED",
                _,
            )
            | (429, ..) => GcpError::Quota { message, after: None },
            (403, ..) => {
                // Compute names the permission in its message only.
                let named = self.message.split('\'').nth(1).filter(|w| w.matches('.').count() == 2);
                let named = if self.permission.is_empty() { named.unwrap_or("") } else { self.permission };
                GcpError::Forbidden { permission: clean(named), message }
            }
            (404, ..) => GcpError::NotFound { message },
            (409, ..) => GcpError::Exists { message },
            (400, _, "FAILED_PRECONDITION") => GcpError::State { message, project: String::new() },
            (code @ 500.., ..) => GcpError::Unavailable { code, after: None },
            (code, ..) => GcpError::Refused { code, message },
        }
    }
}

/// Number of gcloud's own project, whose OAuth client is used for user logins.
const GCLOUD: &str = "764086051850";

/// The text as one line of at most 400 characters, safe to print.
fn clean(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    printable(&words.join(" ")).chars().take(400).collect()
}

/// The word after these letters, e.g. in a link in the message.
fn after<'a>(message: &'a str, letters: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(letters)?;
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    let word = rest.split(|c| !word(c)).next()?.trim_end_matches(['.', ':']);
    (!word.is_empty()).then_some(word)
}

/// Status, body and headers of the response that caused a login error, if Google's crate keeps them: it does for the
/// metadata server and for impersonation, but not for the token endpoint of user logins.
fn answered(e: &(dyn Error + 'static)) -> Option<(u16, String, HeaderMap)> {
    if let Some(e) = e.downcast_ref::<google_cloud_gax::error::Error>()
        && let (Some(code), Some(page)) = (e.http_status_code(), e.http_payload())
    {
        let headers = e.http_headers().cloned().unwrap_or_default();
        return Some((code, String::from_utf8_lossy(page).into_owned(), headers));
    }
    answered(e.source()?)
}

/// The retry delay in the details of an error's body: `google.rpc.RetryInfo`, a duration in its JSON form, `1.5s`.
fn retry_delay(details: &Value) -> Option<Duration> {
    let delay = details.as_array()?.iter().find_map(|d| d["retryDelay"].as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// The body of a token endpoint's refusal (RFC 6749, section 5.2), which Google's crate quotes.
fn oauth(e: &(dyn Error + 'static)) -> Option<Value> {
    let quoted = chain(e);
    let (_, body) = quoted.split_once("body=<")?;
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
    values.next()?.ok().filter(|body| body["error"].is_string())
}

/// The error and its description. Nothing else of the body is shown, because it may contain a token.
fn words_of(oauth: &Value) -> String {
    let text = |key: &str| oauth[key].as_str().unwrap_or_default();
    match text("error_description") {
        "" => clean(text("error")),
        why => clean(&format!("{}: {why}", text("error"))),
    }
}

fn times_out(e: &(dyn Error + 'static)) -> bool {
    e.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout)
        || e.source().is_some_and(times_out)
}

fn chain(e: &(dyn Error + 'static)) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(e) = next {
        let _ = write!(text, "\n{e}");
        next = e.source();
    }
    text
}

/// The innermost cause: the outer ones repeat it less exactly. A quoted body is cut off, because it may contain a
/// token.
fn last(chain: &str) -> String {
    let line = chain.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
    clean(line.split("body=<").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::CertificateError;
    use rustls::pki_types::UnixTime;
    use std::time::Duration;

    #[test]
    fn an_exceeded_rate_is_not_a_missing_permission() {
        // Compute Engine answers with both reasons.
        let body = |reason: &str| {
            serde_json::json!({"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}],
                "message": "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service.",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]}})
        };
        for reason in ["RATE_LIMIT_EXCEEDED", "RESOURCE_QUOTA_EXCEEDED"] {
            let error = GcpError::from_body(403, &body(reason));
            assert!(matches!(error, GcpError::Quota { .. }), "{error:?}");
        }
        let refused = GcpError::from_body(403, &body("IAM_PERMISSION_DENIED"));
        assert!(matches!(refused, GcpError::Forbidden { .. }), "{refused:?}");
    }

    #[test]
    fn a_certificate_outside_its_validity_means_a_wrong_clock() {
        let (early, late) = (UnixTime::since_unix_epoch(Duration::from_secs(1)), UnixTime::now());
        for error in [
            CertificateError::NotValidYetContext { time: early, not_before: late },
            CertificateError::ExpiredContext { time: late, not_after: early },
        ] {
            let error = GcpError::from_chain(&rustls::Error::InvalidCertificate(error));
            assert!(matches!(error, GcpError::Clock { .. }), "{error:?}");
            assert!(error.hint().to_string().contains("timedatectl set-ntp true"), "{}", error.hint());
        }
        let unknown_issuer = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert!(matches!(GcpError::from_chain(&unknown_issuer), GcpError::Unreachable { .. }));
    }
}
