//! The autoscaler's report: nodes by type, pending nodes, unmet demands and failed launches.

use super::{Text, Timestamp};

/// The autoscaler version that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerVersion {
    /// The legacy one; its report carries its own time.
    V1,
    /// The default since Ray 2.50; its text report pretends to be fresh even when the monitor is dead.
    V2,
    /// None runs (a cluster started by hand), or it has not reported yet.
    None,
}

/// Nodes of one type against its limits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeTypeCount {
    /// Name of the node type, as in the cluster file.
    pub name: Text,
    /// `min_workers` of the YAML; `None` when no YAML is known.
    pub min: Option<u32>,
    /// `max_workers` of the YAML.
    pub max: Option<u32>,
    /// Nodes that are alive.
    pub active: u32,
    /// Alive with nothing to do (v1 counts these as active).
    pub idle: u32,
    /// Machine there, Ray not yet.
    pub pending: u32,
    /// Asked of the provider, no machine yet.
    pub launching: u32,
    /// Recent failed launches.
    pub failed: u32,
}

/// A node on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingNode {
    /// Name of the node type.
    pub node_type: Text,
    /// Address or instance id of the node.
    pub address: Text,
    /// What it is doing (`setting-up`); v2 often says nothing.
    pub status: Text,
}

/// Where a demand comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DemandKind {
    /// Tasks and actors that wait.
    Task,
    /// A placement group, with its strategy or details.
    Group(Text),
    /// A request by `request_resources()`.
    Request,
}

/// Resources that are requested but not available.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// One bundle: resource name and amount, by name. A group's bundles are summed.
    pub shape: Vec<(Text, f64)>,
    /// Number of such requests.
    pub count: u64,
    /// What the request comes from.
    pub kind: DemandKind,
    /// No node type can satisfy the demand (reported by v2 only).
    pub infeasible: bool,
}

/// A failed launch of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFailure {
    /// Name of the node type.
    pub node_type: Text,
    /// Number of nodes.
    pub count: u32,
    /// The provider's error message.
    pub reason: Text,
    /// Time of the latest attempt.
    pub at: Option<Timestamp>,
}

/// The autoscaler's report.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaler {
    /// The autoscaler version.
    pub version: AutoscalerVersion,
    /// When it last worked through its loop; `None` when that cannot be known from this channel.
    pub reported: Option<Timestamp>,
    /// Counts by node type, busiest first.
    pub types: Vec<NodeTypeCount>,
    /// Nodes that are launching.
    pub pending: Vec<PendingNode>,
    /// Unmet demands, largest first.
    pub demands: Vec<Demand>,
    /// Recent failures, newest first.
    pub failures: Vec<LaunchFailure>,
    /// An error the autoscaler reported about itself (v1's `autoscalingError`); empty when none.
    pub error: Text,
}

impl Default for Autoscaler {
    fn default() -> Self {
        Self {
            version: AutoscalerVersion::None,
            reported: None,
            types: Vec::new(),
            pending: Vec::new(),
            demands: Vec::new(),
            failures: Vec::new(),
            error: Text::default(),
        }
    }
}
