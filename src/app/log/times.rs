//! The times of lines: their own, or when they were received.

use crate::logs::{Clock, Timeline};
use crate::model::Timestamp;
use std::ops::Range;
use std::time::Duration;

/// Lines received this soon after a log's first lines existed before as well, because the end of a log is read in
/// several parts.
const LOADING_TIME: Duration = Duration::from_secs(10);

/// The times of loaded lines.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// The times in the lines.
    pub own: Timeline,
    /// When lines were received that were written while the log was open.
    pub came: Timeline,
    /// When the first lines were received; `None` before.
    opened: Option<Timestamp>,
    /// When lines were last received.
    near: Timestamp,
    /// Offset from UTC of the writer's time zone in seconds, as far as its host reports it.
    utc_offset: i32,
    /// Whether the lines contain the zone of their times.
    are_zoned: bool,
    /// Milliseconds that our clock is ahead of the writer's, including zones: the minimum delay of a line. `None`
    /// before the first one.
    ahead: Option<i64>,
    /// When lines were last received, if none of them has a time.
    untimed: Option<Timestamp>,
}

/// Set if only lines since a time are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The chosen span.
    pub span: Duration,
    /// The time, by the clock of the lines.
    pub time: Timestamp,
}

/// The time of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dated {
    /// The time in the line.
    Own(Timestamp),
    /// The line has none, and was received at this time.
    Came(Timestamp),
}

impl Default for Times {
    fn default() -> Self {
        let near = Timestamp::from_millis(0);
        let (own, came) = (Timeline::default(), Timeline::default());
        Self { own, came, opened: None, near, utc_offset: 0, are_zoned: false, ahead: None, untimed: None }
    }
}

impl Times {
    /// Records the time in a line.
    pub fn record(&mut self, number: u64, line: &str) {
        let is_first = self.own.is_empty();
        self.own.record(number, line, self.near);
        if is_first && !self.own.is_empty() {
            let elsewhere = Clock { utc_offset: 3600, ..Clock::utc(self.near) };
            self.are_zoned = elsewhere.time(line) == Clock::utc(self.near).time(line);
        }
    }

    /// Sets the writer's zone, in seconds east of UTC. It is used until a received line gives a more precise offset.
    pub const fn set_zone(&mut self, utc_offset: i32) {
        self.utc_offset = utc_offset;
    }

    /// Drops lines that are no longer loaded.
    pub fn keep(&mut self, buffer: Range<u64>) {
        self.own.keep(buffer.clone());
        self.came.keep(buffer);
    }

    /// Whether lines received now may be of any age.
    fn is_loading(&self, now: Timestamp) -> bool {
        self.opened.is_none_or(|opened| opened.age(now) < LOADING_TIME)
    }

    /// Records when these lines were received. The first ones of a log may be of any age.
    pub fn came(&mut self, lines: &Range<u64>, now: Timestamp) {
        self.near = now;
        if lines.is_empty() {
            return;
        }
        self.opened.get_or_insert(now);
        if !self.is_loading(now) {
            self.came.put(lines.start, now);
        }
    }

    /// Compares the writer's clock with ours, after the times of received lines were read. Lines that existed before
    /// may be of any age.
    pub fn compare(&mut self, came: &Range<u64>, now: Timestamp) {
        if self.is_loading(now) || came.is_empty() {
            return;
        }
        match self.own.last().filter(|(number, _)| *number >= came.start) {
            Some((_, own)) => {
                let ahead = now.as_millis().saturating_sub(own.as_millis());
                self.ahead = Some(self.ahead.map_or(ahead, |least| least.min(ahead)));
                self.untimed = None;
            }
            None => self.untimed = Some(now),
        }
    }

    /// How long ago the last line was written, by the writer's clock if lines have times; `None` if that is unknown.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        let own = self.own.last().map(|(_, time)| time.age(self.by_theirs(now)));
        self.untimed.map(|at| at.age(now)).or(own)
    }

    /// When lines were last received.
    pub const fn near(&self) -> Timestamp {
        self.near
    }

    /// The times in the lines, or when they were received if none has a time.
    pub fn any(&self) -> &Timeline {
        if self.own.is_empty() { &self.came } else { &self.own }
    }

    /// A time by the clock of these times.
    pub fn by_theirs(&self, now: Timestamp) -> Timestamp {
        let of_zone = if self.are_zoned { 0 } else { -1000 * i64::from(self.utc_offset) };
        let ahead = if self.own.is_empty() { 0 } else { self.ahead.unwrap_or(of_zone) };
        Timestamp::from_millis(now.as_millis().saturating_sub(ahead))
    }
}
