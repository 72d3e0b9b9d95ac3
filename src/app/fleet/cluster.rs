//! One cluster: all data that is known about it. How a page shows it is defined by the page.

use crate::app::fleet::runs::{Run, runs};
use crate::app::fleet::trend::Trend;
use crate::app::fleet::types::{Kind, kinds};
use crate::app::host::slices::SliceTable;
use crate::app::job::workers::Watched;
use crate::app::log::results::Found;
use crate::app::operation::progress::OperationProgress;
use crate::model::{
    ClusterName, ClusterSpec, Cost, GoogleWait, Job, JobKey, Link, LocalPorts, MissingPart, Node, NodeId,
    OperationLock, Physical, Problem, Provider, SnapshotPart, SubmissionId, Text, Timestamp, node_names,
};
use crate::reconcile::{HostsKey, HostsKind, Row};
use crate::state::ClusterState;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Data younger than this is shown as fresh.
pub const FRESH: Duration = Duration::from_secs(5);
/// From this age on, ages are shown in minutes.
pub const SHOWN_IN_MINUTES: Duration = Duration::from_secs(120);
/// Data older than this is stale, unless the poll interval is longer.
pub const STALE: Duration = Duration::from_secs(30);
/// The same limit for a cluster that is polled every few seconds.
const STALE_IF_POLLED_OFTEN: Duration = Duration::from_secs(10);

/// Machine figures that have not changed for this long may be out of date.
const OLD_FIGURES: Duration = Duration::from_secs(30);

/// A row of the list of clusters.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there are a few dozen, and nearly all are clusters")]
pub enum Listed {
    /// A cluster whose description is known.
    Cluster(ClusterSpec),
    /// A file that could not be read.
    Broken {
        /// The path of the file.
        file: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// One cluster: its state as its task reports it, to which it derefs, and what the console itself adds.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Its description: file, provider, zone, and how its head is reached.
    pub spec: ClusterSpec,
    state: Arc<ClusterState>,
    /// The first of its jobs that have not ended, and the number of all of them.
    pub runs: (Vec<Run>, usize),
    /// Its TPUs and GPUs by type.
    pub kinds: Vec<Kind>,
    /// Its nodes by slice.
    pub sliced: SliceTable,
    /// The recent use of its chips.
    pub trend: Trend,
    /// The display names of nodes, for those that have a name other than their address.
    pub(in crate::app) names: Arc<HashMap<NodeId, Text>>,
    /// Machine figures by node, and when each sample was first seen.
    physical: HashMap<NodeId, (Timestamp, Physical)>,
    /// The number of its nodes on the screen, whose figures are read in turn.
    pub(in crate::app) watched: usize,
    /// The load that the console causes on the head.
    pub cost: Cost,
    /// Local TCP ports that are forwarded to its head's services, opened by the operator.
    pub ports: LocalPorts,
    /// Whether its preempted TPUs are being deleted.
    pub cleaning: bool,
    /// Jobs whose stop was requested and that have not ended yet.
    pub stopping: HashSet<SubmissionId>,
    /// Whether all of its jobs were read since Ray was started.
    jobs_read: bool,
    /// The current poll intervals of Ray and of Google; zero if unknown, which counts as short.
    pub(in crate::app) poll_intervals: (Duration, Duration),
    /// What was read about the workers of one of its jobs.
    pub job_workers: Watched,
    /// What the last search of its logs found.
    pub found: Found,
    /// The operation on it that is running or interrupted, or has just ended.
    pub running: Option<OperationProgress>,
    /// The lock of another operator's operation on it. An operation that is refused because of a lock may have read it
    /// before the cluster's task does, so this may be newer than the state's lock.
    pub lock: Option<OperationLock>,
    /// The delay that Google requested before the next call in its project, and its end.
    google_wait: Option<(GoogleWait, Timestamp)>,
}

impl Deref for Cluster {
    type Target = ClusterState;

    fn deref(&self) -> &ClusterState {
        &self.state
    }
}

impl Cluster {
    /// A cluster before its first state.
    pub fn new(spec: ClusterSpec) -> Self {
        Self {
            state: Arc::new(ClusterState::new(Arc::new(spec.clone()))),
            spec,
            runs: Default::default(),
            kinds: Vec::new(),
            sliced: SliceTable::default(),
            trend: Trend::default(),
            names: Arc::default(),
            physical: HashMap::new(),
            watched: 0,
            cost: Cost::default(),
            ports: LocalPorts::new(),
            cleaning: false,
            stopping: HashSet::new(),
            jobs_read: false,
            poll_intervals: (Duration::ZERO, Duration::ZERO),
            job_workers: Watched::default(),
            found: Found::default(),
            running: None,
            lock: None,
            google_wait: None,
        }
    }

    /// A cluster in the state that a command has read.
    pub fn of(spec: ClusterSpec, state: ClusterState) -> Self {
        let mut cluster = Self::new(spec);
        cluster.take(Arc::new(state));
        cluster
    }

    /// Stores that calls in a project are delayed by Google. Returns whether the project is the cluster's.
    pub(in crate::app) fn wait_for_google(&mut self, wait: &GoogleWait, now: Timestamp) -> bool {
        let is_ours = self.spec.provider == Provider::Gcp && wait.is_of(self.spec.google.project.as_deref());
        if is_ours {
            self.google_wait = Some((wait.clone(), now.plus(wait.left)));
        }
        is_ours
    }

    /// The delay of Google's calls, with a countdown; `None` if there is no delay.
    pub fn google_wait(&self, now: Timestamp) -> Option<String> {
        let (wait, until) = self.google_wait.as_ref().filter(|(_, until)| *until > now)?;
        Some(wait.text(until.until(now)))
    }

    /// The cluster's full name.
    pub fn name(&self) -> &ClusterName {
        &self.spec.name
    }

    /// The state as the cluster's task built it.
    pub fn state(&self) -> &Arc<ClusterState> {
        &self.state
    }

    /// Stores a new state, and returns the previous one.
    pub(in crate::app) fn take(&mut self, state: Arc<ClusterState>) -> Arc<ClusterState> {
        let before = std::mem::replace(&mut self.state, state);
        let has_new_vitals = !Arc::ptr_eq(&before.vitals, &self.state.vitals);
        if has_new_vitals && self.state.known {
            let snapshot = &self.state.snapshot;
            self.runs = runs(&snapshot.jobs, &self.state.vitals, snapshot.taken);
        }
        // Most updates concern something else.
        if !self.state.known || Arc::ptr_eq(&before.snapshot, &self.state.snapshot) {
            return before;
        }
        let (old, new) = (&before.snapshot, &self.state.snapshot);
        let first = !before.known;
        let are_read = new.lacks(&[SnapshotPart::Jobs, SnapshotPart::SomeJobs]).is_none();
        self.jobs_read = are_read || (self.jobs_read && old.session == new.session);
        let nodes = first || old.nodes != new.nodes;
        if nodes {
            name_nodes(Arc::make_mut(&mut self.names), &new.nodes);
            let listed = &self.state;
            self.physical.retain(|id, _| listed.node(id).is_some());
        }
        if nodes || old.autoscaler != new.autoscaler {
            self.kinds = kinds(new);
        }
        if first || old.jobs != new.jobs {
            self.runs = runs(&new.jobs, &self.state.vitals, new.taken);
        }
        // Losses are shown for a limited time, so the rows may change over time alone.
        let (physical, last) = (&self.physical, self.figures_last());
        self.sliced.update(new, |id| fresh(physical, id, last, new.taken));
        before
    }

    /// Whether the last snapshot or its findings differ visibly from those of an earlier state.
    pub(in crate::app) fn differs(&self, before: &ClusterState) -> bool {
        let (old, new) = (&before.snapshot, &self.snapshot);
        before.known != self.known
            || old.nodes != new.nodes
            || old.jobs != new.jobs
            || old.autoscaler != new.autoscaler
            || old.missing != new.missing
            || old.ray_version != new.ray_version
            || before.findings != self.findings
            || before.pending != self.pending
    }

    /// Whether an operation of this machine is stopping or starting it. Only the console knows this; it notifies the
    /// cluster's task, because Ray's restart is not a finding in that case.
    pub fn is_operated(&self) -> bool {
        self.running.as_ref().is_some_and(|r| r.operation.kind().takes_down() && r.is_active())
    }

    /// Stores a machine's figures. Returns whether the shown figures changed.
    pub(in crate::app) fn measure(&mut self, id: NodeId, figures: Physical, now: Timestamp) -> bool {
        let changed = self.physical(&id, now) != Some(&figures);
        // The dashboard keeps returning the last sample of an agent that has died. The machine's clock may differ from
        // ours, so only the order of its samples is relevant.
        let same =
            self.physical.get(&id).filter(|(_, old)| old.sampled.is_some() && old.sampled == figures.sampled);
        let seen = same.map_or(now, |(seen, _)| *seen);
        self.physical.insert(id, (seen, figures));
        let (nodes, physical, last) = (&self.state.snapshot.nodes, &self.physical, self.figures_last());
        if let Some(number) = nodes.iter().position(|node| node.id == id).filter(|_| changed) {
            self.sliced.measure(number, nodes, |id| fresh(physical, id, last, now));
        }
        changed
    }

    /// A machine's figures, unless they are too old.
    pub fn physical(&self, id: &NodeId, now: Timestamp) -> Option<&Physical> {
        fresh(&self.physical, id, self.figures_last(), now)
    }

    /// How long figures are valid: one machine is read each second.
    fn figures_last(&self) -> Duration {
        OLD_FIGURES.max(Duration::from_secs(3 * self.watched as u64))
    }

    /// Time until the next figures become too old.
    pub(in crate::app) fn next_old_figures(&self, now: Timestamp) -> Option<Duration> {
        let last = self.figures_last();
        self.physical
            .values()
            .filter_map(|(seen, _)| last.checked_sub(seen.age(now)))
            .filter(|d| !d.is_zero())
            .min()
    }

    /// Adds the current use of its chips to the trend. Returns whether the shown trend changed.
    pub fn note_use(&mut self) -> bool {
        self.trend.record(self.tally.share(), self.snapshot.taken)
    }

    /// The display name of a node: its own name if it differs from its address, else its host name if it is unique,
    /// else the address. A node keeps the name under which it was first shown.
    pub fn node_name<'n>(&'n self, node: &'n Node) -> &'n Text {
        shown_name(&self.names, node)
    }

    /// A node's name and address, for use outside its row: `t1v-n-3 (10.0.0.7)`; `None` if Ray does not list it.
    pub fn node_label(&self, id: &NodeId) -> Option<String> {
        let node = self.node(id)?;
        let (name, address) = (self.node_name(node), &node.address);
        Some(if name == address { address.to_string() } else { format!("{name} ({address})") })
    }

    /// The alive node that has the address of a dead one: the address of a deleted machine is given to another one.
    pub fn successor(&self, node: &Node) -> Option<&Node> {
        let has_address = |other: &&Node| other.address == node.address && other.state.is_alive();
        self.snapshot.nodes.iter().find(has_address).filter(|_| !node.state.is_alive())
    }

    /// The job with this key.
    pub fn job(&self, key: &JobKey) -> Option<&Arc<Job>> {
        self.snapshot.jobs.iter().find(|j| j.key == *key)
    }

    /// The row of a node among the nodes by slice.
    pub fn row_of_node(&self, id: &NodeId) -> Option<usize> {
        let number = self.snapshot.nodes.iter().position(|node| node.id == *id)?;
        self.sliced.by_slice.row_index_of(number)
    }

    /// The key of that row.
    pub fn hosts_of_node(&self, id: &NodeId) -> Option<&HostsKey> {
        Some(&self.sliced.by_slice.rows.get(self.row_of_node(id)?)?.key)
    }

    /// The TPU or the request with this name.
    pub fn tpu(&self, name: &Text) -> Option<&Row> {
        self.tpus.rows().iter().find(|row| row.name == *name)
    }

    /// The alive nodes of a row of hosts.
    pub fn alive_of(&self, hosts: &HostsKey) -> Vec<NodeId> {
        let numbers = self.sliced.by_slice.find(hosts).map(|row| row.nodes.iter());
        let nodes = numbers.into_iter().flatten().filter_map(|n| self.snapshot.nodes.get(*n as usize));
        nodes.filter(|node| node.state.is_alive()).map(|node| node.id).collect()
    }

    /// The operation on it that is running or interrupted.
    pub fn operating(&self) -> Option<&OperationProgress> {
        self.running.as_ref().filter(|r| r.is_active() || r.is_interrupted())
    }

    /// The lock of another operator's operation, unless one of ours is shown instead.
    pub fn locked_by_others(&self) -> Option<&OperationLock> {
        self.lock.as_ref().filter(|_| self.operating().is_none())
    }

    /// The number of findings that need action; an operation of this console overrides it.
    pub fn alerts(&self) -> usize {
        if let Some(running) = self.operating() {
            if running.takes_down() {
                return 0;
            }
            if running.is_interrupted() {
                return 1;
            }
        }
        self.issues()
    }

    /// The age of the state; `None` before the first one.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        self.known.then(|| self.snapshot.taken.age(now))
    }

    /// Whether the shown state may be out of date.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        let old = if self.poll_intervals.0.is_zero() {
            STALE
        } else {
            STALE_IF_POLLED_OFTEN.max(self.poll_intervals.0 * 2)
        };
        self.age(now).is_some_and(|age| age >= old) || (self.known && self.problem().is_some())
    }

    /// Whether the data from Google may be out of date.
    pub fn is_google_stale(&self, now: Timestamp) -> bool {
        self.tpus.is_stale(now, self.poll_intervals.1)
    }

    /// The dashboard's problem while the state is read from the GCS.
    pub fn silent_dashboard(&self) -> Option<&Problem> {
        match &self.state.link {
            Some(Link::Up { dashboard, .. }) => dashboard.as_ref(),
            _ => None,
        }
    }

    /// Why its nodes or its jobs are unknown: they could not be read, and there are no earlier ones. The list is empty
    /// then, although the cluster may have some.
    pub fn unread(&self, part: SnapshotPart) -> Option<&MissingPart> {
        let snapshot = &self.snapshot;
        match part {
            SnapshotPart::Nodes => snapshot.unread_nodes(),
            SnapshotPart::Jobs if snapshot.jobs.is_empty() && !self.jobs_read => {
                snapshot.lacks(&[part, SnapshotPart::SomeJobs])
            }
            _ => None,
        }
    }

    /// Whether its nodes or its jobs were read.
    pub fn knows(&self, part: SnapshotPart) -> bool {
        self.known && self.unread(part).is_none()
    }

    /// The numbers of nodes that are alive, pending, and recently lost.
    pub fn node_counts(&self) -> (usize, usize, usize) {
        (self.tally.alive, self.tally.pending, self.tally.lost)
    }

    /// The name of a job next to its owner, or alone in a line: its short name while it is listed.
    pub fn job_name(&self, key: &JobKey) -> String {
        self.job(key).map_or_else(|| key.to_string(), |job| job.short_name().into_owned())
    }

    /// The number of slices with alive hosts.
    pub fn slices(&self) -> usize {
        let rows = self.sliced.by_slice.rows.iter();
        rows.filter(|row| row.key.kind == HostsKind::Slice && row.alive > 0).count()
    }

    /// The numbers of jobs that are running, pending, and failed within the last day.
    pub fn job_counts(&self, now: Timestamp) -> (usize, usize, usize) {
        const DAY: Duration = Duration::from_secs(86_400);
        let (running, waiting) = self.tally.jobs();
        (running, waiting, self.failed.partition_point(|ended| ended.age(now) < DAY))
    }
}

/// A machine's figures, unless they are as old as `last`.
fn fresh<'p>(
    physical: &'p HashMap<NodeId, (Timestamp, Physical)>,
    id: &NodeId,
    last: Duration,
    now: Timestamp,
) -> Option<&'p Physical> {
    let (seen, figures) = physical.get(id)?;
    (seen.age(now) < last).then_some(figures)
}

fn shown_name<'n>(names: &'n HashMap<NodeId, Text>, node: &'n Node) -> &'n Text {
    names.get(&node.id).unwrap_or(&node.address)
}

/// Adds the names of new nodes and drops those of nodes that are gone. Known names stay: Ray reports a node's state
/// some seconds before its registered name, and a joining host may have the name of a known one.
fn name_nodes(names: &mut HashMap<NodeId, Text>, nodes: &[Node]) {
    let mut known = std::mem::replace(names, node_names(nodes));
    names.extend(nodes.iter().filter_map(|node| Some((node.id, known.remove(&node.id)?))));
}
