//! An open stream: what it passes on, the client that it uses, and when it retries.

use super::super::{Client, RayError};
use crate::logs::LineSplitter;
use crate::model::Line;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// Requests the whole existing log, from its first line on; lines are passed on as they arrive.
pub const WHOLE_LOG: usize = usize::MAX;

/// An event of a log stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// Whole lines in order, cleaned for a terminal.
    Lines(Vec<Line>),
    /// Interrupted, with the reason; the stream reconnects by itself.
    Interrupted(String),
    /// Reconnected after an interruption; there may be no new lines.
    Resumed,
    /// Some of the requested older lines are left out, with the reason.
    LeftOut(String),
    /// The job has ended and its log was read completely. This is the last event.
    Complete,
    /// The log cannot be read. This is the last event.
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

    /// Runs `follow` until it ends or the stream is closed.
    pub(super) fn spawn<F>(follow: impl FnOnce(Outlet) -> F, keep: usize, longest: usize) -> Self
    where
        F: Future<Output = Result<(), Closed>> + Send + 'static,
    {
        const BATCHES: usize = 8;
        let (sender, events) = mpsc::channel(BATCHES);
        let following = follow(Outlet::new(sender, keep, longest));
        // An error means that the stream was closed: there is no receiver.
        let task = tokio::spawn(async move { following.await.unwrap_or(()) });
        Self { events, task: task.abort_handle() }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The stream was closed.
#[derive(Debug)]
pub(super) struct Closed;

/// The client that a stream uses. A new client comes with a new token or connection, and the stream continues where it
/// was. `None` while the cluster is not connected: no request and no token is sent then. Sending the same client again
/// asks the stream to check its connection, or to retry at once.
pub type Clients = watch::Receiver<Option<Client>>;

/// The current client of one stream.
pub(super) struct InForce(pub(super) Clients);

impl InForce {
    /// How long a stream waits for a new token before it retries with the same one.
    pub(super) const PATIENCE: Duration = Duration::from_secs(15);

    /// A client that never changes.
    pub(super) fn only(client: Client) -> Self {
        Self(watch::channel(Some(client)).1)
    }

    /// The latest client, waiting until there is one; the wait is reported as an interruption.
    pub(super) async fn client(&mut self, out: &mut Outlet) -> Result<Client, Closed> {
        loop {
            if let Some(client) = &*self.0.borrow_and_update() {
                return Ok(client.clone());
            }
            out.interrupted("cluster not connected").await?;
            // The sender is gone: the program is shutting down, and no one reads this stream.
            self.0.changed().await.map_err(|_| Closed)?;
        }
    }

    /// Resolves when a client was sent: a new one, or the same one to request a check. Never resolves for a fixed client.
    pub(super) async fn sent(&mut self) -> Option<Client> {
        match self.0.changed().await {
            Ok(()) => self.0.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether to continue after an error: after a refused token it waits for another one as long as one may come. A
    /// stream without output so far gives up, so that the caller can try another way.
    pub(super) async fn outlives(&mut self, error: &RayError, out: &mut Outlet) -> Result<bool, Closed> {
        if !error.is_token() || self.0.has_changed().is_err() {
            return Ok(false);
        }
        out.interrupted(format!("{error}; waiting for another token")).await?;
        match tokio::time::timeout(Self::PATIENCE, self.sent()).await {
            Ok(_) => Ok(true),
            Err(_) => Ok(out.told),
        }
    }
}

/// Collects lines into batches, so that ten thousand lines a second are a hundred events.
pub(super) struct Outlet {
    sender: mpsc::Sender<LogEvent>,
    splitter: LineSplitter,
    batch: VecDeque<Line>,
    since: Instant,
    /// Whether any line was passed on.
    told: bool,
    /// How many of the newest lines to pass on while old lines are replayed; `None` once the stream is live.
    replay: Option<usize>,
    /// Bytes in `batch` while old lines are replayed.
    held: usize,
    /// Number of requested lines that were left out because newer ones fill the replay's memory limit.
    left_out: usize,
    /// Whether the last event was an interruption.
    is_interrupted: bool,
}

impl Outlet {
    /// Lines after which a batch is sent.
    pub(super) const FULL: usize = 1000;
    /// Age after which a batch is sent.
    pub(super) const OLD: Duration = Duration::from_millis(100);
    /// Idle time after which a batch is sent.
    pub(super) const QUIET: Duration = Duration::from_millis(25);
    /// Idle time after which a replay is complete.
    pub(super) const CAUGHT_UP: Duration = Duration::from_millis(300);
    /// Bytes that are split into lines at once: a frame of line feeds only has many lines.
    pub(super) const PIECE: usize = 64 << 10;
    /// Maximum bytes of lines that are kept while old lines are replayed.
    pub(super) const HELD: usize = 64 << 20;

    pub(super) fn new(sender: mpsc::Sender<LogEvent>, keep: usize, longest: usize) -> Self {
        let splitter = LineSplitter::new(longest);
        let since = Instant::now();
        let replay = (keep != WHOLE_LOG).then_some(keep);
        let (batch, told, is_interrupted) = (VecDeque::new(), false, false);
        Self { sender, splitter, batch, since, told, replay, held: 0, left_out: 0, is_interrupted }
    }

    /// Adds bytes of the log; sends a batch when it is due, and waits while the receiver's queue is full.
    pub(super) async fn feed(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        if self.batch.is_empty() {
            self.since = Instant::now();
        }
        for piece in bytes.chunks(Self::PIECE) {
            let lines = self.splitter.push(piece);
            match self.replay {
                Some(keep) => self.hold(lines, keep),
                None => self.batch.extend(lines),
            }
            let is_live = self.replay.is_none();
            if is_live && (self.batch.len() >= Self::FULL || self.since.elapsed() >= Self::OLD) {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Adds replayed lines, of which the newest `keep` are wanted.
    pub(super) fn hold(&mut self, lines: Vec<Line>, keep: usize) {
        let size = Line::bytes;
        self.held += lines.iter().map(size).sum::<usize>();
        self.batch.extend(lines);
        while self.batch.len() > keep || self.held > Self::HELD {
            self.left_out += usize::from(self.batch.len() <= keep);
            let Some(line) = self.batch.pop_front() else { break };
            self.held -= size(&line);
        }
    }

    /// How long to wait for more before [`Outlet::pause`]; `None` when there is nothing to send.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self.replay {
            _ if self.batch.is_empty() => self.is_interrupted.then_some(Self::CAUGHT_UP),
            Some(_) => Some(Self::CAUGHT_UP),
            None => Some(Self::QUIET.min(Self::OLD.saturating_sub(self.since.elapsed()))),
        }
    }

    /// Ends a replay after idle time: sends the lines so far; later lines are live.
    pub(super) async fn pause(&mut self) -> Result<(), Closed> {
        self.replay = None;
        self.held = 0;
        match std::mem::take(&mut self.left_out) {
            0 => {}
            n => self.send(LogEvent::LeftOut(too_much(n))).await?,
        }
        self.flush().await
    }

    /// Like [`Outlet::pause`] on a connected stream; also ends an interruption.
    pub(super) async fn quiet(&mut self) -> Result<(), Closed> {
        self.pause().await?;
        if std::mem::take(&mut self.is_interrupted) {
            self.send(LogEvent::Resumed).await?;
        }
        Ok(())
    }

    /// Sends the lines so far, unless old lines are still being replayed.
    pub(super) async fn flush_live(&mut self) -> Result<(), Closed> {
        if self.replay.is_none() { self.flush().await } else { Ok(()) }
    }

    pub(super) async fn flush(&mut self) -> Result<(), Closed> {
        while !self.batch.is_empty() {
            let some = self.batch.len().min(Self::FULL);
            let lines = self.batch.drain(..some).collect();
            self.told = true;
            self.is_interrupted = false;
            self.send(LogEvent::Lines(lines)).await?;
        }
        Ok(())
    }

    pub(super) async fn interrupted(&mut self, why: impl ToString) -> Result<(), Closed> {
        self.pause().await?;
        self.is_interrupted = true;
        self.send(LogEvent::Interrupted(why.to_string())).await
    }

    /// Ends the stream: sends all lines, including an unfinished last one.
    pub(super) async fn complete(&mut self) -> Result<(), Closed> {
        self.batch.extend(self.splitter.finish());
        self.pause().await?;
        self.send(LogEvent::Complete).await
    }

    pub(super) async fn failed(&mut self, error: RayError) -> Result<(), Closed> {
        self.pause().await?;
        self.send(LogEvent::Failed(error)).await
    }

    pub(super) async fn send(&self, event: LogEvent) -> Result<(), Closed> {
        self.sender.send(event).await.map_err(|_| Closed)
    }
}

fn too_much(lines: usize) -> String {
    let mib = Outlet::HELD >> 20;
    format!("{lines} older lines left out: the newer ones fill {mib} MiB; request fewer lines, or all")
}

/// Backoff that grows with each failure.
pub(super) struct Backoff(pub(super) Duration);

impl Backoff {
    pub(super) const FIRST: Duration = Duration::from_millis(500);
    /// Maximum backoff. An attempt is one small request.
    pub(super) const LONGEST: Duration = Duration::from_secs(10);

    pub(super) fn reset(&mut self) {
        self.0 = Self::FIRST;
    }

    /// Waits before the next attempt; a new client or a request for a check ends the wait.
    pub(super) async fn wait(&mut self, clients: &mut InForce) {
        tokio::select! {
            () = tokio::time::sleep(self.0) => self.0 = (self.0 * 2).min(Self::LONGEST),
            _ = clients.sent() => self.reset(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn outlet(keep: usize) -> (Outlet, mpsc::Receiver<LogEvent>) {
        let (sender, events) = mpsc::channel(2);
        (Outlet::new(sender, keep, LineSplitter::ON_A_SCREEN), events)
    }

    #[test]
    fn a_whole_log_waits_for_its_reader_and_is_not_held() {
        let (mut out, mut events) = outlet(WHOLE_LOG);
        let log = b"line\n".repeat(100_000);
        assert!(out.feed(&log).now_or_never().is_none(), "it was taken in though nobody reads");
        assert!(out.batch.len() <= Outlet::PIECE, "{} lines are held", out.batch.len());
        assert!(matches!(events.try_recv(), Ok(LogEvent::Lines(lines)) if lines.len() == Outlet::FULL));
    }

    #[tokio::test]
    async fn a_whole_log_is_whole() {
        let (mut out, mut events) = outlet(WHOLE_LOG);
        let feeding = tokio::spawn(async move {
            out.feed(&b"line\n".repeat(100_000)).await.unwrap();
            out.complete().await.unwrap();
        });
        let mut lines = 0;
        while let Some(event) = events.recv().await {
            lines += if let LogEvent::Lines(some) = event { some.len() } else { 0 };
        }
        feeding.await.unwrap();
        assert_eq!(lines, 100_000);
    }

    #[tokio::test]
    async fn lines_that_are_replayed_are_bounded_in_number_and_size() {
        let (mut out, _events) = outlet(3);
        out.feed(&b"line\n".repeat(1000)).await.unwrap();
        assert_eq!((out.batch.len(), out.left_out), (3, 0));
        let (mut out, mut events) = outlet(1_000_000);
        let line = [&[b'x'; 16_000][..], b"\n"].concat();
        for _ in 0..5000 {
            out.feed(&line).await.unwrap();
        }
        assert!(out.held <= Outlet::HELD && out.batch.len() > 4000, "{} bytes", out.held);
        let left_out = 5000 - out.batch.len();
        assert_eq!(out.left_out, left_out);
        assert!(out.pause().now_or_never().is_none(), "there is more than the channel takes");
        let told = events.try_recv();
        assert!(
            matches!(&told, Ok(LogEvent::LeftOut(why)) if why.contains(&format!("{left_out} older lines"))),
            "{told:?}"
        );
    }
}
