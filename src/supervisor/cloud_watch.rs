//! Polls one cluster's TPUs at Google Cloud, slowly and independently of the connection to its head, and deletes
//! leftovers on request.

use super::Options;
use super::cloud::{clean, tpu_location};
use super::lock::{keeps_locks, read_group};
use super::out::UpdateSender;
use crate::model::cloud::CloudView;
use crate::model::{
    ClusterEvent, ClusterSpec, Hint, Leftover, OperationLock, Problem, ProblemKind, Request, Target,
    Timestamp,
};
use crate::task;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Minimum interval between queries when a page is opened repeatedly.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// An answer for another cluster in the same zone that is at most this old is used as well.
const MAX_SHARED_AGE: Duration = Duration::from_secs(2);

/// The time since which an answer for another cluster in the same zone may be used instead of a new one.
pub(super) fn shared_since() -> Instant {
    Instant::now().checked_sub(MAX_SHARED_AGE).unwrap_or_else(Instant::now)
}

/// Poll interval for another operator's lock while their operation runs.
const LOCK_INTERVAL: Duration = Duration::from_secs(10);

/// The task that polls Google for one cluster.
pub struct CloudWatch {
    /// The cluster whose TPUs are polled.
    pub spec: ClusterSpec,
    /// Connection options.
    pub options: Arc<Options>,
    /// Receiver of the events.
    pub out: UpdateSender,
    /// Requests of the front end.
    pub requests: mpsc::UnboundedReceiver<Request>,
}

impl CloudWatch {
    /// Runs until the front end is gone.
    pub async fn run(mut self) {
        let interval = match (tpu_location(&self.spec), self.options.cloud_refresh) {
            (Ok(_), Some(interval)) => interval,
            (Ok(_), None) => return self.decline(&off()).await,
            (Err(problem), _) => return self.decline(&problem).await,
        };
        let (mut queries, mut locks) = (Queries::new(interval), Locks::new(&self.spec));
        // Runs outside the loop, so that quitting does not wait for requests.
        let mut work = JoinSet::new();
        loop {
            tokio::select! {
                () = sleep_until(queries.due), if !queries.is_querying => {
                    task::spawn_on(&mut work, query(self.spec.clone(), self.options.clone(), queries.begin()));
                }
                () = sleep_until(locks.due), if locks.is_due() => {
                    locks.is_querying = true;
                    task::spawn_on(&mut work, query_lock(self.spec.clone(), self.options.clone()));
                }
                request = self.requests.recv() => match request {
                    None => return,
                    Some(Request::CleanPreempted(all)) => {
                        task::spawn_on(&mut work, clean_up(self.spec.clone(), self.options.clone(), self.out.clone(), all));
                    }
                    Some(_) => {
                        queries.request();
                        locks.due = locks.due.min(queries.due);
                    }
                },
                Some(done) = work.join_next() => match done {
                    Ok(Done::Lock(seen)) => {
                        if let Some(event) = locks.take(seen, &self.options, interval) {
                            self.out.send(event).await;
                        }
                    }
                    Ok(Done::Cleaned) => queries.cleaned(),
                    done => {
                        let view = if let Ok(Done::Queried(view)) = done { Some(view) } else { None };
                        queries.finished(view.as_ref());
                        // Reported last, so that a new request sees that this query is finished.
                        if let Some(view) = view {
                            self.out.send(ClusterEvent::Cloud(view)).await;
                        }
                    }
                },
            }
        }
    }

    /// Sends nothing to Google, and answers every request with this problem.
    async fn decline(mut self, problem: &Problem) {
        while let Some(request) = self.requests.recv().await {
            let event = match request {
                Request::CleanPreempted(_) => ClusterEvent::Cleaned(Err(problem.clone())),
                _ => ClusterEvent::Cloud(Err(problem.clone())),
            };
            self.out.send(event).await;
        }
    }
}

fn off() -> Problem {
    let hint = "set `cloud_refresh_seconds` in the settings to e.g. 60";
    Problem::new(ProblemKind::Config, "polling of Google Cloud TPUs is off", hint, Timestamp::now())
}

/// The result of a finished task.
enum Done {
    Lock(Result<Option<OperationLock>, Problem>),
    Queried(Result<Arc<CloudView>, Problem>),
    Cleaned,
}

/// When Google is queried, and how old its answer may be.
struct Queries {
    interval: Duration,
    due: Instant,
    is_querying: bool,
    /// When the last query was finished.
    queried: Option<Instant>,
    /// Answers older than our last one, or than a deletion, are ignored.
    since: Option<Instant>,
    /// The answer of a query that ran during a deletion may still contain what was deleted.
    must_repeat: bool,
}

impl Queries {
    fn new(interval: Duration) -> Self {
        let due = Instant::now();
        Self { interval, due, is_querying: false, queried: None, since: None, must_repeat: false }
    }

    /// Begins a query; returns the time since which an answer for another cluster may be used instead of a new one.
    fn begin(&mut self) -> Instant {
        self.is_querying = true;
        let shared = shared_since();
        self.since.map_or(shared, |since| since.max(shared))
    }

    /// Schedules the next query on request, soon after the last one.
    fn request(&mut self) {
        if let Some(queried) = self.queried {
            self.due = self.due.min(queried + MIN_INTERVAL);
        }
    }

    /// Schedules a query after a deletion.
    fn cleaned(&mut self) {
        self.due = Instant::now();
        self.since = Some(self.due);
        self.must_repeat = self.is_querying;
    }

    /// Schedules the next query after one that has finished; without an answer if it did not run to its end.
    fn finished(&mut self, answer: Option<&Result<Arc<CloudView>, Problem>>) {
        self.is_querying = false;
        self.queried = Some(Instant::now());
        self.since = self.queried;
        let wait = match answer {
            Some(Err(Problem { kind: ProblemKind::Quota { after }, .. })) => self.interval.max(*after),
            _ => self.interval,
        };
        let wait = if std::mem::take(&mut self.must_repeat) { Duration::ZERO } else { wait };
        self.due = Instant::now() + wait;
    }
}

/// The last known lock on the cluster, and when to read it again.
struct Locks {
    is_supported: bool,
    is_querying: bool,
    due: Instant,
    known: Option<OperationLock>,
    /// Whether a failure to read it has been logged, which happens only once.
    failed: bool,
}

impl Locks {
    fn new(spec: &ClusterSpec) -> Self {
        Self {
            is_supported: keeps_locks(spec),
            is_querying: false,
            due: Instant::now(),
            known: None,
            failed: false,
        }
    }

    fn is_due(&self) -> bool {
        self.is_supported && !self.is_querying
    }

    /// Stores what was read and returns the events about it. Our own lock counts as none.
    fn take(
        &mut self,
        seen: Result<Option<OperationLock>, Problem>,
        options: &Options,
        interval: Duration,
    ) -> Option<ClusterEvent> {
        self.is_querying = false;
        let seen = match seen {
            Ok(seen) => seen.filter(|lock| !options.own_locks.has(&lock.id)),
            Err(problem) => {
                if !std::mem::replace(&mut self.failed, true) {
                    tracing::warn!("{}", problem.in_commands(Target::default()));
                }
                self.due = Instant::now() + interval;
                return None;
            }
        };
        self.failed = false;
        self.due = Instant::now() + if seen.is_some() { LOCK_INTERVAL.min(interval) } else { interval };
        let changed = seen != self.known;
        self.known.clone_from(&seen);
        changed.then_some(ClusterEvent::Lock(seen))
    }
}

async fn query_lock(spec: ClusterSpec, options: Arc<Options>) -> Done {
    Done::Lock(read_group(&spec, &options).await)
}

async fn query(spec: ClusterSpec, options: Arc<Options>, since: Instant) -> Done {
    // Nothing else waits for the answer, and the screen shows until when Google asks to wait.
    let view = options.zones.view(&spec, &options.google.with_waits(), since).await;
    if let Err(problem) = &view {
        tracing::warn!(cluster = %spec.name, "Google: {}", problem.in_commands(Target::of(&spec.name)));
    }
    Done::Queried(view)
}

async fn clean_up(spec: ClusterSpec, options: Arc<Options>, out: UpdateSender, all: Vec<Leftover>) -> Done {
    // Logged before the first deletion, in case the console quits in the meantime.
    options.note.record(&spec.name, "clean-preempted", &format!("started: {} in total", all.len()));
    let done = clean(&spec, &options.google.with_waits(), all, |_, _| {}).await;
    for (leftover, cleaned) in done.iter().flatten() {
        options.note.record(&spec.name, &leftover.audit_label(), &cleaned.text(Hint::to_string));
    }
    out.send(ClusterEvent::Cleaned(done)).await;
    Done::Cleaned
}
