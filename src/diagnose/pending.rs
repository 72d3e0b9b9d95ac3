//! Why a job is pending: what its entrypoint requests, which nodes provide it, and what the autoscaler does about it.

use super::autoscaler::failed;
use super::demand::{coming, failing_now};
use super::served::gives_all;
use super::{Finding, FindingKind};
use crate::model::amount::{amount, counted, rank, shape};
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{
    ClusterVitals, Demand, JobActivity, JobKey, JobStatus, Node, NodeState, NodeTypeLimits, Snapshot, Text,
};
use std::collections::{BTreeSet, HashMap};

/// Why a job is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// What it waits for, how much of it is available, and what the autoscaler does: one line, safe to print.
    pub text: String,
    /// The finding with the details, if there is one.
    pub finding: Option<FindingKind>,
}

/// Resources that an entrypoint requests, by name.
type Requested = [(Text, f64)];

/// Maximum number of node types whose failed launches are named.
const MAX_NODE_TYPES: usize = 3;

/// Why each pending job is pending, given the node types of the cluster file and, of the same state, the unmet demands
/// ([`Snapshot::unmet`]) and the findings. Includes jobs that Ray reports as running, but that only wait for a node.
pub fn pending(
    snapshot: &Snapshot,
    unmet: &[u64],
    cluster_vitals: &ClusterVitals,
    types: &[NodeTypeLimits],
    findings: &[Finding],
) -> HashMap<JobKey, Pending> {
    // Hundreds of jobs with the same request wait for the same reason.
    let mut known: Vec<(Option<&Requested>, Pending)> = Vec::new();
    let mut all = HashMap::new();
    for job in snapshot.jobs.iter().filter(|job| cluster_vitals.status(job) == JobStatus::Pending) {
        let requested = match cluster_vitals.of(job).map(|vitals| &vitals.activity) {
            Some(JobActivity::Waiting(wait)) => Some(&wait.shape[..]),
            _ => job.requested.as_deref(),
        };
        let same = known.iter().find(|(other, _)| *other == requested).map(|(_, why)| why.clone());
        let why = same.unwrap_or_else(|| {
            let why = reason(requested, (snapshot, unmet), types, findings);
            known.push((requested, why.clone()));
            why
        });
        all.insert(job.key.clone(), why);
    }
    all
}

fn reason(
    requested: Option<&Requested>,
    (snapshot, unmet): (&Snapshot, &[u64]),
    types: &[NodeTypeLimits],
    findings: &[Finding],
) -> Pending {
    let here = |what: String| Pending { text: printable(&what).into_owned(), finding: None };
    match requested {
        None => {
            let (done, finding) = scaling(None, snapshot, types, findings);
            let text = format!("waits for resources or its runtime environment{done}");
            Pending { finding, ..here(text) }
        }
        // Ray places it on the head, where it needs only its environment.
        Some([]) => here("waits for its runtime environment; it requests no resources".to_owned()),
        Some(requested) => match lack(requested, &snapshot.nodes) {
            None => here(format!("waits for its runtime environment; {} is free", shape(requested))),
            Some(lack) => {
                let (done, finding) = scaling(Some(requested), snapshot, types, findings);
                let others = unmet_demands(requested, snapshot, unmet);
                let others = if others > 1 {
                    format!(", {}", counted(others as usize, "request"))
                } else {
                    String::new()
                };
                Pending { finding, ..here(format!("waits for {lack}{others}{done}")) }
            }
        },
    }
}

/// What no node has free, in words; `None` if a node has all of it free.
fn lack(requested: &Requested, nodes: &[Node]) -> Option<String> {
    let takes_work = |node: &&Node| matches!(node.state, NodeState::Alive | NodeState::Idle);
    let nodes = || nodes.iter().filter(takes_work);
    let free = |node: &Node, name: &str| {
        let resource = node.resources.get(name)?;
        Some(resource.total - resource.used?)
    };
    let holds = |node: &Node, (name, n): &(Text, f64)| free(node, name.raw()).is_some_and(|free| free >= *n);
    if nodes().any(|node| requested.iter().all(|one| holds(node, one))) {
        return None;
    }
    let mut sorted: Vec<&(Text, f64)> = requested.iter().collect();
    sort::by_key(&mut sorted, |(name, _)| rank(name.raw()));
    let Some((name, n)) = sorted.into_iter().find(|one| !nodes().any(|node| holds(node, one))) else {
        return Some(format!("{}: free, but not all on one node", shape(requested)));
    };
    // The single head of a slice needs no number.
    let what = match amount(name.raw(), *n) {
        one if one == "1" && rank(name.raw()) == rank("") => name.to_string(),
        amount => format!("{name} {amount}"),
    };
    let total = |node: &Node| node.resources.get(name.raw()).map_or(0.0, |resource| resource.total);
    let able: Vec<&Node> = nodes().filter(|node| total(node) >= *n).collect();
    // Not every channel reports what is in use.
    let unknown = able.iter().filter(|node| free(node, name.raw()).is_none()).count();
    let others =
        if unknown > 0 { format!(", use unknown on {}", counted(unknown, "node")) } else { String::new() };
    let most = nodes().filter_map(|node| free(node, name.raw())).fold(0.0, f64::max);
    Some(match () {
        () if nodes().all(|node| total(node) <= 0.0) => format!("{what}: not available on any node"),
        () if able.is_empty() => format!("{what}: no node has that much"),
        () if unknown == able.len() => format!("{what}: use unknown on {}", counted(unknown, "node")),
        () if most <= 0.0 => {
            format!("{what}: all in use on {}{others}", counted(able.len() - unknown, "node"))
        }
        () => format!("{what}: at most {} free on a node{others}", amount(name.raw(), most)),
    })
}

/// Whether a demand is for these resources; a driver's demand may include more CPU.
fn covers(demand: &Demand, requested: &Requested) -> bool {
    requested.iter().all(|(name, n)| demand.shape.iter().any(|(other, m)| other == name && m >= n))
}

/// The number of unmet demands for these resources.
fn unmet_demands(requested: &Requested, snapshot: &Snapshot, unmet: &[u64]) -> u64 {
    let demands = snapshot.autoscaler.demands.iter().zip(unmet);
    demands.filter(|(demand, _)| covers(demand, requested)).map(|(_, count)| count).sum()
}

/// What the autoscaler does about it, preceded by a semicolon, and the finding with the details.
fn scaling(
    requested: Option<&Requested>,
    snapshot: &Snapshot,
    types: &[NodeTypeLimits],
    findings: &[Finding],
) -> (String, Option<FindingKind>) {
    use FindingKind::{Infeasible, LaunchesFailing, Scaling, Unmet};
    let report = &*snapshot.autoscaler;
    let of = |kind| findings.iter().find(|f| f.kind == kind);
    let is_infeasible = requested
        .is_some_and(|requested| report.demands.iter().any(|d| d.infeasible && covers(d, requested)));
    // Other node types are irrelevant; if no type is known to provide it, any type may.
    let able: Vec<_> =
        types.iter().filter(|kind| gives_all(kind, requested.unwrap_or_default(), snapshot)).collect();
    let may_serve = |name: &Text| able.is_empty() || able.iter().any(|kind| kind.name == name.raw());
    let failing = failing_now(report, snapshot.taken).filter(|failure| may_serve(&failure.node_type));
    let failing: BTreeSet<String> = sort::collected(failing.map(failed));
    let is_elsewhere = |finding: &Finding| finding.kind == LaunchesFailing && failing.is_empty();
    let broken = || {
        let mut all = findings.iter().filter(|f| f.kind.is_of_autoscaler() && !is_elsewhere(f));
        all.find(|f| !matches!(f.kind, Infeasible | Unmet))
    };
    let found = match () {
        () if is_infeasible => of(Infeasible),
        () => broken().or_else(|| of(Unmet)).or_else(|| of(Scaling)),
    };
    let text = match found {
        None => String::new(),
        Some(Finding { kind: Infeasible, .. }) => "infeasible, no node type provides it".to_owned(),
        Some(Finding { kind: Unmet, short, .. }) => short.clone(),
        Some(Finding { kind: Scaling, .. }) => {
            let launching: u32 = report.types.iter().filter(|t| may_serve(&t.name)).map(coming).sum();
            let joining = report.pending.iter().filter(|node| may_serve(&node.node_type)).count();
            match (launching as usize).max(joining) {
                0 => String::new(),
                n => counted(n, "node") + " launching",
            }
        }
        Some(Finding { kind: LaunchesFailing, .. }) => {
            let more = failing.len().saturating_sub(MAX_NODE_TYPES);
            let more = (more > 0).then(|| counted(more, "other node type"));
            let named: Vec<String> = failing.into_iter().take(MAX_NODE_TYPES).chain(more).collect();
            format!("launches failing: {}", named.join("; "))
        }
        Some(finding) => finding.label().to_owned(),
    };
    let text = if text.is_empty() { text } else { format!("; {text}") };
    (text, found.map(|f| f.kind))
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;
    use crate::model::{
        Autoscaler, DemandKind, Hint, Job, LaunchFailure, NodeTypeCount, Resource, Resources, Timestamp,
        Vitals, Wait,
    };
    use std::sync::Arc;

    fn requested(all: &[(&str, f64)]) -> Vec<(Text, f64)> {
        all.iter().map(|(name, n)| ((*name).into(), *n)).collect()
    }

    /// Nodes with these resources: name, total, used.
    fn nodes(all: &[&[(&str, f64, f64)]]) -> Vec<Node> {
        let resource = |(name, total, used): &(&str, f64, f64)| Resource {
            name: (*name).into(),
            total: *total,
            used: Some(*used),
        };
        let node = |(n, resources): (u8, &&[(&str, f64, f64)])| Node {
            node_type: "tpu".into(),
            resources: Resources(resources.iter().map(resource).collect()),
            ..Node::sample(n)
        };
        (1..).zip(all).map(node).collect()
    }

    fn text(requests: Option<&[(&str, f64)]>, snapshot: &Snapshot, findings: &[Finding]) -> String {
        text_with(&[], requests, snapshot, findings)
    }

    /// The same with these node types in the cluster file.
    fn text_with(
        types: &[NodeTypeLimits],
        requests: Option<&[(&str, f64)]>,
        snapshot: &Snapshot,
        findings: &[Finding],
    ) -> String {
        let job = Job { requested: requests.map(requested), ..Job::sample("a", JobStatus::Pending) };
        let running = Job::sample("b", JobStatus::Running);
        // Ray reports it as running, but it only waits for the same.
        let held_up = Job::sample("c", JobStatus::Running);
        let key = held_up.key.clone();
        let wait = requests.map(|all| Wait { shape: requested(all), count: 1, since: None });
        let vitals =
            wait.map(|wait| Arc::new(Vitals::sample(JobActivity::Waiting(wait), Timestamp::from_millis(0))));
        let jobs = vitals.map(|vitals| (key.clone(), vitals)).into_iter().collect();
        let cluster_vitals = ClusterVitals { jobs, ..ClusterVitals::default() };
        let jobs = Arc::new([job, running, held_up].map(Arc::new).to_vec());
        let snapshot = Snapshot { jobs, ..snapshot.clone() };
        let mut all = pending(&snapshot, &snapshot.unmet(), &cluster_vitals, types, findings);
        let of_held_up = all.remove(&key);
        assert_eq!(all.len(), 1, "only of pending jobs");
        let why = all.into_values().next().unwrap();
        assert_eq!(of_held_up, requests.map(|_| why.clone()), "equal requests have equal reasons");
        why.text
    }

    fn of(nodes: Vec<Node>) -> Snapshot {
        Snapshot { nodes: Arc::new(nodes), ..Snapshot::default() }
    }

    #[test]
    fn missing_resources_are_reported_with_what_is_available() {
        let state = of(nodes(&[
            &[("CPU", 8.0, 6.0), ("TPU-v4-8-head", 1.0, 1.0)],
            &[("CPU", 8.0, 7.0), ("TPU-v4-8-head", 1.0, 1.0)],
            &[("CPU", 4.0, 0.0), ("GPU", 1.0, 1.0)],
        ]));
        for (requests, expected) in [
            (&[("TPU-v4-8-head", 1.0)][..], "waits for TPU-v4-8-head: all in use on 2 nodes"),
            (&[("TPU-v4-128-head", 1.0)], "waits for TPU-v4-128-head: not available on any node"),
            (&[("CPU", 8.0)], "waits for CPU 8: at most 4 free on a node"),
            (&[("CPU", 64.0)], "waits for CPU 64: no node has that much"),
            (&[("CPU", 2.0), ("GPU", 1.0)], "waits for GPU 1: all in use on 1 node"),
            (&[("CPU", 1.0)], "waits for its runtime environment; CPU 1 is free"),
            (&[], "waits for its runtime environment; it requests no resources"),
        ] {
            assert_eq!(text(Some(requests), &state, &[]), expected);
        }
        let apart = of(nodes(&[&[("CPU", 8.0, 8.0), ("GPU", 1.0, 0.0)], &[("CPU", 8.0, 0.0)]]));
        let text = text(Some(&[("CPU", 1.0), ("GPU", 1.0)]), &apart, &[]);
        assert_eq!(text, "waits for GPU 1, CPU 1: free, but not all on one node");
    }

    #[test]
    fn resources_of_unknown_use_are_not_in_use() {
        let mut all = nodes(&[&[("TPU", 4.0, 4.0)], &[("TPU", 4.0, 4.0)], &[("TPU", 1.0, 1.0)]]);
        let words = |all: &[Node]| text(Some(&[("TPU", 4.0)]), &of(all.to_vec()), &[]);
        assert_eq!(words(&all), "waits for TPU 4: all in use on 2 nodes");
        all[0].resources.0[0].used = None;
        assert_eq!(words(&all), "waits for TPU 4: all in use on 1 node, use unknown on 1 node");
        all[1].resources.0[0].used = None;
        assert_eq!(words(&all), "waits for TPU 4: use unknown on 2 nodes");
    }

    #[test]
    fn a_node_that_is_being_drained_takes_no_work() {
        let mut all = nodes(&[&[("CPU", 8.0, 0.0)]]);
        all[0].state = NodeState::Draining;
        assert_eq!(text(Some(&[("CPU", 1.0)]), &of(all), &[]), "waits for CPU 1: not available on any node");
    }

    fn failure(node_type: &str, reason: &str) -> LaunchFailure {
        let (node_type, reason) = (node_type.into(), reason.into());
        LaunchFailure { node_type, count: 1, reason, at: None, from_text: false, day_unknown: false }
    }

    #[test]
    fn launches_of_types_that_cannot_provide_it_are_ignored() {
        let kind = |name: &str, head: &str| NodeTypeLimits {
            name: name.into(),
            min: 0,
            max: 4,
            is_head: false,
            gives: vec![(head.into(), 1)],
        };
        let types = [kind("v4_8", "TPU-v4-8-head"), kind("v4_16", "TPU-v4-16-head")];
        let launching =
            |name: &str| NodeTypeCount { name: name.into(), launching: 2, ..NodeTypeCount::default() };
        let report = Autoscaler {
            types: vec![launching("v4_16"), launching("v4_16_spot")],
            failures: vec![failure("v4_8", "Quota exceeded"), failure("v4_8_spot", "stockout")],
            ..Autoscaler::default()
        };
        let state = Snapshot { autoscaler: Arc::new(report), ..Snapshot::default() };
        let finding =
            |kind| Finding::new(kind, Severity::Warn, None, "v4_8_spot, no capacity", "", Hint::none());
        let findings = [finding(FindingKind::LaunchesFailing), finding(FindingKind::Scaling)];
        let text_for = |head: &str| text_with(&types, Some(&[(head, 1.0)]), &state, &findings);
        assert_eq!(
            text_for("TPU-v4-8-head"),
            "waits for TPU-v4-8-head: not available on any node; launches failing: v4_8, no quota"
        );
        assert_eq!(
            text_for("TPU-v4-16-head"),
            "waits for TPU-v4-16-head: not available on any node; 2 nodes launching"
        );
        assert_eq!(
            text_for("TPU-v4-32-head"),
            "waits for TPU-v4-32-head: not available on any node; launches failing: v4_8, no quota; v4_8_spot, no capacity",
            "a type that is not in the file may provide it"
        );
    }

    #[test]
    fn the_state_of_the_autoscaler_is_added() {
        let head = requested(&[("CPU", 1.0), ("TPU-v4-8-head", 1.0)]);
        let demand =
            |infeasible| Demand { shape: head.clone(), count: 3, kind: DemandKind::Task, infeasible };
        let state = |infeasible| {
            let launching = NodeTypeCount { launching: 2, ..NodeTypeCount::default() };
            let report = Autoscaler {
                demands: vec![demand(infeasible)],
                types: vec![launching],
                failures: vec![failure("tpu_worker", "Quota exceeded")],
                ..Autoscaler::default()
            };
            Snapshot { autoscaler: Arc::new(report), ..Snapshot::default() }
        };
        let finding = |kind, short: &str| Finding::new(kind, Severity::Warn, None, short, "", Hint::none());
        let own = Some(&[("TPU-v4-8-head", 1.0)][..]);
        let waits = "waits for TPU-v4-8-head: not available on any node, 3 requests";
        for (kind, short, infeasible, expected) in [
            (FindingKind::Scaling, "", false, "2 nodes launching"),
            (FindingKind::Silent, "3 demands unmet", false, "autoscaler not reporting"),
            (
                FindingKind::LaunchesFailing,
                "tpu_worker, no quota",
                false,
                "launches failing: tpu_worker, no quota",
            ),
            (FindingKind::Infeasible, "", true, "infeasible, no node type provides it"),
        ] {
            assert_eq!(
                text(own, &state(infeasible), &[finding(kind, short)]),
                format!("{waits}; {expected}")
            );
        }
        let another = finding(FindingKind::Infeasible, "");
        assert_eq!(text(own, &state(false), &[another]), waits, "another infeasible demand is irrelevant");
        let silent = finding(FindingKind::Silent, "");
        let unknown = "waits for resources or its runtime environment; autoscaler not reporting";
        assert_eq!(text(None, &Snapshot::default(), &[silent]), unknown);
    }
}
