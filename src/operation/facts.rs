//! The facts that an operation collects, and its outcome.

use super::worker::{Machine, WorkerFacts};
use crate::gcp::Head;
use crate::model::{CancelledState, StepName, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The facts known so far, written to the journal before a later step needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// `session_name` of the Ray that is to be stopped.
    pub session: String,
    /// Addresses of the cluster's alive workers.
    pub workers: Vec<String>,
    /// The workers among them that were added manually, not started by the autoscaler.
    pub manual: Vec<String>,
    /// Start time of the operation, in milliseconds since the epoch.
    pub begun: Option<i64>,
    /// The id of its lock on the cluster.
    pub lock: Option<String>,
    /// The heads that existed when it started; no other head is ever deleted.
    pub known_heads: Option<Vec<KnownHead>>,
    /// Addresses of the head machines that this operation deleted: a new machine at one of them has a new host key.
    /// Journals of earlier builds have one, `deleted_head`.
    #[serde(alias = "deleted_head", deserialize_with = "one_or_several")]
    pub deleted_heads: Vec<String>,
    /// Submission ids of the jobs that had not ended.
    pub jobs: Vec<String>,
    /// Submission ids of those among them that Ray had not started: once restored, nobody waits for their start.
    pub pending: Vec<String>,
    /// Ids of the jobs that had not ended and that were started manually, so that nobody can submit them again.
    pub drivers: Vec<String>,
    /// Ids of the jobs that could not be submitted again.
    pub not_restored: Vec<String>,
    /// For an update: the jobs that had not ended, each with its status.
    pub running: BTreeMap<String, String>,
    /// Autoscaler version of the cluster; without it `ray up` would start its default.
    pub autoscaler: Option<u8>,
    /// Directory of the backup of the jobs.
    pub backup: Option<PathBuf>,
    /// Whether stopping has started: from then on the operation ends jobs.
    pub stopping: bool,
    /// Whether `ray up` was run: a head that exists from then on may be its own.
    pub launched: bool,
    /// Facts of an operation on workers.
    pub worker: WorkerFacts,
    /// For a removal of several workers: the state of each, in their order.
    pub turns: Vec<Turn>,
}

fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Addresses {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Option::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Addresses::One(address)) => vec![address],
        Some(Addresses::Several(addresses)) => addresses,
    })
}

/// The state of one worker in a removal of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Turn {
    /// The worker as the operator named it.
    pub worker: String,
    /// Its completed steps.
    pub done: Vec<StepName>,
    /// Whether it may have been changed.
    pub begun: bool,
    /// The facts known about it; at first only the machine that was confirmed.
    pub known: WorkerFacts,
}

impl Turn {
    /// A worker that has not been changed yet.
    pub fn of(worker: &str, machine: Machine) -> Self {
        // A host of a local cluster has no id that identifies it.
        let machines = if machine.is_google() { vec![machine] } else { Vec::new() };
        let known = WorkerFacts { machines, ..WorkerFacts::default() };
        Self { worker: worker.to_owned(), known, ..Self::default() }
    }
}

impl Facts {
    /// Whether this is another session of Ray than the one that is to be stopped; `false` if that one is unknown,
    /// because Ray did not respond when the operation began.
    pub(super) fn is_other_session(&self, session: &str) -> bool {
        !self.session.is_empty() && self.session != session
    }

    /// The directory of the backup, if the jobs have been saved.
    pub fn saved(&self) -> Option<String> {
        let folder = self.backup.as_ref().filter(|b| b.join("jobs.json").exists());
        folder.map(|f| f.display().to_string())
    }
}

/// The outcome of an operation that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is complete.
    Done,
    /// The operation was cancelled, and leaves this state.
    Cancelled(CancelledState),
}

/// A head machine that existed when the operation started; the operation deletes no other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHead {
    /// The id that Google gave it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_an_earlier_build_deleted_are_known() {
        let heads = |journal: &str| serde_json::from_str::<Facts>(journal).unwrap().deleted_heads;
        assert_eq!(heads(r#"{"deleted_head": "10.0.0.1", "session": "s"}"#), ["10.0.0.1"]);
        assert_eq!(heads(r#"{"deleted_heads": ["10.0.0.1", "10.0.0.2"]}"#), ["10.0.0.1", "10.0.0.2"]);
        assert!(heads(r#"{"deleted_head": null}"#).is_empty() && heads("{}").is_empty());
    }
}
