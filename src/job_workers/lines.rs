//! What all workers of a job wrote: in the order of time, and folded where many say the same.

use super::worker::{JobWorkers, Tail};
use crate::logs::{Fold, Merge, Row, Times};
use crate::model::{Line, LineMatch, Timestamp};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Lines of each file that are read unless somebody asks for more.
pub const FOLDED: u32 = 100;
/// Equal lines that are further apart are rows of their own.
const SAME_EVENT: Duration = Duration::from_secs(60);
/// Bytes that the rows may take in memory.
const ROWS: usize = 64 << 20;

/// A line of a worker, in its place among all.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLine {
    /// Place of the worker in the list of workers.
    pub worker: usize,
    /// Whether it was written to standard error.
    pub is_err: bool,
    /// Its number among the lines that were read of its file.
    pub number: u64,
    /// Its time, or that of the line before it.
    pub time: Option<Timestamp>,
    /// A number that the same line has in a later reading, too.
    pub mark: u64,
    /// The line, cleaned for a terminal, with its colours.
    pub line: Line,
}

/// A number that equal things have.
fn mark(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// All lines in the order of time: those of one file in theirs.
pub fn in_order(job_workers: &JobWorkers, tails: Vec<Tail>) -> impl Iterator<Item = WorkerLine> {
    let clock = job_workers.clock;
    merged(tails.into_iter().map(move |Tail { worker, is_err, lines }| {
        let mut times = Times::new(clock);
        let lines = lines.into_iter().map(move |line| (times.next(line.text()), line));
        (worker, is_err, lines)
    }))
}

/// The same of lines that a search has found, for each worker and stream with their times.
pub fn found_in_order(found: Vec<(usize, bool, Vec<LineMatch>)>) -> impl Iterator<Item = WorkerLine> {
    merged(found.into_iter().map(|(worker, is_err, lines)| {
        (worker, is_err, lines.into_iter().map(|found| (found.time, found.line)))
    }))
}

fn merged<L: Iterator<Item = (Option<Timestamp>, Line)>>(
    all: impl Iterator<Item = (usize, bool, L)>,
) -> impl Iterator<Item = WorkerLine> {
    let mut merge = Merge::new(Duration::ZERO);
    for (worker, is_err, lines) in all {
        for (number, (time, line)) in (0..).zip(lines) {
            let mark = mark((is_err, time, line.text()));
            let said = WorkerLine { worker, is_err, number, time, mark, line };
            merge.push(worker as u32 * 2 + u32::from(is_err), time, said);
        }
    }
    std::iter::from_fn(move || merge.next_anyway())
        .map(|merged| WorkerLine { time: merged.time, ..merged.item })
}

/// Rows of equal lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    /// In the order of their first lines.
    pub rows: Vec<Row>,
    /// For each of them a number that the same row has in a later reading, too.
    pub marks: Vec<u64>,
    /// For each of them who could have said it.
    pub among: Vec<Peers>,
    /// Rows before these that were dropped: too many lines differ.
    pub left_out: u64,
}

/// The workers of the same task or actor as those that wrote a row; other kinds are not expected to write it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// How many they are, those who say it included.
    pub workers: usize,
    /// Those who do not say it, by their places in the list of workers.
    pub missing: Vec<u32>,
}

impl Peers {
    fn of(row: &Row, job_workers: &JobWorkers) -> Self {
        let kind = |at: u32| job_workers.workers.get(at as usize).map(|worker| worker.process.kind.raw());
        let kinds: BTreeSet<_> = row.members().iter().map(|member| kind(member.source)).collect();
        let mut missing = row.missing(job_workers.workers.len() as u32);
        missing.retain(|at| kinds.contains(&kind(*at)));
        Self { workers: row.members().len() + missing.len(), missing }
    }

    /// Those who do not say it where most do: else that says nothing.
    pub fn notable(&self) -> &[u32] {
        if self.missing.len() * 2 < self.workers { &self.missing } else { &[] }
    }
}

/// Folds lines that are in order; equal steps, which the patterns of the list of workers find, are one row. The sources of the rows
/// are the places in the list of workers.
pub fn fold(lines: impl Iterator<Item = impl Borrow<WorkerLine>>, job_workers: &JobWorkers) -> Folded {
    let mut fold = Fold::new(SAME_EVENT, ROWS, job_workers.patterns.clone());
    for said in lines {
        let said: &WorkerLine = said.borrow();
        fold.push(said.worker as u32, said.number, said.time, said.line.text());
    }
    fold.flush();
    let rows: Vec<Row> = fold.rows().cloned().collect();
    let marks = rows.iter().map(|row| mark((row.time.map(|(first, _)| first), &row.text))).collect();
    let among = rows.iter().map(|row| Peers::of(row, job_workers)).collect();
    Folded { rows, marks, among, left_out: fold.first() }
}
