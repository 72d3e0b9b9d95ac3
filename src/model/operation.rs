//! An operation as a value: what will happen to a cluster, step by step, before and while it does.
//!
//! Dialog, command line, journal and audit log all show this one value.

use super::{ClusterName, Problem};
use serde::{Deserialize, Serialize};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// Stops the cluster and starts it again, with its jobs.
    Restart,
    /// Starts it.
    Start,
    /// Stops it.
    Stop,
}

impl OperationKind {
    /// The word on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }
}

/// One step. Done twice it does what it does once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepName {
    /// Everything that is needed is there; nothing is changed.
    Check,
    /// What runs on the cluster is looked at and remembered.
    Look,
    /// Jobs that have not ended are saved.
    Backup,
    /// Ray on the head is ended.
    Stop,
    /// What it leaves behind on every machine is ended: raylets, and processes of jobs.
    Clear,
    /// `ray up`.
    Start,
    /// The dashboard answers, and it is a new Ray.
    Answer,
    /// Saved jobs are submitted again.
    Restore,
    /// Workers that were there are there again, or named.
    Workers,
}

impl StepName {
    /// What it does, in a word or two.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Look => "look",
            Self::Backup => "save jobs",
            Self::Stop => "ray down",
            Self::Clear => "clear machines",
            Self::Start => "ray up",
            Self::Answer => "answer",
            Self::Restore => "restore jobs",
            Self::Workers => "workers",
        }
    }

    /// What it does, in words.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Check => "see that the ray command and the cluster's file are there",
            Self::Look => "look which workers and jobs there are",
            Self::Backup => "save the jobs that have not ended, with their packages",
            Self::Stop => "ray down, and see that the head no longer answers",
            Self::Clear => "end what ray leaves behind on every machine",
            Self::Start => "ray up",
            Self::Answer => "see that a new ray answers",
            Self::Restore => "upload the packages and submit the saved jobs again",
            Self::Workers => "see which workers are back",
        }
    }
}

impl StepName {
    /// Whether it changes nothing on the cluster.
    pub const fn only_looks(self) -> bool {
        matches!(self, Self::Check | Self::Look | Self::Backup)
    }

    /// Whether one may go on past it when it failed: what comes after does not rest on it.
    pub const fn may_be_passed(self) -> bool {
        matches!(self, Self::Clear | Self::Workers)
    }
}

/// An operation on one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// On which cluster.
    pub cluster: ClusterName,
    /// `restart us-central2`.
    pub title: String,
    /// What it does to whom, in one sentence.
    pub consequence: String,
    /// Its steps, in order.
    pub steps: Vec<StepName>,
    /// Whether something that runs is ended.
    pub destructive: bool,
}

impl Operation {
    /// The operation; without `preserve` the jobs of a restart are neither saved nor submitted again.
    pub fn new(kind: OperationKind, cluster: ClusterName, preserve: bool) -> Self {
        use StepName::{Answer, Backup, Check, Clear, Look, Restore, Start, Stop, Workers};
        let (steps, consequence) = match kind {
            OperationKind::Restart if preserve => (
                vec![Check, Look, Backup, Stop, Clear, Start, Answer, Restore, Workers],
                "every job that runs is ended and submitted again from its beginning; drivers started by hand are lost",
            ),
            OperationKind::Restart => (
                vec![Check, Look, Stop, Clear, Start, Answer, Workers],
                "every job that runs is ended and lost",
            ),
            OperationKind::Start => {
                (vec![Check, Start, Answer], "ray is started on the head and its workers")
            }
            OperationKind::Stop => {
                (vec![Check, Look, Stop, Clear], "every job that runs is ended and lost, and ray with it")
            }
        };
        Self {
            kind,
            title: format!("{} {cluster}", kind.word()),
            cluster,
            consequence: consequence.to_owned(),
            steps,
            destructive: kind != OperationKind::Start,
        }
    }

    /// A line for the team's channel, before it begins.
    pub fn announcement(&self) -> String {
        format!("I am about to {}: {}. Please say so now if that must not be.", self.title, self.consequence)
    }

    /// Whether nothing has been changed when this step is cut off: it may be cancelled there.
    pub fn is_harmless_at(&self, step: StepName) -> bool {
        let until = self.number(step);
        self.steps.iter().take(until).all(|s| s.only_looks())
    }

    /// The number of a step, from 1.
    pub fn number(&self, step: StepName) -> usize {
        self.steps.iter().position(|s| *s == step).map_or(0, |i| i + 1)
    }
}

/// How an operation goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A step begins.
    Began(StepName),
    /// A line that a program printed, safe to show.
    Output(String),
    /// A step is done; what was seen.
    Done(StepName, String),
    /// A step was done before the operation was interrupted.
    Skipped(StepName, String),
    /// A step failed; the operation can be resumed there.
    Failed(StepName, Problem),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_saved_before_anything_is_stopped() {
        let restart = Operation::new(OperationKind::Restart, ClusterName::new("a"), true);
        assert!(restart.number(StepName::Backup) < restart.number(StepName::Stop));
        assert!(restart.number(StepName::Clear) < restart.number(StepName::Restore));
        assert!(restart.destructive && restart.title == "restart a");
        assert!(restart.is_harmless_at(StepName::Backup) && !restart.is_harmless_at(StepName::Stop));
        assert!(!restart.is_harmless_at(StepName::Workers), "what comes after a change is none without one");
        let lossy = Operation::new(OperationKind::Restart, ClusterName::new("a"), false);
        assert!(lossy.number(StepName::Backup) == 0 && lossy.consequence.contains("lost"));
    }
}
