//! The log files of a simulated head, and the results of command lines.

use super::super::connection::Body;
use super::super::dashboard::logs;
use super::super::dashboard::query::Query;
use super::super::shared::Shared;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The log directory of the running session on a head.
pub(super) const LOGS: &str = "/tmp/ray/session_latest/logs/";
/// Interval at which `tail -F` checks for a file that does not exist.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The log files of a head or of a worker's host, and its host name.
#[derive(Clone)]
pub(super) struct Files {
    pub shared: Arc<Shared>,
    /// The address of the worker's host; `None` for the head.
    address: Option<String>,
    /// The output of `hostname`.
    pub hostname: String,
}

impl Files {
    /// The files on the head of a cluster.
    pub fn new(shared: Arc<Shared>, cluster: &str) -> Self {
        Self { shared, address: None, hostname: format!("ray-{cluster}-head") }
    }

    /// The files on the worker's host with this address.
    pub fn of_worker(shared: Arc<Shared>, address: &str) -> Self {
        Self { shared, address: Some(address.to_owned()), hostname: format!("ip-{address}") }
    }

    fn node(&self) -> String {
        self.shared.now(|c| {
            let found = c.nodes.iter().find(|n| match &self.address {
                Some(address) => !n.is_head && n.end.is_none() && n.ip == *address,
                None => n.is_head,
            });
            found.map(|n| n.id.to_string()).unwrap_or_default()
        })
    }

    /// The name of the running Ray session.
    pub fn session(&self) -> String {
        self.shared.now(|c| c.session.clone())
    }

    /// The names of the files that match a glob, sorted.
    pub async fn names(&self, glob: &str) -> Vec<String> {
        let glob = utf8_percent_encode(glob, NON_ALPHANUMERIC);
        let query = Query::new(&format!("node_id={}&glob={glob}", self.node()));
        let body = whole(logs::list(&query, &self.shared).into_body()).await;
        let found: Value = serde_json::from_slice(&body).unwrap_or_default();
        let categories = found["data"]["result"].as_object();
        let files = categories.into_iter().flat_map(|c| c.values()).filter_map(Value::as_array).flatten();
        let mut names: Vec<String> = files.filter_map(Value::as_str).map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Reads a file from its first byte or from its last `lines`, up to its current end or continuously.
    pub fn open(&self, path: &str, lines: Option<u64>, follow: bool) -> Option<Body> {
        let name = path.strip_prefix(LOGS).or_else(|| path.strip_prefix("./")).unwrap_or(path);
        // Of the files that a pattern matches, a simulated head has only the log.
        let name = name.strip_suffix('*').map_or_else(|| name.to_owned(), |stem| format!("{stem}.log"));
        let name = utf8_percent_encode(&name, NON_ALPHANUMERIC);
        let lines = lines.map_or("-1".to_owned(), |n| n.to_string());
        let query = Query::new(&format!("node_id={}&filename={name}&lines={lines}", self.node()));
        let response = logs::read(&query, follow, &self.shared);
        (response.status() == StatusCode::OK).then(|| response.into_body())
    }
}

pub(super) async fn whole(body: Body) -> Bytes {
    // The bodies of these routes are built in this process and never fail.
    body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}

/// The result of a command line.
#[derive(Default)]
pub(super) struct Answer {
    /// Standard output.
    pub out: Bytes,
    /// Standard error.
    pub err: String,
    /// Exit code.
    pub status: u32,
    /// Further output that follows.
    pub rest: Option<Rest>,
    /// Whether the shell exits with the status (`exit`).
    pub exits: bool,
}

impl Answer {
    pub fn output(text: impl Into<Bytes>) -> Self {
        Self { out: text.into(), ..Self::default() }
    }

    pub fn failure(status: u32, err: impl Into<String>) -> Self {
        Self { err: err.into() + "\n", status, ..Self::default() }
    }
}

/// The continuing output of a followed file.
pub(super) struct Rest {
    files: Files,
    path: String,
    body: Option<Body>,
    /// Bytes to skip.
    skip: u64,
    /// Exit code once another file has the name; `None` to follow the new file, as `tail -F` does.
    ends: Option<u32>,
}

impl Rest {
    /// Follows the file that has the name now, from a byte on; ends with this exit code once another file has the name.
    pub fn of_one_file(files: &Files, path: &str, skip: u64, ends: u32) -> Self {
        let body = files.open(path, None, true);
        Self { files: files.clone(), path: path.to_owned(), body, skip, ends: Some(ends) }
    }

    /// Follows the file from a byte on, and then each new file with the name, as `tail -F` does.
    pub fn of_name(files: &Files, path: &str, body: Option<Body>, skip: u64) -> Self {
        Self { files: files.clone(), path: path.to_owned(), body, skip, ends: None }
    }

    /// The next bytes, or the exit code.
    pub async fn next(&mut self) -> Result<Bytes, u32> {
        loop {
            let Some(body) = &mut self.body else {
                tokio::time::sleep(POLL_INTERVAL).await;
                self.body = self.files.open(&self.path, None, true);
                if let (Some(_), Some(status)) = (&self.body, self.ends) {
                    return Err(status);
                }
                continue;
            };
            let frame = body.frame().await.and_then(Result::ok).and_then(|f| f.into_data().ok());
            let Some(mut bytes) = frame else {
                // The file was removed: wait for a new file with the name.
                (self.body, self.skip) = (None, 0);
                continue;
            };
            let over = self.skip.min(bytes.len() as u64);
            self.skip -= over;
            let left = bytes.split_off(over as usize);
            if !left.is_empty() {
                return Ok(left);
            }
        }
    }
}
