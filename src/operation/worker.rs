//! Workers that a person adds, starts again and removes, outside the autoscaler: by a queued resource of Google's, or
//! on a host that is reached by SSH.

mod follow;
mod hit;
mod launch;
mod machine;
mod offer;
mod planned;
mod request;
mod seen;
mod steps;

pub(super) use hit::hit;
pub use machine::Machine;
pub use offer::offer;
pub(super) use planned::check;
pub(super) use seen::head_address;

use super::trouble;
use crate::gcp::GcpError;
use crate::model::{Hint, Problem, Verb};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Between two looks at Google, and at Ray.
const LOOK: Duration = Duration::from_secs(2);

/// What an operation on a worker knows and will need later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerFacts {
    /// The workers of the operation.
    pub machines: Vec<Machine>,
    /// Ids of the nodes that Ray had there before; none when Ray could not be asked.
    pub before: Option<Vec<String>>,
    /// When what runs there is over at the latest, in milliseconds since the epoch.
    pub drained_by: Option<i64>,
}

impl WorkerFacts {
    /// Addresses of all hosts of the workers.
    fn hosts(&self) -> Vec<String> {
        self.machines.iter().flat_map(|m| &m.hosts).cloned().collect()
    }
}

/// What can be done about a head, which is no worker.
fn of_head() -> Hint {
    Hint::from([Verb::Stop.to("stop the cluster"), Verb::Restart.to("or restart it")])
}

fn problem(e: &GcpError) -> Problem {
    trouble(e.to_string(), e.hint())
}
