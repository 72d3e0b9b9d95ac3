//! The facts of an operation on workers.

use super::machine::Machine;
use crate::gcp::CreatedPart;
use serde::{Deserialize, Serialize};

/// The facts of an operation on workers that later steps need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerFacts {
    /// The workers of the operation.
    pub machines: Vec<Machine>,
    /// Ids of the nodes that Ray had there before; `None` if Ray did not respond.
    pub before: Option<Vec<String>>,
    /// The parts that this operation has created at Compute Engine, in order of creation.
    pub made: Vec<CreatedPart>,
    /// The latest time at which work that is running there ends, in milliseconds since the epoch, if Ray has accepted
    /// to drain it.
    pub drained_by: Option<i64>,
}

impl WorkerFacts {
    /// Addresses of all hosts of the workers.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.machines.iter().flat_map(|m| &m.hosts).cloned().collect()
    }
}
