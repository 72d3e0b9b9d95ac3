//! A line of a log that another page has shown.

use crate::model::Timestamp;

/// Number of lines above that distinguish a line from others with the same text.
pub const CONTEXT_LINES: usize = 16;

/// A line of a log, from another reading of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTarget {
    /// Its text, or the end of it.
    pub text: String,
    /// The known lines above it in its file; the nearest last.
    pub before: Vec<String>,
    /// The position of its first byte in its file, if known.
    pub at: Option<u64>,
}

/// A search for a line.
#[derive(Clone, Debug)]
pub(super) struct LineSeek {
    pub line: LineTarget,
    /// The best match so far: the number of matching lines above it, and its line number.
    pub best: Option<(usize, u64)>,
    /// When the first lines were received.
    pub since: Option<Timestamp>,
    /// Whether lines above the loaded ones may be read.
    pub may_read: bool,
}

/// The purpose for which older parts are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The line at this position with this text.
    Line(u64, String),
    /// The first line that is not older than this, by the clock of the lines; and whether to go to it.
    Time(Timestamp, bool),
}
