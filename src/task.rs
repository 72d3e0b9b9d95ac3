//! Starts tasks and blocking work on the runtime. Boxed, they are one type for each type of result, for which the runtime's
//! code is compiled once: that saves half a megabyte and the time to link it.

use std::future::Future;

use futures_util::FutureExt as _;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

/// Starts a task.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work.boxed())
}

/// Starts a task of a set.
pub fn spawn_on<T: Send + 'static>(
    set: &mut JoinSet<T>,
    work: impl Future<Output = T> + Send + 'static,
) -> AbortHandle {
    set.spawn(work.boxed())
}

/// Starts work that may block, for example on a disk, on a separate thread.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    tokio::task::spawn_blocking(work)
}
