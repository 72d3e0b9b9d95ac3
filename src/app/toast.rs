//! Short messages. Errors stay until they are dismissed; all are kept for the list of messages.

use crate::model::Timestamp;
use crate::model::text::printable;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long messages that are not errors stay.
const STAY: Duration = Duration::from_secs(5);
/// Messages kept.
const KEPT: usize = 200;
/// Toasts on the screen at once.
const SHOWN: usize = 4;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Information.
    Info,
    /// Something succeeded.
    Good,
    /// Something failed.
    Bad,
}

/// A message of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// The kind of the message.
    pub tone: Tone,
    /// Its text, safe to print.
    pub text: String,
    /// The time of the message.
    pub at: Timestamp,
}

/// All messages, and which are on the screen.
#[derive(Debug, Default)]
pub struct Toasts {
    said: VecDeque<Toast>,
    shown: Vec<Toast>,
    /// The note of each cluster that has one.
    notes: BTreeMap<String, String>,
}

impl Toasts {
    /// Shows a message. The same text again only renews it.
    pub fn say(&mut self, tone: Tone, text: impl Into<String>, now: Timestamp) {
        let text = text.into();
        let toast = Toast { tone, text: printable(&text).into_owned(), at: now };
        self.shown.retain(|t| t.text != toast.text);
        self.shown.push(toast.clone());
        if self.shown.len() > SHOWN {
            let oldest = self.shown.iter().position(|t| t.tone != Tone::Bad).unwrap_or(0);
            self.shown.remove(oldest);
        }
        self.said.push_front(toast);
        self.said.truncate(KEPT);
    }

    /// Shows a note of one cluster that others may have, too: the list of messages keeps each note once, and the notes
    /// of several clusters share one toast, whose text `sum` makes from their number.
    pub fn say_one_of_many(&mut self, of: &str, note: &str, now: Timestamp, sum: impl Fn(usize) -> String) {
        let line = format!("{of}: {note}");
        if self.notes.get(of) == Some(&line) {
            return;
        }
        let before = sum(self.notes.len());
        self.notes.insert(of.to_owned(), line.clone());
        self.say(Tone::Info, line, now);
        if self.notes.len() > 1 {
            let notes = &self.notes;
            self.shown.retain(|t| t.text != before && !notes.values().any(|n| printable(n) == t.text));
            self.shown.push(Toast { tone: Tone::Info, text: sum(notes.len()), at: now });
        }
    }

    /// Removes the expired messages from the screen. True when there were any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.shown.len();
        self.shown.retain(|t| t.tone == Tone::Bad || t.at.age(now) < STAY);
        before != self.shown.len()
    }

    /// Removes all messages from the screen. True when there were any.
    pub fn dismiss(&mut self) -> bool {
        !std::mem::take(&mut self.shown).is_empty()
    }

    /// Time until the next message expires.
    pub fn next_change(&self, now: Timestamp) -> Option<Duration> {
        let leaving = self.shown.iter().filter(|t| t.tone != Tone::Bad);
        leaving.map(|t| t.at.plus(STAY).until(now)).min()
    }

    /// Those on the screen, oldest first.
    pub fn shown(&self) -> &[Toast] {
        &self.shown
    }

    /// All kept messages, newest first.
    pub fn said(&self) -> impl ExactSizeIterator<Item = &Toast> {
        self.said.iter()
    }
}
