//! The history of entered lines, recalled with the arrow keys.

use crate::app::input::line::Line;
use crate::model::is_secret_in;
use std::collections::BTreeMap;

/// Maximum number of entries kept per kind.
const MAX_ENTRIES: usize = 50;

/// The kind of a line; each kind has its own history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entered {
    /// The filter of a table.
    Filter,
    /// A search of the log.
    Search,
    /// A command of the palette.
    Command,
    /// The entrypoint of a submitted job.
    Entrypoint,
    /// The working dir of a submitted job.
    WorkingDir,
}

impl Entered {
    const ALL: [Self; 5] = [Self::Filter, Self::Search, Self::Command, Self::Entrypoint, Self::WorkingDir];

    /// The name of the kind in the history file.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Search => "search",
            Self::Command => "command",
            Self::Entrypoint => "entrypoint",
            Self::WorkingDir => "working-dir",
        }
    }
}

/// The entered lines, by kind.
#[derive(Debug, Default)]
pub struct History {
    /// Latest last, without duplicates.
    entered: BTreeMap<Entered, Vec<String>>,
    /// Whether lines are written to a file.
    is_saved: bool,
    /// Lines that have not been written yet.
    unsaved: Vec<(Entered, String)>,
}

/// The position of a line in the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// Number of entries back; 0 is the typed text.
    back: usize,
    typed: String,
}

impl History {
    /// The entries of a history file, to which new lines are added. Unknown kinds, from another version, are skipped.
    pub fn saved(lines: &[(String, String)]) -> Self {
        let mut history = Self { is_saved: true, ..Self::default() };
        for (word, text) in lines {
            if let Some(kind) = Entered::ALL.into_iter().find(|kind| kind.label() == word) {
                history.put(kind, text);
            }
        }
        history
    }

    /// The lines to write since the last call.
    pub fn take_unsaved(&mut self) -> Vec<(Entered, String)> {
        std::mem::take(&mut self.unsaved)
    }

    /// Adds an entered line; blank lines are not added.
    pub fn keep(&mut self, kind: Entered, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if self.is_saved && !is_secret_in(text) {
            self.unsaved.push((kind, text.to_owned()));
        }
        self.put(kind, text);
    }

    fn put(&mut self, kind: Entered, text: &str) {
        let entries = self.entered.entry(kind).or_default();
        entries.retain(|entry| entry != text);
        entries.push(text.to_owned());
        if entries.len() > MAX_ENTRIES {
            entries.remove(0);
        }
    }

    /// The entries, latest first.
    pub fn latest(&self, kind: Entered) -> impl Iterator<Item = &str> {
        self.entered.get(&kind).into_iter().flatten().rev().map(String::as_str)
    }

    /// Replaces the line by the previous entry or the next one; after the latest entry, by what was typed. Returns
    /// whether there is such an entry.
    pub fn recall(&self, kind: Entered, recall: &mut Recall, line: &mut Line, is_older: bool) -> bool {
        if recall.back == 0 {
            line.text().clone_into(&mut recall.typed);
        }
        let mut back = recall.back;
        loop {
            let next = if is_older { back.checked_add(1) } else { back.checked_sub(1) };
            let Some(next) = next else { return false };
            let entry = match next {
                0 => Some(recall.typed.as_str()),
                next => self.latest(kind).nth(next - 1),
            };
            let Some(entry) = entry else { return false };
            // The current filter is also the latest entry: it is in the line already.
            if entry != line.text() || next == 0 {
                recall.back = next;
                line.set(entry);
                return true;
            }
            back = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::app::input::history::*;

    #[test]
    fn a_saved_history_returns_unsaved_lines_without_secrets() {
        let mut history = History::default();
        history.keep(Entered::Filter, "one");
        assert_eq!(history.take_unsaved(), [], "there is no file");
        let line = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
        let mut history =
            History::saved(&[line("filter", "one"), line("of another version", "x"), line("filter", "two")]);
        assert_eq!(history.latest(Entered::Filter).collect::<Vec<_>>(), ["two", "one"]);
        assert_eq!(history.take_unsaved(), [], "they are in the file");
        history.keep(Entered::Entrypoint, "WANDB_API_KEY=0123 python train.py");
        history.keep(Entered::Entrypoint, "python train.py");
        assert_eq!(history.take_unsaved(), [(Entered::Entrypoint, "python train.py".to_owned())]);
        assert_eq!(
            history.latest(Entered::Entrypoint).count(),
            2,
            "both are recalled until the console quits"
        );
    }

    #[test]
    fn entries_are_recalled_and_the_typed_text_is_restored() {
        let mut history = History::default();
        for text in ["one", "two", " ", "one", "three"] {
            history.keep(Entered::Filter, text);
        }
        assert_eq!(history.latest(Entered::Filter).collect::<Vec<_>>(), ["three", "one", "two"]);
        let (mut line, mut recall) = (Line::new("thr"), Recall::default());
        let mut go = |is_older| {
            let is_there = history.recall(Entered::Filter, &mut recall, &mut line, is_older);
            (is_there, line.text().to_owned())
        };
        assert_eq!(go(false), (false, "thr".to_owned()));
        for text in ["three", "one", "two"] {
            assert_eq!(go(true), (true, text.to_owned()));
        }
        assert_eq!(go(true), (false, "two".to_owned()), "there is nothing older");
        for text in ["one", "three", "thr"] {
            assert_eq!(go(false), (true, text.to_owned()));
        }
        assert!(!history.recall(Entered::Search, &mut Recall::default(), &mut line, true), "another kind");
        let mut line = Line::new("three");
        assert!(history.recall(Entered::Filter, &mut Recall::default(), &mut line, true));
        assert_eq!(line.text(), "one", "the text in the line is skipped");
        for i in 0..MAX_ENTRIES + 5 {
            history.keep(Entered::Filter, &i.to_string());
        }
        assert_eq!(history.latest(Entered::Filter).count(), MAX_ENTRIES);
    }
}
