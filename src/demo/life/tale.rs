//! A simulated log that consists of consecutive parts, each a pure function of time. Line `n` is computed without any
//! state, so that a tail, a refresh and a second reader see the same bytes.

use super::monitor::{self, Machine};
use super::train::{self, Run};
use std::sync::Arc;

/// A minute in milliseconds: the interval of log lines while a job waits.
const MINUTE: i64 = 60_000;

/// The contents of a part of a log.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The driver starts and prints its configuration.
    Begins,
    /// The driver waits for a slice: a line of the raylet, and then one of the autoscaler per minute.
    Waits,
    /// The driver waits for a slice while the autoscaler is stuck: only the line of the raylet.
    WaitsInVain,
    /// The driver reports training, from `step` on.
    Trains {
        step: u64,
        /// Process id of the first worker.
        pid: u32,
        /// The address of the slice's first host.
        ip: Arc<str>,
        /// Speed in percent of a steady worker's.
        pace: u64,
    },
    /// A worker starts.
    Loads { worker: usize },
    /// A worker trains, from `step` on.
    Works { step: u64, worker: usize, pace: u64 },
    /// Literal lines, all written at the same time.
    Lines(Arc<[String]>),
    /// The autoscaler's loop runs: one line every five seconds.
    Loops,
    /// The autoscaler's loop raises an exception every five seconds, because this machine no longer exists.
    Throws(Arc<Machine>),
}

#[derive(Clone, Debug)]
struct Part {
    /// Number of its first line in the whole log.
    first: u64,
    /// When that line was written, in milliseconds since the epoch.
    since: i64,
    what: What,
}

/// A log that consists of parts.
#[derive(Clone, Debug)]
pub(in crate::demo) struct Tale {
    run: Arc<Run>,
    parts: Arc<Vec<Part>>,
    closed: Option<i64>,
}

impl Tale {
    /// An empty log of `run`.
    pub(super) fn new(run: Run) -> Self {
        Self::of(Arc::new(run))
    }

    /// An empty log of a shared run.
    pub(super) fn of(run: Arc<Run>) -> Self {
        Self { run, parts: Arc::default(), closed: None }
    }

    /// The run that writes the log.
    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    /// Begins a new part at `since`, and removes the parts that were planned for later.
    pub(super) fn turn(&mut self, since: i64, what: What) {
        let first = self.lines(since);
        self.cut(since);
        Arc::make_mut(&mut self.parts).push(Part { first, since, what });
    }

    /// Removes the parts that were planned for after `now`.
    pub(super) fn cut(&mut self, now: i64) {
        let parts = Arc::make_mut(&mut self.parts);
        parts.truncate(parts.partition_point(|p| p.since <= now));
    }

    /// Ends the log at `at`, unless it has ended.
    pub fn close(&mut self, at: i64) {
        self.closed.get_or_insert(at);
    }

    /// Number of lines at `now`.
    pub fn lines(&self, now: i64) -> u64 {
        let now = self.closed.map_or(now, |c| c.min(now));
        // The last part that has begun; later ones are in the future.
        let begun = self.parts.partition_point(|p| p.since <= now);
        let Some(part) = begun.checked_sub(1).and_then(|i| self.parts.get(i)) else { return 0 };
        part.first + self.length(part, now)
    }

    fn length(&self, part: &Part, now: i64) -> u64 {
        let lasted = u64::try_from(now - part.since).unwrap_or(0);
        match &part.what {
            What::Begins => train::opening(&self.run).min(1 + lasted / train::PACE),
            What::Waits => 1 + lasted / MINUTE.unsigned_abs(),
            What::WaitsInVain => 1,
            What::Loads { .. } => train::LOADING.min(1 + lasted / train::LOAD_PACE),
            What::Trains { pace, .. } | What::Works { pace, .. } => lasted * self.rate(*pace) / 100_000,
            What::Lines(lines) => lines.len() as u64,
            What::Loops => 1 + lasted / monitor::LOOP,
            What::Throws(_) => monitor::BLOCK * (1 + lasted / monitor::LOOP),
        }
    }

    /// Lines per 100 s of a training worker with this pace.
    fn rate(&self, pace: u64) -> u64 {
        self.run.rate * pace
    }

    /// Training steps between two times at this pace.
    pub(super) fn steps(&self, from: i64, to: i64, pace: u64) -> u64 {
        u64::try_from(to - from).unwrap_or(0) * self.rate(pace) / 100_000
    }

    /// Writes line `n` with its line break; nothing if the log has no part for it.
    pub fn line(&self, out: &mut String, n: u64) {
        let at = self.parts.partition_point(|p| p.first <= n);
        let Some(part) = at.checked_sub(1).and_then(|i| self.parts.get(i)) else { return };
        let (i, since) = (n - part.first, part.since);
        let after = |ms: u64| since + i64::try_from(ms).unwrap_or(0);
        match &part.what {
            What::Begins => train::begin(out, &self.run, i, after(i * train::PACE)),
            What::Waits | What::WaitsInVain => train::wait(out, &self.run, i),
            What::Trains { step, pid, ip, pace } => {
                let ms = after((i + 1) * 100_000 / self.rate(*pace).max(1));
                train::step(out, &self.run, step + i, (*pid, ip), ms);
            }
            What::Loads { worker } => train::load(out, &self.run, *worker, i, after(i * train::LOAD_PACE)),
            What::Works { step, worker, pace } => {
                let period = 100_000 / self.rate(*pace).max(1);
                // Clocks and hosts differ slightly.
                let late = *worker as u64 * 37 % (period / 2).max(1);
                let ms = after((i + 1) * 100_000 / self.rate(*pace).max(1) + late);
                train::worker_line(out, &self.run, step + i, ms);
            }
            What::Lines(lines) => {
                if let Some(line) = usize::try_from(i).ok().and_then(|i| lines.get(i)) {
                    out.push_str(line);
                }
                out.push('\n');
            }
            What::Loops => monitor::quiet(out, i, after(i * monitor::LOOP)),
            What::Throws(machine) => {
                let ms = after(i / monitor::BLOCK * monitor::LOOP);
                monitor::throw(out, machine, i % monitor::BLOCK, ms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tale: &Tale, from: u64, to: u64) -> String {
        let mut out = String::new();
        (from..to).for_each(|n| tale.line(&mut out, n));
        out
    }

    fn tale() -> Tale {
        let mut tale = Tale::new(Run::example(2));
        tale.turn(0, What::Begins);
        tale.turn(20_000, What::Waits);
        let (pid, ip) = (5007, "10.128.0.7".into());
        tale.turn(150_000, What::Trains { step: 0, pid, ip, pace: train::STEADY });
        tale
    }

    #[test]
    fn parts_are_consecutive_without_gaps() {
        let tale = tale();
        let opening = train::opening(&Run::example(2));
        assert_eq!(tale.lines(-1), 0);
        assert_eq!(tale.lines(0), 1);
        assert_eq!(tale.lines(19_999), opening, "the whole opening");
        assert_eq!(tale.lines(20_000), opening + 1);
        assert_eq!(tale.lines(149_999), opening + 3, "one line per minute");
        assert_eq!(tale.lines(160_000), opening + 3 + 20, "two lines per second");
        let whole = text(&tale, 0, tale.lines(160_000));
        assert_eq!(whole.lines().count() as u64, tale.lines(160_000));
    }

    #[test]
    fn a_new_part_replaces_planned_ones() {
        let mut tale = tale();
        let before = tale.lines(149_000);
        tale.turn(149_000, What::Lines(["it is over".to_owned()].into()));
        assert_eq!(tale.lines(999_000), before + 1);
        assert_eq!(text(&tale, before, before + 1), "it is over\n");
    }

    #[test]
    fn planned_parts_that_are_cut_are_never_written() {
        let mut tale = tale();
        tale.cut(19_999);
        assert_eq!(tale.lines(999_000), train::opening(&Run::example(2)), "neither waiting nor training");
    }

    #[test]
    fn a_line_is_the_same_whenever_it_is_read() {
        let mut tale = tale();
        let before = text(&tale, 0, tale.lines(160_000));
        tale.turn(170_000, What::Lines(["Traceback (most recent call last):".to_owned(), "E".into()].into()));
        tale.close(170_000);
        let after = text(&tale, 0, tale.lines(999_000));
        assert!(after.starts_with(&before));
        assert!(after.ends_with("Traceback (most recent call last):\nE\n"));
    }
}
