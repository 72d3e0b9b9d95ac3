//! Dialogs over the panes: confirmations, texts and forms.

use crate::app::action::context::Context;
use crate::app::input::line::Line;
use crate::app::job::form::Form;
use crate::app::operation::confirmation::{Control, Plan};
use crate::app::operation::worker_form::WorkerForm;
use crate::app::screen::scroll::Scroll;
use crate::app::table::chooser::Chooser;
use crate::app::table::filter::Filter;
use crate::manual;
use crate::model::{ClusterName, Leftover, Order, StreamId, SubmissionId};

/// A dialog over the panes; at most one is open.
#[derive(Clone, Debug, PartialEq)]
pub enum Dialog {
    /// Asks for confirmation. Cancel is focused first.
    Ask {
        /// What is done after the confirmation.
        question: Question,
        /// The title in the border.
        title: String,
        /// The exact effect, line by line: a label (may be empty) and a text.
        lines: Vec<(String, String)>,
        /// The label of the button that confirms: it names the action, e.g. `Stop 2 jobs`.
        yes: String,
        /// Whether that button is focused.
        on_yes: bool,
        /// Scroll position of the lines.
        scroll: Scroll,
    },
    /// Shows a text that can be scrolled.
    Text {
        /// The title in the border.
        title: String,
        /// Labels (may be empty) and texts.
        lines: Vec<(String, String)>,
        /// Scroll position of the lines.
        scroll: Scroll,
        /// The search, which leaves only matching lines.
        search: Search,
        /// Whether it is the list of keys, where Enter opens the pages of the manual.
        pages: bool,
        /// The dialog under this one; closing this one returns to it.
        under: Option<Box<Dialog>>,
    },
    /// The confirmation of an operation.
    Plan(Box<Plan>),
    /// The form that submits a job.
    Form(Box<Form>),
    /// The form that adds workers.
    Worker(Box<WorkerForm>),
    /// The dialog that chooses the columns of a table.
    Columns(Box<Chooser>),
}

/// The search within a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The words that lines must contain.
    pub line: Line,
    /// Whether it is being typed.
    pub is_open: bool,
}

impl Search {
    /// The lines that contain every word, in their label or their text; all lines if the search is empty.
    pub fn of<'l>(&self, lines: &'l [(String, String)]) -> Vec<&'l (String, String)> {
        Filter::of_lines(self.line.text(), lines)
    }
}

/// What is done when a question is confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Stop these jobs.
    StopJobs(Vec<(ClusterName, SubmissionId)>),
    /// Stop these jobs, some of them other people's, which a second question names.
    StopOthers(Vec<(ClusterName, SubmissionId)>),
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
        /// The affected cluster.
        cluster: ClusterName,
        /// The TPU VMs and queued resources to delete.
        left: Vec<Leftover>,
    },
    /// Replace an existing file with these lines.
    ReplaceFile {
        /// The path as typed.
        path: String,
        /// The lines as they were when they were to be saved.
        text: String,
        /// Number of lines including hidden ones.
        loaded_lines: usize,
    },
    /// Download a log and search it.
    DownloadLog {
        /// The cluster that the log belongs to.
        cluster: ClusterName,
        /// The stream of the log that is to be downloaded.
        stream: StreamId,
        /// The pattern to search for.
        pattern: String,
    },
    /// Accept a head's new host key.
    TrustHostKey {
        /// The affected cluster.
        cluster: ClusterName,
        /// The fingerprint of the offered key.
        fingerprint: String,
    },
}

impl Dialog {
    /// Help, over the open dialog if any, with the pages of the manual at its end. Help over help replaces it.
    /// `palette` is the key that opens the command line.
    pub fn help(mut lines: Vec<(String, String)>, palette: &str, over: Option<Self>) -> Self {
        let blank = || (String::new(), String::new());
        let how = format!("manual: press enter to list its pages, or use `{palette}help TOPIC`");
        lines.extend([blank(), (String::new(), how)]);
        let page = |(topic, text): (&str, &str)| (topic.to_owned(), manual::summary(text).to_owned());
        lines.extend(manual::PAGES.map(page));
        let mut under = over.map(Box::new);
        while let Some(dialog) = under {
            match *dialog {
                Self::Text { pages: true, under: lower, .. } | Self::Text { under: lower @ Some(_), .. } => {
                    under = lower;
                }
                other => {
                    under = Some(Box::new(other));
                    break;
                }
            }
        }
        let (title, search) = ("Keys".to_owned(), Search::default());
        Self::Text { title, lines, scroll: Scroll::default(), search, pages: true, under }
    }

    /// A searchable text, such as a page of the manual, over the open dialog if any.
    pub fn text(title: impl Into<String>, lines: Vec<(String, String)>, over: Option<Self>) -> Self {
        let (title, search) = (title.into(), Search::default());
        let under = over.map(Box::new);
        Self::Text { title, lines, scroll: Scroll::default(), search, pages: false, under }
    }

    /// The context in which its keys are looked up.
    pub fn context(&self) -> Context {
        match self {
            Self::Ask { .. } => Context::Ask,
            Self::Text { .. } => Context::Text,
            Self::Plan(_) => Context::Plan,
            Self::Form(_) | Self::Worker(_) => Context::Form,
            Self::Columns(_) => Context::Columns,
        }
    }

    /// The dialog that events apply to: the lowest one under help, or this one.
    pub fn innermost(&mut self) -> &mut Self {
        match self {
            Self::Text { under: Some(under), .. } => under.innermost(),
            dialog => dialog,
        }
    }

    /// This dialog after the one that events apply to was closed: the text over it stays.
    pub fn without_innermost(mut self) -> Option<Self> {
        let Self::Text { under: under @ Some(_), .. } = &mut self else { return None };
        *under = under.take().and_then(|under| under.without_innermost()).map(Box::new);
        Some(self)
    }

    /// Whether closing it would discard typed text and it has not warned about that yet.
    pub fn warn_before_discarding(&mut self) -> bool {
        match self {
            Self::Form(form) => form.warn_before_discarding(),
            Self::Worker(form) => form.warn_before_discarding(),
            _ => false,
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
        Self::Ask { question, title, lines, yes, on_yes: false, scroll: Scroll::default() }
    }

    /// Scrolls the dialog by `by` lines; in a form, moves the focus.
    pub fn scroll(&mut self, by: isize) {
        match self {
            Self::Text { scroll, .. } | Self::Ask { scroll, .. } => scroll.step(by),
            Self::Plan(plan) => {
                plan.is_scrolled = true;
                plan.scroll.step(by);
            }
            Self::Form(form) => form.turn(by),
            Self::Columns(chooser) => chooser.step(by),
            // A form without rows shows only text.
            Self::Worker(form) if form.rows().is_empty() => form.scroll.step(by),
            Self::Worker(form) => form.turn(by),
        }
    }

    /// Scrolls by a page of `by` lines; in a form, scrolls the text below the rows, because line keys move the focus
    /// there.
    pub fn page(&mut self, by: isize) {
        /// Lines that a small window shows, minus one that stays visible.
        const PAGE: isize = 3;
        match self {
            Self::Form(form) => form.scroll.step(by.signum() * PAGE),
            Self::Worker(form) if !form.rows().is_empty() => {}
            dialog => dialog.scroll(by),
        }
    }

    /// Focuses the button that confirms, or Cancel.
    pub fn focus_button(&mut self, yes: bool) {
        match self {
            Self::Ask { on_yes, .. } => *on_yes = yes,
            Self::Plan(plan) => plan.focus(if yes { Control::Go } else { Control::Cancel }),
            Self::Form(form) => form.focus(form.rows.len() + usize::from(yes)),
            Self::Worker(form) => form.focus(form.rows().len() + usize::from(yes)),
            Self::Text { .. } | Self::Columns(_) => {}
        }
    }

    /// Focuses a clicked row. Returns whether it was focused already and a click toggles it.
    pub fn focus_row(&mut self, row: usize) -> bool {
        match self {
            Self::Form(form) => form.focus(row),
            Self::Worker(form) => form.focus(row),
            Self::Columns(chooser) => return std::mem::replace(&mut chooser.at, row) == row,
            Self::Ask { .. } | Self::Text { .. } | Self::Plan(_) => {}
        }
        false
    }

    /// Records the first line that was drawn, and the highest possible first line.
    pub fn drawn(&mut self, shown: usize, highest: usize) {
        let scroll = match self {
            Self::Text { scroll, .. } | Self::Ask { scroll, .. } => scroll,
            Self::Plan(plan) => &mut plan.scroll,
            Self::Worker(form) => &mut form.scroll,
            Self::Form(form) => &mut form.scroll,
            // Its rows follow the cursor.
            Self::Columns(_) => return,
        };
        scroll.drawn_from(shown, highest);
    }
}
