//! What a search of a whole log on its host finds.

use super::Line;

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMatch {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Position of its first byte in the file; none where the file was downloaded through the dashboard.
    pub at: Option<u64>,
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
    /// Whether the log goes on behind what was searched: more than [`DOWNLOADED`] bytes would have been downloaded.
    pub is_cut: bool,
}

/// Most bytes of a log that are downloaded for a search.
pub const DOWNLOADED: u64 = 1_000_000_000;

/// Why a whole log was not searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSearched {
    /// It cannot be searched on its host, and would have to be downloaded; why.
    Remote(String),
    /// It cannot be read, or the pattern is none; why.
    Failed(String),
}
