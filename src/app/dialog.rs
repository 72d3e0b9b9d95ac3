//! What lies over the panes: a question, or something told at length.

use super::form::Form;
use super::plan::{Plan, Spot};
use super::worker::WorkerForm;
use crate::model::{ClusterName, JobIds, Leftover, Order, SubmissionId};

/// A dialog.
#[derive(Clone, Debug, PartialEq)]
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
        /// First line shown.
        top: usize,
        /// Highest first line, known once drawn.
        last: usize,
    },
    /// Tells something.
    Tell {
        /// Title.
        title: String,
        /// Labels (may be empty) and texts.
        lines: Vec<(String, String)>,
        /// The driver, and its cluster, whose work is still to be told in them.
        awaits: Option<(ClusterName, JobIds)>,
        /// First line shown.
        top: usize,
        /// Highest first line, known once drawn.
        last: usize,
        /// What help was asked over; closing this leads back to it.
        under: Option<Box<Dialog>>,
    },
    /// Asks before an operation.
    Plan(Box<Plan>),
    /// The form of a job that is to be submitted.
    Form(Box<Form>),
    /// The form of workers that are to be added.
    Worker(Box<WorkerForm>),
    /// Shows how an operation goes on; it may be left and opened again.
    Progress {
        /// On this cluster.
        cluster: ClusterName,
        /// Lines of its output below the screen.
        top: usize,
        /// Most of them, known once drawn.
        last: usize,
    },
}

/// What a yes would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Stop jobs.
    StopJobs(Vec<(ClusterName, SubmissionId)>),
    /// Make ray forget ended jobs.
    DeleteJobs(Vec<(ClusterName, SubmissionId)>),
    /// Quit although an operation is at work.
    Quit,
    /// Forget an operation that stopped half way.
    Abandon {
        /// On this cluster.
        cluster: ClusterName,
    },
    /// Allow what a gate has refused.
    Allow {
        /// On this cluster.
        cluster: ClusterName,
        /// The order with that allowed.
        order: Box<Order>,
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
        Self::Tell { title: title.into(), lines, awaits: None, top: 0, last: 0, under: None }
    }

    /// Help over another dialog, if there is one. Help over help takes its place.
    pub fn help(lines: Vec<(String, String)>, over: Option<Self>) -> Self {
        let under = match over {
            Some(Self::Tell { under: Some(under), .. }) => Some(under),
            over => over.map(Box::new),
        };
        Self::Tell { title: "keys".to_owned(), lines, awaits: None, top: 0, last: 0, under }
    }

    /// The dialog that news are meant for: the one under help, else itself.
    pub fn meant(&mut self) -> &mut Self {
        match self {
            Self::Tell { under: Some(under), .. } => under,
            dialog => dialog,
        }
    }

    /// A dialog that asks.
    pub fn ask(
        question: Question,
        title: impl Into<String>,
        lines: Vec<(String, String)>,
        yes: &'static str,
    ) -> Self {
        Self::Ask { question, title: title.into(), lines, yes, on_yes: false, top: 0, last: 0 }
    }

    /// Scrolls what is told.
    pub fn scroll(&mut self, by: isize) {
        let (top, last, by) = match self {
            Self::Tell { top, last, .. } | Self::Ask { top, last, .. } => (top, last, by),
            Self::Plan(plan) => {
                plan.strayed = true;
                (&mut plan.top, &mut plan.last, by)
            }
            Self::Form(form) => return form.turn(by),
            // Without rows there are words alone.
            Self::Worker(form) if form.rows().is_empty() => (&mut form.top, &mut form.last, by),
            Self::Worker(form) => return form.turn(by),
            // Its output is shown from the end.
            Self::Progress { top, last, .. } => (top, last, by.saturating_neg()),
        };
        *top = top.saturating_add_signed(by).min(*last);
    }

    /// Scrolls by pages of so many lines; in a form, where lines belong to the focus, what is said below them.
    pub fn page(&mut self, by: isize) {
        /// Lines that a small window shows, less the one that stays in sight.
        const SAID: isize = 3;
        match self {
            Self::Form(form) => form.top = form.top.saturating_add_signed(by.signum() * SAID).min(form.last),
            Self::Worker(form) if !form.rows().is_empty() => {}
            dialog => dialog.scroll(by),
        }
    }

    /// Focuses the button that says yes, or cancel.
    pub fn focus_button(&mut self, yes: bool) {
        match self {
            Self::Ask { on_yes, .. } => *on_yes = yes,
            Self::Plan(plan) => plan.focus(if yes { Spot::Go } else { Spot::Cancel }),
            Self::Form(form) => form.at = form.rows.len() + usize::from(yes),
            Self::Worker(form) => form.at = form.rows().len() + usize::from(yes),
            Self::Tell { .. } | Self::Progress { .. } => {}
        }
    }

    /// What it was scrolled to, and how far it can be, now that it is drawn.
    pub fn drawn(&mut self, shown: usize, highest: usize) {
        let (top, last) = match self {
            Self::Tell { top, last, .. } | Self::Ask { top, last, .. } | Self::Progress { top, last, .. } => {
                (top, last)
            }
            Self::Plan(plan) => (&mut plan.top, &mut plan.last),
            Self::Worker(form) => (&mut form.top, &mut form.last),
            Self::Form(form) => (&mut form.top, &mut form.last),
        };
        (*top, *last) = (shown, highest);
    }
}
