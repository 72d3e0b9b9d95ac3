//! A search through many log files of a cluster: on their hosts, or through their last lines.

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
    /// Where it is searched for.
    pub nodes: Vec<SearchedNode>,
    /// Lines at the end of a file that are searched where its host cannot be logged in to.
    pub lines: u32,
    /// Most lines of each file that are told, the last ones that match.
    pub most: usize,
}

/// A node whose log files are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedNode {
    /// Which node it is.
    pub node: NodeId,
    /// The address of its host.
    pub address: Text,
    /// Whether that is the head.
    pub is_head: bool,
    /// Globs of names in its log folder.
    pub globs: Vec<String>,
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
    /// Whether all of the file was searched, on its host.
    pub is_whole: bool,
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
    /// Position of its first byte in the file, where that was searched on its host.
    pub at: Option<u64>,
}

/// What a search has looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchTally {
    /// Files that were searched.
    pub files: usize,
    /// Files among them of which all was searched, on their hosts.
    pub whole: usize,
    /// Files among the others that may have more lines than were read.
    pub full: usize,
    /// Why hosts or files were not searched where they are, in a sentence each: `10.0.0.7: Permission denied`.
    pub ends: Vec<String>,
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
