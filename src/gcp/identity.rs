//! The login that was read: its file and type, and the command that renews that file.
//!
//! Sources: AIP-4110 (where credentials are searched), AIP-4117 (external accounts), and `gcloud help` of the commands.

use crate::model::command_line::shell_quote;
use crate::model::text::printable;
use crate::model::{Fix, Hint};
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};

/// Name of the file that `gcloud auth application-default login` writes in gcloud's directory.
pub(super) const FILE: &str = "application_default_credentials.json";

/// A login as it was read, without anything secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    source: CredentialSource,
    kind: Kind,
}

/// Where a login was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum CredentialSource {
    /// Provided by the caller.
    #[default]
    Given,
    /// The file of the setting `google_credentials`.
    Setting(PathBuf),
    /// The file of `GOOGLE_APPLICATION_CREDENTIALS`.
    Variable(PathBuf),
    /// gcloud's own file in the home directory.
    Home(PathBuf),
    /// gcloud's own file in the directory of `CLOUDSDK_CONFIG`.
    Folder(PathBuf),
    /// The metadata server of the machine we run on.
    Metadata,
}

impl CredentialSource {
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Setting(file) | Self::Variable(file) | Self::Home(file) | Self::Folder(file) => Some(file),
            Self::Given | Self::Metadata => None,
        }
    }
}

/// The types of a credentials file, by its `type`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// `authorized_user`: a person.
    Person,
    /// `service_account`: the key of a service account.
    ServiceAccount {
        /// Its address; empty when the file has none.
        email: String,
    },
    /// `impersonated_service_account`.
    Impersonated {
        /// The address of the service account.
        email: String,
        /// Whether a person impersonates it.
        by_person: bool,
    },
    /// `external_account`: a token of another identity provider is exchanged.
    External(External),
    /// Another type, or a file that cannot be read.
    Other(String),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// The options that `create-cred-config` was called with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct External {
    /// Where the other provider's token comes from.
    source: String,
    /// The command that writes the file, without `--output-file`; none when its options cannot be derived from the
    /// file.
    command: Option<String>,
}

impl Identity {
    /// A login whose file, if it has one, was not read.
    pub(super) fn at(source: CredentialSource) -> Self {
        Self { source, kind: Kind::default() }
    }

    /// The login of this file.
    pub(super) fn of(source: CredentialSource, file: &Value) -> Self {
        Self { source, kind: Kind::of(file) }
    }

    /// How to renew it.
    pub fn renewal(&self) -> Hint {
        match &self.kind {
            _ if self.source == CredentialSource::Metadata => {
                Hint::from("check that this machine has a service account with access scope cloud-platform")
                    .and(Fix::command("or log in yourself", "gcloud auth application-default login"))
            }
            Kind::Person | Kind::Other(_) | Kind::Impersonated { by_person: true, .. } => {
                self.log_in().into()
            }
            Kind::ServiceAccount { email } if email.is_empty() => {
                "save a new key of the service account to this file".into()
            }
            Kind::ServiceAccount { email } => {
                let file = self.file().map(shell).unwrap_or_default();
                let line = format!(
                    "gcloud iam service-accounts keys create {file} --iam-account={}",
                    shell_quote(email)
                );
                Fix::command("replace its key", line).into()
            }
            Kind::Impersonated { .. } => {
                "save a new key in `source_credentials` of this file, or replace it with user credentials"
                    .into()
            }
            Kind::External(external) => self.exchange(external),
        }
    }

    /// The command that sets the project to which this login's calls are charged.
    pub(super) fn charge(&self, project: &str, purpose: &str) -> Fix {
        let line = match (&self.source, &self.kind) {
            (CredentialSource::Home(_) | CredentialSource::Folder(_), Kind::Person) => {
                format!(
                    "{}gcloud auth application-default set-quota-project {}",
                    self.folder(),
                    shell_quote(project)
                )
            }
            _ => format!("export GOOGLE_CLOUD_QUOTA_PROJECT={}", shell_quote(project)),
        };
        Fix::command(purpose, line)
    }

    /// How to switch to another file, because this one cannot be used.
    pub(super) fn leave(&self) -> &'static str {
        match self.source {
            CredentialSource::Setting(_) => "correct or remove `google_credentials` in the settings",
            CredentialSource::Variable(_) | CredentialSource::Given => {
                "correct or unset GOOGLE_APPLICATION_CREDENTIALS"
            }
            CredentialSource::Folder(_) => "correct or unset CLOUDSDK_CONFIG",
            CredentialSource::Home(_) | CredentialSource::Metadata => "",
        }
    }

    /// Whether it is a user login, of which gcloud has two.
    pub(super) fn is_person(&self) -> bool {
        matches!(self.kind, Kind::Person | Kind::Other(_)) && self.source != CredentialSource::Metadata
    }

    /// Whether the token of another identity provider is exchanged.
    pub(super) fn is_external(&self) -> bool {
        matches!(self.kind, Kind::External(_))
    }

    fn file(&self) -> Option<&Path> {
        self.source.file()
    }

    /// The variable that makes gcloud use the same directory, as the start of a command line.
    fn folder(&self) -> String {
        match &self.source {
            CredentialSource::Folder(file) => {
                format!("CLOUDSDK_CONFIG={} ", file.parent().map(shell).unwrap_or_default())
            }
            _ => String::new(),
        }
    }

    /// The login command that writes this file. gcloud always writes into its configuration directory: for a file
    /// elsewhere it gets an empty directory, so that the user's other login is kept.
    fn log_in(&self) -> Fix {
        let mut login = "gcloud auth application-default login".to_owned();
        if let Kind::Impersonated { email, .. } = &self.kind {
            login = format!("{login} --impersonate-service-account={}", shell_quote(email));
        }
        let line = match &self.source {
            CredentialSource::Setting(file) | CredentialSource::Variable(file) => {
                format!("d=$(mktemp -d) && CLOUDSDK_CONFIG=$d {login} && mv $d/{FILE} {}", shell(file))
            }
            _ => format!("{}{login}", self.folder()),
        };
        Fix::command("log in to Google", line)
    }

    fn exchange(&self, external: &External) -> Hint {
        let renew =
            Hint::from(format!("renew the identity provider's token, which comes from {}", external.source));
        match (&external.command, self.file()) {
            (Some(command), Some(file)) => {
                let line = format!("{command} --output-file={}", shell(file));
                renew.and(Fix::command("or recreate this file", line))
            }
            _ => renew,
        }
    }
}

impl fmt::Display for Identity {
    /// Appended to a message: the type, the file, and the setting or variable that names the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match &self.source {
            CredentialSource::Given => return Ok(()),
            CredentialSource::Metadata => {
                return f
                    .write_str("; credentials: this machine's service account, from the metadata server");
            }
            CredentialSource::Home(_) => "",
            CredentialSource::Setting(_) => ", set by google_credentials",
            CredentialSource::Variable(_) => ", set by GOOGLE_APPLICATION_CREDENTIALS",
            CredentialSource::Folder(_) => ", in the directory CLOUDSDK_CONFIG",
        };
        let file =
            self.file().map(|file| printable(&file.to_string_lossy()).into_owned()).unwrap_or_default();
        match &self.kind {
            Kind::Other(kind) if kind.is_empty() => write!(f, "; credentials read from {file}{by}"),
            kind => write!(f, "; credentials read from {file} ({kind}{by})"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person => f.write_str("authorized_user"),
            Self::ServiceAccount { email } if email.is_empty() => f.write_str("service_account"),
            Self::ServiceAccount { email } => write!(f, "service_account {}", printable(email)),
            Self::Impersonated { email, .. } => {
                write!(f, "impersonated_service_account {}", printable(email))
            }
            Self::External(_) => f.write_str("external_account"),
            Self::Other(kind) => f.write_str(&printable(kind)),
        }
    }
}

impl Kind {
    fn of(file: &Value) -> Self {
        let text = |key: &str| file[key].as_str().unwrap_or_default();
        match text("type") {
            "authorized_user" => Self::Person,
            "service_account" => Self::ServiceAccount { email: text("client_email").into() },
            "impersonated_service_account" => Self::Impersonated {
                email: target(text("service_account_impersonation_url")).into(),
                by_person: file["source_credentials"]["type"] == "authorized_user",
            },
            "external_account" => Self::External(External::of(file)),
            other => Self::Other(other.into()),
        }
    }
}

impl External {
    fn of(file: &Value) -> Self {
        let source = &file["credential_source"];
        let text =
            |value: &Value, key: &str| value[key].as_str().filter(|t| !t.is_empty()).map(str::to_owned);
        let (name, option) = if let Some(path) = text(source, "file") {
            (format!("the file {path}"), Some(format!("--credential-source-file={}", shell_quote(&path))))
        } else if text(source, "environment_id").is_some() {
            ("the AWS environment".to_owned(), Some("--aws".to_owned()))
        } else if let Some(url) = text(source, "url") {
            // Headers may contain a secret, which must not appear in a command line.
            let plain = source["headers"].as_object().is_none_or(serde_json::Map::is_empty);
            (
                format!("the address {url}"),
                plain.then(|| format!("--credential-source-url={}", shell_quote(&url))),
            )
        } else if let Some(command) = text(&source["executable"], "command") {
            (
                format!("the command {command}"),
                Some(format!("--executable-command={}", shell_quote(&command))),
            )
        } else {
            ("its `credential_source`".to_owned(), None)
        };
        let command = option.and_then(|option| {
            let audience = text(file, "audience")?;
            let audience =
                audience.rsplit_once("iam.googleapis.com/").map_or(audience.as_str(), |(_, path)| path);
            let (pools, user) = if audience.contains("/workforcePools/") {
                let project = text(file, "workforce_pool_user_project")?;
                ("workforce-pools", format!(" --workforce-pool-user-project={}", shell_quote(&project)))
            } else {
                ("workload-identity-pools", String::new())
            };
            let account = text(file, "service_account_impersonation_url");
            let further = [
                ("service-account", account.as_deref().map(target).map(str::to_owned)),
                ("subject-token-type", text(file, "subject_token_type").filter(|_| option != "--aws")),
                ("credential-source-type", text(&source["format"], "type")),
                ("credential-source-field-name", text(&source["format"], "subject_token_field_name")),
            ];
            let further: String = further
                .into_iter()
                .filter_map(|(name, value)| Some(format!(" --{name}={}", shell_quote(&value?))))
                .collect();
            Some(format!(
                "gcloud iam {pools} create-cred-config {} {option}{user}{further}",
                shell_quote(audience)
            ))
        });
        Self { source: printable(&name).into_owned(), command }
    }
}

/// The service account in `…/serviceAccounts/EMAIL:generateAccessToken`.
fn target(url: &str) -> &str {
    let email = url.rsplit('/').next().unwrap_or_default();
    email.strip_suffix(":generateAccessToken").unwrap_or(email)
}

fn shell(path: &Path) -> String {
    shell_quote(&path.to_string_lossy())
}
