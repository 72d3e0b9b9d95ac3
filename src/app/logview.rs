//! The log pane: the lines that are held, the scroll position and the search.

use crate::logs::{Held, Search};
use crate::model::{Line, LogBatch, LogEnd, LogSource, StreamId};
use std::ops::Range;
use unicode_width::UnicodeWidthChar;

/// Most lines kept.
const LINES: usize = 50_000;
/// Most bytes kept.
const BYTES: usize = 16 << 20;

/// The log that is open in the pane.
#[derive(Clone, Debug)]
pub struct LogView {
    source: Option<LogSource>,
    stream: StreamId,
    held: Held,
    /// Number of the first line shown, unless following.
    top: u64,
    follow: bool,
    wrap: bool,
    end: LogEnd,
    search: Search,
    /// Number of the line of the current match.
    at: Option<u64>,
    size: Window,
}

/// How a search went on to a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the next one in that direction.
    Next,
    /// Past the last one, to the other end of the log.
    Wrapped,
}

/// Columns and rows that lines are drawn in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Width in columns.
    pub width: usize,
    /// Height in rows.
    pub height: usize,
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

    /// First line to show in a window of that size. When following a line that wraps may begin above it.
    pub fn top(&self, size: Window) -> usize {
        if self.follow {
            return self.last_page(size);
        }
        // Any line can be at the top, however many rows it takes.
        let last = if self.wrap { self.held.len().saturating_sub(1) } else { self.last_page(size) };
        self.eye().min(last)
    }

    /// The first visible line when the end of the last one is at the bottom.
    fn last_page(&self, size: Window) -> usize {
        if !self.wrap {
            return self.held.len().saturating_sub(size.height);
        }
        let mut rows = 0;
        let fills = |i: &usize| {
            rows += self.rows(*i, size);
            rows >= size.height
        };
        (0..self.held.len()).rev().find(fills).unwrap_or(0)
    }

    /// Rows that a line takes when it wraps.
    fn rows(&self, index: usize, size: Window) -> usize {
        self.held.get(index).map_or(1, |line| pieces(line.text(), size.width).count())
    }

    fn eye(&self) -> usize {
        self.held.place(self.top)
    }

    /// The first line that does not fit into a window of that size whole.
    fn bottom(&self, size: Window) -> usize {
        let (top, len) = (self.top(size), self.held.len());
        if self.follow {
            return len;
        }
        if !self.wrap {
            return len.min(top + size.height);
        }
        let mut rows = 0;
        let overflows = |i: &usize| {
            rows += self.rows(*i, size);
            rows > size.height
        };
        (top..len).find(overflows).unwrap_or(len)
    }

    /// The number of lines below a window of that size, including one that is cut.
    pub fn below(&self, size: Window) -> usize {
        self.held.len() - self.bottom(size)
    }

    /// Whether the end is followed.
    pub fn follows(&self) -> bool {
        self.follow
    }

    /// Whether long lines wrap.
    pub fn wraps(&self) -> bool {
        self.wrap
    }

    /// Takes in the size in which the log was drawn.
    pub fn drawn(&mut self, size: Window) {
        self.size = Window { width: size.width, height: size.height.max(1) };
    }

    /// The size it was drawn in last.
    pub fn size(&self) -> Window {
        self.size
    }

    /// Lines that are whole in the window, at least one.
    pub fn page(&self) -> usize {
        self.bottom(self.size).saturating_sub(self.top(self.size)).max(1)
    }

    /// Scrolls. Upwards stops following; reaching the end resumes it.
    pub fn scroll(&mut self, by: isize) {
        let here = self.top(self.size);
        self.show(here.saturating_add_signed(by));
        let there = self.top(self.size);
        self.show(there);
        // A last line that is taller than the window never fits: pushed further, its end is followed.
        self.follow = by > 0 && (self.below(self.size) == 0 || there == here);
    }

    /// To the first line.
    pub fn go_to_top(&mut self) {
        self.show(0);
    }

    /// To the end, following it.
    pub fn go_to_end(&mut self) {
        self.follow = true;
    }

    /// Toggles follow; stopping keeps the visible lines.
    pub fn toggle_follow(&mut self) {
        if self.follow {
            self.show(self.top(self.size));
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
        self.top = self.held.first() + index as u64;
    }

    /// The search.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Searches for a text, in any case.
    pub fn set_search(&mut self, text: &str) {
        (self.search, self.at) = (Search::new(text, &self.held), None);
    }

    /// The place of the current match among all of them, from 1.
    pub fn match_place(&self) -> Option<usize> {
        self.search.place(self.at?).map(|place| place + 1)
    }

    /// Whether that line is the current match.
    pub fn is_at(&self, index: usize) -> bool {
        self.at == Some(self.held.first() + index as u64)
    }

    /// Goes to the next match below (or above) the current one, or to the first (last) one that is visible or beyond;
    /// past the last match to the first, as `less` does. Stops following. The window moves only when the match is not
    /// in it. None when nothing matches.
    pub fn next_match(&mut self, forward: bool) -> Option<Step> {
        let seen = self.seen();
        let number = |index: usize| self.held.first() + index as u64;
        let (start, end) = (number(seen.start), number(seen.end));
        let here = self.at.filter(|at| (start..end).contains(at));
        let place = if forward {
            let from = here.map_or(start, |at| at + 1);
            Some(self.search.before(from)).filter(|place| *place < self.search.len())
        } else {
            self.search.before(here.unwrap_or(end)).checked_sub(1)
        };
        let last = self.search.len().checked_sub(1)?;
        let found = self.search.line(place.unwrap_or(if forward { 0 } else { last }))?;
        self.at = Some(found);
        let index = self.held.place(found);
        self.show(if seen.contains(&index) { seen.start } else { index });
        Some(if place.is_some() { Step::Next } else { Step::Wrapped })
    }

    /// The lines in the window, with those of which a part is.
    pub fn visible(&self) -> impl Iterator<Item = &str> {
        self.held.range(self.seen()).map(Line::text)
    }

    fn seen(&self) -> Range<usize> {
        let (top, bottom) = (self.top(self.size), self.bottom(self.size));
        let full = (top..bottom).map(|i| if self.wrap { self.rows(i, self.size) } else { 1 }).sum::<usize>();
        let cut = usize::from(full < self.size.height);
        top..(bottom + cut).min(self.held.len())
    }
}

/// A line in pieces that fit so many columns; at least one.
pub fn pieces(line: &str, width: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let mut room = width;
        let over = line.char_indices().find(|(i, c)| {
            let wide = c.width().unwrap_or(0);
            // One that is wider than the window would be left for ever.
            let is_over = wide > room && *i > 0;
            room = room.saturating_sub(wide);
            is_over
        });
        let (piece, left) = line.split_at(over.map_or(line.len(), |(i, _)| i));
        rest = over.map(|_| left);
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lines: usize) -> LogView {
        let mut view = LogView::default();
        view.begin(LogSource::Monitor("monitor.log".into()), StreamId(1));
        view.drawn(Window { width: 80, height: 10 });
        push(&mut view, 0..lines);
        view
    }

    fn push(view: &mut LogView, range: std::ops::Range<usize>) {
        let lines = range.map(|i| format!("line {i}").into()).collect();
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
        assert_eq!((first(&view), view.follows(), view.below(view.size)), ("line 85", false, 25));
        view.scroll(100);
        assert!(view.follows());
        push(&mut view, 120..130);
        assert_eq!(first(&view), "line 120");
        view.go_to_top();
        assert_eq!(first(&view), "line 0");
    }

    /// A hundred lines of four rows each in a window of sixteen rows.
    fn wrapped() -> LogView {
        let mut view = LogView::default();
        view.begin(LogSource::Monitor("monitor.log".into()), StreamId(1));
        view.toggle_wrap();
        view.drawn(Window { width: 10, height: 16 });
        let lines = (0..100).map(|i| format!("line {i:02}{}", "-".repeat(33)).into()).collect();
        view.take(LogBatch { stream: StreamId(1), lines, end: LogEnd::Open });
        view
    }

    fn seen(view: &LogView) -> Vec<&str> {
        view.visible().map(|line| &line[5..7]).collect()
    }

    #[test]
    fn every_line_that_wraps_can_be_reached() {
        let mut view = wrapped();
        assert_eq!(seen(&view), ["96", "97", "98", "99"], "what is copied is what is drawn");
        view.scroll(-1);
        assert_eq!((seen(&view), view.follows()), (vec!["95", "96", "97", "98"], false));
        assert_eq!((view.below(view.size), view.page()), (1, 4));
        view.go_to_top();
        let mut met = Vec::new();
        while !view.follows() {
            met.extend(seen(&view).iter().map(ToString::to_string));
            view.scroll(isize::try_from(view.page()).unwrap());
        }
        met.extend(seen(&view).iter().map(ToString::to_string));
        assert_eq!(met, (0..100).map(|i| format!("{i:02}")).collect::<Vec<_>>(), "page by page");
    }

    #[test]
    fn a_match_on_the_last_page_of_lines_that_wrap_is_shown() {
        let mut view = wrapped();
        view.set_search("line 90");
        assert!(view.next_match(false).is_some());
        assert_eq!((seen(&view)[0], view.below(view.size)), ("90", 6));
        view.set_search("line 98");
        assert!(view.next_match(true).is_some() && view.is_at(98));
        assert_eq!((seen(&view), view.below(view.size), view.follows()), (vec!["98", "99"], 0, false));
    }

    #[test]
    fn a_line_that_is_taller_than_the_window_is_cut_and_its_end_followed() {
        let mut view = wrapped();
        view.drawn(Window { width: 10, height: 3 });
        view.go_to_top();
        assert_eq!((seen(&view), view.below(view.size), view.page()), (vec!["00"], 100, 1));
        view.scroll(99);
        assert_eq!((seen(&view), view.below(view.size), view.follows()), (vec!["99"], 1, false));
        view.scroll(1);
        assert_eq!((seen(&view), view.below(view.size), view.follows()), (vec!["99"], 0, true));
        // Five rows: one line, and a part of the next.
        view.drawn(Window { width: 10, height: 5 });
        assert_eq!(seen(&view), ["98", "99"]);
        view.go_to_top();
        assert_eq!((seen(&view), view.below(view.size)), (vec!["00", "01"], 99));
    }

    #[test]
    fn pieces_are_whole_characters_and_always_end() {
        let of = |line: &'static str, width| pieces(line, width).collect::<Vec<_>>();
        assert_eq!(of("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(of("", 4), [""]);
        assert_eq!(of("日本語", 5), ["日本", "語"]);
        assert_eq!(of("日本", 1), ["日", "本"]);
        assert_eq!(of("ab", 0), ["a", "b"]);
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
        view.take(LogBatch { stream: StreamId(1), lines: vec![big.into(); 40], end: LogEnd::Open });
        assert_eq!(view.len(), 15, "what a line takes beside its text counts, too");
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
        assert_eq!((view.search.len(), view.match_place()), (11, None));
        view.go_to_top();
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(7));
        assert_eq!((first(&view), view.match_place()), ("line 0", Some(1)), "it is seen where it is");
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(70));
        assert_eq!(first(&view), "line 70");
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(71));
        assert!(view.next_match(false).is_some() && view.next_match(false).is_some() && view.is_at(7));
        assert_eq!(first(&view), "line 7");
        assert!(view.next_match(false) == Some(Step::Wrapped) && view.is_at(79), "as less does");
        assert!(view.next_match(true) == Some(Step::Wrapped) && view.is_at(7));
        view.set_search("nothing of the kind");
        assert_eq!((view.next_match(true), view.search.len()), (None, 0));
    }

    #[test]
    fn a_match_that_is_seen_moves_nothing_and_stays() {
        let mut view = view(8);
        view.set_search("line");
        for line in (0..8).rev() {
            assert!(view.next_match(false) == Some(Step::Next) && view.is_at(line));
        }
        assert!(view.next_match(false) == Some(Step::Wrapped) && view.is_at(7));
        // What comes meanwhile does not take it away, and counts.
        push(&mut view, 8..100);
        assert_eq!((first(&view), view.follows(), view.search.len()), ("line 0", false, 100));
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(8));
        view.go_to_end();
        assert!(view.next_match(false) == Some(Step::Next) && view.is_at(99));
        assert_eq!((first(&view), view.follows()), ("line 90", false));
        // Lines that were let go match no more.
        push(&mut view, 100..LINES + 50);
        assert_eq!((view.search.len(), view.match_place()), (LINES, Some(50)));
    }
}
