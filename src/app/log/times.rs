//! The times of the lines: their own, or when they came.

use crate::logs::{Clock, Timeline};
use crate::model::Timestamp;
use std::ops::Range;
use std::time::Duration;

/// What comes so soon after a log's first lines was there before, too: the end of a log is read in several parts.
const LOADING: Duration = Duration::from_secs(10);

/// The times of held lines.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// What the lines say.
    pub own: Timeline,
    /// When lines came that were written while the log was open.
    pub came: Timeline,
    /// When the first lines came; none before.
    opened: Option<Timestamp>,
    /// When lines came last.
    near: Timestamp,
    /// Seconds that the writer's zone is east of UTC, as far as its host tells.
    utc_offset: i32,
    /// Whether the lines name the zone of their times, which are then read as they are meant.
    are_zoned: bool,
    /// Milliseconds that our clock is ahead of the writer's, zones included: the least that a line took to come. None
    /// before one came.
    ahead: Option<i64>,
    /// When lines came last, if none of them says a time of its own.
    untimed: Option<Timestamp>,
}

/// Only lines from a time on are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// How far back that was when it was chosen.
    pub span: Duration,
    /// The time, by the clock of the lines.
    pub time: Timestamp,
}

/// The time of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dated {
    /// The line says it.
    Own(Timestamp),
    /// The line says none, and came then.
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
    /// Learns the time that a line says.
    pub fn learn(&mut self, number: u64, line: &str) {
        let is_first = self.own.is_empty();
        self.own.learn(number, line, self.near);
        if is_first && !self.own.is_empty() {
            let elsewhere = Clock { utc_offset: 3600, ..Clock::utc(self.near) };
            self.are_zoned = elsewhere.time(line) == Clock::utc(self.near).time(line);
        }
    }

    /// The writer's zone is so many seconds east of UTC. It counts until a line comes that tells more.
    pub const fn set_zone(&mut self, utc_offset: i32) {
        self.utc_offset = utc_offset;
    }

    /// Forgets lines that are no longer held.
    pub fn keep(&mut self, held: Range<u64>) {
        self.own.keep(held.clone());
        self.came.keep(held);
    }

    /// Whether lines that come now may be of any age.
    fn is_loading(&self, now: Timestamp) -> bool {
        self.opened.is_none_or(|opened| opened.age(now) < LOADING)
    }

    /// These lines have come now. The first ones of a log may be of any age.
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

    /// Compares the writer's clock with ours, once the lines that have come now were learnt. Those that were there
    /// before may be of any age.
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

    /// How long ago the last line was written, by the writer's clock if it says a time; none when that is unknown.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        let own = self.own.last().map(|(_, time)| time.age(self.by_theirs(now)));
        self.untimed.map(|at| at.age(now)).or(own)
    }

    /// When lines came last.
    pub const fn near(&self) -> Timestamp {
        self.near
    }

    /// The times that the lines say, or if none says one, when they came.
    pub fn any(&self) -> &Timeline {
        if self.own.is_empty() { &self.came } else { &self.own }
    }

    /// A moment by the clock of these times.
    pub fn by_theirs(&self, now: Timestamp) -> Timestamp {
        let of_zone = if self.are_zoned { 0 } else { -1000 * i64::from(self.utc_offset) };
        let ahead = if self.own.is_empty() { 0 } else { self.ahead.unwrap_or(of_zone) };
        Timestamp::from_millis(now.as_millis().saturating_sub(ahead))
    }
}
