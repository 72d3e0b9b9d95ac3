//! A search in the loaded lines: which of them match, kept up to date as lines come and go.

use super::{LogBuffer, Pattern, Sieve};
use std::collections::VecDeque;

/// A pattern that is searched for, and the held lines that match.
#[derive(Clone, Debug, Default)]
pub struct Search {
    pattern: Pattern,
    found: Sieve,
}

impl Search {
    /// Searches for a pattern; the empty one for nothing. The lines are looked at by [`Search::step`].
    pub fn new(pattern: Pattern) -> Self {
        Self { pattern, found: Sieve::default() }
    }

    /// Looks at some of the lines that were not looked at yet. Whether all have been.
    pub fn step(&mut self, held: &LogBuffer) -> bool {
        self.pattern.is_empty() || self.found.step(held, |_, line| self.pattern.is_match(line.text()))
    }

    /// Whether every held line was looked at.
    pub fn is_done(&self, held: &LogBuffer) -> bool {
        self.pattern.is_empty() || self.found.is_done(held)
    }

    /// The number of the first line that was looked at: the newest lines are looked at first.
    pub fn looked_from(&self, held: &LogBuffer) -> u64 {
        self.found.looked_from().unwrap_or(held.end())
    }

    /// What is searched for.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The numbers of the lines that match, ascending, as far as they were looked at.
    pub fn found(&self) -> &VecDeque<u64> {
        self.found.lines()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_kept_as_lines_come_and_go() {
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
