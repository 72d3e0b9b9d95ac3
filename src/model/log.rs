//! Log streams: where lines come from and how they arrive.

use super::{NodeId, SubmissionId, Text};

/// Which log to follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogSource {
    /// The driver log of a submitted job.
    Job(SubmissionId),
    /// The autoscaler's `monitor.log`, `monitor.out` or `monitor.err` on the head.
    Monitor(String),
    /// Any file in a node's session log folder.
    File {
        /// The node.
        node: NodeId,
        /// File name relative to the session's `logs/`.
        name: Text,
    },
}

/// Names one open stream, so that lines of a stream closed meanwhile are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// How a stream stands after a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// More may come.
    Open,
    /// The job has ended and this was all of it.
    Complete,
    /// Broken; it reconnects by itself and repeats nothing. The text says why and over which way it goes on.
    Interrupted(String),
    /// It cannot be read at all; why, and what to do.
    Failed(String),
}

/// Lines, in order, each already cleaned by [`super::text::log_line`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBatch {
    /// The stream.
    pub stream: StreamId,
    /// Whole lines.
    pub lines: Vec<String>,
    /// Where the stream stands.
    pub end: LogEnd,
}
