//! Lines of many sources in the order of their times.

use crate::model::Timestamp;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A line in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged<T> {
    /// Number of the source.
    pub source: u32,
    /// Its time by the reference clock; none if its source has said none yet.
    pub time: Option<Timestamp>,
    /// Whether lines with a later time went before it, for it came later than the window allows.
    pub is_late: bool,
    /// The line, or what the caller knows it by.
    pub item: T,
}

/// Sorts lines that arrive out of order, as long as they are no more than a window late. Lines of one source that say
/// the same time, or none, keep their order.
#[derive(Debug)]
pub struct Merge<T> {
    window: Duration,
    sources: Vec<Source>,
    waiting: BinaryHeap<Reverse<Waiting<T>>>,
    arrived: u64,
    newest: Option<i64>,
    /// Time of the line that was given out last.
    given: Option<i64>,
    most: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// Milliseconds that its clock is ahead of the reference.
    ahead: i64,
    last: Option<i64>,
}

#[derive(Debug)]
struct Waiting<T> {
    key: (Option<i64>, u32, u64),
    item: T,
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<T> Eq for Waiting<T> {}
impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Merge<T> {
    /// Lines that wait at most; beyond that the earliest are given out before their window has passed.
    pub const MOST: usize = 200_000;

    /// Waits this long for lines of other sources; by the times of the lines, so that old logs merge at once.
    pub fn new(window: Duration) -> Self {
        let waiting = BinaryHeap::new();
        Self { window, sources: Vec::new(), waiting, arrived: 0, newest: None, given: None, most: Self::MOST }
    }

    /// States how many milliseconds a source's clock is ahead of the reference; holds for lines that follow.
    pub fn set_skew(&mut self, source: u32, ahead_ms: i64) {
        self.source(source).ahead = ahead_ms;
    }

    fn source(&mut self, source: u32) -> &mut Source {
        let at = source as usize;
        if at >= self.sources.len() {
            self.sources.resize_with(at + 1, Source::default);
        }
        &mut self.sources[at]
    }

    /// Takes in a line, with the time that it says by its own clock.
    pub fn push(&mut self, source: u32, time: Option<Timestamp>, item: T) {
        let known = self.source(source);
        if let Some(time) = time {
            known.last = Some(time.as_millis().saturating_sub(known.ahead));
        }
        let time = known.last;
        self.newest = self.newest.max(time);
        self.arrived += 1;
        self.waiting.push(Reverse(Waiting { key: (time, source, self.arrived), item }));
    }

    /// The next line whose window has passed. Lines without any time come first.
    pub fn next_ready(&mut self) -> Option<Merged<T>> {
        let Reverse(first) = self.waiting.peek()?;
        let end = self.newest.map(|newest| newest.saturating_sub(millis(self.window)));
        let is_ready = first.key.0.is_none() || first.key.0 <= end || self.waiting.len() > self.most;
        if is_ready { self.next_anyway() } else { None }
    }

    /// The next line, whether others may still come before it or not: for the end of the logs, or when nothing has
    /// arrived for as long as the window.
    pub fn next_anyway(&mut self) -> Option<Merged<T>> {
        let Reverse(Waiting { key: (time, source, _), item }) = self.waiting.pop()?;
        let is_late = time.is_some() && time < self.given;
        self.given = self.given.max(time);
        Some(Merged { source, time: time.map(Timestamp::from_millis), is_late, item })
    }

    /// Lines that wait for their window to pass.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}
