//! The logs of a view of several logs: the writer of each line, and the lines that still wait for others.

use crate::logs::{Clock, LiveMerge};
use crate::model::{FollowedLog, LogEnd, LogSource, StreamId, Timestamp};
use std::collections::VecDeque;

/// The logs of a view of several logs.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub parts: Vec<Part>,
    pub merge: LiveMerge,
    /// The log of each loaded line, and the number of the first of these lines.
    pub from: VecDeque<u16>,
    pub first: u64,
}

/// One of the logs.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub log: FollowedLog,
    pub stream: StreamId,
    pub end: LogEnd,
    /// The clock by which its times are read.
    pub clock: Clock,
}

impl Joined {
    /// The logs, each with its stream.
    pub fn new(logs: impl IntoIterator<Item = (FollowedLog, StreamId)>, now: Timestamp) -> Self {
        // The head reports its time zone later.
        let part = |(log, stream)| Part { log, stream, end: LogEnd::Open, clock: Clock::utc(now) };
        Self::of(logs.into_iter().map(part).collect(), now)
    }

    /// The same logs, of which nothing has been received yet.
    pub fn emptied(&self, now: Timestamp) -> Self {
        let part = |part: &Part| Part { end: LogEnd::Open, ..part.clone() };
        Self::of(self.parts.iter().map(part).collect(), now)
    }

    fn of(parts: Vec<Part>, now: Timestamp) -> Self {
        let mut merge = LiveMerge::new(now);
        for part in &parts {
            merge.add(part.clock);
        }
        Self { parts, merge, from: VecDeque::new(), first: 0 }
    }

    /// Sets the clock by which the times of a log are read.
    pub fn set_clock(&mut self, stream: StreamId, clock: Clock) {
        if let Some(number) = self.number(stream) {
            self.parts[number].clock = clock;
            self.merge.set_clock(number as u32, clock);
        }
    }

    /// The number of the log that a stream follows.
    pub fn number(&self, stream: StreamId) -> Option<usize> {
        self.parts.iter().position(|part| part.stream == stream)
    }

    /// Its logs with their streams.
    pub fn logs(&self) -> impl Iterator<Item = (&FollowedLog, StreamId)> {
        self.parts.iter().map(|part| (&part.log, part.stream))
    }

    /// Whether its logs belong to one run. Those of jobs belong to several, whose steps are not the progress of one.
    pub fn is_one_run(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.log.source, LogSource::File { .. }))
    }

    /// The state of all logs together; interruptions and failures are reported by log.
    pub fn end(&self) -> LogEnd {
        let of = |part: &Part, why: &str| format!("{}: {why}", part.log.name);
        let ends = || self.parts.iter().map(|part| (part, &part.end));
        let failed = ends().filter(|(_, end)| matches!(end, LogEnd::Failed(_))).count();
        let bad = ends().find_map(|(part, end)| match end {
            LogEnd::Interrupted(why) | LogEnd::Failed(why) => Some(of(part, why)),
            LogEnd::Open | LogEnd::Complete => None,
        });
        match bad {
            Some(why) if failed == self.parts.len() => LogEnd::Failed(why),
            Some(why) => LogEnd::Interrupted(why),
            None if ends().all(|(_, end)| *end == LogEnd::Complete) => LogEnd::Complete,
            None => LogEnd::Open,
        }
    }
}
