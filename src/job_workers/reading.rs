//! What was read of a job's workers, and what it cost the head.

use super::explain::Findings;
use super::lines::{Folded, WorkerLine};
use super::worker::JobWorkers;
use crate::logs::Answer;
use crate::model::Timestamp;
use crate::model::amount::{bytes, counted};
use std::time::Duration;

/// What is asked of a job's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The roll call.
    Roll,
    /// What they wrote last.
    Lines,
    /// The first cause.
    Cause,
}

/// What a reading cost the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadingCost {
    /// Requests, at most eight at a time.
    pub requests: usize,
    /// Bytes of logs.
    pub bytes: usize,
    /// From its begin to its end.
    pub took: Duration,
}

impl ReadingCost {
    /// `512 requests, 4.1 MB, 2.3 s`.
    pub fn words(&self) -> String {
        let (requests, took) = (counted(self.requests, "request"), self.took.as_secs_f64());
        format!("{requests}, {}, {took:.1} s", bytes(self.bytes as f64))
    }
}

/// What was read of a job's workers.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkersReading {
    /// When the reading ended.
    pub at: Timestamp,
    /// What it cost.
    pub price: ReadingCost,
    /// The job and its workers, those that were left out excepted.
    pub job_workers: JobWorkers,
    /// Workers that run nothing any more, and were left out.
    pub idle: usize,
    /// What was asked.
    pub what: WorkersAnswer,
}

/// The answer to a [`Part`].
#[derive(Clone, Debug, PartialEq)]
pub enum WorkersAnswer {
    /// The roll call.
    Roll {
        /// The remarkable workers first.
        answers: Vec<Answer>,
        /// By the places in the list of workers: whether the last line is on standard error; none without a line.
        last: Vec<Option<bool>>,
    },
    /// In the order of time, and folded.
    Lines {
        /// All lines, the earliest first.
        said: Vec<WorkerLine>,
        /// What many of them say alike.
        folded: Folded,
        /// From when on no worker's lines are missing; none if all files were read whole.
        whole_since: Option<Timestamp>,
    },
    /// What is wrong with the job.
    Cause(Box<Findings>),
}

impl WorkersAnswer {
    /// What was asked.
    pub const fn part(&self) -> Part {
        match self {
            Self::Roll { .. } => Part::Roll,
            Self::Lines { .. } => Part::Lines,
            Self::Cause(_) => Part::Cause,
        }
    }
}
