//! Locks that survive a panic elsewhere.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the mutex, even if another holder panicked.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
