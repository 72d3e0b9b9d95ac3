//! Errors of Google Cloud, one variant for each hint.

use super::identity::Identity;
use super::needs::NEEDS;
use crate::model::command_line::shell_quote;
use crate::model::{Fix, Hint, Verb};
use std::time::Duration;

/// The longest retry delay that is accepted from a response.
const DAY: Duration = Duration::from_secs(86_400);

/// Why a call to Google Cloud failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GcpError {
    /// There are no application-default credentials, and this machine is not one of Google's.
    #[error("not logged in to Google Cloud on this machine (no application-default credentials){login}")]
    NoCredentials {
        /// Where a login was looked for.
        login: Box<Identity>,
    },
    /// The credentials file is missing, broken or of an unknown type.
    #[error("cannot use the Google credentials file: {why}{login}")]
    CredentialsFile {
        /// The message of Google's crate.
        why: String,
        login: Box<Identity>,
    },
    /// The grant has expired, or was revoked.
    #[error("your Google Cloud credentials have expired or were revoked (invalid_grant){login}")]
    GrantExpired { login: Box<Identity> },
    /// The organization requires periodic reauthentication.
    #[error("your organization requires you to log in to Google Cloud again (invalid_rapt){login}")]
    Reauthenticate { login: Box<Identity> },
    /// No access token was returned, for another reason.
    #[error("Google returned no access token: {why}{login}")]
    LoginRefused {
        /// The message of the token endpoint.
        why: String,
        login: Box<Identity>,
    },
    /// This machine's clock is wrong.
    #[error("this machine's clock is wrong: {why}")]
    Clock {
        /// The error message that shows it.
        why: String,
    },
    /// 401 although a token was sent.
    #[error("Google rejected these credentials (401): {message}{login}")]
    Unauthenticated {
        /// Google's message, safe to print.
        message: String,
        login: Box<Identity>,
    },
    /// The access token does not cover the API (`ACCESS_TOKEN_SCOPE_INSUFFICIENT`).
    #[error("these credentials have insufficient scopes for Google Cloud: {message}{login}")]
    Scopes {
        /// Google's message, safe to print.
        message: String,
        login: Box<Identity>,
    },
    /// The API is not enabled in the project.
    #[error("{}", api_off(.service, .project, .message))]
    ApiOff {
        /// E.g. `secretmanager.googleapis.com`; empty when Google does not name it.
        service: String,
        /// Its id or number.
        project: String,
        /// Google's message, safe to print.
        message: String,
    },
    /// The project to which the calls of a login are charged: none is set, or the caller may not use it.
    #[error("Google refused the quota project of these credentials: {message}{login}")]
    QuotaProject {
        /// The project that was refused; empty when none is set.
        refused: String,
        /// The project of the call.
        project: String,
        /// Google's message, safe to print.
        message: String,
        login: Box<Identity>,
    },
    /// The project has no billing account.
    #[error("billing is disabled: {message}")]
    Billing {
        /// Its id or number.
        project: String,
        /// Google's message, safe to print.
        message: String,
    },
    /// The organization forbids it: a constraint, or a service perimeter.
    #[error("forbidden by a policy of your organization: {message}")]
    Policy {
        /// E.g. `compute.vmExternalIpAccess`; empty for a service perimeter.
        constraint: String,
        project: String,
        /// Google's message, safe to print.
        message: String,
    },
    /// 403: a permission is missing.
    #[error("permission denied by Google: {message}")]
    Forbidden {
        /// The permission that is missing, when Google names it.
        permission: String,
        /// Google's message, safe to print.
        message: String,
    },
    #[error("not found in Google Cloud: {message}")]
    NotFound {
        /// Google's message, safe to print.
        message: String,
    },
    /// 409: the name is taken.
    #[error("already exists: {message}")]
    Exists {
        /// Google's message, safe to print.
        message: String,
    },
    /// Its state does not allow it: a disabled version of a secret, a busy queued resource.
    #[error("Google refused this in the resource's current state: {message}")]
    State {
        /// Google's message, safe to print.
        message: String,
        project: String,
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
        /// Google's message, safe to print.
        message: String,
        /// How long Google asks to wait (`Retry-After`, RFC 9110, section 10.2.3).
        after: Option<Duration>,
    },
    /// The zone has no capacity for such a machine at the moment.
    #[error("Google Cloud has no capacity: {message}")]
    NoCapacity {
        /// Google's message, safe to print.
        message: String,
    },
    /// 500 and above.
    #[error("Google is unavailable ({code})")]
    Unavailable {
        code: u16,
        /// How long Google asks to wait, if stated.
        after: Option<Duration>,
    },
    /// An HTML page instead of JSON: a load balancer's error, or a network that requires a sign-in.
    #[error("the response is not JSON ({code}): {begins}")]
    NotJson { code: u16, begins: String },
    /// No CA certificates are installed.
    #[error("no CA certificates found on this machine")]
    NoCaBundle,
    /// The system returned no random bytes.
    #[error("cannot read random bytes from the system")]
    NoRandomness,
    /// The payload does not match its checksum.
    #[error("the secret is damaged: wrong checksum")]
    Checksum,
    /// No response in time.
    #[error("Google did not respond within {} s", .after.as_secs())]
    Timeout { after: Duration },
    #[error("cannot reach Google: {why}")]
    Unreachable { why: String },
    /// A long-running operation failed.
    #[error("Google's operation failed: {message}")]
    Operation {
        /// Google's message, safe to print.
        message: String,
    },
    /// Any other status code.
    #[error("Google refused ({code}): {message}")]
    Refused {
        code: u16,
        /// Google's message, safe to print.
        message: String,
    },
}

impl GcpError {
    /// What to do, with the exact command where there is one.
    pub fn hint(&self) -> Hint {
        match self {
            Self::CredentialsFile { login, .. } => Hint::from(login.leave()).and(login.renewal()),
            Self::Unauthenticated { login, .. } if login.is_person() => {
                login.renewal().and("`gcloud auth login` alone is not enough")
            }
            Self::NoCredentials { login }
            | Self::GrantExpired { login }
            | Self::Reauthenticate { login }
            | Self::LoginRefused { login, .. }
            | Self::Unauthenticated { login, .. }
            | Self::Scopes { login, .. } => login.renewal(),
            Self::Clock { .. } => {
                Fix::command("set this machine's clock, then try again", "timedatectl set-ntp true").into()
            }
            Self::ApiOff { service, project, .. } => enable(service, project),
            Self::QuotaProject { refused, project, login, .. } => quota_project(refused, project, login),
            Self::Billing { project, .. } => billing(project),
            Self::Policy { constraint, project, .. } => policy(constraint, project),
            Self::Forbidden { permission, .. } => access(permission),
            Self::State { message, project } => state(message, project),
            Self::Changed { .. } => Hint::from([
                Verb::Tpus.to("check what exists now"),
                "the Google Cloud console shows it too; then start again".into(),
            ]),
            Self::Quota { after: Some(after), .. } | Self::Unavailable { after: Some(after), .. } => {
                format!("wait {} s, as requested by Google", after.as_secs()).into()
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
            Self::NoCapacity { .. } => "wait, or request another kind of capacity",
            Self::Unavailable { .. } => "wait, or check status.cloud.google.com",
            Self::NotJson { code: 500.., .. } => "wait; a Google load balancer returned this error",
            Self::NotJson { .. } => "sign in to this network, or check the proxy and the endpoint",
            Self::NoCaBundle => "install the ca-certificates package, or correct SSL_CERT_FILE",
            Self::Checksum => {
                "try again; if it persists, a proxy between this machine and Google is changing responses"
            }
            Self::Timeout { .. } | Self::Unreachable { .. } => "check the network, a VPN or a proxy",
            _ => "check the resource in the Google Cloud console, then try again",
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

    /// The same error with the `Retry-After` of its response, else the `retryDelay` of its body
    /// (`google.rpc.RetryInfo`). Only seconds are read: Google sends no dates there.
    pub(super) fn with_headers(self, headers: &http::HeaderMap) -> Self {
        let seconds =
            headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        match seconds.map(Duration::from_secs) {
            Some(after) => self.asking_for(after),
            None => self,
        }
    }

    /// The same error with this retry delay, a day at most. Errors without a retry delay stay as they are.
    pub(super) fn asking_for(mut self, wait: Duration) -> Self {
        let wait = wait.min(DAY);
        if let Self::Quota { after, .. } | Self::Unavailable { after, .. } = &mut self {
            *after = Some(wait);
        }
        self
    }

    /// The same error with this login: how to renew it depends on where it was read.
    pub(super) fn read_from(mut self, identity: &Identity) -> Self {
        if let Self::NoCredentials { login }
        | Self::CredentialsFile { login, .. }
        | Self::GrantExpired { login }
        | Self::Reauthenticate { login }
        | Self::LoginRefused { login, .. }
        | Self::Unauthenticated { login, .. }
        | Self::Scopes { login, .. }
        | Self::QuotaProject { login, .. } = &mut self
        {
            **login = identity.clone();
        }
        // The login is appended to the sentence.
        if let Self::CredentialsFile { why: words, .. }
        | Self::LoginRefused { why: words, .. }
        | Self::Unauthenticated { message: words, .. }
        | Self::Scopes { message: words, .. }
        | Self::QuotaProject { message: words, .. } = &mut self
        {
            words.truncate(words.trim_end_matches(['.', ' ']).len());
        }
        self
    }

    /// The same error with the project of the call, if Google does not name it.
    pub(super) fn in_project(mut self, called: &str) -> Self {
        if let Self::ApiOff { project, .. }
        | Self::QuotaProject { project, .. }
        | Self::Billing { project, .. }
        | Self::Policy { project, .. }
        | Self::State { project, .. } = &mut self
            && project.is_empty()
        {
            called.clone_into(project);
        }
        self
    }

    /// Whether this machine has no usable login; the caller continues without Google.
    pub fn is_login(&self) -> bool {
        matches!(
            self,
            Self::NoCredentials { .. }
                | Self::CredentialsFile { .. }
                | Self::GrantExpired { .. }
                | Self::Reauthenticate { .. }
                | Self::LoginRefused { .. }
        )
    }
}

fn api_off(service: &str, project: &str, message: &str) -> String {
    match (service, project) {
        ("", _) | (_, "") => format!("an API is not enabled: {message}"),
        _ => format!("API {service} is not enabled in project {project}"),
    }
}

/// The role that includes the missing permission, if one role is enough for what this program does (IAM roles
/// reference).
fn role(permission: &str) -> Option<&'static str> {
    Some(match permission {
        "secretmanager.versions.access" => "roles/secretmanager.secretAccessor",
        "secretmanager.versions.add" => "roles/secretmanager.secretVersionAdder",
        "secretmanager.secrets.create" => "roles/secretmanager.admin",
        "iam.serviceAccounts.getAccessToken" => "roles/iam.serviceAccountTokenCreator",
        "serviceusage.services.use" => "roles/serviceusage.serviceUsageConsumer",
        "artifactregistry.tags.list" | "artifactregistry.repositories.downloadArtifacts" => {
            "roles/artifactregistry.reader"
        }
        in_project => NEEDS.iter().find(|need| need.permissions.contains(&in_project))?.role,
    })
}

fn enable(service: &str, project: &str) -> Hint {
    if service.is_empty() || project.is_empty() {
        return "enable the API named in the message, or ask the project's owner to".into();
    }
    Fix::command(
        "enable it, or ask the project's owner to",
        format!("gcloud services enable {} --project={}", shell_quote(service), shell_quote(project)),
    )
    .into()
}

fn quota_project(refused: &str, project: &str, login: &Identity) -> Hint {
    let ask = match refused {
        "" => Hint::none(),
        refused => format!("ask the owner of {refused} for roles/serviceusage.serviceUsageConsumer").into(),
    };
    match project {
        "" => ask.and("bill another project: set GOOGLE_CLOUD_QUOTA_PROJECT to its id"),
        project if project == refused => ask,
        project => {
            ask.and(login.charge(project, "bill calls with these credentials to the cluster's project"))
        }
    }
}

fn access(permission: &str) -> Hint {
    if permission.is_empty() {
        return "ask the project's owner for access, and check that it is the right project".into();
    }
    let role = role(permission).map_or_else(String::new, |role| format!(" ({role})"));
    format!(
        "ask the project's owner for a role with {permission}{role}, and check that it is the right project"
    )
    .into()
}

fn billing(project: &str) -> Hint {
    let see = match project {
        "" => return "ask the project's owner to link a billing account to it".into(),
        project => format!("gcloud billing projects describe {}", shell_quote(project)),
    };
    Hint::from("ask the project's owner to link a billing account to it")
        .and(Fix::command("check whether it has a billing account", see))
}

fn policy(constraint: &str, project: &str) -> Hint {
    match (constraint, project) {
        ("", _) => "ask the organization's administrator, and quote the identifier in the message".into(),
        (_, "") => format!("ask the organization's administrator about the constraint {constraint}").into(),
        (constraint, project) => {
            Hint::from("ask the organization's administrator for an exception").and(Fix::command(
                "see what it allows",
                format!(
                    "gcloud org-policies describe {} --project={} --effective",
                    shell_quote(constraint),
                    shell_quote(project)
                ),
            ))
        }
    }
}

/// The hint for a state error: Google's message names a secret version that is disabled or destroyed; any other
/// resource has only a state.
fn state(message: &str, project: &str) -> Hint {
    let words = message.split(['[', ']', ' ', '`', '\'']);
    let version = words.map(|w| w.split('/').collect::<Vec<_>>()).find_map(|parts| match parts.as_slice() {
        ["projects", number, "secrets", secret, "versions", version] => {
            let project = if project.is_empty() { number } else { project };
            Some((shell_quote(project), shell_quote(secret), shell_quote(version)))
        }
        _ => None,
    });
    let Some((project, secret, version)) = version else {
        return Verb::Tpus.to("wait for the state named in the message; list what exists").into();
    };
    let add = Fix::command(
        "add a version with the token, which is read from standard input",
        format!("gcloud secrets versions add {secret} --project={project} --data-file=-"),
    );
    if message.contains("DESTROYED") {
        return add.into();
    }
    let line = format!("gcloud secrets versions enable {version} --secret={secret} --project={project}");
    Hint::from([Fix::command("enable it", line), add])
}
