//! Reads the workers of a job and their files through the head, at most eight requests at a time, and the clocks of
//! hosts over ssh. [`crate::job_workers`] interprets them.

use super::clock::read_clock;
use super::event::ServiceEvent;
use super::executor::Executor;
use super::host::Host;
use super::request::Request;
use crate::job_workers::{
    Clocks, DEFAULT_LINES, Findings, JobReadingCost, JobWorkers, Known, LastLines, OVERVIEW_LINES, Part,
    Verdict, WorkersAnswer, WorkersReading, causes, explained, failure, first_few, fold, hosts_to_time,
    in_order, last_files, running, worker_overview,
};
use crate::logs::{Clock, Explanation, LineSplitter, Times};
use crate::model::amount::counted;
use crate::model::cloud::TpuHost;
use crate::model::sort;
use crate::model::{
    ClusterSpec, HeadAddress, JobKey, JobStatus, Line, NodeId, Problem, Timestamp, WorkerFile,
};
use crate::ray::{AT_ONCE, Client, EMPTY_OR_FAILED, Listed, RayError};
use crate::supervisor::Options;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex;

/// Default number of lines of each log that an explanation reads.
const DEFAULT_EXPLAIN_LINES: u32 = 400;

/// Reads the workers of a job.
pub struct WorkerReader<'a> {
    /// The cluster of the job.
    pub spec: &'a ClusterSpec,
    /// Login options, for the clocks of hosts.
    pub options: &'a Options,
    /// Client of the head.
    pub client: &'a Client,
    /// Receives progress messages.
    pub progress: &'a (dyn Fn(String) + Sync),
    cost: JobReadingCost,
    listed: Listed,
}

impl<'a> WorkerReader<'a> {
    /// Creates a reader that uses this client.
    pub fn new(
        (spec, options): (&'a ClusterSpec, &'a Options),
        client: &'a Client,
        progress: &'a (dyn Fn(String) + Sync),
    ) -> Self {
        Self { spec, options, client, progress, cost: JobReadingCost::default(), listed: Listed::default() }
    }

    /// Lists the workers of the job on all alive nodes.
    ///
    /// # Errors
    ///
    /// Ray does not list tasks or actors. A node that does not list its files is in [`JobWorkers::incomplete`].
    pub async fn job_workers(&mut self, known: Known) -> Result<JobWorkers, RayError> {
        let zone = self.client.utc_offset().await;
        let clock = Clock { near: Timestamp::now(), utc_offset: zone.unwrap_or_default() };
        let Some(driver) = known.job.driver.clone() else {
            return Ok(JobWorkers::new(known, Vec::new(), clock));
        };
        let alive = known.alive();
        (self.progress)(format!("listing the workers of {}", counted(alive.len(), "node")));
        let gang = self.client.gang(&driver, &alive, &mut self.listed).await?;
        // One more for the time zone.
        self.cost.requests += gang.requests + 1;
        let unlisted = gang
            .unread
            .iter()
            .map(|(node, why)| format!("cannot list the files of {}: {why}", known.name_of(node)));
        let incomplete = unlisted.chain(gang.cut).collect();
        let patterns = self.options.patterns.clone();
        Ok(JobWorkers { patterns, incomplete, ..JobWorkers::new(known, gang.workers, clock) })
    }

    /// Reads the last lines of each worker's files. What cannot be read is added to [`JobWorkers::incomplete`].
    ///
    /// # Errors
    ///
    /// The head refuses the token.
    pub async fn tails(
        &mut self,
        job_workers: &mut JobWorkers,
        lines: u32,
    ) -> Result<Vec<LastLines>, RayError> {
        let client = self.client;
        let files = job_workers.workers.iter().enumerate().flat_map(|(at, worker)| {
            let files = worker.process.files.iter();
            files.filter_map(move |name| Some((at, worker, name, WorkerFile::parse(name.raw())?.is_err)))
        });
        let reads = files.map(|(at, worker, name, is_err)| async move {
            let read = client.read_log(worker.process.node, name, lines).await;
            (at, is_err, read)
        });
        let reads: Vec<_> = reads.collect();
        (self.progress)(format!("reading the last lines of {}", counted(reads.len(), "file")));
        self.cost.requests += reads.len();
        let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        let (mut tails, mut received, mut empty) = (Vec::new(), 0, 0);
        let mut unread = BTreeMap::<String, BTreeSet<usize>>::new();
        while let Some((worker, is_err, read)) = reads.next().await {
            match read {
                Ok(read) => {
                    received += read.len();
                    tails.push(LastLines { worker, is_err, lines: split(&read) });
                }
                Err(e) if e.is_token() => return Err(e),
                Err(e) if e.may_mean_empty() => {
                    empty += 1;
                    tails.push(LastLines { worker, is_err, lines: Vec::new() });
                }
                Err(e) => {
                    self.listed.forget(&job_workers.workers[worker].process.node);
                    unread.entry(e.to_string()).or_default().insert(worker);
                }
            }
        }
        drop(reads);
        self.cost.bytes += received;
        for (why, workers) in unread {
            let who: Vec<String> = workers.iter().map(|worker| job_workers.workers[*worker].who()).collect();
            let who = first_few(&who.iter().map(String::as_str).collect::<Vec<_>>());
            job_workers.incomplete.push(format!("cannot read the log of {who}: {why}"));
        }
        if empty > 0 && empty == tails.len() {
            job_workers.incomplete.push(EMPTY_OR_FAILED.to_owned());
        }
        // The order of arrival is arbitrary.
        sort::by_key(&mut tails, |tail| (tail.worker, tail.is_err));
        Ok(tails)
    }

    /// Explains what is wrong with the job, from the last lines of each log; returns the logs as well if they were
    /// compared.
    ///
    /// # Errors
    ///
    /// The head refuses the token, or does not report what the job waits for.
    pub async fn explain(
        &mut self,
        job_workers: &mut JobWorkers,
        lines: u32,
    ) -> Result<(Findings, Option<Logs>), RayError> {
        if let Some(found) = explained(job_workers) {
            return Ok((found, None));
        }
        if job_workers.known.job.status == JobStatus::Failed {
            let logs = self.logs(job_workers, lines).await?;
            return Ok((failure(job_workers, logs.causes(job_workers, &Clocks::new())), Some(logs)));
        }
        job_workers.leave_out_idle();
        let waits = self.client.work(&job_workers.known.job.ids()).await?.waits;
        let tails = self.tails(job_workers, OVERVIEW_LINES).await?;
        let answers = worker_overview(job_workers, &tails, Timestamp::now());
        let found = running(job_workers, &answers, &waits, &last_files(job_workers, &tails));
        // If the workers are still writing, there is no error to look for.
        if matches!(found.verdict, Verdict::Healthy | Verdict::Unhealthy) {
            return Ok((found, None));
        }
        let logs = self.logs(job_workers, lines).await?;
        Ok((Findings { explanation: logs.causes(job_workers, &Clocks::new()), ..found }, Some(logs)))
    }

    /// Like [`Self::explain`], with times corrected by the clocks of the hosts on which the order of the errors
    /// depends, if they can be reached over ssh.
    pub async fn with_clocks(&self, job_workers: &mut JobWorkers, found: Findings, logs: &Logs) -> Findings {
        let hosts =
            found.explanation.as_ref().map(|found| hosts_to_time(found, job_workers)).unwrap_or_default();
        // With a single host there is nothing to compare.
        if hosts.len() < 2 || matches!(self.spec.head, HeadAddress::Direct { .. }) {
            return found;
        }
        let clocks = self.clocks(job_workers, &hosts).await;
        if clocks.is_empty() {
            return found;
        }
        let explanation = logs.causes(job_workers, &clocks);
        if job_workers.known.job.status == JobStatus::Failed {
            return Findings { clocks, ..failure(job_workers, explanation) };
        }
        Findings { explanation, clocks, ..found }
    }

    /// Reads the ends of the driver's log and of the workers' files.
    async fn logs(&mut self, job_workers: &mut JobWorkers, lines: u32) -> Result<Logs, RayError> {
        let driver = match (job_workers.known.job.submission_id(), job_workers.known.head()) {
            (Some(id), Some(head)) => match self.client.read_job_log(id, head.id, lines).await {
                Ok(read) => {
                    self.cost.bytes += read.len();
                    Some(split(&read))
                }
                Err(e) if e.is_token() => return Err(e),
                Err(e) => {
                    job_workers.incomplete.push(format!("cannot read the driver's log: {e}"));
                    None
                }
            },
            _ => None,
        };
        self.cost.requests += 1;
        Ok(Logs { tails: self.tails(job_workers, lines).await?, driver })
    }

    /// Reads the clocks of these few hosts over ssh, all at once.
    async fn clocks(&self, job_workers: &mut JobWorkers, hosts: &[NodeId]) -> Clocks {
        (self.progress)(format!("reading the clocks of {}", counted(hosts.len(), "host")));
        let reads = hosts.iter().filter_map(|id| job_workers.known.node(id)).map(|node| {
            let (id, to) = (node.id, TpuHost::of(node));
            async move {
                let executor = Executor::Real;
                let host = Host { spec: self.spec, options: self.options, executor: &executor, to };
                (id, read_clock(&host).await)
            }
        });
        let mut clocks = Clocks::new();
        for (id, clock) in futures_util::future::join_all(reads.collect::<Vec<_>>()).await {
            match clock {
                Ok(clock) => drop(clocks.insert(id, clock)),
                Err(problem) => {
                    let host = job_workers.known.name_of(&id);
                    job_workers
                        .incomplete
                        .push(format!("the clock of {host} could not be read: {}", problem.what));
                }
            }
        }
        clocks
    }

    /// Reads the data of a page of the workers, with the logs that an explanation compared.
    async fn reading(
        &mut self,
        known: Known,
        part: Part,
    ) -> Result<(WorkersReading, Option<Logs>), RayError> {
        let begun = Instant::now();
        let mut compared = None;
        let mut job_workers = self.job_workers(known).await?;
        let (what, idle) = match part {
            Part::Overview => {
                let idle = job_workers.leave_out_idle();
                let tails = self.tails(&mut job_workers, OVERVIEW_LINES).await?;
                let answers = worker_overview(&job_workers, &tails, Timestamp::now());
                (WorkersAnswer::Overview { answers, last: last_files(&job_workers, &tails) }, idle)
            }
            Part::Lines => {
                let tails = self.tails(&mut job_workers, DEFAULT_LINES).await?;
                let whole_since = whole_since(&job_workers, &tails);
                let said: Vec<_> = in_order(&job_workers, tails).collect();
                let folded = fold(said.iter(), &job_workers);
                (WorkersAnswer::Lines { said, folded, whole_since }, 0)
            }
            Part::Cause => {
                let (found, logs) = self.explain(&mut job_workers, DEFAULT_EXPLAIN_LINES).await?;
                compared = logs;
                (WorkersAnswer::Cause(Box::new(found)), 0)
            }
        };
        let cost = JobReadingCost { took: begun.elapsed(), ..self.cost };
        Ok((WorkersReading { at: Timestamp::now(), cost, job_workers, idle, what }, compared))
    }
}

/// The ends of the logs that an explanation compares.
pub struct Logs {
    tails: Vec<LastLines>,
    driver: Option<Vec<Line>>,
}

impl Logs {
    fn causes(&self, job_workers: &JobWorkers, clocks: &Clocks) -> Option<Explanation> {
        causes(job_workers, &self.tails, self.driver.as_deref(), clocks)
    }
}

/// The lines of a log.
fn split(bytes: &Bytes) -> Vec<Line> {
    let mut splitter = LineSplitter::default();
    let mut lines = splitter.push(bytes);
    lines.extend(splitter.finish());
    lines
}

/// The time since which all files were read completely: the latest first time in the files that were not read from
/// their beginning.
fn whole_since(job_workers: &JobWorkers, tails: &[LastLines]) -> Option<Timestamp> {
    let cut = tails.iter().filter(|tail| tail.lines.len() >= DEFAULT_LINES as usize);
    let first = |tail: &LastLines| {
        let mut times = Times::new(job_workers.clock);
        tail.lines.iter().find_map(|line| times.next(line.text()))
    };
    cut.filter_map(first).max()
}

impl Request {
    /// Reads the data of a page of a job's workers, over the cluster's own connection. `listed` has the files listed by
    /// an earlier reading.
    pub async fn job_workers(&self, known: Known, part: Part, listed: &Mutex<Listed>) {
        let key = known.job.key.clone();
        if let Err(problem) = self.read_job_workers(known, part, &mut *listed.lock().await).await {
            self.send_job_workers(&key, part, Err(problem)).await;
        }
    }

    async fn read_job_workers(&self, known: Known, part: Part, listed: &mut Listed) -> Result<(), Problem> {
        let key = known.job.key.clone();
        let channel = self.connection.channel().await?;
        let of = (&self.spec, &self.environment.options);
        let mut reader = WorkerReader::new(of, &channel.client, &|_| ());
        reader.listed = std::mem::take(listed);
        let reading = reader.reading(known, part).await;
        *listed = std::mem::take(&mut reader.listed);
        let (reading, logs) = reading.map_err(|e| e.problem(Timestamp::now()))?;
        // Logins take time, so the current result is sent before them.
        self.send_job_workers(&key, part, Ok(reading.clone())).await;
        let Some(logs) = logs else { return Ok(()) };
        let WorkersReading { what: WorkersAnswer::Cause(found), mut job_workers, at, cost, idle } = reading
        else {
            return Ok(());
        };
        let what = WorkersAnswer::Cause(Box::new(reader.with_clocks(&mut job_workers, *found, &logs).await));
        self.send_job_workers(&key, part, Ok(WorkersReading { at, cost, job_workers, idle, what })).await;
        Ok(())
    }

    async fn send_job_workers(&self, key: &JobKey, part: Part, reading: Result<WorkersReading, Problem>) {
        let event = ServiceEvent::JobWorkers(self.spec.name.clone(), key.clone(), part, Arc::new(reading));
        // The front end may be shutting down.
        let _ = self.events.send(event).await;
    }
}
