//! Follows a job's log and its end across lost connections.
//!
//! The cluster's task reconnects. The code here waits for it, and gives up after `--give-up-after` if that is set.

use super::super::reach::Reach;
use crate::logs::{Grep, LineSplitter};
use crate::model::command_line::shell_quote;
use crate::model::time::limit;
use crate::model::{
    ClusterSpec, JobStatus, Line, Liveness, LogSource, Node, NodeId, OperationKind, OperationLock, Problem,
    SubmissionId, Target, Text, Timestamp,
};
use crate::ray::{Client, LogEvent, LogStream, RayError};
use crate::supervisor::{
    self, Access, Backoff, Connection, ConnectionState, LogAccess, LogAccessWatch, Session, Start,
};
use clap::Args;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Maximum backoff between requests to a connected cluster that does not answer.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Poll interval while a restart may bring a job back.
const RESTART_POLL_INTERVAL: Duration = Duration::from_secs(3);
/// How long the lock of a restart is read again after errors.
const LOCK_RETRY: Duration = Duration::from_secs(60);

/// Options for a cluster that stops answering.
#[derive(Clone, Copy, Debug, Args)]
pub struct GiveUp {
    /// Once connected, exit with code 4 if the cluster has not responded for this long, e.g. 10m [default: keep
    /// reconnecting]
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    give_up_after: Option<Duration>,
}

/// Why the end of a job was not observed.
#[derive(Clone, Debug)]
pub enum FollowError {
    /// The cluster did not respond within `--give-up-after`.
    GaveUp,
    /// Ray was restarted and the job was lost with its session, as the message explains.
    Lost(String),
}

/// What happened to a job that Ray no longer knows.
enum Gone {
    /// A restart submitted the job again.
    Back,
    /// The end of the job cannot be observed.
    FollowError(FollowError),
    /// Ray was not restarted, so the cause is unknown.
    Unexplained,
}

/// A cluster whose job is followed.
pub struct Following<'a> {
    reach: &'a Reach,
    connection: Connection,
    state: watch::Receiver<ConnectionState>,
    limit: Option<Duration>,
    /// Search that selects lines from the existing part of a log.
    grep: Option<Grep>,
    /// The head's node id, if a file of the head is followed.
    head: Option<NodeId>,
    /// When the cluster stopped answering: the time of the first request without an answer, or of the interruption of
    /// the log.
    lost: Option<Instant>,
    /// The last problem that was printed.
    reported: Option<String>,
    /// The checks of the connection after interruptions of a log.
    checks: Checks,
    /// `session_name` of the Ray session that the job runs in.
    ray_session: Text,
    /// The job's status as last read.
    pub seen: Option<JobStatus>,
}

type Check = Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>>;

/// Checks the connection after interruptions of a log. If it works, the log retries at once; therefore the pause before
/// a check grows until the log is read again.
#[derive(Default)]
struct Checks {
    backoff: Backoff,
    pending: Option<Check>,
}

impl Checks {
    /// Schedules a check, unless one is scheduled.
    fn schedule(&mut self, connection: &Connection) {
        if self.pending.is_none() {
            let (pause, connection) = (self.backoff.next(MAX_BACKOFF), connection.clone());
            self.pending = Some(Box::pin(async move {
                sleep(pause).await;
                check(&connection).await
            }));
        }
    }

    /// Resolves with the result of the scheduled check; pends forever if there is none.
    async fn outcome(&mut self) -> Result<(), Problem> {
        let Some(pending) = &mut self.pending else { return std::future::pending().await };
        let outcome = pending.await;
        self.pending = None;
        outcome
    }

    /// Forgets past interruptions: the log is read again.
    fn reset(&mut self) {
        self.backoff.reset();
    }
}

/// An open log, and the access through which it is read.
struct OpenLog {
    tail: LogStream,
    access: LogAccessWatch,
    access_sender: watch::Sender<Option<LogAccess>>,
    spec: Arc<ClusterSpec>,
    source: LogSource,
}

impl OpenLog {
    /// Opens a log. With `grep`, of the existing lines only those that match are passed on.
    fn new(
        access: Option<LogAccess>,
        spec: &ClusterSpec,
        source: LogSource,
        start: Start,
        grep: Option<Grep>,
    ) -> Self {
        let (access_sender, access) = watch::channel(access);
        let spec = Arc::new(spec.clone());
        let tail = {
            let (access, spec, source) = (access.clone(), Arc::clone(&spec), source.clone());
            match grep {
                Some(words) => {
                    let from = (words, start);
                    supervisor::follow_matching(access, spec, source, from, LineSplitter::MAX_LINE)
                }
                None => supervisor::follow(access, spec, source, start, LineSplitter::MAX_LINE),
            }
        };
        Self { tail, access, access_sender, spec, source }
    }

    /// Reads the log from its beginning, through this access.
    fn begin_again(&mut self, access: Option<LogAccess>) {
        self.set_access(access);
        let (access, spec, source) = (self.access.clone(), Arc::clone(&self.spec), self.source.clone());
        self.tail = supervisor::follow(access, spec, source, Start::Beginning, LineSplitter::MAX_LINE);
    }

    fn has_access(&self) -> bool {
        self.access_sender.borrow().is_some()
    }

    /// Continues with this access; `None` while the cluster is not connected.
    fn set_access(&self, access: Option<LogAccess>) {
        self.access_sender.send_replace(access);
    }

    /// Makes the log retry at once.
    fn nudge(&self) {
        self.access_sender
            .send_if_modified(|access| access.as_mut().map(|access| access.nudges += 1).is_some());
    }
}

impl<'a> Following<'a> {
    /// Follows jobs over the connection of this command.
    pub fn new(reach: &'a Reach, session: &Session, give_up: GiveUp) -> Self {
        let connection = session.connection().clone();
        let state = connection.watch();
        let limit = give_up.give_up_after;
        let ray_session = session.ray_session.clone();
        let (grep, head, lost, reported, seen) = (None, None, None, None, None);
        let checks = Checks::default();
        Self { reach, connection, state, limit, grep, head, lost, reported, checks, ray_session, seen }
    }

    /// Selects only matching lines from the existing part of the log. If its host cannot search, other lines are passed
    /// on as well.
    pub fn search(&mut self, words: Grep) {
        self.grep = Some(words);
    }

    /// Passes the lines of a job's log to `print` until the job has ended, and returns how it ended.
    pub async fn log_and_end(
        &mut self,
        id: &SubmissionId,
        start: Start,
        print: impl FnMut(Vec<Line>) -> io::Result<()>,
    ) -> anyhow::Result<Result<JobStatus, FollowError>> {
        match self.log(id, start, print).await? {
            Ok(()) => self.end(id).await,
            Err(unseen) => Ok(Err(unseen)),
        }
    }

    /// Passes the lines of a job's log to `print` until the log has ended. If a restart submits the job again, its new
    /// log follows.
    async fn log(
        &mut self,
        id: &SubmissionId,
        start: Start,
        mut print: impl FnMut(Vec<Line>) -> io::Result<()>,
    ) -> anyhow::Result<Result<(), FollowError>> {
        let source = LogSource::Job(id.clone());
        let mut log = OpenLog::new(self.log_access()?, &self.reach.spec, source, start, self.grep.take());
        loop {
            tokio::select! {
                event = log.tail.next() => match event {
                    Some(LogEvent::Lines(part)) => {
                        self.back();
                        print(part.lines)?;
                    }
                    Some(LogEvent::Resumed) => self.back(),
                    Some(LogEvent::Note(what)) => eprintln!("{id}: {what}"),
                    Some(LogEvent::Older(_)) => {}
                    Some(LogEvent::Interrupted(why)) => self.interrupted(&why, &log),
                    Some(LogEvent::Failed(error)) => match self.gone(id, &error).await? {
                        Gone::Back => log.begin_again(self.log_access()?),
                        Gone::FollowError(unseen) => return Ok(Err(unseen)),
                        Gone::Unexplained => anyhow::bail!("cannot read the log of {id}: {error}"),
                    },
                    Some(LogEvent::Complete) | None => return Ok(Ok(())),
                },
                _ = self.state.changed() => log.set_access(self.log_access()?),
                checked = self.checks.outcome() => match checked {
                    Ok(()) => log.nudge(),
                    Err(problem) => self.report(&problem.what),
                },
                () = too_long(self.lost, self.limit) => return Ok(Err(FollowError::GaveUp)),
            }
        }
    }

    /// Passes the lines of a node's file to `print`, beginning with the newest `keep`, until the cluster has not
    /// responded for `--give-up-after`.
    pub async fn file(
        &mut self,
        node: &Node,
        name: &Text,
        keep: u32,
        mut print: impl FnMut(&[Line]) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        self.head = node.is_head.then_some(node.id);
        let source = LogSource::File { node: node.id, name: name.clone() };
        let start = Start::Lines(keep);
        let mut log = OpenLog::new(self.log_access()?, &self.reach.spec, source, start, None);
        loop {
            tokio::select! {
                event = log.tail.next() => match event {
                    Some(LogEvent::Lines(part)) => {
                        self.back();
                        print(&part.lines)?;
                    }
                    Some(LogEvent::Resumed) => self.back(),
                    Some(LogEvent::Note(what)) => eprintln!("{name}: {what}"),
                    Some(LogEvent::Older(_)) => {}
                    Some(LogEvent::Interrupted(why)) => self.interrupted(&why, &log),
                    Some(LogEvent::Failed(error)) => anyhow::bail!("cannot read {name}: {error}"),
                    Some(LogEvent::Complete) | None => anyhow::bail!("{name} ended"),
                },
                _ = self.state.changed() => log.set_access(self.log_access()?),
                checked = self.checks.outcome() => match checked {
                    Ok(()) => log.nudge(),
                    Err(problem) => self.report(&problem.what),
                },
                () = too_long(self.lost, self.limit) => return Ok(()),
            }
        }
    }

    /// Finds out what happened to a job that Ray no longer knows. A restart whose lock is on the cluster may submit the
    /// job again, so this waits for the restart.
    async fn gone(&mut self, id: &SubmissionId, error: &RayError) -> anyhow::Result<Gone> {
        let Some(why) = self.why_lost(id, error).await else { return Ok(Gone::Unexplained) };
        let (mut is_reported, retry_until) = (false, Instant::now() + LOCK_RETRY);
        loop {
            // Read the lock before the job: once the lock is gone, the restart has restored all it can.
            let restart = self.restart_under_way().await;
            let asked = Instant::now();
            let detail = match self.client()? {
                Some(client) => Some(client.job(id).await),
                None => None,
            };
            if matches!(detail, Some(Ok(_)))
                && let Ok(channel) = self.connection.channel().await
            {
                self.back();
                self.ray_session = channel.ray_session;
                eprintln!("{id} was restarted with the cluster");
                return Ok(Gone::Back);
            }
            // A Ray that does not respond may know the job.
            let is_absent = matches!(detail, Some(Err(RayError::NotFound(_))));
            match &detail {
                Some(Err(RayError::NotFound(_))) => self.back(),
                Some(Err(error)) => self.lose(&error.to_string(), asked),
                Some(Ok(_)) | None => {}
            }
            match restart {
                Ok(Some(lock)) if !is_reported => {
                    is_reported = true;
                    eprintln!("{id}: {}; waiting for the job to be restored", lock.brief(Timestamp::now()));
                }
                Ok(None) if is_absent => return Ok(Gone::FollowError(FollowError::Lost(why))),
                // If locks cannot be read for long, the job counts as lost, as on a cluster without locks.
                Err(_) if is_absent && Instant::now() > retry_until => {
                    return Ok(Gone::FollowError(FollowError::Lost(why)));
                }
                Ok(_) | Err(_) => {}
            }
            tokio::select! {
                () = sleep(RESTART_POLL_INTERVAL) => {}
                () = too_long(self.lost, self.limit) => return Ok(Gone::FollowError(FollowError::GaveUp)),
            }
        }
    }

    /// The lock of a restart that is running on this cluster.
    async fn restart_under_way(&self) -> Result<Option<OperationLock>, Problem> {
        let (spec, options) = (&self.reach.spec, &self.reach.options);
        if !supervisor::keeps_locks(spec) {
            return Ok(None);
        }
        let access = Access { spec, options, connection: &self.connection };
        let is_running = |lock: &OperationLock| {
            lock.liveness(Timestamp::now()) == Liveness::Fresh
                && lock.command == OperationKind::Restart.command()
        };
        Ok(supervisor::read_lock(access).await?.filter(is_running))
    }

    /// Why a job was lost, if Ray was restarted since the job was last seen.
    async fn why_lost(&self, id: &SubmissionId, error: &RayError) -> Option<String> {
        if !matches!(error, RayError::NotFound(_)) || self.ray_session.is_empty() {
            return None;
        }
        let now = self.connection.channel().await.ok()?.ray_session;
        (now != self.ray_session).then(|| id.lost_with(&self.ray_session))
    }

    /// Polls the job until it has ended.
    pub async fn end(&mut self, id: &SubmissionId) -> anyhow::Result<Result<JobStatus, FollowError>> {
        let mut backoff = Backoff::default();
        loop {
            let asked = Instant::now();
            let answer = match self.client()? {
                Some(client) => tokio::select! {
                    answer = client.job(id) => Some(answer),
                    () = too_long(self.lost, self.limit) => return Ok(Err(FollowError::GaveUp)),
                },
                None => None,
            };
            let pause = match answer {
                Some(Ok(detail)) => {
                    self.back();
                    let status = detail.job.status;
                    self.seen = Some(status);
                    if status.is_ended() {
                        return Ok(Ok(status));
                    }
                    backoff.reset();
                    POLL_INTERVAL
                }
                Some(Err(e @ (RayError::NotFound(_) | RayError::Forbidden(_)))) => {
                    match self.gone(id, &e).await? {
                        Gone::Back => continue,
                        Gone::FollowError(unseen) => return Ok(Err(unseen)),
                        Gone::Unexplained => return Err(failed(self.reach)(e)),
                    }
                }
                Some(Err(error)) => {
                    self.lose(&error.to_string(), asked);
                    let checked = tokio::select! {
                        checked = check(&self.connection) => checked,
                        () = too_long(self.lost, self.limit) => return Ok(Err(FollowError::GaveUp)),
                    };
                    if let Err(problem) = checked {
                        self.report(&problem.what);
                    }
                    backoff.next(MAX_BACKOFF)
                }
                // When the cluster's task has reconnected, its state changes.
                None => MAX_BACKOFF,
            };
            tokio::select! {
                () = sleep(pause) => {}
                _ = self.state.changed() => {}
                () = too_long(self.lost, self.limit) => return Ok(Err(FollowError::GaveUp)),
            }
        }
    }

    /// The client of the current connection, if there is one. An error if reconnecting cannot succeed without action by
    /// the operator.
    fn client(&mut self) -> anyhow::Result<Option<Client>> {
        Ok(self.log_access()?.map(|access| access.client))
    }

    /// Like [`Self::client`], for access to logs.
    fn log_access(&mut self) -> anyhow::Result<Option<LogAccess>> {
        let now = self.state.borrow_and_update().clone();
        match now {
            ConnectionState::Up(channel) => {
                Ok(Some(LogAccess { head: self.head, ..LogAccess::from(*channel) }))
            }
            ConnectionState::Connecting(_) => Ok(None),
            ConnectionState::Down { problem, retry_at: None, .. } => Err(self.reach.error(&problem)),
            ConnectionState::Down { problem, .. } => {
                self.lose(&problem.what, Instant::now());
                self.report(&problem.what);
                Ok(None)
            }
        }
    }

    /// Prints once that the connection is lost, and schedules a check of it.
    fn interrupted(&mut self, why: &str, log: &OpenLog) {
        self.lose(why, Instant::now());
        if log.has_access() {
            self.checks.schedule(&self.connection);
        }
    }

    /// Prints once that the connection is lost, `since` then.
    fn lose(&mut self, why: &str, since: Instant) {
        if self.lost.is_none() {
            self.lost = Some(since);
            self.reported = Some(why.to_owned());
            eprintln!("{}: connection lost: {why}; reconnecting", self.reach.spec.name);
        }
    }

    /// Prints why the cluster cannot be reached, once per cause.
    fn report(&mut self, why: &str) {
        if self.reported.as_deref() != Some(why) {
            self.reported = Some(why.to_owned());
            eprintln!("{}: {why}; retrying", self.reach.spec.name);
        }
    }

    /// Prints once that the connection is restored.
    fn back(&mut self) {
        self.checks.reset();
        if let Some(since) = self.lost.take() {
            self.reported = None;
            eprintln!("{}: reconnected after {} s", self.reach.spec.name, since.elapsed().as_secs());
        }
    }

    /// Prints that the timeout expired and how to continue.
    pub fn gave_up(&self, id: &SubmissionId) {
        let (name, limit) = (&self.reach.spec.name, self.limit.unwrap_or_default().as_secs());
        let state = self.seen.map_or("unknown", JobStatus::label);
        let again = Target::of(name).line(&format!("wait-job {}", shell_quote(id.0.raw())));
        eprintln!(
            "{name}: timed out after {limit} s without a response; last status of {id}: {state}; to wait again: `{again}`"
        );
    }
}

/// Checks the connection with a small request. This replaces a refused token with the latest one, and a dead connection
/// with a new one.
async fn check(connection: &Connection) -> Result<(), Problem> {
    connection.channel().await.map(|_| ())
}

/// Resolves when the cluster has not responded for longer than the limit.
async fn too_long(lost: Option<Instant>, limit: Option<Duration>) {
    match (lost, limit) {
        (Some(since), Some(limit)) => sleep_until(since + limit).await,
        _ => std::future::pending().await,
    }
}

/// Poll interval while waiting for a job.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn id(id: &str) -> SubmissionId {
    SubmissionId(Text::from(id))
}

/// Converts an error of Ray to the error of a command, with its hint.
pub(super) fn failed(reach: &Reach) -> impl Fn(RayError) -> anyhow::Error + '_ {
    |e| reach.error(&e.problem(crate::model::Timestamp::now()))
}
