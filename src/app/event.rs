//! Events that the console processes, and effects that it requests.

use crate::app::action::impact::Impact;
use crate::app::input::history::Entered;
use crate::job_workers::{Known, Part, WorkersReading};
use crate::model::cloud::TpuHost;
use crate::model::{
    Chips, ClusterName, Draft, FormEvent, FormId, GoogleWait, JobId, JobKey, JobStacks, Layout, NodeId,
    OperationEvent, Order, Problem, Request, SubmissionId, Text,
};
use crate::state::Update;
use crossterm::event::{KeyEvent, KeyEventKind, MouseEvent};
use std::sync::Arc;

/// An event for the console.
#[derive(Debug)]
pub enum Event {
    /// A key press.
    Key(KeyEvent),
    /// A mouse event.
    Mouse(MouseEvent),
    /// Text pasted by the terminal.
    Paste(String),
    /// The terminal was resized.
    Resize,
    /// An event of a cluster.
    Update(Update),
    /// A displayed time or age may have changed.
    Tick,
    /// An event of an operation on a cluster.
    Operation(ClusterName, OperationEvent),
    /// The stacks of a driver's workers, or why they could not be taken.
    Stacks(ClusterName, JobId, Arc<Result<JobStacks, Problem>>),
    /// The log files of a worker, by its node and its process id, the most likely one first; or why they are
    /// unknown.
    WorkerFiles(ClusterName, (NodeId, u32), Arc<Result<Vec<Text>, Problem>>),
    /// The usage of the chips of these nodes, or why it is unknown.
    Chips(ClusterName, Vec<NodeId>, Arc<Result<Chips, Problem>>),
    /// What was read about the workers of a job, or why it is unknown.
    JobWorkers(ClusterName, JobKey, Part, Arc<Result<WorkersReading, Problem>>),
    /// Calls to Google are delayed because Google requested it.
    GoogleWait(GoogleWait),
    /// An event for the form that submits a job.
    Form(ClusterName, FormId, FormEvent),
    /// The entries of the audit log, newest first, each with its time and its text; or why it could not be read.
    Audit(Result<Vec<(String, String)>, String>),
    /// The file to save lines to already exists.
    FileExists {
        path: String,
        /// The text that was not written.
        text: String,
        /// Number of its lines, including hidden ones.
        loaded_lines: usize,
    },
    /// The outcome of an effect.
    Done(Outcome),
    /// An event that changes nothing.
    Ignored,
}

impl From<crossterm::event::Event> for Event {
    fn from(event: crossterm::event::Event) -> Self {
        use crossterm::event::Event as Input;
        match event {
            Input::Key(key) if key.kind != KeyEventKind::Release => Self::Key(key),
            Input::Mouse(mouse) => Self::Mouse(mouse),
            Input::Paste(text) => Self::Paste(text),
            Input::Resize(..) => Self::Resize,
            Input::Key(_) | Input::FocusGained | Input::FocusLost => Self::Ignored,
        }
    }
}

/// An effect for the event loop to perform.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Quit the console.
    Quit,
    /// Redraw the whole screen.
    Redraw,
    /// Suspend the process, as a shell's job, until the shell resumes it.
    Suspend,
    /// Send a request to a cluster's task.
    Ask(ClusterName, Request),
    /// Put text on the clipboard.
    Copy {
        /// A description of the text, for the message.
        what: String,
        /// The text to copy.
        text: String,
    },
    /// Write lines to a file on this machine.
    WriteFile {
        /// The path as typed.
        path: String,
        /// The lines, separated by line breaks.
        text: String,
        /// Whether an existing file may be replaced.
        replace: bool,
        /// The number of lines including those that are not shown.
        loaded_lines: usize,
    },
    /// Hand the terminal to a program that shows text.
    ShowText {
        /// The kind of the program.
        viewer: Viewer,
        /// The lines, separated by line breaks.
        text: String,
        /// Number of the first line to show, from 1.
        line: usize,
    },
    /// Put the cluster's token on the clipboard.
    CopyToken(ClusterName),
    /// Open the cluster's dashboard in the browser.
    OpenDashboard(ClusterName),
    /// Hand the terminal to an SSH session on the cluster's head.
    SshHead(ClusterName),
    /// Hand the terminal to an SSH session on one of the cluster's TPU hosts.
    SshHost(ClusterName, TpuHost),
    /// Submit the job of a form.
    Submit(ClusterName, FormId, Box<Draft>),
    /// Read a job's submission to fill in the form.
    Fill(ClusterName, FormId, SubmissionId),
    /// Take the stacks of a driver's workers, twice.
    Stacks(ClusterName, JobId),
    /// List the log files of one of a driver's workers, by its node and its process id.
    WorkerFiles(ClusterName, JobId, (NodeId, u32)),
    /// Read the chips of these nodes.
    Chips(ClusterName, Vec<NodeId>),
    /// Read what the page of a job's workers shows.
    JobWorkers(ClusterName, Box<Known>, Part),
    /// Write an action on a cluster and its outcome to the audit log.
    Note(ClusterName, String, String),
    /// Read the audit log to show it.
    ReadAudit,
    /// Save the layout for the next start.
    Remember(Layout),
    /// Append a typed line to the history file.
    Save(Entered, String),
    /// Issue an order about an operation on a cluster or its workers.
    Operate(ClusterName, Order),
}

impl Effect {
    /// The most severe outcome of the effect.
    pub const fn impact(&self) -> Impact {
        match self {
            Self::Quit | Self::Redraw | Self::Suspend => Impact::View,
            Self::Ask(_, request) => impact_of_request(request),
            Self::Submit(..) => Impact::Changes,
            Self::Operate(_, order) => impact_of_order(order),
            Self::Copy { .. }
            | Self::WriteFile { .. }
            | Self::ShowText { .. }
            | Self::CopyToken(_)
            | Self::OpenDashboard(_)
            | Self::SshHead(_)
            | Self::SshHost(..)
            | Self::Fill(..)
            | Self::Stacks(..)
            | Self::WorkerFiles(..)
            | Self::Chips(..)
            | Self::JobWorkers(..)
            | Self::Note(..)
            | Self::ReadAudit
            | Self::Remember(_)
            | Self::Save(..) => Impact::Reads,
        }
    }
}

const fn impact_of_request(request: &Request) -> Impact {
    match request {
        Request::StopJob(_) => Impact::Ends,
        Request::DeleteJob(_) | Request::CleanPreempted(_) | Request::TrustHostKey(_) => Impact::Changes,
        Request::Refresh
        | Request::Focus(_)
        | Request::Visible(_)
        | Request::Work(_)
        | Request::Inspect(_)
        | Request::Follow(..)
        | Request::FollowSeveral(_)
        | Request::OlderLog(..)
        | Request::SearchLog(..)
        | Request::SearchFiles(_)
        | Request::DownloadLog(..)
        | Request::Unfollow(_)
        | Request::Cloud
        | Request::Ports(_)
        | Request::Reconnect
        | Request::Operated(_) => Impact::Reads,
    }
}

const fn impact_of_order(order: &Order) -> Impact {
    match order {
        Order::ListOffers | Order::Preview(_) => Impact::Reads,
        Order::Begin(task, _) if !task.kind().may_end_jobs() => Impact::Changes,
        Order::Begin(..) | Order::Resume(_) | Order::SkipStep(_) => Impact::Ends,
        Order::Abandon | Order::Cancel | Order::Interrupt => Impact::Changes,
    }
}

/// A program from the environment that shows text in the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// `$PAGER`.
    Pager,
    /// `$VISUAL` or `$EDITOR`.
    Editor,
}

/// The outcome of an effect, in words for the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Text was copied to the clipboard.
    Copied(String),
    /// Lines were saved to a file.
    Saved(String),
    /// An address was opened in the browser.
    Opened(String),
    /// The effect is in progress and takes a while.
    Announced(String),
    /// The token was removed from the clipboard.
    Cleared(String),
    /// The program that the terminal was handed to has exited.
    Returned(String),
    /// The effect failed, for this reason.
    Failed(String),
}

/// What an action or an event returns: effects, or nothing if it only changes the state.
pub(in crate::app) trait IntoEffects {
    /// The effects, of which there may be none.
    fn into_effects(self) -> Vec<Effect>;
}

impl IntoEffects for () {
    fn into_effects(self) -> Vec<Effect> {
        Vec::new()
    }
}

impl IntoEffects for Option<Effect> {
    fn into_effects(self) -> Vec<Effect> {
        self.into_iter().collect()
    }
}

impl IntoEffects for Vec<Effect> {
    fn into_effects(self) -> Vec<Effect> {
        self
    }
}
