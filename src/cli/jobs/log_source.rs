//! Where `job-logs` reads a driver's log: the file on the head over ssh, or through the dashboard where ssh does not lead
//! to it. Nothing holds more of it than the part that is asked for.

use super::super::reach::Reach;
use super::failed;
use crate::logs::{Clock, Grep, LineSplitter};
use crate::model::{NodeId, SubmissionId, Timestamp};
use crate::supervisor::{LogFile, Remote, RemoteStream, Session, Unread, is_elsewhere};
use anyhow::{Result, bail};
use bytes::Bytes;

/// Lines that are searched through the dashboard, which has to send them all.
const SEARCHED: u32 = 100_000;
/// Numbers of lines before the end in which the first of a time is looked for, one after the other.
const STEPS: [u32; 4] = [1000, 10_000, 100_000, 1_000_000];

/// A part of a log.
#[derive(Clone, Debug)]
pub enum Part {
    /// So many lines before its end.
    Last(u32),
    /// The lines that match, of the whole log.
    Matching(Grep),
    /// All of it.
    Whole,
}

/// A job's driver log.
pub struct LogSource<'a> {
    reach: &'a Reach,
    session: &'a Session,
    id: &'a SubmissionId,
    file: LogFile,
    /// The head's shell, as long as the file may be there.
    remote: Option<Remote>,
    /// Whether the head was asked where the driver runs.
    is_placed: bool,
    /// The driver's node, once it was asked for.
    node: Option<NodeId>,
}

/// The bytes of a part, as they come.
pub enum LogBytes {
    /// From the head.
    Remote(Bytes, Box<RemoteStream>),
    /// From the dashboard; none once read.
    Read(Bytes),
}

impl LogBytes {
    /// The next bytes; none at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        match self {
            Self::Read(all) => {
                let piece = all.split_to(all.len().min(64 << 10));
                Ok((!piece.is_empty()).then_some(piece))
            }
            Self::Remote(first, _) if !first.is_empty() => Ok(Some(std::mem::take(first))),
            Self::Remote(_, stream) => match stream.chunk().await {
                Ok(bytes) => Ok(bytes),
                Err(why) => bail!("the log was cut off: {}", Unread::from(why)),
            },
        }
    }
}

impl<'a> LogSource<'a> {
    /// The log of this job, over the connection of this command.
    pub fn new(reach: &'a Reach, session: &'a Session, id: &'a SubmissionId) -> Self {
        let remote = session.connection().remote();
        Self { reach, session, id, file: LogFile::of_job(id), remote, is_placed: false, node: None }
    }

    /// Begins to read a part; none while the job has no driver.
    pub async fn open(&mut self, part: &Part) -> Result<Option<LogBytes>> {
        if let Some(bytes) = self.over_ssh(part).await {
            return Ok(Some(bytes));
        }
        // The driver runs on another node, there is no ssh, or no such job.
        self.remote = None;
        let (client, id) = (&self.session.client, self.id);
        let node = if let Some(node) = self.node {
            node
        } else {
            let job = client.job(id).await.map_err(failed(self.reach))?.job;
            let Some(node) = job.driver_node else {
                eprintln!("{id} is {}: no log yet", job.status.word());
                return Ok(None);
            };
            *self.node.insert(node)
        };
        let lines = match part {
            Part::Last(lines) => *lines,
            Part::Matching(_) | Part::Whole => {
                eprintln!(
                    "searching the last {SEARCHED} lines, read through the dashboard; -n N sets their number"
                );
                SEARCHED
            }
        };
        let log = client.read_job_log(id, node, lines).await.map_err(failed(self.reach))?;
        Ok(Some(LogBytes::Read(log)))
    }

    /// Reads the file on the head, if it is there.
    async fn over_ssh(&mut self, part: &Part) -> Option<LogBytes> {
        // A head that does not report them may have the file all the same.
        let elsewhere = !std::mem::replace(&mut self.is_placed, true)
            && is_elsewhere(&self.session.client, self.id, None).await;
        if elsewhere {
            return None;
        }
        let over = (self.remote.as_ref()?, &self.reach.spec);
        loop {
            let stream = match part {
                Part::Last(lines) => self.file.last(over, *lines),
                Part::Matching(words) => self.file.matching(over, words),
                Part::Whole => self.file.whole(over),
            };
            let why = match stream {
                Ok(mut stream) => match stream.chunk().await {
                    Ok(Some(first)) => return Some(LogBytes::Remote(first, Box::new(stream))),
                    // Nothing may be read behind the end.
                    Ok(None) => return Some(LogBytes::Read(Bytes::new())),
                    Err(error) => error.into(),
                },
                Err(why) => why,
            };
            if matches!(why, Unread::NoFolder) && self.file.enter(&self.reach.spec) {
                continue;
            }
            if let Unread::Failed(_) | Unread::Refused(_) = why {
                eprintln!("{} cannot be read on the head: {why}; the dashboard is asked", self.file.name());
            }
            return None;
        }
    }

    /// A part that has all lines since then, by the times that its lines say.
    pub async fn since(&mut self, since: Timestamp, clock: Clock) -> Result<Part> {
        for lines in STEPS {
            let part = Part::Last(lines);
            let Some(mut bytes) = self.open(&part).await? else { return Ok(part) };
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
            let is_all = time.is_none() && read < lines as usize;
            if is_all || time.is_some_and(|time| time < since) {
                return Ok(part);
            }
        }
        Ok(Part::Whole)
    }
}
