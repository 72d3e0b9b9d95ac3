//! The log that is open in a pane: its loaded lines, and what is shown of them.

use super::joined::Joined;
use super::line_filter::LineFilter;
use super::show::Show;
use super::times::{Since, Times};
use super::wanted::{Aim, LineSeek};
use super::window::Window;
use crate::logs::{IncrementalFilter, Level, LogBuffer, Patterns, Runs, Search, level};
use crate::model::{FollowedLog, Line, LogBatch, LogEnd, LogPart, LogSource, StreamId, Timestamp};
use std::collections::VecDeque;

/// Default memory limit of a log, in bytes.
const DEFAULT_MEMORY: usize = 64_000_000;

/// The log that is open in the pane.
#[derive(Clone, Debug)]
pub struct LogView {
    pub(super) source: Option<LogSource>,
    pub(super) stream: StreamId,
    pub(super) buffer: LogBuffer,
    /// Maximum number of bytes loaded.
    pub(super) memory: usize,
    /// The state of the lines above the loaded ones.
    pub(super) older: Older,
    /// Number of the first line shown, unless following.
    pub(super) top: u64,
    pub(super) follow: bool,
    pub(super) show: Show,
    pub(super) end: LogEnd,
    /// Selects which of the loaded lines are shown.
    pub(super) line_filter: LineFilter,
    pub(super) search: Search,
    /// The lines that report an error.
    pub(super) errors: IncrementalFilter,
    pub(super) times: Times,
    /// Set if only lines since a time are shown.
    pub(super) since: Option<Since>,
    /// The progress reported in its lines.
    pub(super) runs: Runs,
    /// Marked lines, ascending.
    pub(super) marks: VecDeque<u64>,
    /// Number of the current line: the match, error or mark that was last gone to.
    pub(super) at: Option<u64>,
    /// Purposes for which older parts are read, one after the other.
    pub(super) aim: Option<Aim>,
    /// A line to go to by its text once it is loaded.
    pub(super) sought_line: Option<LineSeek>,
    /// A move to a match that waits until all lines have been examined; whether it is forward.
    pub(super) sought: Option<bool>,
    pub(super) size: Window,
    /// Its logs, if there are several.
    pub(super) joined: Option<Joined>,
}

/// The lines above the loaded ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Older {
    /// They are requested when they scroll into view.
    #[default]
    NotRequested,
    /// The part that ends at this position was requested.
    Requested(u64),
    /// They cannot be read, with the reason. Scrolling up requests them again.
    Failed(String),
}

impl Default for LogView {
    fn default() -> Self {
        Self {
            source: None,
            stream: StreamId(0),
            buffer: LogBuffer::new(usize::MAX, DEFAULT_MEMORY),
            memory: DEFAULT_MEMORY,
            older: Older::NotRequested,
            top: 0,
            follow: true,
            show: Show::default(),
            end: LogEnd::Open,
            line_filter: LineFilter::default(),
            search: Search::default(),
            errors: IncrementalFilter::default(),
            times: Times::default(),
            since: None,
            runs: Runs::default(),
            marks: VecDeque::new(),
            at: None,
            aim: None,
            sought_line: None,
            sought: None,
            size: Window { width: 80, height: 1 },
            joined: None,
        }
    }
}

/// The source of a log view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// One log.
    One(LogSource),
    /// Several logs together.
    Several(Vec<FollowedLog>),
}

impl LogView {
    /// Replaces the log by another, empty one.
    pub fn begin(&mut self, source: LogSource, stream: StreamId) {
        self.begin_any(Some(source), stream, None);
    }

    /// Replaces the log by several, of which nothing has been received yet.
    pub fn begin_several(&mut self, logs: Vec<(FollowedLog, StreamId)>, now: Timestamp) {
        let first = logs.first().map_or(StreamId(0), |(_, stream)| *stream);
        self.begin_any(None, first, Some(Joined::new(logs, now)));
    }

    fn begin_any(&mut self, source: Option<LogSource>, stream: StreamId, joined: Option<Joined>) {
        let (show, size, memory, runs) = (self.show, self.size, self.memory, self.runs.emptied());
        let buffer = LogBuffer::new(usize::MAX, memory);
        *self = Self { source, stream, buffer, memory, show, runs, size, joined, ..Self::default() };
        self.line_filter.set_quiet(self.show.folds());
    }

    /// Recognizes progress lines by these patterns from now on.
    pub fn set_progress_patterns(&mut self, patterns: Patterns) {
        self.runs = Runs::of(patterns);
    }

    /// Limits the loaded lines to that many bytes.
    pub fn limit(&mut self, memory: usize) {
        self.memory = memory;
        self.buffer.limit(usize::MAX, memory);
    }

    /// Adds received lines. Lines of a stream that was closed in the meantime are dropped.
    pub fn take(&mut self, batch: LogBatch, now: Timestamp) {
        if self.joined.is_some() {
            return self.take_joined(batch, now);
        }
        if batch.stream != self.stream {
            return;
        }
        self.end = batch.end;
        self.add(batch.part, now);
    }

    /// Adds received lines at the end.
    pub(super) fn add(&mut self, part: LogPart, now: Timestamp) {
        let came = self.buffer.append(part);
        self.buffer.trim();
        self.marks.retain(|mark| *mark >= self.buffer.first());
        self.times.came(&came, now);
        self.examine_more();
        self.search_received(came.start.max(self.buffer.first())..came.end, now);
        self.times.compare(&came, now);
    }

    /// Sets the offset from UTC, in seconds, of the clock by which the lines were written.
    pub fn take_zone(&mut self, stream: StreamId, utc_offset: i32, now: Timestamp) {
        self.zone_joined(stream, utc_offset, now);
        if stream == self.stream {
            self.times.set_zone(utc_offset);
        }
    }

    /// Adds lines above the loaded ones, or the reason why they cannot be read.
    pub fn take_older(&mut self, stream: StreamId, part: Result<LogPart, String>) {
        if stream != self.stream {
            return;
        }
        self.older = match part {
            Ok(part) => {
                let (is_nothing, first) = (part.bytes.is_empty(), self.buffer.first());
                self.runs.read_above(&part.lines, self.times.near());
                self.buffer.prepend(part);
                self.line_filter.came_above(first);
                self.search_received(self.buffer.first()..first, self.times.near());
                self.marks.retain(|mark| *mark < self.buffer.end());
                if is_nothing && self.above() != Some(0) {
                    Older::Failed("there are no older lines".to_owned())
                } else {
                    Older::NotRequested
                }
            }
            Err(why) => Older::Failed(why),
        };
        match self.aim.take() {
            Some(Aim::Line(at, text)) if matches!(self.older, Older::NotRequested) => {
                self.go_to_match(at, &text);
            }
            aim => self.aim = aim.filter(|_| matches!(self.older, Older::NotRequested)),
        }
        self.examine_more();
    }

    /// Position of the end of the part that should be read now: the first loaded line is in the window, and there are
    /// lines above it. One part is requested at a time, and none with a filter, which might read the whole log.
    pub fn ask_older(&mut self) -> Option<u64> {
        let is_all = !self.line_filter.is_filtered() && !self.line_filter.is_late(&self.buffer);
        let is_in_view = is_all && self.top(self.size) == 0;
        let is_in_view = is_in_view || self.aim.is_some() || self.wants_older();
        let is_wanted = self.older == Older::NotRequested && is_in_view && self.above() != Some(0);
        let start = self.buffer.start().filter(|_| is_wanted)?;
        self.older = Older::Requested(start);
        Some(start)
    }

    /// The state of the lines above.
    pub fn older(&self) -> &Older {
        &self.older
    }

    /// Number of bytes of the log above the loaded lines; `None` if unknown.
    pub fn above(&self) -> Option<u64> {
        self.buffer.above()
    }

    /// Number of bytes of the log that are loaded, and whether nothing above them is missing; `None` if unknown.
    pub fn placed(&self) -> Option<(u64, bool)> {
        let above = self.above();
        Some((self.buffer.placed()? + above.unwrap_or(0), above.is_some()))
    }

    /// Whether the position of the lines in the log is known.
    pub fn is_placed(&self) -> bool {
        self.buffer.start().is_some()
    }

    /// Whether the newest lines were dropped to make room for older ones: the end has to be opened again.
    pub fn is_cut(&self) -> bool {
        self.buffer.is_cut()
    }

    /// What is open; `None` if no log is.
    pub fn opened(&self) -> Option<Opened> {
        match (&self.source, &self.joined) {
            (Some(source), _) => Some(Opened::One(source.clone())),
            (None, Some(joined)) => {
                Some(Opened::Several(joined.logs().map(|(log, _)| log.clone()).collect()))
            }
            (None, None) => None,
        }
    }

    /// An empty view of the same streams, for lines received from now on; `None` if no log is open.
    pub fn after_this(&self, now: Timestamp) -> Option<Self> {
        let mut after = Self { memory: self.memory, ..Self::default() };
        match (&self.source, &self.joined) {
            (Some(source), _) => after.begin(source.clone(), self.stream),
            (None, Some(joined)) => after.begin_any(None, self.stream, Some(joined.emptied(now))),
            (None, None) => return None,
        }
        after.end = self.end.clone();
        Some(after)
    }

    /// All of its lines, to be added to another view of the same stream.
    pub fn into_batch(self) -> LogBatch {
        LogBatch { stream: self.stream, part: self.buffer.into_part(), end: self.end }
    }

    /// Whether a log is open, or several.
    pub fn is_open(&self) -> bool {
        self.source.is_some() || self.joined.is_some()
    }

    /// The source of the log; `None` in a view of several.
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

    /// Examines some of the new lines: whether they are shown, match, report an error. A call takes a few milliseconds
    /// at most. Returns whether more are left.
    pub fn examine_more(&mut self) -> bool {
        let is_shown = self.line_filter.step(&self.buffer);
        let is_searched = self.search.step(&self.buffer);
        let (times, buffer) = (&mut self.times, &self.buffer);
        times.keep(buffer.first()..buffer.end());
        let is_classified = self.errors.step(buffer, |number, line| {
            times.record(number, line.text());
            level(line.text()) == Some(Level::Error)
        });
        let has_runs = self.joined.as_ref().is_none_or(Joined::is_one_run);
        let is_read = !has_runs || self.runs.step(buffer, times.near());
        self.keep_since();
        if is_classified {
            self.reach_time();
        }
        if is_searched
            && is_shown
            && let Some(forward) = self.sought.take()
        {
            self.next_match(forward);
        }
        !(is_shown && is_searched && is_classified && is_read)
    }

    /// Whether there are lines that have not been examined.
    pub fn is_examining(&self) -> bool {
        let (line_filter, search, errors, runs) = (&self.line_filter, &self.search, &self.errors, &self.runs);
        let has_runs = self.joined.as_ref().is_none_or(Joined::is_one_run);
        let buffer = &self.buffer;
        !(line_filter.is_done(buffer)
            && search.is_done(buffer)
            && errors.is_done(buffer)
            && (!has_runs || runs.is_done(buffer)))
    }

    /// The number of loaded lines, shown or not.
    pub fn loaded(&self) -> usize {
        self.buffer.len()
    }

    /// The number of lines that are shown.
    pub fn len(&self) -> usize {
        self.line_filter.len(&self.buffer)
    }

    /// Whether no line is shown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The line at an index among the shown lines.
    pub fn line(&self, index: usize) -> Option<&Line> {
        self.buffer.get(self.buffer.index_of(self.number(index)))
    }

    /// The number of the line at an index; after the last index, one more than the last number.
    pub(super) fn number(&self, index: usize) -> u64 {
        self.line_filter.number(&self.buffer, index)
    }

    /// The index of a line by its number, or of the next one that is shown.
    pub(super) fn index_of(&self, number: u64) -> usize {
        self.line_filter.index_of(&self.buffer, number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::line_filter::Filter;
    use super::super::sample::{NOW, first, part, small, take, view};
    use super::*;
    use crate::logs::Pattern;

    #[test]
    fn dropped_lines_do_not_match() {
        let mut view = small();
        take(&mut view, 0..40);
        view.set_search(Pattern::parse("line").unwrap());
        take(&mut view, 40..100);
        assert_eq!((view.search.found().len(), view.len()), (50, 50));
    }

    #[test]
    fn memory_is_bounded_and_the_position_is_kept() {
        let mut view = small();
        take(&mut view, 0..50);
        view.go_to_top();
        view.scroll(10);
        take(&mut view, 50..55);
        assert_eq!((view.len(), first(&view)), (50, "line 010"));
        take(&mut view, 55..90);
        assert_eq!(first(&view), "line 040", "dropped lines cannot be shown");
        assert_eq!(view.above(), Some(500), "up to the first completely loaded part");
    }

    #[test]
    fn lines_above_are_requested_when_visible_without_moving_the_window() {
        let mut view = view(0);
        take(&mut view, 500..600);
        assert_eq!(view.ask_older(), None, "the end is shown");
        view.scroll(-50);
        assert_eq!((view.ask_older(), first(&view)), (None, "line 540"));
        view.go_to_top();
        assert_eq!((view.ask_older(), view.ask_older()), (Some(5000), None), "one at a time");
        view.set_search(Pattern::parse("line 4").unwrap());
        view.take_older(StreamId(1), Ok(part(400..500)));
        assert_eq!((first(&view), view.above(), view.search.found().len()), ("line 500", Some(4000), 100));
        view.scroll(-10);
        assert_eq!((view.ask_older(), first(&view)), (None, "line 490"));
        view.go_to_top();
        assert_eq!(view.ask_older(), Some(4000));
        view.take_older(StreamId(1), Err("the file is gone".into()));
        assert_eq!((view.ask_older(), view.older()), (None, &Older::Failed("the file is gone".into())));
        view.scroll(-1);
        assert_eq!(view.ask_older(), Some(4000), "scrolling up requests it again");
        view.take_older(StreamId(1), Ok(part(0..400)));
        view.go_to_top();
        assert_eq!((view.ask_older(), view.above(), first(&view)), (None, Some(0), "line 000"));
    }

    #[test]
    fn a_log_that_does_not_fill_the_window_requests_more() {
        let mut view = view(0);
        take(&mut view, 500..503);
        assert_eq!((view.follows(), view.ask_older()), (true, Some(5000)));
        view.take_older(StreamId(1), Ok(part(490..500)));
        assert_eq!((view.ask_older(), first(&view)), (None, "line 493"), "the end stays at the bottom");
    }

    #[test]
    fn older_lines_replace_the_newest() {
        let mut view = small();
        take(&mut view, 500..550);
        view.go_to_top();
        assert_eq!(view.ask_older(), Some(5000));
        view.take_older(StreamId(1), Ok(part(480..500)));
        assert_eq!((view.len(), view.is_cut(), first(&view)), (50, true, "line 500"));
        take(&mut view, 550..560);
        view.scroll(100);
        assert_eq!(
            (view.visible().last(), view.follows()),
            (Some("line 529"), false),
            "the end is not loaded"
        );
    }

    #[test]
    fn lines_of_a_closed_stream_are_dropped() {
        let mut view = view(3);
        let old =
            LogBatch { stream: StreamId(0), part: vec![Line::from("old")].into(), end: LogEnd::Complete };
        view.take(old, NOW);
        assert_eq!((view.len(), view.end()), (3, &LogEnd::Open));
    }

    #[test]
    fn with_a_filter_no_older_lines_are_requested() {
        let mut view = view(0);
        take(&mut view, 500..600);
        view.set_filter(Filter::parse("nowhere").unwrap());
        assert_eq!((view.ask_older(), view.len()), (None, 0));
        view.set_filter(Filter::parse("").unwrap());
        view.go_to_top();
        assert_eq!(view.ask_older(), Some(5000));
    }
}
