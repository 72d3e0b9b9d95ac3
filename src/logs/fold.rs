//! Folds equal lines of many sources into one row: `248 of 256  step 1200 loss 2.31`.

use super::level::Level;
use super::normal::{Shape, shape, shape_of_trace};
use super::prefix::{beginning, prefixed};
use super::progress::Patterns;
use super::repeated::Repeated;
use super::unit::{Unit, Units};
use crate::model::Timestamp;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// A source of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the source.
    pub source: u32,
    /// Number of the line in which it wrote it first, as the caller counts the lines of that source.
    pub line: u64,
    /// How often it wrote it within the window, including lines that Ray left out (`[repeated 12x across cluster]`).
    pub times: u32,
    /// When it wrote it first.
    pub time: Option<Timestamp>,
}

/// Equal lines, or equal tracebacks, of one or more sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number, which never changes.
    pub id: u64,
    /// The text of its first member: the line, or the exception of a traceback.
    pub text: String,
    /// The lines of the traceback; empty for a single line.
    pub trace: Vec<String>,
    /// The level in the line.
    pub level: Option<Level>,
    /// The step in the line.
    pub step: Option<u64>,
    /// Number of lines that its lines with the suffix `[repeated Nx across cluster]` stand for; 0 if none has it.
    pub left_out: u64,
    /// Time of its first line, and of its last.
    pub time: Option<(Timestamp, Timestamp)>,
    /// In the order of their sources.
    members: Vec<Member>,
}

impl Row {
    /// The sources that wrote it, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The lines that it stands for, if Ray left some out.
    pub fn repeated(&self) -> Option<Repeated> {
        (self.left_out > 0).then(|| Repeated::new(&self.text, self.left_out))
    }

    /// The number of lines of all members together.
    pub fn times(&self) -> u64 {
        self.members.iter().map(|m| u64::from(m.times)).sum()
    }

    /// The sources, of so many, that did not write it.
    pub fn missing(&self, sources: u32) -> Vec<u32> {
        let said = |source: &u32| self.members.binary_search_by_key(source, |m| m.source).is_ok();
        (0..sources).filter(|source| !said(source)).collect()
    }

    /// Its size in memory, in bytes.
    fn bytes(&self) -> usize {
        let trace: usize = self.trace.iter().map(|line| line.len() + size_of::<String>()).sum();
        size_of::<Self>() + 64 + self.text.len() + trace + self.members.len() * size_of::<Member>()
    }
}

/// Maximum number of bytes of a row's text.
const MAX_TEXT_BYTES: usize = 4096;

/// Folds lines as they are received. The rows are in the order of their first lines.
#[derive(Debug)]
pub struct Fold {
    window: Duration,
    limit: usize,
    patterns: Patterns,
    units: Vec<Units>,
    rows: VecDeque<Row>,
    bytes: usize,
    /// Number of the first row that is kept.
    first: u64,
    /// The newest row for each text.
    newest: HashMap<(Shape, Option<u64>), u64>,
}

impl Fold {
    /// Lines further apart than `window` are not the same event; `limit` is the maximum size of the rows in memory, in
    /// bytes.
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

    /// Adds a line of a source (numbered from 0), in order of time ([`super::Merge`]): its number there, its time or
    /// that of the line before, and its text, with or without Ray's prefix.
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

    /// Adds tracebacks that are not complete: at the end of the logs, or after a pause.
    pub fn flush(&mut self) {
        for at in 0..self.units.len() {
            let mut units = std::mem::take(&mut self.units[at]);
            units.flush(|unit| self.add(at as u32, unit));
        }
        self.trim();
    }

    /// The rows that are kept.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = &Row> + ExactSizeIterator {
        self.rows.iter()
    }

    /// A row by its number; `None` if it was dropped or does not exist yet.
    pub fn row(&self, id: u64) -> Option<&Row> {
        self.rows.get(usize::try_from(id.checked_sub(self.first)?).ok()?)
    }

    /// Number of the first row that is kept, which equals the number of dropped rows.
    pub const fn first(&self) -> u64 {
        self.first
    }

    fn add(&mut self, source: u32, unit: Unit<'_>) {
        let step = if unit.is_traceback() { None } else { self.patterns.step(&unit.text) };
        let shape = if unit.is_traceback() { shape_of_trace(unit.all()) } else { shape(&unit.text) };
        let key = (shape, step);
        let left_out = if unit.times > 1 { u64::from(unit.times) } else { 0 };
        let member = Member { source, line: unit.line, times: unit.times, time: unit.time };
        let open = self.newest.get(&key).and_then(|id| id.checked_sub(self.first));
        let open = open.and_then(|at| self.rows.get_mut(usize::try_from(at).ok()?));
        if let Some(row) = open
            && join(row, member, self.window)
        {
            row.left_out += left_out;
            self.bytes += size_of::<Member>();
            return;
        }
        let id = self.first + self.rows.len() as u64;
        self.newest.insert(key, id);
        let time = unit.time.map(|time| (time, time));
        let text = beginning(&unit.text, MAX_TEXT_BYTES).to_owned();
        let row = Row {
            id,
            text,
            trace: unit.trace,
            level: unit.level,
            step,
            left_out,
            time,
            members: vec![member],
        };
        self.bytes += row.bytes();
        self.rows.push_back(row);
    }

    /// Drops the oldest rows beyond the limit.
    fn trim(&mut self) {
        if self.bytes <= self.limit {
            return;
        }
        // A member is counted for each of its lines, so the actual size is smaller.
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

/// Adds a line to a row, if it is the same event.
fn join(row: &mut Row, member: Member, window: Duration) -> bool {
    let found = row.members.binary_search_by_key(&member.source, |m| m.source);
    // A step is the same event however late a worker reaches it; a worker that reaches it again has restarted.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fold() -> Fold {
        Fold::new(Duration::from_secs(10), 16 << 20, Patterns::default())
    }

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_secs_f64(1_795_424_400.0 + seconds)
    }

    fn shown(fold: &Fold, sources: u32) -> Vec<String> {
        let row = |row: &Row| format!("{} of {sources}  {}", row.members().len(), row.text);
        fold.rows().map(row).collect()
    }

    #[test]
    fn a_step_of_many_workers_is_one_row_that_names_the_missing() {
        let mut fold = fold();
        for step in [1180u32, 1200] {
            for worker in (0..256).filter(|w| step == 1180 || !(40..48).contains(w)) {
                let line = format!("(train pid={worker}, ip=10.0.0.{worker}) step {step} loss 2.{worker}");
                fold.push(
                    worker,
                    u64::from(step),
                    Some(at(f64::from(step) + f64::from(worker) / 10.0)),
                    &line,
                );
            }
        }
        assert_eq!(shown(&fold, 256), ["256 of 256  step 1180 loss 2.0", "248 of 256  step 1200 loss 2.0"]);
        let row = fold.rows().nth(1).unwrap();
        assert_eq!(row.missing(256), (40..48).collect::<Vec<_>>());
        assert_eq!(fold.row(row.id), Some(row));
        let late = row.members().last().unwrap();
        assert_eq!((late.source, late.line), (255, 1200), "a step is the same however late");
    }

    #[test]
    fn the_same_line_at_another_time_is_another_event() {
        let mut fold = fold();
        for (source, seconds) in [(0, 0.0), (1, 4.0), (0, 8.0), (2, 9.0), (1, 30.0), (0, 31.0)] {
            fold.push(source, 0, Some(at(seconds)), &format!("saved checkpoint {source}"));
        }
        let rows: Vec<_> = fold.rows().map(|r| (r.members().len(), r.times(), r.time)).collect();
        assert_eq!(
            rows,
            [(3, 4, Some(at(0.0)).zip(Some(at(9.0)))), (2, 2, Some(at(30.0)).zip(Some(at(31.0))))]
        );
    }

    #[test]
    fn lines_deduplicated_by_ray_are_counted() {
        let mut fold = fold();
        fold.push(0, 0, None, "(train pid=7) loading shard 3");
        fold.push(1, 0, None, "(train pid=8) loading shard 4 [repeated 12x across cluster]");
        assert_eq!(fold.rows().map(|r| (r.members().len(), r.times())).collect::<Vec<_>>(), [(2, 13)]);
        fold.push(2, 0, None, "(train pid=9) mesh is ready");
        let repeated: Vec<_> =
            fold.rows().map(|row| row.repeated().map(|of| (of.count, of.pattern))).collect();
        assert_eq!(repeated, [Some((12, r"^\s*loading\s+shard(\s+\S*[0-9]\S*)*\s*$".to_owned())), None]);
    }

    #[test]
    fn equal_tracebacks_are_one_row() {
        let mut fold = fold();
        let lines = [
            "Traceback (most recent call last):",
            "  File \"a.py\", line 3, in f",
            "ValueError: rank 3 is bad",
        ];
        // Their lines alternate, and one fails at another line.
        for line in lines {
            for source in 0..4 {
                let line = if source == 3 { line.replace("line 3", "line 9") } else { line.to_owned() };
                fold.push(source, 0, Some(at(0.0)), &line.replace("rank 3", &format!("rank {source}")));
            }
        }
        fold.flush();
        assert_eq!(
            shown(&fold, 4),
            ["3 of 4  ValueError: rank 0 is bad", "1 of 4  ValueError: rank 3 is bad"]
        );
        assert_eq!(fold.rows().next().map(|r| (r.trace.len(), r.level)), Some((3, Some(Level::Error))));
    }

    #[test]
    fn two_runs_in_one_log_are_folded_separately() {
        let mut fold = fold();
        for (run, seconds) in [(0, 0.0), (1, 7200.0)] {
            for source in 0..3 {
                for step in 1..=2u32 {
                    let time = Some(at(seconds + f64::from(step) * 60.0));
                    fold.push(source, run * 10 + u64::from(step), time, &format!("step={step} loss=1.0"));
                }
            }
        }
        assert_eq!(fold.rows().map(|r| r.members().len()).collect::<Vec<_>>(), [3, 3, 3, 3]);
    }

    #[test]
    fn memory_is_bounded_and_numbers_stay() {
        let mut fold = Fold::new(Duration::from_secs(10), 100_000, Patterns::default());
        for n in 0..10_000u32 {
            let words: String = n.to_string().bytes().map(|b| char::from(b - b'0' + b'a')).collect();
            fold.push(n % 256, n.into(), None, &format!("{words} {}", "x".repeat(5_000)));
        }
        let held: usize = fold.rows().map(Row::bytes).sum();
        assert!(held <= 100_000, "{held}");
        let (first, rows) = (fold.first(), fold.rows().len() as u64);
        assert_eq!(first + rows, 10_000);
        assert!(fold.row(first - 1).is_none() && fold.row(first + rows).is_none());
        assert!(fold.rows().all(|row| fold.row(row.id) == Some(row)));
        assert_eq!(fold.newest.len() as u64, rows);
    }

    proptest! {
        #[test]
        fn no_line_is_lost(lines in prop::collection::vec((0u32..5, 0u8..4, 0u16..100), 0..200)) {
            let mut fold = fold();
            for (n, (source, text, seconds)) in lines.iter().enumerate() {
                let text = ["a 1", "b", "step 3 loss 2", "c nan"][usize::from(*text)];
                fold.push(*source, n as u64, Some(at(f64::from(*seconds))), text);
            }
            fold.flush();
            prop_assert_eq!(fold.rows().map(Row::times).sum::<u64>(), lines.len() as u64);
            for row in fold.rows() {
                let missing = row.missing(5);
                prop_assert_eq!(missing.len() + row.members().len(), 5);
                prop_assert!(row.members().windows(2).all(|w| w[0].source < w[1].source));
            }
        }
    }
}
