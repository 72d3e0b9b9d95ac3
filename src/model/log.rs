//! Log streams: where lines come from and how they arrive.

use super::{NodeId, SubmissionId, Text};

/// The log to follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogSource {
    /// The driver log of a submitted job.
    Job(SubmissionId),
    /// The autoscaler's `monitor.log`, `monitor.out` or `monitor.err` on the head.
    Monitor(String),
    /// Any file in a node's session log folder.
    File {
        /// Node that the file is on.
        node: NodeId,
        /// File name relative to the session's `logs/`.
        name: Text,
    },
}

/// Identifies one open stream, so that lines of a stream that was closed are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// State of a log stream after a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// The stream is open; more lines may follow.
    Open,
    /// The job has ended and this was all of it.
    Complete,
    /// The stream is interrupted. It reconnects without repeating lines; the text gives the cause and the fallback.
    Interrupted(String),
    /// It cannot be read at all; why, and what to do.
    Failed(String),
}

/// Lines, in order, each already cleaned by [`super::text::log_line`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBatch {
    /// Stream that the lines belong to.
    pub stream: StreamId,
    /// Complete lines.
    pub lines: Vec<String>,
    /// State of the stream.
    pub end: LogEnd,
}
