//! Runs work that may block on a disk.

use crate::task;

/// Runs blocking work on a separate thread.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime is shutting down; there is nothing left to report.
        Err(e) if e.is_cancelled() => std::future::pending().await,
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}
