//! Goes to a line that a search of the whole log has found.

use super::line_filter::Filter;
use super::view::LogView;
use super::wanted::Aim;
use crate::model::{Line, Timestamp};

/// The position of a line of the whole log relative to the loaded lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchPosition {
    /// It is loaded, and shown now.
    Loaded,
    /// It is that many bytes above the loaded lines; it is shown once the lines between are read.
    Above(u64),
    /// It is that many bytes above, which exceeds the memory limit of a log.
    TooFar(u64),
    /// It is no longer there: the file was replaced, or the line was dropped.
    Gone,
}

impl LogView {
    /// Goes to the newest loaded line that has, or begins with, this text. A filter that hides it is removed. Returns
    /// whether there is one.
    pub fn go_to_text(&mut self, text: &str) -> bool {
        self.aim = None;
        let found = (0..self.buffer.len())
            .rev()
            .find(|index| self.buffer.get(*index).is_some_and(|line| line.text().starts_with(text)));
        if let Some(index) = found {
            self.go_to_shown(self.buffer.first() + index as u64);
        }
        found.is_some()
    }

    /// Goes to a loaded line. A filter that hides it is removed.
    pub(super) fn go_to_shown(&mut self, number: u64) {
        if !self.line_filter.is_shown(number) {
            self.set_filter(Filter::default());
            self.show_levels(None);
            self.show_since(None);
        }
        self.go_to(number);
    }

    /// Goes to the line at this position of the log that has, or begins with, this text. A filter that hides it is
    /// removed.
    pub fn go_to_match(&mut self, at: u64, text: &str) -> MatchPosition {
        self.aim = None;
        if let Some(start) = self.buffer.start().filter(|start| at < *start) {
            let above = start - at;
            if above > self.memory as u64 {
                return MatchPosition::TooFar(above);
            }
            self.show(0);
            self.aim = Some(Aim::Line(at, text.to_owned()));
            return MatchPosition::Above(above);
        }
        let Some(numbers) = self.buffer.around(at) else { return MatchPosition::Gone };
        let is_it = |line: &Line| line.text().starts_with(text);
        let found =
            numbers.into_iter().find(|n| self.buffer.get(self.buffer.index_of(*n)).is_some_and(is_it));
        let Some(number) = found else { return MatchPosition::Gone };
        self.go_to_shown(number);
        MatchPosition::Loaded
    }

    /// Reads older parts until the first loaded line is older than this time, or half of the memory is used; then goes
    /// to the first line that is not older, if requested.
    pub(super) fn read_back_to(&mut self, time: Timestamp, goes: bool) {
        if self.is_placed() && self.above() != Some(0) {
            self.aim = Some(Aim::Time(time, goes));
        }
    }

    /// Stops reading older parts once they reach the requested time.
    pub(super) fn reach_time(&mut self) {
        let Some(Aim::Time(time, goes)) = self.aim else { return };
        let times = self.times.any();
        let is_there = times.span().is_some_and(|(first, _)| first < time);
        let is_far = self.buffer.placed().is_none_or(|bytes| bytes > self.memory as u64 / 2);
        if !is_there && !is_far && self.above() != Some(0) {
            return;
        }
        self.aim = None;
        if let Some(number) = times.first_from(time).filter(|_| goes) {
            self.go_to_line(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{NOW, first, part, take, view};
    use super::*;
    use crate::model::{LogBatch, LogEnd, LogPart, StreamId};
    use std::ops::Range;

    /// Lines from 08:00 to 08:59, one per minute, forty bytes each.
    fn minutes(of: Range<u64>) -> LogPart {
        let line = |n: u64| format!("2026-11-23 08:{n:02}:00,000 INFO line {n}").into();
        LogPart { lines: of.clone().map(line).collect(), bytes: of.start * 40..of.end * 40, begin: Some(0) }
    }

    fn is_reading_back(view: &LogView) -> bool {
        matches!(view.aim, Some(Aim::Time(..)))
    }

    #[test]
    fn older_parts_are_read_back_to_a_typed_time() {
        let mut view = view(0);
        view.take(LogBatch { stream: StreamId(1), part: minutes(50..60), end: LogEnd::Open }, NOW);
        view.jump("08:20", NOW).unwrap();
        assert!(is_reading_back(&view));
        assert_eq!(view.ask_older(), Some(2000));
        view.take_older(StreamId(1), Ok(minutes(30..50)));
        assert_eq!(view.ask_older(), Some(1200), "it continues until the line is loaded");
        view.take_older(StreamId(1), Ok(minutes(10..30)));
        assert!(first(&view).ends_with("line 20") && !is_reading_back(&view), "{}", first(&view));
        assert_eq!(view.ask_older(), None);
        view.since_typed("08:05", NOW).unwrap();
        assert_eq!(view.ask_older(), Some(400));
        view.take_older(StreamId(1), Ok(minutes(0..10)));
        assert_eq!((is_reading_back(&view), view.len()), (false, 55));
        assert!(first(&view).ends_with("line 20"), "the position is kept: {}", first(&view));
        view.since_typed("07:00", NOW).unwrap();
        assert!(!is_reading_back(&view) && view.len() == 60, "nothing is above");
        // An unreadable part ends it.
        let mut broken = super::super::sample::view(0);
        broken.take(LogBatch { stream: StreamId(1), part: minutes(50..60), end: LogEnd::Open }, NOW);
        broken.jump("08:20", NOW).unwrap();
        broken.take_older(StreamId(1), Err("no".into()));
        assert!(!is_reading_back(&broken));
    }

    #[test]
    fn jumps_to_a_line_above_once_it_is_read() {
        let mut view = view(0);
        take(&mut view, 500..600);
        assert_eq!(view.go_to_match(5200, "line 520"), MatchPosition::Loaded);
        assert_eq!((first(&view), view.is_at(20)), ("line 520", true));
        assert_eq!(view.go_to_match(5200, "another"), MatchPosition::Gone);
        view.set_filter(Filter::parse("5$").unwrap());
        assert_eq!((view.go_to_match(5250, "line 525"), view.len()), (MatchPosition::Loaded, 10));
        assert_eq!(
            (view.go_to_match(5200, "line 520"), view.len()),
            (MatchPosition::Loaded, 100),
            "it is not hidden"
        );
        assert_eq!(view.go_to_match(4050, "line 405"), MatchPosition::Above(950));
        assert_eq!(view.ask_older(), Some(5000));
        view.take_older(StreamId(1), Ok(part(450..500)));
        assert_eq!(view.ask_older(), Some(4500), "it continues until the line is loaded");
        view.take_older(StreamId(1), Ok(part(400..450)));
        assert_eq!(first(&view), "line 405");
        assert_eq!(view.ask_older(), None);
        assert!(view.go_to_text("line 55") && first(&view) == "line 559" && !view.go_to_text("nowhere"));
        view.limit(1000);
        assert_eq!(view.go_to_match(10, "line 001"), MatchPosition::TooFar(3990));
    }
}
