//! The autoscaler's report: nodes by type, pending nodes, unmet demands and failed launches.

use super::{Node, Text, Timestamp};
use crate::model::sort;

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

/// Requested resources. Those of tasks, actors and groups are not available; those of `request_resources()` are
/// reported until its next call, available or not (see [`super::Snapshot::unmet`]).
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
    /// Whether it comes from v2's text report: `at` is when the launch was requested, not when it failed.
    pub from_text: bool,
    /// Whether `at` may be whole days too late: the text report has only the time of day, and nothing else shows the
    /// day.
    pub day_unknown: bool,
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
    /// `max_workers` of the YAML, the limit for all workers together; `None` if it is unknown.
    pub max_workers: Option<u32>,
    /// Pending nodes.
    pub pending: Vec<PendingNode>,
    /// Demands, largest first.
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
            max_workers: None,
            pending: Vec::new(),
            demands: Vec::new(),
            failures: Vec::new(),
            error: Text::default(),
        }
    }
}

impl Autoscaler {
    /// The number of unmet requests of each of [`Self::demands`]. A call of `request_resources()` is met as far as its
    /// bundles fit onto the living nodes, whatever is in use there (`_add_min_workers_nodes` in Ray's
    /// `resource_demand_scheduler.py`). Without `nodes`, that is unknown, and calls are not counted.
    pub(super) fn unmet(&self, nodes: Option<&[Node]>) -> Vec<u64> {
        let is_call = |d: &Demand| d.kind == DemandKind::Request && !d.infeasible;
        let mut unmet: Vec<u64> = self.demands.iter().map(|d| d.count).collect();
        let mut calls: Vec<(usize, &Demand)> =
            self.demands.iter().enumerate().filter(|(_, d)| is_call(d)).collect();
        if calls.is_empty() {
            return unmet;
        }
        let mut unused: Option<Vec<Unused<'_>>> =
            nodes.map(|nodes| nodes.iter().filter(|n| n.state.is_alive()).map(Unused::of).collect());
        // In Ray's order: bundles of more resources first, then larger ones.
        let size = |d: &Demand| d.shape.iter().map(|(_, n)| n).sum::<f64>();
        sort::by(&mut calls, |(_, a), (_, b)| {
            b.shape.len().cmp(&a.shape.len()).then_with(|| size(b).total_cmp(&size(a)))
        });
        for (i, call) in calls {
            unmet[i] = unused.as_mut().map_or(0, |unused| unplaced(call, unused));
        }
        unmet
    }
}

/// The unused resources of a node, by name.
struct Unused<'a>(Vec<(&'a str, f64)>);

impl<'a> Unused<'a> {
    /// All resources of a node.
    fn of(node: &'a Node) -> Self {
        Self(node.resources.0.iter().map(|r| (r.name.raw(), r.total)).collect())
    }

    /// Takes up to `count` bundles of these resources; returns their number.
    fn take(&mut self, bundle: &[(Text, f64)], count: u64) -> u64 {
        // Ray counts in units of 1/10000.
        const ROUNDING: f64 = 1e-5;
        let needs = || bundle.iter().filter(|(_, n)| *n > 0.0);
        let has =
            |name: &Text| self.0.iter().find(|(other, _)| *other == name.raw()).map_or(0.0, |(_, n)| *n);
        let fits = needs().map(|(name, n)| (has(name) / n + ROUNDING) as u64).min();
        let taken = fits.unwrap_or(count).min(count);
        for (name, n) in needs() {
            if let Some((_, left)) = self.0.iter_mut().find(|(other, _)| *other == name.raw()) {
                *left -= n * taken as f64;
            }
        }
        taken
    }
}

/// Places the bundles of a demand, each on the first node with enough unused resources; returns how many do not fit.
fn unplaced(demand: &Demand, nodes: &mut [Unused<'_>]) -> u64 {
    nodes.iter_mut().fold(demand.count, |left, node| left - node.take(&demand.shape, left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterTotals, MissingPart, NodeState, Resource, Resources, Snapshot, SnapshotPart};
    use std::sync::Arc;

    fn host(n: u8, state: NodeState) -> Node {
        let resource = |name: &str, total| Resource { name: name.into(), total, used: Some(total) };
        Node {
            state,
            resources: Resources(vec![resource("CPU", 8.0), resource("TPU", 4.0)]),
            ..Node::sample(n)
        }
    }

    fn demand(shape: &[(&str, f64)], count: u64, kind: DemandKind) -> Demand {
        let shape = shape.iter().map(|(name, n)| ((*name).into(), *n)).collect();
        Demand { shape, count, kind, infeasible: false }
    }

    #[test]
    fn a_call_of_request_resources_is_met_as_far_as_its_bundles_fit_together() {
        let nodes = vec![host(1, NodeState::Alive), host(2, NodeState::Alive), host(3, NodeState::Dead)];
        let unmet = |demands: Vec<Demand>| {
            let report = Autoscaler { demands, ..Autoscaler::default() };
            let nodes = Arc::new(nodes.clone());
            let state = Snapshot { nodes, autoscaler: Arc::new(report), ..Snapshot::default() };
            let counts = state.unmet();
            assert_eq!(ClusterTotals::of(&state).unmet_demands, counts.iter().sum::<u64>());
            counts
        };
        let call = |shape: &[(&str, f64)], count| demand(shape, count, DemandKind::Request);
        assert_eq!(unmet(vec![call(&[("TPU", 4.0)], 2)]), [0], "both hosts are in use, and there");
        assert_eq!(unmet(vec![call(&[("TPU", 4.0)], 5)]), [3]);
        // The larger bundle takes a whole host first.
        let apart = vec![call(&[("TPU", 1.0)], 5), call(&[("CPU", 4.0), ("TPU", 4.0)], 1)];
        assert_eq!(unmet(apart), [1, 0], "in the order of the report");
        assert_eq!(unmet(vec![call(&[("CPU", 0.1)], 160)]), [0], "tenths add up");
        assert_eq!(unmet(vec![call(&[("CPU", 0.1)], 161)]), [1]);
        assert_eq!(unmet(vec![call(&[("GPU", 1.0)], 1)]), [1]);
        assert_eq!(
            unmet(vec![demand(&[("TPU", 4.0)], 2, DemandKind::Task)]),
            [2],
            "tasks wait for what is free"
        );
        let infeasible = Demand { infeasible: true, ..call(&[("TPU", 4.0)], 1) };
        assert_eq!(unmet(vec![infeasible]), [1]);
    }

    #[test]
    fn a_call_of_request_resources_is_not_unmet_if_the_nodes_were_never_read() {
        let of = |kind| demand(&[("TPU", 4.0)], 3, kind);
        let demands = vec![of(DemandKind::Request), of(DemandKind::Task)];
        let report = Autoscaler { demands, ..Autoscaler::default() };
        let part = MissingPart { part: SnapshotPart::Nodes, why: "timed out".to_owned() };
        let read = Snapshot { autoscaler: Arc::new(report), ..Snapshot::default() };
        let unread = Snapshot { missing: vec![part], ..read.clone() };
        for (state, unmet) in [(&read, [3_u64, 3]), (&unread, [0, 3])] {
            assert_eq!(state.unmet(), unmet);
            assert_eq!(ClusterTotals::of(state).unmet_demands, unmet.iter().sum::<u64>());
        }
    }
}
