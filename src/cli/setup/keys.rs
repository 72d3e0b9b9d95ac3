//! Checks the private keys named in the cluster files, and the secrets that contain them.

use super::given::Setup;
use super::report::{Check, Status};
use crate::cli::tool;
use crate::config;
use crate::gcp::SecretVersion;
use crate::model::command_line::shell_quote;
use crate::model::{ClusterSpec, Fix, HeadAddress, Hint, Secret, SecretName};
use crate::supervisor::{self, KeyFault};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const NAME: &str = "ssh-key";

/// A check of each key file that a cluster names.
pub(super) async fn checks(setup: &Setup) -> Vec<Check> {
    let mut keys: BTreeMap<&Path, Option<SecretName>> = BTreeMap::new();
    let by_ssh = |spec: &&ClusterSpec| !matches!(spec.head, HeadAddress::Direct { .. });
    for spec in setup.clusters.iter().filter(by_ssh) {
        if let Some(key) = &spec.auth.private_key {
            let secret = keys.entry(key).or_default();
            *secret = secret.take().or_else(|| setup.config.settings.key_secret(spec));
        }
    }
    if keys.is_empty() {
        return vec![Check::new(
            NAME,
            "",
            Status::NotNeeded,
            "no cluster file sets a key: ssh uses your own",
        )];
    }
    let mut checks = Vec::new();
    for (key, secret) in keys {
        setup.progress.show(format!("checking {}", key.display()));
        checks.push(Key { setup, file: key, secret }.check().await);
    }
    checks
}

/// A key file, and the secret that contains the key.
struct Key<'a> {
    setup: &'a Setup,
    file: &'a Path,
    secret: Option<SecretName>,
}

impl Key<'_> {
    async fn check(&self) -> Check {
        match supervisor::inspect_key(self.file).await {
            Ok(()) => self.compared(Status::Ok, "a private key with safe permissions").await,
            Err((KeyFault::Missing, problem)) => {
                if let Some(secret) = &self.secret {
                    return self.fetched(secret).await;
                }
                let hint = "get it from a colleague, or set the secret that contains it: `ssh_key_secret` in the \
                            settings, or --key-secret";
                self.needs(&problem.what, hint)
            }
            Err((KeyFault::TooOpen(mode), problem)) if self.setup.fixes => {
                match fs::set_permissions(self.file, Permissions::from_mode(0o600)) {
                    Ok(()) => self.again(mode).await,
                    Err(e) => {
                        self.needs(format!("{}; it cannot be changed: {e}", problem.what), problem.hint)
                    }
                }
            }
            Err((KeyFault::Locked, _)) => {
                self.is(Status::Ok, "a key with a passphrase, which must be loaded in ssh-agent")
            }
            Err((_, problem)) => self.needs(problem.what, problem.hint),
        }
    }

    /// Checks the key again after its permissions were restricted.
    async fn again(&self, mode: u32) -> Check {
        match supervisor::inspect_key(self.file).await {
            Ok(()) | Err((KeyFault::Locked, _)) => {
                self.compared(Status::Fixed, &format!("permissions corrected: the mode was {mode:04o}")).await
            }
            Err((_, problem)) => self.needs(problem.what, problem.hint),
        }
    }

    /// Compares a usable key with that of the secret.
    async fn compared(&self, status: Status, what: &str) -> Check {
        let Some(secret) = &self.secret else { return self.is(status, what) };
        match self.latest(secret).await {
            Ok(SecretVersion { version, value }) if !is_same(self.file, &value) => {
                let what = format!("differs from version {version} of secret {secret}; it was not changed");
                let file = shell_quote(&self.file.to_string_lossy());
                let line = format!("mv {file} {file}.old && {}", self.setup.again);
                self.needs(
                    what,
                    Fix::command("if the secret has the correct key, move yours away and fetch it", line),
                )
            }
            Ok(SecretVersion { version, .. }) => {
                self.is(status, format!("{what}; version {version} of secret {secret}"))
            }
            Err(check) => self.is(status, format!("{what}; not compared: {}", check.what())),
        }
    }

    /// Fetches the key from the secret into the file, which does not exist.
    async fn fetched(&self, secret: &SecretName) -> Check {
        let SecretVersion { version, value } = match self.latest(secret).await {
            Ok(latest) => latest,
            Err(check) => return check,
        };
        let which = format!("version {version} of secret {secret}");
        if !self.setup.fixes {
            let fix = Fix::command("fetch it", &self.setup.again);
            return self.needs(format!("does not exist; {which} can be fetched"), fix);
        }
        // OpenSSH refuses a key without a line break at the end.
        let value = Secret::new(format!("{}\n", value.expose().trim_end()));
        match is_key(&value).await {
            Ok(true) => {}
            Ok(false) => {
                let project = shell_quote(secret.project.as_deref().unwrap_or_default());
                let line = format!(
                    "gcloud secrets versions add {} --project={project} --data-file=-",
                    shell_quote(&secret.name)
                );
                let purpose = "add a version with the private key, which is read from standard input";
                return self
                    .needs(format!("{which} does not contain a private key"), Fix::command(purpose, line));
            }
            Err(e) => return self.needs(format!("cannot check {which}: {e}"), Hint::none()),
        }
        match config::write_first(self.file, &value) {
            Ok(()) => self.is(Status::Fixed, format!("fetched {which}")),
            Err(e) => self.needs(format!("cannot be written: {e}"), "make its directory writable"),
        }
    }

    async fn latest(&self, secret: &SecretName) -> Result<SecretVersion, Check> {
        let Some(project) = &secret.project else {
            let hint = "set `project` of the cluster in the settings";
            return Err(self.needs(format!("the project of secret {secret} is unknown"), hint));
        };
        self.setup.progress.show(format!("reading secret {secret}"));
        let latest = self.setup.google.latest_version(project, &secret.name).await;
        latest.map_err(|e| self.needs(format!("cannot fetch secret {secret}: {e}"), e.hint()))
    }

    fn is(&self, status: Status, what: impl Into<String>) -> Check {
        Check::new(NAME, self.file.display().to_string(), status, what)
    }

    fn needs(&self, what: impl Into<String>, hint: impl Into<Hint>) -> Check {
        Check::needs(NAME, self.file.display().to_string(), what, hint)
    }
}

/// Whether the file contains this key, ignoring blanks at the end.
fn is_same(file: &Path, key: &Secret) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.trim_end() == key.expose().trim_end())
}

/// Whether ssh could load the key, which is briefly written to a directory that only this user can access.
async fn is_key(key: &Secret) -> std::io::Result<bool> {
    let folder = tool::private_folder()?;
    let file = folder.path().join("key");
    config::write_first(&file, key)?;
    let inspected = supervisor::inspect_key(&file).await;
    Ok(matches!(inspected, Ok(()) | Err((KeyFault::Locked, _))))
}
