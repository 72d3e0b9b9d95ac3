//! What every cluster's task is told at its start, and what a front end gets at directly.

use super::mark::OwnMarks;
use super::zones::Zones;
use crate::config::{CapacityField, Folders, Settings};
use crate::gcp::{Endpoints, Google, Login};
use crate::logs::Patterns;
use crate::model::{ClusterName, VitalLimits};
use crate::ssh::TunnelSpec;
use crate::token;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Variables of ours that no child may inherit.
pub const SECRET_VARIABLES: [&str; 2] = ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"];

/// What every cluster's task needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the ssh program.
    pub ssh: PathBuf,
    /// `ssh -F`; none leaves the user's own configuration in force.
    pub ssh_config: Option<PathBuf>,
    /// The ray command, e.g. `["uv", "run", "ray"]`; run only to ask for a head's address.
    pub ray: Vec<String>,
    /// Time between two refreshes of the cluster on the screen.
    pub focused: Duration,
    /// The same for the others.
    pub background: Duration,
    /// Path of our `known_hosts` file.
    pub known_hosts: PathBuf,
    /// Folder for control sockets, ours alone.
    pub run_dir: PathBuf,
    /// Where tokens are looked for.
    pub token: token::Places,
    /// Google Cloud: secrets, heads, TPUs.
    pub google: Google,
    /// What Google was asked about zones that clusters share.
    pub zones: Zones,
    /// Time between two questions about a cluster's TPUs; none: they are not asked about.
    pub cloud_refresh: Option<Duration>,
    /// How capacity is asked for when a worker is added, by its word.
    pub tpu_capacity: BTreeMap<String, CapacityField>,
    /// How often the vitals of jobs are read, and from when on they are findings.
    pub vitals: VitalLimits,
    /// The patterns by which progress lines are known.
    pub patterns: Patterns,
    /// Writes down what is done to clusters.
    pub note: AuditSink,
    /// Who operates, `user@host`: other operators read it in the mark of an operation.
    pub who: String,
    /// The marks that this process has placed.
    pub own_marks: OwnMarks,
}

type Write = dyn Fn(&ClusterName, &str, &str) + Send + Sync;

/// Callback that writes an action to the audit log: cluster, action, outcome. The default does nothing.
#[derive(Clone, Default)]
pub struct AuditSink(Option<Arc<Write>>);

impl AuditSink {
    /// A note that calls this function for each audited action.
    pub fn by(write: impl Fn(&ClusterName, &str, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(write)))
    }

    /// Writes down what was done to a cluster, and how it came out.
    pub(super) fn record(&self, cluster: &ClusterName, what: &str, outcome: &str) {
        if let Some(note) = &self.0 {
            note(cluster, what, outcome);
        }
    }
}

impl std::fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditSink")
    }
}

impl Options {
    /// Options from the settings.
    pub fn new(settings: &Settings, folders: &Folders, token: token::Places) -> Self {
        Self {
            ssh: settings.ssh.clone(),
            ssh_config: settings.ssh_config.clone(),
            ray: settings.ray.clone(),
            focused: settings.refresh(),
            background: settings.background_refresh(),
            known_hosts: folders.state.join("known_hosts"),
            run_dir: folders.run.clone(),
            token,
            google: google(settings),
            zones: Zones::default(),
            cloud_refresh: settings.cloud_refresh(),
            tpu_capacity: settings.capacities(),
            vitals: settings.vitals.limits(),
            patterns: Patterns::default(),
            note: AuditSink::default(),
            who: "unknown".to_owned(),
            own_marks: OwnMarks::default(),
        }
    }
}

/// Google Cloud as the settings have it. Nothing is asked before it is needed.
pub fn google(settings: &Settings) -> Google {
    let endpoints = settings.google_endpoint.as_deref().map(Endpoints::all_at).unwrap_or_default();
    let login = settings.google_credentials.clone().map_or_else(Login::application_default, Login::file);
    Google::new(endpoints, login)
}

/// How a front end gets at a cluster directly.
#[derive(Clone, Default)]
pub struct Reach {
    /// How to log in to its head.
    pub login: Option<TunnelSpec>,
}
