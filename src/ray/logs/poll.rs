//! Follows a file of any node by reading its end repeatedly (`GET /api/v0/logs/file?lines=`): used without ssh, and for
//! nodes other than the head. The file is polled rather than streamed: an idle stream occupies one of the dashboard's
//! hundred slots for five minutes.

use super::super::client::Client;
use super::super::{JobDetail, RayError};
use super::files::cleaned;
use super::polled::Polled;
use super::seen::{Found, Seen};
use super::stream::{Backoff, Clients, Closed, CurrentClient, EndWatch, LogEvent, Outlet, ends, has_ended};
use crate::model::{LogPart, NodeId};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum pause after a read, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 10;
/// Number of lines of an ordinary read, of the largest one that searches for the last known line, and of the largest
/// one that searches for older lines.
const ORDINARY: u32 = 200;
const FURTHEST: u32 = 100_000;
const OLDEST: u32 = 1_000_000;
/// Maximum size of an older part in bytes.
const MAX_PART: usize = 1 << 20;
/// The first position: there is room for older lines before it.
const FIRST_POSITION: u64 = 1 << 62;
/// Distance between the positions of two parts if the number of bytes between them is unknown.
const UNKNOWN_DISTANCE: u64 = 1 << 40;

/// Follows the file from its last `keep` lines on, at most from its last million; a file of a node until `ended`. Lines
/// that are written faster than the reads reach back are missed, which [`LogEvent::Note`] reports.
pub async fn poll(
    clients: Clients,
    file: Polled,
    keep: u32,
    ended: Option<EndWatch>,
    out: Outlet,
) -> Result<(), Closed> {
    let mut poll = Poll {
        clients: CurrentClient(clients),
        file,
        ended,
        out,
        seen: Seen::nothing(FIRST_POSITION),
        node: None,
        reach: 0,
        most: OLDEST,
        // At least as many as in an ordinary read, so that the next one finds the position even if no line is passed
        // on. One more, for a last line that is still being written.
        lines: keep.max(ORDINARY).saturating_add(1).min(OLDEST),
        keep: Some(keep),
        is_quiet: true,
        backoff: Backoff(Backoff::FIRST),
    };
    poll.run().await
}

struct Poll {
    clients: CurrentClient,
    file: Polled,
    ended: Option<EndWatch>,
    out: Outlet,
    seen: Seen,
    /// The node that has the file, once known.
    node: Option<NodeId>,
    /// Number of lines before the end that the largest read so far reached.
    reach: u32,
    /// Maximum number of lines per read: the response to more was too large or took too long.
    most: u32,
    /// Number of lines of the next read.
    lines: u32,
    /// Number of lines to begin with, until they are passed on.
    keep: Option<u32>,
    /// Whether the last read had no new lines.
    is_quiet: bool,
    backoff: Backoff,
}

/// The outcome of a request to the head.
enum Outcome<T> {
    Answer(T),
    /// There is no answer yet: the request is repeated.
    Retry,
    /// The stream has ended: the log is complete or cannot be read.
    End,
}

/// The result of a read of the file's end.
enum Read {
    /// New lines, or none.
    NewBytes(bool),
    /// It did not reach back far enough.
    Further,
}

impl Poll {
    async fn run(&mut self) -> Result<(), Closed> {
        loop {
            let client = self.clients.client(&mut self.out).await?;
            // Requested before the file is read, so that a read after the end of the job is complete.
            let has_ended = match self.has_ended(&client).await? {
                Outcome::Answer(has_ended) => has_ended,
                Outcome::Retry => continue,
                Outcome::End => return Ok(()),
            };
            let (now, took) = match self.read_end(&client, has_ended).await? {
                Outcome::Answer(read) => read,
                Outcome::Retry => continue,
                Outcome::End => return Ok(()),
            };
            self.backoff.reset();
            match self.take(&now, self.lines, self.keep).await? {
                Read::NewBytes(has_new_bytes) => self.is_quiet = !has_new_bytes,
                Read::Further => {
                    self.lines = self.lines.saturating_mul(8).min(FURTHEST).min(self.most);
                    continue;
                }
            }
            self.keep = None;
            self.lines = ORDINARY.min(self.most);
            if has_ended {
                self.out.feed(&now[whole(&now).len()..]).await?;
                self.out.complete().await?;
                return self.give_older().await;
            }
            self.out.quiet().await?;
            self.wait(POLL_INTERVAL.max(took * PAUSE_FACTOR)).await?;
        }
    }

    /// Whether nothing more is written to the file. Also finds the node that has the log of a job.
    async fn has_ended(&mut self, client: &Client) -> Result<Outcome<bool>, Closed> {
        let id = match &self.file {
            Polled::Job(id) if self.is_quiet || self.node.is_none() => id,
            Polled::Job(_) => return Ok(Outcome::Answer(false)),
            Polled::File(..) => return Ok(Outcome::Answer(has_ended(self.ended.as_ref()))),
        };
        match client.job(id).await {
            Ok(JobDetail { job, .. }) => {
                self.node = job.driver_node;
                Ok(Outcome::Answer(job.status.is_ended()))
            }
            Err(error) if error.is_final() && !error.is_token() => self.fail(error).await,
            Err(error) => self.retry(error).await,
        }
    }

    /// The file's last lines, and how long reading them took. After a response that was too large or too slow, fewer
    /// lines are read.
    async fn read_end(
        &mut self,
        client: &Client,
        has_ended: bool,
    ) -> Result<Outcome<(Bytes, Duration)>, Closed> {
        let started = Instant::now();
        let Some(read) = self.read(client, self.lines).await else {
            // A job that failed before it started has neither node nor log.
            if has_ended {
                self.out.complete().await?;
                return Ok(Outcome::End);
            }
            self.out.quiet().await?;
            self.wait(POLL_INTERVAL).await?;
            return Ok(Outcome::Retry);
        };
        match read {
            Ok(now) => Ok(Outcome::Answer((now, started.elapsed()))),
            Err(RayError::TooLarge(_)) if self.lines > 1 => {
                self.lower();
                Ok(Outcome::Retry)
            }
            // The same read would take too long again. A head that answers nothing else either is waited for.
            Err(error @ RayError::Silent(_))
                if self.lines > 1
                    && started.elapsed() >= client.inner.limits.call
                    && client.version().await.is_ok() =>
            {
                self.lower();
                self.out.interrupted(format!("{error}; retrying with {} lines", self.lines)).await?;
                Ok(Outcome::Retry)
            }
            Err(error @ RayError::Status { .. }) if has_ended => self.fail(error).await,
            Err(error) => self.retry(error).await,
        }
    }

    /// Reads fewer lines at a time than in the last read.
    fn lower(&mut self) {
        self.most = self.lines.div_ceil(8).min(self.lines - 1);
        self.lines = self.most;
    }

    /// Waits before the next attempt if the error is temporary; otherwise ends the stream.
    async fn retry<T>(&mut self, error: RayError) -> Result<Outcome<T>, Closed> {
        if self.clients.outlives(&error, &mut self.out).await? {
            return Ok(Outcome::Retry);
        }
        if error.is_token() {
            return self.fail(error).await;
        }
        self.out.interrupted(error).await?;
        self.backoff.wait(&mut self.clients).await;
        Ok(Outcome::Retry)
    }

    /// Ends the stream: the log cannot be read.
    async fn fail<T>(&mut self, error: RayError) -> Result<Outcome<T>, Closed> {
        self.out.failed(error).await?;
        Ok(Outcome::End)
    }

    /// The file's last lines; none while it is not known which node has it.
    async fn read(&self, client: &Client, lines: u32) -> Option<Result<Bytes, RayError>> {
        Some(match &self.file {
            Polled::Job(id) => {
                let node = self.node?;
                client.or_empty(client.read_job_log(id, node, lines).await, node, &id.driver_log()).await
            }
            Polled::File(node, name) => {
                client.or_empty(client.read_log(*node, name, lines).await, *node, name.raw()).await
            }
        })
    }

    /// Passes on the new lines in a read of so many lines; of the first read, the last `keep` lines.
    async fn take(&mut self, now: &[u8], lines: u32, keep: Option<u32>) -> Result<Read, Closed> {
        self.reach = self.reach.max(reached(now, lines));
        // A line that is still being written is passed on when it is complete.
        let is_all = is_all(now, lines);
        let now = whole(now);
        if let Some(keep) = keep {
            let from = last_lines(now, keep);
            let is_whole = is_all && from == 0;
            if !is_all && lines <= keep {
                self.note(&format!("earlier lines are missing here: only the last {lines} could be read"))
                    .await?;
            }
            self.out.seek(FIRST_POSITION, is_whole.then_some(FIRST_POSITION)).await?;
            if is_all {
                self.seen.begins(FIRST_POSITION - from as u64);
            }
            self.seen.add_known(&now[..from]);
            self.out.feed(&now[from..]).await?;
            self.seen.advance(&now[from..]);
            return Ok(Read::NewBytes(from < now.len()));
        }
        let may_grow = !is_all && lines < FURTHEST.min(self.most);
        let new_bytes = match self.seen.find(now, is_all) {
            Found::At(end) => &now[end..],
            Found::Somewhere(_) | Found::Nowhere if may_grow => return Ok(Read::Further),
            Found::Somewhere(last) => &now[last..],
            Found::Nowhere if is_all => {
                self.note("the file was replaced or truncated; its lines follow").await?;
                self.seen = Seen::nothing(self.out.at());
                self.seen.begins(self.out.at());
                self.out.seek(self.seen.at(), None).await?;
                now
            }
            Found::Nowhere => {
                self.note(&format!(
                    "lines are missing here: more than {lines} were written between two reads"
                ))
                .await?;
                self.seen = Seen::nothing(self.out.at() + UNKNOWN_DISTANCE);
                self.out.seek(self.seen.at(), None).await?;
                now
            }
        };
        self.out.feed(new_bytes).await?;
        self.seen.advance(new_bytes);
        Ok(Read::NewBytes(!new_bytes.is_empty()))
    }

    async fn note(&mut self, what: &str) -> Result<(), Closed> {
        self.out.flush().await?;
        self.out.send(LogEvent::Note(what.to_owned())).await
    }

    /// Waits; reads the older parts that are requested in the meantime.
    async fn wait(&mut self, pause: Duration) -> Result<(), Closed> {
        let is_over = has_ended(self.ended.as_ref());
        let over = tokio::time::sleep(pause);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                _ = self.clients.sent() => return Ok(()),
                () = ends(&mut self.ended), if !is_over => return Ok(()),
                before = self.out.older_request() => self.answer(before).await?,
            }
        }
    }

    /// Reads older parts on request, until the stream is closed.
    async fn give_older(&mut self) -> Result<(), Closed> {
        loop {
            let before = self.out.older_request().await;
            self.answer(before).await?;
        }
    }

    async fn answer(&mut self, before: u64) -> Result<(), Closed> {
        let client = self.clients.0.borrow().clone();
        let part = match client {
            Some(client) => self.older(&client, before).await,
            None => Err("the cluster is not connected".to_owned()),
        };
        self.out.send(LogEvent::Older(part)).await
    }

    /// The part that ends at a position: reads more and more lines from the end of the file until they contain it.
    async fn older(&mut self, client: &Client, before: u64) -> Result<LogPart, String> {
        let mut lines = self.reach;
        loop {
            if lines >= OLDEST {
                return Err(format!(
                    "the dashboard provides only the last {OLDEST} lines; log in to the node to read earlier ones"
                ));
            }
            lines = lines.saturating_mul(4).clamp(ORDINARY, OLDEST);
            let read = self.read(client, lines).await.ok_or("the job has no driver yet")?;
            let now = read.map_err(|e| e.to_string())?;
            let (is_all, reached) = (is_all(&now, lines), reached(&now, lines));
            let now = whole(&now);
            let end = match self.seen.find(now, is_all) {
                Found::At(end) => end,
                Found::Somewhere(end) if is_all || lines == OLDEST => end,
                Found::Nowhere if is_all => return Err("the file was replaced by another one".to_owned()),
                Found::Somewhere(_) | Found::Nowhere => continue,
            };
            let positions = self.seen.positions(end, now);
            let above = before.saturating_sub(positions.start) as usize;
            if above == 0 && !is_all {
                continue;
            }
            self.reach = reached;
            let above = &now[..above.min(now.len())];
            let from = above.len().saturating_sub(MAX_PART);
            let from = if from == 0 { 0 } else { from + line_start(&above[from..]) };
            let start = positions.start + from as u64;
            let begin = is_all.then_some(positions.start);
            return Ok(LogPart { lines: cleaned(&above[from..]), bytes: start..before, begin });
        }
    }
}

/// The complete lines of a read.
fn whole(now: &[u8]) -> &[u8] {
    &now[..now.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)]
}

/// Whether a read of so many lines is the whole file; bytes after the last line break count as a line.
fn is_all(now: &[u8], lines: u32) -> bool {
    reached(now, lines) < lines
}

/// Number of lines in a read of so many lines.
fn reached(now: &[u8], lines: u32) -> u32 {
    let count = now.split_inclusive(|b| *b == b'\n').count();
    u32::try_from(count).map_or(lines, |count| count.min(lines))
}

/// Offset of the last `keep` of these complete lines.
fn last_lines(now: &[u8], keep: u32) -> usize {
    let ends = now.iter().enumerate().rev().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
    let before = keep.checked_sub(1).map(|keep| ends.skip(1).nth(keep as usize));
    before.map_or(now.len(), Option::unwrap_or_default)
}

/// Offset after the first line break; 0 without one.
fn line_start(bytes: &[u8]) -> usize {
    bytes.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_counted_by_their_ends() {
        let now = b"one\ntwo\nthree\n";
        let of = |keep| &now[last_lines(now, keep)..];
        assert_eq!((of(1), of(2)), (&b"three\n"[..], &b"two\nthree\n"[..]));
        assert_eq!((of(3), of(9), of(0)), (&now[..], &now[..], &b""[..]));
        assert_eq!((last_lines(b"", 3), whole(b"a\nb"), whole(b"b")), (0, &b"a\n"[..], &b""[..]));
    }

    #[test]
    fn a_read_with_fewer_lines_than_requested_is_the_whole_file() {
        assert!(is_all(b"a\nb\n", 3) && !is_all(b"a\nb\n", 2) && !is_all(b"a\nb", 2) && is_all(b"", 1));
    }
}
