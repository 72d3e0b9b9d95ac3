//! The workers of a run: one process on each host of its slice, and the log of each. A line is a function of the run,
//! the worker and the line number, so that a log costs no memory.

use super::stamp::stamp;
use super::tale::{Tale, What};
use super::train::{self, Run};
use crate::model::NodeId;
use serde::Deserialize;
use std::sync::Arc;

/// Maximum time from the first worker's error until all others have failed because of it, in milliseconds.
pub(super) const MAX_FAILURE_DELAY: i64 = 8000;
/// Minimum time from the first worker's error until another worker fails, in milliseconds.
const MIN_FAILURE_DELAY: i64 = 1500;

/// A run that exists when the simulation begins, and the events that affect its workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedRun {
    /// The node type that it trains on.
    pub node_type: String,
    /// The worker whose error ends the run, which the others report as a lost connection.
    #[serde(default)]
    pub fails: Option<Moment>,
    /// The worker that stops writing.
    #[serde(default)]
    pub silent: Option<Moment>,
    /// The number of a worker that is slower than the others.
    #[serde(default)]
    pub slow: Option<usize>,
    /// The worker that hangs while it reads a batch: all others wait for it, and all of them stop writing.
    #[serde(default)]
    pub stalls: Option<Moment>,
    /// When all workers slow down by a quarter, in minutes before the simulation begins.
    #[serde(default)]
    pub slows: Option<u32>,
    /// When its loss begins to rise, in minutes before the simulation begins.
    #[serde(default)]
    pub diverges: Option<u32>,
    /// When it begins to wait for a slice that another owner's run holds, in minutes before the simulation begins.
    #[serde(default)]
    pub waits: Option<u32>,
}

/// An event that affects one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Number of the worker, from 0.
    pub worker: usize,
    /// When it happens, in minutes before the simulation begins.
    pub minutes_ago: u32,
}

/// How the workers of a run ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// All of them finished.
    Done,
    /// One of them failed with this error, and the others because of it.
    Failed { first: usize, error: Arc<str> },
    /// The job was stopped, or lost its slice.
    Gone,
}

/// The workers of a run on one slice.
#[derive(Clone, Debug)]
pub(in crate::demo) struct Gang {
    /// The index of its job in the job table.
    pub job: usize,
    /// Its driver's job id.
    pub driver: String,
    /// The host of each worker.
    pub hosts: Vec<NodeId>,
    pub(super) run: Arc<Run>,
    /// The job's `turn` when it got this slice.
    pub(super) turn: u32,
    /// When training begins, in milliseconds since the epoch.
    pub(super) since: i64,
    /// The step from which training continues.
    pub(super) step: u64,
    /// The worker that stops writing, and when.
    pub(super) silent: Option<(usize, i64)>,
    pub(super) slow: Option<usize>,
    /// Whether all others stop writing when that worker does.
    pub(super) stalls: bool,
    /// When all of them slow down by a quarter.
    pub(super) slows: Option<i64>,
    /// When it ended, and how.
    pub(super) end: Option<(i64, End)>,
}

impl Gang {
    /// A worker's process id.
    pub fn pid(&self, worker: usize) -> u32 {
        self.run.pid(worker, self.turn)
    }

    /// Ray's id of a worker.
    pub fn worker_id(&self, worker: usize) -> String {
        format!("{:016x}{:08x}{worker:032x}", self.run.seed, self.turn)
    }

    /// When a worker's task began.
    pub const fn began(&self) -> i64 {
        self.since
    }

    /// Whether its workers are running at `now`.
    pub fn runs(&self, now: i64) -> bool {
        self.since <= now && self.end.as_ref().is_none_or(|(at, _)| *at > now)
    }

    /// The worker that has stopped writing by `now`, and when it stopped.
    pub fn silent_worker(&self, now: i64) -> Option<(usize, i64)> {
        self.silent.filter(|(_, at)| *at <= now)
    }

    /// Ray's state of a worker's task at `now`, when the task ended, and its error.
    pub fn state(&self, worker: usize, now: i64) -> (&'static str, Option<i64>, Option<String>) {
        match &self.end {
            None => ("RUNNING", None, None),
            Some((at, End::Done)) => ("FINISHED", Some(*at), None),
            Some((at, End::Gone)) => ("FAILED", Some(*at), Some("The task was cancelled.".into())),
            Some((at, End::Failed { first, error })) => {
                let at = at + Self::delay(worker, *first);
                if at > now {
                    return ("RUNNING", None, None);
                }
                ("FAILED", Some(at), Some(self.traceback(worker, *first, error, at).join("\n")))
            }
        }
    }

    /// Time from the first worker's failure to that of `worker`, in milliseconds.
    fn delay(worker: usize, first: usize) -> i64 {
        if worker == first {
            return 0;
        }
        let share = (worker as i64).wrapping_mul(7919) % (MAX_FAILURE_DELAY - MIN_FAILURE_DELAY - 1000);
        MIN_FAILURE_DELAY + share
    }

    /// The standard error of a worker.
    pub fn log(&self, worker: usize) -> Tale {
        let pace = if self.slow == Some(worker) { train::SLOW } else { train::STEADY };
        let mut tale = Tale::of(self.run.clone());
        tale.turn(self.since - 6000, What::Loads { worker });
        tale.turn(self.since, What::Works { step: self.step, worker, pace });
        if let Some(at) = self.slows.filter(|at| *at > self.since) {
            let step = self.step + tale.steps(self.since, at, pace);
            tale.turn(at, What::Works { step, worker, pace: pace * train::LATER / 100 });
        }
        if let Some((_, at)) = self.silent.filter(|(silent, _)| self.stalls || *silent == worker) {
            tale.close(at);
        }
        match &self.end {
            None => {}
            Some((at, End::Failed { first, error })) => {
                let at = at + Self::delay(worker, *first);
                tale.turn(at, What::Lines(self.traceback(worker, *first, error, at).into()));
                tale.close(at);
            }
            Some((at, End::Done)) => {
                tale.turn(*at, What::Lines(train::finish(&self.run, *at).into()));
                tale.close(*at);
            }
            Some((at, End::Gone)) => tale.close(*at),
        }
        tale
    }

    /// The stack of a running worker at `now` in the format of py-spy: in a training step; if one worker is silent,
    /// that one is reading a batch, and the others wait for it in a collective operation.
    pub fn frames(&self, worker: usize, now: i64) -> String {
        let silent = self.silent_worker(now).map(|(silent, _)| silent);
        let step = "    train_step (levanter/trainer.py:412)\n    training_steps (levanter/trainer.py:391)\n    train \
                    (levanter/trainer.py:478)\n    main (levanter/main/train_lm.py:214)\n";
        let batch = "    wait (threading.py:331)\n    wait (threading.py:629)\n    _read_batch (levanter/data/loader.py:88)\n    \
                     __next__ (levanter/data/loader.py:61)\n    training_steps (levanter/trainer.py:388)\n    train \
                     (levanter/trainer.py:478)\n    main (levanter/main/train_lm.py:214)\n";
        match silent {
            None => step.to_owned(),
            Some(silent) if silent == worker => batch.to_owned(),
            Some(_) => format!("    block_until_ready (jax/_src/array.py:621)\n{step}"),
        }
    }

    /// The last log lines of a worker that fails at `at`.
    fn traceback(&self, worker: usize, first: usize, error: &str, at: i64) -> Vec<String> {
        let error = if worker == first { error.to_owned() } else { peer_is_lost(worker, first) };
        let file = train::working_dir(&self.run);
        vec![
            format!("{} ERROR levanter.main.train_lm {}", stamp(at), without_class(&error)),
            "Traceback (most recent call last):".into(),
            format!("  File \"{file}/src/levanter/main/train_lm.py\", line 214, in main"),
            "    trainer.train(state, train_loader)".into(),
            format!("  File \"{file}/src/levanter/trainer.py\", line 478, in train"),
            "    for info in self.training_steps(state, train_loader):".into(),
            error,
        ]
    }
}

/// The message of an exception without its class.
fn without_class(error: &str) -> &str {
    error.split_once(": ").map_or(error, |(_, message)| message)
}

/// The error of a worker that lost the connection to a peer, as JAX's runtime reports it.
pub(super) fn peer_is_lost(worker: usize, first: usize) -> String {
    let name = "jax.errors.JaxRuntimeError";
    match worker % 3 {
        0 => format!(
            "{name}: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): /job:jax_worker/replica:0/task:{first}"
        ),
        1 => format!("{name}: UNAVAILABLE: Connection reset by peer: recvmsg from task {first}"),
        _ => format!("{name}: UNAVAILABLE: Socket closed by task {first}"),
    }
}
