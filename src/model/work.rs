//! What a job does in Ray beside its driver: a job that "runs" may hold the whole cluster, or wait for its first chip.

use super::amount::{number, shape};
use super::time::brief;
use super::{NodeId, Text, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What a job's entrypoint, tasks and actors do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// What the entrypoint, running tasks and living actors hold, by resource.
    pub holds: Vec<(Text, f64)>,
    /// What tasks and actors wait for a node for, most first.
    pub waits: Vec<Wait>,
    /// Its tasks by function, those of actors included.
    pub tasks: Vec<Counted>,
    /// Actors by class.
    pub actors: Vec<Counted>,
    /// Actors that died and were not ended in order.
    pub died: Vec<DeadActor>,
}

/// An actor that died, where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadActor {
    /// Name of the actor class.
    pub class: Text,
    /// Its name; empty for most.
    pub name: Text,
    /// The node that it ran on; none when it never started.
    pub node: Option<NodeId>,
    /// Address of that node.
    pub address: Text,
    /// Reason reported by Ray.
    pub why: Text,
}

/// Tasks and actors that want the same and have no node.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// Resources that each of them requires, by name.
    pub shape: Vec<(Text, f64)>,
    /// Number of such items.
    pub count: u64,
    /// Since when the oldest of them has waited.
    pub since: Option<Timestamp>,
}

impl Wait {
    /// What is waited for: `3 times TPU 4, for 2m`.
    pub fn words(&self, now: Timestamp) -> String {
        let times =
            if self.count == 1 { String::new() } else { format!("{} times ", number(self.count as f64)) };
        let shape = if self.shape.is_empty() { "any node".to_owned() } else { shape(&self.shape) };
        let since = self.since.map(|at| format!(", for {}", brief(at.age(now)))).unwrap_or_default();
        format!("{times}{shape}{since}")
    }
}

/// Counts by state of the items with one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// A function or a class.
    pub name: Text,
    /// Count by Ray's state word: `RUNNING`, `PENDING_NODE_ASSIGNMENT`, `ALIVE`, ...
    pub states: Vec<(Text, u64)>,
}

/// What the running tasks and living actors of a driver hold now, and what others of them wait for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holding {
    /// What they hold, by resource.
    pub holds: BTreeMap<String, f64>,
    /// Where they run.
    pub nodes: BTreeSet<NodeId>,
    /// What tasks, actors and placement groups wait for a node for, most first.
    pub waits: Vec<Wait>,
    /// Tasks that run.
    pub tasks: u64,
    /// Actors that are alive.
    pub actors: u64,
    /// Restarts of its actors, and attempts of its tasks beyond the first.
    pub restarts: u64,
}
