//! Which of the tables of a job's workers is on the screen.

use crate::job_workers::Part;

/// One of the tables of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkersView {
    /// A row for each worker, the silent and the lagging first.
    #[default]
    Roll,
    /// What many of them say, once.
    Folded,
    /// All lines in the order of time.
    Merged,
    /// The first cause.
    Cause,
}

impl WorkersView {
    /// In the order of their keys.
    pub const ALL: [Self; 4] = [Self::Roll, Self::Folded, Self::Merged, Self::Cause];

    /// The one beside it.
    pub(crate) fn turned(self, forward: bool) -> Self {
        let here = Self::ALL.iter().position(|view| *view == self).unwrap_or(0);
        Self::ALL[(here + if forward { 1 } else { 3 }) % 4]
    }

    /// What is read for it.
    pub const fn part(self) -> Part {
        match self {
            Self::Roll => Part::Roll,
            Self::Folded | Self::Merged => Part::Lines,
            Self::Cause => Part::Cause,
        }
    }

    /// The name of the table on its tab.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Roll => "overview",
            Self::Folded => "folded",
            Self::Merged => "by time",
            Self::Cause => "root cause",
        }
    }
}
