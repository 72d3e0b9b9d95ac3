//! Logs as streams of whole lines: a job's driver log, live, and any file of a node.
//!
//! A stream reconnects by itself and neither loses nor repeats a line; memory is bounded on every way. Where the
//! lines go, and what is shown of them, is the caller's business.

mod files;
mod job;
mod lines;
mod socket;

pub use files::{LogFiles, cleaned, follow_log};
pub use job::follow_job;
pub use lines::LineSplitter;

use super::{Client, RayError};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// What happens on a log stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// Whole lines in order, cleaned for a terminal.
    Lines(Vec<String>),
    /// Broken for the moment, and why; it goes on by itself.
    Interrupted(String),
    /// The job has ended and everything was read. Nothing follows.
    Complete,
    /// It cannot be read. Nothing follows.
    Failed(RayError),
}

/// An open stream. Dropping it closes it.
#[derive(Debug)]
pub struct Tail {
    events: mpsc::Receiver<LogEvent>,
    task: AbortHandle,
}

impl Tail {
    /// The next event; `None` after [`LogEvent::Complete`] or [`LogEvent::Failed`].
    pub async fn next(&mut self) -> Option<LogEvent> {
        self.events.recv().await
    }

    /// Runs `follow` until it ends or nobody listens any more.
    fn spawn<F>(follow: impl FnOnce(Outlet) -> F, keep: usize) -> Self
    where
        F: Future<Output = Result<(), Closed>> + Send + 'static,
    {
        const BATCHES: usize = 8;
        let (sender, events) = mpsc::channel(BATCHES);
        let following = follow(Outlet::new(sender, keep));
        // An error says that the receiver is gone: the stream was closed, nobody is left to tell.
        let task = tokio::spawn(async move { following.await.unwrap_or(()) });
        Self { events, task: task.abort_handle() }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Nobody listens any more.
#[derive(Debug)]
struct Closed;

/// Whom a stream asks: another client comes with another token or other ports, and the stream goes on where it was.
struct InForce(watch::Receiver<Client>);

impl InForce {
    /// How long another token is waited for before the same one is tried again.
    const PATIENCE: Duration = Duration::from_secs(15);

    /// One that stays.
    fn only(client: Client) -> Self {
        Self(watch::channel(client).1)
    }

    fn client(&self) -> Client {
        self.0.borrow().clone()
    }

    /// Whether it is worth going on after an error: a refused token waits for another one as long as one may come.
    /// A stream that has told nothing is in nobody's memory: it gives up, so that another way can be tried.
    async fn outlives(&mut self, error: &RayError, out: &mut Outlet) -> Result<bool, Closed> {
        if !error.is_token() || self.0.has_changed().is_err() {
            return Ok(false);
        }
        out.interrupted(format!("{error}; waiting for another token")).await?;
        match tokio::time::timeout(Self::PATIENCE, self.0.changed()).await {
            Ok(another) => Ok(another.is_ok()),
            Err(_) => Ok(out.told),
        }
    }
}

/// Gathers lines into batches, so that ten thousand lines a second are a hundred events.
struct Outlet {
    sender: mpsc::Sender<LogEvent>,
    splitter: LineSplitter,
    batch: VecDeque<String>,
    since: Instant,
    /// Some line was handed on.
    told: bool,
    /// How many of the newest lines to hand on while old ones are replayed; `None` once it is live.
    replay: Option<usize>,
}

impl Outlet {
    /// A batch is sent when it has so many lines,
    const FULL: usize = 1000;
    /// or is so old,
    const OLD: Duration = Duration::from_millis(100);
    /// or nothing has come for so long.
    const QUIET: Duration = Duration::from_millis(25);
    /// A replay is over when nothing has come for so long.
    const CAUGHT_UP: Duration = Duration::from_millis(300);

    fn new(sender: mpsc::Sender<LogEvent>, keep: usize) -> Self {
        let splitter = LineSplitter::default();
        let since = Instant::now();
        Self { sender, splitter, batch: VecDeque::new(), since, told: false, replay: Some(keep) }
    }

    /// Takes in bytes of the log; sends a batch when it is due.
    async fn feed(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        if self.batch.is_empty() {
            self.since = Instant::now();
        }
        self.batch.extend(self.splitter.push(bytes));
        match self.replay {
            Some(keep) => {
                let surplus = self.batch.len().saturating_sub(keep);
                self.batch.drain(..surplus);
                Ok(())
            }
            None if self.batch.len() >= Self::FULL || self.since.elapsed() >= Self::OLD => self.flush().await,
            None => Ok(()),
        }
    }

    /// How long to wait for more before [`Outlet::pause`]; `None` when there is nothing to hand on.
    fn patience(&self) -> Option<Duration> {
        match self.replay {
            _ if self.batch.is_empty() => None,
            Some(_) => Some(Self::CAUGHT_UP),
            None => Some(Self::QUIET.min(Self::OLD.saturating_sub(self.since.elapsed()))),
        }
    }

    /// Nothing has come for a while: what is there goes out, and from now on everything counts.
    async fn pause(&mut self) -> Result<(), Closed> {
        self.replay = None;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Closed> {
        while !self.batch.is_empty() {
            let some = self.batch.len().min(Self::FULL);
            let lines = self.batch.drain(..some).collect();
            self.told = true;
            self.send(LogEvent::Lines(lines)).await?;
        }
        Ok(())
    }

    async fn interrupted(&mut self, why: impl ToString) -> Result<(), Closed> {
        self.pause().await?;
        self.send(LogEvent::Interrupted(why.to_string())).await
    }

    /// The end: an unfinished last line goes out too.
    async fn complete(&mut self) -> Result<(), Closed> {
        self.batch.extend(self.splitter.finish());
        self.pause().await?;
        self.send(LogEvent::Complete).await
    }

    async fn failed(&mut self, error: RayError) -> Result<(), Closed> {
        self.pause().await?;
        self.send(LogEvent::Failed(error)).await
    }

    async fn send(&self, event: LogEvent) -> Result<(), Closed> {
        self.sender.send(event).await.map_err(|_| Closed)
    }
}

/// Waits longer after each failure, up to half a minute.
struct Backoff(Duration);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(500);

    fn reset(&mut self) {
        self.0 = Self::FIRST;
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Duration::from_secs(30));
    }
}
