//! Errors of Google Cloud, one variant for each hint.
//!
//! Sources of the formats: the crates' error chains as observed, google.rpc.ErrorInfo, RFC 6749 section 5.2.

use crate::model::text::printable;
use crate::model::{Fix, Hint, Verb};
use google_cloud_auth::build_errors::Error as BuildError;
use google_cloud_gax::error::rpc::StatusDetails;
use serde_json::Value;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

fn login() -> Fix {
    Fix::command("log in to Google", "gcloud auth application-default login")
}

/// Why a call to Google Cloud failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GcpError {
    /// There are no application-default credentials, and this machine is not one of Google's.
    #[error("not logged in to Google Cloud on this machine (no application-default credentials)")]
    NoCredentials,
    /// The credentials file is missing, broken or of an unknown type.
    #[error("cannot use the Google credentials file: {why}")]
    CredentialsFile {
        /// The file and the cause, in the words of Google's crate.
        why: String,
    },
    /// The grant has expired, or was revoked.
    #[error("your Google login has expired or was revoked (invalid_grant)")]
    GrantExpired,
    /// The organization requires periodic reauthentication.
    #[error("your organization requires you to log in to Google Cloud again (invalid_rapt)")]
    Reauthenticate,
    /// This machine's clock is wrong.
    #[error("this machine's clock is wrong: {why}")]
    Clock {
        /// The error message that shows it.
        why: String,
    },
    /// 401 although we sent a token.
    #[error("Google rejected this login (401): {message}")]
    Unauthenticated {
        /// Google's words.
        message: String,
    },
    /// The API is not enabled in the project.
    #[error("API {service} is not enabled in project {project}")]
    ApiOff {
        /// E.g. `secretmanager.googleapis.com`.
        service: String,
        project: String,
    },
    /// 403: a permission is missing.
    #[error("permission denied by Google: {message}")]
    Forbidden {
        /// The permission that is missing, when Google names it.
        permission: String,
        /// Google's words.
        message: String,
    },
    #[error("not found at Google: {message}")]
    NotFound {
        /// Google's words.
        message: String,
    },
    /// 409: the name is taken.
    #[error("already exists: {message}")]
    Exists {
        /// Google's words.
        message: String,
    },
    /// Its state does not allow it: a disabled version of a secret, a busy queued resource.
    #[error("not possible in its current state: {message}")]
    State {
        /// Google's words.
        message: String,
    },
    /// The target of a deletion is not the one that was selected; no request was sent.
    #[error("it changed since it was selected, so nothing was sent: {what}")]
    Changed {
        /// The target and the difference.
        what: String,
    },
    /// Too many requests, or no quota left.
    #[error("quota exceeded: {message}")]
    Quota {
        /// Google's words.
        message: String,
        /// When Google wants to be asked again (`Retry-After`, RFC 9110, section 10.2.3).
        after: Option<Duration>,
    },
    /// 500 and above.
    #[error("Google is unavailable ({code})")]
    Unavailable {
        code: u16,
        /// The same.
        after: Option<Duration>,
    },
    /// An HTML page instead of JSON: a load balancer's error, or a network that requires a sign-in.
    #[error("the answer is not JSON ({code}): {begins}")]
    NotJson { code: u16, begins: String },
    /// No CA certificates are installed.
    #[error("no CA certificates found on this machine")]
    NoCaBundle,
    /// The system gave no random bytes.
    #[error("cannot read random bytes from the system")]
    NoRandomness,
    /// The payload does not match its checksum.
    #[error("the secret is damaged: wrong checksum")]
    Checksum,
    /// No answer came in time.
    #[error("Google did not answer within {} s", .after.as_secs())]
    Timeout { after: Duration },
    #[error("cannot reach Google: {why}")]
    Unreachable { why: String },
    /// A long-running operation failed.
    #[error("Google's operation failed: {message}")]
    Operation {
        /// Google's words.
        message: String,
    },
    /// Anything else.
    #[error("Google refused ({code}): {message}")]
    Refused {
        code: u16,
        /// Google's words.
        message: String,
    },
}

impl GcpError {
    /// What to do, with the exact command where there is one.
    pub fn hint(&self) -> Hint {
        match self {
            Self::NoCredentials | Self::GrantExpired | Self::Reauthenticate => login().into(),
            Self::CredentialsFile { .. } => {
                Hint::from("correct or unset GOOGLE_APPLICATION_CREDENTIALS").and(login())
            }
            Self::Clock { .. } => {
                Fix::command("set this machine's clock, then try again", "timedatectl set-ntp true").into()
            }
            Self::Unauthenticated { .. } => Hint::from(login()).and("`gcloud auth login` alone is not enough"),
            Self::ApiOff { service, project } => Fix::command(
                "enable it, or ask the project's owner to",
                format!("gcloud services enable {service} --project={project}"),
            )
            .into(),
            Self::Forbidden { permission, .. } if permission.is_empty() => {
                "ask the project's owner for access, and check that it is the right project".into()
            }
            Self::Forbidden { permission, .. } => format!(
                "ask the project's owner for a role with {permission}{}, and check that it is the right project",
                if permission.starts_with("secretmanager.versions.access") {
                    " (roles/secretmanager.secretAccessor)"
                } else {
                    ""
                }
            )
            .into(),
            Self::State { .. } => {
                Hint::from("enable it (`gcloud secrets versions enable`), or add a new version")
            }
            Self::Changed { .. } => Hint::from([
                Verb::Tpus.to("check what exists now"),
                "the Google Cloud console shows it too; then start again".into(),
            ]),
            Self::Quota { after: Some(after), .. } | Self::Unavailable { after: Some(after), .. } => {
                format!("wait {} s, as Google asks", after.as_secs()).into()
            }
            Self::NoRandomness => {
                Fix::command("create the token on another machine", "openssl rand -hex 32").into()
            }
            other => other.advice().into(),
        }
    }

    /// The hints that are plain advice.
    const fn advice(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "check the name and the project",
            Self::Exists { .. } => "choose another name, or use the existing one",
            Self::Quota { .. } => "wait a minute; if it persists, request more quota",
            Self::Unavailable { .. } => "wait, or check status.cloud.google.com",
            Self::NotJson { code: 500.., .. } => "wait; a Google load balancer returned this error",
            Self::NotJson { .. } => "sign in to this network, or check the proxy and the endpoint",
            Self::NoCaBundle => "install the ca-certificates package, or correct SSL_CERT_FILE",
            Self::Checksum => "try again; if it persists, a proxy on the way to Google is changing answers",
            Self::Timeout { .. } | Self::Unreachable { .. } => "check the network, a VPN or a proxy",
            _ => "see the message; the Google Cloud console shows more",
        }
    }

    /// Whether the same call may succeed a moment later.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { code: 500 | 502 | 503 | 504, .. }
                | Self::NotJson { code: 500 | 502 | 503 | 504, .. }
                | Self::Quota { after: Some(_), .. }
                | Self::Unreachable { .. }
        )
    }

    /// How long Google asks to wait before the next call.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Quota { after, .. } | Self::Unavailable { after, .. } => *after,
            _ => None,
        }
    }

    /// The same error with the `Retry-After` of its answer. Only seconds are read: Google sends no dates there.
    pub(super) fn with_headers(mut self, headers: &http::HeaderMap) -> Self {
        let seconds =
            headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Self::Quota { after, .. } | Self::Unavailable { after, .. } = &mut self {
            *after = seconds.map(Duration::from_secs);
        }
        self
    }

    /// Whether this machine has no usable login; the caller continues without Google.
    pub fn is_login(&self) -> bool {
        matches!(
            self,
            Self::NoCredentials | Self::CredentialsFile { .. } | Self::GrantExpired | Self::Reauthenticate
        )
    }

    pub(super) fn not_json(code: u16, text: &str) -> Self {
        // The text between the tags says more than the tags.
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
        Self::CredentialsFile { why: clean(&e.to_string()) }
    }

    /// Converts an error below the HTTP response: credentials, connection, TLS.
    pub(super) fn from_chain(e: &(dyn Error + 'static)) -> Self {
        let chain = chain(e);
        let says = |words: &[&str]| words.iter().any(|w| chain.contains(w));
        let timed_out = times_out(e);
        if says(&["No CA certificates"]) {
            Self::NoCaBundle
        } else if says(&["invalid_rapt"]) {
            Self::Reauthenticate
        } else if says(&[
            "reasonable timeframe",
            "Token used too early",
            "certificate not valid yet",
            "NotValidYet",
            // Google renews its certificates in time: an expired one means that our clock is ahead.
            "certificate expired",
        ]) {
            Self::Clock { why: last(&chain) }
        } else if says(&["invalid_grant"]) {
            Self::GrantExpired
        } else if says(&["application-default login", "metadata.google.internal"]) {
            Self::NoCredentials
        } else if timed_out || says(&["operation timed out", "exceeded the request deadline", "deadline"]) {
            Self::Timeout { after: super::CALL }
        } else if says(&["transient errors", "SERVICE_UNAVAILABLE", "503"]) && !says(&["connect"]) {
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
        .told()
    }

    /// Converts an error of Google's own client.
    pub(super) fn from_client(e: &google_cloud_gax::error::Error) -> Self {
        let Some(status) = e.status() else {
            return match e.http_status_code() {
                Some(code) => {
                    let page = e.http_payload().map(|p| String::from_utf8_lossy(p).into_owned());
                    Self::not_json(code, &page.unwrap_or_default())
                }
                None if e.is_timeout() => Self::Timeout { after: super::CALL },
                None if e.is_deserialization() => Self::not_json(200, &chain(e)),
                None => Self::from_chain(e),
            };
        };
        let info = status.details.iter().find_map(|d| match d {
            StatusDetails::ErrorInfo(info) => Some(info),
            _ => None,
        });
        let metadata = |key: &str| info.and_then(|i| i.metadata.get(key)).map_or("", String::as_str);
        Refusal {
            code: e.http_status_code().unwrap_or_default(),
            status: status.code.name(),
            message: &status.message,
            reason: info.map_or("", |i| i.reason.as_str()),
            permission: metadata("permission"),
            service: metadata("service"),
            consumer: metadata("consumer"),
        }
        .told()
        .with_headers(e.http_headers().unwrap_or(&http::HeaderMap::new()))
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
    fn told(&self) -> GcpError {
        let message = clean(self.message);
        match (self.code, self.reason, self.status) {
            (_, "SERVICE_DISABLED" | "accessNotConfigured", _) => GcpError::ApiOff {
                service: clean(if self.service.is_empty() { "API_NAME" } else { self.service }),
                project: clean(self.consumer.trim_start_matches("projects/")),
            },
            (401, ..) => GcpError::Unauthenticated { message },
            (403, "rateLimitExceeded" | "quotaExceeded" | "userRateLimitExceeded", _) | (429, ..) => {
                GcpError::Quota { message, after: None }
            }
            (403, ..) => {
                // Compute names the permission in its message only.
                let named = self.message.split('\'').nth(1).filter(|w| w.matches('.').count() == 2);
                let named = if self.permission.is_empty() { named.unwrap_or("") } else { self.permission };
                GcpError::Forbidden { permission: clean(named), message }
            }
            (404, ..) => GcpError::NotFound { message },
            (409, ..) => GcpError::Exists { message },
            (400, _, "FAILED_PRECONDITION") => GcpError::State { message },
            (code @ 500.., ..) => GcpError::Unavailable { code, after: None },
            (code, ..) => GcpError::Refused { code, message },
        }
    }
}

/// The text as one line of at most 400 characters, safe to print.
fn clean(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    printable(&words.join(" ")).chars().take(400).collect()
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

/// The innermost cause: the outer ones repeat it less exactly.
fn last(chain: &str) -> String {
    clean(chain.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::CertificateError;
    use rustls::pki_types::UnixTime;

    #[test]
    fn a_certificate_from_the_future_or_the_past_is_our_clock() {
        let (early, late) = (UnixTime::since_unix_epoch(Duration::from_secs(1)), UnixTime::now());
        for error in [
            CertificateError::NotValidYetContext { time: early, not_before: late },
            CertificateError::ExpiredContext { time: late, not_after: early },
        ] {
            let told = GcpError::from_chain(&rustls::Error::InvalidCertificate(error));
            assert!(matches!(told, GcpError::Clock { .. }), "{told:?}");
            assert!(told.hint().to_string().contains("timedatectl set-ntp true"), "{}", told.hint());
        }
        let stranger = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert!(matches!(GcpError::from_chain(&stranger), GcpError::Unreachable { .. }));
    }
}
