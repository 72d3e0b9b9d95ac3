//! Short messages. Errors stay until they are dismissed; all are kept for the list of messages.

use crate::app::text::words;
use crate::model::text::printable;
use crate::model::{ClusterName, Timestamp};
use std::collections::VecDeque;
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
    /// Neither good nor bad news, such as a key that is not available here.
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
    /// The notes of clusters in force.
    notes: Vec<Note>,
}

/// What a note of a cluster tells of: one cause may lie with many clusters at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Local ports that another program holds, such as a second console.
    Ports,
    /// How the head was found, and what was seen at the first contact.
    Connection,
    /// The login at Google.
    Google,
}

impl Cause {
    /// The rest of a sentence that begins with the clusters.
    const fn words(self) -> &'static str {
        match self {
            Self::Ports => "use different local ports than usual",
            Self::Connection => "have messages about their connections",
            Self::Google => "have no TPU data",
        }
    }
}

/// A note, and the clusters that have it.
#[derive(Debug)]
struct Note {
    cause: Cause,
    text: String,
    clusters: Vec<ClusterName>,
    /// The message that was made of it last.
    said: String,
}

impl Note {
    fn line(&self) -> String {
        printable(&format!("{}: {}", words::named(&self.clusters), self.text)).into_owned()
    }
}

impl Toasts {
    /// Shows a message. The same text again only renews it.
    pub fn say(&mut self, tone: Tone, text: impl Into<String>, now: Timestamp) {
        let toast = self.show(tone, &text.into(), now);
        self.said.push_front(toast);
        self.said.truncate(KEPT);
    }

    /// Shows what only answers a key. The list of messages does not keep it.
    pub fn answer(&mut self, text: impl Into<String>, now: Timestamp) {
        self.show(Tone::Info, &text.into(), now);
    }

    fn show(&mut self, tone: Tone, text: &str, now: Timestamp) -> Toast {
        let toast = Toast { tone, text: printable(text).into_owned(), at: now };
        self.shown.retain(|t| t.text != toast.text);
        self.shown.push(toast.clone());
        if self.shown.len() > SHOWN {
            let oldest = self.shown.iter().position(|t| t.tone != Tone::Bad).unwrap_or(0);
            self.shown.remove(oldest);
        }
        toast
    }

    /// Shows a note of one cluster that others may have for the same cause. The list of messages has each note once, with
    /// its clusters. Different notes share one toast, which ends with `more`: where they are listed.
    pub fn say_of(&mut self, cluster: &ClusterName, cause: Cause, note: &str, more: &str, now: Timestamp) {
        let is_it = |known: &Note| known.cause == cause && known.text == note;
        if self.notes.iter().any(|known| is_it(known) && known.clusters.contains(cluster)) {
            return;
        }
        let of_cause = |known: &&Note| known.cause == cause;
        let sum = |notes: &[Note]| {
            let clusters: Vec<&ClusterName> =
                notes.iter().filter(of_cause).flat_map(|known| &known.clusters).collect();
            format!("{} {}; {more}", words::named(&clusters), cause.words())
        };
        // What the new message says more fully leaves the screen.
        let mut outdated: Vec<String> = self.notes.iter().filter(of_cause).map(|n| n.said.clone()).collect();
        outdated.push(sum(&self.notes));
        self.shown.retain(|toast| !outdated.contains(&toast.text));
        self.is_over(cluster, cause);
        let at = self.notes.iter().position(is_it).unwrap_or(self.notes.len());
        if at == self.notes.len() {
            let (text, said) = (note.to_owned(), String::new());
            self.notes.push(Note { cause, text, clusters: Vec::new(), said });
        }
        let known = &mut self.notes[at];
        known.clusters.push(cluster.clone());
        let line = known.line();
        let before = std::mem::replace(&mut known.said, line.clone());
        self.said.retain(|toast| toast.text != before);
        self.say(Tone::Info, line, now);
        if self.notes.iter().filter(of_cause).count() > 1 {
            self.shown.pop();
            self.shown.push(Toast { tone: Tone::Info, text: sum(&self.notes), at: now });
        }
    }

    /// Forgets that a cluster had a note for that cause, so that it is said again when it is there again.
    pub fn is_over(&mut self, cluster: &ClusterName, cause: Cause) {
        for known in self.notes.iter_mut().filter(|known| known.cause == cause) {
            known.clusters.retain(|other| other != cluster);
        }
        self.notes.retain(|known| !known.clusters.is_empty());
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
