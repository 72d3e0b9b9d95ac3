//! The result of reading a job's workers, and its cost for the head.

use super::explain::Findings;
use super::lines::{Folded, WorkerLine};
use super::worker::JobWorkers;
use crate::logs::Answer;
use crate::model::Timestamp;
use crate::model::amount::{bytes, counted};
use std::time::Duration;

/// A kind of reading of a job's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The last line of each worker, with its age and step.
    Overview,
    /// The last lines of each worker.
    Lines,
    /// The root cause.
    Cause,
}

/// The cost of a reading for the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobReadingCost {
    /// Requests, at most eight at a time.
    pub requests: usize,
    /// Bytes of logs.
    pub bytes: usize,
    /// Its duration.
    pub took: Duration,
}

impl JobReadingCost {
    /// `512 requests, 4.1 MB, 2.3 s`.
    pub fn text(&self) -> String {
        let (requests, took) = (counted(self.requests, "request"), self.took.as_secs_f64());
        format!("{requests}, {}, {took:.1} s", bytes(self.bytes as f64))
    }
}

/// The result of reading a job's workers.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkersReading {
    /// When the reading ended.
    pub at: Timestamp,
    /// Its cost.
    pub cost: JobReadingCost,
    /// The job and its workers, except those that were left out.
    pub job_workers: JobWorkers,
    /// Number of workers that no longer run anything, and were left out.
    pub idle: usize,
    /// What was read.
    pub what: WorkersAnswer,
}

/// The answer to a [`Part`].
#[derive(Clone, Debug, PartialEq)]
pub enum WorkersAnswer {
    /// The overview.
    Overview {
        /// The results, unusual workers first.
        answers: Vec<Answer>,
        /// By worker index: whether the last line is on standard error; `None` without a line.
        last: Vec<Option<bool>>,
    },
    /// The lines in time order, and folded.
    Lines {
        /// All lines, the earliest first.
        said: Vec<WorkerLine>,
        /// Equal lines, folded into rows.
        folded: Folded,
        /// The time since which no worker's lines are missing; `None` if all files were read whole.
        whole_since: Option<Timestamp>,
    },
    /// What is wrong with the job.
    Cause(Box<Findings>),
}

impl WorkersAnswer {
    /// What was read.
    pub const fn part(&self) -> Part {
        match self {
            Self::Overview { .. } => Part::Overview,
            Self::Lines { .. } => Part::Lines,
            Self::Cause(_) => Part::Cause,
        }
    }
}
