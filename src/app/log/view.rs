//! The log that is open in a pane: what is held of it, and how it is looked at.

use super::window::Window;
use crate::logs::{Held, Search};
use crate::model::{Line, LogBatch, LogEnd, LogSource, StreamId};

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
    pub(super) search: Search,
    /// Number of the line of the current match.
    pub(super) at: Option<u64>,
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
            search: Search::default(),
            at: None,
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
            let number = self.held.end();
            self.search.look_at(number, line.text());
            self.held.push(line);
        }
        self.held.trim();
        self.search.forget_before(self.held.first());
        self.end = batch.end;
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

    /// The number of lines in memory.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// A line by its place in memory.
    pub fn line(&self, index: usize) -> Option<&Line> {
        self.held.get(index)
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
