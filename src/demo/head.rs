//! A simulated head, and the changes that a test can make to it while it runs.

use super::cluster::Cluster;
use super::cluster::log::Log;
use super::meter::Cost;
use super::observer::RequestObserver;
use super::scenario::{FaultRule, Scenario};
use super::shared::Shared;
use super::{connection, dashboard, gcs};
use crate::model::{JobStatus, NodeId, Secret};
use crate::task;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// A simulated head. Dropping it closes its sockets and connections.
#[derive(Debug)]
pub struct Head {
    /// Address of the dashboard.
    pub dashboard: SocketAddr,
    /// Address of the GCS.
    pub gcs: SocketAddr,
    pub(super) shared: Arc<Shared>,
}

impl Head {
    /// Listens on free loopback ports. Must be called inside a tokio runtime.
    pub async fn start(scenario: Scenario) -> io::Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::start_at(scenario, any, any).await
    }

    /// Listens on the given addresses; fails if one is in use.
    pub async fn start_at(scenario: Scenario, dashboard: SocketAddr, gcs: SocketAddr) -> io::Result<Self> {
        let (dashboard, gcs) = (TcpListener::bind(dashboard).await?, TcpListener::bind(gcs).await?);
        let metrics = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let addresses = (dashboard.local_addr()?, gcs.local_addr()?);
        let shared = Arc::new(Shared::new(scenario, metrics.local_addr()?));
        task::spawn(connection::accept(metrics, shared.clone(), dashboard::metrics::serve));
        task::spawn(connection::accept(dashboard, shared.clone(), dashboard::serve));
        task::spawn(connection::accept(gcs, shared.clone(), gcs::serve));
        Ok(Self { dashboard: addresses.0, gcs: addresses.1, shared })
    }

    /// Sets the faults of the head; the first matching rule applies. An empty list removes all faults.
    pub fn set_faults(&self, faults: Vec<FaultRule>) {
        self.shared.set_faults(faults);
    }

    /// Changes the token that requests must carry; `None` disables token authentication.
    pub fn set_token(&self, token: Option<Secret>) {
        self.shared.set_token(token);
    }

    /// Responds "stopped" to stop requests without stopping the job, as some Ray versions do for a pending job.
    pub fn ignore_stop(&self, ignore: bool) {
        self.shared.ignore_stop(ignore);
    }

    /// Closes all open connections; new ones are accepted.
    pub fn drop_connections(&self) {
        self.shared.drop_connections();
    }

    /// Sets the callback for changing requests.
    pub fn observe_requests(&self, observer: RequestObserver) {
        self.shared.set_observer(observer);
    }

    /// Restarts Ray on the same machine: a new session without jobs, whose workers join one after another.
    pub fn restart(&self) {
        self.shared.restart_ray();
    }

    /// Restarts Ray as [`Self::restart`] does; the first worker joins only after this delay.
    pub fn restart_before_workers(&self, delay: Duration) {
        self.restart();
        self.shared.now(|c| c.delay_joins(delay));
    }

    /// The load that clients have caused on this head.
    pub fn cost(&self) -> Cost {
        self.shared.meter.cost()
    }

    /// Why the simulated `gcs_server` was killed, if it was: a node id of the wrong length kills it, as in real Ray.
    pub fn gcs_death(&self) -> Option<String> {
        self.shared.gcs_death()
    }

    /// Stops or resumes the autoscaler's monitor; its report does not change while it is stopped.
    pub fn run_monitor(&self, is_running: bool) {
        self.shared.now(|c| c.run_monitor(is_running));
    }

    /// Submission ids of the jobs with this status, oldest first.
    pub fn submissions(&self, status: JobStatus) -> Vec<String> {
        let of = |c: &mut Cluster| {
            let jobs = c.jobs.iter().filter(|j| j.status == status);
            jobs.filter_map(|j| j.submission.clone()).collect()
        };
        self.shared.now(of)
    }

    /// Sets the status of a job; false if there is no such job.
    pub fn turn_job(&self, id: &str, status: JobStatus) -> bool {
        self.shared.now(|c| {
            let now = c.now;
            c.version += 1;
            c.job(id).map(|j| j.turn(status, now)).is_some()
        })
    }

    /// Makes the driver of a job run on this node once it starts; false if there is no such job. On any other node, the
    /// file with the name of its log then has one line that Ray wrote before.
    pub fn place_driver(&self, id: &str, node: NodeId) -> bool {
        self.shared.now(|c| {
            c.version += 1;
            let ip = c.node(node).map(|n| n.ip.clone()).unwrap_or_default();
            c.job(id).map(|j| j.place(node, &ip)).is_some()
        })
    }

    /// Appends bytes to a job's log, replacing the generated text; false if there is no such job.
    pub fn write_job_log(&self, id: &str, bytes: &[u8]) -> bool {
        self.shared.now(|c| c.job(id).map(|j| j.log.write(bytes)).is_some())
    }

    /// Appends bytes to a log file, e.g. `monitor.log`.
    pub fn write_file(&self, name: &str, bytes: &[u8]) {
        self.shared.now(|c| c.files.entry(name.to_owned()).or_insert(Log::none()).write(bytes));
    }

    /// Writes `~/ray_bootstrap_config.yaml`, as `ray up` does.
    pub fn write_bootstrap(&self, config: &[u8]) {
        self.shared.write_bootstrap(config);
    }

    /// Living nodes, the head first.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.shared.now(|c| c.nodes.iter().filter(|n| n.is_alive()).map(|n| n.id).collect())
    }

    /// Ends a node as if its raylet had crashed; false if there is no such node.
    pub fn kill_node(&self, id: NodeId) -> bool {
        self.shared.now(|c| c.kill(id))
    }

    /// Ends a node and starts a new one on its machine, as a worker's startup does; false if there is no such node.
    pub fn renew_node(&self, id: NodeId) -> bool {
        self.shared.now(|c| c.renew(id))
    }

    /// Adds a machine like that of this node, with another address; false if there is no such node.
    pub fn join_node(&self, like: NodeId, address: &str) -> bool {
        self.shared.now(|c| c.join(like, address))
    }

    /// Removes a node's metrics, as if its agent had not reported yet; false if there is no such node.
    pub fn silence_agent(&self, id: NodeId) -> bool {
        self.shared.now(|c| {
            c.version += 1;
            c.node(id).map(|n| (n.sampled, n.written) = (None, None)).is_some()
        })
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.shared.close();
    }
}
