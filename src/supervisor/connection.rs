//! A handle to the connection of a cluster's task: its current state, and a way to wait until Ray responds.
//!
//! Everything that works on a cluster (an operation, a form, a log, a command) uses the single connection of its task
//! through this handle. It asks the task to connect, to reconnect or to renew the token; it never logs in itself, and
//! does not keep the task alive.

use super::opened::{Session, dashboard_down};
use crate::model::{
    ClusterName, LocalPorts, Phase, Problem, ProblemKind, Secret, Service, Target, Text, Timestamp,
};
use crate::ray::{Client, RayError};
use crate::ssh::{Refusals, Remote, SshError, TunnelSpec};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};

/// Number of other tokens that are tried for one caller: a newer file on this machine, then the secret's latest
/// version. After that, the error names the version that was refused.
const MAX_RENEWALS: usize = 3;
/// Maximum time to wait for a connection that responds: `ray get-head-ip`, a login, the first answer and one request
/// have separate limits, which add up to about two minutes.
const WAIT_LIMIT: Duration = Duration::from_secs(150);
/// Timeout of the empty command that tests a login.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for ssh to report a refused connection.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// A failure within this time counts as immediate.
const IMMEDIATE_FAILURE: Duration = Duration::from_secs(1);
/// Capacity of the task's request channel; a faster caller waits.
const REQUEST_CAPACITY: usize = 16;

/// An open connection and what it provides. After the connection is lost, every call fails.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The client for Ray, with the token in force.
    pub client: Client,
    /// Runs commands on the head; `None` with `--address`.
    pub remote: Option<Remote>,
    /// How to log in to the head in a separate terminal; `None` with `--address`.
    pub login: Option<TunnelSpec>,
    /// The token in force; `None` without token authentication.
    pub token: Option<Secret>,
    /// TCP ports of this machine that lead to the head's services.
    pub ports: LocalPorts,
    /// `session_name` of the Ray that responded; empty until it was requested.
    pub ray_session: Text,
    /// Connections that the head refused behind the forwards.
    refusals: Option<watch::Receiver<Refusals>>,
    /// The number of the attempt that opened it.
    attempt: u64,
}

impl Channel {
    pub(super) fn new(session: &Session, login: Option<TunnelSpec>, attempt: u64) -> Self {
        let tunnel = session.tunnel.as_ref().map(|(tunnel, _)| tunnel);
        Self {
            client: session.client.clone(),
            remote: tunnel.map(crate::ssh::Tunnel::remote),
            login,
            token: session.token.clone(),
            ports: session.tunnel.as_ref().map(|(_, ports)| ports.open().clone()).unwrap_or_default(),
            ray_session: Text::default(),
            refusals: tunnel.map(crate::ssh::Tunnel::refusals),
            attempt,
        }
    }

    fn refused(&self) -> u64 {
        self.refusals.as_ref().map_or(0, |refusals| refusals.borrow().count)
    }

    /// The `session_name` of the Ray that answers. The head may have closed a kept-alive connection in the meantime, so
    /// an immediate failure is retried over a new one.
    async fn version(&self) -> Result<Text, RayError> {
        let started = Instant::now();
        let answer = match self.client.version().await {
            Err(RayError::Silent(_)) if started.elapsed() < IMMEDIATE_FAILURE => self.client.version().await,
            answer => answer,
        };
        answer.map(|identity| identity.session)
    }

    /// Whether the head has refused a connection since the count was `before`. ssh reports this on a separate stream,
    /// possibly a moment after the failure itself.
    async fn refused_since(&self, before: u64) -> bool {
        let Some(mut refusals) = self.refusals.clone() else { return false };
        let more = refusals.wait_for(|refusals| refusals.count > before);
        matches!(tokio::time::timeout(REFUSAL_TIMEOUT, more).await, Ok(Ok(_)))
    }

    /// Whether the login to the head still works although Ray did not respond.
    async fn is_login_alive(&self) -> bool {
        match &self.remote {
            None => true,
            Some(remote) => match remote.run(":", PROBE_TIMEOUT).await {
                Ok(_) | Err(SshError::SessionsExhausted { .. }) => true,
                Err(e) => {
                    tracing::info!("the SSH connection does not respond: {e}");
                    false
                }
            },
        }
    }
}

/// The state of a cluster's connection.
#[derive(Clone, Debug)]
pub enum ConnectionState {
    /// An attempt is under way.
    Connecting(Phase),
    /// The connection is open. [`Connection::channel`] checks whether Ray answers.
    Up(Box<Channel>),
    /// The connection is down.
    Down {
        /// Why the last attempt failed, or why the connection was lost.
        problem: Problem,
        /// When the next attempt starts; `None` if it has to be started by the operator.
        retry_at: Option<Timestamp>,
        /// The number of that attempt.
        attempt: u64,
        /// Whether that attempt had succeeded and its connection was lost later.
        is_lost: bool,
    },
}

/// A request of a holder of a [`Connection`] to the cluster's task.
#[derive(Debug)]
pub(super) enum ConnectionRequest {
    /// Connect now, if there is no connection.
    Connect,
    /// Read everything now, or connect now.
    Refresh,
    /// Reconnect, if the connection of this attempt is still the current one.
    Reconnect {
        /// Number of the attempt.
        attempt: u64,
    },
    /// Open local ports for these services for as long as this connection exists.
    Forward {
        /// The services to open ports for.
        services: BTreeSet<Service>,
        /// Receives all ports that are open then.
        reply: oneshot::Sender<Result<LocalPorts, Problem>>,
    },
    /// Look for another token, if this one is still in force.
    Renew {
        /// The token that the cluster refused; `None` if the request had none.
        refused: Option<Secret>,
        /// Receives the result: another token is in force, or there is none.
        reply: oneshot::Sender<Result<(), Problem>>,
    },
}

/// The task's end of a connection.
pub(super) struct ConnectionServer {
    /// The state that all holders of the connection see.
    pub state: watch::Sender<ConnectionState>,
    /// Requests of the holders of the connection.
    pub requests: mpsc::Receiver<ConnectionRequest>,
}

/// The connection of a cluster's task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    cluster: ClusterName,
    state: watch::Receiver<ConnectionState>,
    requests: mpsc::Sender<ConnectionRequest>,
}

impl Connection {
    /// Both ends of a connection, before the first attempt.
    pub(super) fn pair(cluster: ClusterName) -> (Self, ConnectionServer) {
        let problem = problem(format!("{cluster} is not connected yet"), "");
        let none = ConnectionState::Down { problem, retry_at: None, attempt: 0, is_lost: true };
        let (sender, state) = watch::channel(none);
        let (requests, receiver) = mpsc::channel(REQUEST_CAPACITY);
        (Self { cluster, state, requests }, ConnectionServer { state: sender, requests: receiver })
    }

    /// The connection of a cluster without a task, which never becomes available.
    pub fn closed(cluster: ClusterName) -> Self {
        Self::pair(cluster).0
    }

    /// A client of Ray over the open connection, if any; it does not check that Ray answers.
    pub fn client(&self) -> Option<Client> {
        client_of(&self.state)
    }

    /// Runs commands on the head over the open login, if any.
    pub fn remote(&self) -> Option<Remote> {
        match &*self.state.borrow() {
            ConnectionState::Up(channel) => channel.remote.clone(),
            ConnectionState::Connecting(_) | ConnectionState::Down { .. } => None,
        }
    }

    /// The current state, and a way to wait for changes.
    pub fn watch(&self) -> watch::Receiver<ConnectionState> {
        self.state.clone()
    }

    /// Makes the task read everything now; without a connection it connects now.
    pub async fn refresh(&self) {
        // The task ends only with the program.
        let _ = self.requests.send(ConnectionRequest::Refresh).await;
    }

    /// Makes the task reconnect, unless it has done so since `channel` was created.
    pub async fn reconnect(&self, channel: &Channel) {
        // The task ends only with the program.
        let _ = self.requests.send(ConnectionRequest::Reconnect { attempt: channel.attempt }).await;
    }

    /// Drops the current connection, because its target is known to be gone. Returns when no caller can use that
    /// connection any more.
    pub async fn leave(&self) {
        let mut state = self.state.clone();
        let ConnectionState::Up(left) = state.borrow_and_update().clone() else { return };
        self.reconnect(&left).await;
        let is_other =
            |now: &ConnectionState| !matches!(now, ConnectionState::Up(up) if up.attempt == left.attempt);
        // The task ends only with the program.
        let _ = state.wait_for(is_other).await;
    }

    /// The connection, once Ray has responded over it with the token in force. Waits for an attempt in progress, or
    /// starts one; fails with the problem of that attempt. A refused token is replaced by the latest one; if that is
    /// refused as well, the problem names its version.
    pub async fn channel(&self) -> Result<Channel, Problem> {
        self.channel_reporting(|_| ()).await
    }

    /// Like [`Self::channel`]; `on_phase` receives the phases of the connection.
    pub async fn channel_reporting(&self, on_phase: impl FnMut(Phase)) -> Result<Channel, Problem> {
        let waited = tokio::time::timeout(WAIT_LIMIT, self.responding(on_phase)).await;
        waited.unwrap_or_else(|_| {
            let what = format!("{}: not connected after {} s", self.cluster, WAIT_LIMIT.as_secs());
            Err(problem(
                what,
                &format!("try again; check its address with `{}`", Target::default().line("clusters")),
            ))
        })
    }

    async fn responding(&self, mut on_phase: impl FnMut(Phase)) -> Result<Channel, Problem> {
        let (mut renewals, mut after, mut is_retried) = (0, 0, false);
        loop {
            let mut channel = self.up(after, &mut on_phase).await?;
            let refused = channel.refused();
            let error = match channel.version().await {
                Ok(session) => {
                    channel.ray_session = session;
                    return Ok(channel);
                }
                Err(e) if e.is_token() && renewals < MAX_RENEWALS => {
                    renewals += 1;
                    self.renew(channel.client.token().cloned()).await?;
                    continue;
                }
                Err(e) => e,
            };
            let now = Timestamp::now();
            // An attempt was already made for this caller, or Ray itself responded.
            if after > 0 || !matches!(error, RayError::Silent(_)) {
                let is_down = matches!(error, RayError::Silent(_)) && channel.refused_since(refused).await;
                return Err(if is_down { dashboard_down(&channel.client).await } else { error.problem(now) });
            }
            // Only a head that is known to exist may be reported as having no service on the port.
            if channel.is_login_alive().await {
                let is_down = channel.refused_since(refused).await;
                // The broken connection may be one kept alive from an earlier request.
                if !is_down && !std::mem::replace(&mut is_retried, true) {
                    continue;
                }
                return Err(if is_down { dashboard_down(&channel.client).await } else { error.problem(now) });
            }
            after = channel.attempt;
            self.reconnect(&channel).await;
        }
    }

    /// The connection of an attempt later than `after`, or the problem of an attempt that ended after this call.
    async fn up(&self, after: u64, on_phase: &mut impl FnMut(Phase)) -> Result<Channel, Problem> {
        let (mut state, mut before) = (self.state.clone(), None);
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                ConnectionState::Up(channel) if channel.attempt > after => return Ok(*channel),
                ConnectionState::Up(_) => {}
                ConnectionState::Connecting(phase) => on_phase(phase),
                ConnectionState::Down { problem, attempt, is_lost: false, .. }
                    if before.is_some_and(|before| attempt > before) =>
                {
                    return Err(problem);
                }
                // No attempt was made since this call.
                ConnectionState::Down { attempt, .. } => {
                    before = Some(attempt);
                    self.requests.send(ConnectionRequest::Connect).await.map_err(|_| self.gone())?;
                }
            }
            before = before.or(Some(0));
            state.changed().await.map_err(|_| self.gone())?;
        }
    }

    /// Opens TCP ports of this machine that lead to these services of the head, and returns all open ones. They are
    /// reopened after each reconnection. Waits for a connection, which need not respond yet.
    pub async fn forward(&self, services: BTreeSet<Service>) -> Result<LocalPorts, Problem> {
        self.up(0, &mut |_| ()).await?;
        let (reply, answer) = oneshot::channel();
        self.requests.send(ConnectionRequest::Forward { services, reply }).await.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    async fn renew(&self, refused: Option<Secret>) -> Result<(), Problem> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(ConnectionRequest::Renew { refused, reply }).await.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    fn gone(&self) -> Problem {
        problem(format!("the connection to {} is closed: marin-tui is exiting", self.cluster), "")
    }
}

/// The client of the open connection, if any.
pub(super) fn client_of(state: &watch::Receiver<ConnectionState>) -> Option<Client> {
    match &*state.borrow() {
        ConnectionState::Up(channel) => Some(channel.client.clone()),
        ConnectionState::Connecting(_) | ConnectionState::Down { .. } => None,
    }
}

fn problem(what: String, hint: &str) -> Problem {
    Problem::new(ProblemKind::Other, what, hint, Timestamp::now())
}
