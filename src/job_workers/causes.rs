//! The errors of a job's driver and workers, and the deaths of their nodes, compared by time.

use super::worker::{JobWorkers, LastLines, NamedWorker};
use crate::logs::{Causes, Certainty, Evidence, Explanation, Source, Times, Writer, Writers, prefixed};
use crate::model::text::log_line;
use crate::model::{DeathReason, Line, Node, NodeId, Timestamp, WorkerState};
use std::collections::BTreeMap;
use std::time::Duration;

/// Clocks that are synchronized by NTP differ by less than this, in milliseconds.
const MAX_CLOCK_SKEW: u64 = 250;
/// The GCS notices the death of a node this long after it; a job may fail because of it before that.
const NODE_DEATH_DELAY: Duration = Duration::from_secs(90);
/// Maximum number of hosts whose clocks are read for one explanation.
const MAX_CLOCKS: usize = 8;

/// A host's clock, compared with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostClock {
    /// Milliseconds that it is ahead of ours; negative if it is behind.
    pub ahead_ms: i64,
    /// The uncertainty of that, in milliseconds either way.
    pub unsure_ms: u64,
}

/// The clocks that were read.
pub type Clocks = BTreeMap<NodeId, HostClock>;

/// The source number of a part of a worker: 0 standard output, 1 standard error, 2 Ray's message about its task. Source
/// 0 is the driver.
const fn source_of(worker: usize, part: u32) -> u32 {
    1 + worker as u32 * 3 + part
}

/// The worker that a source belongs to, and its part; `None` for the driver.
pub(super) const fn worker_of_source(source: u32) -> Option<(usize, u32)> {
    match source.checked_sub(1) {
        Some(number) => Some((number as usize / 3, number % 3)),
        None => None,
    }
}

/// Whether none of the sources of a worker has an error.
pub(super) fn is_without_error(found: &Explanation, worker: usize) -> bool {
    (0..3).all(|part| found.silent.contains(&source_of(worker, part)))
}

/// Finds the first cause in the ends of the workers' files, in the end of the driver's log if it could be read, and in
/// the deaths of nodes.
pub fn causes(
    job_workers: &JobWorkers,
    tails: &[LastLines],
    driver: Option<&[Line]>,
    clocks: &Clocks,
) -> Option<Explanation> {
    let mut comparison = Comparison::new(job_workers, clocks);
    let own = comparison.add_driver(driver.unwrap_or_default());
    for tail in tails {
        comparison.add_tail(tail);
    }
    comparison.add_deaths();
    comparison.add_failed_tasks();
    let mut causes = comparison.causes;
    let found = causes.explain();
    let is_cause = |found: &Explanation| found.certainty != Certainty::OnlyConsequences && !found.is_outlived;
    if found.as_ref().is_some_and(is_cause) || own.is_empty() {
        return found;
    }
    // The driver repeats the errors of workers, usually without their times, so its lines are used only if no worker
    // shows the cause.
    for (number, time, line) in own {
        causes.push(0, number, time, line.text());
    }
    causes.explain()
}

/// A line with its number in its log, and its time.
type TimedLine<'a> = (u64, Option<Timestamp>, &'a Line);

/// The errors of a job's logs and the deaths of its nodes, to be compared by time.
struct Comparison<'a> {
    job_workers: &'a JobWorkers,
    clocks: &'a Clocks,
    driver_host: String,
    causes: Causes,
}

impl<'a> Comparison<'a> {
    /// A comparison without lines. Its sources are the driver and the workers, numbered as in [`source_of`].
    fn new(job_workers: &'a JobWorkers, clocks: &'a Clocks) -> Self {
        let (known, driver_node) = (&job_workers.known, job_workers.known.job.driver_node);
        let driver_host = driver_node.and_then(|id| known.node(&id));
        let driver_host = driver_host.map_or_else(|| "the driver's node".into(), |node| known.name(node));
        let mut sources = vec![source_on(clocks, driver_node, &driver_host, "driver".into())];
        for (number, worker) in (0..).zip(&job_workers.workers) {
            for part in ["out", "err", "task"] {
                let name = format!("pid {} {part}", worker.process.pid);
                let source = source_on(clocks, Some(worker.process.node), &worker.host, name);
                // Ray's message is about one task, with a time of Ray's clock.
                let process = (part != "task").then_some(number);
                sources.push(Source { process, ..source });
            }
        }
        let causes = Causes::new(sources, job_workers.patterns.clone());
        Self { job_workers, clocks, driver_host, causes }
    }

    /// Adds the lines of the driver's log that are of workers whose own files cannot be read. Returns the lines of the
    /// driver itself.
    fn add_driver<'l>(&mut self, lines: &'l [Line]) -> Vec<TimedLine<'l>> {
        let mut own = Vec::new();
        let (mut times, mut writers, mut numbers) =
            (Times::new(self.job_workers.clock), Writers::default(), Vec::<u32>::new());
        for (number, line) in (0..).zip(lines) {
            let time = times.next(line.text());
            let source = match prefixed(line.text()).writer {
                None => {
                    own.push((number, time, line));
                    continue;
                }
                // The worker's own file has all its lines.
                Some(writer) if has_file(self.job_workers, &writer) => continue,
                Some(writer) => {
                    let at = writers.number(&writer) as usize;
                    if at >= numbers.len() {
                        let host = writer.ip.unwrap_or(&self.driver_host);
                        let source = source_on(self.clocks, None, host, writer.name.to_owned());
                        numbers.push(self.causes.add(source));
                    }
                    numbers[at]
                }
            };
            self.causes.push(source, number, time, line.text());
        }
        self.causes.read_driver(own.iter().map(|(_, time, line)| (*time, line.text())));
        own
    }

    /// Adds the end of a worker's file.
    fn add_tail(&mut self, tail: &LastLines) {
        let mut times = Times::new(self.job_workers.clock);
        let source = source_of(tail.worker, u32::from(tail.is_err));
        for (number, line) in (0..).zip(&tail.lines) {
            self.causes.push(source, number, times.next(line.text()), line.text());
        }
    }

    /// Adds the deaths of nodes that may have ended the job.
    fn add_deaths(&mut self) {
        let known = &self.job_workers.known;
        for node in known.snapshot.nodes.iter().filter(|node| killed(node, self.job_workers)) {
            self.causes.node_died(&known.name(node), node.ended, &node.died(self.job_workers.clock.near));
        }
    }

    /// Adds Ray's messages about failed workers whose files have no error: only Ray knows why a worker was killed.
    fn add_failed_tasks(&mut self) {
        let silent = self.causes.explain().map(|found| found.silent);
        for (at, worker) in self.job_workers.workers.iter().enumerate() {
            let is_silent = |part: u32| silent.as_ref().is_none_or(|all| all.contains(&source_of(at, part)));
            if let WorkerState::Failed { why, at: time } = &worker.process.state
                && is_silent(0)
                && is_silent(1)
            {
                for (number, line) in (0..).zip(why.raw().lines()) {
                    self.causes.push(source_of(at, 2), number, *time, &log_line(line));
                }
            }
        }
    }
}

/// A source on that node. A clock that was not read may differ by [`MAX_CLOCK_SKEW`].
fn source_on(clocks: &Clocks, node: Option<NodeId>, host: &str, name: String) -> Source {
    let clock = node.and_then(|node| clocks.get(&node));
    let clock = clock.copied().unwrap_or(HostClock { ahead_ms: 0, unsure_ms: MAX_CLOCK_SKEW });
    Source {
        host: host.to_owned(),
        name,
        ahead_ms: clock.ahead_ms,
        unsure_ms: clock.unsure_ms,
        process: None,
    }
}

/// The living hosts on whose clocks the order of the first errors depends, the host of the first error first.
pub fn hosts_to_time(found: &Explanation, job_workers: &JobWorkers) -> Vec<NodeId> {
    let node = |evidence: &Evidence| match evidence.source {
        Some(0) => job_workers.known.job.driver_node,
        Some(source) => Some(job_workers.workers.get(worker_of_source(source)?.0)?.process.node),
        None => None,
    };
    let followed = found.followed.iter().map(|followed| &followed.first);
    let all = std::iter::once(&found.first).chain(&found.candidates).chain(&found.before).chain(followed);
    let mut hosts: Vec<NodeId> = Vec::new();
    for id in all.filter_map(node) {
        let is_alive = job_workers.known.node(&id).is_some_and(|node| node.state.is_alive());
        if is_alive && hosts.len() < MAX_CLOCKS && !hosts.contains(&id) {
            hosts.push(id);
        }
    }
    hosts
}

/// Whether a writer of lines in the driver's log is a worker whose files can be read.
fn has_file(job_workers: &JobWorkers, writer: &Writer<'_>) -> bool {
    let address =
        |worker: &NamedWorker| job_workers.known.node(&worker.process.node).map(|node| node.address.raw());
    let is_there = |worker: &&NamedWorker| {
        Some(worker.process.pid) == writer.pid && writer.ip.is_none_or(|ip| address(worker) == Some(ip))
    };
    job_workers.workers.iter().find(is_there).is_some_and(|worker| !worker.process.files.is_empty())
}

/// Whether a worker or the driver ran on this node, and its death may have ended the job.
fn killed(node: &Node, job_workers: &JobWorkers) -> bool {
    let job = &job_workers.known.job;
    let Some(at) = node.ended.filter(|_| !node.state.is_alive()) else { return false };
    // A node that the autoscaler removes no longer has any work, even if workers had run there.
    let in_order = node.death.as_ref().is_some_and(|death| death.reason == DeathReason::Expected);
    let ran = job.driver_node == Some(node.id)
        || job_workers
            .workers
            .iter()
            .any(|worker| worker.process.node == node.id && (!in_order || had_work(worker, at)));
    let is_after = job.ended.is_some_and(|ended| at > ended.plus(NODE_DEATH_DELAY));
    ran && job.started.is_none_or(|started| at >= started)
        && !is_after
        && !(in_order && job.ended.is_some_and(|e| at > e))
}

/// Whether a worker had not ended long before its node died.
fn had_work(worker: &NamedWorker, died: Timestamp) -> bool {
    match &worker.process.state {
        WorkerState::Running => true,
        WorkerState::Failed { at, .. } => at.is_none_or(|at| at.plus(NODE_DEATH_DELAY) >= died),
        WorkerState::Ended => false,
    }
}
