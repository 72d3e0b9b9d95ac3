//! The log pane's memory: a ring of lines, where the eye is in it, and what it is searching.

use crate::model::{LogBatch, LogEnd, LogSource, StreamId};
use std::collections::VecDeque;

/// Most lines kept.
const LINES: usize = 50_000;
/// Most bytes kept.
const BYTES: usize = 16 << 20;

/// One log.
#[derive(Clone, Debug)]
pub struct LogView {
    source: Option<LogSource>,
    stream: StreamId,
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines dropped at the front so far: line numbers stay the same while the ring moves.
    dropped: u64,
    /// Number of the first line shown, unless following.
    top: u64,
    follow: bool,
    wrap: bool,
    end: LogEnd,
    search: String,
    height: usize,
}

impl Default for LogView {
    fn default() -> Self {
        Self {
            source: None,
            stream: StreamId(0),
            lines: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            top: 0,
            follow: true,
            wrap: false,
            end: LogEnd::Open,
            search: String::new(),
            height: 1,
        }
    }
}

impl LogView {
    /// Begins another log.
    pub fn begin(&mut self, source: LogSource, stream: StreamId) {
        let (wrap, height) = (self.wrap, self.height);
        *self = Self { source: Some(source), stream, wrap, height, ..Self::default() };
    }

    /// Takes lines in. Those of a stream that was closed meanwhile are dropped.
    pub fn take(&mut self, batch: LogBatch) {
        if batch.stream != self.stream {
            return;
        }
        for line in batch.lines {
            self.bytes += line.len();
            self.lines.push_back(line);
        }
        while self.lines.len() > LINES || self.bytes > BYTES {
            let Some(line) = self.lines.pop_front() else { break };
            self.bytes -= line.len();
            self.dropped += 1;
        }
        self.end = batch.end;
    }

    /// What is followed.
    pub fn source(&self) -> Option<&LogSource> {
        self.source.as_ref()
    }

    /// The open stream.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// How the stream stands.
    pub fn end(&self) -> &LogEnd {
        &self.end
    }

    /// Lines in memory.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A line by its place in memory.
    pub fn line(&self, index: usize) -> Option<&str> {
        self.lines.get(index).map(String::as_str)
    }

    /// First line to show in a window of that height.
    pub fn window(&self, height: usize) -> usize {
        let last = self.lines.len().saturating_sub(height);
        if self.follow {
            return last;
        }
        usize::try_from(self.top.saturating_sub(self.dropped)).unwrap_or(usize::MAX).min(last)
    }

    /// Lines below the window.
    pub fn below(&self) -> usize {
        self.lines.len().saturating_sub(self.window(self.height) + self.height)
    }

    /// Whether the end is followed.
    pub fn follows(&self) -> bool {
        self.follow
    }

    /// Whether long lines wrap.
    pub fn wraps(&self) -> bool {
        self.wrap
    }

    /// The window was drawn at that height.
    pub fn drawn(&mut self, height: usize) {
        self.height = height.max(1);
    }

    /// Rows in the window.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Scrolls. Upwards stops following; reaching the end resumes it.
    pub fn scroll(&mut self, by: isize) {
        let last = self.lines.len().saturating_sub(self.height);
        self.show(self.window(self.height).saturating_add_signed(by).min(last));
        self.follow = by > 0 && self.window(self.height) == last;
    }

    /// To the first line.
    pub fn go_to_top(&mut self) {
        self.show(0);
    }

    /// To the end, following it.
    pub fn go_to_end(&mut self) {
        self.follow = true;
    }

    /// Follows the end, or stops where the eye is.
    pub fn toggle_follow(&mut self) {
        if self.follow {
            self.show(self.window(self.height));
        } else {
            self.follow = true;
        }
    }

    /// Wraps long lines, or cuts them.
    pub fn toggle_wrap(&mut self) {
        self.wrap = !self.wrap;
    }

    fn show(&mut self, index: usize) {
        self.follow = false;
        self.top = self.dropped + index as u64;
    }

    /// What is searched; empty for nothing.
    pub fn search(&self) -> &str {
        &self.search
    }

    /// Searches for a text, in any case.
    pub fn set_search(&mut self, text: &str) {
        self.search = text.to_lowercase();
    }

    /// Whether a line matches the search.
    pub fn matches(&self, line: &str) -> bool {
        !self.search.is_empty() && contains(line, &self.search)
    }

    /// How many lines match.
    pub fn match_count(&self) -> usize {
        self.lines.iter().filter(|l| self.matches(l)).count()
    }

    /// Brings the next match below (or above) the window's first line to the top. False when there is none.
    pub fn next_match(&mut self, forward: bool) -> bool {
        // Not the window: that ends at the last page, and matches on it come one by one too.
        let eye = usize::try_from(self.top.saturating_sub(self.dropped)).unwrap_or(usize::MAX);
        let here = if self.follow { self.window(self.height) } else { eye };
        let found = if forward {
            (here + 1..self.lines.len()).find(|i| self.matches(&self.lines[*i]))
        } else {
            (0..here).rev().find(|i| self.matches(&self.lines[*i]))
        };
        found.inspect(|i| self.top = self.dropped + *i as u64).map(|_| self.follow = false).is_some()
    }

    /// The lines in the window.
    pub fn visible(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().skip(self.window(self.height)).take(self.height).map(String::as_str)
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

    fn view(lines: usize) -> LogView {
        let mut view = LogView::default();
        view.begin(LogSource::Monitor("monitor.log".into()), StreamId(1));
        view.drawn(10);
        push(&mut view, 0..lines);
        view
    }

    fn push(view: &mut LogView, range: std::ops::Range<usize>) {
        let lines = range.map(|i| format!("line {i}")).collect();
        view.take(LogBatch { stream: StreamId(1), lines, end: LogEnd::Open });
    }

    fn first(view: &LogView) -> &str {
        view.visible().next().unwrap()
    }

    #[test]
    fn following_stops_on_scroll_and_resumes_at_the_end() {
        let mut view = view(100);
        assert_eq!(first(&view), "line 90");
        view.scroll(-5);
        push(&mut view, 100..120);
        assert_eq!((first(&view), view.follows(), view.below()), ("line 85", false, 25));
        view.scroll(100);
        assert!(view.follows());
        push(&mut view, 120..130);
        assert_eq!(first(&view), "line 120");
        view.go_to_top();
        assert_eq!(first(&view), "line 0");
    }

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
        view.take(LogBatch { stream: StreamId(1), lines: vec![big; 40], end: LogEnd::Open });
        assert!(view.bytes <= BYTES && view.len() == 16);
    }

    #[test]
    fn lines_of_a_closed_stream_are_dropped() {
        let mut view = view(3);
        view.take(LogBatch { stream: StreamId(0), lines: vec!["old".into()], end: LogEnd::Complete });
        assert_eq!((view.len(), view.end()), (3, &LogEnd::Open));
    }

    #[test]
    fn a_search_goes_from_match_to_match() {
        let mut view = view(100);
        view.set_search("LINE 7");
        assert_eq!(view.match_count(), 11);
        view.go_to_top();
        assert!(view.next_match(true));
        assert_eq!(first(&view), "line 7");
        assert!(view.next_match(true));
        assert_eq!(first(&view), "line 70");
        assert!(view.next_match(false));
        assert_eq!(first(&view), "line 7");
        assert!(!view.next_match(false));
        assert!(!view.follows());
    }
}
