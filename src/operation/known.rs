//! What an operation on a whole cluster does besides Google's calls and the ray command, as far as the cluster tells it
//! before the operation begins.

use super::backup::Backed;
use super::call::Call;
use super::cluster::living_workers;
use super::preview::would_back_up;
use super::stop::machines;
use super::worker;
use crate::config::Launch;
use crate::model::{ClusterSpec, Problem, Task, Timestamp};
use crate::ray::Poller;
use crate::supervisor::{self, Options};
use std::collections::BTreeSet;

/// Each in its order.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Behind `ray down`: what clears the machines of a local cluster.
    pub clear: Vec<Call>,
    /// Behind `ray up`: the jobs that are submitted again, with their packages, then workers by hand.
    pub again: Vec<Call>,
}

/// Asks the cluster. One that does not answer tells neither its workers nor its jobs: the operation would not know them
/// either.
pub(super) async fn known(spec: &ClusterSpec, options: &Options, task: &Task) -> Result<Known, Problem> {
    let preserves = matches!(task, Task::Restart { preserve: true });
    let is_local = spec.provider == "local";
    if matches!(task, Task::Start) || !(preserves || is_local) {
        return Ok(Known::default());
    }
    let (workers, backed) = match supervisor::connect(spec.clone(), 0, options.clone(), |_| ()).await {
        Ok(session) => {
            let snapshot = Poller::new(session.client.clone()).refresh().await;
            let backed = if preserves { would_back_up(&session.client).await.ok() } else { None };
            session.close().await;
            let snapshot = snapshot.map_err(|e| e.problem(Timestamp::now()))?;
            (living_workers(&snapshot), backed)
        }
        Err(_) => (Vec::new(), None),
    };
    let mut known = Known::default();
    if preserves {
        known.again = backed.map_or_else(
            || vec![submit("once for each job; which they are cannot be told now")],
            |backed| restoring(&backed),
        );
    }
    if is_local {
        let then = "then what is left of ray and of its jobs is killed";
        let clear = |h: &String| Call::ssh(h, "ray stop --force").noted(then);
        known.clear = machines(spec, &workers).map(clear).collect();
        if matches!(task, Task::Restart { .. }) {
            known.again.extend(by_hand(spec, &workers));
        }
    }
    Ok(known)
}

/// What submits the jobs again, those but whose packages are gone.
fn restoring(backed: &Backed) -> Vec<Call> {
    let mut sent = BTreeSet::new();
    let mut all = Vec::new();
    for kept in backed.kept.iter().filter(|k| k.missing.is_empty()) {
        let new: Vec<_> =
            kept.submission.packages().into_iter().filter(|uri| sent.insert(uri.clone())).collect();
        let path = |uri: &String| format!("/api/packages/{}", uri.replacen("://", "/", 1));
        all.extend(new.iter().map(|uri| Call::http("PUT", path(uri))));
        all.push(submit(&kept.submission.submission_id));
    }
    all
}

fn submit(which: &str) -> Call {
    Call::http("POST", "/api/jobs/").noted(which)
}

/// What starts Ray on those of these workers that no autoscaler starts; nothing where that is refused.
fn by_hand(spec: &ClusterSpec, workers: &[String]) -> Vec<Call> {
    let launch = spec.file.as_deref().and_then(|file| Launch::read(file).ok());
    let Some(launch) = launch else { return Vec::new() };
    let manual = workers.iter().filter(|w| !launch.worker_ips.contains(w));
    manual.filter_map(|host| worker::start_on(spec, &launch, host).ok()).flatten().collect()
}
