//! Options for all clusters' tasks, and what a front end can access directly.

use super::lock::OwnLocks;
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

/// Options for all clusters' tasks.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the ssh program.
    pub ssh: PathBuf,
    /// `ssh -F`; with `None` the user's own configuration applies.
    pub ssh_config: Option<PathBuf>,
    /// The ray command, e.g. `["uv", "run", "ray"]`: asks for a head's address, and runs `ray up` and `ray down`.
    pub ray: Vec<String>,
    /// Refresh interval of the cluster on the screen.
    pub focused: Duration,
    /// Refresh interval of the other clusters.
    pub background: Duration,
    /// Path of our `known_hosts` file.
    pub known_hosts: PathBuf,
    /// Directory for control sockets, accessible only to this user.
    pub run_dir: PathBuf,
    /// Where to look for tokens.
    pub token: token::TokenSources,
    /// Google Cloud: secrets, heads, TPUs.
    pub google: Google,
    /// Cached answers from Google about zones that clusters share.
    pub zones: Zones,
    /// Poll interval for a cluster's TPUs; `None` if they are not queried.
    pub cloud_refresh: Option<Duration>,
    /// How to request each kind of capacity when adding a worker, by its word.
    pub tpu_capacity: BTreeMap<String, CapacityField>,
    /// How often the vitals of jobs are read, and the thresholds of their findings.
    pub vitals: VitalLimits,
    /// The patterns of progress lines.
    pub patterns: Patterns,
    /// Writes actions on clusters to the audit log.
    pub note: AuditSink,
    /// The operator as `user@host`, which other operators see in the lock of an operation.
    pub who: String,
    /// The locks that this process has placed.
    pub own_locks: OwnLocks,
}

type Write = dyn Fn(&ClusterName, &str, &str) + Send + Sync;

/// Callback that writes an action to the audit log: cluster, action, outcome. The default does nothing.
#[derive(Clone, Default)]
pub struct AuditSink(Option<Arc<Write>>);

impl AuditSink {
    /// Calls this function for each audited action.
    pub fn by(write: impl Fn(&ClusterName, &str, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(write)))
    }

    /// Records an action on a cluster and its outcome.
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
    pub fn new(settings: &Settings, folders: &Folders, token: token::TokenSources) -> Self {
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
            own_locks: OwnLocks::default(),
        }
    }
}

/// Google Cloud according to the settings. No request is sent before it is needed.
pub fn google(settings: &Settings) -> Google {
    let endpoints = settings.google_endpoint.as_deref().map(Endpoints::all_at).unwrap_or_default();
    let login = settings.google_credentials.clone().map_or_else(Login::application_default, Login::file);
    Google::new(endpoints, login)
}

/// What a front end can access directly.
#[derive(Clone, Default)]
pub struct Reach {
    /// How to log in to its head.
    pub login: Option<TunnelSpec>,
}
