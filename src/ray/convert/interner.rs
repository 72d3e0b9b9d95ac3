//! Interns texts that many rows of a response share.

use crate::model::Text;
use std::cell::RefCell;
use std::collections::HashSet;

/// The texts of one response: a thousand nodes have the same resources, labels and types.
#[derive(Debug, Default)]
pub struct Interner(RefCell<HashSet<Text>>);

impl Interner {
    /// The text, with one allocation for equal texts.
    pub fn text(&self, words: &str) -> Text {
        let mut known = self.0.borrow_mut();
        if let Some(text) = known.get(words) {
            return text.clone();
        }
        let text = Text::from(words);
        known.insert(text.clone());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_stored_once() {
        let words = Interner::default();
        let (a, b) = (words.text("TPU"), words.text("TPU"));
        assert!(std::ptr::eq(a.raw(), b.raw()));
        assert_ne!(a, words.text("CPU"));
    }
}
