//! A search through the ends of many log files of a cluster.

use super::{Line, NodeId, Text, Timestamp};

/// Identifies one search, so that what an earlier one finds is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileSearchId(pub u64);

/// What is searched for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSearch {
    /// Which search this is.
    pub id: FileSearchId,
    /// The regular expression.
    pub pattern: String,
    /// Nodes, each with a glob of names in its log folder.
    pub files: Vec<(NodeId, String)>,
    /// Lines at the end of each file that are searched.
    pub lines: u32,
    /// Most lines of each file that are told, the last ones that match.
    pub most: usize,
}

/// The lines of a file that match.
#[derive(Clone, Debug, PartialEq)]
pub struct FileMatches {
    /// The node that the file is on.
    pub node: NodeId,
    /// Its name in the log folder.
    pub name: Text,
    /// The last lines that match, in the order of the file.
    pub lines: Vec<LineMatch>,
    /// How many before these match, too.
    pub more: usize,
}

/// A line that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct LineMatch {
    /// The line.
    pub line: Line,
    /// Its time, or that of the line before it.
    pub time: Option<Timestamp>,
    /// The lines above it, the nearest last: they tell it from others with the same text.
    pub above: Vec<String>,
}

/// What a search has looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchTally {
    /// Files that were searched.
    pub files: usize,
    /// Files among them that may have more lines than were read.
    pub full: usize,
    /// What could not be read, in a sentence each.
    pub incomplete: Vec<String>,
}

/// News of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum FileSearchNews {
    /// Lines that match, of some files.
    Found(Vec<FileMatches>),
    /// All files were searched, or as many as could be read.
    Done(SearchTally),
    /// The search has ended, and why: what was told before stays true.
    Failed(String),
}
