//! The node types that could provide what a job waits for, and why they do not.

use super::demand::{at_limit, coming, failing_now, limit_text, units};
use crate::model::amount::{amount, counted, rank};
use crate::model::sort;
use crate::model::time::brief;
use crate::model::{
    ClusterVitals, Job, JobActivity, JobKey, JobStatus, LaunchFailure, NodeTypeCount, NodeTypeLimits,
    Snapshot, Text, Timestamp,
};
use crate::model::{text::printable, vitals::need};

/// Maximum number of node types, and of holders, that are named.
const MAX_NAMES: usize = 3;

/// Sentences, safe to print, on what could meet these needs and why it does not: the availability of each node type
/// that provides all of them, or the nearest type if none does; then the position among the jobs that wait for the
/// same.
pub fn served(
    key: &JobKey,
    needs: &[(Text, f64)],
    types: &[NodeTypeLimits],
    snapshot: &Snapshot,
    cluster_vitals: &ClusterVitals,
) -> Vec<String> {
    let never = infeasible(needs, types, snapshot);
    let able: Vec<_> = types.iter().filter(|kind| gives_all(kind, needs, snapshot)).collect();
    let more = able.len().saturating_sub(MAX_NAMES);
    let mut lines: Vec<String> = never.into_iter().collect();
    let full = at_limit(snapshot);
    lines.extend(able.iter().take(MAX_NAMES).map(|kind| availability(kind, full, snapshot, cluster_vitals)));
    lines.extend((more > 0).then(|| format!("also provided by {}", counted(more, "other node type"))));
    lines.extend(position(key, needs, snapshot, cluster_vitals));
    lines
}

/// Why no node type can ever meet these needs, with the nearest one; `None` if one can, or if that is unknown: there
/// are no node types, or one of them does not list its resources.
pub fn infeasible(needs: &[(Text, f64)], types: &[NodeTypeLimits], snapshot: &Snapshot) -> Option<String> {
    let workers = || types.iter().filter(|kind| !kind.is_head && kind.max > 0);
    let is_known = workers().count() > 0 && workers().all(|kind| !kind.gives.is_empty());
    // A manually added node may have what no type provides, and so may the head.
    let has_it = |(name, n): &(Text, f64)| {
        snapshot.nodes.iter().any(|node| node.resources.get(name.raw()).is_some_and(|r| r.total >= *n))
    };
    if !is_known || types.iter().any(|kind| gives_all(kind, needs, snapshot)) || needs.iter().all(has_it) {
        return None;
    }
    let lack =
        |kind: &&NodeTypeLimits| needs.iter().filter(|one| amount_of(kind, one.0.raw()) < one.1).count();
    let scarce = needs.iter().min_by_key(|(name, _)| rank(name.raw()));
    let close = |kind: &&NodeTypeLimits| scarce.map_or(0, |(name, n)| distance(kind, name.raw(), *n));
    let nearest = workers().min_by_key(|kind| (lack(kind), close(kind)));
    let nearest = nearest.map(|kind| format!("; the nearest is {}", described(kind))).unwrap_or_default();
    Some(format!("no node type provides {}{nearest}", need(needs)))
}

/// The amount of a resource on a node of a type. The cluster file may omit CPUs and memory, which Ray detects on the
/// machine.
fn amount_of(kind: &NodeTypeLimits, name: &str) -> f64 {
    let none = if rank(name) >= rank("CPU") { f64::INFINITY } else { 0.0 };
    kind.gives.iter().find(|(known, _)| known == name).map_or(none, |(_, n)| *n as f64)
}

/// The distance of a type from an amount of a resource, or, for the head of a slice, from its size.
fn distance(kind: &NodeTypeLimits, name: &str, n: f64) -> u64 {
    let slice = |name: &str| {
        let (family, size) = name.strip_prefix("TPU-")?.strip_suffix("-head")?.rsplit_once('-')?;
        Some((family.to_owned(), size.parse::<u64>().ok()?))
    };
    let Some((family, size)) = slice(name) else { return (amount_of(kind, name) - n).abs() as u64 };
    let heads = kind.gives.iter().filter_map(|(name, _)| slice(name));
    let same = heads.filter(|(other, _)| *other == family);
    same.map(|(_, other)| other.abs_diff(size)).min().unwrap_or(u64::MAX)
}

/// `tpu_slice_v4_128 (TPU 4, CPU 120)`.
fn described(kind: &NodeTypeLimits) -> String {
    let mut all: Vec<_> = kind.gives.iter().filter(|(_, n)| *n > 0).collect();
    sort::by_key(&mut all, |(name, _)| rank(name));
    let words: Vec<String> =
        all.iter().take(MAX_NAMES).map(|(name, n)| format!("{name} {}", amount(name, *n as f64))).collect();
    printable(&format!("{} ({})", kind.name, words.join(", "))).into_owned()
}

/// Whether one node of this type has all these resources, according to the cluster file or to a current or former node.
pub(super) fn gives_all(kind: &NodeTypeLimits, needs: &[(Text, f64)], snapshot: &Snapshot) -> bool {
    if kind.is_head || kind.max == 0 || needs.is_empty() {
        return false;
    }
    let has = |node: &crate::model::Node, (name, n): &(Text, f64)| {
        node.resources.get(name.raw()).is_some_and(|resource| resource.total >= *n)
    };
    needs.iter().all(|(name, n)| amount_of(kind, name.raw()) >= *n)
        || snapshot
            .nodes
            .iter()
            .any(|node| node.node_type.raw() == kind.name && needs.iter().all(|one| has(node, one)))
}

/// The availability of a type that provides the resources: its nodes, launches and holders. `full` is the maximum of
/// the cluster, if it has that many workers.
fn availability(
    kind: &NodeTypeLimits,
    full: Option<u32>,
    snapshot: &Snapshot,
    cluster_vitals: &ClusterVitals,
) -> String {
    let report = &*snapshot.autoscaler;
    let none = NodeTypeCount::default();
    let count = report.types.iter().find(|t| t.name.raw() == kind.name).unwrap_or(&none);
    let (up, on_way) = (units(count, snapshot), coming(count));
    let failure = failing_now(report, snapshot.taken).find(|failure| failure.node_type.raw() == kind.name);
    let held = holders(kind, snapshot, cluster_vitals);
    let room = match (failure, full) {
        _ if on_way > 0 => format!("{on_way} launching"),
        _ if up >= kind.max => format!("at its maximum of {}", kind.max),
        (_, Some(max)) => limit_text(max),
        (Some(failure), None) => format!("launches failing{}", why(failure, snapshot.taken)),
        (None, None) => format!("{up} running, max {}", kind.max),
    };
    let held = if held.is_empty() { String::new() } else { format!("; held by {held}") };
    printable(&format!("{}: {room}{held}", kind.name)).into_owned()
}

/// The provider's message, and its age.
fn why(failure: &LaunchFailure, now: Timestamp) -> String {
    /// Maximum number of characters of the provider's message.
    const MAX_MESSAGE_CHARS: usize = 120;
    let ago = failure.at.map(|at| format!(" {} ago", brief(at.age(now)))).unwrap_or_default();
    let words: String =
        failure.reason.raw().lines().next().unwrap_or_default().chars().take(MAX_MESSAGE_CHARS).collect();
    if words.is_empty() { ago } else { format!("{ago}: {words}") }
}

/// The jobs whose tasks and actors run on nodes of a type, with their owners.
fn holders(kind: &NodeTypeLimits, snapshot: &Snapshot, cluster_vitals: &ClusterVitals) -> String {
    let nodes = snapshot.nodes.iter().filter(|node| node.node_type.raw() == kind.name);
    let nodes: Vec<_> = nodes.map(|node| node.id).collect();
    let holds = |job: &&std::sync::Arc<Job>| {
        let vitals = cluster_vitals.jobs.get(&job.key);
        vitals.is_some_and(|vitals| {
            vitals.chips().is_some() && vitals.nodes.iter().any(|id| nodes.contains(id))
        })
    };
    let all: Vec<String> = snapshot
        .jobs
        .iter()
        .filter(|job| job.status == JobStatus::Running)
        .filter(holds)
        .map(|job| format!("{} ({})", job.key, job.owner_label()))
        .collect();
    let more = all.len().saturating_sub(MAX_NAMES);
    let named = all.into_iter().take(MAX_NAMES).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// The position among the jobs that wait for the same, oldest first; `None` for the only one.
fn position(
    key: &JobKey,
    needs: &[(Text, f64)],
    snapshot: &Snapshot,
    cluster_vitals: &ClusterVitals,
) -> Option<String> {
    let since = |job: &Job| match job.status {
        JobStatus::Pending => {
            job.requested.as_deref().filter(|other| need(other) == need(needs)).map(|_| job.started)
        }
        JobStatus::Running => {
            // Only its first wait counts: its other workers do not queue before it is met.
            let vitals = cluster_vitals.jobs.get(&job.key)?;
            let first = if let JobActivity::Waiting(wait) = &vitals.activity {
                std::slice::from_ref(wait)
            } else {
                &vitals.waits[..]
            };
            first.iter().find(|wait| need(&wait.shape) == need(needs)).map(|wait| wait.since)
        }
        _ => None,
    };
    let mut all: Vec<_> = snapshot.jobs.iter().filter_map(|job| Some((since(job)?, &job.key))).collect();
    all.sort();
    let position = all.iter().position(|(_, other)| *other == key)? + 1;
    let total = counted(all.len(), "job");
    (all.len() > 1)
        .then(|| format!("position {position} of {total} waiting for {}, oldest first", need(needs)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Autoscaler, Vitals, Wait};
    use std::sync::Arc;

    fn kind(name: &str, max: u32, gives: &[(&str, u64)]) -> NodeTypeLimits {
        let gives = gives.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        NodeTypeLimits { name: name.into(), min: 0, max, is_head: false, gives }
    }

    fn types() -> Vec<NodeTypeLimits> {
        vec![
            kind("v4_128", 8, &[("CPU", 120), ("TPU", 4), ("TPU-v4-128-head", 1)]),
            kind("v4_256", 1, &[("CPU", 120), ("TPU", 4), ("TPU-v4-256-head", 1)]),
        ]
    }

    fn needs(name: &str, n: f64) -> Vec<(Text, f64)> {
        vec![("CPU".into(), 1.0), (name.into(), n)]
    }

    #[test]
    fn needs_that_no_type_meets_are_infeasible_with_the_nearest_type() {
        let state = Snapshot::default();
        let of = |needs: &[(Text, f64)], types: &[NodeTypeLimits]| infeasible(needs, types, &state);
        let nearest = of(&needs("TPU-v4-512-head", 1.0), &types()).unwrap();
        assert!(nearest.starts_with("no node type provides v4-512; the nearest is v4_256 ("), "{nearest}");
        assert!(of(&needs("GPU", 8.0), &types()).is_some() && of(&needs("TPU", 8.0), &types()).is_some());
        assert_eq!(of(&needs("TPU", 4.0), &types()), None);
        assert_eq!(of(&needs("GPU", 8.0), &[]), None, "a cluster that was started manually");
        let silent = [&types()[..], &[kind("any", 4, &[])]].concat();
        assert_eq!(of(&needs("GPU", 8.0), &silent), None, "one type does not list its resources");
    }

    #[test]
    fn a_cluster_at_its_own_maximum_has_no_room_for_any_type() {
        let count =
            |name: &str, active| NodeTypeCount { name: name.into(), active, ..NodeTypeCount::default() };
        let of = |max_workers| {
            let nodes = (0..5).map(|n| crate::model::Node {
                node_type: if n < 3 { "v4_128".into() } else { "other".into() },
                ..crate::model::Node::sample(n)
            });
            let report = Autoscaler {
                types: vec![count("v4_128", 3), count("other", 2)],
                max_workers,
                ..Autoscaler::default()
            };
            let state = Snapshot {
                nodes: Arc::new(nodes.collect()),
                autoscaler: Arc::new(report),
                ..Snapshot::default()
            };
            let job = Job::sample("a", JobStatus::Pending);
            let wanted = needs("TPU-v4-128-head", 1.0);
            served(&job.key, &wanted, &types(), &state, &ClusterVitals::default()).remove(0)
        };
        assert_eq!(of(Some(5)), "v4_128: the cluster is at its maximum of 5 workers");
        for room in [Some(6), None] {
            assert_eq!(of(room), "v4_128: 3 running, max 8");
        }
    }

    #[test]
    fn availability_holders_and_queue_position_are_reported() {
        let at = |minute: i64| Timestamp::from_millis(minute * 60_000);
        let job = |id: &str| Arc::new(Job::sample(id, JobStatus::Running));
        let (holder, first, second) = (job("holder"), job("first"), job("second"));
        let wait = |since| {
            let wait = Wait { shape: needs("TPU-v4-256-head", 1.0), count: 1, since: Some(at(since)) };
            Vitals { waits: vec![wait.clone()], ..Vitals::sample(JobActivity::Waiting(wait), at(50)) }
        };
        let holds = Vitals {
            holds: Some(vec![("TPU".into(), 128.0)]),
            nodes: vec![crate::model::Node::sample(7).id],
            ..Vitals::sample(JobActivity::Training, at(50))
        };
        let cluster_vitals = ClusterVitals {
            jobs: [(&holder, holds), (&first, wait(1)), (&second, wait(9))]
                .into_iter()
                .map(|(job, vitals)| (job.key.clone(), Arc::new(vitals)))
                .collect(),
            ..ClusterVitals::default()
        };
        let count = NodeTypeCount { name: "v4_256".into(), active: 1, ..NodeTypeCount::default() };
        let mut node = crate::model::Node::sample(7);
        node.node_type = "v4_256".into();
        let state = Snapshot {
            jobs: Arc::new(vec![holder, second.clone(), first]),
            nodes: Arc::new(vec![node]),
            autoscaler: Arc::new(Autoscaler { types: vec![count], ..Autoscaler::default() }),
            ..Snapshot::default()
        };
        let text = served(&second.key, &needs("TPU-v4-256-head", 1.0), &types(), &state, &cluster_vitals);
        assert_eq!(
            text,
            [
                "v4_256: at its maximum of 1; held by holder (owner unknown)",
                "position 2 of 2 jobs waiting for v4-256, oldest first"
            ]
        );
    }
}
