//! Short messages. Errors stay until they are dismissed; all are kept for the list of messages.

use crate::model::Timestamp;
use crate::model::text::printable;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long good news stay.
const STAY: Duration = Duration::from_secs(5);
/// Messages kept.
const KEPT: usize = 200;
/// Toasts on the screen at once.
const SHOWN: usize = 4;

/// How a message is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// For your information.
    Info,
    /// It worked.
    Good,
    /// It did not.
    Bad,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// How it is meant.
    pub tone: Tone,
    /// What it says.
    pub text: String,
    /// When it was said.
    pub at: Timestamp,
}

/// All messages, and which are on the screen.
#[derive(Debug, Default)]
pub struct Toasts {
    said: VecDeque<Toast>,
    shown: Vec<Toast>,
    /// Notes that every cluster may have one of.
    notes: BTreeMap<String, String>,
}

impl Toasts {
    /// Says something. Saying the same again only renews it.
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

    /// Says something of one that others may say, too: each note is kept in the list of messages once, and those of
    /// several are one toast, of which `sum` makes the words from their number.
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

    /// Takes the ones away whose time is over. True when any was.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.shown.len();
        self.shown.retain(|t| t.tone == Tone::Bad || t.at.age(now) < STAY);
        before != self.shown.len()
    }

    /// Takes all away. True when there was any.
    pub fn dismiss(&mut self) -> bool {
        !std::mem::take(&mut self.shown).is_empty()
    }

    /// Time until the next one goes.
    pub fn next_change(&self, now: Timestamp) -> Option<Duration> {
        let leaving = self.shown.iter().filter(|t| t.tone != Tone::Bad);
        leaving.map(|t| t.at.plus(STAY).until(now)).min()
    }

    /// Those on the screen, oldest first.
    pub fn shown(&self) -> &[Toast] {
        &self.shown
    }

    /// Everything said, newest first.
    pub fn said(&self) -> impl ExactSizeIterator<Item = &Toast> {
        self.said.iter()
    }
}
