//! Merges the lines of many sources in order of time.

use crate::model::Timestamp;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A line of the merged sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged<T> {
    /// Number of the source.
    pub source: u32,
    /// Its time, or that of an earlier line of its source; `None` if its source has had no time yet.
    pub time: Option<Timestamp>,
    /// The line, or what identifies it for the caller.
    pub item: T,
}

/// Sorts the waiting lines. Lines of one source with the same time, or without one, keep their order.
#[derive(Clone, Debug)]
pub struct Merge<T> {
    /// For each source, the time of its last line that has one.
    last: Vec<Option<i64>>,
    waiting: BinaryHeap<Reverse<Waiting<T>>>,
    arrived: u64,
    /// The latest time of the lines returned so far.
    given: Option<i64>,
}

impl<T> Default for Merge<T> {
    fn default() -> Self {
        Self { last: Vec::new(), waiting: BinaryHeap::new(), arrived: 0, given: None }
    }
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
    /// Adds a line, with its time.
    pub fn push(&mut self, source: u32, time: Option<Timestamp>, item: T) {
        let at = source as usize;
        if at >= self.last.len() {
            self.last.resize(at + 1, None);
        }
        let last = &mut self.last[at];
        let order = match time {
            Some(time) => {
                *last = Some(time.as_millis());
                *last
            }
            // It was written then or later, so it follows the lines of others that were returned in the meantime.
            None => last.map(|last| self.given.map_or(last, |given| given.max(last))),
        };
        let time = *last;
        self.arrived += 1;
        self.waiting.push(Reverse(Waiting { key: (order, source, self.arrived), time, item }));
    }

    /// The first of the waiting lines. Lines without any time come first.
    pub fn pop(&mut self) -> Option<Merged<T>> {
        let Reverse(Waiting { key: (order, source, _), time, item }) = self.waiting.pop()?;
        self.given = self.given.max(order);
        Some(Merged { source, time: time.map(Timestamp::from_millis), item })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn rest<T>(merge: &mut Merge<T>) -> Vec<Merged<T>> {
        std::iter::from_fn(|| merge.pop()).collect()
    }

    #[test]
    fn lines_without_a_time_follow_the_line_before() {
        let mut merge = Merge::default();
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
    fn a_line_without_a_time_follows_the_lines_returned_since() {
        let mut merge = Merge::default();
        merge.push(0, Some(at(5)), "Traceback");
        merge.push(1, Some(at(8)), "other");
        assert_eq!(rest(&mut merge).len(), 2);
        merge.push(0, None, "  frame");
        merge.push(1, Some(at(7)), "late");
        let lines: Vec<_> = rest(&mut merge).into_iter().map(|m| (m.item, m.time)).collect();
        assert_eq!(lines, [("late", Some(at(7))), ("  frame", Some(at(5)))]);
    }

    proptest! {
        #[test]
        fn lines_are_sorted_and_none_is_lost(
            lines in prop::collection::vec((0u32..4, 0i64..50, prop::bool::ANY), 0..100)
        ) {
            let mut merge = Merge::default();
            for (n, (source, time, has_time)) in lines.iter().enumerate() {
                merge.push(*source, has_time.then_some(at(*time)), n);
            }
            let out = rest(&mut merge);
            prop_assert!(out.is_sorted_by_key(|m| m.time));
            let mut all: Vec<_> = out.iter().map(|m| m.item).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lines.len()).collect::<Vec<_>>());
        }
    }
}
