//! What the palette lists.

use crate::app::action::target::Target;
use crate::model::LogSource;

/// A line that the palette offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The command, as it can be typed.
    pub words: String,
    /// Which characters of it match what is typed.
    pub hits: Vec<usize>,
    /// What it does, in one line.
    pub help: String,
    /// Its first key; empty if it has none.
    pub key: String,
    /// Whether it can be run now.
    pub is_here: bool,
    /// What it is for beside its words.
    pub kind: OfferKind,
}

/// What is meant by a line of the palette.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferKind {
    /// The command of its words.
    Command,
    /// The command, on this thing.
    On(Target),
    /// The page of this thing.
    Page(Target),
    /// The stacks of the workers of this job.
    Stacks(Target),
    /// The text to copy.
    Text(String),
    /// A log.
    Log(LogSource),
    /// A line of the log, by its position and its text.
    Line {
        /// Position of its first byte, where that is known.
        at: Option<u64>,
        /// Its text, or the beginning.
        text: String,
    },
}

impl Offer {
    /// A command that can be run now.
    pub fn new(words: impl Into<String>, help: impl Into<String>) -> Self {
        let (words, help) = (words.into(), help.into());
        Self { words, hits: Vec::new(), help, key: String::new(), is_here: true, kind: OfferKind::Command }
    }
}
