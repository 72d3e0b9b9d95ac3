//! What a simulated head pretends to be, and how it misbehaves. Plain values; no sockets.

use super::life::Life;
use crate::model::{AutoscalerVersion, Secret, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A cluster to simulate.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// `cluster_name`, of which Ray makes the machines' names.
    pub cluster: String,
    /// Its hosts have addresses of their own among the clusters of one Google project: the number of their network.
    pub network: usize,
    /// The same seed gives the same cluster, and the same changes second by second.
    pub seed: u64,
    /// What `/api/version` says.
    pub ray_version: String,
    /// Living nodes, the head included; all others are hosts of TPU slices.
    pub nodes: usize,
    /// Nodes that died, with each of Ray's reasons in turn.
    pub dead: usize,
    /// Jobs in the job table, most of them ended.
    pub jobs: usize,
    /// Running jobs of a plain `ray job submit`, without an owner.
    pub unowned: usize,
    /// Which autoscaler reports.
    pub autoscaler: AutoscalerVersion,
    /// TPU slices that are asked for and not there.
    pub pending: usize,
    /// Nodes whose logical use changes each second.
    pub changes: usize,
    /// Jobs that end each second, each followed by a new one.
    pub turnover: usize,
    /// Lines that each running job logs in a second.
    pub log_rate: u64,
    /// Lines that each job had logged before the simulation began.
    pub log_backlog: u64,
    /// How long a log tail waits at the end of the file (a second in Ray).
    pub tail_poll: Duration,
    /// The token that requests must carry; `None` is `RAY_AUTH_MODE=disabled`.
    pub token: Option<Secret>,
    /// What happens by itself. Its slices are the nodes then, its people the demand: `nodes`, `pending`, `changes`,
    /// `turnover` count for nothing, `dead` and `jobs` lie before its past.
    pub life: Option<Life>,
    /// Where the time comes from.
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
    /// The machine's.
    Wall,
    /// Milliseconds since the Unix epoch, moved by the test that owns them.
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
    /// Answers late.
    Latency(Duration),
    /// Answers with this status and the text that aiohttp gives it.
    Status(u16),
    /// Promises the whole body, sends half of it and hangs up.
    HalfBody,
    /// Takes the request, and does not answer while the trouble lasts.
    Stall,
    /// Answers 200 with a page of HTML, like a proxy that is in the way.
    Html,
    /// Hangs up without an answer.
    HangUp,
    /// Puts this many spaces in front of the body: valid JSON, far too much of it.
    Padding(usize),
}

/// A [`Fault`] and the requests that meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// Start of the path; empty for every request, `/ray.rpc.` for the GCS.
    pub path: String,
    /// What happens to them.
    pub fault: Fault,
}
