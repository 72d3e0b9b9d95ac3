//! Follows a job's driver log to its end, across broken connections.
//!
//! A position in the log is a byte count that is valid for both sources: the WebSocket, where Ray has replaced `\r\n`
//! and `\r` by `\n`, and the raw file of the state API. Consecutive line breaks count as one, because Ray sends two for
//! a `\r\n` if it has read the `\r` before the `\n` was written.

use super::super::client::{Client, encoded};
use super::super::{JobDetail, RayError};
use super::socket::{Frame, Socket};
use super::stream::{Backoff, Clients, Closed, CurrentClient, LogEvent, Outlet};
use crate::model::{JobStatus, NodeId, SubmissionId};
use bytes::Bytes;
use reqwest::{Method, Response};
use std::time::{Duration, Instant};

/// Follows a job's whole driver log to its end, from its first line on. When the client changes, no line is lost or
/// repeated.
pub async fn follow_whole(clients: Clients, id: SubmissionId, out: Outlet) -> Result<(), Closed> {
    Follower { clients: CurrentClient(clients), id, out, position: Position::default() }.run().await
}

/// A position in a log, and the log's first bytes and the last ones before the position, to recognize them.
#[derive(Clone, Debug, Default)]
struct Position {
    count: u64,
    /// Number of consecutive line breaks directly before it.
    breaks: u64,
    after_cr: bool,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Position {
    /// Number of bytes that are kept to compare the beginnings and ends of logs.
    const MAX_COMPARED_BYTES: usize = 4 << 10;

    fn advance(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
        let surplus = self.tail.len().saturating_sub(Self::MAX_COMPARED_BYTES);
        self.tail.drain(..surplus);
    }

    fn step(&mut self, byte: u8) {
        let second_half = self.is_second_half(byte);
        self.after_cr = byte == b'\r';
        if second_half {
            return;
        }
        let byte = if byte == b'\r' { b'\n' } else { byte };
        self.breaks = if byte == b'\n' { self.breaks + 1 } else { 0 };
        if self.breaks > 1 {
            return;
        }
        self.count += 1;
        if self.head.len() < Self::MAX_COMPARED_BYTES {
            self.head.push(byte);
        }
        self.tail.push(byte);
    }

    /// Whether the next byte belongs to the line break before it.
    fn is_second_half(&self, byte: u8) -> bool {
        byte == b'\n' && self.after_cr
    }

    /// Whether a log that ends with these bytes ends at this position. Either may have fewer bytes.
    fn ends_like(&self, bytes: &[u8]) -> bool {
        let mut other = Self::default();
        other.advance(bytes);
        let common = self.tail.len().min(other.tail.len());
        self.count >= other.count
            && self.tail[self.tail.len() - common..] == other.tail[other.tail.len() - common..]
    }
}

/// A replay of the log from its beginning that passes on only the bytes after a known position.
struct Replay {
    known: Position,
    at: Position,
    /// Whether it has passed the known position.
    is_over: bool,
}

impl Replay {
    fn until(position: &Position) -> Self {
        Self { known: position.clone(), at: Position::default(), is_over: false }
    }

    /// The part of `bytes` that is new; `None` if they show that this is not the known log.
    fn new_part<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if self.is_over {
            return Some(bytes);
        }
        let mut new_at = 0;
        while new_at < bytes.len() && self.skip(bytes[new_at]) {
            new_at += 1;
        }
        self.is_over = new_at < bytes.len();
        (!self.is_other()).then_some(&bytes[new_at..])
    }

    /// Steps over a byte before the known position; false for the first byte after it.
    fn skip(&mut self, byte: u8) -> bool {
        let is_known_break = matches!(byte, b'\r' | b'\n') && self.at.breaks < self.known.breaks;
        if self.at.count >= self.known.count && !is_known_break && !self.at.is_second_half(byte) {
            return false;
        }
        self.at.step(byte);
        // Only the last bytes before the known position are compared.
        if self.at.count + Position::MAX_COMPARED_BYTES as u64 <= self.known.count {
            self.at.tail.clear();
        }
        true
    }

    /// Whether its first bytes, or those before the known position, differ from the known ones.
    fn is_other(&self) -> bool {
        let common = self.at.head.len().min(self.known.head.len());
        let is_at_end = self.at.count >= self.known.count;
        self.at.head[..common] != self.known.head[..common] || is_at_end && self.at.tail != self.known.tail
    }

    /// Whether it has not reached the known position. Ray may return an empty log for one that it cannot read.
    fn is_short(&self) -> bool {
        (1..self.known.count).contains(&self.at.count)
    }
}

struct Follower {
    clients: CurrentClient,
    id: SubmissionId,
    out: Outlet,
    position: Position,
}

/// How one connection ended.
enum Ended {
    /// Closed normally; whether it had new bytes, and whether it was shorter than the log was before.
    Normal { has_new_bytes: bool, is_short: bool },
    /// It showed another log, which is to be read from its beginning.
    Replaced,
    /// Broken, with the reason.
    Broken(String),
    /// Refused permanently.
    Refused(RayError),
}

/// How a read of the file ended.
enum FileRead {
    /// At the end of the response, or of the job.
    End,
    /// It showed another log, which is to be read from its beginning.
    Replaced,
}

impl Follower {
    /// Idle time after which the job's status is requested.
    const STATUS_AFTER: Duration = Duration::from_secs(30);
    /// The same for a stream of the file, which does not show when the job has ended.
    const STREAM_IDLE: Duration = Duration::from_secs(3);

    async fn run(&mut self) -> Result<(), Closed> {
        let mut backoff = Backoff(Backoff::FIRST);
        loop {
            let before = self.position.count;
            let client = self.clients.client(&mut self.out).await?;
            let ended = match Socket::open(&client, &self.id).await {
                Ok(socket) => self.over_socket(client, socket).await?,
                Err(error) => broken(error),
            };
            if self.position.count > before {
                backoff.reset();
            }
            let why = match ended {
                Ended::Refused(error) if self.clients.outlives(&error, &mut self.out).await? => continue,
                Ended::Refused(error) => return self.out.failed(error).await,
                Ended::Broken(why) => why,
                Ended::Replaced => continue,
                Ended::Normal { has_new_bytes, is_short } => match self.detail().await? {
                    Ok(detail) if is_short && detail.job.status.is_ended() => return self.over_file().await,
                    Ok(detail) if detail.job.status.is_ended() => {
                        return self.finish(detail.job.driver_node).await;
                    }
                    // When Ray cannot decode the log, it closes the connection immediately, with a normal close code.
                    Ok(detail) if !has_new_bytes && detail.job.status != JobStatus::Pending => {
                        return self.over_file().await;
                    }
                    Ok(_) => "the log was closed while the job is running".to_owned(),
                    Err(error) if self.clients.outlives(&error, &mut self.out).await? => continue,
                    Err(error) if error.is_final() => return self.out.failed(error).await,
                    Err(error) => error.to_string(),
                },
            };
            self.out.interrupted(why).await?;
            backoff.wait(&mut self.clients).await;
        }
    }

    /// The job's current status.
    async fn detail(&mut self) -> Result<Result<JobDetail, RayError>, Closed> {
        let client = self.clients.client(&mut self.out).await?;
        Ok(client.job(&self.id).await)
    }

    /// Reads one connection to its end.
    async fn over_socket(&mut self, mut client: Client, mut socket: Socket) -> Result<Ended, Closed> {
        let mut replay = Replay::until(&self.position);
        let before = self.position.count;
        // Whether to check the connection: a frame proves that it works, and so does a response about the job.
        let mut in_doubt = false;
        loop {
            let wait = self.out.idle_limit();
            let frame = tokio::select! {
                frame = socket.next() => frame,
                answer = client.job(&self.id), if in_doubt => match answer {
                    Ok(_) => {
                        in_doubt = false;
                        self.out.quiet().await?;
                        continue;
                    }
                    Err(error) => return Ok(broken(error)),
                },
                sent = self.clients.sent() => match sent {
                    Some(now) if now.endpoint() == client.endpoint() => {
                        (client, in_doubt) = (now, true);
                        self.out.flush().await?;
                        continue;
                    }
                    Some(_) => return Ok(Ended::Broken("switched to a new connection".to_owned())),
                    None => return Ok(Ended::Broken("cluster not connected".to_owned())),
                },
                () = tokio::time::sleep(wait.unwrap_or(Self::STATUS_AFTER)), if !in_doubt => {
                    // A connection may be lost without an error.
                    in_doubt = wait.is_none();
                    self.out.quiet().await?;
                    continue;
                }
            };
            in_doubt = false;
            match frame {
                Frame::Data(bytes) => {
                    if !self.take(&mut replay, &bytes).await? {
                        return Ok(Ended::Replaced);
                    }
                }
                Frame::Done => {
                    let has_new_bytes = self.position.count > before;
                    return Ok(Ended::Normal { has_new_bytes, is_short: replay.is_short() });
                }
                Frame::Broken(why) => return Ok(Ended::Broken(why)),
            }
        }
    }

    /// Passes on the new part of `bytes`. Returns whether the log is still the known one; otherwise it is to be read
    /// again.
    async fn take(&mut self, replay: &mut Replay, bytes: &[u8]) -> Result<bool, Closed> {
        let Some(new_bytes) = replay.new_part(bytes) else {
            self.begin_again().await?;
            return Ok(false);
        };
        self.position.advance(new_bytes);
        self.out.feed(new_bytes).await?;
        Ok(true)
    }

    /// Forgets the known log, because it was replaced by another one, e.g. of the same job in a restarted Ray.
    async fn begin_again(&mut self) -> Result<(), Closed> {
        self.position = Position::default();
        self.out.seek(self.out.at(), None).await?;
        self.note("the log was replaced; its lines follow").await
    }

    async fn note(&mut self, what: &str) -> Result<(), Closed> {
        self.out.flush().await?;
        self.out.send(LogEvent::Note(what.to_owned())).await
    }

    /// Called when the job has ended and its log was closed normally: checks against the file whether the log is
    /// complete.
    async fn finish(&mut self, node: Option<NodeId>) -> Result<(), Closed> {
        // A job that failed before it started has neither node nor log.
        if let Some(node) = node {
            let client = self.clients.client(&mut self.out).await?;
            match client.get(&self.file("file", node, 20)).await {
                Ok(end) if self.position.ends_like(&end) => {}
                // Without a file there are no further lines.
                Err(error) if is_lost(&error) => {
                    tracing::info!(%error, "the end of the log could not be verified");
                }
                // There may be more lines, which are read when Ray responds again.
                Ok(_) | Err(_) => return self.over_file().await,
            }
        }
        self.out.complete().await
    }

    /// Reads the raw file, for logs that Ray's WebSocket cannot decode: the known part is skipped. While the job runs
    /// it is a stream, which Ray ends every five minutes.
    async fn over_file(&mut self) -> Result<(), Closed> {
        let mut backoff = Backoff(Backoff::FIRST);
        loop {
            let started = Instant::now();
            let why = match self.detail().await? {
                Err(error) if self.clients.outlives(&error, &mut self.out).await? => continue,
                Err(error) if error.is_final() => return self.out.failed(error).await,
                Err(error) => error.to_string(),
                Ok(detail) => {
                    let ended = detail.job.status.is_ended();
                    match (detail.job.driver_node, ended) {
                        (None, true) => return self.out.complete().await,
                        (None, false) => "the job has no driver yet".to_owned(),
                        (Some(node), _) => {
                            let before = self.position.count;
                            let read = self.read_file(node, ended).await?;
                            let has_new_bytes = self.position.count > before;
                            if has_new_bytes || started.elapsed() > Backoff::MAX_BACKOFF {
                                backoff.reset();
                            }
                            match read {
                                Ok(FileRead::Replaced) => continue,
                                Ok(FileRead::End) if ended => return self.out.complete().await,
                                Ok(FileRead::End) if has_new_bytes => continue,
                                // Ray may end every stream at once, e.g. for a file that was deleted.
                                Ok(FileRead::End) => {
                                    backoff.wait(&mut self.clients).await;
                                    continue;
                                }
                                Err(error) if ended && is_lost(&error) => {
                                    self.note(&format!("the end of the log cannot be read: {error}")).await?;
                                    return self.out.complete().await;
                                }
                                Err(error) => error.to_string(),
                            }
                        }
                    }
                }
            };
            self.out.interrupted(why).await?;
            backoff.wait(&mut self.clients).await;
        }
    }

    /// Reads the file: to its end if the job has ended, otherwise until the stream or the job ends.
    async fn read_file(&mut self, node: NodeId, ended: bool) -> Result<Result<FileRead, RayError>, Closed> {
        let route = self.file(if ended { "file" } else { "stream" }, node, -1);
        let client = self.clients.client(&mut self.out).await?;
        let mut response = match client.open(client.request(Method::GET, &route)).await {
            Ok(response) => response,
            Err(error) => return Ok(Err(error)),
        };
        let mut replay = Replay::until(&self.position);
        loop {
            let wait = self.out.idle_limit();
            let idle = if ended { client.inner.limits.call } else { Self::STREAM_IDLE };
            let read = tokio::time::timeout(wait.unwrap_or(idle), chunk(&mut response));
            let read = tokio::select! {
                read = read => read,
                sent = self.clients.sent() => match sent {
                    // The status is requested every few seconds anyway.
                    Some(now) if now.endpoint() == client.endpoint() => continue,
                    _ => return Ok(Err(RayError::Silent("the connection was lost".to_owned()))),
                },
            };
            match read {
                Ok(Ok(Some(bytes))) => {
                    client.meter().http.receive(bytes.len());
                    if !self.take(&mut replay, &bytes).await? {
                        return Ok(Ok(FileRead::Replaced));
                    }
                }
                Ok(Ok(None)) if ended && replay.is_short() => {
                    self.begin_again().await?;
                    return Ok(Ok(FileRead::Replaced));
                }
                Ok(Ok(None)) => return Ok(Ok(FileRead::End)),
                Ok(Err(error)) => return Ok(Err(error)),
                Err(_) if wait.is_some() => self.out.quiet().await?,
                Err(_) if ended => return Ok(Err(RayError::Silent("the log file stalled".to_owned()))),
                // The stream never ends on its own.
                Err(_) => match client.job(&self.id).await {
                    Ok(detail) if detail.job.status.is_ended() => return Ok(Ok(FileRead::End)),
                    Ok(_) => {}
                    Err(error) => return Ok(Err(error)),
                },
            }
        }
    }

    /// `GET /api/v0/logs/file` or `stream`: the node may be any live one, Ray finds the right one.
    fn file(&self, kind: &str, node: NodeId, lines: i32) -> String {
        let id = encoded(self.id.0.raw());
        format!("/api/v0/logs/{kind}?node_id={node}&submission_id={id}&lines={lines}")
    }
}

async fn chunk(response: &mut Response) -> Result<Option<Bytes>, RayError> {
    response.chunk().await.map_err(|e| super::super::client::silent(&e))
}

fn broken(error: RayError) -> Ended {
    if error.is_final() { Ended::Refused(error) } else { Ended::Broken(error.to_string()) }
}

/// Whether an error means that the log of an ended job cannot be read any more. Ray returns HTTP 500 if its file or its
/// node is gone.
fn is_lost(error: &RayError) -> bool {
    matches!(error, RayError::Status { code: 500, .. }) || error.is_final() && !error.is_token()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A log as Python's text mode reads it.
    fn translated(raw: &[u8]) -> Vec<u8> {
        String::from_utf8_lossy(raw).replace("\r\n", "\n").replace('\r', "\n").into_bytes()
    }

    fn replayed(known: &[u8], again: &[u8], cut: usize) -> Vec<u8> {
        let mut position = Position::default();
        position.advance(known);
        let mut replay = Replay::until(&position);
        let cut = cut.min(again.len());
        let (a, b) = again.split_at(cut);
        let mut new_bytes = replay.new_part(a).unwrap().to_vec();
        new_bytes.extend_from_slice(replay.new_part(b).unwrap());
        new_bytes
    }

    #[test]
    fn a_position_is_valid_for_both_sources() {
        let raw = b"one\r\ntwo\rthree\nfour\n";
        assert_eq!(replayed(&translated(b"one\r\ntwo\r"), raw, 3), b"three\nfour\n");
        assert_eq!(
            replayed(b"one\r", raw, 4),
            b"two\rthree\nfour\n",
            "the other half of a line break is known"
        );
        assert_eq!(replayed(b"", raw, 0), raw);
        assert_eq!(replayed(raw, raw, 7), b"");
        assert_eq!(replayed(b"one\n\ntwo\n", b"one\r\ntwo\nthree\n", 9), b"three\n", "a break read as two");
        assert_eq!(replayed(b"one\n\n", b"one\n\n\n\ntwo\n", 4), b"\n\ntwo\n", "empty lines are kept");
    }

    #[test]
    fn another_log_is_recognized_by_its_beginning_and_at_the_position() {
        let replay = |known: &[u8]| {
            let mut position = Position::default();
            position.advance(known);
            Replay::until(&position)
        };
        assert_eq!(replay(b"run 1\nstep 1\nstep 2\n").new_part(b"run 2\n"), None);
        // The same beginning, which is longer than what is compared.
        let same = b"step\n".repeat(2000);
        let known = [&same[..], b"the end\n"].concat();
        let (mut other, mut short, mut equal) = (replay(&known), replay(&known), replay(&known));
        assert_eq!(other.new_part(&same), Some(&b""[..]));
        assert_eq!(other.new_part(b"and more steps\n"), None);
        assert_eq!((short.new_part(&same), short.is_short()), (Some(&b""[..]), true));
        assert_eq!((equal.new_part(&known), equal.is_short()), (Some(&b""[..]), false));
        assert_eq!(equal.new_part(b"more\n"), Some(&b"more\n"[..]));
        assert!(!replay(&known).is_short(), "an empty response proves nothing");
    }

    #[test]
    fn ends_are_compared_over_their_common_length() {
        let mut position = Position::default();
        position.advance(&translated(b"begin\r\nlast line\r\n"));
        assert!(position.ends_like(b"last line\r\n"));
        assert!(
            !position.ends_like(b"before that\nbegin\r\nlast line\n"),
            "the log is longer than what was received"
        );
        assert!(!position.ends_like(b"last line\r\nand one more\n"));
        assert!(position.ends_like(b""));
        assert!(!Position::default().ends_like(b"a log of which nothing came\n"));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_repeated(
            log in "[ab\r\n]{0,40}", seen in 0usize..40, cut in 0usize..40
        ) {
            let log = log.as_bytes();
            let seen = seen.min(log.len());
            let mut whole = translated(&log[..seen]);
            // A log that is cut inside a line break is read as two line breaks until the rest arrives.
            prop_assume!(!(log[..seen].ends_with(b"\r") && log[seen..].starts_with(b"\n")));
            whole.extend(translated(&replayed(&translated(&log[..seen]), log, cut)));
            prop_assert_eq!(whole, translated(log));
        }
    }
}
