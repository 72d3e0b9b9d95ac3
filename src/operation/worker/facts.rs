//! What an operation on a worker knows.

use super::machine::Machine;
use crate::gcp::MadePart;
use crate::model::Timestamp;
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
    /// What runs there has these seconds from now, however often the operation is resumed.
    pub(in super::super) fn give(&mut self, seconds: u64) -> i64 {
        let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        *self.drained_by.get_or_insert(Timestamp::now().as_millis().saturating_add(millis))
    }

    /// Addresses of all hosts of the workers.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.machines.iter().flat_map(|m| &m.hosts).cloned().collect()
    }
}
