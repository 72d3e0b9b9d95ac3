//! What the console takes in, and what it has done for it.

use crate::model::cloud::TpuHost;
use crate::model::{
    ClusterName, Draft, FormId, FormNews, OperationNews, Order, Request, SubmissionId, Update,
};
use crossterm::event::{KeyEvent, KeyEventKind, MouseEvent};

/// What comes in.
#[derive(Debug)]
pub enum Event {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// Text pasted by the terminal.
    Paste(String),
    /// The terminal has another size.
    Resize,
    /// News of a cluster.
    Update(Update),
    /// A clock text on the screen may have changed.
    Tick,
    /// News of an operation on a cluster.
    Operation(ClusterName, OperationNews),
    /// News for the form of a job.
    Form(ClusterName, FormId, FormNews),
    /// An effect came out so.
    Done(Outcome),
    /// Nothing of interest.
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

/// What goes out.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Paint everything anew.
    Redraw,
    /// Stop the process as a shell's job, until the shell continues it.
    Suspend,
    /// Ask a cluster's task.
    Ask(ClusterName, Request),
    /// Put text on the clipboard.
    Copy {
        /// What it is, for the message.
        what: String,
        /// The text.
        text: String,
    },
    /// Put the cluster's token on the clipboard.
    CopyToken(ClusterName),
    /// Open the cluster's dashboard in the browser.
    OpenDashboard(ClusterName),
    /// Hand the terminal to a login on the cluster's head.
    SshHead(ClusterName),
    /// Hand it to a login on one of its TPU hosts.
    SshHost(ClusterName, TpuHost),
    /// Submit the job of a form.
    Submit(ClusterName, FormId, Box<Draft>),
    /// Read what a job was submitted with, for the form.
    Fill(ClusterName, FormId, SubmissionId),
    /// Write down what was done to a cluster, and how it came out.
    Note(ClusterName, String, String),
    /// Have something done about an operation on a cluster or its workers.
    Operate(ClusterName, Order),
}

/// How an effect came out, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Copied.
    Copied(String),
    /// Opened.
    Opened(String),
    /// It is being done, and takes a while.
    Doing(String),
    /// Taken off the clipboard.
    Cleared(String),
    /// The terminal is ours again.
    Returned(String),
    /// It did not work.
    Failed(String),
}
