//! Findings about nodes: recent deaths, incomplete slices, and idle clusters.

use super::slices::{MAX_ASSEMBLY, Slice, slices};
use super::{Finding, FindingKind, Severity, Subject};
use crate::model::amount::counted;
use crate::model::{
    AutoscalerVersion, DeathReason, DemandKind, Hint, JobStatus, Node, Snapshot, Timestamp, Verb,
};
use std::time::Duration;

/// A death is a warning for this long.
pub const JUST_NOW: Duration = Duration::from_secs(900);

pub fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    [incomplete(snapshot), lost(snapshot)].into_iter().flatten().collect()
}

/// Recently lost nodes ([`Node::is_lost`]), the same that the console and `status` count. They are a warning if the
/// last of them died within [`JUST_NOW`].
fn lost(snapshot: &Snapshot) -> Option<Finding> {
    let lost: Vec<&Node> = snapshot.nodes.iter().filter(|node| node.is_lost(snapshot.taken)).collect();
    let ends = || lost.iter().filter_map(|node| node.ended);
    let (first, last) = (ends().min()?, ends().max()?);
    let is_preempted = |n: &&&Node| n.death.as_ref().is_some_and(|d| d.reason == DeathReason::Preempted);
    let short = match lost.iter().filter(is_preempted).count() {
        0 => lost.len().to_string(),
        all if all == lost.len() => format!("{all} preempted"),
        some => format!("{}, {some} of them preempted", lost.len()),
    };
    let names: Vec<String> = lost.iter().take(3).map(|n| n.name.to_string()).collect();
    let more = lost.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let long = format!("{short}: {}{more}", names.join(", "));
    let hint = Hint::from("the autoscaler replaces them if they are needed")
        .and(Verb::Nodes.to("see Ray's reason for each"));
    let is_recent = last.age(snapshot.taken) < JUST_NOW;
    let severity = if is_recent { Severity::Warn } else { Severity::Info };
    let found = Finding::new(FindingKind::NodesLost, severity, Some(first), short, long, hint);
    Some(found.of_all(lost.iter().map(|node| node.id)))
}

fn incomplete(snapshot: &Snapshot) -> Option<Finding> {
    let all = slices(&snapshot.nodes);
    // A new slice is still being assembled, unless one of its hosts has already died.
    let is_late =
        |s: &Slice<'_>| s.lost.is_some() || s.started.is_none_or(|t| t.age(snapshot.taken) >= MAX_ASSEMBLY);
    let late: Vec<&Slice<'_>> = all.iter().filter(|s| s.registered < s.expected && is_late(s)).collect();
    let worst = late.first()?;
    let since: Option<Timestamp> = late.iter().filter_map(|s| s.lost.or(s.started)).min();
    let one = format!("{} has {} of {} hosts", worst.name, worst.registered, worst.expected);
    let short = if late.len() == 1 { one.clone() } else { format!("{} slices, e.g. {one}", late.len()) };
    let long = format!("{short}; a job that needs the whole slice cannot run");
    let only = (late.len() == 1).then_some(worst.name);
    let purpose =
        "if the missing hosts do not come back, delete the slice, so that the autoscaler creates a new one";
    let hint = Verb::RemoveWorker.on(only.unwrap_or_default(), purpose);
    let about = only.map_or(Subject::Cluster, |name| Subject::Slice(name.into()));
    let found = Finding::new(FindingKind::SliceIncomplete, Severity::Warn, since, short, long, hint);
    Some(found.about(about).of_all(late.iter().map(|slice| slice.name)))
}

/// No job, no unmet demand, and no node in use.
pub fn idle(snapshot: &Snapshot) -> Option<Finding> {
    let works = |s: JobStatus| !s.is_ended();
    let alive = || snapshot.nodes.iter().filter(|n| n.state.is_alive());
    let in_use =
        |n: &Node| n.resources.0.iter().any(|r| !is_mark(r.name.raw()) && r.used.is_none_or(|u| u > 0.0));
    if snapshot.jobs.iter().any(|j| works(j.status))
        || snapshot.unmet().iter().any(|count| *count > 0)
        || !snapshot.autoscaler.pending.is_empty()
        || alive().any(in_use)
    {
        return None;
    }
    let workers = alive().filter(|n| !n.is_head).count();
    let is_called = snapshot.autoscaler.demands.iter().any(|d| d.kind == DemandKind::Request);
    let short = match (workers, snapshot.autoscaler.version) {
        (0, _) => String::new(),
        (_, AutoscalerVersion::None) => {
            format!("{}, no autoscaler to remove them", counted(workers, "worker"))
        }
        _ if is_called => format!("{} unused, kept by request_resources()", counted(workers, "worker")),
        _ => format!("{} unused", counted(workers, "worker")),
    };
    Some(Finding::new(FindingKind::Idle, Severity::Info, None, &short, &short, ""))
}

/// Resources that identify a node rather than being consumed (`node:10.0.0.1`, `TPU-v4-8-head`).
fn is_mark(name: &str) -> bool {
    !matches!(name, "CPU" | "GPU" | "TPU" | "memory")
}
