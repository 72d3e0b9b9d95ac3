//! The vitals of a job in full, for its page and for `job-status`.

use crate::app::fleet::cluster::Cluster;
use crate::app::fleet::trend::curve;
use crate::diagnose::{Severity, served, sign_severity};
use crate::model::amount::{bytes, counted, grouped};
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::vitals::{held, loss, rate_was};
use crate::model::{
    ClusterVitals, Job, JobActivity, JobStatus, LogRead, NodeId, Run, Text, Timestamp, Vitals,
};
use std::collections::BTreeMap;

/// Labels and texts, row by row.
type Lines = Vec<(String, String)>;

/// Number of points in the curve of losses.
const CURVE_POINTS: usize = 24;
/// Text for a run without a known checkpoint.
const UNSEEN: &str = "none seen in the part of its log that was read";
/// Maximum number of slices and hosts named.
const MAX_LOCATIONS: usize = 4;

/// The label for the resources that a job holds, from its vitals or its driver.
pub(in crate::app) const HOLDS: &str = "holds";

/// The problems of a run, the worst first; empty before its vitals were read.
pub(in crate::app) fn wrong(
    job: &Job,
    cluster: &Cluster,
    now: Timestamp,
) -> impl Iterator<Item = (Severity, String)> {
    let warnings = cluster.vitals.warnings(job, now).iter();
    warnings.map(move |warning| (sign_severity(warning.kind), warning.text(now)))
}

/// The vitals of a running job, and for a pending one what could serve it; empty before they were read.
pub(in crate::app) fn lines(job: &Job, cluster: &Cluster, now: Timestamp) -> Lines {
    let vitals = cluster.vitals.of(job);
    let mut lines = vitals.map(|vitals| of(vitals, cluster, now)).unwrap_or_default();
    let label = |at: usize| if at == 0 { "could run on" } else { " " };
    let sentences = could_serve(job, cluster).into_iter().enumerate();
    lines.extend(sentences.map(|(at, text)| (label(at).to_owned(), text)));
    lines
}

/// What is lost if a running job is stopped: its resources, its activity, and the time of its last checkpoint. Empty
/// before its vitals were read.
pub(in crate::app) fn lost_if_stopped(job: &Job, cluster: &Cluster, now: Timestamp) -> Lines {
    let vitals = cluster.vitals.of(job);
    let Some(vitals) = vitals else { return Vec::new() };
    let saved = vitals.run.as_ref().map(|run| checkpoint(run, now).unwrap_or_else(|| UNSEEN.to_owned()));
    let holds = vitals.holds.as_deref().filter(|holds| !holds.is_empty()).map(held);
    let rows = [(HOLDS, holds), ("activity", Some(vitals.text(now))), ("checkpoint", saved)];
    rows.into_iter().filter_map(|(label, text)| Some((label.to_owned(), text?))).collect()
}

/// What could serve the request that a job waits for, and why it does not, one sentence each; empty for a job that
/// waits for nothing.
pub fn could_serve(job: &Job, cluster: &Cluster) -> Vec<String> {
    let vitals = cluster.vitals.jobs.get(&job.key);
    let needs = match (job.status, vitals.map(|vitals| &vitals.activity)) {
        (JobStatus::Pending, _) => job.requested.as_deref(),
        (JobStatus::Running, Some(JobActivity::Waiting(wait))) => Some(&wait.shape[..]),
        _ => None,
    };
    let Some(needs) = needs.filter(|needs| !needs.is_empty()) else { return Vec::new() };
    served(&job.key, needs, &cluster.spec.node_types, &cluster.snapshot, &cluster.vitals)
}

fn of(vitals: &Vitals, cluster: &Cluster, now: Timestamp) -> Lines {
    let mut lines = vec![("activity".to_owned(), vitals.text(now))];
    let mut push = |label: &str, text: Option<String>| {
        lines.extend(text.filter(|text| !text.is_empty()).map(|text| (label.to_owned(), text)));
    };
    let holds = vitals.holds.as_deref().map(held);
    let on = locations(&vitals.nodes, cluster);
    push(HOLDS, holds.map(|holds| if on.is_empty() { holds } else { format!("{holds} on {on}") }));
    if let Some(run) = &vitals.run {
        push("run", Some(run.steps()).filter(|_| run.step.is_some()));
        push("loss", run.loss.map(|value| format!("{} {}", loss(value), curve(&run.losses, CURVE_POINTS))));
        push("rate", vitals.moving_run().and_then(speed));
        push("checkpoint", checkpoint(run, now));
    }
    push("time left", vitals.time_left(now).map(brief));
    push("restarts", (vitals.restarts > 0).then(|| grouped(vitals.restarts as usize)));
    push("last line", vitals.logged.map(|at| format!("{} ago", brief(at.age(now)))));
    let log = match vitals.log {
        LogRead::None => String::new(),
        LogRead::Unread => ", log not read yet".to_owned(),
        LogRead::At(at) => format!(", log read {} ago", brief(at.age(now))),
    };
    push("vitals", Some(format!("read {} ago{log}", brief(vitals.read.age(now)))));
    lines
}

fn speed(run: &Run) -> Option<String> {
    let now = run.rate?;
    let before = run.typical_rate.filter(|usual| (now / usual - 1.0).abs() > 0.1);
    before.map_or_else(|| run.rate_text(), |usual| Some(rate_was(now, usual)))
}

fn checkpoint(run: &Run, now: Timestamp) -> Option<String> {
    let saved = run.checkpoint?;
    let step = saved.step.map(|step| format!("step {}", grouped(step as usize)));
    let ago = saved.at.map(|at| format!("{} ago", brief(at.age(now))));
    Some([step, ago].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// The slices, or hosts without a slice, with their number: `slice-a (64 hosts), 10.0.0.7`.
fn locations(nodes: &[NodeId], cluster: &Cluster) -> String {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes.iter().filter_map(|id| cluster.node(id)) {
        *all.entry(node.slice().map_or_else(|| cluster.node_name(node).to_string(), Text::to_string))
            .or_default() += 1;
    }
    let more = all.len().saturating_sub(MAX_LOCATIONS);
    let one =
        |(name, n): (&String, &usize)| if *n > 1 { format!("{name} ({n} hosts)") } else { name.clone() };
    let mut named: Vec<String> = all.iter().take(MAX_LOCATIONS).map(one).collect();
    named.extend((more > 0).then(|| format!("{more} more")));
    named.join(", ")
}

/// The cost of reading them for the head: `9 requests, 212 kB each 30s (3 logs), 12s ago`; empty before the first
/// reading.
pub(in crate::app) fn cost(cluster_vitals: &ClusterVitals, now: Timestamp) -> String {
    let Some(read) = cluster_vitals.read else { return String::new() };
    let cost = cluster_vitals.cost;
    let words = format!(
        "{}, {} every {} ({}), read {} ago",
        counted(cost.requests as usize, "request"),
        bytes(cost.bytes as f64),
        brief(cost.every),
        counted(cost.logs, "log"),
        brief(read.age(now))
    );
    let missing = cluster_vitals.missing.iter().take(2).map(|what| printable(what).into_owned());
    std::iter::once(words).chain(missing).collect::<Vec<_>>().join("; ")
}
