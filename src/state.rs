//! The state of one cluster, ready for display: totals, one table of TPUs and findings, derived from what Ray, Google
//! and the connection report.
//!
//! Pure, and a plain value: the next state follows from the last one and the event. The cluster's task builds it and
//! sends it with every update, so that screens and commands have the same data. It contains timestamps, not ages;
//! whoever displays it calculates the ages.

mod tpus;

pub use tpus::Tpus;

use crate::diagnose::{self, Finding, FindingKind, History, Pending, Restart, RestartedBy, Severity};
use crate::model::sort;
use crate::model::{
    ClusterEvent, ClusterName, ClusterSpec, ClusterTotals, ClusterVitals, Job, JobKey, JobStatus, Link,
    Liveness, Node, NodeId, OperationLock, Problem, Snapshot, SubmissionId, Text, Timestamp,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A new Ray session seen within this time after the end of an operation is attributed to that operation.
const ATTRIBUTED_FOR: Duration = Duration::from_secs(120);

/// An event of one cluster, and its state after it.
#[derive(Clone, Debug)]
pub struct Update {
    /// The cluster of the event.
    pub cluster: ClusterName,
    /// The event.
    pub event: ClusterEvent,
    /// The state of the cluster, the event included.
    pub state: Arc<ClusterState>,
}

/// The state of one cluster.
#[derive(Clone, Debug)]
pub struct ClusterState {
    spec: Arc<ClusterSpec>,
    /// The state of the connection; none before the first event.
    pub link: Option<Link>,
    /// The last state that was read from Ray.
    pub snapshot: Arc<Snapshot>,
    /// Whether `snapshot` was read at least once.
    pub known: bool,
    /// Totals of the last state.
    pub tally: ClusterTotals,
    /// The number of unmet requests of each demand of the autoscaler's report ([`Snapshot::unmet`]).
    pub unmet: Vec<u64>,
    /// The node types with fewer workers than their minimum.
    pub below_minimum: Vec<Text>,
    /// The index of each node in the snapshot.
    node_indices: Arc<HashMap<NodeId, usize>>,
    /// End times of its failed jobs, latest first.
    pub failed: Vec<Timestamp>,
    /// What is wrong with the cluster, worst first.
    pub findings: Vec<Finding>,
    /// Why each of its pending jobs is pending.
    pub pending: HashMap<JobKey, Pending>,
    /// The vitals of its running jobs.
    pub vitals: Arc<ClusterVitals>,
    /// Its TPUs at Google.
    pub tpus: Arc<Tpus>,
    history: History,
    lock: Option<OperationLock>,
    operated: Operated,
}

/// Whether an operation on this machine stops or starts the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operated {
    No,
    Now,
    /// One did, and ended at that time.
    Before(Timestamp),
}

impl ClusterState {
    /// The state of a cluster before the first event.
    pub fn new(spec: Arc<ClusterSpec>) -> Self {
        Self {
            spec,
            link: None,
            snapshot: Arc::default(),
            known: false,
            tally: ClusterTotals::default(),
            unmet: Vec::new(),
            below_minimum: Vec::new(),
            node_indices: Arc::default(),
            failed: Vec::new(),
            findings: Vec::new(),
            pending: HashMap::new(),
            vitals: Arc::default(),
            tpus: Arc::default(),
            history: History::default(),
            lock: None,
            operated: Operated::No,
        }
    }

    /// The node with that id; none when Ray does not list it.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.snapshot.nodes.get(*self.node_indices.get(id)?)
    }

    /// Whether the event affects the state, so that [`Self::apply`] has to be called.
    pub const fn concerns(event: &ClusterEvent) -> bool {
        matches!(
            event,
            ClusterEvent::Link(_)
                | ClusterEvent::Snapshot(_)
                | ClusterEvent::Vitals(_)
                | ClusterEvent::Cloud(_)
                | ClusterEvent::Lock(_)
        )
    }

    /// Applies an event. Events must come in the order in which they happened.
    pub fn apply(&mut self, event: &ClusterEvent) {
        match event {
            ClusterEvent::Link(link) => self.apply_link(link),
            ClusterEvent::Snapshot(snapshot) => self.apply_snapshot(Arc::clone(snapshot)),
            ClusterEvent::Cloud(answer) => {
                Arc::make_mut(&mut self.tpus).take(&self.spec, answer.clone());
                self.join_tpus();
                self.diagnose();
            }
            ClusterEvent::Vitals(cluster_vitals) => {
                self.vitals = Arc::clone(cluster_vitals);
                self.tally.blocked = self.blocked();
                self.diagnose();
            }
            ClusterEvent::Lock(lock) => self.lock.clone_from(lock),
            _ => {}
        }
    }

    /// Records whether an operation on this machine currently stops or starts the cluster.
    pub fn apply_operation(&mut self, is_running: bool, now: Timestamp) {
        self.operated = match (is_running, self.operated) {
            (true, _) => Operated::Now,
            (false, Operated::Now) => Operated::Before(now),
            (false, before) => before,
        };
        self.diagnose();
    }

    fn apply_link(&mut self, link: &Link) {
        let mut link = link.clone();
        if let Link::Retrying { problem, .. } | Link::Stopped { problem } = &mut link {
            problem.hint = problem.hint.for_cluster(&self.spec);
        }
        if self.link.as_ref() == Some(&link) {
            return;
        }
        self.history.record_link(&link);
        let was_up = self.is_up();
        self.link = Some(link);
        if was_up != self.is_up() {
            self.join_tpus();
        }
        self.diagnose();
    }

    fn apply_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        let snapshot = self.history.dated(snapshot);
        let before = std::mem::replace(&mut self.snapshot, snapshot);
        let now = &self.snapshot;
        if let Some(restart) = Restart::between(&before, now, self.restarted_by()) {
            self.history.record_restart(restart, &now.jobs);
        }
        if before.session != now.session {
            self.vitals = Arc::new(ClusterVitals { limits: self.vitals.limits, ..ClusterVitals::default() });
        } else if !self.vitals.jobs.is_empty() && !self.vitals.is_fresh(now.taken) {
            // A job that waited for a node at the last reading may have started long ago.
            Arc::make_mut(&mut self.vitals).jobs.clear();
        }
        let first = !std::mem::replace(&mut self.known, true);
        let ids = |snapshot: &Snapshot| snapshot.nodes.iter().map(|node| node.id).collect::<Vec<_>>();
        if ids(&before) != ids(&self.snapshot) {
            self.node_indices = Arc::new(ids(&self.snapshot).into_iter().zip(0..).collect());
        }
        self.tally = ClusterTotals { blocked: self.blocked(), ..ClusterTotals::of(&self.snapshot) };
        self.unmet = self.snapshot.unmet();
        let below_minimum = diagnose::below_minimum(&self.snapshot).into_iter();
        self.below_minimum = below_minimum.map(|(name, ..)| name.clone()).collect();
        if !Arc::ptr_eq(&before.jobs, &self.snapshot.jobs) {
            let failed = self.snapshot.jobs.iter().filter(|job| job.status == JobStatus::Failed);
            self.failed = failed.filter_map(|job| job.ended).collect();
            sort::by(&mut self.failed, |a, b| b.cmp(a));
        }
        self.history.record(&self.snapshot);
        if first || before.nodes != self.snapshot.nodes {
            self.join_tpus();
        }
        self.diagnose();
    }

    /// The number of jobs that Ray reports as running, but that wait for their first node.
    fn blocked(&self) -> usize {
        let is_held = |job: &&Arc<Job>| {
            job.status == JobStatus::Running && self.vitals.status(job) == JobStatus::Pending
        };
        self.snapshot.jobs.iter().filter(is_held).count()
    }

    /// Whether the number of running jobs is Ray's own, which includes those that wait for their first node: their
    /// vitals have not been read yet.
    pub fn counts_waiting_as_running(&self) -> bool {
        self.tally.running > 0 && self.vitals.read.is_none() && !self.vitals.limits.every.is_zero()
    }

    /// Who restarted Ray, if known.
    fn restarted_by(&self) -> RestartedBy {
        let now = self.snapshot.taken;
        let is_ours = match self.operated {
            Operated::No => false,
            Operated::Now => true,
            // An operation that ended long ago did not cause it.
            Operated::Before(until) => until.age(now) < ATTRIBUTED_FOR,
        };
        let is_theirs = |lock: &&OperationLock| {
            lock.liveness(now) == Liveness::Fresh && lock.command.ends_with("-cluster")
        };
        match self.lock.as_ref().filter(is_theirs) {
            _ if is_ours => RestartedBy::Us,
            Some(lock) => RestartedBy::Operator(lock.who.as_str().into()),
            None => RestartedBy::Unknown,
        }
    }

    /// Joins the last states of Google and Ray. While Ray cannot be reached, only Google's is used.
    fn join_tpus(&mut self) {
        if self.tpus.requested_at().is_some() {
            let is_known = self.known && self.is_up();
            Arc::make_mut(&mut self.tpus).join(&self.spec, &self.snapshot, is_known);
        }
    }

    fn diagnose(&mut self) {
        // What is missing then is missing on purpose, and the operation reports what goes wrong.
        if self.operated == Operated::Now {
            self.findings.clear();
            self.pending.clear();
            return;
        }
        let known = self.known.then_some(&*self.snapshot);
        let mut findings =
            diagnose::findings(self.link.as_ref(), known, &self.history, self.tpus.at_google());
        for finding in &mut findings {
            finding.hint = finding.hint.for_cluster(&self.spec);
        }
        self.findings = findings;
        let (node_types, vitals) = (&self.spec.node_types, &self.vitals);
        self.pending = diagnose::pending(&self.snapshot, &self.unmet, vitals, node_types, &self.findings);
        let of_jobs = diagnose::of_jobs(&self.snapshot, &self.vitals, |key| self.pending.get(key));
        if !of_jobs.is_empty() {
            // A broken connection stays first because it has the worst severity.
            self.findings.retain(|f| f.kind != FindingKind::Idle);
            self.findings.extend(of_jobs);
            sort::by_key(&mut self.findings, |f| f.severity);
        }
    }

    /// The lock of another operator's operation, as last read.
    pub const fn lock(&self) -> Option<&OperationLock> {
        self.lock.as_ref()
    }

    /// When a pending node was first seen pending.
    pub fn pending_since(&self, address: &Text) -> Option<Timestamp> {
        self.history.pending_since(address)
    }

    /// Why a job no longer exists, if a restart of Ray ended it.
    pub fn why_lost(&self, id: &SubmissionId) -> Option<String> {
        self.history.restart()?.why_lost(id, &self.snapshot.jobs)
    }

    /// The problem of the connection, if there is one. It stays until a retry succeeds.
    pub const fn problem(&self) -> Option<&Problem> {
        match &self.link {
            Some(Link::Retrying { problem, .. } | Link::Stopped { problem }) => Some(problem),
            Some(Link::Connecting { .. }) => self.history.problem(),
            Some(Link::Up { .. }) | None => None,
        }
    }

    /// Whether the connection is up.
    pub const fn is_up(&self) -> bool {
        matches!(self.link, Some(Link::Up { .. }))
    }

    /// The worst finding of a kind.
    pub fn finding(&self, kind: FindingKind) -> Option<&Finding> {
        self.findings.iter().find(|f| f.kind == kind)
    }

    /// The worst finding.
    pub fn worst(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// The number of findings that need action; 1 for an unreachable cluster, whose other findings may be out of date.
    pub fn issues(&self) -> usize {
        if self.problem().is_some() {
            return 1;
        }
        self.findings.iter().filter(|f| f.severity == Severity::Bad).count()
    }
}

#[cfg(test)]
mod tests;
