//! The facts of an operation on workers.

use super::machine::Machine;
use crate::gcp::MadePart;
use crate::model::Timestamp;
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
    pub made: Vec<MadePart>,
    /// The latest time at which work that is running there ends, in milliseconds since the epoch.
    pub drained_by: Option<i64>,
}

impl WorkerFacts {
    /// Sets the deadline for work that is running there, unless an earlier attempt has set it; returns it in
    /// milliseconds since the epoch.
    pub(in super::super) fn set_drain_deadline(&mut self, seconds: u64) -> i64 {
        let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        *self.drained_by.get_or_insert(Timestamp::now().as_millis().saturating_add(millis))
    }

    /// Addresses of all hosts of the workers.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.machines.iter().flat_map(|m| &m.hosts).cloned().collect()
    }
}
