//! Reduces the cost of a refresh: large parts are read less often, unchanged parts keep their allocation, and long
//! computations run on another thread than the requests.

use super::super::RayError;
use crate::model::Job;
use crate::task;
use std::num::NonZero;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Size in bytes below which a response counts as cheap for a head.
const CHEAP_RESPONSE: usize = 64 << 10;

/// Decides when to read something large or slow that is not read at each refresh.
#[derive(Debug, Default)]
pub(super) struct ReadSchedule {
    read: Option<Instant>,
    bytes: usize,
}

impl ReadSchedule {
    /// Whether it is due: every few seconds if it is small, every half minute if it is large.
    pub(super) fn is_due(&self) -> bool {
        let every = Duration::from_secs(if self.is_cheap() { 4 } else { 30 });
        self.read.is_none_or(|at| at.elapsed() >= every)
    }

    /// Whether it is small enough to be read at each refresh.
    pub(super) fn is_cheap(&self) -> bool {
        self.bytes < CHEAP_RESPONSE
    }

    /// Whether it was never read.
    pub(super) fn never(&self) -> bool {
        self.read.is_none()
    }

    pub(super) fn done(&mut self, bytes: usize) {
        *self = Self { read: Some(Instant::now()), bytes };
    }
}

/// The old allocation when nothing changed, so that receivers can skip it.
pub(super) fn unless_same<T: PartialEq>(old: &Arc<T>, new: T) -> Arc<T> {
    if **old == new { old.clone() } else { Arc::new(new) }
}

/// [`unless_same`] for jobs, which are compared by allocation.
pub(super) fn unless_same_jobs(old: &Arc<Vec<Arc<Job>>>, new: Vec<Arc<Job>>) -> Arc<Vec<Arc<Job>>> {
    let same = old.len() == new.len() && old.iter().zip(&new).all(|(a, b)| Arc::ptr_eq(a, b));
    if same { old.clone() } else { Arc::new(new) }
}

/// Runs work of more than a millisecond on a blocking thread.
pub(super) async fn off_the_loop<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, RayError> + Send + 'static,
) -> Result<T, RayError> {
    const CHEAP_PARSE: usize = 32 << 10;
    /// Maximum number of such tasks at a time: more would only use more memory.
    static CORES: LazyLock<Semaphore> =
        LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, NonZero::get)));
    if bytes < CHEAP_PARSE {
        return work();
    }
    let _turn = CORES.acquire().await;
    let task = task::spawn_blocking(work).await;
    task.map_err(|e| RayError::Malformed { route: "an answer".to_owned(), why: e.to_string() })?
}
