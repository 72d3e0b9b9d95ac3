//! What is there in the simulated cluster at one moment. It does not move by itself.

use super::autoscaling::{Autoscaling, Monitor, Wanted};
use super::job::SimJob;
use super::log::Log;
use super::node::SimNode;
use crate::model::NodeId;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Milliseconds until a plain program ends after a stop; Ray sends SIGTERM and allows three seconds.
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
    /// What the autoscaler of a life did about it.
    pub scaling: Autoscaling,
    /// Counts changes, so that answers can be kept until the next one.
    pub version: u64,
    /// The moment, in milliseconds since the epoch.
    pub now: i64,
    /// The autoscaler's process.
    pub monitor: Monitor,
    /// The moment when the simulation began.
    pub began: i64,
    /// Written log files by name; every node has them.
    pub files: HashMap<String, Log>,
    /// What `ray up` has written to the head; empty before that.
    pub bootstrap: Vec<u8>,
    /// Uploaded packages by URI.
    pub packages: HashMap<String, Bytes>,
    /// Nodes that take no new work, and when they go at the latest, in milliseconds since the epoch.
    pub(super) draining: Vec<(NodeId, i64)>,
    pub(super) by_submission: HashMap<String, usize>,
    /// Jobs that start or stop, and when.
    pub(super) due: BinaryHeap<Reverse<(i64, usize)>>,
}

impl State {
    /// These nodes at `now`, without a job.
    pub(super) fn new(session: String, nodes: Vec<SimNode>, now: i64) -> Self {
        Self {
            session,
            nodes,
            jobs: Vec::new(),
            wanted: Vec::new(),
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

    /// Adds a job with an uploaded package; false when a job of that id exists.
    pub fn add_packed(&mut self, job: SimJob) -> bool {
        if let Some(uri) = job.package().filter(|_| !job.status.is_ended()) {
            self.packages.insert(uri.to_owned(), Bytes::from_static(EMPTY_ZIP));
        }
        self.add(job)
    }

    /// Adds a job; false when a job of that id exists.
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

    /// The job of a submission id or a driver's job id.
    pub fn job(&mut self, id: &str) -> Option<&mut SimJob> {
        let at = self.index(id)?;
        self.jobs.get_mut(at)
    }

    fn index(&self, id: &str) -> Option<usize> {
        let by_driver = || self.jobs.iter().position(|j| j.driver.as_deref() == Some(id));
        self.by_submission.get(id).copied().or_else(by_driver)
    }

    /// Deletes a submission. Its place stays, because jobs are referred to by place.
    pub fn forget(&mut self, id: &str) {
        if let Some(at) = self.by_submission.remove(id) {
            let job = &mut self.jobs[at];
            (job.submission, job.driver, job.written) = (None, None, None);
            self.version += 1;
        }
    }

    /// The node of an id.
    pub fn node(&mut self, id: NodeId) -> Option<&mut SimNode> {
        self.nodes.iter_mut().find(|n| n.id == id)
    }

    /// The head's id.
    pub fn head(&self) -> NodeId {
        self.nodes[0].id
    }

    /// Asks a job to stop, as `POST /api/jobs/{id}/stop`: whether there was something to stop.
    pub fn stop(&mut self, id: &str) -> bool {
        let at = self.now + STOP_TAKES;
        let Some(index) = self.index(id).filter(|&i| !self.jobs[i].status.is_ended()) else { return false };
        let at = *self.jobs[index].stopping.get_or_insert(at);
        self.due.push(Reverse((at, index)));
        true
    }

    /// From now on the node takes no new work, and goes at `latest`, in milliseconds since the epoch.
    pub fn drain(&mut self, id: NodeId, latest: i64) {
        self.draining.retain(|(other, _)| *other != id);
        self.draining.push((id, latest));
        self.version += 1;
    }

    /// Whether the node takes no new work.
    pub fn is_draining(&self, id: NodeId) -> bool {
        self.draining.iter().any(|(draining, _)| *draining == id)
    }
}
