//! Reads the vitals of running jobs: Ray's lists of all their tasks and actors, in four requests, and the ends of some
//! logs. It reads slowly, a few at a time, and within a budget, because a head's dashboard is a single Python process
//! shared by a whole team.

use super::log_file::LogFile;
use super::log_selection::LogSelection;
use crate::logs::{Clock, LineSplitter, Patterns};
use crate::model::amount::is_chip;
use crate::model::vitals::ReadingCost;
use crate::model::{
    ClusterSpec, ClusterVitals, Job, JobIds, JobKey, JobStatus, Line, Node, NodeId, Snapshot, SubmissionId,
    Timestamp, VitalLimits,
};
use crate::ray::{AT_ONCE, Client, Holdings, RayError};
use crate::ssh::Remote;
use crate::task;
use crate::vitals::{Sampling, VitalsTracker, held_chips};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Number of logs per reading of the cluster on the screen.
const MAX_LOGS: usize = 16;
/// Number of logs per reading of another cluster.
const LOGS_BACKGROUND: usize = 8;
/// Number of jobs whose page was opened last, and whose logs are therefore always read.
const MAX_OPENED_JOBS: usize = 4;
/// Other clusters are read at this multiple of the interval.
const BACKGROUND_FACTOR: u32 = 4;
/// Number of lines of the first read of a log, or of each read if few of its lines are progress lines.
const FIRST_LINES: u32 = 1000;
/// Number of lines of the other reads of a log.
const TAIL_LINES: u32 = 200;
/// Number of lines of a log that a command reads; it reads only once.
const LINES_ONCE: u32 = 2000;
/// Number of samples of the past of a log that is longer than its first read, taken once, and the bytes per sample.
const SAMPLES: (u32, u32) = (24, 6 << 10);
/// Maximum number of bytes per minute that vitals may cost a head: a larger reading delays the next one.
const MAX_BYTES_PER_MINUTE: u64 = 1_000_000;
/// Like [`MAX_BYTES_PER_MINUTE`], until each log has been read once.
const FIRST_BUDGET: u64 = 6_000_000;
/// Maximum interval until each log has been read once.
const FIRST_INTERVAL: Duration = Duration::from_secs(10);
/// Number of machines whose figures are requested per reading.
const MAX_MACHINES: usize = 4;

/// The tracker of each job.
pub(super) type VitalsTrackers = HashMap<JobKey, VitalsTracker>;

/// The result of a reading: the tracker of each job, the head's UTC offset in seconds, and the vitals.
struct Reading {
    trackers: VitalsTrackers,
    utc_offset: Option<i32>,
    /// Ray's lists, if the logs are still to be read.
    listed: Option<Holdings>,
    cluster_vitals: Result<ClusterVitals, RayError>,
}

/// Reads the vitals of a cluster's jobs, one reading at a time.
pub(super) struct Watch {
    limits: VitalLimits,
    patterns: Patterns,
    trackers: VitalsTrackers,
    utc_offset: Option<i32>,
    /// The lists of the first reading, which reads no logs, so that waiting jobs are shown at once. The second reading
    /// uses them.
    listed: Option<Holdings>,
    was_read: bool,
    jobs: Arc<Vec<Arc<Job>>>,
    nodes: Arc<Vec<Node>>,
    /// Jobs whose page was opened, the latest last.
    opened: Vec<JobKey>,
    /// Whether a page was opened since the last reading began.
    is_hurried: bool,
    running: Option<JoinHandle<Reading>>,
    due: Instant,
}

impl Watch {
    /// Uses these limits, and these patterns for progress lines; an interval of zero disables reading.
    pub fn new(limits: VitalLimits, patterns: Patterns) -> Self {
        Self {
            limits,
            patterns,
            trackers: VitalsTrackers::new(),
            utc_offset: None,
            listed: None,
            was_read: false,
            jobs: Arc::default(),
            nodes: Arc::default(),
            opened: Vec::new(),
            is_hurried: false,
            running: None,
            due: Instant::now(),
        }
    }

    /// Vitals without a reading: the limits also apply to pending jobs, and an interval of zero means that no reading
    /// will come.
    pub fn unread(&self) -> Arc<ClusterVitals> {
        Arc::new(ClusterVitals { limits: self.limits, ..ClusterVitals::default() })
    }

    /// Takes the jobs of a new state.
    pub fn update(&mut self, snapshot: &Snapshot) {
        (self.jobs, self.nodes) = (Arc::clone(&snapshot.jobs), Arc::clone(&snapshot.nodes));
    }

    /// Handles the opening of a job's page: its log is read from now on.
    pub fn open(&mut self, ids: &JobIds) {
        let submission = ids.submission.clone().map(JobKey::Submission);
        let Some(key) = submission.or_else(|| ids.driver.clone().map(JobKey::Driver)) else { return };
        self.opened.retain(|opened| *opened != key);
        self.opened.push(key);
        let more = self.opened.len().saturating_sub(MAX_OPENED_JOBS);
        self.opened.drain(..more);
        (self.due, self.is_hurried) = (Instant::now(), true);
    }

    /// Schedules a reading soon, because the cluster is now on the screen.
    pub fn hasten(&mut self) {
        self.due = self.due.min(Instant::now() + self.limits.every / 10);
    }

    /// Starts a reading if one is due, none is in progress, and a job is running. The past of logs is read on the head,
    /// if there is a connection to it.
    pub fn start(&mut self, client: &Client, head: Option<LogHost>, is_focused: bool) {
        let runs = |job: &&Arc<Job>| job.status == JobStatus::Running;
        let is_due = !self.limits.every.is_zero() && self.running.is_none() && Instant::now() >= self.due;
        if !is_due || !self.jobs.iter().any(|job| runs(&job)) {
            return;
        }
        let jobs: Vec<Arc<Job>> = self.jobs.iter().filter(runs).cloned().collect();
        let Some(node) = head_of(&self.nodes) else { return };
        let most = match (self.was_read, is_focused) {
            (false, _) => 0,
            (true, true) => MAX_LOGS,
            (true, false) => LOGS_BACKGROUND,
        };
        let selection = LogSelection { opened: self.opened.clone(), most };
        let mut trackers = std::mem::take(&mut self.trackers);
        trackers.retain(|key, _| jobs.iter().any(|job| job.key == *key));
        let round = Round {
            client: client.clone(),
            head,
            limits: self.limits,
            patterns: self.patterns.clone(),
            sampling: Sampling::Often,
            utc_offset: self.utc_offset,
            listed: self.listed.take(),
            jobs,
            selection,
            node,
            lines: [FIRST_LINES, TAIL_LINES],
        };
        let every = self.limits.every * if is_focused { 1 } else { BACKGROUND_FACTOR };
        self.is_hurried = false;
        self.running = Some(task::spawn(round.read(trackers, every)));
    }

    /// The vitals of a completed reading; `None` if they could not be read or nothing changed. Pends while no reading
    /// is in progress.
    pub async fn finished(&mut self) -> Option<Arc<ClusterVitals>> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let reading = running.await;
        self.running = None;
        let reading = reading.ok()?;
        (self.trackers, self.utc_offset, self.listed) =
            (reading.trackers, reading.utc_offset, reading.listed);
        if let Ok(cluster_vitals) = reading.cluster_vitals {
            let is_next_due = self.is_hurried || self.listed.is_some();
            let pause = if is_next_due { Duration::ZERO } else { cluster_vitals.cost.every };
            self.was_read = true;
            self.due = Instant::now() + pause;
            Some(Arc::new(cluster_vitals))
        } else {
            self.due = Instant::now() + self.limits.every;
            None
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

/// The vitals of these running jobs, after a single reading of all their logs, in which these patterns find progress
/// lines.
///
/// # Errors
///
/// Ray does not list tasks or actors.
pub async fn read_vitals(
    (client, head): (&Client, Option<LogHost>),
    snapshot: &Snapshot,
    jobs: Vec<Arc<Job>>,
    (limits, patterns): (VitalLimits, &Patterns),
) -> Result<ClusterVitals, RayError> {
    let selection = LogSelection { opened: Vec::new(), most: usize::MAX };
    read_once((client, head), snapshot, jobs, selection, (limits, patterns)).await
}

/// The vitals of one job, together with what all running jobs hold and wait for: this shows which jobs hold the
/// resources that it waits for, and its position among the waiting jobs. Only its own log is read, if it is running.
///
/// # Errors
///
/// Ray does not list tasks or actors.
pub async fn read_vitals_among(
    (client, head): (&Client, Option<LogHost>),
    snapshot: &Snapshot,
    job: &Job,
    (limits, patterns): (VitalLimits, &Patterns),
) -> Result<ClusterVitals, RayError> {
    let runs = |job: &&Arc<Job>| job.status == JobStatus::Running;
    let most = usize::from(job.status == JobStatus::Running && job.submission_id().is_some());
    let selection = LogSelection { opened: vec![job.key.clone()], most };
    let jobs = snapshot.jobs.iter().filter(runs).cloned().collect();
    read_once((client, head), snapshot, jobs, selection, (limits, patterns)).await
}

async fn read_once(
    (client, head): (&Client, Option<LogHost>),
    snapshot: &Snapshot,
    jobs: Vec<Arc<Job>>,
    selection: LogSelection,
    (limits, patterns): (VitalLimits, &Patterns),
) -> Result<ClusterVitals, RayError> {
    let Some(node) = head_of(&snapshot.nodes) else { return Ok(ClusterVitals::default()) };
    let (client, sampling, lines) = (client.clone(), Sampling::Once, [LINES_ONCE; 2]);
    let patterns = patterns.clone();
    let (utc_offset, listed) = (None, None);
    let round =
        Round { client, head, limits, patterns, sampling, utc_offset, listed, jobs, selection, node, lines };
    round.read(VitalsTrackers::new(), Duration::ZERO).await.cluster_vitals
}

/// Like [`read_vitals`] without logs: what the jobs do, hold and wait for.
///
/// # Errors
///
/// Ray does not list tasks or actors.
pub async fn read_holdings(
    client: &Client,
    snapshot: &Snapshot,
    jobs: Vec<Arc<Job>>,
    limits: VitalLimits,
) -> Result<ClusterVitals, RayError> {
    read_once((client, None), snapshot, jobs, LogSelection::default(), (limits, &Patterns::default())).await
}

/// The lines of a part of a log, without the first and the last, which are cut.
fn whole_lines(part: &[u8]) -> Vec<Line> {
    let begins = part.iter().position(|b| *b == b'\n').map_or(part.len(), |at| at + 1);
    LineSplitter::default().push(&part[begins..])
}

/// The node named in requests for drivers' logs; Ray finds the right one.
fn head_of(nodes: &[Node]) -> Option<NodeId> {
    nodes.iter().find(|node| node.is_head && node.state.is_alive()).map(|node| node.id)
}

/// The machine on which the logs of drivers are read by position, and its cluster.
#[derive(Clone, Debug)]
pub struct LogHost {
    /// The connection to it.
    pub remote: Remote,
    /// The cluster, which may have its logs in a container.
    pub spec: Arc<ClusterSpec>,
}

/// A reading of the vitals of a cluster's jobs.
struct Round {
    client: Client,
    /// The head; `None` without ssh.
    head: Option<LogHost>,
    limits: VitalLimits,
    patterns: Patterns,
    sampling: Sampling,
    utc_offset: Option<i32>,
    /// Ray's lists from the previous reading, if they need not be requested again.
    listed: Option<Holdings>,
    jobs: Vec<Arc<Job>>,
    selection: LogSelection,
    node: NodeId,
    /// Number of lines of a log that is read for the first time or has few progress lines, and of another log.
    lines: [u32; 2],
}

/// The logs and figures that were read.
#[derive(Default)]
struct Read {
    logs: Vec<(JobKey, Bytes)>,
    /// Samples of logs that were read for the first time.
    past: HashMap<JobKey, Vec<Vec<u8>>>,
    /// The highest utilization of a chip, and of a processor, of a job's machine, in percent.
    figures: Vec<(JobKey, Option<f64>, Option<f64>)>,
    /// The jobs whose logs could not be read, and why.
    missing: Vec<(JobKey, String)>,
    /// Number of requests for Ray's lists.
    lists: usize,
}

impl Round {
    async fn read(mut self, trackers: VitalsTrackers, every: Duration) -> Reading {
        if self.utc_offset.is_none() {
            self.utc_offset = self.client.utc_offset().await.ok();
        }
        let utc_offset = self.utc_offset;
        let (holdings, lists) = match self.listed.take() {
            // Their cost was counted in the previous reading.
            Some(holdings) => (Holdings { bytes: 0, ..holdings }, 0),
            None => match self.client.holdings().await {
                Ok(holdings) => (holdings, 4),
                Err(e) => return Reading { trackers, utc_offset, listed: None, cluster_vitals: Err(e) },
            },
        };
        let listed = (self.selection.most == 0).then(|| holdings.clone());
        let mut read = self.logs(&trackers, &holdings).await;
        read.lists = lists;
        read.past = self.past(&trackers, &read.logs).await;
        read.figures = self.figures(&trackers, &holdings).await;
        // Matching thousands of lines against the forms of progress lines takes a while.
        let evaluated = task::spawn_blocking(move || self.evaluate(trackers, &holdings, read, every)).await;
        match evaluated {
            Ok((trackers, cluster_vitals)) => {
                Reading { trackers, utc_offset, listed, cluster_vitals: Ok(cluster_vitals) }
            }
            Err(e) => {
                let error = RayError::Malformed { route: "the vitals".to_owned(), why: e.to_string() };
                Reading {
                    trackers: VitalsTrackers::new(),
                    utc_offset,
                    listed: None,
                    cluster_vitals: Err(error),
                }
            }
        }
    }

    /// The ends of the logs whose turn it is.
    async fn logs(&self, trackers: &VitalsTrackers, holdings: &Holdings) -> Read {
        let wanted = self.selection.next(&self.jobs, trackers, holdings, Timestamp::now()).into_iter();
        let wanted = wanted.filter_map(|job| Some((job.key.clone(), job.submission_id()?.clone())));
        let read_one = |(key, id): (JobKey, SubmissionId)| async move {
            let is_short =
                trackers.get(&key).is_some_and(|tracker| tracker.was_read() && !tracker.is_chatty());
            let lines = self.lines[usize::from(is_short)];
            (key, self.client.read_job_log(&id, self.node, lines).await)
        };
        let mut answers = stream::iter(wanted.map(read_one).collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let mut read = Read::default();
        while let Some((key, answer)) = answers.next().await {
            match answer {
                Ok(bytes) => read.logs.push((key, bytes)),
                // A job that has just started has no log yet.
                Err(e) => read.missing.push((key, e.to_string())),
            }
        }
        read
    }

    /// Samples of logs that are read for the first time and are longer than that reading.
    async fn past(
        &self,
        trackers: &VitalsTrackers,
        logs: &[(JobKey, Bytes)],
    ) -> HashMap<JobKey, Vec<Vec<u8>>> {
        let Some(LogHost { remote, spec }) = &self.head else { return HashMap::new() };
        let is_new = |key: &JobKey| !trackers.get(key).is_some_and(VitalsTracker::was_read);
        let is_cut = |log: &Bytes| log.split(|b| *b == b'\n').count() >= self.lines[0] as usize;
        let wanted = logs.iter().filter(|(key, log)| is_new(key) && is_cut(log));
        let read = |id: SubmissionId| async move {
            let mut file = LogFile::of_job(&id);
            let samples = match file.samples((remote, spec), SAMPLES).await {
                Err(why) if file.enter_after(&why, spec) => file.samples((remote, spec), SAMPLES).await,
                samples => samples,
            };
            // The log of a driver on another node is not on the head. It is read from now on, without its past.
            samples.inspect_err(|e| tracing::info!(job = %id, error = %e, "no past")).ok()
        };
        let wanted = wanted.filter_map(|(key, _)| match key {
            JobKey::Submission(id) => Some((key.clone(), id.clone())),
            JobKey::Driver(_) => None,
        });
        let read = wanted.map(|(key, id)| async move { Some((key, read(id).await?)) }).collect::<Vec<_>>();
        stream::iter(read).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
    }

    /// The figures of one machine of each job that may leave its chips idle.
    async fn figures(
        &self,
        trackers: &VitalsTrackers,
        holdings: &Holdings,
    ) -> Vec<(JobKey, Option<f64>, Option<f64>)> {
        let now = Timestamp::now();
        let is_wanted =
            |job: &&Arc<Job>| trackers.get(&job.key).is_some_and(|tracker| tracker.wants_figures(now));
        let machine = |job: &Arc<Job>| Some((job.key.clone(), machine_with_chips(job, holdings, self.node)?));
        let machines: Vec<_> =
            self.jobs.iter().filter(is_wanted).filter_map(machine).take(MAX_MACHINES).collect();
        let read_one = |(key, node)| async move { (key, self.client.physical(node).await.ok().flatten()) };
        let answers = stream::iter(machines.into_iter().map(read_one)).buffer_unordered(AT_ONCE);
        let figures = answers.filter_map(|(key, physical)| async move {
            let physical = physical?;
            let chips = physical.tpus.iter().filter_map(|chip| chip.tensorcore_percent);
            Some((key, chips.max_by(f64::total_cmp), physical.cpu_percent))
        });
        figures.collect().await
    }

    fn evaluate(
        self,
        mut trackers: VitalsTrackers,
        holdings: &Holdings,
        mut read: Read,
        every: Duration,
    ) -> (VitalsTrackers, ClusterVitals) {
        let now = Timestamp::now();
        let clock = Clock { near: now, utc_offset: self.utc_offset.unwrap_or_default() };
        let new = || VitalsTracker::new(self.limits, self.sampling).knowing(self.patterns.clone());
        let past = read.past.values().flatten().map(Vec::len).sum::<usize>();
        let (logs, mut bytes) = (read.logs.len(), holdings.bytes + past);
        let requests = read.lists + logs + read.figures.len();
        for (key, log) in read.logs {
            bytes += log.len();
            let mut splitter = LineSplitter::default();
            let lines = splitter.push(&log);
            let past: Vec<_> =
                read.past.remove(&key).iter().flatten().map(|sample| whole_lines(sample)).collect();
            let tracker = trackers.entry(key).or_insert_with(new);
            tracker.past(&past, &lines, clock);
            tracker.read(&lines, splitter.finish().as_ref(), clock);
        }
        for (key, _) in &read.missing {
            trackers.entry(key.clone()).or_insert_with(new).missed(now);
        }
        for (key, chip, cpu) in read.figures {
            trackers.entry(key).or_insert_with(new).measured(chip, cpu, now);
        }
        let mut jobs = HashMap::with_capacity(self.jobs.len());
        for job in &self.jobs {
            let tracker = trackers.entry(job.key.clone()).or_insert_with(new);
            let holding = holdings.of(job.driver.as_ref());
            let mut vitals = tracker.vitals(job, holding.as_ref(), now);
            // The lists show where it runs, although Ray may have truncated them.
            let listed = job.driver.as_ref().and_then(|driver| holdings.by_job.get(driver));
            vitals.nodes = listed.map(|listed| listed.nodes.iter().copied().collect()).unwrap_or_default();
            jobs.insert(job.key.clone(), Arc::new(vitals));
        }
        let bytes = bytes as u64;
        let within = |budget: u64| Duration::from_secs(bytes * 60 / budget);
        let is_first = self.selection.is_behind(&self.jobs, &trackers);
        let every = if is_first {
            FIRST_INTERVAL.min(every).max(within(FIRST_BUDGET))
        } else {
            every.max(within(MAX_BYTES_PER_MINUTE))
        };
        let cost = ReadingCost { requests: requests as u64, bytes, logs, every };
        let missing = read.missing.iter().map(|(key, why)| format!("log of {key}: {why}"));
        let missing = holdings.cut.iter().cloned().chain(missing).collect();
        (trackers, ClusterVitals { read: Some(now), jobs, limits: self.limits, cost, missing })
    }
}

/// A machine whose chips a job holds: if its tasks or actors hold chips, one of their machines, preferably not the head;
/// otherwise, if its entrypoint does, the machine of its driver.
fn machine_with_chips(job: &Job, holdings: &Holdings, head: NodeId) -> Option<NodeId> {
    let holding = job.driver.as_ref().and_then(|id| holdings.by_job.get(id));
    if held_chips(job, holding) <= 0.0 {
        return None;
    }
    let with_chips = holding.filter(|holding| holding.holds.keys().any(|name| is_chip(name)));
    let nodes = || with_chips.into_iter().flat_map(|holding| &holding.nodes).copied();
    nodes().find(|node| *node != head).or_else(|| nodes().next()).or(job.driver_node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Holding, JobId};

    #[test]
    fn the_machine_of_a_job_is_one_whose_chips_it_holds() {
        let node = |n: u8| NodeId::from_bytes(&[n; 28]).unwrap();
        let (head, driver) = (node(1), JobId("01000000".into()));
        let job = |chips: f64| Job {
            driver: Some(driver.clone()),
            driver_node: Some(node(7)),
            requested: Some(vec![("TPU".into(), chips)]),
            ..Job::sample("a", JobStatus::Running)
        };
        let of = |chips: f64, held: &[(&str, f64)], nodes: &[u8]| {
            let holds = held.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
            let nodes = nodes.iter().map(|n| node(*n)).collect();
            let holding = Holding { holds, nodes, ..Holding::default() };
            let by_job = HashMap::from([(driver.clone(), holding)]);
            machine_with_chips(&job(chips), &Holdings { by_job, ..Holdings::default() }, head)
        };
        assert_eq!(of(0.0, &[("TPU", 4.0)], &[1, 2]), Some(node(2)), "workers, not the head");
        assert_eq!(of(0.0, &[("TPU", 4.0)], &[1]), Some(head));
        assert_eq!(of(4.0, &[], &[]), Some(node(7)), "the entrypoint holds the chips");
        assert_eq!(of(4.0, &[("CPU", 1.0)], &[2]), Some(node(7)), "its tasks hold no chips");
        assert_eq!(of(0.0, &[("CPU", 1.0)], &[2]), None);
        assert_eq!(machine_with_chips(&job(4.0), &Holdings::default(), head), Some(node(7)));
    }
}
