//! Keys and pasted text that a dialog takes before the keymap does: typed text, recalled entries, choices.

use crate::app::action::keymap::Meaning;
use crate::app::input::history::History;
use crate::app::input::line::Edit;
use crate::app::screen::dialog::{Dialog, Search};
use crossterm::event::{KeyCode, KeyEvent};

/// A key that is pressed while a dialog is open.
pub(in crate::app) struct DialogKey<'a> {
    /// The key.
    pub key: KeyEvent,
    /// Its meaning in the keymap.
    pub meaning: Meaning,
    /// Whether it starts a filter on some page.
    pub is_filter: bool,
    /// The entries that a form recalls.
    pub history: &'a History,
}

/// Whether a dialog has taken a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::app) enum Taken {
    /// The keymap decides.
    No,
    /// It has.
    Yes,
    /// It has, and the pages of the manual have to be listed.
    ListsManual,
}

impl Taken {
    fn when(is_taken: bool) -> Self {
        if is_taken { Self::Yes } else { Self::No }
    }
}

impl Dialog {
    /// Handles a key, if it is typed text or belongs to the focused row.
    pub(in crate::app) fn take_key(&mut self, pressed: &DialogKey<'_>) -> Taken {
        match self {
            Self::Text { pages: true, search: Search { is_open: false, .. }, .. }
                if pressed.key.code == KeyCode::Enter =>
            {
                Taken::ListsManual
            }
            Self::Text { search, scroll, .. } => {
                let was_open = search.is_open;
                let is_taken = search.take_key(pressed);
                if search.is_open && !was_open {
                    scroll.reset();
                }
                Taken::when(is_taken)
            }
            Self::Plan(plan) => Taken::when(plan.take_key(pressed.key, pressed.meaning)),
            Self::Form(form) => Taken::when(form.take_key(pressed.key, pressed.history)),
            Self::Worker(form) => Taken::when(form.take_key(pressed.key)),
            Self::Ask { .. } | Self::Columns(_) => Taken::No,
        }
    }

    /// Inserts pasted text at the cursor. Returns false if no line has the focus.
    pub(in crate::app) fn paste(&mut self, text: &str) -> bool {
        match self {
            Self::Text { search, .. } if search.is_open => search.line.paste(text),
            Self::Plan(plan) => return plan.paste(text),
            Self::Form(form) => return form.paste(text),
            Self::Worker(form) => return form.paste(text),
            Self::Text { .. } | Self::Ask { .. } | Self::Columns(_) => return false,
        }
        true
    }
}

impl Search {
    /// Handles a key: Enter and Esc end the search, and the key for filters starts one.
    fn take_key(&mut self, pressed: &DialogKey<'_>) -> bool {
        match (pressed.key.code, self.is_open) {
            (KeyCode::Enter, true) => self.is_open = false,
            (KeyCode::Backspace, true) if self.line.is_empty() => self.is_open = false,
            (KeyCode::Esc, _) if self.is_open || !self.line.is_empty() => *self = Self::default(),
            (_, false) if pressed.is_filter => self.is_open = true,
            (_, true) => return self.line.key(pressed.key) != Edit::Nothing,
            (_, false) => return false,
        }
        true
    }
}
