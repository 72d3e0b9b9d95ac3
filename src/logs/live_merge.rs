//! Merges the lines of several followed logs in order of time.

use super::merge::{Merge, Merged};
use super::time::{Clock, Times};
use crate::model::{Line, Timestamp};
use std::time::Duration;

/// How long lines wait for earlier lines of other logs.
const WAIT: Duration = Duration::from_secs(1);
/// At the beginning, how long they wait for a log that has sent nothing yet.
const WAIT_AT_FIRST: Duration = Duration::from_secs(4);

/// Merges the lines of several followed logs. Lines received within a second are sorted; later ones are returned later.
#[derive(Clone, Debug)]
pub struct LiveMerge {
    merge: Merge<Line>,
    logs: Vec<Log>,
    since: Timestamp,
    /// When the first of the waiting lines was received.
    waiting: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Log {
    times: Times,
    has_begun: bool,
}

impl LiveMerge {
    /// Without logs.
    pub fn new(now: Timestamp) -> Self {
        Self { merge: Merge::default(), logs: Vec::new(), since: now, waiting: None }
    }

    /// Adds a log whose times are read by this clock; returns its number.
    pub fn add(&mut self, clock: Clock) -> u32 {
        self.logs.push(Log { times: Times::new(clock), has_begun: false });
        self.logs.len() as u32 - 1
    }

    /// Sets the clock by which the times of a log are read.
    pub fn set_clock(&mut self, log: u32, clock: Clock) {
        if let Some(log) = self.logs.get_mut(log as usize) {
            log.times = Times::new(clock);
        }
    }

    /// Adds lines of a log that were received now.
    pub fn push(&mut self, log: u32, lines: Vec<Line>, now: Timestamp) {
        let Some(known) = self.logs.get_mut(log as usize) else { return };
        known.has_begun = true;
        for line in lines {
            self.waiting.get_or_insert(now);
            self.merge.push(log, known.times.next(line.text()), line);
        }
    }

    /// Stops waiting for a log that has sent nothing: it has no lines, or cannot be read.
    pub fn begun(&mut self, log: u32) {
        if let Some(log) = self.logs.get_mut(log as usize) {
            log.has_begun = true;
        }
    }

    /// How long until lines are due; `None` if none are waiting.
    pub fn wait(&self, now: Timestamp) -> Option<Duration> {
        let waiting = self.waiting?;
        // If the clock was set back, lines are due at once: waiting for it to catch up could take hours.
        let left = |limit: Duration, from: Timestamp| {
            if now < from { Duration::ZERO } else { limit.saturating_sub(from.age(now)) }
        };
        let of_window = left(WAIT, waiting);
        let of_first = left(WAIT_AT_FIRST, self.since);
        let all_begun = self.logs.iter().all(|log| log.has_begun);
        Some(if all_begun { of_window } else { of_window.max(of_first) })
    }

    /// The lines that are due, in order.
    pub fn take(&mut self, now: Timestamp) -> Vec<Merged<Line>> {
        if self.wait(now).is_some_and(|wait| wait.is_zero()) { self.take_all() } else { Vec::new() }
    }

    /// All waiting lines, in order.
    pub fn take_all(&mut self) -> Vec<Merged<Line>> {
        self.waiting = None;
        std::iter::from_fn(|| self.merge.pop()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_millis(1_764_000_000_000);

    fn after(millis: u64) -> Timestamp {
        T0.plus(Duration::from_millis(millis))
    }

    fn lines(texts: &[&str]) -> Vec<Line> {
        texts.iter().map(|text| Line::from(*text)).collect()
    }

    fn texts(merged: Vec<Merged<Line>>) -> Vec<(u32, String)> {
        merged.into_iter().map(|m| (m.source, m.item.text().to_owned())).collect()
    }

    #[test]
    fn logs_wait_for_each_other_at_first_and_then_for_a_window() {
        let mut live = LiveMerge::new(T0);
        let clock = Clock { near: T0, utc_offset: 0 };
        let (a, b, c) = (live.add(clock), live.add(clock), live.add(clock));
        assert_eq!(live.wait(T0), None);
        live.push(a, lines(&["2025-11-24 16:00:02 two", "Traceback"]), after(100));
        assert_eq!(live.take(after(1200)).len(), 0, "b and c have sent nothing");
        live.begun(c);
        live.push(b, lines(&["2025-11-24 16:00:01 one"]), after(1300));
        let told = texts(live.take(after(1400)));
        let want = [(b, "2025-11-24 16:00:01 one"), (a, "2025-11-24 16:00:02 two"), (a, "Traceback")];
        assert_eq!(told, want.map(|(log, text)| (log, text.to_owned())));
        live.push(b, lines(&["2025-11-24 15:59:59 early"]), after(2000));
        assert_eq!(live.take(after(1500)).len(), 1, "the clock was set back");
        live.push(b, lines(&["2025-11-24 16:00:00 zero"]), after(2000));
        assert_eq!(live.wait(after(2400)), Some(Duration::from_millis(600)));
        assert!(live.take(after(2900)).is_empty());
        assert_eq!(texts(live.take(after(3000))), [(b, "2025-11-24 16:00:00 zero".to_owned())]);
        assert_eq!(live.wait(after(9000)), None);
    }

    #[test]
    fn a_log_that_sends_nothing_delays_the_others_only_for_seconds() {
        let mut live = LiveMerge::new(T0);
        let clock = Clock { near: T0, utc_offset: 0 };
        let a = live.add(clock);
        live.add(clock);
        live.push(a, lines(&["x"]), T0);
        assert_eq!(live.wait(T0), Some(WAIT_AT_FIRST));
        assert_eq!(live.take(T0.plus(WAIT_AT_FIRST)).len(), 1);
    }
}
