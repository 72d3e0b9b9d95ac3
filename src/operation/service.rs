//! The operations service runs orders on clusters and reports their progress. The console and the commands use it; they
//! only display results and prompt the operator, and make no decisions.
//!
//! One task owns the state of running operations, so no lock is needed. Orders arrive over a channel, and journals are
//! read on blocking threads. Events are sent over a bounded channel: if they are not received, the operation waits, and
//! nothing else does.

use super::audit::Audit;
use super::blocking::blocking;
use super::call::Call;
use super::drafts::Drafts;
use super::environment::Environment;
use super::event::ServiceEvent;
use super::facts::Facts;
use super::gates;
use super::journal::JournalError;
use super::journaled::journaled;
use super::request::{Request, Stop};
use crate::job_workers::{Known, Part};
use crate::model::{
    ClusterName, Consent, Draft, FormId, JobId, JournaledOperation, NodeId, Operation, OperationEvent,
    OperationKind, OperationLock, Order, Preview, Problem, Refusal, SubmissionId, Task,
};
use crate::ray::Listed;
use crate::task;
use futures_util::FutureExt;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

/// Interval for reading journals, and thus the maximum delay before another program's operation is seen.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Capacity of the channel of events.
const CHANNEL_CAPACITY: usize = 256;

/// Whether operations that other programs start or leave interrupted are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journals {
    /// Journals are read at intervals, for a screen.
    Watched,
    /// Journals are read only for an order.
    OnRequest,
}

/// A request to the service.
enum Command {
    Order(ClusterName, Order),
    Submit(ClusterName, FormId, Box<Draft>),
    Fill(ClusterName, FormId, SubmissionId),
    Stacks(ClusterName, JobId),
    WorkerFiles(ClusterName, JobId, (NodeId, u32)),
    Chips(ClusterName, Vec<NodeId>),
    JobWorkers(ClusterName, Box<Known>, Part),
    Note(ClusterName, String, String),
}

/// The service. Dropping it stops its operations where they are.
pub struct Operations {
    environment: Arc<Environment>,
    commands: mpsc::UnboundedSender<Command>,
    task: JoinHandle<()>,
}

impl Drop for Operations {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Operations {
    /// Starts the service. Must be called in a runtime.
    pub fn start(environment: Environment, journals: Journals) -> (Self, mpsc::Receiver<ServiceEvent>) {
        let (commands, received) = mpsc::unbounded_channel();
        let (events, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let environment = Arc::new(environment);
        let hub = Hub {
            environment: Arc::clone(&environment),
            events,
            drafts: Arc::default(),
            works: HashMap::new(),
            begun: 0,
            known: BTreeMap::new(),
            readings: HashMap::new(),
            listed: HashMap::new(),
            tasks: JoinSet::new(),
        };
        let task = task::spawn(hub.run(received, journals));
        (Self { environment, commands, task }, receiver)
    }

    fn send(&self, command: Command) {
        // The service ends only when this handle is dropped.
        let _ = self.commands.send(command);
    }

    /// Runs an order in the background.
    pub fn order(&self, cluster: &ClusterName, order: Order) {
        self.send(Command::Order(cluster.clone(), order));
    }

    /// Submits the job of a form in the background.
    pub fn submit(&self, cluster: &ClusterName, form: FormId, draft: Draft) {
        self.send(Command::Submit(cluster.clone(), form, Box::new(draft)));
    }

    /// Reads the submission of a job for a form in the background.
    pub fn fill(&self, cluster: &ClusterName, form: FormId, id: SubmissionId) {
        self.send(Command::Fill(cluster.clone(), form, id));
    }

    /// Takes the stacks of a driver's workers twice, in the background.
    pub fn stacks(&self, cluster: &ClusterName, driver: JobId) {
        self.send(Command::Stacks(cluster.clone(), driver));
    }

    /// Lists the log files of one of a driver's workers in the background.
    pub fn worker_files(&self, cluster: &ClusterName, driver: JobId, process: (NodeId, u32)) {
        self.send(Command::WorkerFiles(cluster.clone(), driver, process));
    }

    /// Reads the chips of these nodes in the background.
    pub fn chips(&self, cluster: &ClusterName, nodes: Vec<NodeId>) {
        self.send(Command::Chips(cluster.clone(), nodes));
    }

    /// Reads the data of a page of a job's workers, in the background. Cancels a reading for another page of the
    /// cluster, so that the head never receives the requests of more than one reading at a time.
    pub fn job_workers(&self, cluster: &ClusterName, known: Known, part: Part) {
        self.send(Command::JobWorkers(cluster.clone(), Box::new(known), part));
    }

    /// Writes the audit log in the background, because its disk may be slow.
    pub fn note(&self, cluster: ClusterName, what: String, outcome: String) {
        self.send(Command::Note(cluster, what, outcome));
    }

    /// Whether operations of this kind are refused regardless of the cluster.
    pub fn read_only(&self, kind: OperationKind) -> Result<(), Refusal> {
        gates::read_only(&self.environment, kind)
    }

    /// Whether an operation passes the checks of locks and affected jobs according to the preview. They are repeated
    /// when the operation starts.
    pub fn allowed(
        &self,
        operation: &Operation,
        consent: &Consent,
        (lock, seen): (Option<&OperationLock>, &Preview),
    ) -> Result<(), Refusal> {
        let order = |consent| Order::Begin(operation.task.clone(), consent);
        gates::taken_over(lock, consent, order)?;
        gates::jobs(operation, consent, seen, order)
    }

    /// Whether an operation has changes to apply and can apply all of them, according to the preview.
    pub fn applicable(&self, operation: &Operation, seen: &Preview) -> Result<(), Refusal> {
        gates::applicable(operation, seen)
    }

    /// The changes that an operation would make if it started now: its steps run, and their changes are recorded
    /// instead of executed.
    pub async fn dry_run(&self, cluster: &ClusterName, task: &Task) -> Result<Vec<Call>, Problem> {
        let Some(request) = request(&self.environment, cluster, mpsc::channel(1).0) else {
            return Err(super::failure(format!("no cluster {cluster}"), ""));
        };
        let operation = Operation::new(task.clone(), cluster.clone());
        // Boxed, because a future that queries Google and Ray at once is large.
        Box::pin(request.performer(task, Facts::default()).dry_run(&operation)).await
    }

    /// The interrupted operation on a cluster, or the one that another program is running; `None` if there is none.
    pub async fn journaled(&self, cluster: &ClusterName) -> Result<Option<JournaledOperation>, JournalError> {
        let (state, cluster) = (self.environment.state.clone(), cluster.clone());
        blocking(move || journaled(&state, &cluster)).await
    }
}

/// An operation that may be running.
struct Work {
    /// Distinguishes the operation from later ones on the same cluster.
    number: u64,
    stop: mpsc::UnboundedSender<Stop>,
}

/// The result of reading the journals, and the number of operations started here before.
type Seen = (u64, Vec<(ClusterName, Option<JournaledOperation>)>);

/// The task behind [`Operations`]; it owns all state of the service.
struct Hub {
    environment: Arc<Environment>,
    events: mpsc::Sender<ServiceEvent>,
    drafts: Arc<Drafts>,
    /// Operations by cluster. The events of a running one also report its journal.
    works: HashMap<ClusterName, Work>,
    /// Number of operations started and ended so far.
    begun: u64,
    /// The last reported state of each journal.
    known: BTreeMap<ClusterName, Option<JournaledOperation>>,
    /// Current readings of workers, by cluster.
    readings: HashMap<ClusterName, AbortHandle>,
    /// The files of the workers of the job that was last read on each cluster.
    listed: HashMap<ClusterName, Arc<Mutex<Listed>>>,
    /// Background work; the result is the cluster and number of an operation that is over.
    tasks: JoinSet<Option<(ClusterName, u64)>>,
}

impl Hub {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>, journals: Journals) {
        let mut tick = interval(POLL_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reading: Option<Pin<Box<dyn Future<Output = Seen> + Send>>> = None;
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle(command),
                    None => return,
                },
                Some(over) = self.tasks.join_next() => {
                    if let Ok(Some((cluster, number))) = over {
                        self.over(&cluster, number);
                    }
                }
                seen = async { reading.as_mut().unwrap_or(&mut pending()).await }, if reading.is_some() => {
                    reading = None;
                    self.report(seen).await;
                }
                _ = tick.tick(), if journals == Journals::Watched && reading.is_none() => {
                    reading = Some(self.read_journals());
                }
            }
        }
    }

    /// Reads all journals.
    fn read_journals(&self) -> Pin<Box<dyn Future<Output = Seen> + Send>> {
        let (environment, begun) = (Arc::clone(&self.environment), self.begun);
        let read = move || {
            let names = environment.clusters.iter().map(|spec| &spec.name);
            // An unreadable journal is reported when an operation is about to start.
            names.filter_map(|name| Some((name.clone(), journaled(&environment.state, name).ok()?))).collect()
        };
        Box::pin(async move { (begun, blocking(read).await) })
    }

    /// Reports journals that have changed. An operation running in this process reports itself.
    async fn report(&mut self, (begun, seen): Seen) {
        if begun != self.begun {
            return;
        }
        for (cluster, seen) in seen {
            if self.works.contains_key(&cluster) || *self.known.get(&cluster).unwrap_or(&None) == seen {
                continue;
            }
            self.known.insert(cluster.clone(), seen.clone());
            // The front end may be shutting down.
            let _ = self
                .events
                .send(ServiceEvent::Operation(cluster, Box::new(OperationEvent::Journaled(seen))))
                .await;
        }
    }

    fn over(&mut self, cluster: &ClusterName, number: u64) {
        if self.works.get(cluster).is_some_and(|work| work.number == number) {
            self.works.remove(cluster);
            self.known.remove(cluster);
            self.begun += 1;
        }
    }

    fn request(&self, cluster: &ClusterName) -> Option<Request> {
        request(&self.environment, cluster, self.events.clone())
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Order(cluster, order) => self.order(&cluster, order),
            Command::Submit(cluster, form, draft) => {
                let Some(request) = self.request(&cluster) else { return };
                let drafts = Arc::clone(&self.drafts);
                self.spawn(async move { request.submit(form, drafts, *draft).await });
            }
            Command::Fill(cluster, form, id) => {
                let Some(request) = self.request(&cluster) else { return };
                let drafts = Arc::clone(&self.drafts);
                self.spawn(async move { request.fill(form, &drafts, id).await });
            }
            Command::Stacks(cluster, driver) => {
                let Some(request) = self.request(&cluster) else { return };
                self.spawn(async move { request.stacks(driver).await });
            }
            Command::WorkerFiles(cluster, driver, process) => {
                let Some(request) = self.request(&cluster) else { return };
                self.spawn(async move { request.worker_files(driver, process).await });
            }
            Command::Chips(cluster, nodes) => {
                let Some(request) = self.request(&cluster) else { return };
                self.spawn(async move { request.chips(nodes).await });
            }
            Command::JobWorkers(cluster, known, part) => {
                let Some(request) = self.request(&cluster) else { return };
                let listed = Arc::clone(self.listed.entry(cluster.clone()).or_default());
                let reading = self.spawn(async move { request.job_workers(*known, part, &listed).await });
                if let Some(before) = self.readings.insert(cluster, reading) {
                    before.abort();
                }
            }
            Command::Note(cluster, what, outcome) => {
                let audit = self.environment.audit.clone();
                self.tasks.spawn_blocking(move || write(&audit, &cluster, &what, &outcome));
            }
        }
    }

    /// Starts a task that is not an operation.
    fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        task::spawn_on(&mut self.tasks, work.map(|()| None))
    }

    fn order(&mut self, cluster: &ClusterName, order: Order) {
        let stop = match order {
            Order::Cancel => Some(Stop::Cancel),
            Order::Interrupt => Some(Stop::Interrupt),
            _ => None,
        };
        if let Some(stop) = stop {
            if let Some(work) = self.works.get(cluster) {
                // The operation may have ended in the meantime.
                let _ = work.stop.send(stop);
            }
            return;
        }
        let Some(request) = self.request(cluster) else { return };
        let (stop, mut stops) = mpsc::unbounded_channel();
        let works = matches!(order, Order::Begin(..) | Order::Resume(_) | Order::SkipStep(_));
        // A second operation is refused by the journal's lock and must not be mistaken for the running one.
        let over = (works && !self.works.contains_key(cluster)).then(|| {
            self.begun += 1;
            self.known.remove(cluster);
            self.works.insert(cluster.clone(), Work { number: self.begun, stop });
            (cluster.clone(), self.begun)
        });
        task::spawn_on(&mut self.tasks, async move {
            request.run(order, &mut stops).await;
            over
        });
    }
}

fn request(
    environment: &Arc<Environment>,
    cluster: &ClusterName,
    events: mpsc::Sender<ServiceEvent>,
) -> Option<Request> {
    let spec = environment.clusters.iter().find(|spec| spec.name == *cluster)?.clone();
    let connection = environment.connection(cluster);
    Some(Request { spec, connection, environment: Arc::clone(environment), events })
}

/// A future that never resolves.
fn pending() -> Pin<Box<dyn Future<Output = Seen> + Send>> {
    Box::pin(std::future::pending())
}

fn write(audit: &Audit, cluster: &ClusterName, what: &str, outcome: &str) -> Option<(ClusterName, u64)> {
    if let Err(e) = audit.note(cluster, what, outcome) {
        tracing::error!("cannot write the audit log: {e}");
    }
    None
}
