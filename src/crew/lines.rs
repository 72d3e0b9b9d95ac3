//! What all workers of a job wrote: in the order of time, and folded where many say the same.

use super::seat::{Crew, Tail};
use crate::logs::{Fold, Merge, Row, Times};
use crate::model::{Line, Timestamp};
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
pub struct Said {
    /// Place of the worker in its crew.
    pub seat: usize,
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
pub fn in_order(crew: &Crew, tails: Vec<Tail>) -> impl Iterator<Item = Said> {
    let mut merge = Merge::new(Duration::ZERO);
    for Tail { seat, is_err, lines } in tails {
        let mut times = Times::new(crew.clock);
        for (number, line) in (0..).zip(lines) {
            let time = times.next(line.text());
            let mark = mark((is_err, time, line.text()));
            let said = Said { seat, is_err, number, time, mark, line };
            merge.push(seat as u32 * 2 + u32::from(is_err), time, said);
        }
    }
    std::iter::from_fn(move || merge.next_anyway()).map(|merged| Said { time: merged.time, ..merged.item })
}

/// Rows of equal lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    /// In the order of their first lines.
    pub rows: Vec<Row>,
    /// For each of them a number that the same row has in a later reading, too.
    pub marks: Vec<u64>,
    /// For each of them who could have said it.
    pub among: Vec<Among>,
    /// Rows before these that were dropped: too many lines differ.
    pub left_out: u64,
}

/// The workers that run what those run who say a row: what one actor says is not expected of another kind of actor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Among {
    /// How many they are, those who say it included.
    pub workers: usize,
    /// Those who do not say it, by their places in the crew.
    pub missing: Vec<u32>,
}

impl Among {
    fn of(row: &Row, crew: &Crew) -> Self {
        let kind = |at: u32| crew.seats.get(at as usize).map(|seat| seat.worker.kind.raw());
        let kinds: BTreeSet<_> = row.members().iter().map(|member| kind(member.source)).collect();
        let mut missing = row.missing(crew.seats.len() as u32);
        missing.retain(|at| kinds.contains(&kind(*at)));
        Self { workers: row.members().len() + missing.len(), missing }
    }

    /// Those who do not say it where most do: else that says nothing.
    pub fn notable(&self) -> &[u32] {
        if self.missing.len() * 2 < self.workers { &self.missing } else { &[] }
    }
}

/// Folds lines that are in order; equal steps, which the patterns of the crew find, are one row. The sources of the rows
/// are the places in the crew.
pub fn fold(lines: impl Iterator<Item = impl Borrow<Said>>, crew: &Crew) -> Folded {
    let mut fold = Fold::new(SAME_EVENT, ROWS, crew.patterns.clone());
    for said in lines {
        let said: &Said = said.borrow();
        fold.push(said.seat as u32, said.number, said.time, said.line.text());
    }
    fold.flush();
    let rows: Vec<Row> = fold.rows().cloned().collect();
    let marks = rows.iter().map(|row| mark((row.time.map(|(first, _)| first), &row.text))).collect();
    let among = rows.iter().map(|row| Among::of(row, crew)).collect();
    Folded { rows, marks, among, left_out: fold.first() }
}
