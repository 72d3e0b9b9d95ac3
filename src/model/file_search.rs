//! A search of many log files of a cluster: on their hosts, or of their last lines.

use super::amount::{counted, grouped};
use super::cloud::TpuHost;
use super::text::printable;
use super::{CompressedLog, Line, NodeId, Text, Timestamp};

/// Identifies a search, so that matches of an earlier one are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileSearchId(pub u64);

/// The pattern and scope of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSearch {
    /// Id of this search.
    pub id: FileSearchId,
    /// The regular expression.
    pub pattern: String,
    /// Nodes whose log files are searched.
    pub nodes: Vec<SearchedNode>,
    /// Number of lines at the end of a file that are searched if its host cannot be reached by SSH.
    pub lines: u32,
    /// Maximum number of matches reported for each file; the last ones are reported.
    pub most: usize,
}

/// A node whose log files are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedNode {
    /// Ray's id of the node.
    pub node: NodeId,
    /// Its host.
    pub host: TpuHost,
    /// Whether this is the head.
    pub is_head: bool,
    /// Globs for file names in its log directory.
    pub globs: Vec<String>,
}

/// The matching lines of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileMatches {
    /// The node that the file is on.
    pub node: NodeId,
    /// Name of the file in the log directory.
    pub name: Text,
    /// The last matching lines, in the order of the file.
    pub lines: Vec<LineMatch>,
    /// Number of earlier matches that were omitted.
    pub more: usize,
    /// Whether the whole file was searched, on its host.
    pub is_whole: bool,
}

/// A matching line.
#[derive(Clone, Debug, PartialEq)]
pub struct LineMatch {
    /// The line.
    pub line: Line,
    /// Its timestamp, or that of the previous line.
    pub time: Option<Timestamp>,
    /// The lines before it, nearest last: they distinguish it from other lines with the same text.
    pub above: Vec<String>,
    /// Position of its first byte in the file, if the file was searched on its host.
    pub at: Option<u64>,
}

/// What a search has covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchTally {
    /// Number of files that were searched.
    pub files: usize,
    /// Number of these files that were searched completely, on their hosts.
    pub whole: usize,
    /// Number of the other files that may have more lines than were read.
    pub full: usize,
    /// Why files were not searched on their hosts, in a sentence each: `10.0.0.7: Permission denied`.
    pub ends: Vec<String>,
    /// Compressed files, which were not searched.
    pub compressed: Vec<CompressedLog>,
    /// What could not be read, in a sentence each.
    pub incomplete: Vec<String>,
}

impl SearchTally {
    /// Maximum number of reasons reported for files that were not searched on their hosts.
    const MAX_REASONS: usize = 3;

    /// Adds the coverage of another search.
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.whole += other.whole;
        self.full += other.full;
        self.ends.extend(other.ends);
        self.compressed.extend(other.compressed);
        self.incomplete.extend(other.incomplete);
    }

    /// `all of 512 files, the last 1,000 lines of 3 files`; `lines` is the number of lines that were read of files not
    /// searched on their hosts.
    pub fn text(&self, lines: u32) -> String {
        let ends = || {
            let n = grouped(lines as usize);
            format!("the last {n} lines of {}", counted(self.files - self.whole, "file"))
        };
        match (self.whole, self.files - self.whole) {
            (whole, 0) => format!("all of {}", counted(whole, "file")),
            (0, _) => ends(),
            (whole, _) => format!("all of {}, {}", counted(whole, "file"), ends()),
        }
    }

    /// What was not searched, and why, in a sentence each; safe to print.
    pub fn unsearched(&self, lines: u32) -> Vec<String> {
        let reported = self.ends.iter().take(Self::MAX_REASONS);
        let mut all: Vec<String> =
            reported.map(|why| format!("not searched on its host: {}", printable(why))).collect();
        if let Some(more @ 1..) = self.ends.len().checked_sub(Self::MAX_REASONS) {
            all.push(format!("and {more} more"));
        }
        if self.full > 0 {
            let (n, files) = (grouped(lines as usize), counted(self.full, "file"));
            all.push(format!("only the last {n} lines of {files} were searched; -n reads more"));
        }
        all.extend(self.skipped());
        all
    }

    /// Which compressed files were not searched, and how to search them, in a sentence that is safe to print; `None`
    /// without such files.
    pub fn skipped(&self) -> Option<String> {
        CompressedLog::skipped(&self.compressed, "searched")
    }
}

/// An event of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum FileSearchEvent {
    /// Matching lines of some files.
    Found(Vec<FileMatches>),
    /// Number of nodes that are searched so far.
    NodesSearched(usize),
    /// All files that could be read were searched.
    Done(SearchTally),
    /// The search failed, and why; matches reported before remain valid.
    Failed(String),
}
