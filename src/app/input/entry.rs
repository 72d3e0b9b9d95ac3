//! The entries of the palette.

use crate::app::action::target::Target;
use crate::model::{LogSource, NodeId};

/// An entry of the palette.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The command as it can be typed.
    pub text: String,
    /// The characters of `text` that match the typed text.
    pub hits: Vec<usize>,
    /// What it does, in one line.
    pub help: String,
    /// Its first key; empty if it has none.
    pub key: String,
    /// Whether it can be run now.
    pub is_here: bool,
    /// What choosing it does.
    pub kind: OfferKind,
}

/// What the palette lists.
#[derive(Debug, Default)]
pub struct OfferList {
    /// The entries, best first.
    pub offers: Vec<Offer>,
    /// Why there are none; `None` if there are some, or if nothing is typed.
    pub why_none: Option<String>,
}

/// What choosing an entry of the palette does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferKind {
    /// Runs the command in `text`.
    Command,
    /// Runs the command on this thing.
    On(Target),
    /// Opens the page of this thing.
    Page(Target),
    /// Shows the stacks of the workers of this job.
    Stacks(Target),
    /// Opens the log of this worker on the page of stacks, by its node and its process id.
    WorkerLog(NodeId, u32),
    /// Copies this text.
    Text(String),
    /// Opens this log.
    Log(LogSource),
    /// Goes to a line of the log, by its position and its text.
    Line {
        /// Position of its first byte, if known.
        at: Option<u64>,
        /// Its text, or the beginning of it.
        text: String,
    },
}

impl Offer {
    /// A command that can be run now.
    pub fn new(text: impl Into<String>, help: impl Into<String>) -> Self {
        let (text, help) = (text.into(), help.into());
        Self { text, hits: Vec::new(), help, key: String::new(), is_here: true, kind: OfferKind::Command }
    }
}
