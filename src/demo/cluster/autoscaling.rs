//! What the simulated autoscaler knows: demand that is not met, machines under way, and launches that failed.

use super::node::{SLICES, SimNode};
use std::sync::Arc;

/// How long a failure counts as recent, in milliseconds.
pub(in crate::demo) const RECENT: i64 = 1_800_000;

/// Demand that is not met.
#[derive(Clone, Debug)]
pub(in crate::demo) struct Wanted {
    pub shape: Vec<(String, f64)>,
    pub count: i64,
    /// No node type can satisfy it.
    pub infeasible: bool,
    /// The node type that is being launched for it.
    pub node_type: Arc<str>,
}

/// The autoscaler's process, which works through its loop every five seconds while it lives.
#[derive(Clone, Copy, Debug)]
pub(in crate::demo) struct Monitor {
    /// Whether it runs.
    pub alive: bool,
    /// When it last worked through its loop, in milliseconds since the epoch.
    pub at: i64,
    /// How often it has done so.
    pub loops: i64,
    /// The cluster's version then.
    pub saw: u64,
}

/// Machines that were asked for and do not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::demo) struct Launching {
    pub node_type: Arc<str>,
    pub count: i32,
    /// Since when, in milliseconds since the epoch.
    pub since: i64,
}

/// A machine that exists and has not joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::demo) struct Joining {
    pub node_type: Arc<str>,
    pub ip: String,
    /// The provider's id.
    pub instance_id: String,
}

/// The last launch of a node type that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::demo) struct Refused {
    pub node_type: Arc<str>,
    /// How many machines were asked for.
    pub count: i32,
    /// The legacy autoscaler's word for the reason.
    pub category: &'static str,
    /// The provider's sentence.
    pub reason: String,
    /// Asked for and refused at, in milliseconds since the epoch.
    pub since: i64,
    /// See `since`.
    pub at: i64,
}

/// The autoscaler's view, as of its last loop.
#[derive(Clone, Debug, Default)]
pub(in crate::demo) struct Autoscaling {
    /// Asked for.
    pub launching: Vec<Launching>,
    /// On their way.
    pub joining: Vec<Joining>,
    /// Failed lately.
    pub refused: Vec<Refused>,
}

impl Autoscaling {
    /// For each shape of demand a launch that waits for quota, tried again in each loop.
    pub fn for_want(wanted: &[Wanted], monitor_at: i64) -> Self {
        let mut view = Self::default();
        for want in wanted.iter().filter(|w| !w.infeasible) {
            let (node_type, count, since) = (want.node_type.clone(), want.count as i32, monitor_at - 60_000);
            view.launching.push(Launching { node_type: node_type.clone(), count, since });
            let reason =
                "Quota 'TPUV5sLitepodPerProjectPerZone' exceeded.  Limit: 0.0 in zone us-central2-b.";
            view.refused.push(Refused {
                node_type,
                count,
                category: "QUOTA_EXCEEDED",
                reason: reason.into(),
                since,
                at: monitor_at,
            });
        }
        view
    }
}

/// Slices that are asked for: the first can never be had, the others wait for quota.
pub(super) fn wanted(count: usize) -> Vec<Wanted> {
    let one = |i: usize| {
        let kind = &SLICES[i % SLICES.len()];
        let name = if i == 0 { "TPU-v7x-128-head".to_owned() } else { format!("TPU-{}-head", kind.pod_type) };
        Wanted {
            shape: vec![("CPU".into(), 1.0), (name, 1.0)],
            count: 1 + i as i64 % 5,
            infeasible: i == 0,
            node_type: (*kind.node_type).into(),
        }
    };
    (0..count).map(one).collect()
}

/// Nodes that the autoscaler still lists as terminated at `now`, the latest last.
pub(super) fn terminated(nodes: &[SimNode], now: i64) -> Vec<&SimNode> {
    let recently = |n: &&SimNode| n.end.is_some_and(|e| now - e.at < RECENT);
    let mut gone: Vec<&SimNode> = nodes.iter().filter(recently).collect();
    gone.sort_by_key(|n| n.end.map(|e| e.at));
    gone
}
