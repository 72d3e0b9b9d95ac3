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
    ClusterSpec, JobStopOutcome, Link, News, NodeId, Phase, Problem, ProblemKind, Request, Service, Timestamp,
};
use crate::ray::Client;
use crate::ssh::PortPlan;
use std::collections::BTreeSet;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Maximum pause between attempts for the cluster on the screen, or for a command,
const LONGEST_REST: Duration = Duration::from_secs(5);
/// and for another one.
const LONGEST_REST_UNSEEN: Duration = Duration::from_secs(20);

/// Why a phase of the task's life ended.
pub enum End {
    /// The connection was lost.
    Lost(Problem),
    /// A request of the operator could not be carried out: nothing is retried before they have read why.
    Stuck(Problem),
    /// Retry now: on request, or because the network changed.
    Again,
    /// The front end is gone.
    Closed,
}

/// The task of one cluster: it connects, polls and reconnects.
pub struct ClusterTask {
    pub(super) spec: Arc<ClusterSpec>,
    pub(super) place: usize,
    pub(super) options: Arc<Options>,
    ports: Arc<Mutex<PortPlan>>,
    pub(super) out: UpdateSender,
    pub(super) requests: mpsc::UnboundedReceiver<Request>,
    /// The task's end of the connection handle.
    pub(super) held: ConnectionServer,
    /// Number of attempts to connect so far.
    pub(super) attempt: u64,
    /// Whether the last attempt had succeeded.
    is_lost: bool,
    pub(super) pace: PollMode,
    pub(super) wakes: Wakes,
    pub(super) care: Arc<TokenManager>,
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
    pub(super) trouble: Option<(Discriminant<ProblemKind>, Timestamp)>,
}

/// Shared by all clusters' tasks.
pub struct Shared {
    /// Connection options.
    pub options: Arc<Options>,
    /// Local ports by cluster.
    pub ports: Arc<Mutex<PortPlan>>,
    /// Wake-ups after sleep and network changes.
    pub wakes: Wakes,
    /// Token lookup and refresh.
    pub care: Arc<TokenManager>,
}

impl ClusterTask {
    /// For the cluster at this index in the list.
    pub fn new(
        (spec, place): (ClusterSpec, usize),
        shared: &Shared,
        pace: PollMode,
        out: UpdateSender,
        (requests, held): (mpsc::UnboundedReceiver<Request>, ConnectionServer),
        reach: watch::Sender<Reach>,
    ) -> Self {
        let spec = Arc::new(spec);
        Self {
            streams: Streams::new(Arc::clone(&spec), Arc::clone(&shared.options)),
            spec,
            place,
            options: Arc::clone(&shared.options),
            ports: Arc::clone(&shared.ports),
            out,
            requests,
            held,
            attempt: 0,
            is_lost: false,
            pace,
            wakes: shared.wakes.clone(),
            care: Arc::clone(&shared.care),
            reach,
            focused: false,
            visible: Vec::new(),
            forwarded: BTreeSet::new(),
            client: None,
            backoff: Backoff::default(),
            trouble: None,
        }
    }

    /// Runs until the front end is gone.
    pub async fn run(mut self) {
        if self.pace == PollMode::Asked && !self.is_wanted().await {
            return;
        }
        loop {
            let up = self.go_up().await;
            self.is_lost = up.is_ok();
            let mut end = match up {
                Ok(session) => self.serve(session).await,
                Err(end) => end,
            };
            self.streams.set_way(None);
            self.reach.send_replace(Reach::default());
            if let End::Again = end {
                self.backoff.reset();
            }
            loop {
                end = match end {
                    End::Closed => return,
                    End::Again => break,
                    End::Lost(problem) => {
                        let patient = needs_a_person(&problem.kind);
                        self.rest(problem, patient).await
                    }
                    End::Stuck(problem) => self.rest(problem, true).await,
                };
            }
        }
    }

    /// Waits until the connection is requested; false when all requesters are gone.
    async fn is_wanted(&mut self) -> bool {
        tokio::select! {
            Some(request) = self.held.requests.recv() => {
                decline(request);
                true
            }
            // A command's requests are not used, only the end of the channel.
            request = self.requests.recv() => request.is_some(),
        }
    }

    /// Opens a session while handling requests.
    async fn go_up(&mut self) -> Result<Session, End> {
        self.attempt += 1;
        self.held.state.send_replace(ConnectionState::Connecting(Phase::Address));
        let opener = Opener {
            before: self.client.clone(),
            spec: Arc::clone(&self.spec),
            place: self.place,
            options: Arc::clone(&self.options),
            ports: Arc::clone(&self.ports),
            out: self.out.clone(),
            state: self.held.state.clone(),
            reach: self.reach.clone(),
            care: Arc::clone(&self.care),
            pace: self.pace,
        };
        let up = opener.open();
        tokio::pin!(up);
        loop {
            tokio::select! {
                session = &mut up => return session.map_err(End::Lost),
                // A connection attempt is already running.
                Some(request) = self.held.requests.recv() => decline(request),
                request = self.requests.recv() => {
                    if let Some(end) = self.heed_while_down(request).await {
                        return Err(end);
                    }
                }
            }
        }
    }

    /// Waits before the next attempt: until the backoff is over, a reconnect is requested or the network changes; if
    /// `patient`, only until a reconnect is requested.
    async fn rest(&mut self, problem: Problem, patient: bool) -> End {
        let problem = self.dated(problem);
        let is_seen = self.focused || self.pace == PollMode::Asked;
        let wait = self.backoff.next(if is_seen { LONGEST_REST } else { LONGEST_REST_UNSEEN });
        let asked = match problem.kind {
            ProblemKind::Quota { after } => after,
            _ => Duration::ZERO,
        };
        let wait = wait.max(asked);
        // For display only. The wait uses the monotonic clock, because the wall clock may be set back.
        let at = Timestamp::now().plus(wait);
        let over = tokio::time::sleep(wait);
        tokio::pin!(over);
        tracing::warn!(cluster = %self.spec.name, what = %problem.what, "link down");
        self.held.state.send_replace(ConnectionState::Down {
            problem: problem.clone(),
            retry_at: (!patient).then_some(at),
            attempt: self.attempt,
            is_lost: self.is_lost,
        });
        let link = if patient { Link::Stopped { problem } } else { Link::Retrying { problem, at } };
        self.out.send(News::Link(link)).await;
        self.wakes.mark_unchanged();
        loop {
            tokio::select! {
                () = &mut over, if !patient => return End::Again,
                // The monotonic clock stops while the machine sleeps; the wake-up is noticed here.
                Ok(()) = self.wakes.changed(), if !patient => {
                    self.backoff.reset();
                    return End::Again;
                }
                Some(request) = self.held.requests.recv() => {
                    decline(request);
                    return End::Again;
                }
                request = self.requests.recv() => {
                    let is_opened = matches!(request, Some(Request::Focus(true))) && !self.focused;
                    if let Some(end) = self.heed_while_down(request).await {
                        return end;
                    }
                    // The backoff was that of a cluster that was not on the screen.
                    if is_opened && !patient {
                        return End::Again;
                    }
                }
            }
        }
    }

    /// Handles a request without a connection. `Some` ends the current phase.
    async fn heed_while_down(&mut self, request: Option<Request>) -> Option<End> {
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
                self.out.send(News::JobStop { id, outcome }).await;
            }
            Some(Request::DeleteJob(id)) => {
                let outcome = Err("the cluster is not connected; nothing was sent".into());
                self.out.send(News::JobDelete { id, outcome }).await;
            }
            Some(Request::Work(job)) => {
                let work = Err("the cluster is not connected".into());
                self.out.send(News::Work { job, work }).await;
            }
            Some(Request::Inspect(subject)) => {
                let why = Err("the cluster is not connected".into());
                self.out.send(News::Inspected(subject, why)).await;
            }
            Some(Request::Operated(is_at_work)) => self.out.operated(is_at_work).await,
            Some(other) => self.note(other),
        }
        None
    }

    /// Records the part of a request that is remembered, connected or not.
    pub fn note(&mut self, request: Request) {
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
    pub fn hand_out(&self, session: &Session) {
        let login = self.reach.borrow().login.clone();
        let channel = Channel::new(session, login, self.attempt);
        self.held.state.send_replace(ConnectionState::Up(Box::new(channel)));
    }

    /// The problem with its start time: a problem that stays the same keeps it.
    pub fn dated(&mut self, mut problem: Problem) -> Problem {
        let kind = discriminant(&problem.kind);
        match self.trouble {
            Some((same, since)) if same == kind => problem.since = since,
            _ => self.trouble = Some((kind, problem.since)),
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
fn needs_a_person(kind: &ProblemKind) -> bool {
    matches!(kind, ProblemKind::HostKeyChanged { .. } | ProblemKind::Config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Folders, Settings};
    use crate::model::{HeadAddress, HostName, Provider};
    use crate::state::Update;
    use crate::supervisor::Supervisor;
    use crate::token::Places;

    const DEADLINE: Duration = Duration::from_secs(30);

    async fn until(news: &mut mpsc::Receiver<Update>, what: &str, is: impl Fn(&Link) -> bool) {
        let wait = async {
            while let Some(update) = news.recv().await {
                if matches!(&update.news, News::Link(link) if is(link)) {
                    return;
                }
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
    }

    #[tokio::test]
    async fn why_a_host_key_could_not_be_accepted_stays_until_somebody_tries_again() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::new(&[("HOME", home.path().to_str().unwrap())], home.path());
        let mut options = Options::new(&Settings::default(), &Folders::new(&env), Places::default());
        // The kernel's own file system, in which no directory can be created.
        (options.known_hosts, options.run_dir) = ("/proc/none/known_hosts".into(), home.path().join("r"));
        let spec = ClusterSpec {
            head: HeadAddress::Ssh(HostName::parse("127.0.0.1").unwrap()),
            ..ClusterSpec::sample("a", Provider::Local)
        };
        let name = spec.name.clone();
        let (updates, mut news) = mpsc::channel(64);
        let supervisor = Supervisor::start(vec![spec], options, &updates);
        until(&mut news, "a way that is broken", |link| matches!(link, Link::Retrying { .. })).await;
        supervisor.ask(&name, Request::TrustHostKey("SHA256:new".into()));
        let why =
            |link: &Link| matches!(link, Link::Stopped { problem } if problem.what.contains("/proc/none"));
        until(&mut news, "why it was not accepted", why).await;
        supervisor.ask(&name, Request::Reconnect);
        until(&mut news, "another try", |link| matches!(link, Link::Connecting { .. })).await;
        supervisor.shutdown().await;
    }
}
