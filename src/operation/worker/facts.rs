//! What an operation on a worker knows.

use super::machine::Machine;
use crate::gcp::MadePart;
use serde::{Deserialize, Serialize};

/// What an operation on a worker knows and will need later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerFacts {
    /// The workers of the operation.
    pub machines: Vec<Machine>,
    /// Ids of the nodes that Ray had there before; none when Ray could not be asked.
    pub before: Option<Vec<String>>,
    /// What this operation has made at Compute Engine, in that order.
    pub made: Vec<MadePart>,
    /// When what runs there is over at the latest, in milliseconds since the epoch.
    pub drained_by: Option<i64>,
}

impl WorkerFacts {
    /// Addresses of all hosts of the workers.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.machines.iter().flat_map(|m| &m.hosts).cloned().collect()
    }
}
