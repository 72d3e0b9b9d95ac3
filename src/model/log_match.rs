//! Matches of a search of a whole log on its host.

use super::Line;

/// A matching line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMatch {
    /// Line number in the file, from 1.
    pub number: u64,
    /// Position of its first byte in the file; none if the file was downloaded through the dashboard.
    pub at: Option<u64>,
    /// Text of the line; only the beginning if it is very long.
    pub line: Line,
}

/// The matching lines, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogMatches {
    /// The last matches.
    pub last: Vec<LogMatch>,
    /// Whether there are earlier matches that were omitted.
    pub has_more: bool,
    /// Whether only the beginning of the log was searched because it is larger than [`MAX_DOWNLOAD`] bytes.
    pub is_cut: bool,
}

/// Maximum number of bytes of a log that are downloaded for a search.
pub const MAX_DOWNLOAD: u64 = 1_000_000_000;

/// Why a whole log was not searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSearched {
    /// It cannot be searched on its host and would have to be downloaded, and why.
    Remote(String),
    /// It cannot be read, or the pattern is invalid, and why.
    Failed(String),
}
