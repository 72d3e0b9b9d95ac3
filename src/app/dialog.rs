//! What lies over the panes: a question, or something told at length.

use crate::model::{ClusterName, Leftover, SubmissionId};

/// A dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialog {
    /// Asks before something happens. Cancel is focused first.
    Ask {
        /// What would be done.
        question: Question,
        /// Title.
        title: String,
        /// What exactly would happen, line by line: a label (may be empty) and a text.
        lines: Vec<(String, String)>,
        /// The word on the button that says yes.
        yes: &'static str,
        /// Whether that button is focused.
        on_yes: bool,
    },
    /// Tells something.
    Tell {
        /// Title.
        title: String,
        /// Labels (may be empty) and texts.
        lines: Vec<(String, String)>,
        /// First line shown.
        top: usize,
        /// Highest first line, known once drawn.
        last: usize,
    },
}

/// What a yes would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Stop a job.
    StopJob {
        /// On this cluster.
        cluster: ClusterName,
        /// This one.
        id: SubmissionId,
    },
    /// Delete TPUs that were preempted.
    CleanPreempted {
        /// Of this cluster.
        cluster: ClusterName,
        /// These.
        left: Vec<Leftover>,
    },
    /// Accept a head's new host key.
    TrustHostKey {
        /// Of this cluster.
        cluster: ClusterName,
        /// With this fingerprint.
        fingerprint: String,
    },
}

impl Dialog {
    /// A dialog that tells.
    pub fn tell(title: impl Into<String>, lines: Vec<(String, String)>) -> Self {
        Self::Tell { title: title.into(), lines, top: 0, last: 0 }
    }

    /// A dialog that asks.
    pub fn ask(
        question: Question,
        title: impl Into<String>,
        lines: Vec<(String, String)>,
        yes: &'static str,
    ) -> Self {
        Self::Ask { question, title: title.into(), lines, yes, on_yes: false }
    }

    /// Scrolls what is told.
    pub fn scroll(&mut self, by: isize) {
        if let Self::Tell { top, last, .. } = self {
            *top = top.saturating_add_signed(by).min(*last);
        }
    }
}
