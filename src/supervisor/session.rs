//! One cluster's task for one command: a job of the console connection, without reading the cluster's state at
//! intervals and without a screen. And programs that are run beside it.

use super::connect::{first_contact, tunnel_spec};
use super::connection::{Channel, Connection};
use super::discover::host_name;
use super::task::{ClusterTask, Out, Pace, Shared};
use super::{Options, Reach, TokenCare, wake};
use crate::model::{ClusterName, ClusterSpec, HeadAddress, Phase, Problem, Request, Secret, Text, Timestamp};
use crate::ray::Client;
use crate::ssh::{self, Output, PortPlan, SshError, Tunnel};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Longest wait for ssh to end after the last word of a command.
const FAREWELL: Duration = Duration::from_secs(5);

/// A cluster's task that works for one command. It reconnects as the console's does, and ends when this is dropped.
pub struct Attached {
    /// The connection of the cluster.
    pub connection: Connection,
    requests: mpsc::UnboundedSender<Request>,
    task: JoinHandle<()>,
}

impl Attached {
    /// Ends the connection, and waits until its ports are free.
    pub async fn close(self) {
        drop(self.requests);
        if tokio::time::timeout(FAREWELL, self.task).await.is_err() {
            tracing::warn!("ssh does not end by itself; it is killed with this program");
        }
    }
}

/// Starts the task of one cluster for a command. `place` is the cluster's in the list. Called in a runtime; connects
/// beside the caller, who waits for [`Connection::channel`].
pub fn attach(spec: ClusterSpec, place: usize, options: Options) -> Attached {
    let shared = Shared {
        care: Arc::new(TokenCare::new(options.token.clone(), options.google.clone())),
        options: Arc::new(options),
        ports: Arc::new(Mutex::new(PortPlan::new())),
        wakes: wake::watch_for_wakes(),
    };
    // A command has no screen, so the news of the task are discarded.
    let (updates, _) = mpsc::channel(1);
    let out = Out { cluster: spec.name.clone(), updates };
    let (requests, heard) = mpsc::unbounded_channel();
    let (reach, _) = watch::channel(Reach::default());
    let (connection, held) = Connection::pair(spec.name.clone());
    let task = ClusterTask::new((spec, place), &shared, Pace::Asked, out, (heard, held), reach);
    Attached { connection, requests, task: tokio::spawn(task.run()) }
}

/// A cluster that has answered a command, and the task that holds the connection.
pub struct Session {
    /// Ray, with the token that was in force when it answered.
    pub client: Client,
    /// That token; none without token auth.
    pub token: Option<Secret>,
    /// `session_name` of the connected Ray.
    pub ray_session: Text,
    attached: Attached,
}

impl Session {
    /// The connection, for work that survives a reconnection.
    pub fn connection(&self) -> &Connection {
        &self.attached.connection
    }

    /// Ends the connection, and waits until its ports are free.
    pub async fn close(self) {
        self.attached.close().await;
    }
}

/// As [`attach`], but waits until the cluster answers. `tell` receives the phases of the connection.
pub async fn connect(
    spec: ClusterSpec,
    place: usize,
    options: Options,
    tell: impl FnMut(Phase),
) -> Result<Session, Problem> {
    let attached = attach(spec, place, options);
    match attached.connection.channel_telling(tell).await {
        Ok(Channel { client, token, ray_session, .. }) => {
            Ok(Session { client, token, ray_session, attached })
        }
        Err(problem) => {
            attached.close().await;
            Err(problem)
        }
    }
}

/// A cluster, and how its machines are reached.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// The cluster of the connection.
    pub spec: &'a ClusterSpec,
    /// Connection options.
    pub options: &'a Options,
    /// The connection of the cluster's task; commands on the head use it while it is open.
    pub connection: &'a Connection,
}

/// Runs a command line on one of the cluster's machines: on the head over the open login, if there is one, otherwise
/// over a new login. A non-zero exit code is not an error.
pub async fn run_on(
    Access { spec, options, connection }: Access<'_>,
    host: &str,
    command: &str,
    limit: Duration,
) -> Result<Output, Problem> {
    let failed = |e: SshError| e.problem(Timestamp::now());
    let is_head = matches!(&spec.head, HeadAddress::Ssh(head) if head == host);
    if let Some(remote) = connection.remote().filter(|_| is_head) {
        match remote.run(command, limit).await {
            // It is being lost, or has no room for one more command.
            Err(SshError::Lost { .. } | SshError::SessionsExhausted { .. }) => {}
            done => return done.map_err(failed),
        }
    }
    let mut to = tunnel_spec(spec, options, host_name(host)?, Vec::new());
    // A socket of its own: the head's may be in use.
    to.name = ClusterName::new(format!("{}@{host}", spec.name));
    let tunnel = Tunnel::open(to).await.map_err(failed)?;
    if let Some(words) = first_contact(&tunnel, spec, options) {
        tracing::info!(cluster = %spec.name, "{words}");
    }
    let output = tunnel.remote().run(command, limit).await.map_err(failed);
    tunnel.close().await;
    output
}

/// Runs the ray command with these arguments and settings (`NAME=VALUE`) here; its lines go to `lines`, its exit code
/// comes back. Dropping the future kills it.
pub async fn run_ray(
    options: &Options,
    arguments: &[&OsStr],
    settings: &[&str],
    lines: mpsc::Sender<String>,
) -> Result<i32, Problem> {
    // Python keeps back what it writes into a pipe.
    let mut command: Vec<OsString> = vec!["env".into(), "PYTHONUNBUFFERED=1".into()];
    command.extend(settings.iter().map(OsString::from));
    command.extend(options.ray.iter().map(OsString::from));
    command.extend(arguments.iter().map(OsString::from));
    ssh::run_program(command, lines).await.map_err(|e| e.problem(Timestamp::now()))
}
