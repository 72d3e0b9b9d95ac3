//! A line of a log that another page has shown.

use crate::model::Timestamp;

/// Lines above the wanted one that tell it from others with the same text.
pub const CONTEXT: usize = 16;

/// A line of a log, as another reading of its file had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTarget {
    /// Its text, or what its text ends with.
    pub text: String,
    /// The lines above it in its file, as far as they are known; the nearest last.
    pub before: Vec<String>,
    /// The position of its first byte in its file, where that is known.
    pub at: Option<u64>,
}

/// A line that is looked for.
#[derive(Clone, Debug)]
pub(super) struct LineSeek {
    pub line: LineTarget,
    /// The best match so far: how many lines above it are those that were above the wanted one, and its number.
    pub best: Option<(usize, u64)>,
    /// When the first lines came.
    pub since: Option<Timestamp>,
    /// Whether lines above those that are held may be read for it.
    pub may_read: bool,
}

/// What older parts are read for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The line at that position with that text.
    Line(u64, String),
    /// The first line that is not older than that, by the clock of the lines; whether it is gone to.
    Time(Timestamp, bool),
}
