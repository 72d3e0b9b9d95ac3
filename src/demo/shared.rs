//! What all connections of a simulated head share: its cluster, how it behaves, what clients have cost it.

use super::cluster::Cluster;
use super::locked;
use super::meter::Meter;
use super::scenario::{Fault, FaultRule, Scenario};
use super::witness::RequestObserver;
use crate::model::Secret;
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, watch};

/// How the head behaves at the moment.
#[derive(Debug)]
struct Behavior {
    token: Option<Secret>,
    trouble: Vec<FaultRule>,
    ignores_stop: bool,
    closed: bool,
}

/// What all connections of a head share.
pub(super) struct Shared {
    /// What it pretends to be.
    pub scenario: Scenario,
    cluster: Mutex<Cluster>,
    behavior: Mutex<Behavior>,
    /// What clients cost it.
    pub meter: Arc<Meter>,
    gcs_death: Mutex<Option<String>>,
    witness: Mutex<RequestObserver>,
    /// Big answers and the cluster version that they were made of.
    kept: Mutex<HashMap<&'static str, (u64, Bytes)>>,
    /// Where all nodes' Prometheus endpoints are.
    pub metrics: SocketAddr,
    /// How many requests those had.
    pub scraped: AtomicUsize,
    /// Counts the times that all connections were closed.
    pub generation: watch::Sender<u64>,
    /// Tells requests that stall that the trouble is another.
    relief: Notify,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("scenario", &self.scenario).finish_non_exhaustive()
    }
}

impl Shared {
    /// A state without faults.
    pub fn new(scenario: Scenario, metrics: SocketAddr) -> Self {
        let token = scenario.token.clone();
        Self {
            cluster: Mutex::new(Cluster::new(&scenario)),
            behavior: Mutex::new(Behavior { token, trouble: Vec::new(), ignores_stop: false, closed: false }),
            meter: Arc::default(),
            gcs_death: Mutex::default(),
            witness: Mutex::default(),
            kept: Mutex::default(),
            metrics,
            scraped: AtomicUsize::new(0),
            generation: watch::Sender::new(0),
            relief: Notify::new(),
            scenario,
        }
    }

    /// Looks at, or changes, the cluster as it is now.
    pub fn now<R>(&self, look: impl FnOnce(&mut Cluster) -> R) -> R {
        let mut cluster = locked(&self.cluster);
        cluster.advance(self.scenario.clock.now().as_millis());
        look(&mut cluster)
    }

    /// A large response, rebuilt only when the cluster has changed.
    pub fn kept(&self, name: &'static str, make: impl FnOnce(&mut Cluster) -> Bytes) -> Bytes {
        self.now(|cluster| {
            let mut kept = locked(&self.kept);
            if let Some((version, body)) = kept.get(name)
                && *version == cluster.version
            {
                return body.clone();
            }
            let body = make(cluster);
            kept.insert(name, (cluster.version, body.clone()));
            body
        })
    }

    /// The token that requests must carry; `None`: no token authentication.
    pub fn token(&self) -> Option<Secret> {
        locked(&self.behavior).token.clone()
    }

    /// Changes the token that requests must carry.
    pub fn set_token(&self, token: Option<Secret>) {
        locked(&self.behavior).token = token;
    }

    /// Whether stop requests are answered and ignored.
    pub fn ignores_stop(&self) -> bool {
        locked(&self.behavior).ignores_stop
    }

    /// Sets whether stop requests are answered and ignored.
    pub fn ignore_stop(&self, ignore: bool) {
        locked(&self.behavior).ignores_stop = ignore;
    }

    /// Closes all open connections.
    pub fn drop_connections(&self) {
        self.generation.send_modify(|n| *n += 1);
    }

    /// Ends the GCS; the first reason stays.
    pub fn kill_gcs(&self, why: &str) {
        locked(&self.gcs_death).get_or_insert_with(|| why.to_owned());
    }

    /// What has killed the GCS, if something did.
    pub fn gcs_death(&self) -> Option<String> {
        locked(&self.gcs_death).clone()
    }

    /// Whether something has killed the GCS.
    pub fn gcs_is_dead(&self) -> bool {
        locked(&self.gcs_death).is_some()
    }

    /// Nobody accepts connections any more, and the open ones are closed.
    pub fn close(&self) {
        locked(&self.behavior).closed = true;
        self.drop_connections();
    }

    /// Whether that has happened.
    pub fn is_closed(&self) -> bool {
        locked(&self.behavior).closed
    }

    /// Misbehaves from now on as `trouble` says.
    pub fn trouble(&self, trouble: Vec<FaultRule>) {
        locked(&self.behavior).trouble = trouble;
        self.relief.notify_waiters();
    }

    /// Waits until requests for this path do not stall any more.
    pub async fn stall(&self, path: &str) {
        loop {
            let relief = self.relief.notified();
            if self.fault(path) != Some(Fault::Stall) {
                return;
            }
            relief.await;
        }
    }

    /// The fault that a request for this path meets.
    pub fn fault(&self, path: &str) -> Option<Fault> {
        let behavior = locked(&self.behavior);
        behavior.trouble.iter().find(|t| path.starts_with(&t.path)).map(|t| t.fault.clone())
    }

    /// The callback for changing requests.
    pub fn set_witness(&self, witness: RequestObserver) {
        *locked(&self.witness) = witness;
    }

    /// Tells of a changing request.
    pub fn hear(&self, method: &str, path: &str, body: &Value) {
        let witness = locked(&self.witness).clone();
        witness.hear(method, path, body);
    }

    /// The head's machine and its autoscaler are gone; the TPUs stay until they are deleted.
    pub fn fall(&self) {
        self.now(|c| c.monitor.alive = false);
        self.drop_connections();
    }

    /// `ray up` has written the head's configuration.
    pub fn write_bootstrap(&self, config: &[u8]) {
        self.now(|c| c.bootstrap = config.to_vec());
    }

    /// A new Ray has begun, where nothing is wrong.
    pub fn rise(&self) {
        self.now(|cluster| {
            cluster.begin_anew();
            locked(&self.kept).clear();
        });
        *locked(&self.gcs_death) = None;
        self.trouble(Vec::new());
        self.drop_connections();
    }
}
