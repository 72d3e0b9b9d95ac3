//! Opens a connection: the head's address, the tunnel, the dashboard's first answer, the token.

use super::connection::ConnectionState;
use super::discover::{Found, head_address};
use super::lock;
use super::login::{first_contact, tunnel_spec};
use super::opened::{GCS_INSTEAD, Session, dashboard_down};
use super::out::{PollMode, UpdateSender};
use super::ports::Ports;
use super::{Options, Reach, TokenManager};
use crate::model::{
    ClusterEvent, ClusterSpec, HeadAddress, Link, Phase, Problem, ProblemKind, Secret, Service, Timestamp,
};
use crate::ray::{Client, Endpoint, RayError};
use crate::ssh::{Forward, Local, PortPlan, Tunnel};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A dashboard that has just started accepts connections 5 to 12 s before it answers (measured on 2.53 and 2.60).
const FIRST_ANSWER: Duration = Duration::from_secs(15);
/// Interval at which the first request is repeated while the dashboard does not answer.
const ASK_AGAIN: Duration = Duration::from_secs(3);

/// The target of a new session, and its options.
pub struct Opener {
    /// The client of the previous session, if any; log streams that still use it continue.
    pub before: Option<Client>,
    /// The cluster to connect to.
    pub spec: Arc<ClusterSpec>,
    /// Its index in the list, which determines its local ports.
    pub cluster_index: usize,
    /// Options shared by all tasks.
    pub options: Arc<Options>,
    /// Local ports of all clusters.
    pub ports: Arc<Mutex<PortPlan>>,
    /// Receiver of progress events.
    pub out: UpdateSender,
    /// Publishes the connection state to all holders of the connection.
    pub state: watch::Sender<ConnectionState>,
    /// Publishes what a front end can reach.
    pub reach: watch::Sender<Reach>,
    /// Token lookup and refresh.
    pub tokens: Arc<TokenManager>,
    /// For a screen, which also shows the state and other operators' operations while the dashboard does not respond;
    /// or for a command.
    pub mode: PollMode,
}

impl Opener {
    /// Makes one attempt to open a session.
    pub async fn open(self) -> Result<Session, Problem> {
        let (tunnel, endpoint) = if let HeadAddress::Direct { dashboard, gcs } = &self.spec.head {
            self.reach.send_replace(Reach::default());
            (None, Endpoint::Direct { dashboard: dashboard.clone(), gcs: gcs.clone() })
        } else {
            self.report(Phase::Address).await;
            let Found { host, note } = head_address(&self.spec, &self.options, Some(&self.out)).await?;
            self.report(Phase::Tunnel).await;
            let ours = [Service::Dashboard, Service::Gcs];
            let forwards = ours.map(|s| Forward { local: Local::Socket, remote: s.port() }).to_vec();
            let tunnel = Tunnel::open(tunnel_spec(&self.spec, &self.options, host.clone(), forwards)).await;
            let tunnel = tunnel.map_err(|e| e.problem(Timestamp::now()))?;
            let contact = first_contact(&tunnel, &self.spec, &self.options);
            for note in note.into_iter().chain(contact) {
                self.out.send(ClusterEvent::Note(note)).await;
            }
            let login = Some(tunnel_spec(&self.spec, &self.options, host, Vec::new()));
            self.reach.send_replace(Reach { login });
            let [dashboard, gcs] =
                ours.map(|s| tunnel.socket(s.port()).map(Path::to_owned).unwrap_or_default());
            (
                Some((tunnel, Ports::new(&self.ports, self.cluster_index))),
                Endpoint::Sockets { dashboard, gcs },
            )
        };
        self.report(Phase::Dashboard).await;
        self.attach(tunnel, endpoint).await
    }

    async fn report(&self, phase: Phase) {
        self.state.send_replace(ConnectionState::Connecting(phase));
        self.out.send(ClusterEvent::Link(Link::Connecting { phase, since: Timestamp::now() })).await;
    }

    /// Asks the dashboard whether it requires a token, and looks the token up if so.
    async fn attach(&self, tunnel: Option<(Tunnel, Ports)>, endpoint: Endpoint) -> Result<Session, Problem> {
        let client = match &self.before {
            Some(before) if *before.endpoint() == endpoint => before.clone(),
            _ => Client::new(endpoint, None).map_err(|e| e.problem(Timestamp::now()))?,
        };
        let mut session = Session { tunnel, client, token: None, latency: None, dashboard: None };
        let opened = async {
            if first_answer(&mut session, self.mode).await? {
                put_token(&mut session, self.tokens.token(&self.spec).await?)?;
            }
            Ok(())
        };
        match opened.await {
            Ok(()) => Ok(session),
            Err(problem) => {
                let polled = session.tunnel.as_ref().filter(|_| self.mode == PollMode::Polling);
                if let Some((tunnel, _)) = polled {
                    lock::report(&tunnel.remote(), &self.spec, &self.options, &self.out).await;
                }
                session.close().await;
                Err(problem)
            }
        }
    }
}

/// Whether the cluster requires a token. The first answer may take long on a head that has just started; a refused
/// channel counts as an answer. The console can use the GCS while the dashboard is silent, because the GCS provides
/// most of the state and the dashboard is retried. A command needs the dashboard.
async fn first_answer(session: &mut Session, mode: PollMode) -> Result<bool, Problem> {
    let client = session.client.clone();
    let dashboard = async {
        let began = Instant::now();
        let answer = tokio::time::timeout(FIRST_ANSWER, repeated(|| wants_token(&client))).await;
        (began.elapsed(), answer)
    };
    tokio::pin!(dashboard);
    let instead = async {
        tokio::time::sleep(GCS_INSTEAD).await;
        client.gcs_wants_token().await
    };
    let (took, answer) = tokio::select! {
        answer = &mut dashboard => answer,
        Ok(wanted) = instead, if mode == PollMode::Polling => {
            session.dashboard = Some(no_answer_within(GCS_INSTEAD));
            return Ok(wanted);
        }
    };
    let problem = match answer {
        Ok(Ok(wanted)) => {
            session.latency = Some(took);
            return Ok(wanted);
        }
        Ok(Err(_)) if session.refusals() > 0 => dashboard_down(&client).await,
        Ok(Err(e)) => e.problem(Timestamp::now()),
        Err(_) => no_answer_within(FIRST_ANSWER),
    };
    if mode == PollMode::Polling
        && problem.kind == ProblemKind::DashboardSilent
        && let Ok(Ok(wanted)) = tokio::time::timeout(GCS_INSTEAD, client.gcs_wants_token()).await
    {
        session.dashboard = Some(problem);
        return Ok(wanted);
    }
    Err(problem)
}

/// The first answer to a request that is repeated every few seconds: a request sent to a hanging head may never be
/// answered.
async fn repeated<T, F: Future<Output = T>>(ask: impl Fn() -> F) -> T {
    let mut pending = FuturesUnordered::new();
    loop {
        pending.push(ask());
        tokio::select! {
            Some(answer) = pending.next() => return answer,
            () = tokio::time::sleep(ASK_AGAIN) => {}
        }
    }
}

fn no_answer_within(time: Duration) -> Problem {
    let what = format!("the dashboard accepts connections but did not respond within {} s", time.as_secs());
    let hint = "a new head needs some seconds; if this persists, check dashboard.log on the head";
    Problem::new(ProblemKind::DashboardSilent, what, hint, Timestamp::now())
}

/// Ray before 2.52 knows neither tokens nor this route.
async fn wants_token(client: &Client) -> Result<bool, RayError> {
    match client.wants_token().await {
        Err(RayError::NotFound(_)) => Ok(false),
        answer => answer,
    }
}

/// A dashboard that does not answer a small request within this time counts as not responding.
pub const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// A small request that needs no token: its time is the round trip, at most [`PING_TIMEOUT`].
pub async fn ping(client: &Client) -> Result<Duration, RayError> {
    let began = Instant::now();
    match tokio::time::timeout(PING_TIMEOUT, wants_token(client)).await {
        Ok(answer) => answer.map(|_| began.elapsed()),
        Err(_) => Err(RayError::Silent(format!("no response within {} s", PING_TIMEOUT.as_secs()))),
    }
}

/// Looks for another token after the cluster refused ours, at Google's too; the session's client has it then.
pub async fn renew_token(
    spec: &ClusterSpec,
    tokens: &Arc<TokenManager>,
    session: &mut Session,
) -> Result<(), Problem> {
    let token = match session.client.token() {
        Some(refused) => tokens.renew(spec, &refused.clone()).await?,
        None => tokens.token(spec).await?,
    };
    put_token(session, token)
}

/// From now on the session's client sends this token.
fn put_token(session: &mut Session, token: Secret) -> Result<(), Problem> {
    if session.client.token() != Some(&token) {
        let endpoint = session.client.endpoint().clone();
        let client = Client::new(endpoint, Some(token.clone()));
        session.client = client.map_err(|e| e.problem(Timestamp::now()))?;
    }
    session.token = Some(token);
    Ok(())
}
