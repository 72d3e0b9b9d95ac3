//! A search through many log files of a cluster: on their hosts, or through their last lines.

use super::amount::{counted, grouped};
use super::text::printable;
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

impl SearchTally {
    /// Reasons that are told why files were not searched on their hosts.
    const REASONS: usize = 3;

    /// Adds what another search has looked at.
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.whole += other.whole;
        self.full += other.full;
        self.ends.extend(other.ends);
        self.incomplete.extend(other.incomplete);
    }

    /// `all of 512 files, the last 1,000 lines of 3 files`, where so many lines were read of those not searched on their
    /// hosts.
    pub fn words(&self, lines: u32) -> String {
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
        let told = self.ends.iter().take(Self::REASONS);
        let mut all: Vec<String> =
            told.map(|why| format!("not searched on its host: {}", printable(why))).collect();
        if let Some(more @ 1..) = self.ends.len().checked_sub(Self::REASONS) {
            all.push(format!("and {more} more"));
        }
        if self.full > 0 {
            let (n, files) = (grouped(lines as usize), counted(self.full, "file"));
            all.push(format!("only the last {n} lines of {files} were searched; -n reads more"));
        }
        all
    }
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
