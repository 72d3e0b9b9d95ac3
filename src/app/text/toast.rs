//! Short messages. Errors stay until they are dismissed; all are kept for the list of messages.

use crate::app::text::labels;
use crate::model::text::printable;
use crate::model::{ClusterName, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// How long messages other than errors stay on the screen.
const SHOWN_FOR: Duration = Duration::from_secs(5);
/// How long they stay although other keys are pressed, so that a message that arrives meanwhile can be read.
const SHOWN_FOR_AT_LEAST: Duration = Duration::from_secs(2);
/// Maximum number of messages kept.
const MAX_MESSAGES: usize = 200;
/// Maximum number of messages on the screen.
const MAX_VISIBLE: usize = 4;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Neutral, such as the answer to a key that is not available here.
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
    pub kind: MessageKind,
    /// Its text, safe to print.
    pub text: String,
    /// The time of the message.
    pub at: Timestamp,
}

/// All messages, and those on the screen.
#[derive(Debug, Default)]
pub struct Toasts {
    messages: VecDeque<Toast>,
    shown: Vec<Toast>,
    /// The current notes of clusters.
    notes: Vec<Note>,
}

/// The subject of a cluster's note: many clusters may have the same cause at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Local ports that another program uses, such as a second console.
    Ports,
    /// How the head was found, and observations on the first connection.
    Connection,
    /// The Google login.
    Google,
}

impl Cause {
    /// The end of a sentence that begins with the clusters.
    const fn text(self) -> &'static str {
        match self {
            Self::Ports => "use different local ports than usual",
            Self::Connection => "reported something about their connection",
            Self::Google => "have no TPU data",
        }
    }
}

/// A note, and the clusters that it applies to.
#[derive(Debug)]
struct Note {
    cause: Cause,
    text: String,
    clusters: Vec<ClusterName>,
    /// The last message that was made from it.
    message: String,
}

impl Note {
    fn line(&self) -> String {
        printable(&format!("{}: {}", labels::named(&self.clusters), self.text)).into_owned()
    }
}

impl Toasts {
    /// Shows a message. A message with the same text on the screen is replaced.
    pub fn report(&mut self, kind: MessageKind, text: impl Into<String>, now: Timestamp) {
        let text = text.into();
        self.show(kind, &text, now);
        self.keep(kind, &text, now);
    }

    /// Adds a message to the list of messages without showing it: the page on the screen has the same.
    pub fn keep(&mut self, kind: MessageKind, text: &str, now: Timestamp) {
        self.messages.push_front(Toast { kind, text: printable(text).into_owned(), at: now });
        self.messages.truncate(MAX_MESSAGES);
    }

    /// Shows the answer to a key, which the list of messages does not keep.
    pub fn answer(&mut self, text: impl Into<String>, now: Timestamp) {
        self.show(MessageKind::Info, &text.into(), now);
    }

    /// Shows how far something has come, instead of what was shown of it before. The list of messages does not keep it.
    pub fn progress(&mut self, what: &str, so_far: &str, now: Timestamp) {
        let what = format!("{what}: ");
        self.shown.retain(|toast| !toast.text.starts_with(&what));
        self.show(MessageKind::Info, &format!("{what}{so_far}"), now);
    }

    /// Removes a message from the screen that no longer applies.
    pub fn withdraw(&mut self, text: &str) {
        let text = printable(text);
        self.shown.retain(|toast| toast.text != text);
    }

    fn show(&mut self, kind: MessageKind, text: &str, now: Timestamp) {
        let toast = Toast { kind, text: printable(text).into_owned(), at: now };
        self.shown.retain(|t| t.text != toast.text);
        self.shown.push(toast);
        if self.shown.len() > MAX_VISIBLE {
            // Errors stay until they are dismissed, but not instead of the new message.
            let earlier = &self.shown[..self.shown.len() - 1];
            let oldest = earlier.iter().position(|t| t.kind != MessageKind::Bad).unwrap_or(0);
            self.shown.remove(oldest);
        }
    }

    /// Shows a note of one cluster that others may have for the same cause. The list of messages has each note once,
    /// with its clusters. Different notes share one toast, which ends with `more`, the place where they are listed.
    pub fn report_of_cluster(
        &mut self,
        cluster: &ClusterName,
        cause: Cause,
        note: &str,
        more: &str,
        now: Timestamp,
    ) {
        let is_it = |known: &Note| known.cause == cause && known.text == note;
        if self.notes.iter().any(|known| is_it(known) && known.clusters.contains(cluster)) {
            return;
        }
        let of_cause = |known: &&Note| known.cause == cause;
        let sum = |notes: &[Note]| {
            let clusters: Vec<&ClusterName> =
                notes.iter().filter(of_cause).flat_map(|known| &known.clusters).collect();
            format!("{} {}; {more}", labels::named(&clusters), cause.text())
        };
        // Messages that the new one supersedes leave the screen.
        let mut outdated: Vec<String> =
            self.notes.iter().filter(of_cause).map(|n| n.message.clone()).collect();
        outdated.push(sum(&self.notes));
        self.shown.retain(|toast| !outdated.contains(&toast.text));
        self.clear_note(cluster, cause);
        let at = self.notes.iter().position(is_it).unwrap_or(self.notes.len());
        if at == self.notes.len() {
            let (text, message) = (note.to_owned(), String::new());
            self.notes.push(Note { cause, text, clusters: Vec::new(), message });
        }
        let known = &mut self.notes[at];
        known.clusters.push(cluster.clone());
        let line = known.line();
        let before = std::mem::replace(&mut known.message, line.clone());
        self.messages.retain(|toast| toast.text != before);
        self.report(MessageKind::Info, line.clone(), now);
        if self.notes.iter().filter(of_cause).count() > 1 {
            self.shown.retain(|toast| toast.text != line);
            self.shown.push(Toast { kind: MessageKind::Info, text: sum(&self.notes), at: now });
        }
    }

    /// Removes a cluster's note for this cause, so that it is shown again if it recurs.
    pub fn clear_note(&mut self, cluster: &ClusterName, cause: Cause) {
        for known in self.notes.iter_mut().filter(|known| known.cause == cause) {
            known.clusters.retain(|other| other != cluster);
        }
        self.notes.retain(|known| !known.clusters.is_empty());
    }

    /// Removes expired messages from the screen. Returns whether there were any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.shown.len();
        self.shown.retain(|t| t.kind == MessageKind::Bad || t.at.age(now) < SHOWN_FOR);
        before != self.shown.len()
    }

    /// Removes messages other than errors from the screen as the next action begins, once there was time to read them.
    pub fn give_way(&mut self, now: Timestamp) {
        self.shown.retain(|t| t.kind == MessageKind::Bad || t.at.age(now) < SHOWN_FOR_AT_LEAST);
    }

    /// Removes all messages from the screen. Returns whether there were any.
    pub fn dismiss(&mut self) -> bool {
        !std::mem::take(&mut self.shown).is_empty()
    }

    /// Time until the next message expires.
    pub fn next_change(&self, now: Timestamp) -> Option<Duration> {
        let leaving = self.shown.iter().filter(|t| t.kind != MessageKind::Bad);
        leaving.map(|t| t.at.plus(SHOWN_FOR).until(now)).min()
    }

    /// The messages on the screen, oldest first.
    pub fn shown(&self) -> &[Toast] {
        &self.shown
    }

    /// All kept messages, newest first.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &Toast> {
        self.messages.iter()
    }
}
