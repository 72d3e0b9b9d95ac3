//! The result of placing a lock, and the locks of this process.

use crate::model::{OperationLock, Problem};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The result of placing or renewing a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOwnership {
    /// The lock exists and is ours.
    Ours,
    /// Our lock is gone; contains the lock found instead, if any.
    Lost(Option<Box<OperationLock>>),
    /// There is a lock that cannot be read, for this reason.
    Unreadable(Box<Problem>),
}

/// The ids of the locks that this process has placed, whose events would only repeat what it knows.
#[derive(Clone, Debug, Default)]
pub struct OwnLocks(Arc<Mutex<HashSet<String>>>);

impl OwnLocks {
    pub(super) fn add(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    /// Whether this process has placed the lock with this id.
    pub fn has(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}
