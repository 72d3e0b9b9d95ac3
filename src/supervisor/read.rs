//! The complete state of a cluster for a command, which reads everything once.

use super::access::Access;
use super::cloud_watch::shared_since;
use super::limits::with_limits;
use super::lock::{keeps_locks, read_lock};
use super::session::connect;
use super::vitals::read_vitals;
use super::{Options, Session, tpu_location};
use crate::model::{
    ClusterEvent, ClusterSpec, ClusterVitals, JobStatus, Link, Phase, Problem, Snapshot, Timestamp,
};
use crate::ray::{Poller, RayError};
use crate::state::ClusterState;
use std::sync::Arc;

/// Reads Ray, Google (unless the settings disable it) and another operator's operation lock. Failures to read are part
/// of the state, as on the screen: a broken connection, a refusal by Google. `on_phase` receives the phases of the
/// connection.
///
/// A single reading knows the start of a condition only if Ray or Google report it, and cannot detect that something
/// has not changed. With `vitals`, the activity of running jobs is read as well: the lists of tasks and actors, and the
/// last lines of their logs.
pub async fn read_state(
    spec: &ClusterSpec,
    cluster_index: usize,
    (options, vitals): (&Options, bool),
    on_phase: impl FnMut(Phase),
) -> ClusterState {
    let ray = async {
        match connect(spec.clone(), cluster_index, options.clone(), on_phase).await {
            Ok(session) => {
                let mut event = read_ray(spec, options, &session).await;
                if vitals {
                    event.extend(read_runs(spec, options, &session, &event).await);
                }
                session.close().await;
                event
            }
            Err(problem) => vec![ClusterEvent::Link(Link::Stopped { problem })],
        }
    };
    Box::pin(derive_state(spec, options, ray)).await
}

/// Like [`read_state`], over an open session.
pub async fn read_open(spec: &ClusterSpec, options: &Options, session: &Session) -> ClusterState {
    Box::pin(derive_state(spec, options, read_ray(spec, options, session))).await
}

/// Derives the state from the answers of Ray and Google, which are queried at the same time.
async fn derive_state(
    spec: &ClusterSpec,
    options: &Options,
    ray: impl Future<Output = Vec<ClusterEvent>>,
) -> ClusterState {
    let google = async {
        // An answer for another cluster in the zone is equally valid.
        let since = shared_since();
        let is_queried = tpu_location(spec).is_ok() && options.cloud_refresh.is_some();
        if is_queried { Some(options.zones.view(spec, &options.google, since).await) } else { None }
    };
    let (cloud, ray) = tokio::join!(google, ray);
    let mut state = ClusterState::new(Arc::new(spec.clone()));
    for event in ray.into_iter().chain(cloud.map(ClusterEvent::Cloud)) {
        state.apply(&event);
    }
    state
}

/// The state of a cluster that cannot be connected to, for this reason.
pub fn unreachable(spec: &ClusterSpec, problem: Problem) -> ClusterState {
    let mut state = ClusterState::new(Arc::new(spec.clone()));
    state.apply(&ClusterEvent::Link(Link::Stopped { problem }));
    state
}

/// The state of a cluster of which only Ray was read, for example to explain why a job is pending.
pub fn state_of(spec: &ClusterSpec, snapshot: Snapshot) -> ClusterState {
    let mut state = ClusterState::new(Arc::new(spec.clone()));
    state.apply(&ClusterEvent::Snapshot(Arc::new(with_file_limits(spec, snapshot))));
    state
}

/// Adds the limits in the cluster file to a snapshot, because not every autoscaler reports them.
fn with_file_limits(spec: &ClusterSpec, snapshot: Snapshot) -> Snapshot {
    let report = with_limits(Arc::unwrap_or_clone(snapshot.autoscaler), spec);
    Snapshot { autoscaler: Arc::new(report), ..snapshot }
}

/// The activity of the running jobs, if the cluster was read.
async fn read_runs(
    spec: &ClusterSpec,
    options: &Options,
    session: &Session,
    event: &[ClusterEvent],
) -> Option<ClusterEvent> {
    let snapshot = event.iter().find_map(|event| match event {
        ClusterEvent::Snapshot(snapshot) => Some(snapshot),
        _ => None,
    })?;
    let running = snapshot.jobs.iter().filter(|job| job.status == JobStatus::Running).cloned().collect();
    let (source, limits) = ((&session.client, session.log_host(spec)), (options.vitals, &options.patterns));
    let read = read_vitals(source, snapshot, running, limits).await;
    let unread = |e: RayError| ClusterVitals {
        missing: vec![format!("activity of jobs unknown: {e}")],
        ..ClusterVitals::default()
    };
    Some(ClusterEvent::Vitals(Arc::new(read.unwrap_or_else(unread))))
}

/// The events of an open session about the cluster, in the order in which a screen would receive it.
async fn read_ray(spec: &ClusterSpec, options: &Options, session: &Session) -> Vec<ClusterEvent> {
    let mut poller = Poller::new(session.client.clone());
    let lock = async {
        let access = Access { spec, options, connection: session.connection() };
        // Findings do not depend on operations, so a lock that cannot be read counts as none.
        if keeps_locks(spec) { read_lock(access).await.ok().flatten() } else { None }
    };
    let ping = super::connect::ping(&session.client);
    let (snapshot, lock, dashboard) = tokio::join!(poller.refresh(), lock, ping);
    let now = Timestamp::now();
    let snapshot = match snapshot {
        Ok(snapshot) => with_file_limits(spec, snapshot),
        Err(e) => return vec![ClusterEvent::Link(Link::Stopped { problem: e.problem(now) })],
    };
    let gcs = poller.over_gcs();
    let (latency, silent) = match dashboard {
        Ok(latency) => (Some(latency), None),
        Err(e) => (None, Some(e.problem(now))),
    };
    let link = Link::Up {
        since: now,
        latency,
        gcs,
        token_auth: session.token.is_some(),
        dashboard: silent.filter(|_| gcs),
    };
    vec![ClusterEvent::Lock(lock), ClusterEvent::Snapshot(Arc::new(snapshot)), ClusterEvent::Link(link)]
}
