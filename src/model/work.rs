//! The work of a job in Ray besides its driver: a "running" job may hold the whole cluster, or wait for its first chip.

use super::amount::{number, shape};
use super::time::brief;
use super::{NodeId, Text, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The work of a job's entrypoint, tasks and actors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Resources that the entrypoint, running tasks and live actors hold.
    pub holds: Vec<(Text, f64)>,
    /// Resources for which tasks and actors wait, largest first.
    pub waits: Vec<Wait>,
    /// Its tasks by function, including those of actors.
    pub tasks: Vec<Counted>,
    /// Its actors by class.
    pub actors: Vec<Counted>,
    /// Actors that died unexpectedly.
    pub died: Vec<DeadActor>,
}

/// An actor that died, with its node and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadActor {
    /// Name of the actor class.
    pub class: Text,
    /// Its name; usually empty.
    pub name: Text,
    /// The node that it ran on; none if it never started.
    pub node: Option<NodeId>,
    /// Address of that node.
    pub address: Text,
    /// Reason reported by Ray.
    pub why: Text,
}

/// Tasks and actors that request the same resources and are not placed on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// Resources that each of them requests, by name.
    pub shape: Vec<(Text, f64)>,
    /// Number of these tasks and actors.
    pub count: u64,
    /// When the oldest of them began to wait.
    pub since: Option<Timestamp>,
}

impl Wait {
    /// The requested resources in words: `3 x TPU 4, for 2m`.
    pub fn text(&self, now: Timestamp) -> String {
        let times = if self.count == 1 { String::new() } else { format!("{} x ", number(self.count as f64)) };
        let shape = if self.shape.is_empty() { "any node".to_owned() } else { shape(&self.shape) };
        let since = self.since.map(|at| format!(", for {}", brief(at.age(now)))).unwrap_or_default();
        format!("{times}{shape}{since}")
    }
}

/// Counts by state of tasks or actors with the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Name of the function or class.
    pub name: Text,
    /// Count by Ray's state: `RUNNING`, `PENDING_NODE_ASSIGNMENT`, `ALIVE`, ...
    pub states: Vec<(Text, u64)>,
}

/// Resources that the running tasks and live actors of a driver hold, and resources that others of them wait for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holding {
    /// Amounts that they hold, by resource.
    pub holds: BTreeMap<String, f64>,
    /// Nodes on which they run.
    pub nodes: BTreeSet<NodeId>,
    /// Resources for which tasks, actors and placement groups wait, largest first.
    pub waits: Vec<Wait>,
    /// Number of running tasks.
    pub tasks: u64,
    /// Number of live actors.
    pub actors: u64,
    /// Number of restarts of its actors and retries of its tasks.
    pub restarts: u64,
}
