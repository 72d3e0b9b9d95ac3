//! State shared by all connections of a simulated head: its cluster, its behavior, and the load of its clients.

use super::cluster::Cluster;
use super::locked;
use super::meter::Meter;
use super::observer::RequestObserver;
use super::scenario::{Fault, FaultRule, Scenario};
use crate::model::Secret;
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, watch};

/// The current behavior of the head.
#[derive(Debug)]
struct Behavior {
    token: Option<Secret>,
    faults: Vec<FaultRule>,
    ignores_stop: bool,
    closed: bool,
}

/// State shared by all connections of a head.
pub(super) struct Shared {
    /// The properties of the head.
    pub scenario: Scenario,
    cluster: Mutex<Cluster>,
    behavior: Mutex<Behavior>,
    /// The load of its clients.
    pub meter: Arc<Meter>,
    gcs_death: Mutex<Option<String>>,
    observer: Mutex<RequestObserver>,
    /// Large responses, and the cluster version from which each was built.
    kept: Mutex<HashMap<&'static str, (u64, Bytes)>>,
    /// Address of the Prometheus endpoint of all nodes.
    pub metrics: SocketAddr,
    /// Number of requests to it.
    pub scraped: AtomicUsize,
    /// Incremented each time all connections are closed.
    pub generation: watch::Sender<u64>,
    /// Notifies stalled requests that the faults have changed.
    faults_changed: Notify,
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
            behavior: Mutex::new(Behavior { token, faults: Vec::new(), ignores_stop: false, closed: false }),
            meter: Arc::default(),
            gcs_death: Mutex::default(),
            observer: Mutex::default(),
            kept: Mutex::default(),
            metrics,
            scraped: AtomicUsize::new(0),
            generation: watch::Sender::new(0),
            faults_changed: Notify::new(),
            scenario,
        }
    }

    /// Reads or changes the cluster, advanced to the current time.
    pub fn now<R>(&self, access: impl FnOnce(&mut Cluster) -> R) -> R {
        let mut cluster = locked(&self.cluster);
        cluster.advance(self.scenario.clock.now().as_millis());
        access(&mut cluster)
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

    /// Whether stop requests are acknowledged but ignored.
    pub fn ignores_stop(&self) -> bool {
        locked(&self.behavior).ignores_stop
    }

    /// Sets whether stop requests are acknowledged but ignored.
    pub fn ignore_stop(&self, ignore: bool) {
        locked(&self.behavior).ignores_stop = ignore;
    }

    /// Closes all open connections.
    pub fn drop_connections(&self) {
        self.generation.send_modify(|n| *n += 1);
    }

    /// Ends the GCS; keeps the first reason.
    pub fn kill_gcs(&self, why: &str) {
        locked(&self.gcs_death).get_or_insert_with(|| why.to_owned());
    }

    /// Why the GCS was killed, if it was.
    pub fn gcs_death(&self) -> Option<String> {
        locked(&self.gcs_death).clone()
    }

    /// Whether the GCS was killed.
    pub fn gcs_is_dead(&self) -> bool {
        locked(&self.gcs_death).is_some()
    }

    /// Stops accepting connections and closes the open ones.
    pub fn close(&self) {
        locked(&self.behavior).closed = true;
        self.drop_connections();
    }

    /// Whether the head was closed.
    pub fn is_closed(&self) -> bool {
        locked(&self.behavior).closed
    }

    /// Replaces the fault rules.
    pub fn set_faults(&self, faults: Vec<FaultRule>) {
        locked(&self.behavior).faults = faults;
        self.faults_changed.notify_waiters();
    }

    /// Waits until requests for this path no longer stall.
    pub async fn stall(&self, path: &str) {
        loop {
            let faults_changed = self.faults_changed.notified();
            if self.fault(path) != Some(Fault::Stall) {
                return;
            }
            faults_changed.await;
        }
    }

    /// The fault that applies to requests for this path.
    pub fn fault(&self, path: &str) -> Option<Fault> {
        let behavior = locked(&self.behavior);
        behavior.faults.iter().find(|t| path.starts_with(&t.path)).map(|t| t.fault.clone())
    }

    /// Sets the callback for changing requests.
    pub fn set_observer(&self, observer: RequestObserver) {
        *locked(&self.observer) = observer;
    }

    /// Reports a changing request to the callback.
    pub fn report_request(&self, method: &str, path: &str, body: &Value) {
        let observer = locked(&self.observer).clone();
        observer.call(method, path, body);
    }

    /// Simulates the loss of the head's machine and its autoscaler; TPUs remain until they are deleted.
    pub fn lose_machine(&self) {
        self.now(|c| c.run_monitor(false));
        self.drop_connections();
    }

    /// Writes the head's bootstrap configuration, as `ray up` does.
    pub fn write_bootstrap(&self, config: &[u8]) {
        self.now(|c| c.bootstrap = config.to_vec());
    }

    /// Starts a new Ray session and removes all faults.
    pub fn restart_ray(&self) {
        self.now(|cluster| {
            cluster.restart();
            locked(&self.kept).clear();
        });
        *locked(&self.gcs_death) = None;
        self.set_faults(Vec::new());
        self.drop_connections();
    }
}
