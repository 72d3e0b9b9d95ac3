//! What the console knows of one cluster, and how its panes stand.

use super::logview::LogView;
use super::order;
use super::table::Table;
use crate::model::{
    ClusterName, ClusterSpec, Cost, Job, JobKey, JobStatus, Link, Node, NodeId, NodeState, Physical, Problem,
    Snapshot, SubmissionId, Timestamp,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Data younger than this is simply fresh.
pub const FRESH: Duration = Duration::from_secs(5);
/// Data of the cluster on the screen older than this is stale.
pub const STALE: Duration = Duration::from_secs(30);

/// A row of the list of clusters.
#[derive(Clone, Debug)]
pub enum Listed {
    /// A cluster.
    Cluster(ClusterSpec),
    /// A file that could not be read.
    Broken {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// One cluster.
#[derive(Debug)]
pub struct Cluster {
    /// Its description.
    pub spec: ClusterSpec,
    /// The way to it; none before the first news.
    pub link: Option<Link>,
    /// The last state read.
    pub snapshot: Arc<Snapshot>,
    /// Whether any state was read yet.
    pub known: bool,
    /// Machine figures by node.
    pub physical: HashMap<NodeId, Physical>,
    /// What we cost the head.
    pub cost: Cost,
    /// The nodes pane.
    pub nodes: Table<NodeId>,
    /// The jobs pane.
    pub jobs: Table<JobKey>,
    /// The log pane.
    pub log: LogView,
    /// First line of the autoscaler pane.
    pub autoscaler_top: usize,
    /// Jobs that were asked to stop and have not ended yet.
    pub stopping: HashSet<SubmissionId>,
}

impl Cluster {
    /// Nothing known yet.
    pub fn new(spec: ClusterSpec) -> Self {
        Self {
            spec,
            link: None,
            snapshot: Arc::default(),
            known: false,
            physical: HashMap::new(),
            cost: Cost::default(),
            nodes: Table::default(),
            jobs: Table::default(),
            log: LogView::default(),
            autoscaler_top: 0,
            stopping: HashSet::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &ClusterName {
        &self.spec.name
    }

    /// Takes a new state in. True when anything that can be seen changed.
    pub fn take(&mut self, snapshot: Arc<Snapshot>) -> bool {
        let before = std::mem::replace(&mut self.snapshot, snapshot);
        let now = &self.snapshot;
        let nodes = before.nodes != now.nodes;
        let jobs = before.jobs != now.jobs;
        let rest = before.autoscaler != now.autoscaler
            || before.missing != now.missing
            || before.ray_version != now.ray_version;
        let first = !std::mem::replace(&mut self.known, true);
        if nodes || first {
            self.physical.retain(|id, _| now.nodes.iter().any(|n| n.id == *id));
            self.arrange_nodes();
        }
        if jobs || first {
            self.arrange_jobs();
        }
        nodes || jobs || rest || first
    }

    /// Puts the nodes in order.
    pub fn arrange_nodes(&mut self) {
        let nodes = &self.snapshot.nodes;
        self.nodes.arrange(
            nodes.len(),
            |i| nodes[i].id,
            |i, filter| filter.admits(order::node_fields(&nodes[i])),
            |a, b, sort| order::nodes(&nodes[a], &nodes[b], sort),
        );
    }

    /// Puts the jobs in order.
    pub fn arrange_jobs(&mut self) {
        let jobs = &self.snapshot.jobs;
        self.jobs.arrange(
            jobs.len(),
            |i| jobs[i].key.clone(),
            |i, filter| filter.admits(order::job_fields(&jobs[i])),
            |a, b, sort| order::jobs(&jobs[a], &jobs[b], sort),
        );
    }

    /// The selected node.
    pub fn node(&self) -> Option<&Node> {
        self.snapshot.nodes.get(self.nodes.selected_row()?)
    }

    /// The selected job.
    pub fn job(&self) -> Option<&Arc<Job>> {
        self.snapshot.jobs.get(self.jobs.selected_row()?)
    }

    /// What is wrong with the way to it, if anything.
    pub fn problem(&self) -> Option<&Problem> {
        match self.link.as_ref()? {
            Link::Retrying { problem, .. } | Link::Stopped { problem } => Some(problem),
            Link::Connecting { .. } | Link::Up { .. } => None,
        }
    }

    /// Age of the state, once there is one.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        self.known.then(|| self.snapshot.taken.age(now))
    }

    /// Whether what is shown may no longer be true.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        self.age(now).is_some_and(|age| age >= STALE) || (self.known && self.problem().is_some())
    }

    /// Nodes alive, joining, dead.
    pub fn node_counts(&self) -> (usize, usize, usize) {
        let dead = self.snapshot.nodes.iter().filter(|n| n.state == NodeState::Dead).count();
        (self.snapshot.nodes.len() - dead, self.snapshot.autoscaler.pending.len(), dead)
    }

    /// Jobs running, pending, and failed within the last day.
    pub fn job_counts(&self, now: Timestamp) -> (usize, usize, usize) {
        const DAY: Duration = Duration::from_secs(86_400);
        let count = |is: &dyn Fn(&Job) -> bool| self.snapshot.jobs.iter().filter(|j| is(j)).count();
        let lately = |j: &Job| j.ended.is_some_and(|at| at.age(now) < DAY);
        (
            count(&|j| j.status == JobStatus::Running),
            count(&|j| j.status == JobStatus::Pending),
            count(&|j| j.status == JobStatus::Failed && lately(j)),
        )
    }
}
