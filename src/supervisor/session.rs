//! A cluster's task for one command: it keeps a connection like the console, but does not poll and has no screen.

use super::connection::{Channel, Connection};
use super::out::{PollMode, UpdateSender};
use super::task::{ClusterTask, Shared};
use super::vitals::LogHost;
use super::{Options, Reach, TokenManager, wake};
use crate::model::{ClusterSpec, Phase, Problem, Request, Secret, Text};
use crate::ray::Client;
use crate::ssh::PortPlan;
use crate::task;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Maximum time to wait for ssh to end after the last output of a command.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A cluster's task for one command. It reconnects like the console's task, and ends when this is dropped.
pub struct Attached {
    /// The connection of the cluster.
    pub connection: Connection,
    requests: mpsc::UnboundedSender<Request>,
    task: JoinHandle<()>,
}

impl Attached {
    /// Closes the connection, and waits until its ports are free.
    pub async fn close(self) {
        drop(self.requests);
        if tokio::time::timeout(EXIT_TIMEOUT, self.task).await.is_err() {
            tracing::warn!("ssh has not exited on its own; it is killed with this program");
        }
    }
}

/// Starts the task of one cluster for a command. `cluster_index` is the cluster's index in the list. Must be called in a
/// runtime. Connects in the background; callers wait with [`Connection::channel`].
pub fn attach(spec: ClusterSpec, cluster_index: usize, options: Options) -> Attached {
    let shared = Shared {
        tokens: Arc::new(TokenManager::new(options.token.clone(), options.google.clone())),
        options: Arc::new(options),
        ports: Arc::new(Mutex::new(PortPlan::new())),
        wakes: wake::watch_for_wakes(),
    };
    // A command has no screen, so the task's events are discarded.
    let (updates, _) = mpsc::channel(1);
    let out = UpdateSender::new(spec.clone(), updates);
    let (requests, receiver) = mpsc::unbounded_channel();
    let (reach, _) = watch::channel(Reach::default());
    let (connection, server) = Connection::pair(spec.name.clone());
    let task =
        ClusterTask::new((spec, cluster_index), &shared, PollMode::OnDemand, out, (receiver, server), reach);
    Attached { connection, requests, task: task::spawn(task.run()) }
}

/// A cluster that has responded to a command, and the task that holds the connection.
pub struct Session {
    /// The client for Ray, with the token that was in force when it responded.
    pub client: Client,
    /// That token; `None` without token authentication.
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

    /// The head, where the logs of drivers are read by position; `None` without ssh.
    pub fn log_host(&self, spec: &ClusterSpec) -> Option<LogHost> {
        let remote = self.attached.connection.remote()?;
        Some(LogHost { remote, spec: Arc::new(spec.clone()) })
    }

    /// Closes the connection, and waits until its ports are free.
    pub async fn close(self) {
        self.attached.close().await;
    }
}

/// Like [`attach`], but waits until the cluster responds. `on_phase` receives the phases of the connection.
pub async fn connect(
    spec: ClusterSpec,
    cluster_index: usize,
    options: Options,
    on_phase: impl FnMut(Phase),
) -> Result<Session, Problem> {
    let attached = attach(spec, cluster_index, options);
    match attached.connection.channel_reporting(on_phase).await {
        Ok(Channel { client, token, ray_session, .. }) => {
            Ok(Session { client, token, ray_session, attached })
        }
        Err(problem) => {
            attached.close().await;
            Err(problem)
        }
    }
}
