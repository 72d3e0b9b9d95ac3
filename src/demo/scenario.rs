//! The properties and faults of a simulated head. Plain values; no sockets.

use super::life::Life;
use crate::model::{AutoscalerVersion, Secret, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A cluster to simulate.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// `cluster_name`, from which Ray derives the names of machines.
    pub cluster: String,
    /// Number of the cluster's network, so that its hosts have unique addresses among the clusters of a Google project.
    pub network: usize,
    /// The same seed gives the same cluster, and the same changes second by second.
    pub seed: u64,
    /// The Ray version that `/api/version` reports.
    pub ray_version: String,
    /// Living nodes, including the head; all others are hosts of TPU slices.
    pub nodes: usize,
    /// Dead nodes, with each of Ray's death reasons in turn.
    pub dead: usize,
    /// Jobs in the job table; most of them have ended.
    pub jobs: usize,
    /// Running jobs from a plain `ray job submit`, without an owner.
    pub unowned: usize,
    /// The autoscaler version.
    pub autoscaler: AutoscalerVersion,
    /// Pending TPU slices.
    pub pending: usize,
    /// Nodes whose logical resource usage changes each second.
    pub changes: usize,
    /// Jobs that end each second, each followed by a new one.
    pub turnover: usize,
    /// Lines that each running job logs per second.
    pub log_rate: u64,
    /// Lines that each job had logged before the simulation began.
    pub log_backlog: u64,
    /// Poll interval of a log tail at the end of the file (1 s in Ray).
    pub tail_poll: Duration,
    /// The token that requests must carry; `None` is `RAY_AUTH_MODE=disabled`.
    pub token: Option<Secret>,
    /// Simulated activity. If set, its slices are the nodes and its users create the demand: `nodes`, `pending`,
    /// `changes` and `turnover` are ignored; `dead` and `jobs` are older than its history.
    pub life: Option<Life>,
    /// The source of the time.
    pub clock: Clock,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            cluster: "marin".into(),
            network: 0,
            seed: 1,
            ray_version: "2.60.0".into(),
            nodes: 16,
            dead: 1,
            jobs: 24,
            unowned: 0,
            autoscaler: AutoscalerVersion::V2,
            pending: 2,
            changes: 4,
            turnover: 0,
            log_rate: 2,
            log_backlog: 200,
            tail_poll: Duration::from_secs(1),
            token: None,
            life: None,
            clock: Clock::Wall,
        }
    }
}

/// The simulation's clock.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system clock.
    Wall,
    /// Milliseconds since the Unix epoch, advanced by the test.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Wall => Timestamp::now(),
            Self::Manual(ms) => Timestamp::from_millis(ms.load(Ordering::Relaxed)),
        }
    }
}

/// A way in which a head misbehaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Delays the response by this duration.
    Latency(Duration),
    /// Returns this status with aiohttp's text for it.
    Status(u16),
    /// Announces the whole body, sends half of it and closes the connection.
    HalfBody,
    /// Accepts the request, and does not respond while the fault is set.
    Stall,
    /// Returns status 200 with an HTML page, as an intervening proxy would.
    Html,
    /// Closes the connection without a response.
    HangUp,
    /// Prefixes the body with this many spaces: valid JSON, but too large.
    Padding(usize),
}

/// A [`Fault`] and the requests to which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// Start of the path; empty for every request, `/ray.rpc.` for the GCS.
    pub path: String,
    /// The fault.
    pub fault: Fault,
}
