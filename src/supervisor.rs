//! The core that both front ends use: one task per cluster that combines tunnel, token and Ray client, and a second one
//! that watches the cluster's TPUs at Google Cloud.
//!
//! All waiting, retrying and reconnecting happens here: a front end sends a [`Request`], never waits, and receives
//! everything as [`Update`]s. A failure of one cluster does not affect the tasks of others.

mod access;
mod backoff;
mod cloud;
mod cloud_watch;
mod connect;
mod connection;
mod container;
mod cost;
mod discover;
mod download;
mod driver;
mod file_search;
mod follow;
mod git;
mod here;
mod host_search;
mod limits;
mod lock;
mod log_access;
mod log_file;
mod log_selection;
mod login;
mod machines;
mod opened;
mod options;
mod out;
mod polling;
mod ports;
mod position;
mod read;
mod recovery;
mod search;
mod serve;
mod session;
mod several;
mod stop;
mod streams;
mod task;
mod tokens;
mod visit;
mod vitals;
mod wake;
mod zones;

pub use access::{Access, HeadLogin, log_in_to_head, run_on, run_ray};
pub use backoff::Backoff;
pub use cloud::{ask_cloud, clean, tpu_location};
pub use connection::{Channel, Connection, ConnectionState};
pub use container::{in_container, inside, reading};
pub use discover::head_address;
pub use driver::is_elsewhere;
pub use file_search::{FileSearcher, SearchProgress, lines_of, list_files, read_ends};
pub use follow::{follow, follow_matching};
pub use git::git_commit;
pub use here::{KeyFault, inspect_key, run_program, run_self, ssh_version};
pub use host_search::HostAccess;
pub use lock::{LockOwnership, OwnLocks, acquire_lock, keeps_locks, read_lock, remove_lock, renew_lock};
pub use log_access::{LogAccess, LogAccessWatch, watch_log_access};
pub use log_file::{ContentSearch, LogFile, Opened, ReadError, Start};
pub use login::trust;
pub use options::{AuditSink, Options, Reach, google};
pub use ports::default_port;
pub use read::{read_open, read_state, state_of, unreachable};
pub use session::{Attached, Session, attach, connect};
pub use several::{Followed, follow_several};
pub use stop::{NOT_ENDED, delete_job, stop_job};
pub use visit::{batch, dial, find_host, pack, visit};
pub use vitals::{LogHost, read_holdings, read_vitals, read_vitals_among};
pub use zones::Zones;

// Provided by a connection.
pub use crate::ssh::{Remote, RemoteStream};

// For programs that other modules start.
pub use crate::ssh::clean_environment;

use crate::model::cloud::TpuHost;
use crate::model::sort;
use crate::model::{
    ClusterName, ClusterSpec, GoogleWait, HeadAddress, Problem, ProblemKind, Request, Secret, Service,
    Target, Timestamp,
};
use crate::ssh::{self, PortPlan};
use crate::state::Update;
use cloud_watch::CloudWatch;
use out::{PollMode, UpdateSender};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use task::{ClusterTask, Shared};
pub use tokens::{Fetched, TokenManager};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Maximum time to wait for all ssh processes to end when the console quits.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

struct Handle {
    spec: ClusterSpec,
    requests: mpsc::UnboundedSender<Request>,
    cloud: mpsc::UnboundedSender<Request>,
    reach: watch::Receiver<Reach>,
    connection: Connection,
}

/// Owns the tasks of all clusters.
pub struct Supervisor {
    handles: BTreeMap<ClusterName, Handle>,
    tasks: JoinSet<()>,
    tokens: Arc<TokenManager>,
    options: Arc<Options>,
}

impl Supervisor {
    /// Starts a task for each cluster; events are sent to `updates`. All clusters connect concurrently.
    pub fn start(specs: Vec<ClusterSpec>, options: Options, updates: &mpsc::Sender<Update>) -> Self {
        Self::start_at(specs.into_iter().enumerate().collect(), options, updates)
    }

    /// Like [`Self::start`] for one cluster, with its index in the whole list, which determines its local ports.
    pub fn start_one(
        spec: ClusterSpec,
        cluster_index: usize,
        options: Options,
        updates: &mpsc::Sender<Update>,
    ) -> Self {
        Self::start_at(vec![(cluster_index, spec)], options, updates)
    }

    fn start_at(specs: Vec<(usize, ClusterSpec)>, options: Options, updates: &mpsc::Sender<Update>) -> Self {
        if let Err(e) = ssh::clear_stale_sockets(&options.run_dir) {
            tracing::warn!("cannot remove old control sockets: {e}");
        }
        let tokens = Arc::new(TokenManager::new(options.token.clone(), options.google.clone()));
        let shared = Shared {
            options: Arc::new(options),
            ports: Arc::new(Mutex::new(PortPlan::new())),
            wakes: wake::watch_for_wakes(),
            tokens: tokens.clone(),
        };
        let options = shared.options.clone();
        let mut supervisor = Self { handles: BTreeMap::new(), tasks: JoinSet::new(), tokens, options };
        for (cluster_index, spec) in specs {
            let (requests, receiver) = mpsc::unbounded_channel();
            let (reach, reach_watch) = watch::channel(Reach::default());
            let out = UpdateSender::new(spec.clone(), updates.clone());
            let (cloud, wanted) = mpsc::unbounded_channel();
            let options = shared.options.clone();
            let watch = CloudWatch { spec: spec.clone(), options, out: out.clone(), requests: wanted };
            crate::task::spawn_on(&mut supervisor.tasks, watch.run());
            let (connection, server) = Connection::pair(spec.name.clone());
            let handle = Handle { spec: spec.clone(), requests, cloud, reach: reach_watch, connection };
            supervisor.handles.insert(spec.name.clone(), handle);
            let task = ClusterTask::new(
                (spec, cluster_index),
                &shared,
                PollMode::Polling,
                out,
                (receiver, server),
                reach,
            );
            crate::task::spawn_on(&mut supervisor.tasks, task.run());
        }
        supervisor
    }

    /// Registers a function that is called when calls to Google start to wait because Google asks for it.
    pub fn on_wait(&self, listener: impl Fn(GoogleWait) + Send + Sync + 'static) {
        self.options.google.on_wait(listener);
    }

    /// Sends a request to a cluster's task; the answer arrives as an event.
    pub fn ask(&self, cluster: &ClusterName, request: Request) {
        if let Some(handle) = self.handles.get(cluster) {
            let to = match request {
                Request::Cloud | Request::CleanPreempted(_) => &handle.cloud,
                _ => &handle.requests,
            };
            // A task ends only with the program.
            let _ = to.send(request);
        }
    }

    /// The connection of a cluster's task; `None` if the cluster is not in the list.
    pub fn connection(&self, cluster: &ClusterName) -> Option<Connection> {
        self.handles.get(cluster).map(|handle| handle.connection.clone())
    }

    /// The connections of all clusters, by name.
    pub fn connections(&self) -> BTreeMap<ClusterName, Connection> {
        sort::collected(self.handles.iter().map(|(name, handle)| (name.clone(), handle.connection.clone())))
    }

    /// The cluster's token, for the clipboard. Reads files.
    pub fn token(&self, cluster: &ClusterName) -> Result<Secret, Problem> {
        self.token_finder(cluster)()
    }

    /// Like [`Self::token`], as a function that can be called on a separate thread, because files may be slow.
    pub fn token_finder(
        &self,
        cluster: &ClusterName,
    ) -> impl FnOnce() -> Result<Secret, Problem> + Send + use<> {
        let spec = self.handles.get(cluster).map(|handle| handle.spec.clone());
        let (tokens, what) = (Arc::clone(&self.tokens), format!("no cluster {cluster}"));
        move || {
            let spec = spec.ok_or_else(|| Problem::new(ProblemKind::Other, what, "", Timestamp::now()))?;
            tokens.on_this_machine(&spec).map(|found| found.token)
        }
    }

    /// The dashboard's address for a browser on this machine; opens a local port for it.
    pub fn dashboard(
        &self,
        cluster: &ClusterName,
    ) -> impl Future<Output = Result<String, Problem>> + Send + use<> {
        let handle = self.handles.get(cluster).map(|h| (h.spec.clone(), h.connection.clone()));
        let cluster = cluster.clone();
        async move {
            let Some((spec, connection)) = handle else {
                let what = format!("no cluster {cluster}");
                return Err(Problem::new(ProblemKind::Other, what, "", Timestamp::now()));
            };
            if let HeadAddress::Direct { dashboard, .. } = spec.head {
                return Ok(dashboard);
            }
            let ports = connection.forward([Service::Dashboard].into()).await?;
            let port = ports.get(&Service::Dashboard).copied().unwrap_or_default();
            Ok(Service::Dashboard.address(&cluster, port))
        }
    }

    /// The command that logs in to the cluster's head in the foreground terminal.
    pub fn login(&self, cluster: &ClusterName) -> Result<Command, String> {
        let login = self.handles.get(cluster).and_then(|h| h.reach.borrow().login.clone());
        let login =
            login.ok_or_else(|| format!("{cluster} has no SSH connection, so the head cannot be reached"))?;
        Ok(ssh::login(&login))
    }

    /// The command that logs in to a host of the cluster in the foreground terminal. Runs ssh in the background to
    /// determine it.
    pub fn login_host(
        &self,
        cluster: &ClusterName,
        host: &TpuHost,
    ) -> impl Future<Output = Result<Command, String>> + Send + use<> {
        let handle = self.handles.get(cluster);
        let known = handle.map(|handle| (handle.spec.clone(), handle.reach.borrow().login.clone()));
        let (options, cluster, host) = (Arc::clone(&self.options), cluster.clone(), host.clone());
        async move {
            let (spec, head) = known.ok_or_else(|| format!("no cluster {cluster}"))?;
            // Looking up the head now could take a minute while the terminal waits.
            if head.is_none() && visit::needs_head(&spec, &host) {
                return Err(format!(
                    "that host is only reachable through the head, and {cluster} has no SSH connection"
                ));
            }
            let command = visit(&spec, &options, Some(&host), head, None, true).await;
            command.map_err(|p| p.in_commands(Target::of(&spec.name)))
        }
    }

    /// Ends every task and waits until its ssh is gone.
    pub async fn shutdown(mut self) {
        self.handles.clear();
        let all_gone = async { while self.tasks.join_next().await.is_some() {} };
        // Processes that remain are killed with the runtime.
        let _ = tokio::time::timeout(EXIT_TIMEOUT, all_gone).await;
    }
}
