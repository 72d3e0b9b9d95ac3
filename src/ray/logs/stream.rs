//! An open stream: what it passes on, the client that it uses, and when it retries.

use super::super::{Client, RayError};
use crate::logs::LineSplitter;
use crate::model::LogPart;
use crate::task;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// An event of a log stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// Whole lines in order, cleaned for a terminal, and their position where it is known.
    Lines(LogPart),
    /// An older part that [`LogStream::ask_older`] requested, or why it cannot be read.
    Older(Result<LogPart, String>),
    /// Interrupted, with the reason; the stream reconnects automatically.
    Interrupted(String),
    /// Reconnected after an interruption; there may be no new lines.
    Resumed,
    /// A note about the file, e.g. that it was replaced by another one, whose lines follow.
    Note(String),
    /// The log has ended and was read completely. Only older parts may follow.
    Complete,
    /// The log cannot be read. Nothing follows.
    Failed(RayError),
}

/// An open stream. Dropping it closes it.
#[derive(Debug)]
pub struct LogStream {
    events: mpsc::Receiver<LogEvent>,
    older: mpsc::UnboundedSender<u64>,
    task: AbortHandle,
}

impl LogStream {
    /// The next event; `None` after [`LogEvent::Failed`], and after [`LogEvent::Complete`] of a stream that has no
    /// older parts.
    pub async fn next(&mut self) -> Option<LogEvent> {
        self.events.recv().await
    }

    /// Requests the part that ends at this position, which is the start of a received part. A stream that reads a log
    /// from its beginning does not respond.
    pub fn ask_older(&self, before: u64) {
        // A stream that has ended does not respond.
        let _ = self.older.send(before);
    }

    /// Runs `follow` until it ends or the stream is closed. Lines are cut after `longest` bytes.
    pub fn spawn<F>(longest: usize, follow: impl FnOnce(Outlet) -> F) -> Self
    where
        F: Future<Output = Result<(), Closed>> + Send + 'static,
    {
        const BATCHES: usize = 8;
        let (sender, events) = mpsc::channel(BATCHES);
        let (older, older_requests) = mpsc::unbounded_channel();
        let following = follow(Outlet::new(sender, older_requests, longest));
        // An error means that the stream was closed: there is no receiver.
        let task = task::spawn(async move { following.await.unwrap_or(()) });
        Self { events, older, task: task.abort_handle() }
    }
}

impl Drop for LogStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The stream was closed.
#[derive(Debug)]
pub struct Closed;

/// The client that a stream uses. A new client comes with a new token or connection, and the stream continues where it
/// was. `None` while the cluster is not connected: no request and no token is sent then. Sending the same client again
/// asks the stream to check its connection, or to retry immediately.
pub type Clients = watch::Receiver<Option<Client>>;

/// Becomes true when nothing more is written to a log. The log is then read to its end, and the stream is complete.
pub type EndWatch = watch::Receiver<bool>;

/// Whether the log has ended.
pub fn has_ended(watch: Option<&EndWatch>) -> bool {
    watch.is_some_and(|watch| *watch.borrow())
}

/// Resolves when the log ends. Never resolves if nobody will report its end.
pub async fn ends(watch: &mut Option<EndWatch>) {
    let Some(watch) = watch else { return std::future::pending().await };
    if watch.wait_for(|has_ended| *has_ended).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The current client of one stream.
pub(super) struct CurrentClient(pub(super) Clients);

impl CurrentClient {
    /// How long a stream waits for a new token before it retries with the same one.
    pub(super) const TOKEN_WAIT: Duration = Duration::from_secs(15);

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

    /// Resolves when a client was sent: a new one, or the same one to request a check. Never resolves for a fixed
    /// client.
    pub(super) async fn sent(&mut self) -> Option<Client> {
        match self.0.changed().await {
            Ok(()) => self.0.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether to continue after an error: after a refused token, waits for a new one if one may come. If none comes, a
    /// stream without output so far gives up, so that the caller can try another source; others retry.
    pub(super) async fn outlives(&mut self, error: &RayError, out: &mut Outlet) -> Result<bool, Closed> {
        if !error.is_token() || self.0.has_changed().is_err() {
            return Ok(false);
        }
        out.interrupted(format!("{error}; waiting for a new token")).await?;
        match tokio::time::timeout(Self::TOKEN_WAIT, self.sent()).await {
            Ok(_) => Ok(true),
            Err(_) => Ok(out.has_output),
        }
    }
}

/// Collects lines into batches, so that ten thousand lines a second are a hundred events, and tracks their positions in
/// the log.
#[derive(Debug)]
pub struct Outlet {
    sender: mpsc::Sender<LogEvent>,
    /// Requests for older parts: the positions where they end.
    older_requests: mpsc::UnboundedReceiver<u64>,
    splitter: LineSplitter,
    batch: LogPart,
    /// Position of the next byte.
    at: u64,
    since: Instant,
    /// Whether any line was passed on.
    has_output: bool,
    /// Whether the last event was an interruption.
    is_interrupted: bool,
}

impl Outlet {
    /// Lines after which a batch is sent.
    pub(super) const BATCH_LINES: usize = 1000;
    /// Age after which a batch is sent.
    pub(super) const BATCH_AGE: Duration = Duration::from_millis(100);
    /// Idle time after which a batch is sent.
    pub(super) const BATCH_IDLE: Duration = Duration::from_millis(25);
    /// Idle time after which a connection that was interrupted counts as restored.
    pub(super) const RESTORED_AFTER: Duration = Duration::from_millis(300);
    /// Maximum number of bytes that are split into lines at a time: a frame may consist of line feeds only.
    pub(super) const MAX_PIECE: usize = 64 << 10;

    fn new(
        sender: mpsc::Sender<LogEvent>,
        older_requests: mpsc::UnboundedReceiver<u64>,
        longest: usize,
    ) -> Self {
        let splitter = LineSplitter::new(longest);
        let since = Instant::now();
        let batch = LogPart::default();
        Self {
            sender,
            older_requests,
            splitter,
            batch,
            at: 0,
            since,
            has_output: false,
            is_interrupted: false,
        }
    }

    /// Sets the position of the next byte, which begins a line. Earlier bytes are passed on, including an unfinished
    /// line. `begin` is the position of the log's first byte, if known.
    pub async fn seek(&mut self, at: u64, begin: Option<u64>) -> Result<(), Closed> {
        self.finish_line();
        self.flush().await?;
        self.at = at;
        self.batch = LogPart { bytes: at..at, begin, ..LogPart::default() };
        Ok(())
    }

    /// Ends the last line.
    fn finish_line(&mut self) {
        self.batch.lines.extend(self.splitter.finish());
        self.batch.bytes.end = self.at;
    }

    /// Position of the next byte.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Adds bytes of the log; sends a batch when it is due, and waits while the receiver's queue is full.
    pub async fn feed(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        if self.batch.lines.is_empty() {
            self.since = Instant::now();
        }
        for piece in bytes.chunks(Self::MAX_PIECE) {
            self.batch.lines.extend(self.splitter.push(piece));
            if let Some(last) = piece.iter().rposition(|b| *b == b'\n') {
                self.batch.bytes.end = self.at + last as u64 + 1;
            }
            self.at += piece.len() as u64;
            if self.batch.lines.len() >= Self::BATCH_LINES || self.since.elapsed() >= Self::BATCH_AGE {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Whether the stream is in a reported interruption.
    pub const fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Idle time after which to call [`Outlet::quiet`]; `None` when there is nothing to send.
    pub fn idle_limit(&self) -> Option<Duration> {
        if self.batch.lines.is_empty() {
            return self.is_interrupted.then_some(Self::RESTORED_AFTER);
        }
        Some(Self::BATCH_IDLE.min(Self::BATCH_AGE.saturating_sub(self.since.elapsed())))
    }

    /// Sends the lines so far. The stream is connected, so this ends an interruption.
    pub async fn quiet(&mut self) -> Result<(), Closed> {
        self.flush().await?;
        if std::mem::take(&mut self.is_interrupted) {
            self.send(LogEvent::Resumed).await?;
        }
        Ok(())
    }

    /// Sends the lines so far.
    pub async fn flush(&mut self) -> Result<(), Closed> {
        if self.batch.lines.is_empty() && self.batch.bytes.is_empty() {
            return Ok(());
        }
        let end = self.batch.bytes.end;
        let next = LogPart { bytes: end..end, begin: self.batch.begin, ..LogPart::default() };
        self.has_output = true;
        self.is_interrupted = false;
        let part = std::mem::replace(&mut self.batch, next);
        self.send(LogEvent::Lines(part)).await
    }

    /// Reports an interruption, after the lines so far.
    pub async fn interrupted(&mut self, why: impl ToString) -> Result<(), Closed> {
        self.flush().await?;
        self.is_interrupted = true;
        self.send(LogEvent::Interrupted(why.to_string())).await
    }

    /// Ends the stream: sends all lines, including an unfinished last one.
    pub async fn complete(&mut self) -> Result<(), Closed> {
        self.finish_line();
        self.flush().await?;
        self.send(LogEvent::Complete).await
    }

    /// Ends the stream because the log cannot be read.
    pub async fn failed(&mut self, error: RayError) -> Result<(), Closed> {
        self.flush().await?;
        self.send(LogEvent::Failed(error)).await
    }

    /// Sends an event.
    pub async fn send(&self, event: LogEvent) -> Result<(), Closed> {
        self.sender.send(event).await.map_err(|_| Closed)
    }

    /// The next request for an older part: the position where it ends. Never resolves when no more requests can follow.
    pub async fn older_request(&mut self) -> u64 {
        match self.older_requests.recv().await {
            Some(before) => before,
            None => std::future::pending().await,
        }
    }
}

/// Backoff that grows with each failure.
pub(super) struct Backoff(pub(super) Duration);

impl Backoff {
    pub(super) const FIRST: Duration = Duration::from_millis(500);
    /// Maximum backoff. An attempt is one small request.
    pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(10);

    pub(super) fn reset(&mut self) {
        self.0 = Self::FIRST;
    }

    /// Waits before the next attempt; a new client or a request for a check ends the wait.
    pub(super) async fn wait(&mut self, clients: &mut CurrentClient) {
        tokio::select! {
            () = tokio::time::sleep(self.0) => self.0 = (self.0 * 2).min(Self::MAX_BACKOFF),
            _ = clients.sent() => self.reset(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn outlet() -> (Outlet, mpsc::Receiver<LogEvent>) {
        let (sender, events) = mpsc::channel(2);
        let (_, older_requests) = mpsc::unbounded_channel();
        (Outlet::new(sender, older_requests, LineSplitter::ON_A_SCREEN), events)
    }

    #[test]
    fn a_log_waits_for_its_reader_in_bounded_memory() {
        let (mut out, mut events) = outlet();
        let log = b"line\n".repeat(100_000);
        assert!(
            out.feed(&log).now_or_never().is_none(),
            "it was accepted completely although nothing reads it"
        );
        let held = out.batch.lines.len();
        assert!(held <= Outlet::BATCH_LINES + Outlet::MAX_PIECE, "{held} lines are held");
        let first = events.try_recv();
        assert!(
            matches!(&first, Ok(LogEvent::Lines(part)) if part.lines.len() >= Outlet::BATCH_LINES),
            "{first:?}"
        );
    }

    #[tokio::test]
    async fn a_log_is_complete_and_each_line_has_its_position() {
        let (mut out, mut events) = outlet();
        let log: String = (0..50_000).fold(String::new(), |log, n| log + "line " + &n.to_string() + "\n");
        let bytes = log.clone().into_bytes();
        let feeding = tokio::spawn(async move {
            for chunk in bytes.chunks(7001) {
                out.feed(chunk).await.unwrap();
            }
            out.feed(b"unfinished").await.unwrap();
            out.complete().await.unwrap();
        });
        let (mut until, mut last) = (0, String::new());
        while let Some(LogEvent::Lines(part)) = events.recv().await {
            assert_eq!(part.bytes.start, until, "parts follow each other");
            let text = &log[part.bytes.start as usize..(part.bytes.end as usize).min(log.len())];
            for (line, raw) in part.lines.iter().zip(text.lines()) {
                assert_eq!(line.text(), raw);
            }
            until = part.bytes.end;
            last = part.lines.last().unwrap().to_string();
        }
        feeding.await.unwrap();
        assert_eq!((until as usize, last.as_str()), (log.len() + 10, "unfinished"));
    }
}
