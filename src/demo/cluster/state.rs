//! The state of the simulated cluster at one moment. It does not advance on its own.

use super::autoscaling::{Autoscaling, LastReport, Monitor, Wanted};
use super::job::SimJob;
use super::log::Log;
use super::node::SimNode;
use crate::model::NodeId;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Milliseconds until an ordinary program ends after a stop; Ray sends SIGTERM and allows three seconds.
const STOP_TAKES: i64 = 1400;
/// An empty package.
const EMPTY_ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Nodes, jobs, demand, files.
pub(in crate::demo) struct State {
    /// `session_name`; a new one is a new cluster.
    pub session: String,
    /// The head first.
    pub nodes: Vec<SimNode>,
    /// Oldest first.
    pub jobs: Vec<SimJob>,
    /// Unmet demand.
    pub wanted: Vec<Wanted>,
    /// The unmet demand when the loop of a stuck autoscaler last completed; `None` while the autoscaler works.
    pub stuck_demand: Option<Vec<Wanted>>,
    /// What the autoscaler reported when its process ended, until the next loop of a new one.
    pub last_report: Option<LastReport>,
    /// With simulated activity: the autoscaler's launches and failures.
    pub scaling: Autoscaling,
    /// Counts changes, so that responses can be cached until the next change.
    pub version: u64,
    /// The current time, in milliseconds since the epoch.
    pub now: i64,
    /// The autoscaler's process.
    pub monitor: Monitor,
    /// When the simulation began, in milliseconds since the epoch.
    pub began: i64,
    /// Log files by name; every node has them.
    pub files: HashMap<String, Log>,
    /// The cluster configuration that `ray up` wrote to the head; empty before that.
    pub bootstrap: Vec<u8>,
    /// Uploaded packages by URI.
    pub packages: HashMap<String, Bytes>,
    /// Draining nodes and their deadlines, in milliseconds since the epoch.
    pub(super) draining: Vec<(NodeId, i64, &'static str)>,
    pub(super) by_submission: HashMap<String, usize>,
    /// When jobs start or stop, in milliseconds since the epoch, and their indices.
    pub(super) due: BinaryHeap<Reverse<(i64, usize)>>,
}

impl State {
    /// A cluster with these nodes at `now`, without jobs.
    pub(super) fn new(session: String, nodes: Vec<SimNode>, now: i64) -> Self {
        Self {
            session,
            nodes,
            jobs: Vec::new(),
            wanted: Vec::new(),
            stuck_demand: None,
            last_report: None,
            scaling: Autoscaling::default(),
            version: 1,
            now,
            monitor: Monitor { alive: true, at: now, loops: 1, saw: 1 },
            began: now,
            files: HashMap::new(),
            bootstrap: Vec::new(),
            packages: HashMap::new(),
            draining: Vec::new(),
            by_submission: HashMap::new(),
            due: BinaryHeap::new(),
        }
    }

    /// Adds a job with an uploaded package; false if its submission id exists.
    pub fn add_packed(&mut self, job: SimJob) -> bool {
        if let Some(uri) = job.package().filter(|_| !job.status.is_ended()) {
            self.packages.insert(uri.to_owned(), Bytes::from_static(EMPTY_ZIP));
        }
        self.add(job)
    }

    /// Adds a job; false if its submission id exists.
    pub fn add(&mut self, job: SimJob) -> bool {
        if let Some(id) = &job.submission {
            if self.by_submission.contains_key(id) {
                return false;
            }
            self.by_submission.insert(id.clone(), self.jobs.len());
        }
        if let Some(at) = job.starting {
            self.due.push(Reverse((at, self.jobs.len())));
        }
        self.jobs.push(job);
        self.version += 1;
        true
    }

    /// The job with a submission id or a driver's job id.
    pub fn job(&mut self, id: &str) -> Option<&mut SimJob> {
        let at = self.index(id)?;
        self.jobs.get_mut(at)
    }

    fn index(&self, id: &str) -> Option<usize> {
        let by_driver = || self.jobs.iter().position(|j| j.driver.as_deref() == Some(id));
        self.by_submission.get(id).copied().or_else(by_driver)
    }

    /// Deletes a submission. Its row stays, because jobs are referred to by index.
    pub fn forget(&mut self, id: &str) {
        if let Some(at) = self.by_submission.remove(id) {
            let job = &mut self.jobs[at];
            (job.submission, job.driver, job.written) = (None, None, None);
            self.version += 1;
        }
    }

    /// The node with an id.
    pub fn node(&mut self, id: NodeId) -> Option<&mut SimNode> {
        self.nodes.iter_mut().find(|n| n.id == id)
    }

    /// The head's id.
    pub fn head(&self) -> NodeId {
        self.nodes[0].id
    }

    /// Stops a job, as `POST /api/jobs/{id}/stop` does; false if it does not exist or has ended.
    pub fn stop(&mut self, id: &str) -> bool {
        let at = self.now + STOP_TAKES;
        let Some(index) = self.index(id).filter(|&i| !self.jobs[i].status.is_ended()) else { return false };
        let at = *self.jobs[index].stopping.get_or_insert(at);
        self.due.push(Reverse((at, index)));
        true
    }

    /// Drains a node for this reason: it accepts no new work, and is removed when it is idle, or at `latest` (ms since
    /// the epoch).
    pub fn drain(&mut self, id: NodeId, latest: i64, why: &'static str) {
        self.draining.retain(|(other, ..)| *other != id);
        self.draining.push((id, latest, why));
        self.version += 1;
    }

    /// Whether the node is draining.
    pub fn is_draining(&self, id: NodeId) -> bool {
        self.draining.iter().any(|(draining, ..)| *draining == id)
    }
}
