//! The tables of a job's workers, of which one is on the screen.

use crate::job_workers::Part;

/// One of the tables of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkersView {
    /// One row per worker, silent and lagging ones first.
    #[default]
    Overview,
    /// Equal lines of several workers in one row.
    Folded,
    /// All lines in order of time.
    Merged,
    /// The root cause.
    Cause,
}

impl WorkersView {
    /// In the order of their keys.
    pub const ALL: [Self; 4] = [Self::Overview, Self::Folded, Self::Merged, Self::Cause];

    /// The next or the previous table.
    pub(crate) fn turned(self, forward: bool) -> Self {
        let here = Self::ALL.iter().position(|view| *view == self).unwrap_or(0);
        Self::ALL[(here + if forward { 1 } else { 3 }) % 4]
    }

    /// The part of the data that it shows.
    pub const fn part(self) -> Part {
        match self {
            Self::Overview => Part::Overview,
            Self::Folded | Self::Merged => Part::Lines,
            Self::Cause => Part::Cause,
        }
    }

    /// The name of the table on its tab.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Folded => "folded",
            Self::Merged => "by time",
            Self::Cause => "root cause",
        }
    }
}
