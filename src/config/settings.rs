//! The settings file. Everything in it is optional.

use super::vitals::VitalSettings;
use super::yaml::{self, FileError};
use super::{Env, nearest::nearest};
use crate::model::sort;
use crate::model::{ClusterSpec, HostName, SecretName, authority};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every setting with its default, ready to be saved (`marin-tui print-settings`).
pub const DEFAULTS: &str = include_str!("../../assets/config.yaml");

/// Selects the theme that suits the terminal's background.
pub const AUTO_THEME: &str = "auto";

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Directories or files with Ray cluster YAML.
    pub infra: Vec<PathBuf>,
    /// Overrides of the cluster files, by `cluster_name`.
    pub clusters: BTreeMap<String, Override>,
    pub ssh: PathBuf,
    /// `ssh -F`.
    pub ssh_config: Option<PathBuf>,
    /// The ray command and its leading arguments.
    pub ray: Vec<String>,
    /// Seconds between two refreshes of the cluster on the screen.
    pub refresh_seconds: f64,
    /// Seconds between two refreshes of the other clusters.
    pub background_refresh_seconds: f64,
    /// Poll interval of Google Cloud for a cluster's TPUs, in seconds; 0 disables it.
    pub cloud_refresh_seconds: u64,
    /// Secret that holds the Ray token of `gcp` clusters whose file names none.
    pub token_secret: String,
    /// Secret that holds the private key of clusters, which `setup` fetches when the key file is missing.
    pub ssh_key_secret: Option<String>,
    /// How capacity is requested when a worker is added; missing entries have the values of [`DEFAULTS`].
    pub tpu_capacity: BTreeMap<String, CapacityField>,
    /// Whether every change to a cluster is refused.
    pub read_only: bool,
    /// Base URL of Google's APIs in place of `https://SERVICE.googleapis.com`.
    pub google_endpoint: Option<String>,
    /// File with Google credentials in place of the application-default ones.
    pub google_credentials: Option<PathBuf>,
    /// Days after which a backup of jobs is offered for deletion; 0 means never.
    pub backup_days: u64,
    /// Thresholds from which the vitals of jobs are findings.
    pub vitals: VitalSettings,
    /// Maximum memory for the lines of one open log, in megabytes.
    pub log_memory_mb: u32,
    /// Regular expressions for progress lines, in addition to those of common trainers.
    pub progress_patterns: Vec<String>,
    /// Keys by action, in place of the default ones.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Columns of the console's tables, by table, in place of the default ones.
    pub columns: BTreeMap<String, Vec<String>>,
    /// The console's theme: `auto`, a built-in one, a file in the directory `themes`, or a path.
    pub theme: String,
    /// Whether the console shows ASCII only.
    pub plain: bool,
}

/// How one kind of capacity is requested.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityField {
    /// Version of the Cloud TPU API.
    pub api: TpuVersion,
    /// Fields of the queued resource; `{project}` and `{zone}` in their strings are replaced.
    pub field: serde_json::Map<String, serde_json::Value>,
}

/// A version of the Cloud TPU API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TpuVersion {
    /// The stable version.
    V2,
    /// The version with best effort and flex-start.
    V2Alpha1,
}

/// The settings' overrides of one cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Override {
    /// Host name, address or ssh alias of the head.
    pub address: Option<HostName>,
    pub user: Option<String>,
    pub port: Option<u16>,
    /// Private key file.
    pub key: Option<PathBuf>,
    /// Secret that holds its Ray token, when its file names none.
    pub token_secret: Option<String>,
    /// Secret that holds its private key.
    pub ssh_key_secret: Option<String>,
    /// Google Cloud project, when its file names none.
    pub project: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            infra: Vec::new(),
            clusters: BTreeMap::new(),
            ssh: "ssh".into(),
            ssh_config: None,
            ray: vec!["ray".into()],
            refresh_seconds: 2.0,
            background_refresh_seconds: 15.0,
            cloud_refresh_seconds: 60,
            token_secret: "RAY_AUTH_TOKEN".into(),
            ssh_key_secret: None,
            tpu_capacity: capacities(),
            read_only: false,
            google_endpoint: None,
            google_credentials: None,
            backup_days: 30,
            vitals: VitalSettings::default(),
            log_memory_mb: 64,
            progress_patterns: Vec::new(),
            keys: BTreeMap::new(),
            columns: BTreeMap::new(),
            theme: AUTO_THEME.into(),
            plain: false,
        }
    }
}

/// The fields of the API's discovery documents, `tpu` v2 and v2alpha1 of October 2026. Flex-start runs for at most
/// seven days.
fn capacities() -> BTreeMap<String, CapacityField> {
    let reservation = "projects/{project}/locations/{zone}/reservations/-";
    let flex = json!({"provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "604800s"}});
    let all = [
        ("best-effort", TpuVersion::V2Alpha1, json!({"bestEffort": {}})),
        ("flex-start", TpuVersion::V2Alpha1, flex),
        ("preemptible", TpuVersion::V2, json!({"spot": {}})),
        ("reserved", TpuVersion::V2, json!({"reservationName": reservation})),
    ];
    sort::collected(all.into_iter().map(|(name, api, field)| {
        let field = field.as_object().cloned().unwrap_or_default();
        (name.to_owned(), CapacityField { api, field })
    }))
}

impl Settings {
    /// How each kind of capacity is requested, by name.
    pub fn capacities(&self) -> BTreeMap<String, CapacityField> {
        let mut all = capacities();
        all.extend(self.tpu_capacity.clone());
        all
    }

    /// The settings file that is read when the command line names none.
    pub fn file(env: &Env) -> PathBuf {
        super::Folders::new(env).config.join("config.yaml")
    }

    /// Reads `file`, or the platform's settings file if there is one.
    pub fn read(file: Option<&Path>, env: &Env) -> Result<Self, FileError> {
        let Some(path) = Self::file_to_read(file, env) else { return Ok(Self::default()) };
        let text = yaml::read(&path)?;
        if yaml::is_empty(&text) {
            return Ok(Self::default());
        }
        let mut settings: Self = yaml::parse(&text, &path).map_err(with_hint)?;
        settings.google_credentials = settings.google_credentials.map(|file| env.expand(&file));
        settings.check_numbers(&path)?;
        settings.check_google(&path)?;
        if settings.ray.is_empty() {
            return Err(FileError::new(
                &path,
                "`ray` is empty",
                "write a command, e.g. `[ray]` or `[uv, run, ray]`",
            ));
        }
        Ok(settings)
    }

    /// The settings file to read; `None` means that there is none, and the defaults apply.
    fn file_to_read(file: Option<&Path>, env: &Env) -> Option<PathBuf> {
        if let Some(named) = file {
            return Some(env.expand(named));
        }
        // Without a home directory the settings file would be in the working directory.
        if env.home().is_none() && env.var("XDG_CONFIG_HOME").is_none() {
            return None;
        }
        Some(Self::file(env)).filter(|default| default.is_file())
    }

    fn check_numbers(&self, path: &Path) -> Result<(), FileError> {
        let sane = |s: f64| (0.2..=3600.0).contains(&s);
        if !sane(self.refresh_seconds) || !sane(self.background_refresh_seconds) {
            let hint = "write a number of seconds between 0.2 and 3600";
            return Err(FileError::new(path, "a refresh interval is out of range", hint));
        }
        if !(1..=65_536).contains(&self.log_memory_mb) {
            let hint = "write a number of megabytes between 1 and 65536";
            return Err(FileError::new(path, "`log_memory_mb` is out of range", hint));
        }
        if let Some(key) = self.vitals.wrong() {
            let hint = "use a whole number (0: never); at least 5 seconds, and less than 100 percent";
            return Err(FileError::new(path, format!("`vitals.{key}` is out of range"), hint));
        }
        if !matches!(self.cloud_refresh_seconds, 0 | 10..=86_400) {
            let hint = "write a number of seconds between 10 and 86400, or 0 for never";
            return Err(FileError::new(path, "`cloud_refresh_seconds` is out of range", hint));
        }
        Ok(())
    }

    /// Checks the settings for Google Cloud: names of secrets, the endpoint, kinds of capacity.
    fn check_google(&self, path: &Path) -> Result<(), FileError> {
        if let Some((key, name)) = self.secrets().find(|(_, name)| !SecretName::is_name(name)) {
            let hint = "use its short name: letters, digits, - and _; set the project in `project`";
            return Err(FileError::new(path, format!("`{key}: {name}` is not a secret name"), hint));
        }
        if let Some(url) = &self.google_endpoint {
            let host = ["https://", "http://"].iter().find_map(|s| url.strip_prefix(s));
            let host = host.map(|rest| rest.split('/').next().unwrap_or(rest));
            if host.is_none_or(|host| authority(host).is_err()) {
                let hint = "write it as https://HOST or http://HOST:PORT";
                return Err(FileError::new(path, format!("`google_endpoint: {url}` is not a URL"), hint));
            }
        }
        let known = capacities();
        if let Some(name) = self.tpu_capacity.keys().find(|n| !known.contains_key(*n)) {
            let names = known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let why = format!("unknown capacity `tpu_capacity.{name}`");
            return Err(FileError::new(path, why, format!("use {names}")));
        }
        Ok(())
    }

    /// All names of secrets, each with its setting.
    fn secrets(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let own = self.clusters.values();
        let own =
            own.flat_map(|c| [("token_secret", &c.token_secret), ("ssh_key_secret", &c.ssh_key_secret)]);
        let own = own.chain([("ssh_key_secret", &self.ssh_key_secret)]);
        own.filter_map(|(key, name)| Some((key, name.as_ref()?)))
            .chain([("token_secret", &self.token_secret)])
    }

    /// The secret that holds a cluster's private key, in the cluster's project; `None` if the settings name none.
    pub fn key_secret(&self, spec: &ClusterSpec) -> Option<SecretName> {
        let own = self.clusters.get(spec.name.as_str()).and_then(|c| c.ssh_key_secret.as_ref());
        let name = own.or(self.ssh_key_secret.as_ref())?.clone();
        Some(SecretName { project: spec.google.project.clone(), name })
    }

    /// Maximum memory for the lines of one open log, in bytes.
    pub fn log_memory(&self) -> usize {
        self.log_memory_mb as usize * 1_000_000
    }

    /// The age from which a backup of jobs is offered for deletion; `None` means never.
    pub fn backup_age(&self) -> Option<Duration> {
        let seconds = self.backup_days.saturating_mul(24 * 3600);
        Some(Duration::from_secs(seconds)).filter(|d| !d.is_zero())
    }

    /// Time between two refreshes of the cluster on the screen.
    pub fn refresh(&self) -> Duration {
        Duration::from_secs_f64(self.refresh_seconds)
    }

    /// Time between two refreshes of the other clusters.
    pub fn background_refresh(&self) -> Duration {
        Duration::from_secs_f64(self.background_refresh_seconds)
    }

    /// Poll interval of Google Cloud; `None` means that it is disabled.
    pub fn cloud_refresh(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.cloud_refresh_seconds)).filter(|d| !d.is_zero())
    }
}

/// The hint for a file that does not seem to be a settings file.
const OTHER_FILE: &str = "run `marin-tui print-settings` to list all settings, e.g. `infra` and `refresh_seconds`; a \
                          cluster file has `cluster_name` and `provider`";

/// Turns serde's "unknown field `x`, expected one of `a`, `b`" into a suggestion of the nearest name.
fn with_hint(mut e: FileError) -> FileError {
    let mut quoted = e.why.split('`').skip(1).step_by(2);
    if let (true, Some(word)) = (e.why.contains("unknown field"), quoted.next()) {
        let known: Vec<&str> = quoted.collect();
        let hint = nearest(word, known.iter().copied());
        e.hint = match hint {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => OTHER_FILE.into(),
        };
        e.why = format!("unknown setting `{word}`");
    } else if e.why.contains("expected struct Settings") {
        (e.why, e.hint) = ("has no settings".into(), OTHER_FILE.into());
    }
    e
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, FileError> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        std::fs::write(&file, text).unwrap();
        Settings::read(Some(&file), &Env::default())
    }

    #[test]
    fn the_printed_settings_are_the_defaults() {
        assert_eq!(format!("{:?}", read(DEFAULTS).unwrap()), format!("{:?}", Settings::default()));
    }

    #[test]
    fn a_mistyped_setting_is_reported_with_the_nearest_name() {
        let e = read("ray: [ray]\nrefresh_second: 3\n").unwrap_err();
        assert!(e.what().contains(":2:1: unknown setting `refresh_second`"), "{}", e.what());
        assert_eq!(e.hint, "did you mean `refresh_seconds`?");
        assert!(read("clusters: {a: {adress: x}}").unwrap_err().hint.contains("address"));
        assert!(read("refresh_seconds: 0").is_err());
        assert!(read("cloud_refresh_seconds: 1").is_err());
        assert!(read("cloud_refresh_seconds: 0").unwrap().cloud_refresh().is_none());
        assert!(read("ray: []").is_err());
        assert!(read("log_memory_mb: 0").is_err());
        assert_eq!(read("log_memory_mb: 2").unwrap().log_memory(), 2_000_000);
    }

    #[test]
    fn a_duplicate_setting_is_an_error_at_the_second_place() {
        for (text, at) in [
            ("plain: true\ninfra: []\nplain: false\n", (3, 1)),
            ("clusters:\n  a: {user: x}\n  b: {user: y}\n  a: {port: 1}\n", (4, 3)),
            ("clusters:\n  a:\n    user: x\n    port: 1\n    user: y\n", (5, 5)),
            ("keys:\n  quit: [q]\n  quit: [x]\n", (3, 3)),
            ("columns: {jobs: [status], jobs: [owner]}\n", (1, 27)),
            ("x: &x {user: a}\nclusters:\n  a: {<<: *x}\n  a: {}\n", (4, 3)),
        ] {
            let e = read(text).unwrap_err();
            assert_eq!((e.at, e.hint.as_str()), (Some(at), "remove one of the two"), "{text}: {e}");
        }
    }

    #[test]
    fn a_secret_is_named_by_its_short_name() {
        for key in ["token_secret", "ssh_key_secret"] {
            for text in [format!("{key}: projects/p/secrets/s"), format!("clusters: {{a: {{{key}: a b}}}}")] {
                let e = read(&text).unwrap_err();
                assert!(
                    e.why.contains(&format!("`{key}: ")) && e.why.contains("is not a secret name"),
                    "{e}"
                );
            }
        }
        assert_eq!(read("ssh_key_secret: KEY").unwrap().ssh_key_secret.as_deref(), Some("KEY"));
    }

    #[test]
    fn invalid_hosts_are_reported_with_their_line() {
        let e = read("clusters:\n  a:\n    user: me\n    address: me@host\n").unwrap_err();
        assert!(e.what().contains(":4:") && e.what().contains("contains a user"), "{}", e.what());
        assert!(read("clusters: {a: {address: -oProxyCommand=x}}").is_err());
        for bad in ["evil", "ftp://h", "http://u@h", "http://", "https://h:x"] {
            assert!(read(&format!("google_endpoint: '{bad}'")).is_err(), "{bad}");
        }
        assert!(read("google_endpoint: 'http://127.0.0.1:9/'").is_ok());
        let e = read("google_endpoint: 'https://me:hunter2@h'").unwrap_err().to_string();
        assert!(e.contains("https://me:***@h") && !e.contains("hunter2"), "{e}");
    }

    #[test]
    fn a_settings_file_that_was_named_must_exist() {
        assert!(Settings::read(Some(Path::new("/nowhere.yaml")), &Env::default()).is_err());
        assert!(Settings::read(None, &Env::new(&[("HOME", "/nowhere")], "/")).is_ok());
    }
}
