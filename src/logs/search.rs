//! A search in the lines that are held: which of them match, kept up to date as lines come and go.

use super::Held;
use std::collections::VecDeque;
use std::ops::Range;

/// A text that is searched for, in any case, and the lines that match.
#[derive(Clone, Debug, Default)]
pub struct Search {
    text: String,
    /// Numbers of the lines that match, in ascending order; kept up to date so that drawing never scans the log.
    found: VecDeque<u64>,
}

impl Search {
    /// Searches what is held for a text; empty for nothing.
    pub fn new(text: &str, held: &Held) -> Self {
        let mut search = Self { text: text.to_lowercase(), found: VecDeque::new() };
        for (number, line) in held.numbered() {
            search.look_at(number, line.text());
        }
        search
    }

    /// Takes in a line that has come.
    pub fn look_at(&mut self, number: u64, line: &str) {
        if self.matches(line) {
            self.found.push_back(number);
        }
    }

    /// Forgets lines that are no longer held.
    pub fn forget_before(&mut self, first: u64) {
        while self.found.front().is_some_and(|number| *number < first) {
            self.found.pop_front();
        }
    }

    /// The text; empty if nothing is searched for.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number of lines that match.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no line matches.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The number of the line that is match so and so, from 0.
    pub fn line(&self, place: usize) -> Option<u64> {
        self.found.get(place).copied()
    }

    /// The place of a line among those that match, from 0.
    pub fn place(&self, number: u64) -> Option<usize> {
        self.found.binary_search(&number).ok()
    }

    /// How many matching lines have a number below this.
    pub fn before(&self, number: u64) -> usize {
        self.found.partition_point(|n| *n < number)
    }

    fn matches(&self, line: &str) -> bool {
        !self.text.is_empty() && contains(line, &self.text)
    }

    /// Where it matches in a text, as ranges of bytes.
    pub fn matches_in(&self, text: &str) -> Vec<Range<usize>> {
        let lower = text.to_lowercase();
        if self.text.is_empty() {
            return Vec::new();
        }
        let found = lower.match_indices(&self.text).map(|(at, found)| at..at + found.len());
        // Letters whose lower case has another length move what follows them: the whole text stands for its match.
        let is_same_length = lower.len() == text.len();
        let found = found.map(|range| if is_same_length { range } else { 0..text.len() });
        found.filter(|r| text.is_char_boundary(r.start) && text.is_char_boundary(r.end)).collect()
    }
}

/// Substring in any case; ASCII without a copy, which is what logs are.
fn contains(line: &str, needle: &str) -> bool {
    if !line.is_ascii() {
        return line.to_lowercase().contains(needle);
    }
    line.as_bytes().windows(needle.len()).any(|w| w.eq_ignore_ascii_case(needle.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches_in_a_line_is_found_in_any_case() {
        let held = Held::new(10, 1000);
        let search = Search::new("Loss", &held);
        assert_eq!(search.matches_in("loss 2, LOSS 3"), [0..4, 8..12]);
        let whole = std::iter::once(0..7).collect::<Vec<_>>();
        assert_eq!(search.matches_in("\u{130} loss"), whole, "the lower case of this letter is longer");
        assert!(search.matches_in("").is_empty());
        assert!(Search::new("", &held).matches_in("loss").is_empty());
    }

    #[test]
    fn matches_are_kept_as_lines_come_and_go() {
        let mut held = Held::new(2, usize::MAX);
        held.push("a loss".into());
        let mut search = Search::new("LOSS", &held);
        for text in ["nothing", "loss again"] {
            let number = held.push(text.into());
            search.look_at(number, text);
        }
        held.trim();
        assert_eq!(
            (search.len(), search.line(0), search.place(2), search.before(2)),
            (2, Some(0), Some(1), 1)
        );
        search.forget_before(held.first());
        assert_eq!((search.len(), search.line(0), search.place(0)), (1, Some(2), None));
    }
}
