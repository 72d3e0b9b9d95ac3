//! The log that is open in a pane: what is held of it, and how it is looked at.

use super::lens::Lens;
use super::window::Window;
use crate::logs::{Held, Level, Search, Sieve, level};
use crate::model::{Line, LogBatch, LogEnd, LogSource, StreamId};
use std::collections::VecDeque;

/// Most lines kept.
pub(super) const LINES: usize = 50_000;
/// Most bytes kept.
const BYTES: usize = 16 << 20;

/// The log that is open in the pane.
#[derive(Clone, Debug)]
pub struct LogView {
    pub(super) source: Option<LogSource>,
    pub(super) stream: StreamId,
    pub(super) held: Held,
    /// Number of the first line shown, unless following.
    pub(super) top: u64,
    pub(super) follow: bool,
    pub(super) wrap: bool,
    pub(super) end: LogEnd,
    /// Which of the held lines are shown.
    pub(super) lens: Lens,
    pub(super) search: Search,
    /// The lines that report an error.
    pub(super) errors: Sieve,
    /// Lines that a person has marked, ascending.
    pub(super) marks: VecDeque<u64>,
    /// Number of the current line: the match, error or mark that was gone to last.
    pub(super) at: Option<u64>,
    /// A step to a match that waits until all lines were looked at; whether it is forward.
    pub(super) sought: Option<bool>,
    pub(super) size: Window,
}

impl Default for LogView {
    fn default() -> Self {
        Self {
            source: None,
            stream: StreamId(0),
            held: Held::new(LINES, BYTES),
            top: 0,
            follow: true,
            wrap: false,
            end: LogEnd::Open,
            lens: Lens::default(),
            search: Search::default(),
            errors: Sieve::default(),
            marks: VecDeque::new(),
            at: None,
            sought: None,
            size: Window { width: 80, height: 1 },
        }
    }
}

impl LogView {
    /// Replaces the log by another, empty one.
    pub fn begin(&mut self, source: LogSource, stream: StreamId) {
        let (wrap, size) = (self.wrap, self.size);
        *self = Self { source: Some(source), stream, wrap, size, ..Self::default() };
    }

    /// Takes in lines. Lines of a stream that was closed meanwhile are dropped.
    pub fn take(&mut self, batch: LogBatch) {
        if batch.stream != self.stream {
            return;
        }
        for line in batch.lines {
            self.held.push(line);
        }
        self.held.trim();
        self.marks.retain(|mark| *mark >= self.held.first());
        self.end = batch.end;
        self.look_on();
    }

    /// An empty view of the same stream, for the lines that come from now on; none when no log is open.
    pub fn after_this(&self) -> Option<Self> {
        let mut after = Self::default();
        after.begin(self.source.clone()?, self.stream);
        after.end = self.end.clone();
        Some(after)
    }

    /// All of its lines, to be taken in by another view of the same stream.
    pub fn into_batch(self) -> LogBatch {
        LogBatch { stream: self.stream, lines: self.held.into_lines(), end: self.end }
    }

    /// The source of the log.
    pub fn source(&self) -> Option<&LogSource> {
        self.source.as_ref()
    }

    /// The id of the open stream.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The state of the stream.
    pub fn end(&self) -> &LogEnd {
        &self.end
    }

    /// Looks at some of the lines that were not looked at yet: whether they are shown, match, report an error. A call
    /// takes a few milliseconds at most. Whether more are left.
    pub fn look_on(&mut self) -> bool {
        let is_shown = self.lens.step(&self.held);
        let is_searched = self.search.step(&self.held);
        let is_judged = self.errors.step(&self.held, |_, line| level(line.text()) == Some(Level::Error));
        if is_searched
            && is_shown
            && let Some(forward) = self.sought.take()
        {
            self.next_match(forward);
        }
        !(is_shown && is_searched && is_judged)
    }

    /// Whether there are lines that were not looked at yet.
    pub fn is_looking(&self) -> bool {
        !(self.lens.is_done(&self.held) && self.search.is_done(&self.held) && self.errors.is_done(&self.held))
    }

    /// The number of lines that are held, shown or not.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The number of lines that are shown.
    pub fn len(&self) -> usize {
        self.lens.shown().map_or(self.held.len(), VecDeque::len)
    }

    /// Whether no line is shown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A line by its place among those that are shown.
    pub fn line(&self, index: usize) -> Option<&Line> {
        match self.lens.shown() {
            None => self.held.get(index),
            Some(shown) => self.held.get(self.held.place(*shown.get(index)?)),
        }
    }

    /// The number of the line at a place; behind the last place the one behind the last line.
    pub(super) fn number(&self, index: usize) -> u64 {
        match self.lens.shown() {
            None => self.held.first() + index as u64,
            Some(shown) => shown.get(index).copied().unwrap_or(self.held.end()),
        }
    }

    /// The place of a line by its number, or of the next one that is shown.
    pub(super) fn place(&self, number: u64) -> usize {
        match self.lens.shown() {
            None => self.held.place(number),
            Some(shown) => shown.partition_point(|n| *n < number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{first, push, view};
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_eye_stays_on_its_line() {
        let mut view = view(LINES);
        view.go_to_top();
        view.scroll(1000);
        push(&mut view, LINES..LINES + 500);
        assert_eq!((view.len(), first(&view)), (LINES, "line 1000"));
        push(&mut view, LINES + 500..LINES + 5000);
        assert_eq!(first(&view), "line 5000", "dropped lines cannot be shown");
        let big = "x".repeat(1 << 20);
        view.take(LogBatch { stream: StreamId(1), lines: vec![big.into(); 40], end: LogEnd::Open });
        assert_eq!(view.len(), 15, "what a line takes beside its text counts, too");
    }

    #[test]
    fn lines_of_a_closed_stream_are_dropped() {
        let mut view = view(3);
        view.take(LogBatch { stream: StreamId(0), lines: vec!["old".into()], end: LogEnd::Complete });
        assert_eq!((view.len(), view.end()), (3, &LogEnd::Open));
    }
}
