//! The lines of a log that are held in memory: as many as a limit allows, each with a number that never changes.

use crate::model::{Line, LogPart};
use std::collections::VecDeque;
use std::ops::Range;

/// Number of the first line that is added; lower numbers are for lines above, which may be added later.
const FIRST: u64 = 1 << 40;

/// A section of a log. Lines are numbered, so that a line keeps its number while others are added or dropped at either
/// end, and has the same number when it is read again.
#[derive(Clone, Debug)]
pub struct LogBuffer {
    lines: VecDeque<Line>,
    bytes: usize,
    /// Number of the first line.
    first: u64,
    /// Maximum number of lines, and of bytes.
    limit: (usize, usize),
    /// Where parts of the log begin: number of a line, and its position. Ascending, and never after the last line.
    marks: VecDeque<(u64, u64)>,
    /// Position after the last line, once one is known.
    until: Option<u64>,
    /// Position of the log's first byte, once known.
    begin: Option<u64>,
    /// Whether lines were dropped at the end, so that new ones do not follow.
    is_cut: bool,
}

impl LogBuffer {
    /// Empty, with a maximum number of lines and bytes.
    pub const fn new(lines: usize, bytes: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
            first: FIRST,
            limit: (lines, bytes),
            marks: VecDeque::new(),
            until: None,
            begin: None,
            is_cut: false,
        }
    }

    /// Sets the maximum number of lines and bytes.
    pub fn limit(&mut self, lines: usize, bytes: usize) {
        self.limit = (lines, bytes);
    }

    /// Adds a line at the end; returns its number.
    pub fn push(&mut self, line: Line) -> u64 {
        self.bytes += line.bytes();
        self.lines.push_back(line);
        self.end() - 1
    }

    /// Adds the newest lines. Lines that do not follow the held ones replace them. Returns the numbers of the new
    /// lines. Nothing is added after lines were dropped at the end.
    pub fn append(&mut self, part: LogPart) -> Range<u64> {
        if self.is_cut {
            return self.end()..self.end();
        }
        if self.until.is_some_and(|until| until != part.bytes.start) && !part.bytes.is_empty() {
            let next = self.end();
            *self = Self { first: next, ..Self::new(self.limit.0, self.limit.1) };
        }
        let from = self.end();
        if !part.bytes.is_empty() {
            self.marks.push_back((from, part.bytes.start));
            self.until = Some(part.bytes.end);
        }
        self.begin = part.begin.or(self.begin);
        for line in part.lines {
            self.push(line);
        }
        from..self.end()
    }

    /// Adds older lines: the part that ends at [`Self::start`]. Beyond the limits the newest lines are dropped. Returns
    /// the numbers of the new lines; `None` if the part ends elsewhere.
    pub fn prepend(&mut self, part: LogPart) -> Option<Range<u64>> {
        let (number, _) = self.mark().filter(|(_, at)| *at == part.bytes.end)?;
        // The lines above the mark are the last ones of this part.
        while self.first < number && self.drop_first() {}
        for line in part.lines.into_iter().rev() {
            self.bytes += line.bytes();
            self.lines.push_front(line);
            self.first -= 1;
        }
        if !part.bytes.is_empty() {
            self.marks.push_front((self.first, part.bytes.start));
        }
        self.begin = part.begin.or(self.begin);
        while self.is_over() {
            let Some(line) = self.lines.pop_back() else { break };
            self.bytes -= line.bytes();
            self.is_cut = true;
        }
        let end = self.end();
        while self.marks.back().is_some_and(|(line, _)| *line >= end) {
            self.marks.pop_back();
        }
        Some(self.first..number)
    }

    /// Drops the oldest lines beyond the limits.
    pub fn trim(&mut self) {
        while self.is_over() && self.drop_first() {}
    }

    fn is_over(&self) -> bool {
        self.lines.len() > self.limit.0 || self.bytes > self.limit.1
    }

    fn drop_first(&mut self) -> bool {
        let Some(line) = self.lines.pop_front() else { return false };
        self.bytes -= line.bytes();
        self.first += 1;
        while self.marks.front().is_some_and(|(line, _)| *line < self.first) {
            self.marks.pop_front();
        }
        true
    }

    /// The first line whose position is known, or the end.
    fn mark(&self) -> Option<(u64, u64)> {
        self.marks.front().copied().or_else(|| Some((self.end(), self.until?)))
    }

    /// Position of the log's first byte; `None` while the size of the unread part above is unknown.
    pub const fn begin(&self) -> Option<u64> {
        self.begin
    }

    /// Position before which older parts are read; `None` while no position is known.
    pub fn start(&self) -> Option<u64> {
        self.mark().map(|(_, at)| at)
    }

    /// The numbers of the lines of the part with this position; `None` if it is not held.
    pub fn around(&self, position: u64) -> Option<Range<u64>> {
        let behind = self.marks.partition_point(|(_, at)| *at <= position);
        let (from, _) = *self.marks.get(behind.checked_sub(1)?)?;
        let to = self.marks.get(behind).map_or(self.end(), |(number, _)| *number);
        (self.until? > position).then_some(from..to)
    }

    /// Approximate number of bytes of the log above the first line; `None` if unknown.
    pub fn above(&self) -> Option<u64> {
        Some(self.start()?.saturating_sub(self.begin?))
    }

    /// Number of bytes of the log from [`Self::start`] to the last line read; `None` while no position is known.
    pub fn placed(&self) -> Option<u64> {
        Some(self.until?.saturating_sub(self.start()?))
    }

    /// Whether lines were dropped at the end to make room for older ones.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Number of the first line.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// One more than the number of the last line.
    pub fn end(&self) -> u64 {
        self.first + self.lines.len() as u64
    }

    /// A line by its index, from 0.
    pub fn get(&self, index: usize) -> Option<&Line> {
        self.lines.get(index)
    }

    /// The lines at these indices.
    pub fn range(&self, indices: Range<usize>) -> impl DoubleEndedIterator<Item = &Line> {
        self.lines.range(indices)
    }

    /// All lines with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &Line)> {
        (self.first..).zip(&self.lines)
    }

    /// The index of a line by its number; 0 for a dropped one.
    pub fn index_of(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    /// The lines as a part of the log, without those at its beginning whose position is no longer known.
    pub fn into_part(mut self) -> LogPart {
        let (number, start) = self.mark().unwrap_or((self.first, 0));
        while self.first < number && self.drop_first() {}
        LogPart { lines: self.lines.into(), bytes: start..self.until.unwrap_or(start), begin: self.begin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines of ten bytes each, the first one with this number.
    fn part(lines: Range<u64>) -> LogPart {
        let text = lines.clone().map(|n| format!("line {n:04}").into()).collect();
        LogPart { lines: text, bytes: lines.start * 10..lines.end * 10, begin: Some(0) }
    }

    fn texts(buffer: &LogBuffer) -> Vec<u64> {
        buffer.lines.iter().map(|l| l.text()[5..].parse().unwrap()).collect()
    }

    #[test]
    fn numbers_stay_while_old_lines_go() {
        let mut buffer = LogBuffer::new(3, usize::MAX);
        for n in 0..5 {
            assert_eq!(buffer.push(format!("line {n}").into()), FIRST + n);
            buffer.trim();
        }
        assert_eq!((buffer.first(), buffer.end(), buffer.len()), (FIRST + 2, FIRST + 5, 3));
        assert_eq!(buffer.get(buffer.index_of(FIRST + 3)).map(Line::text), Some("line 3"));
        assert_eq!(buffer.index_of(FIRST), 0, "it was dropped");
    }

    #[test]
    fn bytes_are_bounded() {
        let line = Line::from("x".repeat(1000));
        let mut buffer = LogBuffer::new(usize::MAX, 10 * line.bytes());
        for _ in 0..100 {
            buffer.push(line.clone());
            buffer.trim();
        }
        assert_eq!((buffer.len(), buffer.bytes), (10, 10 * line.bytes()));
    }

    #[test]
    fn older_parts_go_in_front_and_no_number_changes() {
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        let shown = buffer.append(part(50..60)).start;
        assert_eq!((buffer.start(), buffer.above()), (Some(500), Some(500)));
        assert!(buffer.prepend(part(10..20)).is_none(), "it does not touch what is held");
        assert_eq!(buffer.prepend(part(20..50)), Some(shown - 30..shown));
        buffer.append(part(60..70));
        assert_eq!(texts(&buffer), (20..70).collect::<Vec<_>>());
        assert_eq!(buffer.get(buffer.index_of(shown)).unwrap().text(), "line 0050");
        buffer.prepend(part(0..20)).unwrap();
        assert_eq!(buffer.above(), Some(0), "from the beginning");
    }

    #[test]
    fn dropped_lines_have_the_same_numbers_when_read_again() {
        let mut buffer = LogBuffer::new(30, usize::MAX);
        let first = buffer.append(part(0..20)).start;
        buffer.append(part(20..40));
        buffer.trim();
        assert_eq!((texts(&buffer)[0], buffer.start()), (10, Some(200)));
        assert_eq!(buffer.prepend(part(0..20)), Some(first..first + 20));
        assert_eq!(texts(&buffer), (0..30).collect::<Vec<_>>(), "the newest ones are dropped for them");
        assert!(buffer.is_cut() && buffer.append(part(40..41)).is_empty());
    }

    #[test]
    fn lines_that_do_not_follow_replace_the_held_lines() {
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        let before = buffer.append(part(0..10));
        let after = buffer.append(part(900..910));
        assert!(after.start >= before.end, "a number is never given twice");
        assert_eq!((texts(&buffer), buffer.above()), ((900..910).collect(), Some(9000)));
        let note = LogPart { lines: vec!["truncated".into()], ..LogPart::default() };
        buffer.append(note);
        assert_eq!(
            (buffer.len(), buffer.start()),
            (11, Some(9000)),
            "a word of ours has no place in the file"
        );
    }

    proptest! {
        #[test]
        fn the_held_lines_are_contiguous(
            limit in 1usize..60, steps in prop::collection::vec((any::<bool>(), 1u64..30), 1..40)
        ) {
            let (mut buffer, mut next) = (LogBuffer::new(limit, usize::MAX), 500);
            for (is_older, lines) in steps {
                match buffer.start() {
                    Some(start) if is_older => {
                        let end = start / 10;
                        prop_assert!(buffer.prepend(part(end.saturating_sub(lines)..end)).is_some());
                    }
                    _ => {
                        buffer.append(part(next..next + lines));
                        next += lines;
                        buffer.trim();
                    }
                }
                let all = texts(&buffer);
                prop_assert!(all.len() <= limit && all.windows(2).all(|w| w[0] + 1 == w[1]), "{:?}", all);
            }
        }
    }
}
