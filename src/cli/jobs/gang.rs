//! The workers of a job as a command reads them: which there are, what they are called, and the ends of their files.

use super::super::reach::{Progress, Reach};
use super::super::seen;
use super::status::find;
use crate::app::Cluster;
use crate::logs::{Clock, LineSplitter, Worker};
use crate::model::time::brief;
use crate::model::{Job, JobWorker, Line, Node, Text, Timestamp, WorkerFile, WorkerState};
use crate::ray::{AT_ONCE, Client, RayError};
use crate::supervisor::Session;
use anyhow::Result;
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::time::Duration;

/// A worker, with the names that people know it by.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub worker: JobWorker,
    /// The name that its node is shown by.
    pub host: String,
    /// The name of its slice; empty if it is in none.
    pub slice: String,
    /// Why it no longer runs.
    pub ended: Option<String>,
    /// Whether its node is dead, and its files are gone with it.
    pub is_lost: bool,
}

impl Seat {
    /// Of that host and process, in a few characters: `10.0.0.7/4123`.
    pub fn who(&self) -> String {
        format!("{}/{}", self.host, self.worker.pid)
    }

    /// As the roll call knows it.
    pub fn called(&self) -> Worker {
        Worker {
            host: self.host.clone(),
            slice: self.slice.clone(),
            name: self.worker.name.to_string(),
            pid: Some(self.worker.pid),
            rank: None,
            ahead_ms: 0,
            ended: self.ended.clone(),
        }
    }
}

/// A job, its cluster and its workers, after one reading.
pub(super) struct Crew {
    pub cluster: Cluster,
    pub job: Arc<Job>,
    pub seats: Vec<Seat>,
    /// The clock that its logs are read by.
    pub clock: Clock,
}

impl Crew {
    /// Reads the job of that id, its cluster and its workers. What cannot be read is said on stderr.
    pub async fn read(id: &str, reach: &Reach, session: &Session, progress: &Progress) -> Result<Self> {
        progress.tell("reading the cluster");
        let (cluster, zone) = tokio::join!(seen::read_open(reach, session), session.client.zone());
        let cluster = cluster?;
        let job = find(&cluster, id).map_err(|problem| reach.error(&problem))?.clone();
        let now = Timestamp::now();
        let clock = Clock { near: now, east: zone.unwrap_or_default() };
        let Some(driver) = &job.driver else { return Ok(Self { cluster, job, seats: Vec::new(), clock }) };
        let alive = cluster.snapshot.nodes.iter().filter(|node| node.state.is_alive());
        let alive: Vec<_> = alive.map(|node| node.id).collect();
        progress.tell(format!("listing the workers of {}", many(alive.len(), "node")));
        let gang = session.client.gang(driver, &alive).await.map_err(super::failed(reach))?;
        for (node, why) in &gang.unread {
            let node = cluster.node_words(node).unwrap_or_else(|| node.to_string());
            eprintln!("incomplete: cannot list the files of {node}: {why}");
        }
        for part in &gang.cut {
            eprintln!("incomplete: {part}");
        }
        let seats = gang.workers.into_iter().map(|worker| seat(worker, &cluster, now)).collect();
        Ok(Self { cluster, job, seats, clock })
    }

    /// Leaves out the workers that run nothing and have not failed, as long as others run. How many those are.
    pub fn leave_out_idle(&mut self) -> usize {
        let runs = |seat: &Seat| seat.worker.state == WorkerState::Running && !seat.is_lost;
        if !self.seats.iter().any(runs) {
            return 0;
        }
        let all = self.seats.len();
        self.seats.retain(|seat| seat.worker.state != WorkerState::Ended || seat.is_lost);
        all - self.seats.len()
    }

    /// Why there are no workers, in a sentence.
    pub fn why_empty(&self) -> String {
        let (id, word) = (&self.job.key, self.job.status.word());
        match self.job.driver {
            None => format!("{id} is {word}: it has not called ray.init, so Ray knows no worker of it"),
            Some(_) => format!("{id} is {word}: no living node has a file of a worker of it"),
        }
    }
}

fn seat(worker: JobWorker, cluster: &Cluster, now: Timestamp) -> Seat {
    let node = cluster.node(&worker.node);
    let host = node.map_or_else(|| worker.node.to_string(), |node| cluster.node_name(node).to_string());
    let slice = node.and_then(|node| node.label("ray.io/tpu-slice-name")).map(Text::to_string);
    // A node that Ray has forgotten has been dead for long.
    let is_lost = node.is_none_or(|node| !node.state.is_alive());
    let ended = match &worker.state {
        _ if is_lost => Some(node.map_or_else(|| "its node is gone".to_owned(), |node| died(node, now))),
        WorkerState::Running => None,
        WorkerState::Failed { why, at } => {
            let ago = at.map(|at| format!(" {} ago", brief(at.age(now)))).unwrap_or_default();
            Some(format!("failed{ago}: {}", last_line(why)))
        }
        WorkerState::Ended => Some("ended".to_owned()),
    };
    Seat { worker, host, slice: slice.unwrap_or_default(), ended, is_lost }
}

/// When and why a node died: `node died 12m ago: health check failed`.
pub(in crate::cli) fn died(node: &Node, now: Timestamp) -> String {
    let ago = node.ended.map(|at| format!(" {} ago", brief(at.age(now)))).unwrap_or_default();
    let why = node.death.as_ref().filter(|death| !death.message.is_empty());
    let why = why.map(|death| format!(": {}", death.message)).unwrap_or_default();
    format!("node died{ago}{why}")
}

/// The last line of Ray's words that says something: the exception of a traceback.
fn last_line(words: &Text) -> String {
    let line = words.raw().lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    crate::model::text::log_line(line).trim().to_owned()
}

/// Reads the last lines of each worker's files, at most [`AT_ONCE`] at a time, and hands them on as they arrive: the
/// place of the worker, the file, and its lines. What cannot be read is said on stderr.
pub(super) async fn tails(
    client: &Client,
    seats: &[Seat],
    lines: u32,
    progress: &Progress,
    mut each: impl FnMut(usize, &WorkerFile<'_>, Vec<Line>),
) -> Result<(), RayError> {
    let files = seats.iter().enumerate().flat_map(|(at, seat)| {
        seat.worker
            .files
            .iter()
            .filter_map(move |name| Some((at, seat, name, WorkerFile::parse(name.raw())?)))
    });
    let files: Vec<_> = files.collect();
    progress.tell(format!("reading the ends of {}", many(files.len(), "file")));
    let reads = files.into_iter().map(|(at, seat, name, file)| async move {
        (at, seat, file, client.worker_log(seat.worker.node, name, lines).await)
    });
    let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    while let Some((at, seat, file, bytes)) = reads.next().await {
        match bytes {
            Ok(bytes) => {
                let mut splitter = LineSplitter::default();
                let mut lines = splitter.push(&bytes);
                lines.extend(splitter.finish());
                each(at, &file, lines);
            }
            Err(e) if e.is_token() => return Err(e),
            Err(e) => eprintln!("incomplete: cannot read the log of {}: {e}", seat.who()),
        }
    }
    Ok(())
}

/// Says once on stderr how many workers' files are gone with their nodes.
pub(super) fn tell_lost(seats: &[Seat]) {
    let lost = seats.iter().filter(|seat| seat.is_lost);
    let mut hosts: Vec<&str> = lost.clone().map(|seat| seat.host.as_str()).collect();
    hosts.dedup();
    if !hosts.is_empty() {
        eprintln!(
            "incomplete: the logs of {} are gone with their nodes: {}",
            many(lost.count(), "worker"),
            first_few(&hosts)
        );
    }
}

/// A number of things: `1 worker`, `3 workers`.
pub(in crate::cli) fn many(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// The first of some names, and how many more there are.
pub(super) fn first_few(names: &[&str]) -> String {
    const FEW: usize = 8;
    match names.split_at_checked(FEW) {
        Some((few, rest)) if !rest.is_empty() => format!("{} and {} more", few.join(", "), rest.len()),
        _ => names.join(", "),
    }
}

/// A time of day with milliseconds in the local time zone, as logs have it.
pub(super) fn clock_time(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%m-%d %H:%M:%S%.3f").to_string()
}

/// An age for people; `-` if it is not known.
pub(super) fn age_words(age: Option<Duration>) -> String {
    age.map_or_else(|| "-".to_owned(), brief)
}
