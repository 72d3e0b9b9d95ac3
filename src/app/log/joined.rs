//! What is known of several logs that a view holds: who writes each line, and which lines still wait for others.

use crate::logs::{Clock, LiveMerge};
use crate::model::{LogEnd, LogPlace, LogSource, StreamId, Timestamp};
use std::collections::VecDeque;

/// What is known of the logs of a view that holds several.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub parts: Vec<Part>,
    pub merge: LiveMerge,
    /// The log of each line that is held, and the number of the first of these lines.
    pub from: VecDeque<u16>,
    pub first: u64,
}

/// One of the logs.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub place: LogPlace,
    pub stream: StreamId,
    pub end: LogEnd,
}

impl Joined {
    /// The logs, each with the stream that follows it.
    pub fn new(logs: impl IntoIterator<Item = (LogPlace, StreamId)>, now: Timestamp) -> Self {
        let part = |(place, stream)| Part { place, stream, end: LogEnd::Open };
        let parts: Vec<Part> = logs.into_iter().map(part).collect();
        let mut merge = LiveMerge::new(now);
        for _ in &parts {
            // The head tells its zone later.
            merge.add(Clock::utc(now));
        }
        Self { parts, merge, from: VecDeque::new(), first: 0 }
    }

    /// The number of the log that a stream follows.
    pub fn number(&self, stream: StreamId) -> Option<usize> {
        self.parts.iter().position(|part| part.stream == stream)
    }

    /// Its logs with their streams.
    pub fn logs(&self) -> impl Iterator<Item = (&LogPlace, StreamId)> {
        self.parts.iter().map(|part| (&part.place, part.stream))
    }

    /// Whether its logs are of one run: those of jobs are of several, whose steps are no progress of one.
    pub fn is_one_run(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.place.source, LogSource::File { .. }))
    }

    /// The state of all: that one is interrupted or cannot be read is said of it by name.
    pub fn end(&self) -> LogEnd {
        let of = |part: &Part, why: &str| format!("{}: {why}", part.place.name);
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
