//! The environment of operations: the clusters and their connections, the settings, our directories, and the operator.

use super::audit::Audit;
use crate::config::Env;
use crate::model::{ClusterName, ClusterSpec};
use crate::supervisor::{Connection, Options};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The environment of all operations of this program.
#[derive(Clone)]
pub struct Environment {
    /// The clusters, in the order of the list.
    pub clusters: Vec<ClusterSpec>,
    /// The connection of each cluster's task.
    pub connections: BTreeMap<ClusterName, Connection>,
    /// Connection options.
    pub options: Options,
    /// Our state directory, with journals and backups.
    pub state: PathBuf,
    /// Variables and the directory for resolving paths and variables of jobs.
    pub env: Env,
    /// The operator's name, in the form that jobs name their owners.
    pub me: String,
    /// The audit log.
    pub audit: Audit,
    /// Whether all changes are refused.
    pub read_only: bool,
}

impl Environment {
    /// The connection of a cluster's task; a closed one if the cluster has none.
    pub(super) fn connection(&self, cluster: &ClusterName) -> Connection {
        self.connections.get(cluster).cloned().unwrap_or_else(|| Connection::closed(cluster.clone()))
    }
}
