//! Serves a session while it is up: polling, requests, machine figures, and detecting that it is down.

mod grant;

use super::Options;
use super::connect;
use super::connection::ConnectionState;
use super::limits::with_limits;
use super::lock::{self, AbortOnDrop};
use super::log_access::LogAccess;
use super::machines::Machines;
use super::opened::{self, Session};
use super::out::PollMode;
use super::polling::{Polling, spread};
use super::recovery::{self, Recovery};
use super::task::{ClusterTask, End};
use super::vitals::{LogHost, Watch};
use super::{cost::CostMeter, stop};
use crate::model::{
    ClusterEvent, Link, LocalPorts, NodeId, Phase, Physical, Problem, Request, Snapshot, Timestamp,
};
use crate::ray::{Client, Poller, RayError};
use crate::ssh::SshError;
use crate::task;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

/// Interval for machine figures, our own load on the head, and the round trip.
const TICK: Duration = Duration::from_secs(2);
/// Interval at which a small request measures the round trip.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Time without an answer after which the dashboard of the cluster on the screen is sent a small request.
const DASHBOARD_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum interval between refreshes of the cluster on the screen, however slow its head is.
const MAX_VISIBLE_PAUSE: Duration = Duration::from_secs(10);
/// Time limit for the check of a connection after a wake-up.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before the next refresh of a slow head, as a multiple of its response time.
const PAUSE_FACTOR: u32 = 5;
/// Maximum pause after a failed refresh of the cluster on the screen.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Maximum pause after a failed refresh of another cluster.
const MAX_PAUSE_BACKGROUND: Duration = Duration::from_secs(15);

/// Number of other tokens that are tried without a pause, as in a command. Two tokens that are both refused would
/// alternate forever; after this number there is a pause between attempts.
const MAX_RENEWALS: usize = 3;
/// Maximum number of jobs that are stopped or deleted at the same time.
const AT_ONCE: usize = 8;

/// Result of a small request outside polling: ping, recovery check, or machine figures.
enum ProbeResult {
    /// The measured round-trip time.
    Latency(Result<Duration, RayError>),
    /// CPU and memory figures of nodes.
    Figures(Vec<(NodeId, Physical)>),
    /// Whether the head responds again.
    Recovery(bool),
}

/// State that lives as long as a session.
struct Serving {
    session: Session,
    polling: Polling,
    /// Small requests in progress, outside polling.
    probes: JoinSet<ProbeResult>,
    machines: Machines,
    watch: Watch,
    cost: CostMeter,
    recovery: Recovery,
    /// Duration of the last refresh.
    took: Duration,
    /// When the round trip was last measured. The first answer's time includes opening a connection.
    pinged: Option<Instant>,
    /// The last measured round-trip time.
    latency: Option<Duration>,
    /// When the dashboard last answered.
    dashboard_seen: Option<Instant>,
    /// The problem of the dashboard; `None` while it responds.
    dashboard: Option<Problem>,
    /// Time of the first answer since the head came up; `None` while it does not respond as expected.
    up_since: Option<Timestamp>,
    /// Whether the last answer came from the GCS.
    over_gcs: bool,
    refusals: u64,
    /// Number of other tokens that were tried since the head last accepted one.
    renewals: usize,
    /// Limits concurrent requests when many jobs are stopped.
    permits: Arc<Semaphore>,
    changed: mpsc::UnboundedSender<()>,
}

impl Serving {
    /// The state at the start of a session. `changed` reports jobs that were stopped or deleted.
    fn new(session: Session, mode: PollMode, options: &Options, changed: mpsc::UnboundedSender<()>) -> Self {
        Self {
            polling: Polling::new(&session.client, mode),
            probes: JoinSet::new(),
            machines: Machines::default(),
            watch: Watch::new(options.vitals, options.patterns.clone()),
            cost: CostMeter::default(),
            recovery: Recovery::default(),
            took: Duration::ZERO,
            pinged: None,
            latency: session.latency,
            dashboard_seen: session.latency.map(|_| Instant::now()),
            dashboard: session.dashboard.clone(),
            up_since: None,
            over_gcs: false,
            refusals: 0,
            renewals: 0,
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            changed,
            session,
        }
    }
}

impl ClusterTask {
    /// Serves requests and polls until the session ends.
    pub async fn serve(&mut self, session: Session) -> End {
        let (changed, mut changes) = mpsc::unbounded_channel();
        let mut s = Serving::new(session, self.mode, &self.options, changed);
        self.begin(&mut s).await;
        let _lock_watch = self.watch_lock(&s.session);
        let end = self.serve_until_end(&mut s, &mut changes).await;
        // No new work starts over a connection that is being closed.
        self.server.state.send_replace(ConnectionState::Connecting(Phase::Address));
        if s.session.tunnel.as_ref().is_some_and(|(_, ports)| !ports.open().is_empty()) {
            // The ports are closed with the connection.
            self.out.send(ClusterEvent::Ports { open: LocalPorts::new(), notes: Vec::new() }).await;
        }
        s.session.close().await;
        end
    }

    /// Makes the session available to log streams, local ports and the holders of the connection.
    async fn begin(&mut self, s: &mut Serving) {
        self.client = Some(s.session.client.clone());
        self.out.send(ClusterEvent::Vitals(s.watch.unread())).await;
        self.streams.set_access(Some(LogAccess {
            client: s.session.client.clone(),
            remote: s.session.tunnel.as_ref().map(|(tunnel, _)| tunnel.remote()),
            login: self.reach.borrow().login.clone(),
            head: None,
            nudges: 0,
        }));
        if !self.forwarded.is_empty() {
            // A port that cannot be opened is reported as an event.
            drop(self.open_ports(s).await);
        }
        self.publish(&s.session);
    }

    /// Reads the lock of an operation at intervals, for a screen, until the returned value is dropped.
    fn watch_lock(&self, session: &Session) -> Option<AbortOnDrop> {
        let (tunnel, _) = session.tunnel.as_ref().filter(|_| self.mode == PollMode::Polling)?;
        let (spec, options) = (Arc::clone(&self.spec), Arc::clone(&self.options));
        lock::watch(tunnel.remote(), spec, options, self.out.clone())
    }

    /// Polls and handles requests, answers and wake-ups until the session ends. `changes` reports jobs that were
    /// stopped or deleted.
    async fn serve_until_end(&mut self, s: &mut Serving, changes: &mut mpsc::UnboundedReceiver<()>) -> End {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut recovery_tick = interval(recovery::INTERVAL);
        recovery_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.wakes.mark_unchanged();
        loop {
            tokio::select! {
                why = tunnel_end(&s.session) => return End::Lost(why.problem(Timestamp::now())),
                request = self.requests.recv() => {
                    if let Some(end) = self.handle(request, s).await {
                        return end;
                    }
                }
                Some(request) = self.server.requests.recv() => {
                    if let Some(end) = self.grant(request, s).await {
                        return end;
                    }
                }
                () = sleep_until(s.polling.due.into()), if s.polling.poller.is_some() => s.polling.start(),
                Some((took, result)) = s.polling.finished() => self.refreshed(took, result, s).await,
                Some(()) = changes.recv() => s.polling.request(),
                Some(cluster_vitals) = s.watch.finished() => self.out.send(ClusterEvent::Vitals(cluster_vitals)).await,
                Some(Ok(answer)) = s.probes.join_next() => self.answered(answer, s).await,
                _ = tick.tick(), if self.mode == PollMode::Polling => self.tick(s).await,
                _ = recovery_tick.tick(), if self.mode == PollMode::Polling => self.probe_recovery(s),
                Ok(()) = self.wakes.changed() => {
                    if let Some(end) = self.probe(s).await {
                        return end;
                    }
                }
            }
        }
    }

    /// Handles a request while the session is up.
    async fn handle(&mut self, request: Option<Request>, s: &mut Serving) -> Option<End> {
        match request {
            None => return Some(End::Closed),
            Some(Request::Reconnect) => return Some(End::Again),
            Some(Request::Ports(open)) => self.want_ports(open, s).await,
            Some(Request::Operated(is_at_work)) => self.out.operated(is_at_work).await,
            Some(Request::Refresh) => {
                s.polling.request();
                self.streams.nudge();
            }
            Some(Request::StopJob(id)) => {
                let ray = stop::CurrentClient::new(s.session.client.clone(), self.server.state.subscribe());
                let (out, changed, permits) = (self.out.clone(), s.changed.clone(), Arc::clone(&s.permits));
                task::spawn(async move { stop::stop_and_watch(ray, id, out, changed, &permits).await });
            }
            Some(Request::DeleteJob(id)) => {
                let client = s.session.client.clone();
                let (out, changed, permits) = (self.out.clone(), s.changed.clone(), Arc::clone(&s.permits));
                task::spawn(async move {
                    let _permit = permits.acquire().await;
                    let outcome = stop::delete_job(&client, &id).await;
                    out.send(ClusterEvent::JobDelete { id, outcome }).await;
                    // The session may have ended in the meantime.
                    let _ = changed.send(());
                });
            }
            Some(Request::Work(job)) => {
                s.watch.open(&job);
                let (client, out) = (s.session.client.clone(), self.out.clone());
                // Spawned separately: the caller waits for the answer even if the session ends.
                task::spawn(async move {
                    let work = client.work(&job).await.map(Box::new).map_err(|e| e.to_string());
                    out.send(ClusterEvent::Work { job, work }).await;
                });
            }
            Some(Request::Inspect(subject)) => {
                let (client, out) = (s.session.client.clone(), self.out.clone());
                task::spawn(async move {
                    let inspected = client.inspect(&subject).await.map(Box::new).map_err(|e| e.to_string());
                    out.send(ClusterEvent::Inspected(subject, inspected)).await;
                });
            }
            Some(other) => {
                if let Request::Focus(true) = other {
                    s.polling.request();
                    s.watch.hasten();
                }
                self.remember(other);
            }
        }
        None
    }

    /// Handles the result of a refresh.
    async fn refreshed(&mut self, took: Duration, result: Result<Snapshot, RayError>, s: &mut Serving) {
        match result {
            Ok(mut snapshot) => {
                let base = match (self.focused, s.up_since) {
                    (true, _) => self.options.focused,
                    (false, None) => spread(self.options.background, self.cluster_index),
                    (false, Some(_)) => self.options.background,
                };
                let over_gcs = s.polling.poller.as_ref().is_some_and(Poller::over_gcs);
                // The time was spent on switching channels, so it is not the cost of a refresh.
                let is_moved = s.up_since.is_some() && s.over_gcs != over_gcs;
                let slow = if is_moved { Duration::ZERO } else { took * PAUSE_FACTOR };
                s.polling.schedule(base.max(if self.focused { slow.min(MAX_VISIBLE_PAUSE) } else { slow }));
                self.backoff.reset();
                s.recovery.refresh_succeeded();
                s.took = took;
                if self.current_problem.take().is_some() {
                    // Logs recover with the cluster, even those without new lines.
                    self.streams.nudge();
                }
                s.renewals = 0;
                self.streams
                    .set_head(snapshot.nodes.iter().find(|n| n.is_head && n.state.is_alive()).map(|n| n.id));
                let report = Arc::unwrap_or_clone(snapshot.autoscaler);
                snapshot.autoscaler = Arc::new(with_limits(report, &self.spec));
                s.watch.update(&snapshot);
                // The snapshot goes first: when the link is reported as up, the state shown must be the new one.
                self.out.send(ClusterEvent::Snapshot(Arc::new(snapshot))).await;
                if s.up_since.is_none() || s.over_gcs != over_gcs {
                    s.up_since.get_or_insert_with(Timestamp::now);
                    s.over_gcs = over_gcs;
                    self.report_up(s).await;
                }
            }
            Err(error) => self.refresh_failed(&error, s).await,
        }
    }

    /// Handles a failed refresh over a working tunnel.
    async fn refresh_failed(&mut self, error: &RayError, s: &mut Serving) {
        let now = Timestamp::now();
        let refusals = s.session.refusals();
        let refused = std::mem::replace(&mut s.refusals, refusals) < refusals;
        let mut problem = error.problem(now);
        s.up_since = None;
        s.recovery.refresh_failed(problem.kind.is_of_token());
        if problem.kind.is_of_token() {
            // Google may be slow, so the problem is reported first, and only once.
            if self.current_problem.is_none_or(|(kind, _)| kind != discriminant(&problem.kind)) {
                let problem = Problem { hint: "looking for a new token".into(), ..problem.clone() };
                self.out.send(ClusterEvent::Link(Link::Retrying { problem, at: now })).await;
            }
            match self.renew(s).await {
                Ok(()) => {
                    s.renewals += 1;
                    if s.renewals <= MAX_RENEWALS {
                        return;
                    }
                }
                Err(found_none) => problem = found_none,
            }
        } else if refused {
            problem = opened::dashboard_down(&s.session.client).await;
        }
        let problem = self.with_start_time(problem);
        let longest = if self.focused { MAX_PAUSE } else { MAX_PAUSE_BACKGROUND };
        let pause = s.polling.schedule(self.backoff.next(longest));
        tracing::warn!(cluster = %self.spec.name, what = %problem.what, "refresh failed");
        self.out.send(ClusterEvent::Link(Link::Retrying { problem, at: now.plus(pause) })).await;
    }

    /// Sends a small request to a head that does not respond or is slow.
    fn probe_recovery(&self, s: &mut Serving) {
        if s.recovery.gives_up(s.polling.waited()) {
            s.polling = Polling::new(&s.session.client, self.mode);
        }
        let has_reason = self.current_problem.is_some() || s.polling.waited() > recovery::SLOW_REFRESH;
        if s.recovery.should_probe(has_reason) {
            let client = s.session.client.clone();
            task::spawn_on(&mut s.probes, async move {
                let answer = tokio::time::timeout(recovery::TIMEOUT, connect::ping(&client)).await;
                ProbeResult::Recovery(matches!(answer, Ok(Ok(_))))
            });
        }
    }

    /// Runs every two seconds: reports our load on the head, measures the round trip and requests machine figures.
    async fn tick(&mut self, s: &mut Serving) {
        let now = Instant::now();
        let meter = s.session.client.meter();
        let requests = meter.http.requests() + meter.gcs.requests();
        let bytes = meter.http.bytes() + meter.gcs.bytes();
        self.out.send(ClusterEvent::Cost(s.cost.sample(now, requests, bytes))).await;
        if s.up_since.is_none() {
            return;
        }
        if s.dashboard.is_none() {
            let remote = s.session.tunnel.as_ref().map(|(tunnel, _)| tunnel.remote());
            let head = remote.map(|remote| LogHost { remote, spec: Arc::clone(&self.spec) });
            s.watch.start(&s.session.client, head, self.focused);
        }
        if self.is_ping_due(s, now) {
            let first = s.pinged.replace(now).is_none();
            let client = s.session.client.clone();
            task::spawn_on(&mut s.probes, async move {
                if first {
                    // Opens the connection on which later requests are measured; a failure will occur again and be
                    // reported then.
                    let _ = connect::ping(&client).await;
                }
                ProbeResult::Latency(connect::ping(&client).await)
            });
        }
        if !self.visible.is_empty() && s.probes.is_empty() && s.dashboard.is_none() {
            let round = s.machines.next_round(&self.visible, now);
            if !round.is_empty() {
                task::spawn_on(&mut s.probes, figures(s.session.client.clone(), round));
            }
        }
    }

    /// Whether a small request is due: to measure the round trip; because the dashboard of the cluster on the screen
    /// has been quiet; or, at every tick, because it does not respond and may have recovered.
    fn is_ping_due(&self, s: &Serving, now: Instant) -> bool {
        let older = |at: Option<Instant>, than| at.is_none_or(|at| now.duration_since(at) >= than);
        let quiet = self.focused
            && older(s.dashboard_seen, DASHBOARD_INTERVAL)
            && older(s.pinged, DASHBOARD_INTERVAL);
        older(s.pinged, PING_INTERVAL)
            || quiet
            || s.dashboard.is_some() && older(s.pinged, connect::PING_TIMEOUT)
    }

    async fn answered(&mut self, answer: ProbeResult, s: &mut Serving) {
        match answer {
            ProbeResult::Latency(Ok(latency)) => {
                s.latency = Some(latency);
                s.dashboard_seen = Some(Instant::now());
                s.dashboard = None;
                self.report_up(s).await;
            }
            // If the state comes through the dashboard, the next refresh fails as well and reports it.
            ProbeResult::Latency(Err(e)) => {
                s.latency = None;
                let since = s.dashboard.as_ref().map_or_else(Timestamp::now, |before| before.since);
                s.dashboard = s.over_gcs.then(|| e.problem(since));
                self.report_up(s).await;
            }
            ProbeResult::Recovery(responds) => {
                if s.recovery.answered(responds) {
                    tracing::info!(cluster = %self.spec.name, "the head responds again");
                    s.polling.request_if_idle();
                } else if !responds
                    && s.polling.waited() > recovery::NOT_RESPONDING
                    && s.took < recovery::NOT_RESPONDING
                {
                    self.report_silent(s).await;
                }
            }
            ProbeResult::Figures(figures) if figures.is_empty() => {}
            ProbeResult::Figures(figures) => {
                s.dashboard_seen = Some(Instant::now());
                self.out.send(ClusterEvent::Physical(figures)).await;
            }
        }
    }

    /// Checks the connection after sleep or a network change; it is replaced unless it responds within seconds.
    async fn probe(&mut self, s: &mut Serving) -> Option<End> {
        let (client, has_dashboard) = (s.session.client.clone(), !s.over_gcs || s.dashboard.is_none());
        let probe = async {
            // While the dashboard is down, only the GCS shows whether the connection works.
            if has_dashboard {
                connect::ping(&client).await.is_ok()
            } else {
                client.gcs_wants_token().await.is_ok()
            }
        };
        if tokio::time::timeout(PROBE_TIMEOUT, probe).await == Ok(true) {
            s.polling.request();
            self.streams.nudge();
            return None;
        }
        tracing::info!(cluster = %self.spec.name, "the connection was lost");
        Some(End::Again)
    }

    /// Reports that the head answers neither a refresh nor a small request. The refresh remains pending.
    async fn report_silent(&mut self, s: &mut Serving) {
        let now = Timestamp::now();
        let words = format!(
            "neither the dashboard nor the GCS responded within {} s",
            recovery::NOT_RESPONDING.as_secs()
        );
        s.up_since = None;
        let problem = self.with_start_time(RayError::Silent(words).problem(now));
        tracing::warn!(cluster = %self.spec.name, what = %problem.what, "silent");
        self.out.send(ClusterEvent::Link(Link::Retrying { problem, at: now.plus(recovery::INTERVAL) })).await;
    }

    async fn report_up(&self, s: &Serving) {
        let Some(since) = s.up_since else { return };
        let token_auth = s.session.token.is_some();
        let dashboard = s.dashboard.clone().filter(|_| s.over_gcs);
        let link = Link::Up { since, latency: s.latency, gcs: s.over_gcs, token_auth, dashboard };
        self.out.send(ClusterEvent::Link(link)).await;
    }
}

/// Resolves when the connection ends; pends forever if there is none.
async fn tunnel_end(session: &Session) -> SshError {
    match &session.tunnel {
        Some((tunnel, _)) => tunnel.closed().await,
        None => std::future::pending().await,
    }
}

async fn figures(client: Client, nodes: Vec<NodeId>) -> ProbeResult {
    let mut figures = Vec::with_capacity(nodes.len());
    for id in nodes {
        // A node that does not respond keeps its previous figures.
        if let Ok(Some(physical)) = client.physical(id).await {
            figures.push((id, physical));
        }
    }
    ProbeResult::Figures(figures)
}
