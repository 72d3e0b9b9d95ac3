//! The results of a search through the logs of a cluster, for the table of all clusters' results.

use crate::model::{FileMatches, FileSearchEvent, FileSearchId, JobKey, LineMatch, SearchTally};

/// Maximum number of lines of a cluster that the table has; further matches are counted.
const MAX_LINES: usize = 10_000;

/// The last search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The pattern as it was typed.
    pub sought: String,
    /// What was searched; `None` for the lines that one line of a driver's log stands for.
    pub scope: Option<SearchScope>,
    /// The same in words that are safe to print.
    pub of: String,
    /// Number of lines at the end of a file that are searched if its host cannot be logged in to.
    pub lines: u32,
}

/// What a search through logs covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchScope {
    /// The logs of all clusters.
    AllClusters,
    /// The logs of the cluster with this index.
    Cluster(usize),
    /// The logs of these jobs, each with the index of its cluster.
    Jobs(Vec<(usize, JobKey)>),
}

/// The results of the last search on a cluster.
#[derive(Clone, Debug, Default)]
pub struct Found {
    id: FileSearchId,
    /// Number of nodes that are searched.
    nodes: usize,
    /// The files with matching lines, in the order in which they were received.
    files: Vec<FileMatches>,
    /// The file and the line of each row.
    rows: Vec<(u32, u32)>,
    /// The progress of the search.
    pub state: SearchState,
}

/// The progress of a search of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SearchState {
    /// The cluster was not searched.
    #[default]
    No,
    /// It is being searched, and this number of its nodes are done.
    Searching(usize),
    /// It was searched.
    Done(SearchTally),
    /// The search ended early, with the reason.
    Failed(String),
}

impl Found {
    /// A search without results so far.
    pub(in crate::app) fn begin(id: FileSearchId, nodes: usize) -> Self {
        Self { id, nodes, state: SearchState::Searching(0), ..Self::default() }
    }

    /// A search that was not started, with the reason.
    pub(in crate::app) fn not_searched(id: FileSearchId, why: &str) -> Self {
        Self { id, state: SearchState::Failed(why.to_owned()), ..Self::default() }
    }

    /// What was searched, once the search is complete.
    pub fn tally(&self) -> Option<&SearchTally> {
        match &self.state {
            SearchState::Done(tally) => Some(tally),
            SearchState::No | SearchState::Searching(_) | SearchState::Failed(_) => None,
        }
    }

    /// What could not be searched, and why, in a sentence each.
    pub fn unsearched(&self) -> &[String] {
        match &self.state {
            SearchState::Done(tally) => &tally.incomplete,
            SearchState::Failed(why) => std::slice::from_ref(why),
            SearchState::No | SearchState::Searching(_) => &[],
        }
    }

    /// Handles an event of a search. Returns whether it is this search.
    pub(in crate::app) fn take(&mut self, id: FileSearchId, event: FileSearchEvent) -> bool {
        let SearchState::Searching(before) = self.state else { return false };
        if id != self.id {
            return false;
        }
        match event {
            FileSearchEvent::Found(files) => {
                for mut file in files {
                    let room = MAX_LINES.saturating_sub(self.rows.len());
                    if file.lines.len() > room {
                        let omitted = file.lines.len() - room;
                        file.lines.drain(..omitted);
                        file.more += omitted;
                    }
                    let number = self.files.len() as u32;
                    self.rows.extend((0..file.lines.len() as u32).map(|line| (number, line)));
                    self.files.push(file);
                }
            }
            FileSearchEvent::NodesSearched(done) => self.state = SearchState::Searching(done.max(before)),
            FileSearchEvent::Done(tally) => self.state = SearchState::Done(tally),
            FileSearchEvent::Failed(why) => self.state = SearchState::Failed(why),
        }
        true
    }

    /// Whether the search continues.
    pub const fn is_searching(&self) -> bool {
        matches!(self.state, SearchState::Searching(_))
    }

    /// How many nodes are done, of how many. After the end of the search all are, also those that could not be searched.
    pub fn progress(&self) -> (usize, usize) {
        let done = match self.state {
            SearchState::Searching(done) => done.min(self.nodes),
            SearchState::No | SearchState::Done(_) | SearchState::Failed(_) => self.nodes,
        };
        (done, self.nodes)
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The files with matching lines.
    pub fn files(&self) -> &[FileMatches] {
        &self.files
    }

    /// The line with this number, and its file.
    pub fn line(&self, number: usize) -> Option<(&FileMatches, &LineMatch)> {
        let (file, line) = *self.rows.get(number)?;
        let file = self.files.get(file as usize)?;
        Some((file, file.lines.get(line as usize)?))
    }
}

/// The first of several sentences, and how many more there are.
pub fn first_of(sentences: &[String]) -> Option<String> {
    let (first, others) = sentences.split_first()?;
    Some(if others.is_empty() { first.clone() } else { format!("{first}, and {} more", others.len()) })
}
