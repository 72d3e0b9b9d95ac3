//! What operations need to know of the world: the clusters and their connections, the settings, our folders, and who
//! operates.

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
    /// Our state folder: journals, backups.
    pub state: PathBuf,
    /// Variables and folder that paths and variables of jobs are read in.
    pub env: Env,
    /// Who operates, as jobs name their owners.
    pub me: String,
    /// Where it is written down who did what.
    pub audit: Audit,
    /// Nothing may be changed on any cluster.
    pub read_only: bool,
}

impl Environment {
    /// The connection of a cluster's task; one that is closed where the cluster has none.
    pub(super) fn connection(&self, cluster: &ClusterName) -> Connection {
        self.connections.get(cluster).cloned().unwrap_or_else(|| Connection::closed(cluster.clone()))
    }
}
