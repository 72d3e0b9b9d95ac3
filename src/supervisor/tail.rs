//! Follows a file on the head through its shell: the way that works when Ray's own log API does not
//! (ray-project/ray#59614), and the lightest one for the autoscaler's logs.

use crate::logs::LineSplitter;
use crate::model::Line;
use crate::ssh::{Remote, RemoteStream, SshError, quote};
use std::time::Duration;

/// Where a head keeps the logs of the running session.
const LOGS: &str = "/tmp/ray/session_latest/logs";
/// At most this much of the past is read, in bytes.
const PAST: u64 = 1 << 20;
/// Limit of a remote command that answers at once.
const QUICK: Duration = Duration::from_secs(10);

/// A file and the offset read so far, from which a new connection continues.
pub struct Tail {
    path: String,
    /// Bytes of the file that are behind us; none before the first read.
    offset: Option<u64>,
    lines: LineSplitter,
    /// The first line read may be the rest of one.
    drop_first: bool,
    is_there: bool,
}

impl Tail {
    /// For a file of that name in the session's log folder.
    pub fn new(name: &str) -> Self {
        Self {
            path: format!("{LOGS}/{name}"),
            offset: None,
            lines: LineSplitter::default(),
            drop_first: false,
            is_there: false,
        }
    }

    /// Whether the file was there at the last look. Otherwise the stream waits for it.
    pub const fn is_there(&self) -> bool {
        self.is_there
    }

    /// Continues over this connection.
    pub async fn open(&mut self, remote: &Remote) -> Result<RemoteStream, SshError> {
        let size = self.size(remote).await?;
        self.is_there = size.is_some();
        let size = size.unwrap_or(0);
        let start = match self.offset {
            // A file that has shrunk is another one: a new session of the head.
            Some(offset) if offset <= size => offset,
            Some(_) => 0,
            None => size.saturating_sub(PAST),
        };
        if self.offset != Some(start) {
            self.lines = LineSplitter::default();
            self.drop_first = start > 0;
        }
        self.offset = Some(start);
        remote.stream(&format!("exec tail -c +{} -F -- {}", start + 1, quote(&self.path)))
    }

    /// Lines that are complete with this chunk of the stream.
    pub fn take(&mut self, chunk: &[u8]) -> Vec<Line> {
        self.offset = self.offset.map(|o| o + chunk.len() as u64);
        let mut lines = self.lines.push(chunk);
        if self.drop_first && !lines.is_empty() {
            lines.remove(0);
            self.drop_first = false;
        }
        lines
    }

    /// Bytes of the file; none where there is none.
    async fn size(&self, remote: &Remote) -> Result<Option<u64>, SshError> {
        let output = remote.run(&format!("wc -c < {}", quote(&self.path)), QUICK).await?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
    }
}
