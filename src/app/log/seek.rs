//! The way to a line that another page has shown: it is looked for by its text, from the end of the log upwards.

use super::view::{LogView, Older};
use super::wanted::{CONTEXT, LineSeek, LineTarget};
use crate::model::{Line, Timestamp};
use std::ops::Range;
use std::time::Duration;

/// Lines that a log opens with come in several parts: so long after the first of them a better match is taken, and
/// nothing is read above them.
const OPENS: Duration = Duration::from_millis(500);

impl LogView {
    /// Goes to a line once it is held: the newest of those with this text that has the most of the same lines above it.
    /// It becomes the current line, in the middle of the window. What lies above is read for it, as much as half of
    /// what a log may take in memory.
    pub fn seek(&mut self, line: LineTarget) {
        self.aim = None;
        let since = (!self.held.is_empty()).then(|| self.times.near());
        self.sought_line = Some(LineSeek { line, best: None, since, may_read: false });
        self.look_for(self.held.first()..self.held.end(), self.times.near());
    }

    /// The current line, or the one in the middle of the window; none while the end is followed.
    pub fn here(&self) -> Option<LineTarget> {
        let seen = self.seen();
        let index = seen.clone().find(|index| self.is_at(*index)).unwrap_or(seen.start + seen.len() / 2);
        let number = self.number(index);
        let text = |number: u64| self.held.get(self.held.place(number)).map(|line| line.text().to_owned());
        let first = self.held.first().max(number.saturating_sub(CONTEXT as u64));
        let line = text(number).filter(|_| !self.follow)?;
        Some(LineTarget { text: line, before: (first..number).filter_map(text).collect(), at: None })
    }

    /// Whether a line is looked for among those that have come.
    pub fn is_seeking(&self) -> bool {
        self.sought_line.as_ref().is_some_and(|sought| sought.since.is_some())
    }

    /// Whether older lines are to be read for a line that is looked for.
    pub(super) fn wants_older(&self) -> bool {
        self.sought_line.as_ref().is_some_and(|sought| sought.may_read && sought.best.is_none())
    }

    /// Looks at lines that have come for the one that is looked for.
    pub(super) fn look_for(&mut self, came: Range<u64>, now: Timestamp) {
        let Some(mut sought) = self.sought_line.take() else { return };
        if !came.is_empty() {
            sought.since.get_or_insert(now);
        }
        let best = self.best_match(&sought.line, came);
        // Of equal ones the newest, and what was read later stands below, unless it was asked for.
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
        let text = |number: u64| self.held.get(self.held.place(number)).map(Line::text);
        let is_it = |number: &u64| text(*number).is_some_and(|text| text.ends_with(&line.text));
        // Where it is unknown how much lies above, as often through the dashboard, positions count from an arbitrary start:
        // the text alone says which line it is.
        let at = line.at.zip(self.held.begin()).map(|(at, begin)| begin + at);
        if let Some((at, start)) = at.zip(self.held.start()) {
            if at < start {
                return None;
            }
            // At its position it is sure; elsewhere it is only if the file was rewritten since.
            let there = self.held.around(at).and_then(|numbers| numbers.into_iter().find(is_it));
            if let Some(number) = there {
                return came.contains(&number).then_some((usize::MAX, number));
            }
        }
        let same_above = |number: u64| {
            let above = (self.held.first()..number).rev().map_while(text);
            above.zip(line.before.iter().rev()).take_while(|(here, there)| here == there).count()
        };
        came.filter(is_it).map(|number| (same_above(number), number)).max()
    }

    /// Goes on with the search for a line: reads above what the log opened with, or ends. Whether it ended without the
    /// line: that is no longer in the log, or too far above its end.
    pub fn seek_on(&mut self, now: Timestamp) -> bool {
        let Some(sought) = &mut self.sought_line else { return false };
        if sought.since.is_none_or(|since| since.age(now) < OPENS) {
            return false;
        }
        sought.may_read = true;
        let is_found = sought.best.is_some();
        let is_far = self.held.placed().is_none_or(|bytes| bytes > self.memory as u64 / 2);
        let is_all = self.above() == Some(0) || matches!(self.older, Older::Failed(_));
        if !(is_found || is_far || is_all) {
            return false;
        }
        self.sought_line = None;
        !is_found
    }

    /// Puts the line that was found back into the middle of a window that has another size.
    pub(super) fn centre_again(&mut self) {
        if let Some((_, number)) = self.sought_line.as_ref().and_then(|sought| sought.best) {
            self.go_to_middle(number);
        }
    }

    /// Makes a line the current one, in the middle of the window.
    fn go_to_middle(&mut self, number: u64) {
        self.go_to_shown(number);
        let here = self.place(number).min(self.len().saturating_sub(1));
        let mut room = self.size.height / 2;
        let fits = |index: &usize| {
            let rows = if self.wraps() { self.rows(*index, self.size) } else { 1 };
            let fits = rows <= room;
            room = room.saturating_sub(rows);
            fits
        };
        let above = (0..here).rev().take_while(fits).count();
        self.show(here - above);
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
    fn a_position_in_the_file_counts_from_where_the_log_begins() {
        /// Where the positions of what comes through the dashboard start.
        const START: u64 = 1 << 62;
        let found = |begin: Option<u64>| {
            let mut view = view(0);
            view.seek(LineTarget { at: Some(400), ..wanted("line 040", &[]) });
            let LogPart { lines, bytes, .. } = part(0..100);
            let part = LogPart { lines, bytes: START + bytes.start..START + bytes.end, begin };
            view.take(LogBatch { stream: StreamId(1), part, end: LogEnd::Open }, NOW);
            current(&view).map(|(_, text)| text.to_owned())
        };
        assert_eq!(found(None).as_deref(), Some("line 040"), "by its text");
        assert_eq!(found(Some(START)).as_deref(), Some("line 040"));
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
        assert!(!view.seek_on(NOW.plus(OPENS)) && !view.is_seeking());
    }

    #[test]
    fn of_equal_lines_the_one_with_the_same_lines_above_is_meant() {
        let mut view = view(0);
        let text = ["a", "Traceback:", "boom", "b", "Traceback:", "boom", "c", "Traceback:", "boom"];
        lines(&mut view, text.map(Into::into).to_vec());
        view.seek(wanted("boom", &["b", "Traceback:"]));
        assert!(view.is_at(5));
        view.seek(wanted("boom", &["x", "Traceback:"]));
        assert!(view.is_at(8), "else the newest");
    }

    #[test]
    fn it_is_looked_for_above_what_the_log_opened_with() {
        let mut view = view(0);
        view.seek(wanted("line 425", &[]));
        take(&mut view, 500..600);
        assert_eq!((view.seek_on(NOW), view.ask_older()), (false, None), "more may come");
        assert!(!view.seek_on(NOW.plus(OPENS)));
        assert_eq!(view.ask_older(), Some(5000));
        view.take_older(StreamId(1), Ok(part(450..500)));
        assert!(!view.seek_on(NOW.plus(OPENS)));
        assert_eq!(view.ask_older(), Some(4500));
        view.take_older(StreamId(1), Ok(part(400..450)));
        assert_eq!(current(&view), Some((5, "line 425")));
        assert!(!view.seek_on(NOW.plus(OPENS)) && view.ask_older().is_none());
    }

    #[test]
    fn a_line_that_is_gone_is_said_once_and_the_end_stays() {
        let mut view = view(0);
        view.seek(wanted("nowhere", &[]));
        take(&mut view, 500..600);
        assert!(!view.seek_on(NOW.plus(OPENS)));
        assert_eq!(view.ask_older(), Some(5000));
        view.take_older(StreamId(1), Ok(part(0..500)));
        assert!(view.seek_on(NOW.plus(OPENS)) && !view.seek_on(NOW.plus(OPENS)));
        assert_eq!((first(&view), view.follows()), ("line 590", true));
        view.seek(wanted("nowhere", &[]));
        view.scroll(-1);
        assert!(!view.is_seeking(), "who scrolls looks for it himself");
    }
}
