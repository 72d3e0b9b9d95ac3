//! The lines of all workers of a job: in time order, and folded if many are equal.

use super::worker::{JobWorkers, LastLines};
use crate::logs::{Fold, Merge, Row, Times};
use crate::model::sort;
use crate::model::{Line, LineMatch, Timestamp};
use std::borrow::Borrow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Default number of lines that are read of each file.
pub const DEFAULT_LINES: u32 = 100;
/// Equal lines that are further apart than this are separate rows.
const SAME_EVENT: Duration = Duration::from_secs(60);
/// Maximum memory for the rows, in bytes.
const MAX_MEMORY: usize = 64 << 20;

/// A line of a worker, among those of all workers.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLine {
    /// Index of the worker in the list of workers.
    pub worker: usize,
    /// Whether it was written to standard error.
    pub is_err: bool,
    /// Its number among the lines that were read of its file.
    pub number: u64,
    /// Its time, or that of the line before it.
    pub time: Option<Timestamp>,
    /// Identifies the line across readings.
    pub mark: u64,
    /// The line, cleaned for a terminal, with its colors.
    pub line: Line,
}

/// A hash that is the same for equal values.
fn mark(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// All lines in time order; those of one file keep their order.
pub fn in_order(job_workers: &JobWorkers, tails: Vec<LastLines>) -> impl Iterator<Item = WorkerLine> {
    let clock = job_workers.clock;
    merged(tails.into_iter().map(move |LastLines { worker, is_err, lines }| {
        let mut times = Times::new(clock);
        let lines = lines.into_iter().map(move |line| (times.next(line.text()), line));
        (worker, is_err, lines)
    }))
}

/// The same for lines that a search has found, with their times, for each worker and stream.
pub fn found_in_order(found: Vec<(usize, bool, Vec<LineMatch>)>) -> impl Iterator<Item = WorkerLine> {
    merged(found.into_iter().map(|(worker, is_err, lines)| {
        (worker, is_err, lines.into_iter().map(|found| (found.time, found.line)))
    }))
}

fn merged<L: Iterator<Item = (Option<Timestamp>, Line)>>(
    all: impl Iterator<Item = (usize, bool, L)>,
) -> impl Iterator<Item = WorkerLine> {
    let mut merge = Merge::default();
    for (worker, is_err, lines) in all {
        for (number, (time, line)) in (0..).zip(lines) {
            let mark = mark((is_err, time, line.text()));
            let item = WorkerLine { worker, is_err, number, time, mark, line };
            merge.push(worker as u32 * 2 + u32::from(is_err), time, item);
        }
    }
    std::iter::from_fn(move || merge.pop()).map(|merged| WorkerLine { time: merged.time, ..merged.item })
}

/// Rows of equal lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    /// In the order of their first lines.
    pub rows: Vec<Row>,
    /// For each row, a number that identifies it across readings.
    pub marks: Vec<u64>,
    /// For each row, the workers that could have written it.
    pub among: Vec<Peers>,
    /// Number of earlier rows that were dropped because too many lines differ.
    pub left_out: u64,
}

/// The workers of the same task or actor as those that wrote a row; other kinds are not expected to write it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Their number, including those that wrote the row.
    pub workers: usize,
    /// Those that did not write it, by their indexes in the list of workers.
    pub missing: Vec<u32>,
}

impl Peers {
    fn of(row: &Row, job_workers: &JobWorkers) -> Self {
        let kind = |at: u32| job_workers.workers.get(at as usize).map(|worker| worker.process.kind.raw());
        let kinds = row.members().iter().map(|member| kind(member.source));
        let kinds = sort::distinct(kinds);
        let mut missing = row.missing(job_workers.workers.len() as u32);
        missing.retain(|at| kinds.contains(&kind(*at)));
        Self { workers: row.members().len() + missing.len(), missing }
    }

    /// Those that did not write it, if most did; otherwise that is not notable.
    pub fn notable(&self) -> &[u32] {
        if self.missing.len() * 2 < self.workers { &self.missing } else { &[] }
    }
}

/// Folds lines that are in order. Equal steps, which the patterns of `job_workers` find, are one row. The sources of
/// the rows are indexes in the list of workers.
pub fn fold(lines: impl Iterator<Item = impl Borrow<WorkerLine>>, job_workers: &JobWorkers) -> Folded {
    let mut fold = Fold::new(SAME_EVENT, MAX_MEMORY, job_workers.patterns.clone());
    for item in lines {
        let item: &WorkerLine = item.borrow();
        fold.push(item.worker as u32, item.number, item.time, item.line.text());
    }
    fold.flush();
    let rows: Vec<Row> = fold.rows().cloned().collect();
    let marks = rows.iter().map(|row| mark((row.time.map(|(first, _)| first), &row.text))).collect();
    let among = rows.iter().map(|row| Peers::of(row, job_workers)).collect();
    Folded { rows, marks, among, left_out: fold.first() }
}
