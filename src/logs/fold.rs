//! What many sources say alike becomes one row: `248 of 256  step 1200 loss 2.31`.

use super::level::Level;
use super::normal::{Shape, shape, shape_of};
use super::prefix::prefixed;
use super::progress::Patterns;
use super::unit::{Unit, Units};
use crate::model::Timestamp;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Who said a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the source.
    pub source: u32,
    /// Number of the line that it said it in first, as the caller counts the lines of that source.
    pub line: u64,
    /// How often it said it within the window, counting what Ray left out (`[repeated 12x across cluster]`).
    pub times: u32,
    /// When it said it first.
    pub time: Option<Timestamp>,
}

/// Equal lines, or equal tracebacks, of one or more sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number, which never changes.
    pub id: u64,
    /// What the first of its members said: the line, or the exception of a traceback.
    pub text: String,
    /// The lines of the traceback; empty for a line of its own.
    pub trace: Vec<String>,
    /// The level that it says.
    pub level: Option<Level>,
    /// The step that it reports.
    pub step: Option<u64>,
    /// Time of its first line, and of its last.
    pub time: Option<(Timestamp, Timestamp)>,
    /// In the order of their sources.
    members: Vec<Member>,
}

impl Row {
    /// Who said it, in the order of the sources.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The lines of all members together.
    pub fn times(&self) -> u64 {
        self.members.iter().map(|m| u64::from(m.times)).sum()
    }

    /// The sources, of so many, that did not say it.
    pub fn missing(&self, sources: u32) -> Vec<u32> {
        let said = |source: &u32| self.members.binary_search_by_key(source, |m| m.source).is_ok();
        (0..sources).filter(|source| !said(source)).collect()
    }

    /// Bytes that it takes in memory.
    fn bytes(&self) -> usize {
        let trace: usize = self.trace.iter().map(|line| line.len() + size_of::<String>()).sum();
        size_of::<Self>() + 64 + self.text.len() + trace + self.members.len() * size_of::<Member>()
    }
}

/// Folds lines as they come. The rows are in the order in which their first lines came.
#[derive(Debug)]
pub struct Fold {
    window: Duration,
    limit: usize,
    patterns: Patterns,
    units: Vec<Units>,
    rows: VecDeque<Row>,
    bytes: usize,
    /// Number of the first row that is held.
    first: u64,
    /// The newest row of what is said.
    newest: HashMap<(Shape, Option<u64>), u64>,
}

impl Fold {
    /// Lines that are this far apart are no longer the same event; as bytes, what the rows may take in memory.
    pub fn new(window: Duration, limit: usize, patterns: Patterns) -> Self {
        Self {
            window,
            limit,
            patterns,
            units: Vec::new(),
            rows: VecDeque::new(),
            bytes: 0,
            first: 0,
            newest: HashMap::new(),
        }
    }

    /// Takes in a line of a source (a number from 0), in the order of time ([`super::Merge`]): its number there, its
    /// time or that of the line before it, and its text, with Ray's prefix or without.
    pub fn push(&mut self, source: u32, line: u64, time: Option<Timestamp>, text: &str) {
        let at = source as usize;
        if at >= self.units.len() {
            self.units.resize_with(at + 1, Units::default);
        }
        let said = prefixed(text);
        let mut units = std::mem::take(&mut self.units[at]);
        units.push((line, time, said.times), said.text, |unit| self.add(source, unit));
        self.units[at] = units;
        self.trim();
    }

    /// Takes in the tracebacks that are still open: at the end of the logs, or when it has been quiet.
    pub fn flush(&mut self) {
        for at in 0..self.units.len() {
            let mut units = std::mem::take(&mut self.units[at]);
            units.flush(|unit| self.add(at as u32, unit));
        }
        self.trim();
    }

    /// The rows that are held.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = &Row> + ExactSizeIterator {
        self.rows.iter()
    }

    /// A row by its number; none if it was let go, or is not there yet.
    pub fn row(&self, id: u64) -> Option<&Row> {
        self.rows.get(usize::try_from(id.checked_sub(self.first)?).ok()?)
    }

    /// Number of the first row that is held: so many were let go.
    pub const fn first(&self) -> u64 {
        self.first
    }

    fn add(&mut self, source: u32, unit: Unit<'_>) {
        let step = if unit.is_traceback() { None } else { self.patterns.step(&unit.text) };
        let shape = if unit.is_traceback() { shape_of(unit.all()) } else { shape(&unit.text) };
        let key = (shape, step);
        let member = Member { source, line: unit.line, times: unit.times, time: unit.time };
        let open = self.newest.get(&key).and_then(|id| id.checked_sub(self.first));
        let open = open.and_then(|at| self.rows.get_mut(usize::try_from(at).ok()?));
        if let Some(row) = open
            && join(row, member, self.window)
        {
            self.bytes += size_of::<Member>();
            return;
        }
        let id = self.first + self.rows.len() as u64;
        self.newest.insert(key, id);
        let time = unit.time.map(|time| (time, time));
        let text = unit.text.into_owned();
        let row = Row { id, text, trace: unit.trace, level: unit.level, step, time, members: vec![member] };
        self.bytes += row.bytes();
        self.rows.push_back(row);
    }

    /// Lets the oldest rows go that are beyond the limit.
    fn trim(&mut self) {
        if self.bytes <= self.limit {
            return;
        }
        // The bytes of a member are counted for every line of it: what is held is less.
        self.bytes = self.rows.iter().map(Row::bytes).sum();
        while self.bytes > self.limit / 4 * 3
            && self.rows.len() > 1
            && let Some(row) = self.rows.pop_front()
        {
            self.bytes -= row.bytes();
            self.first += 1;
        }
        let first = self.first;
        self.newest.retain(|_, id| *id >= first);
    }
}

/// Puts a line into a row, if it is the same event.
fn join(row: &mut Row, member: Member, window: Duration) -> bool {
    let found = row.members.binary_search_by_key(&member.source, |m| m.source);
    // A step is the same however late a worker comes to it; a worker that comes to it again has begun again.
    let since = match found {
        Ok(at) => row.members[at].time,
        Err(_) if row.step.is_some() => None,
        Err(_) => row.time.map(|(first, _)| first),
    };
    if let (Some(since), Some(time)) = (since, member.time)
        && since.age(time).max(time.age(since)) > window
    {
        return false;
    }
    match found {
        Ok(at) => row.members[at].times = row.members[at].times.saturating_add(member.times),
        Err(at) => row.members.insert(at, member),
    }
    row.time = match (row.time, member.time) {
        (Some((first, last)), Some(time)) => Some((first.min(time), last.max(time))),
        (known, time) => known.or(time.map(|time| (time, time))),
    };
    true
}
