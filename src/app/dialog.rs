//! Dialogs over the panes: confirmations, texts, forms and the progress of operations.

use super::form::Form;
use super::plan::{Plan, Spot};
use super::worker::WorkerForm;
use crate::model::{ClusterName, JobIds, Leftover, Order, SubmissionId};

/// A dialog over the panes; at most one is open.
#[derive(Clone, Debug, PartialEq)]
pub enum Dialog {
    /// Asks for confirmation. Cancel is focused first.
    Ask {
        /// What is done after the confirmation.
        question: Question,
        /// The title in the border.
        title: String,
        /// What exactly would happen, line by line: a label (may be empty) and a text.
        lines: Vec<(String, String)>,
        /// The label of the button that confirms: it names the act, e.g. `Stop 2 jobs`.
        yes: String,
        /// Whether that button is focused.
        on_yes: bool,
        /// The first line that is shown.
        top: usize,
        /// Highest first line, known once drawn.
        last: usize,
    },
    /// Shows a text that can be scrolled.
    Tell {
        /// The title in the border.
        title: String,
        /// Labels (may be empty) and texts.
        lines: Vec<(String, String)>,
        /// The cluster and the driver whose work is still missing in the lines, until Ray answers.
        awaits: Option<(ClusterName, JobIds)>,
        /// The first line that is shown.
        top: usize,
        /// Highest first line, known once drawn.
        last: usize,
        /// The dialog that help was opened over; closing help returns to it.
        under: Option<Box<Dialog>>,
    },
    /// The confirmation of an operation.
    Plan(Box<Plan>),
    /// The form that submits a job.
    Form(Box<Form>),
    /// The form that adds workers.
    Worker(Box<WorkerForm>),
    /// The progress of an operation; it may be closed and opened again.
    Progress {
        /// The cluster of the operation.
        cluster: ClusterName,
        /// Lines of its output below the screen.
        top: usize,
        /// The highest value of `top`, known once drawn.
        last: usize,
    },
}

/// What is done when a question is confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Stop these jobs.
    StopJobs(Vec<(ClusterName, SubmissionId)>),
    /// Delete the records of ended jobs in Ray.
    DeleteJobs(Vec<(ClusterName, SubmissionId)>),
    /// Quit although an operation is running.
    Quit,
    /// Abandon an interrupted operation.
    Abandon {
        /// The cluster that the operation is on.
        cluster: ClusterName,
    },
    /// Allow what was refused.
    Allow {
        /// The cluster that the operation is on.
        cluster: ClusterName,
        /// The order, with that allowed.
        order: Box<Order>,
    },
    /// Delete preempted TPUs and suspended requests.
    CleanPreempted {
        /// The cluster that is concerned.
        cluster: ClusterName,
        /// The TPU VMs and queued resources to delete.
        left: Vec<Leftover>,
    },
    /// Accept a head's new host key.
    TrustHostKey {
        /// The cluster that is concerned.
        cluster: ClusterName,
        /// The fingerprint of the offered key.
        fingerprint: String,
    },
}

impl Dialog {
    /// A dialog that shows a text.
    pub fn tell(title: impl Into<String>, lines: Vec<(String, String)>) -> Self {
        Self::Tell { title: title.into(), lines, awaits: None, top: 0, last: 0, under: None }
    }

    /// Help, over another dialog if one is open. Help over help replaces it.
    pub fn help(lines: Vec<(String, String)>, over: Option<Self>) -> Self {
        let under = match over {
            Some(Self::Tell { under: Some(under), .. }) => Some(under),
            over => over.map(Box::new),
        };
        Self::Tell { title: "keys".to_owned(), lines, awaits: None, top: 0, last: 0, under }
    }

    /// The dialog that news concern: the one under help, or itself.
    pub fn meant(&mut self) -> &mut Self {
        match self {
            Self::Tell { under: Some(under), .. } => under,
            dialog => dialog,
        }
    }

    /// A dialog that asks for confirmation; `yes` is the label of the button that confirms.
    pub fn ask(
        question: Question,
        title: impl Into<String>,
        lines: Vec<(String, String)>,
        yes: impl Into<String>,
    ) -> Self {
        let (title, yes) = (title.into(), yes.into());
        Self::Ask { question, title, lines, yes, on_yes: false, top: 0, last: 0 }
    }

    /// Scrolls the dialog by `by` lines; in a form, moves the focus.
    pub fn scroll(&mut self, by: isize) {
        let (top, last, by) = match self {
            Self::Tell { top, last, .. } | Self::Ask { top, last, .. } => (top, last, by),
            Self::Plan(plan) => {
                plan.strayed = true;
                (&mut plan.top, &mut plan.last, by)
            }
            Self::Form(form) => return form.turn(by),
            // A form without rows shows only text.
            Self::Worker(form) if form.rows().is_empty() => (&mut form.top, &mut form.last, by),
            Self::Worker(form) => return form.turn(by),
            // Its output is shown from the end.
            Self::Progress { top, last, .. } => (top, last, by.saturating_neg()),
        };
        *top = top.saturating_add_signed(by).min(*last);
    }

    /// Scrolls by a page of `by` lines; in a form, where lines move the focus, scrolls the text below the rows.
    pub fn page(&mut self, by: isize) {
        /// Lines that a small window shows, less the one that stays in sight.
        const SAID: isize = 3;
        match self {
            Self::Form(form) => form.top = form.top.saturating_add_signed(by.signum() * SAID).min(form.last),
            Self::Worker(form) if !form.rows().is_empty() => {}
            dialog => dialog.scroll(by),
        }
    }

    /// Focuses the button that confirms, or Cancel.
    pub fn focus_button(&mut self, yes: bool) {
        match self {
            Self::Ask { on_yes, .. } => *on_yes = yes,
            Self::Plan(plan) => plan.focus(if yes { Spot::Go } else { Spot::Cancel }),
            Self::Form(form) => form.at = form.rows.len() + usize::from(yes),
            Self::Worker(form) => form.at = form.rows().len() + usize::from(yes),
            Self::Tell { .. } | Self::Progress { .. } => {}
        }
    }

    /// Takes in the first line that was drawn, and the highest first line.
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
