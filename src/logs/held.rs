//! The lines of a log that are held in memory: as many as a limit allows, each with a number that never changes.

use crate::model::Line;
use std::collections::VecDeque;
use std::ops::Range;

/// The newest lines of a log. Line numbers count from the first line that was ever taken in, so that they stay the same
/// while older lines are let go.
#[derive(Clone, Debug)]
pub struct Held {
    lines: VecDeque<Line>,
    bytes: usize,
    /// Number of the first line.
    first: u64,
    /// Most lines, and most bytes.
    limit: (usize, usize),
}

impl Held {
    /// Nothing yet, and never more than so many lines and bytes.
    pub const fn new(lines: usize, bytes: usize) -> Self {
        Self { lines: VecDeque::new(), bytes: 0, first: 0, limit: (lines, bytes) }
    }

    /// Takes in a line at the end; its number.
    pub fn push(&mut self, line: Line) -> u64 {
        self.bytes += line.bytes();
        self.lines.push_back(line);
        self.end() - 1
    }

    /// Lets the oldest lines go that are beyond the limits.
    pub fn trim(&mut self) {
        while self.lines.len() > self.limit.0 || self.bytes > self.limit.1 {
            let Some(line) = self.lines.pop_front() else { break };
            self.bytes -= line.bytes();
            self.first += 1;
        }
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Number of the first line.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Number behind the last line.
    pub fn end(&self) -> u64 {
        self.first + self.lines.len() as u64
    }

    /// A line by its place, from 0.
    pub fn get(&self, place: usize) -> Option<&Line> {
        self.lines.get(place)
    }

    /// The lines at these places.
    pub fn range(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = &Line> {
        self.lines.range(places)
    }

    /// All lines with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &Line)> {
        (self.first..).zip(&self.lines)
    }

    /// The place of a line by its number; 0 for one that was let go.
    pub fn place(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    /// The lines alone.
    pub fn into_lines(self) -> Vec<Line> {
        self.lines.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_while_old_lines_go() {
        let mut held = Held::new(3, usize::MAX);
        for n in 0..5 {
            assert_eq!(held.push(format!("line {n}").into()), n);
            held.trim();
        }
        assert_eq!((held.first(), held.end(), held.len()), (2, 5, 3));
        assert_eq!(held.get(held.place(3)).map(Line::text), Some("line 3"));
        assert_eq!(held.place(0), 0, "it was let go");
    }

    #[test]
    fn bytes_are_bounded() {
        let line = Line::from("x".repeat(1000));
        let mut held = Held::new(usize::MAX, 10 * line.bytes());
        for _ in 0..100 {
            held.push(line.clone());
            held.trim();
        }
        assert_eq!((held.len(), held.bytes), (10, 10 * line.bytes()));
    }
}
