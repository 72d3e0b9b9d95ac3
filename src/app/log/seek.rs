//! Finds a line that another page showed, searching by its text from the end of the log upwards.

use super::view::{LogView, Older};
use super::wanted::{CONTEXT_LINES, LineSeek, LineTarget};
use crate::model::{Line, Timestamp};
use std::ops::Range;
use std::time::Duration;

/// The lines that a log opens with arrive in several parts: for this long after the first of them a better match is
/// accepted, and nothing above them is read.
const OPENING_TIME: Duration = Duration::from_millis(500);

impl LogView {
    /// Goes to a line once it is loaded: the newest one with this text that has the most matching lines above it. It
    /// becomes the current line, in the middle of the window. Older lines are read for it, up to half of a log's memory
    /// limit.
    pub fn seek(&mut self, line: LineTarget) {
        self.aim = None;
        let since = (!self.buffer.is_empty()).then(|| self.times.near());
        self.sought_line = Some(LineSeek { line, best: None, since, may_read: false });
        self.search_received(self.buffer.first()..self.buffer.end(), self.times.near());
    }

    /// The current line, or the one in the middle of the window; `None` while the end is followed.
    pub fn here(&self) -> Option<LineTarget> {
        let seen = self.seen();
        let index = seen.clone().find(|index| self.is_at(*index)).unwrap_or(seen.start + seen.len() / 2);
        let number = self.number(index);
        let text =
            |number: u64| self.buffer.get(self.buffer.index_of(number)).map(|line| line.text().to_owned());
        let first = self.buffer.first().max(number.saturating_sub(CONTEXT_LINES as u64));
        let line = text(number).filter(|_| !self.follow)?;
        Some(LineTarget { text: line, before: (first..number).filter_map(text).collect(), at: None })
    }

    /// Whether a search for a line is in progress.
    pub fn is_seeking(&self) -> bool {
        self.sought_line.as_ref().is_some_and(|sought| sought.since.is_some())
    }

    /// Whether older lines have to be read for that search.
    pub(super) fn wants_older(&self) -> bool {
        self.sought_line.as_ref().is_some_and(|sought| sought.may_read && sought.best.is_none())
    }

    /// Searches the received lines.
    pub(super) fn search_received(&mut self, came: Range<u64>, now: Timestamp) {
        let Some(mut sought) = self.sought_line.take() else { return };
        if !came.is_empty() {
            sought.since.get_or_insert(now);
        }
        let best = self.best_match(&sought.line, came);
        // The newest of equal matches; lines that were read later are older, unless they were requested.
        let is_better = |found: &(usize, u64)| sought.best.is_none_or(|before| *found >= before);
        let best = best.filter(is_better);
        if best.is_some() {
            sought.best = best;
        }
        self.sought_line = Some(sought);
        if let Some((_, number)) = best {
            self.go_to_middle(number);
        }
    }

    fn best_match(&self, line: &LineTarget, came: Range<u64>) -> Option<(usize, u64)> {
        let text = |number: u64| self.buffer.get(self.buffer.index_of(number)).map(Line::text);
        let is_it = |number: &u64| text(*number).is_some_and(|text| text.ends_with(&line.text));
        // If the size of the log above is unknown, as is common through the dashboard, positions start at an arbitrary
        // number, and only the text identifies the line.
        let at = line.at.zip(self.buffer.begin()).map(|(at, begin)| begin + at);
        if let Some((at, start)) = at.zip(self.buffer.start()) {
            if at < start {
                return None;
            }
            // A match at its position is certain; elsewhere it counts only if the file was rewritten since then.
            let there = self.buffer.around(at).and_then(|numbers| numbers.into_iter().find(is_it));
            if let Some(number) = there {
                return came.contains(&number).then_some((usize::MAX, number));
            }
        }
        let same_above = |number: u64| {
            let above = (self.buffer.first()..number).rev().map_while(text);
            above.zip(line.before.iter().rev()).take_while(|(here, there)| here == there).count()
        };
        came.filter(is_it).map(|number| (same_above(number), number)).max()
    }

    /// Continues the search: reads above the loaded lines, or ends. Returns whether it ended without a match: the line
    /// is no longer in the log, or too far above its end.
    pub fn seek_on(&mut self, now: Timestamp) -> bool {
        let Some(sought) = &mut self.sought_line else { return false };
        if sought.since.is_none_or(|since| since.age(now) < OPENING_TIME) {
            return false;
        }
        sought.may_read = true;
        let is_found = sought.best.is_some();
        let is_far = self.buffer.placed().is_none_or(|bytes| bytes > self.memory as u64 / 2);
        let is_all = self.above() == Some(0) || matches!(self.older, Older::Failed(_));
        if !(is_found || is_far || is_all) {
            return false;
        }
        self.sought_line = None;
        !is_found
    }

    /// Centers the line again after the window was resized.
    pub(super) fn centre_again(&mut self) {
        if let Some((_, number)) = self.sought_line.as_ref().and_then(|sought| sought.best) {
            self.go_to_middle(number);
        }
    }

    /// Makes a line the current one, in the middle of the window.
    fn go_to_middle(&mut self, number: u64) {
        self.go_to_shown(number);
        let here = self.index_of(number).min(self.len().saturating_sub(1));
        self.show_below(here, self.size.height / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{NOW, first, lines, part, push, take, view};
    use super::*;
    use crate::model::{LogBatch, LogEnd, LogPart, StreamId};

    fn wanted(text: &str, before: &[&str]) -> LineTarget {
        LineTarget { text: text.into(), before: before.iter().map(ToString::to_string).collect(), at: None }
    }

    fn current(view: &LogView) -> Option<(usize, &str)> {
        let at = view.seen().position(|index| view.is_at(index))?;
        Some((at, view.current()?))
    }

    #[test]
    fn a_position_in_the_file_is_relative_to_the_start_of_the_log() {
        /// Start of the positions of lines received through the dashboard.
        const FIRST_DASHBOARD_POSITION: u64 = 1 << 62;
        let found = |begin: Option<u64>| {
            let mut view = view(0);
            view.seek(LineTarget { at: Some(400), ..wanted("line 040", &[]) });
            let LogPart { lines, bytes, .. } = part(0..100);
            let part = LogPart {
                lines,
                bytes: FIRST_DASHBOARD_POSITION + bytes.start..FIRST_DASHBOARD_POSITION + bytes.end,
                begin,
            };
            view.take(LogBatch { stream: StreamId(1), part, end: LogEnd::Open }, NOW);
            current(&view).map(|(_, text)| text.to_owned())
        };
        assert_eq!(found(None).as_deref(), Some("line 040"), "found by its text");
        assert_eq!(found(Some(FIRST_DASHBOARD_POSITION)).as_deref(), Some("line 040"));
    }

    #[test]
    fn the_line_is_in_the_middle_and_current() {
        let mut view = view(0);
        view.seek(wanted("line 40", &[]));
        push(&mut view, 0..100);
        assert_eq!((current(&view), view.follows()), (Some((5, "line 40")), false));
        view.seek(wanted("line 98", &[]));
        assert_eq!(current(&view), Some((8, "line 98")), "the end stays at the bottom");
        view.seek(wanted("line 2", &[]));
        assert_eq!(current(&view), Some((2, "line 2")));
        assert!(!view.seek_on(NOW.plus(OPENING_TIME)) && !view.is_seeking());
    }

    #[test]
    fn the_lines_above_select_one_of_equal_lines() {
        let mut view = view(0);
        let text = ["a", "Traceback:", "boom", "b", "Traceback:", "boom", "c", "Traceback:", "boom"];
        lines(&mut view, text.map(Into::into).to_vec());
        view.seek(wanted("boom", &["b", "Traceback:"]));
        assert!(view.is_at(5));
        view.seek(wanted("boom", &["x", "Traceback:"]));
        assert!(view.is_at(8), "otherwise the newest");
    }

    #[test]
    fn lines_above_the_loaded_ones_are_searched() {
        let mut view = view(0);
        view.seek(wanted("line 425", &[]));
        take(&mut view, 500..600);
        assert_eq!((view.seek_on(NOW), view.ask_older()), (false, None), "more may be received");
        assert!(!view.seek_on(NOW.plus(OPENING_TIME)));
        assert_eq!(view.ask_older(), Some(5000));
        view.take_older(StreamId(1), Ok(part(450..500)));
        assert!(!view.seek_on(NOW.plus(OPENING_TIME)));
        assert_eq!(view.ask_older(), Some(4500));
        view.take_older(StreamId(1), Ok(part(400..450)));
        assert_eq!(current(&view), Some((5, "line 425")));
        assert!(!view.seek_on(NOW.plus(OPENING_TIME)) && view.ask_older().is_none());
    }

    #[test]
    fn a_missing_line_is_reported_once_and_the_end_stays_visible() {
        let mut view = view(0);
        view.seek(wanted("nowhere", &[]));
        take(&mut view, 500..600);
        assert!(!view.seek_on(NOW.plus(OPENING_TIME)));
        assert_eq!(view.ask_older(), Some(5000));
        view.take_older(StreamId(1), Ok(part(0..500)));
        assert!(view.seek_on(NOW.plus(OPENING_TIME)) && !view.seek_on(NOW.plus(OPENING_TIME)));
        assert_eq!((first(&view), view.follows()), ("line 590", true));
        view.seek(wanted("nowhere", &[]));
        view.scroll(-1);
        assert!(!view.is_seeking(), "scrolling ends the search");
    }
}
