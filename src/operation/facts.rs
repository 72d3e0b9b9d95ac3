//! What an operation has learned, and how it came out.

use super::worker::{Machine, WorkerFacts};
use crate::gcp::Head;
use crate::model::{CancelledState, StepName, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What an operation has learned so far. It is written to the journal before a later step needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// `session_name` of the Ray that is to be ended.
    pub session: String,
    /// Addresses of the cluster's live workers.
    pub workers: Vec<String>,
    /// Those of them that no autoscaler starts: a person added them.
    pub manual: Vec<String>,
    /// When the operation began, in milliseconds since the epoch.
    pub begun: Option<i64>,
    /// The id of the mark that it leaves on the cluster.
    pub mark: Option<String>,
    /// The heads that existed when it started; no other one is ever deleted.
    pub known_heads: Option<Vec<KnownHead>>,
    /// Address of the head machine that this operation deleted: a new one there has a new key.
    pub deleted_head: Option<String>,
    /// Submission ids of its jobs that had not ended.
    pub jobs: Vec<String>,
    /// Of an update: the jobs that had not ended, each with its status.
    pub running: BTreeMap<String, String>,
    /// Autoscaler version of the cluster; without it `ray up` would start its default.
    pub autoscaler: Option<u8>,
    /// Folder of the backup of the jobs.
    pub backup: Option<PathBuf>,
    /// The stop has begun: from here on jobs end because of us.
    pub stopping: bool,
    /// Of an operation on workers.
    pub worker: WorkerFacts,
    /// Of a removal of several workers: the turn of each, in their order.
    pub turns: Vec<Turn>,
}

/// One worker of a removal of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Turn {
    /// The worker as the operator named it.
    pub worker: String,
    /// Its steps that are done.
    pub done: Vec<StepName>,
    /// Whether something may have been done to it.
    pub begun: bool,
    /// What is known of it; at first the machine that was confirmed.
    pub known: WorkerFacts,
}

impl Turn {
    /// The turn of a worker to which nothing was done yet.
    pub fn of(worker: &str, machine: Machine) -> Self {
        // A host of a local cluster has nothing by which it could be told from another.
        let machines = if machine.is_google() { vec![machine] } else { Vec::new() };
        let known = WorkerFacts { machines, ..WorkerFacts::default() };
        Self { worker: worker.to_owned(), known, ..Self::default() }
    }
}

impl Facts {
    /// The folder in which the jobs are saved, if they are.
    pub fn saved(&self) -> Option<String> {
        let folder = self.backup.as_ref().filter(|b| b.join("jobs.json").exists());
        folder.map(|f| f.display().to_string())
    }
}

/// How an operation that did not fail came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is done.
    Done,
    /// The operation was cancelled, and leaves this state.
    Cancelled(CancelledState),
}

/// A head machine as an operation found it when it started: no other one may be deleted by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHead {
    /// The number that Google gave it.
    pub id: String,
    /// Name of the head's VM.
    pub name: String,
    /// When it was created, in milliseconds since the epoch.
    pub created: Option<i64>,
}

impl From<&Head> for KnownHead {
    fn from(head: &Head) -> Self {
        let created = head.created.map(Timestamp::as_millis);
        Self { id: head.id.clone(), name: head.name.clone(), created }
    }
}
