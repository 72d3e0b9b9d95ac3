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
    pub fn step(&mut self, buffer: &LogBuffer) -> bool {
        self.pattern.is_empty() || self.found.step(buffer, |_, line| self.pattern.is_match(line.text()))
    }

    /// Whether every held line was examined.
    pub fn is_done(&self, buffer: &LogBuffer) -> bool {
        self.pattern.is_empty() || self.found.is_done(buffer)
    }

    /// The number of the first line that was examined; the newest lines are examined first.
    pub fn examined_from(&self, buffer: &LogBuffer) -> u64 {
        self.found.examined_from().unwrap_or(buffer.end())
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
        let mut buffer = LogBuffer::new(2, usize::MAX);
        let first = buffer.push("a loss".into());
        let mut search = Search::new(Pattern::parse("loss").unwrap());
        assert!(search.step(&buffer));
        for text in ["nothing", "LOSS again"] {
            buffer.push(text.into());
        }
        assert!(!search.is_done(&buffer) && search.step(&buffer));
        assert_eq!(*search.found(), [first, first + 2]);
        buffer.trim();
        assert!(search.step(&buffer));
        assert_eq!(*search.found(), [first + 2]);
    }

    #[test]
    fn nothing_is_searched_for_by_default() {
        let mut buffer = LogBuffer::new(2, usize::MAX);
        buffer.push("a loss".into());
        let mut search = Search::default();
        assert!(search.is_done(&buffer) && search.step(&buffer) && search.found().is_empty());
    }
}
