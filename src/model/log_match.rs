//! What a search of a whole log finds, where its file lies.

use super::Line;

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMatch {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Position of its first byte in the file.
    pub at: u64,
    /// Its text; of a very long line the beginning.
    pub line: Line,
}

/// The lines that match, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogMatches {
    /// The last of them.
    pub last: Vec<LogMatch>,
    /// Whether there are more before these.
    pub has_more: bool,
}
