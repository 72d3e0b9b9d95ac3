//! The steps of operations: their names, their effects, and which ones may be skipped.

use serde::{Deserialize, Serialize};

/// One step of an operation. Steps are idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepName {
    /// Check the ray command and the cluster file; nothing is changed.
    Check,
    /// List and record the workers and jobs of the cluster.
    Look,
    /// Save jobs that have not ended.
    Backup,
    /// Stop Ray on the head (`ray down`).
    Stop,
    /// End remaining processes on all machines: raylets, and processes of jobs.
    Clear,
    /// Run `ray up`.
    Start,
    /// Wait until the dashboard responds with a new Ray session.
    Answer,
    /// Submit the saved jobs again.
    Restore,
    /// Wait until earlier workers have rejoined, and list missing ones.
    Workers,
    /// Find the worker and the jobs that run on it.
    Find,
    /// Request queued resources from Google.
    Ask,
    /// Wait until Google has the capacity and the TPU VMs are up.
    Capacity,
    /// Start Ray on the hosts.
    Launch,
    /// Wait until Ray has a live node on every host.
    Join,
    /// Drain the worker: it accepts no new work, and running work can finish.
    Drain,
    /// Delete the worker, or stop Ray on it.
    Remove,
    /// Wait until Ray has no live node on the worker's hosts.
    Leave,
    /// Run `ray up --no-restart`.
    Apply,
    /// Compare jobs, workers and the head's configuration with their previous state.
    Verify,
    /// Remove several workers in turn: find, drain, remove and leave for each.
    Turns,
}

impl StepName {
    /// Name of the step as shown on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Look => "read state",
            Self::Backup => "save jobs",
            Self::Stop => "ray down",
            Self::Clear => "clean up machines",
            Self::Start => "ray up",
            Self::Answer => "wait for Ray",
            Self::Restore => "restore jobs",
            Self::Workers => "wait for workers",
            Self::Find => "find worker",
            Self::Ask => "request TPUs",
            Self::Capacity => "wait for capacity",
            Self::Launch => "start Ray",
            Self::Join => "join",
            Self::Drain => "drain",
            Self::Remove => "remove",
            Self::Leave => "wait until gone",
            Self::Apply => "apply",
            Self::Verify => "verify",
            Self::Turns => "remove one by one",
        }
    }

    /// Description of the step.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Check => "check the ray command and the cluster file",
            Self::Look => "list workers and jobs",
            Self::Backup => "save jobs that have not ended, with their packages",
            Self::Stop => "run ray down and wait until the head no longer responds",
            Self::Clear => "end remaining Ray processes on all machines",
            Self::Start => "run ray up",
            Self::Answer => "wait until the new Ray cluster responds",
            Self::Restore => "upload packages and submit the saved jobs again",
            Self::Workers => "wait for workers to rejoin",
            Self::Find => "find the worker and the jobs running on it",
            Self::Ask => "request TPUs from Google",
            Self::Capacity => "wait for capacity and for the TPU VMs to start",
            Self::Launch => "start Ray on all hosts of the worker",
            Self::Join => "wait until all hosts have joined Ray",
            Self::Drain => "drain the worker and wait for running work to end",
            Self::Remove => "delete the worker at Google, or stop Ray on the host",
            Self::Leave => "wait until Ray has no live node there",
            Self::Apply => "run ray up --no-restart, which applies the cluster file",
            Self::Verify => "compare jobs and workers with their previous state",
            Self::Turns => "remove the workers one after another, checking each again right before",
        }
    }

    /// Whether it changes nothing on the cluster.
    pub const fn changes_nothing(self) -> bool {
        matches!(self, Self::Check | Self::Look | Self::Backup | Self::Find | Self::Verify)
    }

    /// Whether the step may be skipped when it fails, because later steps do not need it.
    pub const fn is_skippable(self) -> bool {
        matches!(self, Self::Clear | Self::Workers)
    }
}
