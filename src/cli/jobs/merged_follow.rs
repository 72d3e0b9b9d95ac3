//! `job-logs --workers --follow`: prints what all workers of a job write until the job has ended.

use super::super::reach::{Progress, Reach};
use super::super::seen;
use super::follow::{FollowError, Following, GiveUp};
use super::merged::{Wanted, print};
use super::reader::{JobReader, report_incomplete, reporting};
use super::status::find;
use super::{conclude, failed, id};
use crate::job_workers::{DEFAULT_LINES, JobWorkers, NamedWorker, WorkerLine};
use crate::logs::{LineSplitter, LiveMerge, Merged};
use crate::model::sort;
use crate::model::{ClusterSpec, FollowedLog, JobStatus, Line, NodeId, Text, Timestamp};
use crate::operation::WorkerReader;
use crate::ray::{LogEvent, LogStream};
use crate::supervisor::{Followed, LogAccessWatch, Options, Session, follow_several, watch_log_access};
use crate::task;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Number of lines at the end of each file that are searched for those since a time.
const TAIL_LINES: u32 = 10_000;
/// Interval between checks for workers that have started; each check without a new worker doubles it.
const MIN_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum interval between checks.
const MAX_INTERVAL: Duration = Duration::from_secs(24);
/// Time limit of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after the end of the job its workers may still write.
const LAST_WRITES: Duration = Duration::from_secs(1);
/// Maximum time to read the logs to their ends after that.
const LAST_READS: Duration = Duration::from_secs(30);
/// Lines received within this time are folded.
const FOLDED_TIME: Duration = Duration::from_secs(10);

/// Prints the lines of the job's workers as they are received. The exit code depends on how the job ended.
pub(super) async fn run(
    name: &str,
    wanted: &Wanted<'_>,
    give_up: GiveUp,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let report = reporting(progress);
    let JobReader { worker_reader, job_workers, .. } =
        JobReader::read(name, reach, &session, &report).await?;
    progress.discard();
    report_incomplete(&job_workers);
    if job_workers.workers.is_empty() {
        eprintln!("{}; waiting for them", job_workers.why_empty());
    }
    let mut workers = FollowedWorkers::new(reach, &session, job_workers, wanted.since.is_some());
    workers.follow_new(wanted.lines)?;

    let id = id(name);
    let mut following = Following::new(reach, &session, give_up);
    let mut merged = MergedFollow {
        workers,
        check: WorkerCheck { name, reach, session: &session, worker_reader },
        wanted,
        pending: Vec::new(),
        fold_at: None,
        pause: MIN_INTERVAL,
        check_at: Instant::now() + MIN_INTERVAL,
        is_silent_at: None,
        stop_at: None,
    };
    let ended = merged.print_until(Box::pin(following.end(&id))).await?;
    merged.finish()?;
    session.close().await;
    Ok(ended.map_or(ExitCode::SUCCESS, |ended| conclude(&following, &id, ended)))
}

/// How a job ended, or why its end was not observed.
type End = Result<JobStatus, FollowError>;

/// The lines of a job's workers, and when to print them, to check for new workers, and to stop.
struct MergedFollow<'a> {
    workers: FollowedWorkers,
    check: WorkerCheck<'a>,
    wanted: &'a Wanted<'a>,
    /// Lines that are not printed yet.
    pending: Vec<WorkerLine>,
    /// When the pending lines are folded and printed.
    fold_at: Option<Instant>,
    /// Interval until the next check for workers that have started.
    pause: Duration,
    check_at: Instant,
    /// When all workers have stopped writing.
    is_silent_at: Option<Instant>,
    /// When to stop reading.
    stop_at: Option<Instant>,
}

impl MergedFollow<'_> {
    /// Prints lines until the job has ended and its logs are read to their ends; returns how it ended.
    async fn print_until(
        &mut self,
        end: impl Future<Output = anyhow::Result<End>>,
    ) -> anyhow::Result<Option<End>> {
        tokio::pin!(end);
        let mut ended = None;
        while ended.is_none() || self.is_silent_at.is_some() || self.workers.are_incomplete() {
            let due = self.workers.merge.wait(Timestamp::now());
            tokio::select! {
                end = &mut end, if ended.is_none() => {
                    let end = ended.insert(end?);
                    if end.is_err() {
                        break;
                    }
                    self.is_silent_at = Some(Instant::now() + LAST_WRITES);
                }
                Some((log, event)) = self.workers.events.recv() => self.workers.take(log, event),
                () = sleep(due.unwrap_or_default()), if due.is_some() => self.take_due()?,
                () = at(self.fold_at) => self.print_pending()?,
                () = sleep_until(self.check_at), if ended.is_none() => self.check_again().await?,
                () = at(self.is_silent_at) => self.read_to_ends().await?,
                () = at(self.stop_at) => {
                    self.workers.report_unread();
                    break;
                }
            }
        }
        Ok(ended)
    }

    /// Takes the lines that are due. They are printed at once, or folded with those of the next seconds.
    fn take_due(&mut self) -> anyhow::Result<()> {
        let lines = self.workers.merge.take(Timestamp::now());
        self.pending.extend(self.workers.lines(lines, self.wanted));
        if !self.wanted.options.fold {
            return self.print_pending();
        }
        if !self.pending.is_empty() {
            self.fold_at.get_or_insert_with(|| Instant::now() + FOLDED_TIME);
        }
        Ok(())
    }

    fn print_pending(&mut self) -> anyhow::Result<()> {
        self.fold_at = None;
        let pending = std::mem::take(&mut self.pending);
        print(pending.into_iter(), &self.workers.job_workers, self.wanted)
    }

    /// Checks for workers that have started, and schedules the next check.
    async fn check_again(&mut self) -> anyhow::Result<()> {
        let has_new = self.follow_started().await?;
        self.pause = if has_new || self.workers.sources.is_empty() {
            MIN_INTERVAL
        } else {
            MAX_INTERVAL.min(self.pause * 2)
        };
        self.check_at = Instant::now() + self.pause;
        Ok(())
    }

    /// Reads the logs to their ends, including those of workers that have started since the last check.
    async fn read_to_ends(&mut self) -> anyhow::Result<()> {
        self.is_silent_at = None;
        self.follow_started().await?;
        self.workers.read_to_ends();
        self.stop_at = Some(Instant::now() + LAST_READS);
        Ok(())
    }

    /// Follows the logs of workers that have started since the last check; returns whether there are any.
    async fn follow_started(&mut self) -> anyhow::Result<bool> {
        // Lines received in the meantime wait for the check, so it has a time limit.
        let check = self.workers.check(&mut self.check);
        let checked = tokio::time::timeout(CHECK_TIMEOUT, check).await;
        self.workers.report_check(&checked.unwrap_or_else(|_| Err(no_answer())));
        self.workers.follow_new(Some(u32::MAX))
    }

    /// Prints all remaining lines, and stops reading.
    fn finish(mut self) -> anyhow::Result<()> {
        let lines = self.workers.merge.take_all();
        self.pending.extend(self.workers.lines(lines, self.wanted));
        self.print_pending()
    }
}

fn no_answer() -> anyhow::Error {
    anyhow::anyhow!("no answer within {} s", CHECK_TIMEOUT.as_secs())
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// A log that is followed.
struct Source {
    /// Index of its worker in the list of workers.
    worker: usize,
    is_err: bool,
    /// Number of its next line.
    next: u64,
    /// Number of its host's connections that were lost, as far as this log has reported them.
    lost: u32,
    /// Whether it was read to its end, or cannot be read.
    is_complete: bool,
}

/// The lost connections to hosts. Each log of a host reports each of them; they are printed once.
#[derive(Default)]
struct LostConnections {
    hosts: BTreeMap<String, HostConnections>,
}

/// Numbers of connections to a host that were reported.
#[derive(Clone, Copy, Default)]
struct HostConnections {
    lost: u32,
    restored: u32,
}

impl LostConnections {
    /// Number of the host's connections lost so far, with which a new log starts.
    fn of(&self, host: &str) -> u32 {
        self.hosts.get(host).map_or(0, |host| host.lost)
    }

    /// Records that a log reported the loss with this number; returns whether it is the first to do so.
    fn record_loss(&mut self, host: &str, number: u32) -> bool {
        raise(&mut self.hosts.entry(host.to_owned()).or_default().lost, number)
    }

    /// Records that a log is read again after the loss with this number; returns whether it is the first.
    fn record_return(&mut self, host: &str, number: u32) -> bool {
        self.hosts.get_mut(host).is_some_and(|host| raise(&mut host.restored, number))
    }
}

/// Replaces the highest number so far by a higher one; returns whether it was higher.
fn raise(highest: &mut u32, number: u32) -> bool {
    let is_higher = number > *highest;
    *highest = number.max(*highest);
    is_higher
}

/// Reads again which workers a job has.
struct WorkerCheck<'a> {
    /// The job, as the user named it.
    name: &'a str,
    reach: &'a Reach,
    session: &'a Session,
    worker_reader: WorkerReader<'a>,
}

impl WorkerCheck<'_> {
    async fn read(&mut self) -> anyhow::Result<JobWorkers> {
        let cluster = seen::read_open(self.reach, self.session).await?;
        let job = find(&cluster, self.name).map_err(|problem| self.reach.error(&problem))?;
        self.worker_reader.job_workers(cluster.known_of(job)).await.map_err(failed(self.reach))
    }
}

/// The workers of a job whose logs are followed.
struct FollowedWorkers {
    job_workers: JobWorkers,
    sources: Vec<Source>,
    known: BTreeSet<(NodeId, Text)>,
    /// Whether logs are read over ssh.
    has_shell: bool,
    merge: LiveMerge,
    lost: LostConnections,
    access: LogAccessWatch,
    of: (Arc<ClusterSpec>, Arc<Options>),
    /// Whether only lines since a time are printed.
    is_since: bool,
    /// Whether the last check for new workers failed.
    is_check_failed: bool,
    to: mpsc::Sender<(u32, LogEvent)>,
    events: mpsc::Receiver<(u32, LogEvent)>,
    /// Reports to the streams that the logs have ended.
    ended: watch::Sender<bool>,
}

impl FollowedWorkers {
    fn new(reach: &Reach, session: &Session, job_workers: JobWorkers, is_since: bool) -> Self {
        let (to, events) = mpsc::channel(64);
        Self {
            job_workers,
            sources: Vec::new(),
            known: BTreeSet::new(),
            has_shell: session.connection().remote().is_some(),
            merge: LiveMerge::new(Timestamp::now()),
            lost: LostConnections::default(),
            access: watch_log_access(session.connection()),
            of: (Arc::new(reach.spec.clone()), Arc::new(reach.options.clone())),
            is_since,
            is_check_failed: false,
            to,
            events,
            ended: watch::channel(false).0,
        }
    }

    /// Whether a log may have lines that were not received.
    fn are_incomplete(&self) -> bool {
        self.sources.iter().any(|source| !source.is_complete)
    }

    /// Nothing more is written to the logs: they are read to their ends.
    fn read_to_ends(&self) {
        self.ended.send_replace(true);
    }

    /// Reports the hosts whose logs were not read to their ends.
    fn report_unread(&self) {
        let unread = self.sources.iter().filter(|source| !source.is_complete);
        let hosts = unread.map(|source| self.job_workers.workers[source.worker].host.as_str());
        let hosts: BTreeSet<&str> = sort::collected(hosts);
        for host in hosts {
            eprintln!(
                "{host}: its last lines may be missing: not read within {} s after the job ended",
                LAST_READS.as_secs()
            );
        }
    }

    /// Follows the logs of new workers, starting `lines` lines before their ends; returns whether there are any.
    fn follow_new(&mut self, lines: Option<u32>) -> anyhow::Result<bool> {
        let keep = lines.unwrap_or(if self.is_since { TAIL_LINES } else { DEFAULT_LINES });
        let mut logs = Vec::new();
        for log in self.job_workers.logs() {
            if self.known.insert((log.node.id, log.name.clone())) {
                let lost = self.lost.of(&self.job_workers.workers[log.worker].host);
                self.sources.push(Source {
                    worker: log.worker,
                    is_err: log.is_err,
                    next: 0,
                    lost,
                    is_complete: false,
                });
                self.merge.add(self.job_workers.clock);
                let (source, host) = log.followed();
                logs.push(Followed { source, host, keep });
            }
        }
        let hosts = sort::distinct(self.known.iter().map(|(node, _)| node)).len();
        let (name, all) = (&self.job_workers.known.job.key, self.known.len());
        if let Some(why) = FollowedLog::too_many(hosts, all, self.has_shell) {
            anyhow::bail!("{name}: {why}; omit --follow to print their last lines, or search them with -g");
        }
        let first = self.sources.len() - logs.len();
        let (of, ended) = ((&self.of.0, &self.of.1), self.ended.subscribe());
        let tails = follow_several(&self.access, of, logs, Some(&ended), LineSplitter::MAX_LINE);
        for (number, tail) in (first as u32..).zip(tails) {
            task::spawn(pass_on(number, tail, self.to.clone()));
        }
        Ok(first < self.sources.len())
    }

    /// Checks for workers that have started since.
    async fn check(&mut self, check: &mut WorkerCheck<'_>) -> anyhow::Result<()> {
        let now = check.read().await?;
        for worker in now.workers {
            let process = |worker: &NamedWorker| (worker.process.node, worker.process.pid);
            match self.job_workers.workers.iter_mut().find(|known| process(known) == process(&worker)) {
                None => self.job_workers.workers.push(worker),
                // Its node could not be queried before.
                Some(known) if known.process.files.is_empty() => known.process.files = worker.process.files,
                Some(_) => {}
            }
        }
        for part in &now.incomplete {
            if !self.job_workers.incomplete.contains(part) {
                eprintln!("incomplete: {part}");
            }
        }
        self.job_workers.incomplete = now.incomplete;
        self.job_workers.known = now.known;
        Ok(())
    }

    /// Reports the first of several checks in a row that fail.
    fn report_check(&mut self, checked: &anyhow::Result<()>) {
        if let Err(error) = checked
            && !self.is_check_failed
        {
            eprintln!("cannot check for workers that have started since; retrying: {error:#}");
        }
        self.is_check_failed = checked.is_err();
    }

    /// Handles an event of a log.
    fn take(&mut self, log: u32, event: LogEvent) {
        let Some(source) = self.sources.get_mut(log as usize) else { return };
        let worker = &self.job_workers.workers[source.worker];
        let (host, who) = (&worker.host, worker.who());
        if matches!(event, LogEvent::Lines(_) | LogEvent::Resumed)
            && self.lost.record_return(host, source.lost)
        {
            eprintln!("{host}: logs resumed");
        }
        match event {
            LogEvent::Lines(part) => self.merge.push(log, part.lines, Timestamp::now()),
            LogEvent::Note(what) => eprintln!("{who}: {what}"),
            LogEvent::Interrupted(why) => {
                // An event of the whole cluster is reported once for all logs.
                if self.access.borrow().is_some() {
                    source.lost += 1;
                    if self.lost.record_loss(host, source.lost) {
                        eprintln!("{host}: logs interrupted: {why}; retrying");
                    }
                }
                self.merge.begun(log);
            }
            LogEvent::Failed(error) => {
                eprintln!("{who}: cannot read the log: {error}");
                source.is_complete = true;
                self.merge.begun(log);
            }
            LogEvent::Complete => source.is_complete = true,
            LogEvent::Older(_) | LogEvent::Resumed => {}
        }
    }

    /// The selected lines, with their workers.
    fn lines<'a>(
        &'a mut self,
        lines: Vec<Merged<Line>>,
        wanted: &'a Wanted<'_>,
    ) -> impl Iterator<Item = WorkerLine> + 'a {
        let since = wanted.since.map(|span| Timestamp::now().minus(span));
        lines.into_iter().filter_map(move |merged| {
            let source = self.sources.get_mut(merged.source as usize)?;
            let number = source.next;
            source.next += 1;
            let is_since = since.is_none_or(|since| merged.time.is_some_and(|time| time >= since));
            let is_wanted = is_since && wanted.grep.is_none_or(|grep| grep.is_match(merged.item.text()));
            let Source { worker, is_err, .. } = *source;
            is_wanted.then_some(WorkerLine {
                worker,
                is_err,
                number,
                time: merged.time,
                mark: 0,
                line: merged.item,
            })
        })
    }
}

/// Passes on the events of a log with its number.
async fn pass_on(number: u32, mut tail: LogStream, to: mpsc::Sender<(u32, LogEvent)>) {
    while let Some(event) = tail.next().await {
        if to.send((number, event)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_reported_once_although_each_log_of_the_host_reports_it() {
        let mut connections = LostConnections::default();
        assert!(!connections.record_return("w1", 0), "nothing was lost");
        // The second log reports the loss when the first one is already read again.
        assert!(connections.record_loss("w1", 1));
        assert!(connections.record_return("w1", 1));
        assert!(!connections.record_loss("w1", 1));
        assert!(!connections.record_return("w1", 1));
        assert!(connections.record_loss("w2", 1), "another host");
        // A log that is followed since the first loss.
        let of_new_log = connections.of("w1") + 1;
        assert!(connections.record_loss("w1", of_new_log));
        assert!(!connections.record_loss("w1", 2));
        assert!(connections.record_return("w1", 2));
    }
}
