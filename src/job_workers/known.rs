//! What is known of a job before its workers are read.

use crate::model::{Hint, Job, Node, NodeId, Snapshot, Text, Verb, Wait};
use std::collections::HashMap;
use std::sync::Arc;

/// A job, its cluster, and the display names of its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The job, as the snapshot has it.
    pub job: Arc<Job>,
    /// Its cluster, as last read.
    pub snapshot: Arc<Snapshot>,
    /// The display names of nodes that have one besides their address.
    pub names: Arc<HashMap<NodeId, Text>>,
    /// Why it has not started, if it has not.
    pub pending: Option<Pending>,
    /// What a running job waits for, if it does nothing else; it may have a worker that only holds its place.
    pub waits: Option<Wait>,
    /// What could provide what it waits for, and why it does not, one sentence each.
    pub served: Vec<String>,
    /// The issues in the vitals of its run, worst first.
    pub issues: Vec<HealthIssue>,
}

/// An issue of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthIssue {
    /// The issue, its duration and the evidence, in a line that is safe to print.
    pub text: String,
    /// What to do now.
    pub hint: Hint,
}

/// Why a job has not started.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// What it waits for, in a line.
    pub text: String,
    /// The finding with the details.
    pub finding: Option<String>,
    /// What to do so that it starts; empty if there is nothing to do.
    pub hint: Hint,
}

impl Known {
    /// The node with that id; `None` if Ray has forgotten it.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.snapshot.nodes.iter().find(|node| node.id == *id)
    }

    /// The display name of a node, safe to print.
    pub fn name(&self, node: &Node) -> String {
        self.names.get(&node.id).unwrap_or(&node.address).to_string()
    }

    /// The same, by node id; the id itself if Ray has forgotten the node.
    pub fn name_of(&self, id: &NodeId) -> String {
        self.node(id).map_or_else(|| id.to_string(), |node| self.name(node))
    }

    /// The nodes that are alive.
    pub fn alive(&self) -> Vec<NodeId> {
        self.snapshot.nodes.iter().filter(|node| node.state.is_alive()).map(|node| node.id).collect()
    }

    /// The hint to read the job's log for this purpose; empty for a manually started driver, of which Ray keeps no log.
    pub fn job_log_hint(&self, purpose: &str) -> Hint {
        self.job.submission_id().map_or_else(Hint::none, |id| Verb::JobLog.on(id.0.raw(), purpose).into())
    }

    /// The head, if it is alive.
    pub fn head(&self) -> Option<&Node> {
        self.snapshot.nodes.iter().find(|node| node.is_head && node.state.is_alive())
    }
}
