//! A line editor: cursor, words, undo. Its keys are those of readline, not part of the keymap.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fmt;
use tui_input::{Input, InputRequest};

/// Maximum number of states that undo can restore.
const MAX_UNDO: usize = 100;

/// The effect of a key on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The text changed.
    Changed,
    /// The key belongs to the line, and the text is unchanged.
    Kept,
    /// The key does not belong to the line.
    Nothing,
}

/// A line that is being edited. Two lines are equal if their texts are.
#[derive(Clone, Default)]
pub struct Line {
    input: Input,
    /// Previous texts with their cursors, latest last.
    before: Vec<(String, usize)>,
    /// Whether the last key added a character to a word: undo reverts whole words.
    is_in_word: bool,
}

impl Line {
    /// A line with this text and the cursor at its end.
    pub fn new(text: &str) -> Self {
        Self { input: Input::from(text), ..Self::default() }
    }

    /// The text as typed.
    pub fn text(&self) -> &str {
        self.input.value()
    }

    /// Whether the line is empty.
    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// Characters (Unicode scalar values) before the cursor.
    pub fn cursor(&self) -> usize {
        self.input.cursor()
    }

    /// Replaces the text and puts the cursor at its end; undo restores the previous text.
    pub fn set(&mut self, text: &str) {
        if text != self.text() {
            self.remember();
            self.input = Input::from(text);
        }
        self.is_in_word = false;
    }

    /// Handles a key while the line has the focus.
    pub fn key(&mut self, key: KeyEvent) -> Edit {
        if is_undo(key) {
            return self.undo();
        }
        let Some(request) = request(key) else { return Edit::Nothing };
        let adds_to_word = matches!(request, InputRequest::InsertChar(c) if c != ' ');
        let before = (self.text().to_owned(), self.cursor());
        self.input.handle(request);
        let is_changed = before.0 != self.text();
        if is_changed && !(adds_to_word && self.is_in_word) {
            self.keep(before);
        }
        self.is_in_word = adds_to_word;
        if is_changed { Edit::Changed } else { Edit::Kept }
    }

    /// Inserts the first line of pasted text at the cursor, with spaces for tabs. Terminals send line breaks as `\n` or
    /// `\r`.
    pub fn paste(&mut self, text: &str) {
        self.remember();
        let first = text.split(['\n', '\r']).next().unwrap_or_default();
        let chars = first.chars().map(|c| if c == '\t' { ' ' } else { c });
        for c in chars.filter(|c| !c.is_control()) {
            self.input.handle(InputRequest::InsertChar(c));
        }
        self.is_in_word = false;
    }

    fn remember(&mut self) {
        self.keep((self.text().to_owned(), self.cursor()));
    }

    fn keep(&mut self, before: (String, usize)) {
        if self.before.len() == MAX_UNDO {
            self.before.remove(0);
        }
        self.before.push(before);
    }

    fn undo(&mut self) -> Edit {
        self.is_in_word = false;
        let Some((text, cursor)) = self.before.pop() else { return Edit::Kept };
        self.input = Input::from(text).with_cursor(cursor);
        Edit::Changed
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Line {}

/// Omits the text: it may be a secret, and so may deleted text.
impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("cursor", &self.cursor()).finish_non_exhaustive()
    }
}

/// Whether a key would change a line with text in it.
pub fn is_typed(key: KeyEvent) -> bool {
    Line::new("x").key(key) == Edit::Changed
}

/// Up and `^p` recall older entries (true), down and `^n` newer ones (false).
pub(in crate::app) fn arrow(key: KeyEvent) -> Option<bool> {
    let is_control = key.modifiers == KeyModifiers::CONTROL;
    match key.code {
        KeyCode::Up => Some(true),
        KeyCode::Down => Some(false),
        KeyCode::Char('p') if is_control => Some(true),
        KeyCode::Char('n') if is_control => Some(false),
        _ => None,
    }
}

/// `^_`, which terminals also send for `^/`, and older ones report as `^7`.
fn is_undo(key: KeyEvent) -> bool {
    matches!(key.code, KeyCode::Char('_' | '/' | '7')) && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// The edit that a key requests; `None` for keys that do not belong to the line.
fn request(key: KeyEvent) -> Option<InputRequest> {
    use InputRequest as Do;
    let (control, alt) =
        (key.modifiers.contains(KeyModifiers::CONTROL), key.modifiers.contains(KeyModifiers::ALT));
    Some(match key.code {
        KeyCode::Left if control || alt => Do::GoToPrevWord,
        KeyCode::Right if control || alt => Do::GoToNextWord,
        KeyCode::Left => Do::GoToPrevChar,
        KeyCode::Right => Do::GoToNextChar,
        KeyCode::Home => Do::GoToStart,
        KeyCode::End => Do::GoToEnd,
        KeyCode::Backspace if control || alt => Do::DeletePrevWord,
        KeyCode::Backspace => Do::DeletePrevChar,
        KeyCode::Delete if control || alt => Do::DeleteNextWord,
        KeyCode::Delete => Do::DeleteNextChar,
        KeyCode::Char(c) => match (control, alt, c) {
            (false, false, c) => Do::InsertChar(c),
            (true, false, 'a') => Do::GoToStart,
            (true, false, 'b') => Do::GoToPrevChar,
            (true, false, 'd') => Do::DeleteNextChar,
            (true, false, 'e') => Do::GoToEnd,
            (true, false, 'f') => Do::GoToNextChar,
            (true, false, 'h') => Do::DeletePrevChar,
            (true, false, 'k') => Do::DeleteTillEnd,
            (true, false, 'u') => Do::DeleteFromStart,
            (true, false, 'w') => Do::DeletePrevWord,
            (true, false, 'y') => Do::Yank,
            (false, true, 'b') => Do::GoToPrevWord,
            (false, true, 'd') => Do::DeleteNextWord,
            (false, true, 'f') => Do::GoToNextWord,
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::app::input::line::*;

    const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
    const ALT: KeyModifiers = KeyModifiers::ALT;

    /// Returns the line after the keys, with the cursor initially at the end of `text`.
    fn after(text: &str, keys: &[(KeyCode, KeyModifiers)]) -> (String, usize) {
        let mut line = Line::new(text);
        for (code, modifiers) in keys {
            assert_ne!(line.key(KeyEvent::new(*code, *modifiers)), Edit::Nothing, "{code:?}");
        }
        (line.text().to_owned(), line.cursor())
    }

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let plain = |code| (code, KeyModifiers::NONE);
        let control = |c| (KeyCode::Char(c), CONTROL);
        let alt = |c| (KeyCode::Char(c), ALT);
        let text = "owner:dara state:failed x";
        for (keys, left, cursor) in [
            (vec![plain(KeyCode::Left), plain(KeyCode::Char('y'))], "owner:dara state:failed yx", 25),
            (vec![control('b'), plain(KeyCode::Delete)], "owner:dara state:failed ", 24),
            (vec![plain(KeyCode::Home), control('d')], "wner:dara state:failed x", 0),
            (vec![control('a'), control('e'), plain(KeyCode::Backspace)], "owner:dara state:failed ", 24),
            (vec![control('w'), control('w')], "owner:dara ", 11),
            (vec![alt('b'), alt('b'), control('k')], "owner:dara ", 11),
            (vec![(KeyCode::Left, CONTROL), (KeyCode::Left, ALT), control('u')], "state:failed x", 0),
            (vec![control('a'), alt('f'), alt('d')], "owner:dara x", 11),
            (vec![control('a'), (KeyCode::Right, CONTROL), control('f')], text, 12),
            (vec![control('u'), control('y'), control('h')], "owner:dara state:failed ", 24),
        ] {
            assert_eq!(after(text, &keys), (left.to_owned(), cursor), "{keys:?}");
        }
        assert_eq!(Line::new("a").key(KeyEvent::new(KeyCode::Char('z'), CONTROL)), Edit::Nothing);
        assert_eq!(Line::new("a").key(KeyEvent::from(KeyCode::Up)), Edit::Nothing);
        assert_eq!(Line::new("a").key(KeyEvent::from(KeyCode::Right)), Edit::Kept);
    }

    #[test]
    fn undo_reverts_words_and_deletions() {
        let mut line = Line::default();
        let type_in = |line: &mut Line, text: &str| {
            for c in text.chars() {
                line.key(KeyEvent::from(KeyCode::Char(c)));
            }
        };
        type_in(&mut line, "one two");
        line.key(KeyEvent::new(KeyCode::Char('u'), CONTROL));
        assert!(line.is_empty());
        let undo = KeyEvent::new(KeyCode::Char('7'), CONTROL);
        for text in ["one two", "one ", "one", ""] {
            assert_eq!((line.key(undo), line.text()), (Edit::Changed, text));
        }
        assert_eq!(line.key(undo), Edit::Kept, "there is nothing left to undo");
        line.set("restart");
        type_in(&mut line, "s");
        line.key(undo);
        assert_eq!(line.text(), "restart");
        for _ in 0..MAX_UNDO + 50 {
            line.paste("ab");
        }
        for _ in 0..MAX_UNDO {
            line.key(undo);
        }
        assert_eq!(line.text().len(), "restart".len() + 100, "undo is bounded");
    }

    #[test]
    fn the_first_pasted_line_is_inserted_at_the_cursor() {
        let mut line = Line::new("ab");
        line.key(KeyEvent::from(KeyCode::Left));
        line.paste("q\x1b[31m!\nsecond line");
        assert_eq!((line.text(), line.cursor()), ("aq[31m!b", 7));
        line.key(KeyEvent::new(KeyCode::Char('/'), CONTROL));
        assert_eq!((line.text(), line.cursor()), ("ab", 1));
        line.paste("\tx\rsecond line");
        assert_eq!(line.text(), "a xb", "a terminal sends a carriage return for a line break");
    }

    #[test]
    fn a_grapheme_cluster_is_deleted_as_one_character() {
        let family = "a👨‍👩‍👧b";
        assert_eq!(
            after(family, &[(KeyCode::Left, KeyModifiers::NONE), (KeyCode::Backspace, KeyModifiers::NONE)]).0,
            "ab"
        );
        assert!(!format!("{:?}", Line::new("s3cret")).contains("s3cret"));
    }
}
