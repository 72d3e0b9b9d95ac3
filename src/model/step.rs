//! The steps of operations: their names, their effects, and which ones may be skipped.

use serde::{Deserialize, Serialize};

/// One step of an operation. Steps are idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepName {
    /// Check the ray command and the cluster file; nothing is changed.
    Check,
    /// List and record the workers and jobs of the cluster.
    #[serde(alias = "look")]
    ReadState,
    /// Save jobs that have not ended.
    Backup,
    /// Stop Ray on the head (`ray down`).
    Stop,
    /// End remaining processes on all machines: raylets, and processes of jobs.
    #[serde(alias = "clear")]
    CleanUp,
    /// Run `ray up`.
    Start,
    /// Wait until the dashboard responds with a new Ray session.
    #[serde(alias = "answer")]
    WaitForRay,
    /// Submit the saved jobs again.
    Restore,
    /// Wait until earlier workers have rejoined, and list missing ones.
    Workers,
    /// Find the worker and the jobs that run on it.
    Find,
    /// Request queued resources from Google.
    #[serde(alias = "ask")]
    RequestTpus,
    /// Wait until Google has the capacity and the TPU VMs are up.
    Capacity,
    /// Start Ray on the hosts.
    #[serde(alias = "launch")]
    StartRay,
    /// Wait until Ray has a live node on every host.
    Join,
    /// Drain the worker: it accepts no new work, and running work can finish.
    Drain,
    /// Delete the worker, or stop Ray on it.
    Remove,
    /// Wait until Ray has no live node on the worker's hosts.
    #[serde(alias = "leave")]
    WaitUntilGone,
    /// Run `ray up --no-restart`.
    Apply,
    /// Compare jobs, workers and the head's configuration with their previous state.
    Verify,
    /// Remove several workers in turn: find, drain, remove, and wait until it is gone, for each.
    #[serde(alias = "turns")]
    RemoveEach,
}

impl StepName {
    /// Name of the step as shown on the screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::ReadState => "read state",
            Self::Backup => "save jobs",
            Self::Stop => "ray down",
            Self::CleanUp => "stop leftover processes",
            Self::Start => "ray up",
            Self::WaitForRay => "wait for Ray",
            Self::Restore => "restore jobs",
            Self::Workers => "wait for workers",
            Self::Find => "find worker",
            Self::RequestTpus => "request TPUs",
            Self::Capacity => "wait for capacity",
            Self::StartRay => "start Ray",
            Self::Join => "join",
            Self::Drain => "drain",
            Self::Remove => "remove",
            Self::WaitUntilGone => "wait until gone",
            Self::Apply => "apply",
            Self::Verify => "verify",
            Self::RemoveEach => "remove one by one",
        }
    }

    /// Description of the step.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Check => "check the ray command and the cluster file",
            Self::ReadState => "list workers and jobs",
            Self::Backup => "save jobs that have not ended, with their packages",
            Self::Stop => "run ray down and wait until the head no longer responds",
            Self::CleanUp => "stop leftover Ray processes on all machines",
            Self::Start => "run ray up",
            Self::WaitForRay => "wait until the new Ray cluster responds",
            Self::Restore => "upload packages and submit the saved jobs again",
            Self::Workers => "wait for workers to rejoin",
            Self::Find => "find the worker and the jobs running on it",
            Self::RequestTpus => "request TPUs from Google",
            Self::Capacity => "wait for capacity and for the TPU VMs to start",
            Self::StartRay => "start Ray on all hosts of the worker",
            Self::Join => "wait until all hosts have joined Ray",
            Self::Drain => "drain the worker and wait for running work to end",
            Self::Remove => "delete the worker in Google Cloud, or stop Ray on the host",
            Self::WaitUntilGone => "wait until Ray has no live node there",
            Self::Apply => "run ray up --no-restart, which applies the cluster file",
            Self::Verify => "compare jobs and workers with their previous state",
            Self::RemoveEach => "remove the workers one after another, checking each again right before",
        }
    }

    /// Whether it changes nothing on the cluster.
    pub const fn changes_nothing(self) -> bool {
        matches!(self, Self::Check | Self::ReadState | Self::Backup | Self::Find | Self::Verify)
    }

    /// Whether the step may be skipped when it fails, because later steps do not need it.
    pub const fn is_skippable(self) -> bool {
        matches!(self, Self::CleanUp | Self::Workers)
    }
}
