//! The unmet demand of a state, and what is launched for it.

use crate::model::amount::counted;
use crate::model::sort;
use crate::model::{
    Autoscaler, Demand, DemandKind, LaunchFailure, Node, NodeTypeCount, Snapshot, Text, Timestamp,
};
use std::time::Duration;

/// A launch that failed within this time counts as being retried: v1 and v2 retry within a minute.
pub const LAUNCH_RETRIES: Duration = Duration::from_secs(600);
/// A launch of v2 fails at most this long after its request (`request_status_timeout_s` in Ray's
/// `v2/instance_manager/config.py`).
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

/// The unmet demand in a state, and whether nodes are pending for it.
pub(super) struct Unmet {
    /// Number of demands that some type may satisfy.
    pub demands: u64,
    /// Whether a type can have another node that meets one of them.
    pub room: Room,
    /// The `max_workers` of the cluster, if it has that many workers.
    pub at_limit: Option<u32>,
    /// Number of demands that no type can satisfy.
    pub infeasible: u64,
    /// Types below their `min_workers`: name, number alive, minimum.
    pub minimum: Vec<(String, u32, u32)>,
    /// Whether nodes are pending or launching.
    pub moves: bool,
}

/// Whether any type can have another node that meets a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Room {
    /// No: the types that could are at their maximum.
    None,
    /// Perhaps: no node of a type below its maximum was ever seen.
    Perhaps,
    /// Yes, as a current or former node shows.
    Certain,
}

impl Unmet {
    pub fn of(snapshot: &Snapshot) -> Self {
        let report = &*snapshot.autoscaler;
        let unmet = snapshot.unmet();
        let demands = || report.demands.iter().zip(&unmet).filter(|(_, count)| **count > 0);
        let sum = |infeasible: bool| {
            demands().filter(|(d, _)| d.infeasible == infeasible).map(|(_, count)| count).sum()
        };
        let at_limit = at_limit(snapshot);
        let open = open_types(snapshot, at_limit);
        let feasible = demands().filter(|(d, _)| !d.infeasible);
        let minimum = below_minimum(snapshot).into_iter();
        Self {
            demands: sum(false),
            room: feasible.map(|(d, _)| room(d, &open)).max().unwrap_or(Room::None),
            at_limit,
            infeasible: sum(true),
            minimum: minimum.map(|(name, up, min)| (name.to_string(), up, min)).collect(),
            moves: !report.pending.is_empty() || report.types.iter().any(|t| coming(t) > 0),
        }
    }

    pub fn is_something(&self) -> bool {
        self.demands > 0 || !self.minimum.is_empty()
    }

    /// `37 demands unmet, tpu_worker: 0 of min 4`.
    pub fn text(&self) -> String {
        let demands = (self.demands > 0).then(|| counted(self.demands as usize, "demand") + " unmet");
        let minimum = self.minimum.iter().map(|(name, up, min)| format!("{name}: {up} of min {min}"));
        demands.into_iter().chain(minimum).collect::<Vec<_>>().join(", ")
    }
}

/// The start time of the newest worker; it increases whenever one joins.
pub(super) fn newest_start(snapshot: &Snapshot) -> Option<Timestamp> {
    snapshot.nodes.iter().filter(|n| !n.is_head).filter_map(|n| n.started).max()
}

pub(super) fn coming(t: &NodeTypeCount) -> u32 {
    t.pending + t.launching
}

/// Workers of a type as the autoscaler counts them for its limits: a slice is one, and the head is not counted. The
/// report may still count dead nodes (v1 does), and v2's counts hosts, so the smaller of the reported number and the
/// number of living slices counts, if nodes report their type. If the nodes were never read, the report counts.
pub(super) fn units(t: &NodeTypeCount, snapshot: &Snapshot) -> u32 {
    let nodes = &snapshot.nodes;
    let alive = || nodes.iter().filter(|n| n.state.is_alive());
    let of_head = alive().any(|n| n.is_head && n.node_type == t.name);
    let reported = (t.active + t.idle).saturating_sub(u32::from(of_head));
    if snapshot.unread_nodes().is_some() {
        return reported;
    }
    if nodes.iter().all(|n| n.is_head || n.node_type.is_empty()) {
        return if alive().any(|n| !n.is_head) { reported } else { 0 };
    }
    let alive = alive().filter(|n| !n.is_head && n.node_type == t.name);
    let (named, single): (Vec<_>, Vec<_>) = alive.map(Node::slice).partition(Option::is_some);
    let slices = sort::distinct(named);
    reported.min(u32::try_from(single.len() + slices.len()).unwrap_or(u32::MAX))
}

/// The node types with fewer workers than their `min_workers`: name, number of workers, minimum. Empty if the nodes
/// were never read.
pub fn below_minimum(snapshot: &Snapshot) -> Vec<(&Text, u32, u32)> {
    if snapshot.unread_nodes().is_some() {
        return Vec::new();
    }
    let types = snapshot.autoscaler.types.iter().filter_map(|t| Some((t, t.min.filter(|min| *min > 0)?)));
    types.map(|(t, min)| (&t.name, units(t, snapshot), min)).filter(|(_, up, min)| up < min).collect()
}

/// The `max_workers` of the cluster, if it has that many workers, including those that are being launched.
pub(super) fn at_limit(snapshot: &Snapshot) -> Option<u32> {
    let report = &*snapshot.autoscaler;
    let workers = || report.types.iter().map(|t| u64::from(units(t, snapshot) + coming(t))).sum::<u64>();
    report.max_workers.filter(|max| workers() >= u64::from(*max))
}

/// The same in words: `the cluster is at its maximum of 8 workers`.
pub(super) fn limit_text(max: u32) -> String {
    format!("the cluster is at its maximum of {}", counted(max as usize, "worker"))
}

/// The types that can have another worker, each as the list of its known workers, including dead ones. No type can once
/// the cluster is at its limit.
fn open_types(snapshot: &Snapshot, at_limit: Option<u32>) -> Vec<Vec<&Node>> {
    let types = &snapshot.autoscaler.types;
    if types.is_empty() {
        // Unknown types are like one type without known workers.
        return vec![Vec::new()];
    }
    if at_limit.is_some() {
        return Vec::new();
    }
    let open = types.iter().filter(|t| t.max.is_none_or(|max| units(t, snapshot) + coming(t) < max));
    open.map(|t| snapshot.nodes.iter().filter(|n| !n.is_head && n.node_type == t.name).collect()).collect()
}

/// Whether one of these types provides what is demanded.
fn room(demand: &Demand, open: &[Vec<&Node>]) -> Room {
    // The bundles of a group are summed, and may be placed on several nodes.
    let is_group = matches!(demand.kind, DemandKind::Group(_));
    let of = |workers: &Vec<&Node>| match () {
        () if is_group || workers.is_empty() => Room::Perhaps,
        // The hosts of a slice differ: only its first has the resource `TPU-..-head`.
        () if workers.iter().any(|node| fits(demand, node)) => Room::Certain,
        () => Room::None,
    };
    open.iter().map(of).max().unwrap_or(Room::None)
}

/// Whether a node, empty, could hold one such demand.
fn fits(demand: &Demand, node: &Node) -> bool {
    let has = |name: &str| node.resources.get(name).map_or(0.0, |r| r.total);
    demand.shape.iter().all(|(name, wanted)| has(name.raw()) >= *wanted)
}

/// Launches that failed within [`LAUNCH_RETRIES`], newest first. Of the text report, which has the time of the request,
/// those that may have failed within it, unless they may have been requested on an earlier day: a launch that fails now
/// is retried, and the next attempt shows its day.
pub(super) fn failing_now(report: &Autoscaler, now: Timestamp) -> impl Iterator<Item = &LaunchFailure> {
    report.failures.iter().filter(move |f| {
        let window = if f.from_text { REQUEST_TIMEOUT + LAUNCH_RETRIES } else { LAUNCH_RETRIES };
        !f.day_unknown && f.at.is_none_or(|at| at.age(now) < window)
    })
}
