//! Reads a driver's log for `job-logs`: the file on the head over ssh, or the dashboard if ssh does not reach the file.
//! Never holds more than the requested part.

use super::super::reach::Reach;
use super::failed;
use crate::logs::{Clock, Grep, LineSplitter};
use crate::model::amount::grouped;
use crate::model::{ClusterSpec, Line, NodeId, SubmissionId, Timestamp};
use crate::supervisor::{
    ContentSearch, LogFile, Opened, ReadError, Remote, RemoteStream, Session, Start, is_elsewhere,
};
use anyhow::{Result, bail};
use bytes::Bytes;

/// Number of lines read or searched through the dashboard, which has to send them all.
const MAX_SEARCHED_LINES: u32 = 100_000;
/// After this many lines without a time, the log is assumed to have no times.
const MAX_UNTIMED_LINES: u32 = 100_000;
/// Numbers of lines before the end that are tried, in this order, to find the first line of a time.
const STEPS: [u32; 4] = [1000, 10_000, 100_000, 1_000_000];

/// A job's driver log, or another file of the head while its dashboard does not respond.
pub struct LogSource<'a> {
    reach: &'a Reach,
    /// The job and Ray; `None` if only the head can be reached.
    ray: Option<(&'a Session, &'a SubmissionId)>,
    file: LogFile,
    /// A shell on the head, as long as the file may be there.
    remote: Option<Remote>,
    /// Whether the head has been asked where the driver runs.
    is_placed: bool,
    /// The driver's node, once it is known.
    node: Option<NodeId>,
}

/// The bytes of a part, as they are received.
pub enum LogBytes {
    /// From the head.
    Remote(Bytes, Box<RemoteStream>),
    /// From the dashboard; empty once read.
    Read(Bytes),
}

impl LogBytes {
    /// The next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        match self {
            Self::Read(all) => {
                let piece = all.split_to(all.len().min(64 << 10));
                Ok((!piece.is_empty()).then_some(piece))
            }
            Self::Remote(first, _) if !first.is_empty() => Ok(Some(std::mem::take(first))),
            Self::Remote(_, stream) => match stream.chunk().await {
                Ok(bytes) => Ok(bytes),
                Err(why) => bail!("the log was cut off: {}", ReadError::from(why)),
            },
        }
    }

    /// Passes on all lines as they are received.
    pub async fn for_lines(mut self, mut each: impl FnMut(Vec<Line>) -> Result<()>) -> Result<()> {
        let mut splitter = LineSplitter::new(LineSplitter::MAX_LINE);
        while let Some(bytes) = self.chunk().await? {
            each(splitter.push(&bytes))?;
        }
        each(splitter.finish().into_iter().collect())
    }
}

impl<'a> LogSource<'a> {
    /// The log of this job, over the connection of this command.
    pub fn new(reach: &'a Reach, session: &'a Session, id: &'a SubmissionId) -> Self {
        let remote = session.connection().remote();
        let ray = Some((session, id));
        Self { reach, ray, file: LogFile::of_job(id), remote, is_placed: false, node: None }
    }

    /// A file of the head, over a separate login.
    pub fn on_head(reach: &'a Reach, remote: Remote, file: LogFile) -> Self {
        Self { reach, ray: None, file, remote: Some(remote), is_placed: true, node: None }
    }

    /// Starts reading at this position; with `words` only matching lines, which the host of the file searches for.
    /// `None` while the job has no driver. Without a shell on the head, all lines are read.
    pub async fn open(&mut self, start: Start, words: Option<&Grep>) -> Result<Option<LogBytes>> {
        let why = match self.over_ssh(start, words).await {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(why) => why,
        };
        // The driver runs on another node, there is no ssh, or no such job.
        self.remote = None;
        let Some((Session { client, .. }, id)) = self.ray else {
            let why = why.map(|why| why.to_string()).unwrap_or_default();
            bail!("{}: {} cannot be read on the head: {why}", self.reach.spec.name, self.file.name());
        };
        let node = if let Some(node) = self.node {
            node
        } else {
            let job = client.job(id).await.map_err(failed(self.reach))?.job;
            let Some(node) = job.driver_node else {
                eprintln!("{id} is {}: no log yet", job.status.label());
                return Ok(None);
            };
            *self.node.insert(node)
        };
        let lines = if let Start::Lines(lines) = start { lines } else { MAX_SEARCHED_LINES };
        let log = client.read_job_log(id, node, lines).await.map_err(failed(self.reach))?;
        let received = log.split(|b| *b == b'\n').count();
        if !matches!(start, Start::Lines(_)) && received > MAX_SEARCHED_LINES as usize {
            let verb = if words.is_some() { "searched" } else { "read" };
            let n = grouped(MAX_SEARCHED_LINES as usize);
            eprintln!("only the last {n} lines were {verb}, through the dashboard; -n reads more");
        }
        Ok(Some(LogBytes::Read(log)))
    }

    /// Reads the file on the head if it is there; otherwise returns why it cannot be read, if that is known.
    async fn over_ssh(&mut self, start: Start, words: Option<&Grep>) -> Result<LogBytes, Option<ReadError>> {
        self.locate_driver().await;
        loop {
            let over = (self.remote.as_ref().ok_or(None)?, &self.reach.spec);
            let opened = match words {
                Some(words) => {
                    matched(&self.file, over, &ContentSearch { start, ..ContentSearch::all(words.clone()) })
                        .await
                }
                None => read_first(self.file.rest(over, start)).await,
            };
            match opened {
                Ok(bytes) => return Ok(bytes),
                Err(why) if !self.tries_container(&why) => return Err(Some(why)),
                Err(_) => {}
            }
        }
    }

    /// Finds out, once, whether the driver runs on the head.
    async fn locate_driver(&mut self) {
        // A head that does not report it may still have the file.
        let Some((session, id)) = self.ray.filter(|_| !std::mem::replace(&mut self.is_placed, true)) else {
            return;
        };
        if is_elsewhere(&session.client, id, None).await {
            self.remote = None;
        }
    }

    /// Whether to look for the file in the cluster's container now. Otherwise reports why it cannot be read on the
    /// head.
    fn tries_container(&mut self, why: &ReadError) -> bool {
        if self.file.enter_after(why, &self.reach.spec) {
            return true;
        }
        if self.ray.is_some()
            && let ReadError::Failed(_) | ReadError::Refused(_) | ReadError::Utf16 = why
        {
            eprintln!("{}", self.file.elsewhere(why));
        }
        false
    }

    /// Finds where the lines since a time begin, by the times in the lines: a byte position in the file on the head, or
    /// else a number of lines that includes them all.
    pub async fn since(&mut self, since: Timestamp, clock: Clock) -> Result<Start> {
        self.locate_driver().await;
        while let Some(remote) = &self.remote {
            match self.file.since((remote, &self.reach.spec), since, clock).await {
                Ok(Some(start)) => return Ok(start),
                Ok(None) => break,
                Err(why) if !self.tries_container(&why) => self.remote = None,
                Err(_) => {}
            }
        }
        for lines in STEPS {
            let Some(mut bytes) = self.open(Start::Lines(lines), None).await? else {
                return Ok(Start::Lines(lines));
            };
            let (mut splitter, mut read) = (LineSplitter::default(), 0);
            let time = loop {
                let (batch, is_end) = match bytes.chunk().await? {
                    Some(chunk) => (splitter.push(&chunk), false),
                    None => (std::mem::take(&mut splitter).finish().into_iter().collect(), true),
                };
                read += batch.len();
                let time = batch.iter().find_map(|line| clock.time(line.text()));
                if time.is_some() || is_end {
                    break time;
                }
            };
            let is_all = time.is_none() && (read < lines as usize || lines >= MAX_UNTIMED_LINES);
            if is_all || time.is_some_and(|time| time < since) {
                return Ok(Start::Lines(lines));
            }
        }
        Ok(Start::Beginning)
    }
}

/// Reads the first bytes of a stream, which must not be read again if it has ended.
async fn read_first(stream: Result<RemoteStream, ReadError>) -> Result<LogBytes, ReadError> {
    let mut stream = stream?;
    Ok(match stream.chunk().await? {
        Some(first) => LogBytes::Remote(first, Box::new(stream)),
        None => LogBytes::Read(Bytes::new()),
    })
}

/// The matching lines, after the line that identifies the open file.
async fn matched(
    file: &LogFile,
    over: (&Remote, &ClusterSpec),
    search: &ContentSearch,
) -> Result<LogBytes, ReadError> {
    let (mut stream, mut received) = (file.matched(over, search)?, Vec::new());
    while let Some(chunk) = stream.chunk().await? {
        received.extend_from_slice(&chunk);
        if let Some(opened) = Opened::take(&mut received) {
            opened?;
            return Ok(LogBytes::Remote(received.into(), Box::new(stream)));
        }
    }
    Ok(LogBytes::Read(Bytes::new()))
}
