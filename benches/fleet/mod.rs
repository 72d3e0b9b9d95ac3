//! A simulated cluster of 1,024 nodes for benchmarks, whose time the benchmark moves.

use marin_tui::demo::{Clock, Head, Scenario};
use marin_tui::ray::{Client, Endpoint, Poller};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A second of the simulation, in milliseconds.
const SECOND: i64 = 1000;

/// The cluster.
pub struct Fleet {
    clock: Arc<AtomicI64>,
    head: Head,
}

impl Fleet {
    /// With that many jobs; 64 nodes change each second.
    pub async fn start(jobs: usize) -> Self {
        let clock = Arc::new(AtomicI64::new(1_795_000_000_000));
        let time = Clock::Manual(clock.clone());
        let scenario = Scenario { nodes: 1024, jobs, changes: 64, clock: time, ..Scenario::default() };
        Self { clock, head: Head::start(scenario).await.expect("loopback ports are free") }
    }

    /// A poller that has seen nothing yet.
    pub fn poller(&self, over_gcs: bool) -> Poller {
        let gcs = over_gcs.then(|| self.head.gcs.to_string());
        let endpoint = Endpoint::Direct { dashboard: format!("http://{}", self.head.dashboard), gcs };
        Poller::new(Client::new(endpoint, None).expect("a client without a token"))
    }

    /// Lets a second pass.
    pub fn tick(&self) {
        self.clock.fetch_add(SECOND, Ordering::Relaxed);
    }
}
