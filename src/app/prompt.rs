//! The input line at the bottom: a filter, a search, a command.

use super::line::{Edit, Line};
use crossterm::event::{KeyCode, KeyEvent};

/// An open input line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The purpose of the prompt.
    pub kind: PromptKind,
    /// What is typed.
    pub line: Line,
    /// The text before, which Esc restores.
    pub before: String,
}

/// The purpose of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// Filters the table under it, live.
    Filter,
    /// Searches the log, live.
    Search,
    /// Runs an action by name.
    Command,
}

/// The effect of a key on a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// The text changed.
    Changed,
    /// Tab: the text is to be completed.
    Complete,
    /// Enter: the text is complete.
    Enter,
    /// Esc: the prompt is closed.
    Escape,
    /// The key has no effect.
    Nothing,
}

impl Prompt {
    /// A prompt that starts with the text that was there before.
    pub fn new(kind: PromptKind, before: &str) -> Self {
        Self { kind, line: Line::new(before), before: before.to_owned() }
    }

    /// A key while it is open. These are the editing keys of any line, not part of the keymap.
    pub fn key(&mut self, key: KeyEvent) -> Typed {
        match key.code {
            KeyCode::Enter => Typed::Enter,
            KeyCode::Esc => Typed::Escape,
            KeyCode::Tab => Typed::Complete,
            KeyCode::Backspace if self.line.is_empty() => Typed::Escape,
            _ if self.line.key(key) == Edit::Changed => Typed::Changed,
            _ => Typed::Nothing,
        }
    }
}

/// What `text` can be completed to: as far as all of `candidates` agree.
pub fn complete(text: &str, candidates: impl IntoIterator<Item = String>) -> Option<String> {
    let mut matching = candidates.into_iter().filter(|c| c.starts_with(text));
    let first = matching.next()?;
    let common = matching.fold(first, |common, c| {
        let same = common.chars().zip(c.chars()).take_while(|(a, b)| a == b);
        same.map(|(a, _)| a).collect()
    });
    (common.len() > text.len()).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_goes_as_far_as_all_agree() {
        let words = || ["sort-next", "sort-previous", "ssh"].map(String::from);
        assert_eq!(complete("so", words()).as_deref(), Some("sort-"));
        assert_eq!(complete("ss", words()).as_deref(), Some("ssh"));
        assert_eq!(complete("sort-", words()), None);
        assert_eq!(complete("x", words()), None);
    }

    #[test]
    fn backspace_in_an_empty_line_closes_it() {
        let mut prompt = Prompt::new(PromptKind::Filter, "ab");
        let mut press = |code| prompt.key(KeyEvent::from(code));
        assert_eq!(press(KeyCode::Left), Typed::Nothing);
        assert_eq!((press(KeyCode::Backspace), press(KeyCode::Delete)), (Typed::Changed, Typed::Changed));
        assert_eq!(press(KeyCode::Backspace), Typed::Escape);
    }
}
