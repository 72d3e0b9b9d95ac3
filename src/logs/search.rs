//! A search in the loaded lines, updated as lines are added and dropped.

use super::{IncrementalFilter, LogBuffer, Pattern};
use std::collections::VecDeque;

/// A search pattern, and the held lines that match.
#[derive(Clone, Debug, Default)]
pub struct Search {
    pattern: Pattern,
    found: IncrementalFilter,
}

impl Search {
    /// A search for a pattern; the empty one matches nothing. [`Search::step`] examines the lines.
    pub fn new(pattern: Pattern) -> Self {
        Self { pattern, found: IncrementalFilter::default() }
    }

    /// Examines some of the lines that were not examined yet. Returns whether all were.
    pub fn step(&mut self, held: &LogBuffer) -> bool {
        self.pattern.is_empty() || self.found.step(held, |_, line| self.pattern.is_match(line.text()))
    }

    /// Whether every held line was examined.
    pub fn is_done(&self, held: &LogBuffer) -> bool {
        self.pattern.is_empty() || self.found.is_done(held)
    }

    /// The number of the first line that was examined; the newest lines are examined first.
    pub fn looked_from(&self, held: &LogBuffer) -> u64 {
        self.found.looked_from().unwrap_or(held.end())
    }

    /// The search pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The numbers of the matching lines among those that were examined, ascending.
    pub fn found(&self) -> &VecDeque<u64> {
        self.found.lines()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_updated_as_lines_are_added_and_dropped() {
        let mut held = LogBuffer::new(2, usize::MAX);
        let first = held.push("a loss".into());
        let mut search = Search::new(Pattern::parse("loss").unwrap());
        assert!(search.step(&held));
        for text in ["nothing", "LOSS again"] {
            held.push(text.into());
        }
        assert!(!search.is_done(&held) && search.step(&held));
        assert_eq!(*search.found(), [first, first + 2]);
        held.trim();
        assert!(search.step(&held));
        assert_eq!(*search.found(), [first + 2]);
    }

    #[test]
    fn nothing_is_searched_for_by_default() {
        let mut held = LogBuffer::new(2, usize::MAX);
        held.push("a loss".into());
        let mut search = Search::default();
        assert!(search.is_done(&held) && search.step(&held) && search.found().is_empty());
    }
}
