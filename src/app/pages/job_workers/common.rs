//! Shared by the tables of a job's workers.

use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::log::{CONTEXT_LINES, LineTarget};
use crate::app::table::cell::{Cell, Role};
use crate::app::table::facts::CellContext;
use crate::app::text::labels;
use crate::job_workers::{JobWorkers, NamedWorker, Part, WorkerLine, lost_workers_text};
use crate::logs::{Level, level};
use crate::model::text::printable;
use crate::model::{NodeId, Timestamp};

/// A worker and a time: the position of the cursor in any of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerPosition {
    /// Index of the worker in the list of workers of the table's reading.
    pub worker: usize,
    /// The time of the line.
    pub time: Option<Timestamp>,
    /// Which of its files contains the line; `None` if unknown.
    pub is_err: Option<bool>,
}

/// A worker's node and process id, which identify it in every reading.
pub type Process = (NodeId, u32);

/// The identity of a worker.
pub fn process(job_workers: &JobWorkers, worker: usize) -> Option<Process> {
    job_workers.workers.get(worker).map(|worker| (worker.process.node, worker.process.pid))
}

/// The index of a worker in a list of workers.
pub fn worker_at(job_workers: &JobWorkers, (node, pid): Process) -> Option<usize> {
    job_workers.workers.iter().position(|worker| worker.process.node == node && worker.process.pid == pid)
}

/// A line in its worker's file.
pub fn in_file(lines: &[WorkerLine], at: usize) -> Option<LineTarget> {
    let line = lines.get(at)?;
    let of_file = |other: &&WorkerLine| (other.worker, other.is_err) == (line.worker, line.is_err);
    let above = lines[..at].iter().rev().filter(of_file).take(CONTEXT_LINES);
    let mut before: Vec<String> = above.map(|line| line.line.text().to_owned()).collect();
    before.reverse();
    Some(LineTarget { text: line.line.text().to_owned(), before, at: None })
}

/// The text next to the title: what was read, its age, and what it cost the head.
pub fn state(
    context: &CellContext<'_>,
    of: Option<usize>,
    part: Part,
    what: impl Fn(&JobWorkers) -> String,
) -> Cell<'static> {
    let Some(cluster) = of.and_then(|cluster_index| context.fleet.clusters.get(cluster_index)) else {
        return Cell::default();
    };
    let slot = cluster.job_workers.slot(part);
    let mut parts = Vec::new();
    if let Some(reading) = &slot.reading {
        parts.push(what(&reading.job_workers));
        parts.push(format!("{} ago", labels::span(reading.at.age(context.now))));
        parts.push(reading.cost.text());
    }
    if slot.requested.is_some() {
        parts.push("reading".to_owned());
    }
    if slot.problem.is_some() {
        parts.push("not read".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    let role = if slot.problem.is_some() { Role::Warn } else { Role::Dim };
    Cell::new(parts.join(" · "), role)
}

/// Why there are no rows.
pub fn why_empty(context: &CellContext<'_>, of: Option<usize>, part: Part) -> String {
    let Some(cluster) = of.and_then(|cluster_index| context.fleet.clusters.get(cluster_index)) else {
        return String::new();
    };
    let slot = cluster.job_workers.slot(part);
    match (&slot.reading, &slot.problem, cluster.is_up()) {
        (Some(reading), ..) if reading.job_workers.workers.is_empty() => reading.job_workers.why_empty(),
        (Some(reading), ..) => lost_workers_text(&reading.job_workers.workers)
            .unwrap_or_else(|| "the workers have not written anything yet".to_owned()),
        (None, Some(problem), _) => {
            let hint = context.hint(&problem.hint);
            let what = printable(&problem.what);
            if hint.is_empty() { what.into_owned() } else { format!("{what}; {hint}") }
        }
        (None, None, true) => "reading the workers' log files".to_owned(),
        (None, None, false) => "waiting for the cluster to connect".to_owned(),
    }
}

/// The target of actions on a row: the job.
pub fn of_job(cluster: &Cluster, cluster_index: usize) -> Target {
    cluster
        .job_workers
        .job
        .clone()
        .map_or(Target::Cluster(cluster_index), |job| Target::Job(cluster_index, job))
}

/// The slice of a worker; empty if all are in the same one.
pub fn slice_cell<'f>(job_workers: &JobWorkers, worker: &'f NamedWorker) -> Cell<'f> {
    Cell::text(if job_workers.has_slices() { worker.slice.as_str() } else { "" }).ending()
}

/// The color of a worker among the others.
pub const fn hue(worker: usize) -> Role {
    Role::Hue((worker % Role::HUES) as u8)
}

/// The role of a line by its level.
pub fn role(text: &str) -> Role {
    match level(text) {
        Some(Level::Error) => Role::Bad,
        Some(Level::Warning) => Role::Warn,
        _ => Role::Text,
    }
}
