//! Compares readings of the end of a log: which of its lines are new.

use crate::model::Line;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of lines that are remembered: a sequence of so many equal lines hardly occurs twice.
const MAX_LINES: usize = 16;

/// Hashes of the last lines of a log that were read.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    last: VecDeque<u64>,
}

/// The new lines of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct New {
    /// The number of lines at the beginning that are known.
    pub known: usize,
    /// Whether lines between the last reading and this one may have been skipped.
    pub is_gapped: bool,
}

impl Tail {
    /// Compares the last lines of a log with those of the reading before.
    pub fn compare(&mut self, lines: &[Line]) -> New {
        let hashes: Vec<u64> = lines.iter().map(hash).collect();
        let ends_here = |end: &usize| {
            let overlap = (*end).min(self.last.len());
            overlap > 0 && self.last.iter().rev().zip(hashes[..*end].iter().rev()).all(|(a, b)| a == b)
        };
        let known = (0..=hashes.len()).rev().find(ends_here);
        let is_gapped = known.is_none() && !self.last.is_empty() && !hashes.is_empty();
        self.last.extend(&hashes[known.unwrap_or(0)..]);
        let surplus = self.last.len().saturating_sub(MAX_LINES);
        self.last.drain(..surplus);
        New { known: known.unwrap_or(0), is_gapped }
    }
}

fn hash(line: &Line) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.text().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(range: std::ops::Range<usize>) -> Vec<Line> {
        range.map(|n| Line::from(format!("line {n}").as_str())).collect()
    }

    #[test]
    fn only_added_lines_are_new_and_a_gap_is_reported() {
        let mut tail = Tail::default();
        let new = |known, is_gapped| New { known, is_gapped };
        assert_eq!(tail.compare(&lines(0..0)), new(0, false), "an empty log");
        assert_eq!(tail.compare(&lines(0..50)), new(0, false));
        assert_eq!(tail.compare(&lines(0..50)), new(50, false), "nothing was added");
        assert_eq!(tail.compare(&lines(20..60)), new(30, false));
        assert_eq!(tail.compare(&lines(55..65)), new(5, false), "fewer lines than are remembered");
        assert_eq!(tail.compare(&lines(200..240)), new(0, true));
        assert_eq!(tail.compare(&lines(230..250)), new(10, false));
    }

    #[test]
    fn a_log_that_was_restarted_is_new() {
        let mut tail = Tail::default();
        tail.compare(&lines(0..40));
        assert_eq!(tail.compare(&lines(0..10)), New { known: 0, is_gapped: true });
    }
}
