//! Log files of a node's session folder: list, read and follow (state API, `/api/v0/logs`).

use super::super::RayError;
use super::super::client::{Client, encoded};
use super::super::convert::envelope;
use super::super::json::{Table, read_with};
use super::tail::{Backoff, Clients, Closed, InForce, Outlet, Tail};
use crate::logs::LineSplitter;
use crate::model::{Line, NodeId, SubmissionId, Text};
use bytes::Bytes;
use serde_json::Value;
use std::time::Duration;

/// Log files by Ray's category (`raylet`, `worker_out`, ...), each sorted; folders end with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFiles(pub Vec<(Text, Vec<Text>)>);

impl Client {
    /// Lists a node's log files that match a glob relative to its log folder; `*` for all (`GET /api/v0/logs`).
    pub async fn log_files(&self, node: NodeId, glob: &str) -> Result<LogFiles, RayError> {
        let body = self.get(&format!("/api/v0/logs?node_id={node}&glob={}", encoded(glob))).await?;
        list(&body)
    }

    /// The last `lines` lines of a file, as bytes (`GET /api/v0/logs/file`).
    pub async fn read_log(&self, node: NodeId, name: &Text, lines: u32) -> Result<Bytes, RayError> {
        // Ray takes 0 for its default of 1000.
        let (name, lines) = (encoded(name.raw()), lines.max(1));
        self.get(&format!("/api/v0/logs/file?node_id={node}&filename={name}&lines={lines}")).await
    }

    /// The last `lines` lines of a job's driver log, as bytes, which may not be UTF-8. `node` is any live node; Ray finds
    /// the right one.
    pub async fn read_job_log(&self, id: &SubmissionId, node: NodeId, lines: u32) -> Result<Bytes, RayError> {
        let (id, lines) = (encoded(id.0.raw()), lines.max(1));
        self.get(&format!("/api/v0/logs/file?node_id={node}&submission_id={id}&lines={lines}")).await
    }

    /// Follows a file from its last `keep` lines on. The file is polled rather than streamed: an idle stream occupies one
    /// of the dashboard's hundred slots for five minutes.
    pub fn follow_log(&self, node: NodeId, name: &Text, keep: usize) -> Tail {
        begin(InForce::only(self.clone()), node, name, keep)
    }
}

/// [`Client::follow_log`] with the current client.
pub fn follow_log(clients: Clients, node: NodeId, name: &Text, keep: usize) -> Tail {
    begin(InForce(clients), node, name, keep)
}

fn begin(clients: InForce, node: NodeId, name: &Text, keep: usize) -> Tail {
    let (name, lines) = (name.clone(), u32::try_from(keep).unwrap_or(u32::MAX));
    Tail::spawn(move |out| follow(clients, node, name, lines, out), keep, LineSplitter::ON_A_SCREEN)
}

fn list(body: &[u8]) -> Result<LogFiles, RayError> {
    read_with("/api/v0/logs", body, |text| {
        let categories: Table<Value> = envelope::result(text)?;
        let files = categories.0.into_iter().map(|(category, files)| {
            let names = files.as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut names: Vec<Text> = names.map(Text::from).collect();
            names.sort();
            (Text::from(category), names)
        });
        Ok(LogFiles(files.collect()))
    })
}

/// The lines of a complete file, cleaned for a terminal.
pub fn cleaned(bytes: &[u8]) -> Vec<Line> {
    let mut splitter = LineSplitter::default();
    let mut lines = splitter.push(bytes);
    lines.extend(splitter.finish());
    lines
}

/// The last known end of a file.
#[derive(Default)]
struct Seen(Vec<u8>);

impl Seen {
    /// Remembers enough complete lines to find the position again.
    fn end_of(now: &[u8]) -> Self {
        const REMEMBERED: usize = 2 << 10;
        let from = now.len().saturating_sub(REMEMBERED);
        let from = (from..now.len()).find(|at| at_line_start(now, *at)).unwrap_or(from);
        Self(now[from..].to_vec())
    }

    /// The new lines after it in a new read of the file's end; `None` when the read does not reach back far enough.
    fn news<'a>(&self, now: &'a [u8]) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return Some(now);
        }
        let places = 0..=now.len().checked_sub(self.0.len())?;
        let found = places.rev().find(|at| at_line_start(now, *at) && now[*at..].starts_with(&self.0));
        found.map(|at| &now[at + self.0.len()..])
    }
}

fn at_line_start(bytes: &[u8], at: usize) -> bool {
    at == 0 || bytes[at - 1] == b'\n'
}

async fn follow(
    mut clients: InForce,
    node: NodeId,
    name: Text,
    keep: u32,
    mut out: Outlet,
) -> Result<(), Closed> {
    /// Poll interval.
    const EVERY: Duration = Duration::from_secs(2);
    /// Lines of an ordinary read, and of the largest one.
    const LOOK: u32 = 200;
    const FURTHEST: u32 = 100_000;
    let mut backoff = Backoff(Backoff::FIRST);
    let mut seen = Seen::default();
    // One more, for a last line that is still being written.
    let mut lines = keep.saturating_add(1);
    loop {
        let client = clients.client(&mut out).await?;
        let now = match client.read_log(node, &name, lines).await {
            Ok(now) => now,
            Err(error) if clients.outlives(&error, &mut out).await? => continue,
            Err(error) if error.is_token() => return out.failed(error).await,
            Err(error) => {
                out.interrupted(error).await?;
                backoff.wait(&mut clients).await;
                continue;
            }
        };
        backoff.reset();
        // A line that is still being written is passed on when it is complete.
        let whole = now.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let now = &now[..whole];
        if let Some(news) = seen.news(now) {
            out.feed(news).await?;
        } else if lines < FURTHEST && now.split(|b| *b == b'\n').count() > lines as usize {
            lines = lines.saturating_mul(8);
            continue;
        } else {
            out.interrupted("the file was replaced, or lines were missed").await?;
            out.feed(now).await?;
        }
        seen = Seen::end_of(now);
        lines = LOOK;
        out.quiet().await?;
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            _ = clients.sent() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::{VERSIONS, body};
    use super::*;

    #[test]
    fn a_recorded_listing_is_sorted() {
        for version in VERSIONS {
            let files = list(&body(version, "v0_logs_head")).unwrap().0;
            let internal = &files.iter().find(|(category, _)| category.raw() == "internal").unwrap().1;
            assert!(internal.iter().any(|f| f.raw() == "job-driver-busy-1.log"), "{version}");
            assert!(internal.is_sorted());
        }
    }

    #[test]
    fn only_what_is_new_is_handed_on() {
        let seen = Seen::end_of(b"a\nb\n");
        assert_eq!(seen.news(b"a\nb\n"), Some(&b""[..]));
        assert_eq!(seen.news(b"x\na\nb\nc\n"), Some(&b"c\n"[..]));
        assert_eq!(seen.news(b"b\nc\n"), None, "the look does not reach back far enough");
        let long = b"0123456789\n".repeat(1000);
        let end = Seen::end_of(&long);
        assert!(end.0.len() <= 2048 && end.0.starts_with(b"0"));
    }

    #[test]
    fn the_first_look_is_all_new() {
        assert_eq!(Seen::default().news(b"a\n"), Some(&b"a\n"[..]));
    }

    #[test]
    fn a_file_may_end_without_a_line_break() {
        assert_eq!(cleaned(b"a\nb"), ["a", "b"].map(Line::from));
        assert_eq!(cleaned(b"a\n"), [Line::from("a")]);
        assert!(cleaned(b"").is_empty());
    }
}
