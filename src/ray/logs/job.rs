//! Follows a job's driver log to its end, across broken connections.
//!
//! A position in the log is a byte count that is valid for both sources: the WebSocket, where Ray has replaced `\r\n`
//! and `\r` by `\n`, and the raw file of the state API.

use super::super::client::{Client, encoded};
use super::super::{JobDetail, RayError};
use super::socket::{Frame, Socket};
use super::stream::{Backoff, Clients, Closed, CurrentClient, Outlet};
use crate::model::{JobStatus, NodeId, SubmissionId};
use bytes::Bytes;
use reqwest::{Method, Response};
use std::time::{Duration, Instant};

/// Follows a job's whole driver log to its end, from its first line on. When the client changes, no line is lost or
/// repeated.
pub async fn follow_whole(clients: Clients, id: SubmissionId, out: Outlet) -> Result<(), Closed> {
    Follower { clients: CurrentClient(clients), id, out, position: Position::default() }.run().await
}

/// A position in a log, and the last bytes before it, to recognize it.
#[derive(Debug, Default)]
struct Position {
    count: u64,
    after_cr: bool,
    tail: Vec<u8>,
}

impl Position {
    /// Number of bytes that are kept to compare the ends of logs.
    const MAX_COMPARED_BYTES: usize = 4 << 10;

    fn advance(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
        let surplus = self.tail.len().saturating_sub(Self::MAX_COMPARED_BYTES);
        self.tail.drain(..surplus);
    }

    fn step(&mut self, byte: u8) {
        let second_half = byte == b'\n' && self.after_cr;
        self.after_cr = byte == b'\r';
        if !second_half {
            self.count += 1;
            self.tail.push(if byte == b'\r' { b'\n' } else { byte });
        }
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

/// A replay of the log from its beginning that passes on only the bytes after a position.
struct Replay {
    until: u64,
    at: Position,
}

impl Replay {
    fn until(position: &Position) -> Self {
        Self { until: position.count, at: Position::default() }
    }

    /// The part of `bytes` that is new.
    fn new_part<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.at.count >= self.until && !self.at.after_cr {
            return bytes;
        }
        for (i, byte) in bytes.iter().enumerate() {
            if self.at.count >= self.until && !(self.at.after_cr && *byte == b'\n') {
                self.at.after_cr = false;
                return &bytes[i..];
            }
            self.at.step(*byte);
            self.at.tail.clear();
        }
        &[]
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
    /// Closed normally; whether it had new bytes.
    Normal { has_new_bytes: bool },
    /// Broken, with the reason.
    Broken(String),
    /// Refused permanently.
    Refused(RayError),
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
                Ended::Normal { has_new_bytes } => match self.detail().await? {
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
                Frame::Data(bytes) => self.take(&mut replay, &bytes).await?,
                Frame::Done => return Ok(Ended::Normal { has_new_bytes: self.position.count > before }),
                Frame::Broken(why) => return Ok(Ended::Broken(why)),
            }
        }
    }

    async fn take(&mut self, replay: &mut Replay, bytes: &[u8]) -> Result<(), Closed> {
        let new_bytes = replay.new_part(bytes);
        self.position.advance(new_bytes);
        self.out.feed(new_bytes).await
    }

    /// Called when the job has ended and its log was closed normally: checks against the file whether the log is
    /// complete.
    async fn finish(&mut self, node: Option<NodeId>) -> Result<(), Closed> {
        // A job that failed before it started has neither node nor log.
        if let Some(node) = node {
            let client = self.clients.client(&mut self.out).await?;
            match client.get(&self.file("file", node, 20)).await {
                Ok(end) if !self.position.ends_like(&end) => return self.over_file().await,
                Ok(_) => {}
                // Without a file there are no further lines.
                Err(error) => tracing::debug!(%error, "the end of the log could not be verified"),
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
                                Ok(()) if ended => return self.out.complete().await,
                                Ok(()) if has_new_bytes => continue,
                                // Ray may end every stream at once, e.g. for a file that was deleted.
                                Ok(()) => {
                                    backoff.wait(&mut self.clients).await;
                                    continue;
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
    async fn read_file(&mut self, node: NodeId, ended: bool) -> Result<Result<(), RayError>, Closed> {
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
                    self.take(&mut replay, &bytes).await?;
                }
                Ok(Ok(None)) => return Ok(Ok(())),
                Ok(Err(error)) => return Ok(Err(error)),
                Err(_) if wait.is_some() => self.out.quiet().await?,
                Err(_) if ended => return Ok(Err(RayError::Silent("the log file stalled".to_owned()))),
                // The stream never ends on its own.
                Err(_) => match client.job(&self.id).await {
                    Ok(detail) if detail.job.status.is_ended() => return Ok(Ok(())),
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
        let mut new_bytes = replay.new_part(a).to_vec();
        new_bytes.extend_from_slice(replay.new_part(b));
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
