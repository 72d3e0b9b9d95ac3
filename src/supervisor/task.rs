//! The task of one cluster: connects, serves the session, backs off and reconnects. Holds what outlives a connection:
//! the focus, the open log streams, and the start time of a problem.

use super::backoff::Backoff;
use super::connect::Opener;
use super::connection::{Channel, ConnectionRequest, ConnectionServer, ConnectionState};
use super::login;
use super::opened::Session;
use super::out::{PollMode, UpdateSender};
use super::streams::Streams;
use super::wake::Wakes;
use super::{Options, Reach, TokenManager};
use crate::model::{
    ClusterEvent, ClusterSpec, JobStopOutcome, Link, NodeId, Phase, Problem, ProblemKind, Request, Service,
    Timestamp,
};
use crate::ray::Client;
use crate::ssh::PortPlan;
use std::collections::BTreeSet;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Maximum backoff between attempts for the cluster on the screen, or for a command.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum backoff between attempts for other clusters.
const MAX_BACKOFF_BACKGROUND: Duration = Duration::from_secs(20);

/// A connection of a command that has lasted this long was healthy: its loss is a new problem.
const STABLE: Duration = Duration::from_secs(30);

/// Why a phase of the task's life ended.
pub enum End {
    /// The connection was lost.
    Lost(Problem),
    /// A request of the operator failed. Nothing is retried until the operator requests it, so that the reason stays on
    /// the screen.
    Stuck(Problem),
    /// Retry now: on request, or because the network changed.
    Again,
    /// The front end is gone.
    Closed,
}

/// The task of one cluster: it connects, polls and reconnects.
pub struct ClusterTask {
    pub(super) spec: Arc<ClusterSpec>,
    pub(super) cluster_index: usize,
    pub(super) options: Arc<Options>,
    ports: Arc<Mutex<PortPlan>>,
    pub(super) out: UpdateSender,
    pub(super) requests: mpsc::UnboundedReceiver<Request>,
    /// The task's end of the connection handle.
    pub(super) server: ConnectionServer,
    /// Number of attempts to connect so far.
    pub(super) attempt: u64,
    /// Whether the last attempt had succeeded.
    is_lost: bool,
    pub(super) mode: PollMode,
    pub(super) wakes: Wakes,
    pub(super) tokens: Arc<TokenManager>,
    pub(super) reach: watch::Sender<Reach>,
    /// Whether the cluster is shown on the screen.
    pub(super) focused: bool,
    /// Nodes shown on the screen.
    pub(super) visible: Vec<NodeId>,
    /// Services of the head for which users want a local port.
    pub(super) forwarded: BTreeSet<Service>,
    pub(super) streams: Streams,
    /// The client of the previous session.
    pub(super) client: Option<Client>,
    pub(super) backoff: Backoff,
    /// The kind of the current problem, and since when it exists.
    pub(super) current_problem: Option<(Discriminant<ProblemKind>, Timestamp)>,
}

/// State shared by the tasks of all clusters.
pub struct Shared {
    /// Connection options.
    pub options: Arc<Options>,
    /// Local ports by cluster.
    pub ports: Arc<Mutex<PortPlan>>,
    /// Wake-ups after sleep and network changes.
    pub wakes: Wakes,
    /// Token lookup and refresh.
    pub tokens: Arc<TokenManager>,
}

impl ClusterTask {
    /// Creates the task of the cluster at this index in the list.
    pub fn new(
        (spec, cluster_index): (ClusterSpec, usize),
        shared: &Shared,
        mode: PollMode,
        out: UpdateSender,
        (requests, server): (mpsc::UnboundedReceiver<Request>, ConnectionServer),
        reach: watch::Sender<Reach>,
    ) -> Self {
        let spec = Arc::new(spec);
        Self {
            streams: Streams::new(Arc::clone(&spec), Arc::clone(&shared.options)),
            spec,
            cluster_index,
            options: Arc::clone(&shared.options),
            ports: Arc::clone(&shared.ports),
            out,
            requests,
            server,
            attempt: 0,
            is_lost: false,
            mode,
            wakes: shared.wakes.clone(),
            tokens: Arc::clone(&shared.tokens),
            reach,
            focused: false,
            visible: Vec::new(),
            forwarded: BTreeSet::new(),
            client: None,
            backoff: Backoff::default(),
            current_problem: None,
        }
    }

    /// Runs until the front end is gone.
    pub async fn run(mut self) {
        if self.mode == PollMode::OnDemand && !self.wait_for_request().await {
            return;
        }
        loop {
            let up = self.connect().await;
            self.is_lost = up.is_ok();
            let mut end = match up {
                Ok(session) => {
                    let began = Instant::now();
                    let end = self.serve(session).await;
                    // Polling notices earlier that the cluster responds.
                    if self.mode == PollMode::OnDemand && began.elapsed() >= STABLE {
                        self.backoff.reset();
                        self.current_problem = None;
                    }
                    end
                }
                Err(end) => end,
            };
            self.streams.set_access(None);
            self.reach.send_replace(Reach::default());
            if let End::Again = end {
                self.backoff.reset();
            }
            loop {
                end = match end {
                    End::Closed => return,
                    End::Again => break,
                    End::Lost(problem) => {
                        let manual = needs_operator(&problem.kind);
                        self.wait_to_retry(problem, manual).await
                    }
                    End::Stuck(problem) => self.wait_to_retry(problem, true).await,
                };
            }
        }
    }

    /// Waits until the connection is requested; `false` when all requesters are gone.
    async fn wait_for_request(&mut self) -> bool {
        tokio::select! {
            Some(request) = self.server.requests.recv() => {
                decline(request);
                true
            }
            // Requests of a command are ignored; only the end of the channel matters.
            request = self.requests.recv() => request.is_some(),
        }
    }

    /// Opens a session while handling requests.
    async fn connect(&mut self) -> Result<Session, End> {
        self.attempt += 1;
        self.server.state.send_replace(ConnectionState::Connecting(Phase::Address));
        let opener = Opener {
            before: self.client.clone(),
            spec: Arc::clone(&self.spec),
            cluster_index: self.cluster_index,
            options: Arc::clone(&self.options),
            ports: Arc::clone(&self.ports),
            out: self.out.clone(),
            state: self.server.state.clone(),
            reach: self.reach.clone(),
            tokens: Arc::clone(&self.tokens),
            mode: self.mode,
        };
        let up = opener.open();
        tokio::pin!(up);
        loop {
            tokio::select! {
                session = &mut up => return session.map_err(End::Lost),
                // A connection attempt is already running.
                Some(request) = self.server.requests.recv() => decline(request),
                request = self.requests.recv() => {
                    if let Some(end) = self.handle_while_down(request).await {
                        return Err(end);
                    }
                }
            }
        }
    }

    /// Waits before the next attempt: until the backoff is over, a reconnect is requested or the network changes; if
    /// `manual`, only until a reconnect is requested.
    async fn wait_to_retry(&mut self, problem: Problem, manual: bool) -> End {
        let problem = self.with_start_time(problem);
        let is_seen = self.focused || self.mode == PollMode::OnDemand;
        let wait = self.backoff.next(if is_seen { MAX_BACKOFF } else { MAX_BACKOFF_BACKGROUND });
        let requested = match problem.kind {
            ProblemKind::Quota { after } => after,
            _ => Duration::ZERO,
        };
        let wait = wait.max(requested);
        // For display only. The wait uses the monotonic clock, because the wall clock may be set back.
        let at = Timestamp::now().plus(wait);
        let over = tokio::time::sleep(wait);
        tokio::pin!(over);
        tracing::warn!(cluster = %self.spec.name, what = %problem.what, "link down");
        self.server.state.send_replace(ConnectionState::Down {
            problem: problem.clone(),
            retry_at: (!manual).then_some(at),
            attempt: self.attempt,
            is_lost: self.is_lost,
        });
        let link = if manual { Link::Stopped { problem } } else { Link::Retrying { problem, at } };
        self.out.send(ClusterEvent::Link(link)).await;
        self.wakes.mark_unchanged();
        loop {
            tokio::select! {
                () = &mut over, if !manual => return End::Again,
                // The monotonic clock stops while the machine sleeps; the wake-up is noticed here.
                Ok(()) = self.wakes.changed(), if !manual => {
                    self.backoff.reset();
                    return End::Again;
                }
                Some(request) = self.server.requests.recv() => {
                    decline(request);
                    return End::Again;
                }
                request = self.requests.recv() => {
                    let is_opened = matches!(request, Some(Request::Focus(true))) && !self.focused;
                    if let Some(end) = self.handle_while_down(request).await {
                        return end;
                    }
                    // The backoff was that of a cluster that was not on the screen.
                    if is_opened && !manual {
                        return End::Again;
                    }
                }
            }
        }
    }

    /// Handles a request without a connection. `Some` ends the current phase.
    async fn handle_while_down(&mut self, request: Option<Request>) -> Option<End> {
        match request {
            None => return Some(End::Closed),
            Some(Request::Reconnect | Request::Refresh) => {
                self.backoff.reset();
                return Some(End::Again);
            }
            Some(Request::TrustHostKey(fingerprint)) => {
                let trusted = login::trust(&self.spec, &self.options, &fingerprint).await;
                return Some(match trusted {
                    Ok(()) => End::Again,
                    Err(problem) => End::Stuck(problem),
                });
            }
            Some(Request::StopJob(id)) => {
                let outcome = JobStopOutcome::Failed("the cluster is not connected; nothing was sent".into());
                self.out.send(ClusterEvent::JobStop { id, outcome }).await;
            }
            Some(Request::DeleteJob(id)) => {
                let outcome = Err("the cluster is not connected; nothing was sent".into());
                self.out.send(ClusterEvent::JobDelete { id, outcome }).await;
            }
            Some(Request::Work(job)) => {
                let work = Err("the cluster is not connected".into());
                self.out.send(ClusterEvent::Work { job, work }).await;
            }
            Some(Request::Inspect(subject)) => {
                let why = Err("the cluster is not connected".into());
                self.out.send(ClusterEvent::Inspected(subject, why)).await;
            }
            Some(Request::Operated(is_at_work)) => self.out.operated(is_at_work).await,
            Some(other) => self.remember(other),
        }
        None
    }

    /// Records the part of a request that is remembered, connected or not.
    pub fn remember(&mut self, request: Request) {
        match request {
            Request::Focus(focused) => self.focused = focused,
            Request::Visible(nodes) => self.visible = nodes,
            Request::Follow(stream, source) => self.streams.open(stream, source, &self.out),
            Request::FollowSeveral(logs) => self.streams.open_several(logs, &self.out),
            Request::OlderLog(stream, before) => self.streams.ask_older(stream, before),
            Request::SearchLog(stream, pattern) => self.streams.search(stream, pattern, &self.out),
            Request::SearchFiles(search_files) => self.streams.search_files(*search_files, &self.out),
            Request::DownloadLog(stream, pattern) => self.streams.download(stream, pattern, &self.out),
            Request::Unfollow(stream) => self.streams.close(stream),
            Request::Ports(true) => self.forwarded.extend(Service::ALL),
            Request::Ports(false) => self.forwarded.clear(),
            Request::Refresh
            | Request::Reconnect
            | Request::StopJob(_)
            | Request::DeleteJob(_)
            | Request::Work(_)
            | Request::Inspect(_)
            | Request::TrustHostKey(_)
            | Request::Operated(_)
            // Handled by another task.
            | Request::Cloud
            | Request::CleanPreempted(_) => {}
        }
    }

    /// Publishes the current connection to all its holders.
    pub fn publish(&self, session: &Session) {
        let login = self.reach.borrow().login.clone();
        let channel = Channel::new(session, login, self.attempt);
        self.server.state.send_replace(ConnectionState::Up(Box::new(channel)));
    }

    /// The problem with its start time: a problem that stays the same keeps it.
    pub fn with_start_time(&mut self, mut problem: Problem) -> Problem {
        let kind = discriminant(&problem.kind);
        match self.current_problem {
            Some((same, since)) if same == kind => problem.since = since,
            _ => self.current_problem = Some((kind, problem.since)),
        }
        problem
    }
}

/// Answers requests to a connection that is gone: a token renewal succeeds, a forward fails.
fn decline(request: ConnectionRequest) {
    // The requester may have given up.
    match request {
        ConnectionRequest::Renew { reply, .. } => drop(reply.send(Ok(()))),
        ConnectionRequest::Forward { reply, .. } => {
            let what = "connection lost before the ports were opened";
            let problem = Problem::new(ProblemKind::TunnelLost, what, "try again", Timestamp::now());
            drop(reply.send(Err(problem)));
        }
        ConnectionRequest::Connect | ConnectionRequest::Refresh | ConnectionRequest::Reconnect { .. } => {}
    }
}

/// Whether a problem requires action by the operator, so that it is not retried automatically.
fn needs_operator(kind: &ProblemKind) -> bool {
    matches!(kind, ProblemKind::HostKeyChanged { .. } | ProblemKind::Config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Folders, Settings};
    use crate::model::{HeadAddress, HostName, Provider};
    use crate::state::Update;
    use crate::supervisor::Supervisor;
    use crate::token::TokenSources;

    const DEADLINE: Duration = Duration::from_secs(30);

    async fn until(receiver: &mut mpsc::Receiver<Update>, what: &str, is: impl Fn(&Link) -> bool) {
        let wait = async {
            while let Some(update) = receiver.recv().await {
                if matches!(&update.event, ClusterEvent::Link(link) if is(link)) {
                    return;
                }
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("timed out waiting for {what}"));
    }

    #[tokio::test]
    async fn a_failed_host_key_acceptance_is_shown_until_a_retry() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::new(&[("HOME", home.path().to_str().unwrap())], home.path());
        let mut options = Options::new(&Settings::default(), &Folders::new(&env), TokenSources::default());
        // No directory can be created in the kernel's own file system.
        (options.known_hosts, options.run_dir) = ("/proc/none/known_hosts".into(), home.path().join("r"));
        let spec = ClusterSpec {
            head: HeadAddress::Ssh(HostName::parse("127.0.0.1").unwrap()),
            ..ClusterSpec::sample("a", Provider::Local)
        };
        let name = spec.name.clone();
        let (updates, mut receiver) = mpsc::channel(64);
        let supervisor = Supervisor::start(vec![spec], options, &updates);
        until(&mut receiver, "a failed connection", |link| matches!(link, Link::Retrying { .. })).await;
        supervisor.ask(&name, Request::TrustHostKey("SHA256:new".into()));
        let why =
            |link: &Link| matches!(link, Link::Stopped { problem } if problem.what.contains("/proc/none"));
        until(&mut receiver, "the reason why the key was not accepted", why).await;
        supervisor.ask(&name, Request::Reconnect);
        until(&mut receiver, "a retry", |link| matches!(link, Link::Connecting { .. })).await;
        supervisor.shutdown().await;
    }
}
