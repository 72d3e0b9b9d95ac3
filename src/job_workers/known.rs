//! What is known of a job before its workers are asked.

use crate::model::{Hint, Job, Node, NodeId, Snapshot, Text, Wait};
use std::collections::HashMap;
use std::sync::Arc;

/// A job, its cluster, and the names that its nodes are shown by.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The job, as the snapshot has it.
    pub job: Arc<Job>,
    /// Its cluster, as last read.
    pub snapshot: Arc<Snapshot>,
    /// The names of nodes that have one beside their address.
    pub names: Arc<HashMap<NodeId, Text>>,
    /// Why it has not begun, if it has not.
    pub pending: Option<Pending>,
    /// What a running job waits for, when that is all it does: it may have a worker that only holds its place.
    pub waits: Option<Wait>,
    /// What could serve what it waits for, and why it does not, a sentence each.
    pub served: Vec<String>,
    /// What the vitals of its run show to be wrong, the worst first.
    pub unwell: Vec<HealthIssue>,
}

/// Something that is wrong with a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthIssue {
    /// What, for how long, and the evidence, in a line that is safe to print.
    pub words: String,
    /// What to do now.
    pub hint: Hint,
}

/// Why a job has not begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// What it waits for, in a line.
    pub words: String,
    /// The finding with the details.
    pub finding: Option<String>,
    /// What to do so that it begins; empty when there is nothing.
    pub hint: Hint,
}

impl Known {
    /// The node with that id; none that Ray has forgotten.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.snapshot.nodes.iter().find(|node| node.id == *id)
    }

    /// The name that a node is shown by, safe to print.
    pub fn name(&self, node: &Node) -> String {
        self.names.get(&node.id).unwrap_or(&node.address).to_string()
    }

    /// The same of a node that Ray may have forgotten: then its id.
    pub fn name_of(&self, id: &NodeId) -> String {
        self.node(id).map_or_else(|| id.to_string(), |node| self.name(node))
    }

    /// The nodes that are alive.
    pub fn alive(&self) -> Vec<NodeId> {
        self.snapshot.nodes.iter().filter(|node| node.state.is_alive()).map(|node| node.id).collect()
    }

    /// The head, if it is alive.
    pub fn head(&self) -> Option<&Node> {
        self.snapshot.nodes.iter().find(|node| node.is_head && node.state.is_alive())
    }
}
