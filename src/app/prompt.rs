//! The input line at the bottom: a filter, a search, a command.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// An open input line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The purpose of the prompt.
    pub kind: PromptKind,
    /// The text typed so far.
    pub text: String,
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
        Self { kind, text: before.to_owned(), before: before.to_owned() }
    }

    /// A key while it is open. These are the editing keys of any line, not part of the keymap.
    pub fn key(&mut self, key: KeyEvent) -> Typed {
        match key.code {
            KeyCode::Enter => Typed::Enter,
            KeyCode::Esc => Typed::Escape,
            KeyCode::Tab => Typed::Complete,
            KeyCode::Backspace if self.text.is_empty() => Typed::Escape,
            _ if edit(&mut self.text, key) => Typed::Changed,
            _ => Typed::Nothing,
        }
    }

    /// Pasted text: one line of it.
    pub fn paste(&mut self, text: &str) {
        paste(&mut self.text, text);
    }
}

/// Edits a line at its end. False when the key is none that edits.
pub(super) fn edit(text: &mut String, key: KeyEvent) -> bool {
    let control = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match key.code {
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char('u') if control => text.clear(),
        KeyCode::Char('w') if control => {
            let kept = text.trim_end().rfind(' ').map_or(0, |i| i + 1);
            text.truncate(kept);
        }
        KeyCode::Char(c) if !control => text.push(c),
        _ => return false,
    }
    true
}

/// Puts the first line of pasted text at the end.
pub(super) fn paste(line: &mut String, text: &str) {
    line.extend(text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()));
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
    fn a_line_is_edited_as_everywhere() {
        let mut prompt = Prompt::new(PromptKind::Filter, "a b");
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!(prompt.key(control('w')), Typed::Changed);
        assert_eq!(prompt.text, "a ");
        prompt.paste("q\x1b[31m!\nsecond line");
        assert_eq!(prompt.text, "a q[31m!");
        prompt.key(control('u'));
        assert_eq!(prompt.key(KeyEvent::from(KeyCode::Backspace)), Typed::Escape);
    }
}
