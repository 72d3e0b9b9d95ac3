//! Whose mark it is: what became of one that was placed, and those that this process has placed.

use crate::model::OperationMark;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What became of a mark that was to be placed or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkOwnership {
    /// It is there, and it is ours.
    Ours,
    /// Our mark is gone; contains the mark found instead, if any.
    Lost(Option<Box<OperationMark>>),
}

/// The ids of the marks that this process has placed: news of them would only repeat what it knows.
#[derive(Clone, Debug, Default)]
pub struct OwnMarks(Arc<Mutex<HashSet<String>>>);

impl OwnMarks {
    pub(super) fn add(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    /// Whether this process has placed the mark with that id.
    pub fn has(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}
