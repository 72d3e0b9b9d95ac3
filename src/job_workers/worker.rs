//! A worker with its display names, and all workers of a job after one reading.

use super::known::Known;
use crate::logs::{Clock, Patterns, Worker};
use crate::model::amount::counted;
use crate::model::cloud::TpuHost;
use crate::model::sort;
use crate::model::text::log_line;
use crate::model::time::brief;
use crate::model::{
    Hint, JobStatus, JobWorker, Line, LogSource, Node, Text, Timestamp, WorkerFile, WorkerState,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// A worker, with its display names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedWorker {
    /// The worker as Ray knows it.
    pub process: JobWorker,
    /// The display name of its node.
    pub host: String,
    /// The name of its slice ([`Node::slice`]); empty if it is in none.
    pub slice: String,
    /// Why it no longer runs, if so.
    pub ended: Option<String>,
    /// When it ended, if Ray reports it.
    pub ended_at: Option<Timestamp>,
    /// Whether its node is dead, so that its files are lost.
    pub is_lost: bool,
}

impl NamedWorker {
    fn of(process: JobWorker, known: &Known, now: Timestamp) -> Self {
        let node = known.node(&process.node);
        let slice = node.and_then(Node::slice).map(Text::to_string);
        // A node that Ray has forgotten died long ago.
        let is_lost = node.is_none_or(|node| !node.state.is_alive());
        let ended = match &process.state {
            _ if is_lost => Some(node.map_or_else(|| "its node was lost".to_owned(), |node| node.died(now))),
            WorkerState::Running => None,
            WorkerState::Failed { why, at } => {
                let ago = at.map(|at| format!(" {} ago", brief(at.age(now)))).unwrap_or_default();
                Some(format!("failed{ago}: {}", last_line(why)))
            }
            WorkerState::Ended => Some("ended".to_owned()),
        };
        let ended_at = match &process.state {
            _ if is_lost => node.and_then(|node| node.ended),
            WorkerState::Failed { at, .. } => *at,
            WorkerState::Running | WorkerState::Ended => None,
        };
        let host = known.name_of(&process.node);
        Self { process, host, slice: slice.unwrap_or_default(), ended, ended_at, is_lost }
    }

    /// Its host and process id: `10.0.0.7/4123`.
    pub fn who(&self) -> String {
        format!("{}/{}", self.host, self.process.pid)
    }

    /// Whether it runs a task or an actor, as far as Ray reports it.
    pub fn runs(&self) -> bool {
        self.process.state == WorkerState::Running && !self.is_lost
    }

    /// Its state in a word: Ray's, or `lost` if its node is dead.
    pub const fn state_label(&self) -> &'static str {
        if self.is_lost { "lost" } else { self.process.state.label() }
    }

    /// The worker as input of an overview.
    pub fn called(&self) -> Worker {
        Worker {
            host: self.host.clone(),
            slice: self.slice.clone(),
            name: self.process.name.to_string(),
            pid: Some(self.process.pid),
            rank: None,
            ahead_ms: 0,
            ended: self.ended.clone(),
        }
    }
}

/// The last line of Ray's message that is not blank: the exception of a traceback.
fn last_line(words: &Text) -> String {
    let line = words.raw().lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    log_line(line).trim().to_owned()
}

/// The end of a worker's file.
#[derive(Clone, Debug, PartialEq)]
pub struct LastLines {
    /// Index of the worker in the list of workers.
    pub worker: usize,
    /// Whether it is standard error.
    pub is_err: bool,
    /// Its last lines.
    pub lines: Vec<Line>,
}

/// A log file of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLog<'a> {
    /// Index of the worker in the list of workers.
    pub worker: usize,
    /// The node that it is on.
    pub node: &'a Node,
    /// Its name in Ray's log directory.
    pub name: &'a Text,
    /// Whether it is standard error.
    pub is_err: bool,
}

impl WorkerLog<'_> {
    /// How to follow it: its source, and its host; `None` on the head.
    pub fn followed(&self) -> (LogSource, Option<TpuHost>) {
        let source = LogSource::File { node: self.node.id, name: self.name.clone() };
        (source, (!self.node.is_head).then(|| TpuHost::of(self.node)))
    }
}

/// A job and its workers after one reading.
#[derive(Clone, Debug, PartialEq)]
pub struct JobWorkers {
    /// The job and its cluster.
    pub known: Known,
    /// Its workers.
    pub workers: Vec<NamedWorker>,
    /// The clock of its logs; [`Clock::near`] is when they were read.
    pub clock: Clock,
    /// The patterns that recognize its progress lines; those of common trainers unless others are set.
    pub patterns: Patterns,
    /// What could not be read, one sentence each.
    pub incomplete: Vec<String>,
}

impl JobWorkers {
    /// The name of one of its hosts without the prefix that all names share, e.g. `w-14` in a slice. Unchanged if there
    /// is only one host, or if the names have no parts.
    pub fn short_host<'h>(&self, host: &'h str) -> &'h str {
        let Some(first) = self.workers.first().map(|worker| worker.host.as_str()) else { return host };
        if self.workers.iter().all(|worker| worker.host == first) {
            return host;
        }
        let alike = |other: &str| first.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        let shared = self.workers.iter().map(|worker| alike(&worker.host)).min().unwrap_or(0);
        let begins = host.get(..shared).unwrap_or_default();
        let Some(end) = begins.rfind('-').map(|at| at + 1) else { return host };
        // A number alone would not show that it is a worker's.
        let end = if begins[..end].ends_with("-w-") { end - 2 } else { end };
        &host[end..]
    }

    /// Whether they are in more than one slice.
    pub fn has_slices(&self) -> bool {
        self.workers.windows(2).any(|pair| pair[0].slice != pair[1].slice)
    }

    /// The workers of a job, with their display names.
    pub fn new(known: Known, workers: Vec<JobWorker>, clock: Clock) -> Self {
        let workers = workers.into_iter().map(|worker| NamedWorker::of(worker, &known, clock.near)).collect();
        Self { known, workers, clock, patterns: Patterns::default(), incomplete: Vec::new() }
    }

    /// The log files of the workers whose nodes are alive.
    pub fn logs(&self) -> impl Iterator<Item = WorkerLog<'_>> {
        let alive = self.workers.iter().enumerate().filter(|(_, worker)| !worker.is_lost);
        alive.flat_map(|(at, worker)| {
            let node = self.known.node(&worker.process.node);
            let log = move |name| {
                let is_err = WorkerFile::parse(Text::raw(name))?.is_err;
                Some(WorkerLog { worker: at, node: node?, name, is_err })
            };
            worker.process.files.iter().filter_map(log)
        })
    }

    /// Removes the workers that have ended without failing, if others still run. Returns their number.
    pub fn leave_out_idle(&mut self) -> usize {
        if !self.workers.iter().any(NamedWorker::runs) {
            return 0;
        }
        let all = self.workers.len();
        self.workers.retain(|worker| worker.process.state != WorkerState::Ended || worker.is_lost);
        all - self.workers.len()
    }

    /// The indices of the workers that a run has besides its own, such as an actor that coordinates it: they are on the
    /// head, and do other work than the workers on other nodes. Operators do not count them among the run's workers.
    pub fn beside(&self) -> BTreeSet<usize> {
        let head = self.known.head().map(|node| node.id);
        let is_on_head = |at: &usize| Some(self.workers[*at].process.node) == head;
        let (here, others): (Vec<usize>, Vec<usize>) = (0..self.workers.len()).partition(is_on_head);
        let kind = |at: &usize| self.workers[*at].process.kind.raw();
        let kinds = sort::distinct(others.iter().map(kind).filter(|kind| !kind.is_empty()));
        let is_beside = |at: &usize| !kinds.is_empty() && !kinds.contains(&kind(at));
        sort::collected(here.into_iter().filter(is_beside))
    }

    /// The number of workers: `32 workers and 1 on the head`.
    pub fn count_text(&self) -> String {
        let beside = self.beside().len();
        worker_count_text(self.workers.len() - beside, beside)
    }

    /// Why there are no workers, in a sentence.
    pub fn why_empty(&self) -> String {
        let (id, status) = (&self.known.job.key, self.known.job.status);
        let verb = match status {
            JobStatus::Succeeded | JobStatus::Failed => "has",
            JobStatus::Stopped => "was",
            JobStatus::Pending | JobStatus::Running | JobStatus::Unknown => "is",
        };
        let word = status.label();
        match self.known.job.driver {
            None => format!("{id} {verb} {word}: it has not called ray.init, so it has no workers"),
            Some(_) => format!("{id} {verb} {word}: no live node has log files of its workers"),
        }
    }
}

/// A number of workers, and of those on the head that a run has besides ([`JobWorkers::beside`]).
pub(super) fn worker_count_text(workers: usize, beside: usize) -> String {
    let workers = counted(workers, "worker");
    if beside == 0 { workers } else { format!("{workers} and {beside} on the head") }
}

/// The number of workers whose files were lost with their nodes, and their hosts; `None` if there are none.
pub fn lost_workers_text(workers: &[NamedWorker]) -> Option<String> {
    let lost = workers.iter().filter(|worker| worker.is_lost);
    let mut hosts: Vec<&str> = lost.clone().map(|worker| worker.host.as_str()).collect();
    hosts.dedup();
    let (workers, hosts) = (counted(lost.count(), "worker"), first_few(&hosts));
    (!hosts.is_empty()).then(|| format!("the logs of {workers} were lost with their nodes: {hosts}"))
}

/// The log file of a worker to open: the first one of its standard output or of its standard error, as wanted;
/// otherwise any. An error says why there is none.
pub fn file_to_open(who: &str, files: &[Text], is_err: Option<bool>) -> Result<Text, String> {
    let is_it = |file: WorkerFile<'_>| is_err.is_none_or(|wanted| wanted == file.is_err);
    let of_stream = files.iter().find(|name| WorkerFile::parse(name.raw()).is_some_and(is_it));
    of_stream.or(files.first()).cloned().ok_or_else(|| format!("{who}: its files are missing"))
}

/// Why the log files of a worker whose node is dead cannot be opened, and what to do instead, if its job is known.
pub fn lost_files(who: &str, known: Option<&Known>) -> (String, Hint) {
    let hint = known.map_or_else(Hint::none, |known| known.job_log_hint("read the job's log"));
    (format!("{who}: its files are lost with its node"), hint)
}

/// The first of some names, and the number of the others.
pub fn first_few(names: &[&str]) -> String {
    const MAX_NAMES: usize = 8;
    match names.split_at_checked(MAX_NAMES) {
        Some((few, rest)) if !rest.is_empty() => format!("{} and {} more", few.join(", "), rest.len()),
        _ => names.join(", "),
    }
}

/// An age for display; `-` if it is unknown.
pub fn age_text(age: Option<Duration>) -> String {
    age.map_or_else(|| "-".to_owned(), brief)
}
