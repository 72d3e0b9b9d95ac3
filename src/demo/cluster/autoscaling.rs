//! The state of the simulated autoscaler: unmet demand, launching and joining machines, and failed launches.

use super::node::{SLICES, SimNode};
use crate::model::sort;
use std::sync::Arc;

/// How long a failure counts as recent, in milliseconds.
pub(in crate::demo) const FAILURE_SHOWN_FOR: i64 = 1_800_000;

/// Unmet demand.
#[derive(Clone, Debug)]
pub(in crate::demo) struct Wanted {
    pub shape: Vec<(String, f64)>,
    pub count: i64,
    /// Whether no node type can satisfy it.
    pub infeasible: bool,
    /// The node type that is launched for it.
    pub node_type: Arc<str>,
}

/// The autoscaler's process, which runs its loop every five seconds while it is alive.
#[derive(Clone, Copy, Debug)]
pub(in crate::demo) struct Monitor {
    /// Whether it is running.
    pub alive: bool,
    /// When it last completed its loop, in milliseconds since the epoch.
    pub at: i64,
    /// Number of completed loops.
    pub loops: i64,
    /// The cluster's version at that time.
    pub saw: u64,
}

/// Machines that are requested and do not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::demo) struct Launching {
    pub node_type: Arc<str>,
    pub count: i32,
    /// When they were requested, in milliseconds since the epoch.
    pub since: i64,
}

/// A machine that exists and has not joined Ray.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::demo) struct Joining {
    pub node_type: Arc<str>,
    pub ip: String,
    /// The provider's id.
    pub instance_id: String,
}

/// The last failed launch of a node type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::demo) struct Refused {
    pub node_type: Arc<str>,
    /// Number of requested machines.
    pub count: i32,
    /// The legacy autoscaler's category of the reason.
    pub category: &'static str,
    /// The provider's message.
    pub reason: String,
    /// When they were requested, in milliseconds since the epoch.
    pub since: i64,
    /// When the launch failed, in milliseconds since the epoch.
    pub at: i64,
}

/// The autoscaler's view, as of its last loop.
#[derive(Clone, Debug, Default)]
pub(in crate::demo) struct Autoscaling {
    /// Requested machines.
    pub launching: Vec<Launching>,
    /// Machines that have not joined Ray.
    pub joining: Vec<Joining>,
    /// Recently failed launches.
    pub refused: Vec<Refused>,
}

/// The report of an autoscaler at the moment at which its process ended.
#[derive(Clone, Debug)]
pub(in crate::demo) struct LastReport {
    /// The nodes in it.
    pub nodes: Vec<SimNode>,
    /// The unmet demand in it.
    pub demand: Vec<Wanted>,
    /// The launches and failures in it.
    pub scaling: Autoscaling,
    /// When the process ended, in milliseconds since the epoch.
    pub at: i64,
}

impl Autoscaling {
    /// For each shape of demand, a launch that fails for lack of quota and is retried in each loop.
    pub fn for_demand(wanted: &[Wanted], monitor_at: i64) -> Self {
        let mut view = Self::default();
        for demand in wanted.iter().filter(|w| !w.infeasible) {
            let (node_type, count, since) =
                (demand.node_type.clone(), demand.count as i32, monitor_at - 60_000);
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

/// Requested slices: no node type offers the first one, and the others wait for quota.
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

/// Nodes that the autoscaler still lists as terminated at `now`, in order of their end.
pub(super) fn terminated(nodes: &[SimNode], now: i64) -> Vec<&SimNode> {
    let recently = |n: &&SimNode| n.end.is_some_and(|e| now - e.at < FAILURE_SHOWN_FOR);
    let mut terminated: Vec<&SimNode> = nodes.iter().filter(recently).collect();
    sort::by_key(&mut terminated, |n| n.end.map(|e| e.at));
    terminated
}
