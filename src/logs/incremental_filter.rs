//! The held lines that match a rule, updated as lines are added and dropped at both ends.

use super::LogBuffer;
use crate::model::Line;
use std::collections::VecDeque;
use std::ops::Range;

/// Number of bytes of text that one step examines. A step takes a few milliseconds, so that a key press never waits
/// longer.
pub const STEP: usize = 1 << 20;
/// Cost of a line in addition to its text, in bytes of text.
const PER_LINE: usize = 64;

/// The held lines that match a rule, with a number of context lines around each. The newest lines are examined first.
#[derive(Clone, Debug, Default)]
pub struct IncrementalFilter {
    around: u64,
    /// Numbers of the matching lines and their context, ascending.
    kept: VecDeque<u64>,
    /// Numbers of the lines that were examined; `None` before the first step.
    seen: Option<Range<u64>>,
    /// Lines before the examined ones, from this number on, are context of a matching line.
    before: Option<u64>,
    /// Lines after the examined ones, up to this number, are context of a matching line.
    after: Option<u64>,
}

impl IncrementalFilter {
    /// Keeps the lines that match the rule, and `around` lines before and after each.
    pub fn with(around: u64) -> Self {
        Self { around, ..Self::default() }
    }

    /// Examines lines that were not examined yet, at most [`STEP`] bytes of them. Returns whether all were.
    pub fn step(&mut self, buffer: &LogBuffer, mut wanted: impl FnMut(u64, &Line) -> bool) -> bool {
        let (first, end) = (buffer.first(), buffer.end());
        self.forget_outside(first, end);
        let mut seen = self.seen.clone().unwrap_or(end..end);
        let mut left = STEP;
        while seen.end < end && left > 0 {
            let number = seen.end;
            let Some(line) = buffer.get(buffer.index_of(number)) else { break };
            left = left.saturating_sub(line.text().len() + PER_LINE);
            if wanted(number, line) {
                let from = self.kept.back().map_or(seen.start, |last| last + 1);
                self.kept.extend(from.max(number.saturating_sub(self.around))..=number);
                self.after = Some(number + self.around);
                self.before.get_or_insert(number.saturating_sub(self.around));
            } else if self.after.is_some_and(|after| number <= after) {
                self.kept.push_back(number);
            }
            seen.end += 1;
        }
        while seen.start > first && left > 0 {
            let number = seen.start - 1;
            let Some(line) = buffer.get(buffer.index_of(number)) else { break };
            left = left.saturating_sub(line.text().len() + PER_LINE);
            if wanted(number, line) {
                let to = self.kept.front().copied().unwrap_or(seen.end).min(number + self.around + 1);
                (number..to).rev().for_each(|n| self.kept.push_front(n));
                self.before = Some(number.saturating_sub(self.around));
                self.after.get_or_insert(number + self.around);
            } else if self.before.is_some_and(|before| number >= before) {
                self.kept.push_front(number);
            }
            seen.start -= 1;
        }
        let is_done = seen == (first..end);
        self.seen = Some(seen);
        is_done
    }

    /// Examines the first line again, if it has this number: the text above it has been loaded.
    pub fn examine_again(&mut self, number: u64) {
        if let Some(seen) = self.seen.as_mut().filter(|seen| seen.start == number && !seen.is_empty()) {
            seen.start += 1;
            if self.kept.front() == Some(&number) {
                self.kept.pop_front();
            }
        }
    }

    /// Whether every held line was examined.
    pub fn is_done(&self, buffer: &LogBuffer) -> bool {
        buffer.is_empty() || self.seen.as_ref().is_some_and(|seen| *seen == (buffer.first()..buffer.end()))
    }

    /// The number of the first line that was examined; `None` before the first step.
    pub fn examined_from(&self) -> Option<u64> {
        self.seen.as_ref().map(|seen| seen.start)
    }

    /// Forgets lines that are no longer held.
    fn forget_outside(&mut self, first: u64, end: u64) {
        while self.kept.front().is_some_and(|number| *number < first) {
            self.kept.pop_front();
        }
        while self.kept.back().is_some_and(|number| *number >= end) {
            self.kept.pop_back();
        }
        if let Some(seen) = &mut self.seen {
            (seen.start, seen.end) = (seen.start.clamp(first, end), seen.end.clamp(first, end));
        }
    }

    /// The numbers of the matching lines and their context, ascending.
    pub fn lines(&self) -> &VecDeque<u64> {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(
        incremental_filter: &mut IncrementalFilter,
        buffer: &LogBuffer,
        wanted: fn(&str) -> bool,
    ) -> Vec<u64> {
        while !incremental_filter.step(buffer, |_, line| wanted(line.text())) {}
        assert!(incremental_filter.is_done(buffer));
        incremental_filter.lines().iter().copied().collect()
    }

    #[test]
    fn a_step_is_bounded_and_begins_with_the_newest_lines() {
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        let line = "x".repeat(STEP / 4);
        for _ in 0..10 {
            buffer.push(line.as_str().into());
        }
        let mut incremental_filter = IncrementalFilter::default();
        assert!(!incremental_filter.step(&buffer, |_, _| true) && !incremental_filter.is_done(&buffer));
        let first = buffer.first();
        let seen = |incremental_filter: &IncrementalFilter| {
            incremental_filter.lines().iter().map(|n| n - first).collect::<Vec<_>>()
        };
        assert_eq!(seen(&incremental_filter), [6, 7, 8, 9]);
        buffer.push(line.as_str().into());
        assert!(
            !incremental_filter.step(&buffer, |_, _| true),
            "lines that arrive in the meantime are examined first"
        );
        assert_eq!(seen(&incremental_filter), [3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(all(&mut incremental_filter, &buffer, |_| true), (first..first + 11).collect::<Vec<_>>());
    }

    proptest! {
        /// However lines are added and dropped, the result equals that of examining all of them at once.
        #[test]
        fn the_result_does_not_depend_on_the_order(
            parts in prop::collection::vec(prop::collection::vec(prop::bool::weighted(0.2), 0..8), 1..6),
            around in 0u64..4,
            limit in 5usize..40,
        ) {
            let mut buffer = LogBuffer::new(limit, usize::MAX);
            let mut incremental_filter = IncrementalFilter::with(around);
            let mut wanted = Vec::new();
            let begin = buffer.first();
            for part in parts {
                for is_wanted in part {
                    buffer.push(if is_wanted { "yes" } else { "no" }.into());
                    wanted.push(is_wanted);
                }
                let seen = all(&mut incremental_filter, &buffer, |text| text == "yes");
                let is_near = |n: u64| {
                    let near = n.saturating_sub(around)..=(n + around).min(buffer.end().saturating_sub(1));
                    near.into_iter().any(|n| n >= begin && wanted[(n - begin) as usize])
                };
                let expected: Vec<u64> = (buffer.first()..buffer.end()).filter(|n| is_near(*n)).collect();
                prop_assert_eq!(seen, expected);
                buffer.trim();
            }
        }
    }
}
