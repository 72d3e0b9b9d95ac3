//! Merges the lines of many sources in order of time.

use crate::model::Timestamp;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A line of the merged sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged<T> {
    /// Number of the source.
    pub source: u32,
    /// Its time by the reference clock; `None` if its source has had no time yet.
    pub time: Option<Timestamp>,
    /// Whether it came after a line with a later time, because it arrived later than the window allows.
    pub is_late: bool,
    /// The line, or what identifies it for the caller.
    pub item: T,
}

/// Sorts lines that arrive out of order by at most a window. Lines of one source with the same time, or without one,
/// keep their order.
#[derive(Clone, Debug)]
pub struct Merge<T> {
    window: Duration,
    sources: Vec<Source>,
    waiting: BinaryHeap<Reverse<Waiting<T>>>,
    arrived: u64,
    newest: Option<i64>,
    /// Time of the line that was last returned.
    given: Option<i64>,
    most: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// Milliseconds that its clock is ahead of the reference.
    ahead: i64,
    last: Option<i64>,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    /// The time by which it is sorted, its source, and its number among all lines.
    key: (Option<i64>, u32, u64),
    time: Option<i64>,
    item: T,
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<T> Eq for Waiting<T> {}
impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Merge<T> {
    /// Maximum number of waiting lines; beyond that the earliest are returned before their window has passed.
    pub const MAX_WAITING: usize = 200_000;

    /// Waits this long for lines of other sources, by the times of the lines, so that old logs merge at once.
    pub fn new(window: Duration) -> Self {
        let waiting = BinaryHeap::new();
        Self {
            window,
            sources: Vec::new(),
            waiting,
            arrived: 0,
            newest: None,
            given: None,
            most: Self::MAX_WAITING,
        }
    }

    /// Sets how many milliseconds a source's clock is ahead of the reference, for the lines that follow.
    pub fn set_skew(&mut self, source: u32, ahead_ms: i64) {
        self.source(source).ahead = ahead_ms;
    }

    fn source(&mut self, source: u32) -> &mut Source {
        let at = source as usize;
        if at >= self.sources.len() {
            self.sources.resize_with(at + 1, Source::default);
        }
        &mut self.sources[at]
    }

    /// Adds a line, with its time by its own clock.
    pub fn push(&mut self, source: u32, time: Option<Timestamp>, item: T) {
        let given = self.given;
        let known = self.source(source);
        let order = match time {
            Some(time) => {
                known.last = Some(time.as_millis().saturating_sub(known.ahead));
                known.last
            }
            // It was written then or later, so it is not late if others have continued in the meantime.
            None => known.last.map(|last| given.map_or(last, |given| given.max(last))),
        };
        let time = known.last;
        self.newest = self.newest.max(time);
        self.arrived += 1;
        self.waiting.push(Reverse(Waiting { key: (order, source, self.arrived), time, item }));
    }

    /// The next line whose window has passed. Lines without any time come first.
    pub fn next_ready(&mut self) -> Option<Merged<T>> {
        let Reverse(first) = self.waiting.peek()?;
        let end = self.newest.map(|newest| newest.saturating_sub(millis(self.window)));
        let is_ready = first.key.0.is_none() || first.key.0 <= end || self.waiting.len() > self.most;
        if is_ready { self.next_anyway() } else { None }
    }

    /// The next line, even if others may still precede it: for the end of the logs, or after a pause of a window.
    pub fn next_anyway(&mut self) -> Option<Merged<T>> {
        let Reverse(Waiting { key: (order, source, _), time, item }) = self.waiting.pop()?;
        let is_late = order.is_some() && order < self.given;
        self.given = self.given.max(order);
        Some(Merged { source, time: time.map(Timestamp::from_millis), is_late, item })
    }

    /// Number of waiting lines.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no lines are waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn rest<T>(merge: &mut Merge<T>) -> Vec<Merged<T>> {
        std::iter::from_fn(|| merge.next_anyway()).collect()
    }

    #[test]
    fn a_line_waits_for_others_as_long_as_the_window() {
        let mut merge = Merge::new(Duration::from_millis(100));
        merge.push(0, Some(at(1000)), "a");
        merge.push(1, Some(at(950)), "b");
        assert!(merge.next_ready().is_none());
        merge.push(0, Some(at(1060)), "c");
        assert_eq!(merge.next_ready().map(|m| (m.item, m.source, m.is_late)), Some(("b", 1, false)));
        assert!(merge.next_ready().is_none());
        merge.push(1, Some(at(1200)), "d");
        assert_eq!(
            [merge.next_ready(), merge.next_ready()].map(|m| m.map(|m| m.item)),
            [Some("a"), Some("c")]
        );
        merge.push(1, Some(at(1010)), "too late");
        assert_eq!(merge.next_ready().map(|m| (m.item, m.is_late)), Some(("too late", true)));
        assert_eq!((merge.len(), rest(&mut merge)[0].item), (1, "d"));
        assert!(merge.is_empty());
    }

    #[test]
    fn lines_without_a_time_follow_the_line_before() {
        let mut merge = Merge::new(Duration::ZERO);
        for (source, time, line) in [
            (1, None, "no time yet"),
            (0, Some(at(5)), "Traceback"),
            (1, Some(at(5)), "other"),
            (0, None, "  frame"),
            (0, None, "Error"),
            (1, Some(at(4)), "back"),
        ] {
            merge.push(source, time, line);
        }
        let lines: Vec<_> = rest(&mut merge).into_iter().map(|m| m.item).collect();
        assert_eq!(lines, ["no time yet", "back", "Traceback", "  frame", "Error", "other"]);
    }

    #[test]
    fn a_clock_that_is_an_hour_off_is_corrected() {
        let mut merge = Merge::new(Duration::ZERO);
        merge.set_skew(7, 3_600_000);
        merge.push(7, Some(at(3_600_500)), "fast");
        merge.push(0, Some(at(1000)), "right");
        let lines: Vec<_> = rest(&mut merge).into_iter().map(|m| (m.item, m.time)).collect();
        assert_eq!(lines, [("fast", Some(at(500))), ("right", Some(at(1000)))]);
    }

    proptest! {
        #[test]
        fn lines_within_the_window_are_sorted(
            lines in prop::collection::vec((0u32..4, 0i64..50, prop::bool::ANY), 0..100), window in 0u64..100
        ) {
            let mut merge = Merge::new(Duration::from_millis(window));
            let mut out = Vec::new();
            let mut slowly = 0;
            for (n, (source, jitter, says)) in lines.iter().enumerate() {
                slowly += 3;
                merge.push(*source, says.then_some(Timestamp::from_millis(slowly + jitter)), n);
                out.extend(std::iter::from_fn(|| merge.next_ready()));
            }
            out.extend(rest(&mut merge));
            prop_assert_eq!(out.len(), lines.len());
            let mut all: Vec<_> = out.iter().map(|m| m.item).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lines.len()).collect::<Vec<_>>());
            // Lines with a time are in order except marked ones; none is marked if the window is as long as their
            // delay.
            let mut last = None;
            for m in &out {
                if lines[m.item].2 {
                    prop_assert_eq!(m.is_late, m.time < last);
                    last = last.max(m.time);
                } else {
                    prop_assert!(!m.is_late);
                }
            }
            prop_assert!(window < 50 || out.iter().all(|m| !m.is_late));
        }
    }
}
