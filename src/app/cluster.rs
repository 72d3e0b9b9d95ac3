//! One cluster: all that is known of it. What a page shows of it, and how, is the page's own.

use super::running::Running;
use super::tpus::Tpus;
use super::trend::Trend;
use crate::diagnose::{self, Finding, FindingKind, History, Restart, RestartedBy, Severity};
use crate::model::cloud::CloudView;
use crate::model::{
    ClusterName, ClusterSpec, Cost, Job, JobKey, JobStatus, Link, LocalPorts, Node, NodeId, OperationMark,
    Physical, Problem, Pulse, Snapshot, SubmissionId, Tally, Text, Timestamp,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Data younger than this is shown as fresh.
pub const FRESH: Duration = Duration::from_secs(5);
/// From this age on ages are shown in minutes.
pub const AGED: Duration = Duration::from_secs(120);
/// Data older than this is stale, unless the poll interval is longer.
pub const STALE: Duration = Duration::from_secs(30);
/// The same for a cluster that is polled every few seconds.
const PROMPT: Duration = Duration::from_secs(10);

/// A new Ray session seen within this time after the end of an operation belongs to that operation.
const AFTERWARDS: Duration = Duration::from_secs(120);
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

/// One cluster, as far as it is known.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Its description: file, provider, zone and the way to its head.
    pub spec: ClusterSpec,
    /// The state of the connection; none before the first news.
    pub link: Option<Link>,
    /// The last state read.
    pub snapshot: Arc<Snapshot>,
    /// Whether any state was read yet.
    pub known: bool,
    /// The last state in a few numbers.
    pub tally: Tally,
    /// What is wrong with it, worst first.
    pub findings: Vec<Finding>,
    /// The recent use of its chips.
    pub trend: Trend,
    history: History,
    /// The names that nodes are shown by, of those that have one beside their address.
    names: HashMap<NodeId, Text>,
    /// Machine figures by node, and when each sample was first seen.
    physical: HashMap<NodeId, (Timestamp, Physical)>,
    /// The number of its nodes on the screen, whose figures are read in turn.
    pub(super) watched: usize,
    /// The load that the console puts on the head.
    pub cost: Cost,
    /// TCP ports of this machine that lead to its head's services, opened for people.
    pub ports: LocalPorts,
    /// Its TPUs at Google.
    pub tpus: Tpus,
    /// Jobs that were asked to stop and have not ended yet.
    pub stopping: HashSet<SubmissionId>,
    /// The poll interval in force; zero when it is not known, which counts as short.
    pub(super) pace: Duration,
    /// The operation on it that is running or interrupted, or has just ended.
    pub running: Option<Running>,
    /// The mark of another operator's operation on it.
    pub mark: Option<OperationMark>,
}

impl Cluster {
    /// A cluster before its first state.
    pub fn new(spec: ClusterSpec) -> Self {
        Self {
            spec,
            link: None,
            snapshot: Arc::default(),
            known: false,
            tally: Tally::default(),
            findings: Vec::new(),
            trend: Trend::default(),
            history: History::default(),
            names: HashMap::new(),
            physical: HashMap::new(),
            watched: 0,
            cost: Cost::default(),
            ports: LocalPorts::new(),
            tpus: Tpus::default(),
            stopping: HashSet::new(),
            pace: Duration::ZERO,
            running: None,
            mark: None,
        }
    }

    /// The cluster's full name.
    pub fn name(&self) -> &ClusterName {
        &self.spec.name
    }

    /// Takes in a new state. True when anything visible changed.
    pub fn take(&mut self, snapshot: Arc<Snapshot>) -> bool {
        let before = std::mem::replace(&mut self.snapshot, snapshot);
        let now = &self.snapshot;
        if let Some(restart) = Restart::between(&before, now, self.restarted_by()) {
            self.history.learn_restart(restart, &now.jobs);
        }
        let nodes = before.nodes != now.nodes;
        let jobs = before.jobs != now.jobs;
        let rest = before.autoscaler != now.autoscaler
            || before.missing != now.missing
            || before.ray_version != now.ray_version;
        let first = !std::mem::replace(&mut self.known, true);
        self.tally = Tally::of(now);
        self.history.learn(now);
        if nodes || first {
            name_nodes(&mut self.names, &now.nodes);
            self.physical.retain(|id, _| now.nodes.iter().any(|n| n.id == *id));
        }
        if nodes || first {
            self.join_tpus();
        }
        let found = self.diagnose();
        nodes || jobs || rest || first || found
    }

    /// Who restarts it, if that is known here.
    fn restarted_by(&self) -> RestartedBy {
        let now = self.snapshot.taken;
        // An operation that ended long ago or is interrupted did not cause it.
        let is_at_it = |running: &&Running| {
            let just_now = running.until.is_some_and(|until| until.age(now) < AFTERWARDS);
            running.operation.kind().is_of_cluster() && (running.is_at_work() || just_now)
        };
        let is_theirs =
            |mark: &&OperationMark| mark.pulse(now) == Pulse::Fresh && mark.command.ends_with("-cluster");
        match (self.running.as_ref().filter(is_at_it), self.mark.as_ref().filter(is_theirs)) {
            (Some(_), _) => RestartedBy::Us,
            (None, Some(mark)) => RestartedBy::Operator(mark.who.as_str().into()),
            (None, None) => RestartedBy::Unknown,
        }
    }

    /// When a pending node was first seen pending.
    pub fn pending_since(&self, address: &Text) -> Option<Timestamp> {
        self.history.pending_since(address)
    }

    /// The finding that somebody else has restarted Ray lately.
    pub fn restart_finding(&self) -> Option<&Finding> {
        self.findings.iter().find(|f| f.kind == FindingKind::Restarted)
    }

    /// Why a job is gone, if a restart of Ray has ended it.
    pub fn why_lost(&self, id: &SubmissionId) -> Option<String> {
        self.history.restart()?.why_lost(id, &self.snapshot.jobs)
    }

    /// Takes in the state of the connection. True when anything visible changed.
    pub fn reach(&mut self, link: Link) -> bool {
        if self.link.as_ref() == Some(&link) {
            return false;
        }
        self.history.learn_link(&link);
        self.link = Some(link);
        self.join_tpus();
        self.diagnose();
        true
    }

    /// Takes in a machine's figures. True when the shown figures changed.
    pub(super) fn measure(&mut self, id: NodeId, figures: Physical, now: Timestamp) -> bool {
        let changed = self.physical(&id, now) != Some(&figures);
        // The dashboard goes on telling the last sample of an agent that has died. The machine's clock may differ
        // from ours: only that its samples follow each other counts.
        let same =
            self.physical.get(&id).filter(|(_, old)| old.sampled.is_some() && old.sampled == figures.sampled);
        let seen = same.map_or(now, |(seen, _)| *seen);
        self.physical.insert(id, (seen, figures));
        changed
    }

    /// A machine's figures, unless they are too old.
    pub fn physical(&self, id: &NodeId, now: Timestamp) -> Option<&Physical> {
        let (seen, figures) = self.physical.get(id)?;
        (seen.age(now) < self.figures_last()).then_some(figures)
    }

    /// How long figures count: one machine is read each second.
    fn figures_last(&self) -> Duration {
        OLD_FIGURES.max(Duration::from_secs(3 * self.watched as u64))
    }

    /// Time until the next figures get too old.
    pub(super) fn next_old_figures(&self, now: Timestamp) -> Option<Duration> {
        let last = self.figures_last();
        self.physical
            .values()
            .filter_map(|(seen, _)| last.checked_sub(seen.age(now)))
            .filter(|d| !d.is_zero())
            .min()
    }

    /// Adds the current use of its chips to the trend. True when the shown trend changed.
    pub fn note_use(&mut self) -> bool {
        self.trend.learn(self.tally.share(), self.snapshot.taken)
    }

    /// Takes Google's answer in. True when anything that can be seen changed.
    pub(super) fn take_cloud(&mut self, answer: Result<Arc<CloudView>, Problem>) -> bool {
        let before = self.tpus.seen();
        self.tpus.take(&self.spec, answer);
        self.join_tpus();
        before != self.tpus.seen()
    }

    /// Joins the last states of Google and Ray. While Ray cannot be reached, only Google's is used.
    fn join_tpus(&mut self) {
        let is_known = self.known && self.is_up();
        self.tpus.join(&self.spec, &self.snapshot, is_known);
    }

    pub(super) fn diagnose(&mut self) -> bool {
        let known = self.known.then_some(&*self.snapshot);
        let found = diagnose::findings(self.link.as_ref(), known, &self.history, self.tpus.left());
        let changed = found != self.findings;
        self.findings = found;
        changed
    }

    /// The name that a node is shown by: its own where it has one beside its address, else its host's where that is
    /// no other's, else the address. A node keeps the name that it was first shown by.
    pub fn node_name<'n>(&'n self, node: &'n Node) -> &'n Text {
        shown_name(&self.names, node)
    }

    /// A node's name and address where its row is not shown: `t1v-n-3 (10.0.0.7)`; none when Ray does not list it.
    pub fn node_words(&self, id: &NodeId) -> Option<String> {
        let node = self.node(id)?;
        let (name, address) = (self.node_name(node), &node.address);
        Some(if name == address { address.to_string() } else { format!("{name} ({address})") })
    }

    /// The node with that id.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.snapshot.nodes.iter().find(|n| n.id == *id)
    }

    /// The job with that key.
    pub fn job(&self, key: &JobKey) -> Option<&Arc<Job>> {
        self.snapshot.jobs.iter().find(|j| j.key == *key)
    }

    /// The problem of the connection, if there is one. It stays until a retry succeeds.
    pub fn problem(&self) -> Option<&Problem> {
        match self.link.as_ref()? {
            Link::Retrying { problem, .. } | Link::Stopped { problem } => Some(problem),
            Link::Connecting { .. } => self.history.trouble(),
            Link::Up { .. } => None,
        }
    }

    /// Whether the connection is up.
    pub const fn is_up(&self) -> bool {
        matches!(self.link, Some(Link::Up { .. }))
    }

    /// The operation on it that is running or interrupted.
    pub fn operating(&self) -> Option<&Running> {
        self.running.as_ref().filter(|r| r.is_at_work() || r.is_stopped())
    }

    /// The mark of another operator's operation, unless one of ours is shown instead.
    pub fn marked_by_others(&self) -> Option<&OperationMark> {
        self.mark.as_ref().filter(|_| self.operating().is_none())
    }

    /// The worst finding, which the fleet's row shows.
    pub fn says(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// The number of findings that need action; one for an unreachable cluster: its others may be out of date.
    pub fn alerts(&self) -> usize {
        if let Some(running) = self.operating() {
            if running.takes_down() {
                return 0;
            }
            if running.is_stopped() {
                return 1;
            }
        }
        if self.problem().is_some() {
            return 1;
        }
        self.findings.iter().filter(|f| f.severity == Severity::Bad).count()
    }

    /// The age of the state; none before the first one.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        self.known.then(|| self.snapshot.taken.age(now))
    }

    /// Whether the shown state may be out of date.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        let old = if self.pace.is_zero() { STALE } else { PROMPT.max(self.pace * 2) };
        self.age(now).is_some_and(|age| age >= old) || (self.known && self.problem().is_some())
    }

    /// What is wrong with the dashboard while the GCS answers for the state.
    pub const fn silent_dashboard(&self) -> Option<&Problem> {
        match &self.link {
            Some(Link::Up { dashboard, .. }) => dashboard.as_ref(),
            _ => None,
        }
    }

    /// The numbers of nodes alive, pending, and lost lately.
    pub fn node_counts(&self) -> (usize, usize, usize) {
        (self.tally.alive, self.tally.pending, self.tally.lost)
    }

    /// The numbers of jobs running, pending, and failed within the last day.
    pub fn job_counts(&self, now: Timestamp) -> (usize, usize, usize) {
        const DAY: Duration = Duration::from_secs(86_400);
        let count = |is: &dyn Fn(&Job) -> bool| self.snapshot.jobs.iter().filter(|j| is(j)).count();
        let lately = |j: &Job| j.ended.is_some_and(|at| at.age(now) < DAY);
        (self.tally.running, self.tally.waiting, count(&|j| j.status == JobStatus::Failed && lately(j)))
    }
}

fn shown_name<'n>(names: &'n HashMap<NodeId, Text>, node: &'n Node) -> &'n Text {
    names.get(&node.id).unwrap_or(&node.address)
}

/// Learns the names of nodes and forgets those of nodes that are gone. Known names stay: Ray reports a node's
/// state some seconds before its registered name, and a joining host may have the name of a known one.
fn name_nodes(names: &mut HashMap<NodeId, Text>, nodes: &[Node]) {
    let mut hosts: HashMap<&str, usize> = HashMap::new();
    for node in nodes.iter().filter(|n| n.state.is_alive()) {
        *hosts.entry(node.hostname.raw()).or_default() += 1;
    }
    let mut known = std::mem::take(names);
    names.extend(nodes.iter().filter_map(|node| {
        // Containers on one machine may have its name, all of them.
        let tells = !node.hostname.is_empty() && hosts.get(node.hostname.raw()).is_none_or(|n| *n < 2);
        let name = match known.remove(&node.id) {
            Some(name) => name,
            None if !node.name.is_empty() && node.name != node.address => node.name.clone(),
            None if tells => node.hostname.clone(),
            None => return None,
        };
        Some((node.id, name))
    }));
}
