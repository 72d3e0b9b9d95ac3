//! The input line at the bottom: a filter, a search or a command.

use crate::app::input::entry::Offer;
use crate::app::input::history::{Entered, History, Recall};
use crate::app::input::line::{Edit, Line, arrow};
use crate::app::input::verb::{Verb, split};
use crossterm::event::{KeyCode, KeyEvent};

/// An open input line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The purpose of the prompt.
    pub kind: PromptKind,
    /// The typed text.
    pub line: Line,
    /// The previous text, which Esc restores.
    pub before: String,
    /// The error in the text; empty if it is valid.
    pub wrong: String,
    /// The index of the chosen entry of the list.
    pub chosen: usize,
    /// Whether that entry was chosen with the arrows, and not by the typed text.
    pub is_chosen: bool,
    /// The entries of a list that was built when the prompt was opened.
    pub given: Vec<Offer>,
    /// The list when an entry was chosen: events do not move other entries under the choice.
    pub held: Vec<Offer>,
    recall: Recall,
}

/// The purpose of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// Filters the table under it, live.
    Filter,
    /// Searches the log, live.
    Search,
    /// Shows only some lines of the log, live.
    Lines,
    /// Runs an action by name.
    Command,
    /// Opens a page of the manual.
    Page,
    /// Copies one of the values that are listed.
    Copy,
    /// Goes to one of the lines that a search of the whole log has found.
    Found,
    /// Opens one of the log files of a host.
    Files,
    /// Opens the host of one of a job's processes.
    Processes,
    /// Shows the stacks of one of the jobs that hold a slice or a host.
    Runs,
    /// Goes to a line or a time of the log.
    GoTo,
    /// Saves lines of the log to the file at that path.
    Save,
    /// Shows only lines of the log from a time on.
    Since,
    /// Searches the logs of all clusters.
    Logs,
}

/// The effect of a key on a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// The text changed.
    Changed,
    /// Tab: the text has to be completed.
    Complete,
    /// An arrow or its control key: the previous or the next history entry has to be recalled.
    Recall {
        /// Whether it is the previous one.
        is_older: bool,
    },
    /// An arrow in a list: the entry above or below has to be chosen.
    Choose {
        /// Whether it is the one below.
        is_down: bool,
    },
    /// Page up or page down in a list: an entry further up or down has to be chosen.
    Leap {
        /// Whether it is one below.
        is_down: bool,
    },
    /// Enter: the text is complete.
    Enter,
    /// Esc: the prompt has to be closed.
    Escape,
    /// The key has no effect.
    Nothing,
}

impl PromptKind {
    /// The title of the list above the line, from which the arrows choose; `None` if there is no such list.
    pub fn list(self) -> Option<&'static str> {
        match self {
            Self::Command => Some("commands"),
            Self::Page => Some("manual"),
            Self::Copy => Some("copy"),
            Self::Found => Some("lines of the whole log"),
            Self::Files => Some("log files"),
            Self::Processes => Some("processes"),
            Self::Runs => Some("jobs on this slice or host"),
            Self::Filter
            | Self::Search
            | Self::Lines
            | Self::GoTo
            | Self::Save
            | Self::Since
            | Self::Logs => None,
        }
    }

    /// Whether there is such a list.
    pub fn has_list(self) -> bool {
        self.list().is_some()
    }

    /// Whether typed text takes effect immediately.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Filter | Self::Search | Self::Lines)
    }

    /// The history that is recalled in such a line.
    fn entered(self) -> Option<Entered> {
        match self {
            Self::Filter => Some(Entered::Filter),
            Self::Search | Self::Lines | Self::Logs => Some(Entered::Search),
            Self::Command => Some(Entered::Command),
            Self::Page
            | Self::Copy
            | Self::Found
            | Self::Files
            | Self::Processes
            | Self::Runs
            | Self::GoTo
            | Self::Save
            | Self::Since => None,
        }
    }
}

impl Prompt {
    /// A prompt that starts with the previous text.
    pub fn new(kind: PromptKind, before: &str) -> Self {
        Self {
            kind,
            line: Line::new(before),
            before: before.to_owned(),
            wrong: String::new(),
            chosen: 0,
            is_chosen: false,
            given: Vec::new(),
            held: Vec::new(),
            recall: Recall::default(),
        }
    }

    /// A prompt that starts with the previous text, and with a space after it: further words are typed.
    pub fn with_more(kind: PromptKind, before: &str) -> Self {
        let mut prompt = Self::new(kind, before);
        if !before.is_empty() {
            prompt.line.set(&format!("{before} "));
        }
        prompt
    }

    /// A list of these entries, of which the first is chosen.
    pub fn of(kind: PromptKind, given: Vec<Offer>) -> Self {
        Self { given, is_chosen: true, ..Self::new(kind, "") }
    }

    /// Handles a key while the prompt is open. These are the editing keys of any line, not part of the keymap.
    pub fn key(&mut self, key: KeyEvent) -> Typed {
        match (key.code, arrow(key)) {
            (KeyCode::Enter, _) => Typed::Enter,
            (KeyCode::Esc, _) => Typed::Escape,
            (KeyCode::Tab, _) => Typed::Complete,
            (KeyCode::Up | KeyCode::Down, Some(is_older)) if self.kind.has_list() => {
                Typed::Choose { is_down: !is_older }
            }
            (code @ (KeyCode::PageUp | KeyCode::PageDown), _) if self.kind.has_list() => {
                Typed::Leap { is_down: code == KeyCode::PageDown }
            }
            (_, Some(is_older)) => Typed::Recall { is_older },
            (KeyCode::Backspace, _) if self.line.is_empty() => Typed::Escape,
            _ => match self.line.key(key) {
                Edit::Changed => {
                    self.edited();
                    Typed::Changed
                }
                Edit::Kept | Edit::Nothing => Typed::Nothing,
            },
        }
    }

    /// Inserts the first line of pasted text at the cursor.
    pub fn paste(&mut self, text: &str) {
        self.line.paste(text);
        self.edited();
    }

    /// Replaces the text by the chosen command.
    pub fn complete(&mut self, words: &str) {
        self.line.set(words);
        self.edited();
    }

    /// Begins a new recall from the edited text, which is another list.
    fn edited(&mut self) {
        self.recall = Recall::default();
        self.choose_nothing();
    }

    fn choose_nothing(&mut self) {
        (self.chosen, self.is_chosen) = (0, false);
        self.held.clear();
    }

    /// Chooses the entry of this list with this index.
    pub fn choose_at(&mut self, index: usize, offers: Vec<Offer>) {
        (self.chosen, self.is_chosen) = (index, true);
        self.held = offers;
    }

    /// Chooses the next or previous entry of this list, and wraps around. While none is chosen, moving down chooses the
    /// first entry, and moving up the last one.
    pub fn choose(&mut self, is_down: bool, offers: Vec<Offer>) {
        let of = offers.len();
        if of > 0 {
            let chosen = match (self.chosen_offer(&offers), is_down) {
                (None, true) => 0,
                (None, false) => of - 1,
                (Some(chosen), true) => (chosen + 1) % of,
                (Some(chosen), false) => (chosen + of - 1) % of,
            };
            self.choose_at(chosen, offers);
        }
    }

    /// Moves the choice by a page in this list, up to the first or the last entry.
    pub fn leap(&mut self, is_down: bool, offers: Vec<Offer>) {
        /// Entries per page.
        const PAGE: usize = 10;
        let Some(last) = offers.len().checked_sub(1) else { return };
        let chosen = if is_down { (self.chosen + PAGE).min(last) } else { self.chosen.saturating_sub(PAGE) };
        self.choose_at(chosen, offers);
    }

    /// The entry that Enter takes, by its index among the offers: the one chosen with the arrows, else the best match.
    /// The argument of a command has to be chosen or unambiguous.
    pub fn chosen_offer(&self, offers: &[Offer]) -> Option<usize> {
        if !self.has_choice() {
            return None;
        }
        let (verb, argument) = split(self.line.text());
        let chosen = match argument {
            _ if self.is_chosen => self.chosen,
            Some(typed) if self.kind == PromptKind::Command && Verb::named(verb) != Some(Verb::Help) => {
                let named: Vec<usize> =
                    (0..offers.len()).filter(|i| split(&offers[*i].text).1 == Some(typed)).collect();
                match named.as_slice() {
                    // A name that exists on several clusters is ambiguous.
                    [only] => *only,
                    [] if offers.len() == 1 && !typed.is_empty() => 0,
                    _ => return None,
                }
            }
            _ => 0,
        };
        (chosen < offers.len()).then_some(chosen)
    }

    /// Whether an entry of the list is chosen with the arrows, or a text is typed.
    pub fn has_choice(&self) -> bool {
        self.is_chosen || !self.line.text().trim().is_empty()
    }

    /// Recalls the previous history entry or the next one. Returns whether there is one.
    pub fn recall(&mut self, history: &History, is_older: bool) -> bool {
        self.choose_nothing();
        let kind = self.kind.entered();
        kind.is_some_and(|kind| history.recall(kind, &mut self.recall, &mut self.line, is_older))
    }

    /// Adds the typed text to the history.
    pub fn keep(&self, history: &mut History) {
        if let Some(kind) = self.kind.entered() {
            history.keep(kind, self.line.text());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::app::input::prompt::*;
    use crossterm::event::KeyModifiers;

    #[test]
    fn backspace_in_an_empty_line_closes_it() {
        let mut prompt = Prompt::new(PromptKind::Filter, "ab");
        let mut press = |code| prompt.key(KeyEvent::from(code));
        assert_eq!(press(KeyCode::Left), Typed::Nothing);
        assert_eq!((press(KeyCode::Backspace), press(KeyCode::Delete)), (Typed::Changed, Typed::Changed));
        assert_eq!(press(KeyCode::Backspace), Typed::Escape);
    }

    #[test]
    fn arrows_recall_where_there_is_no_list() {
        let up = KeyEvent::from(KeyCode::Up);
        let control = KeyEvent::new(KeyCode::Char('p'), KeyModifiers::CONTROL);
        for (kind, of_up) in [
            (PromptKind::Filter, Typed::Recall { is_older: true }),
            (PromptKind::Command, Typed::Choose { is_down: false }),
        ] {
            let mut prompt = Prompt::new(kind, "");
            assert_eq!(prompt.key(up), of_up);
            assert_eq!(prompt.key(control), Typed::Recall { is_older: true });
        }
        let mut prompt = Prompt::new(PromptKind::Command, "");
        let offers = |count| vec![Offer::new("x", ""); count];
        prompt.choose(false, offers(3));
        assert_eq!((prompt.chosen, prompt.is_chosen), (2, true));
        prompt.choose(true, offers(3));
        assert_eq!(prompt.chosen, 0);
        prompt.key(KeyEvent::from(KeyCode::Char('x')));
        assert!(!prompt.is_chosen, "another list");
        let down = KeyEvent::from(KeyCode::PageDown);
        assert_eq!(prompt.key(down), Typed::Leap { is_down: true });
        let after = [true, true, false, false].map(|is_down| {
            prompt.leap(is_down, offers(15));
            prompt.chosen
        });
        assert_eq!(after, [10, 14, 4, 0]);
        assert_eq!(Prompt::new(PromptKind::Filter, "").key(down), Typed::Nothing);
    }
}
