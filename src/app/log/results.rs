//! What a search through the logs of a cluster found, for the table of what all clusters say.

use crate::model::{FileMatches, FileSearchId, FileSearchNews, LineMatch, SearchTally};

/// What the last search was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// What was searched for, as it was typed.
    pub sought: String,
    /// Where, in words that are safe to print.
    pub of: String,
    /// Lines at the end of a file that are searched where its host cannot be logged in to.
    pub lines: u32,
}

/// What the last search found on a cluster.
#[derive(Clone, Debug, Default)]
pub struct Found {
    id: FileSearchId,
    /// The files with lines that match, in the order in which they came.
    files: Vec<FileMatches>,
    /// The file and the line of each row.
    rows: Vec<(u32, u32)>,
    /// How far the search is.
    pub state: SearchState,
}

/// How far a search of a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SearchState {
    /// The cluster was not searched.
    #[default]
    No,
    /// It is being searched.
    Searching,
    /// It was searched.
    Done(SearchTally),
    /// The search ended early, and why.
    Failed(String),
}

impl Found {
    /// Nothing yet, of this search.
    pub(in crate::app) fn begin(id: FileSearchId) -> Self {
        Self { id, state: SearchState::Searching, ..Self::default() }
    }

    /// Nothing, of a search that was not begun, and why.
    pub(in crate::app) fn not_searched(id: FileSearchId, why: &str) -> Self {
        Self { id, state: SearchState::Failed(why.to_owned()), ..Self::default() }
    }

    /// What was looked at, once all of it was.
    pub fn tally(&self) -> Option<&SearchTally> {
        match &self.state {
            SearchState::Done(tally) => Some(tally),
            SearchState::No | SearchState::Searching | SearchState::Failed(_) => None,
        }
    }

    /// Takes in what a search tells. Whether it is this search.
    pub(in crate::app) fn take(&mut self, id: FileSearchId, swept: FileSearchNews) -> bool {
        if id != self.id || self.state != SearchState::Searching {
            return false;
        }
        match swept {
            FileSearchNews::Found(files) => {
                for file in files {
                    let number = self.files.len() as u32;
                    self.rows.extend((0..file.lines.len() as u32).map(|line| (number, line)));
                    self.files.push(file);
                }
            }
            FileSearchNews::Done(tally) => self.state = SearchState::Done(tally),
            FileSearchNews::Failed(why) => self.state = SearchState::Failed(why),
        }
        true
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The files with lines that match.
    pub fn files(&self) -> &[FileMatches] {
        &self.files
    }

    /// The line with that number, and its file.
    pub fn line(&self, number: usize) -> Option<(&FileMatches, &LineMatch)> {
        let (file, line) = *self.rows.get(number)?;
        let file = self.files.get(file as usize)?;
        Some((file, file.lines.get(line as usize)?))
    }
}
