//! The autoscaler's report: nodes by type, pending nodes, unmet demands and failed launches.

use super::{Text, Timestamp};

/// The autoscaler version that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerVersion {
    /// The legacy version; its report contains its own timestamp.
    V1,
    /// The default since Ray 2.50; its text report looks current even if the monitor is dead.
    V2,
    /// No autoscaler is running (a manually started cluster), or it has not reported yet.
    None,
}

/// Node counts of one type, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeTypeCount {
    /// Name of the node type, as in the cluster file.
    pub name: Text,
    /// `min_workers` of the YAML; `None` without a YAML.
    pub min: Option<u32>,
    /// `max_workers` of the YAML.
    pub max: Option<u32>,
    /// Number of live nodes.
    pub active: u32,
    /// Number of live but idle nodes (v1 counts these as active).
    pub idle: u32,
    /// Number of machines that exist but have not joined Ray.
    pub pending: u32,
    /// Number of nodes requested from the provider that have no machine yet.
    pub launching: u32,
    /// Number of recent failed launches.
    pub failed: u32,
}

/// A pending node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingNode {
    /// Name of the node type.
    pub node_type: Text,
    /// Address or instance id of the node.
    pub address: Text,
    /// Its status (`setting-up`); often empty with v2.
    pub status: Text,
}

/// Source of a demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DemandKind {
    /// Pending tasks and actors.
    Task,
    /// A placement group, with its strategy or details.
    Group(Text),
    /// A call of `request_resources()`.
    Request,
}

/// Resources that are requested but not available.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// One bundle: resource names and amounts, sorted by name. The bundles of a group are summed.
    pub shape: Vec<(Text, f64)>,
    /// Number of such requests.
    pub count: u64,
    /// Source of the request.
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
    /// When its loop last ran; `None` if this channel does not show it.
    pub reported: Option<Timestamp>,
    /// Counts by node type, busiest first.
    pub types: Vec<NodeTypeCount>,
    /// Pending nodes.
    pub pending: Vec<PendingNode>,
    /// Unmet demands, largest first.
    pub demands: Vec<Demand>,
    /// Recent failures, newest first.
    pub failures: Vec<LaunchFailure>,
    /// The autoscaler's own error (v1's `autoscalingError`); empty if none.
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
