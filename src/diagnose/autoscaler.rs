//! Whether the autoscaler works: demand, pending nodes, failures.

use super::demand::{Room, Unmet, coming, failing_now, limit_text, units};
use super::slices::slices;
use super::{Finding, FindingKind, History, Severity};
use crate::model::amount::{counted, shape};
use crate::model::sort;
use crate::model::{
    Autoscaler, AutoscalerVersion, Fix, Hint, LaunchFailure, Node, NodeTypeCount, PendingNode, Snapshot,
    Timestamp, Verb,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// An autoscaler that launches nothing for unmet demand for this long is stuck. It runs its loop every 5 s and reports
/// a launch immediately; its longest regular pause, between attempts to install Ray, is 40 s (measured on 2.60).
pub const STUCK_AFTER: Duration = Duration::from_secs(180);
/// Pending nodes of which none joins for this long are a warning. A TPU VM needs about 5 min from its request to its
/// registration; v2 gives up after 15 min.
pub const NO_NODE_JOINS: Duration = Duration::from_secs(1200);
/// A single node that has been joining for this long is reported.
pub const JOINS_LATE: Duration = Duration::from_secs(600);

pub fn findings(snapshot: &Snapshot, history: &History) -> Vec<Finding> {
    let report = &*snapshot.autoscaler;
    let unmet = Unmet::of(snapshot);
    if report.version == AutoscalerVersion::None {
        return unattended(report, &unmet, history).into_iter().collect();
    }
    let silent = silent(&unmet, history);
    let failing = failing(report, &unmet, snapshot.taken, history);
    let still =
        (silent.is_none() && failing.is_none()).then(|| still(report, &unmet, snapshot, history)).flatten();
    let error = (!report.error.is_empty()).then(|| {
        let what = report.error.to_string();
        let hint = Verb::MonitorLog.to("read monitor.log for details");
        Finding::new(FindingKind::AutoscalerError, Severity::Bad, None, &what, &what, hint)
    });
    let moving = moving(snapshot, &unmet, history);
    // The finding that no node joins covers single nodes.
    let none_joins = moving.as_ref().is_some_and(|f| f.kind == FindingKind::NodesNotJoining);
    let late = if none_joins { None } else { late(report, history) };
    let found = [silent, error, failing, still, infeasible(report, &unmet, history), late, moving];
    found.into_iter().flatten().collect()
}

/// Demand without an autoscaler report: normal on a cluster that was started manually, but not if the file allows more
/// nodes.
fn unattended(report: &Autoscaler, unmet: &Unmet, history: &History) -> Option<Finding> {
    let since = history.still?;
    let short = format!("{}, no autoscaler is reporting", unmet.text());
    let scales = report.types.iter().any(|t| t.max > Some(0));
    let (severity, hint) = if scales {
        let purpose = "read monitor.log, and check that monitor.py is running on the head";
        (Severity::Warn, Verb::MonitorLog.to(purpose))
    } else {
        (Severity::Info, "the demand is met once nodes become free or are added manually".into())
    };
    Some(Finding::new(FindingKind::Unmet, severity, Some(since), &short, &short, hint))
}

/// A dead process and one that fails in every iteration are both silent; the unmet demand shows the impact.
fn silent(unmet: &Unmet, history: &History) -> Option<Finding> {
    let since = history.silent_since()?;
    let wanted = if unmet.is_something() { format!("{}; ", unmet.text()) } else { String::new() };
    let short = format!("{wanted}no new report");
    let long = format!(
        "{wanted}no new report: the autoscaler process (monitor.py on the head) has died, hangs or fails in every loop; the \
         pending nodes and demands shown are from its last report"
    );
    let hint = [
        Verb::MonitorLog.to("read monitor.log"),
        Verb::Restart.to("if its last lines are old or repeat an error, restart the cluster"),
    ];
    Some(Finding::new(FindingKind::Silent, Severity::Bad, Some(since), short, long, hint))
}

/// Launches that failed recently ([`failing_now`]).
fn failing(report: &Autoscaler, unmet: &Unmet, now: Timestamp, history: &History) -> Option<Finding> {
    // By type, so that the finding is the same whichever of them failed last.
    let first = failing_now(report, now).min_by_key(|f| (cause(f.reason.raw()), f.node_type.raw()))?;
    let oldest = failing_now(report, now).filter_map(|f| f.at).chain(history.failing).min();
    let why = cause(first.reason.raw());
    let alike = failing_now(report, now).filter(|f| cause(f.reason.raw()) == why);
    let types: BTreeSet<&str> = sort::collected(alike.map(|f| f.node_type.raw()));
    let words = if types.len() > 1 { counted(types.len(), "node type") } else { first.node_type.to_string() };
    let short = words.clone() + &why.map(|why| format!(", {why}")).unwrap_or_default();
    let reason = if first.reason.is_empty() {
        "no reason given; see monitor.log".to_owned()
    } else {
        first.reason.to_string()
    };
    let wanted = if unmet.is_something() { format!(" ({})", unmet.text()) } else { String::new() };
    let named = if types.len() > 1 { format!("{words}, first {}", first.node_type) } else { words };
    let long = format!("{named}: {reason}{wanted}");
    let hint = match why {
        Some("no capacity") => Fix::from("the autoscaler retries; another zone or type may have capacity"),
        Some("no quota") => "free quota (preempted TPUs count until they are deleted) or request more".into(),
        _ => Verb::MonitorLog.to("read monitor.log for the provider's message"),
    };
    let is_stuck = unmet.is_something() && (!unmet.moves || history.moves_briefly());
    let severity = if is_stuck { Severity::Bad } else { Severity::Warn };
    Some(Finding::new(FindingKind::LaunchesFailing, severity, oldest, short, long, hint))
}

/// A failed launch in a few words: `tpu_worker, no quota`.
pub(super) fn failed(failure: &LaunchFailure) -> String {
    let why = cause(failure.reason.raw()).map(|why| format!(", {why}")).unwrap_or_default();
    format!("{}{why}", failure.node_type)
}

/// The cause of a failed launch, found by terms that Google and Ray use.
fn cause(reason: &str) -> Option<&'static str> {
    let reason = reason.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| reason.contains(w));
    match () {
        () if has(&["quota"]) => Some("no quota"),
        () if has(&["stockout", "exhausted", "no more capacity", "enough resources", "unavailable"]) => {
            Some("no capacity")
        }
        () => None,
    }
}

/// Unmet demand, and no pending nodes.
fn still(report: &Autoscaler, unmet: &Unmet, snapshot: &Snapshot, history: &History) -> Option<Finding> {
    let since = history.still?;
    let words = unmet.text();
    if unmet.room == Room::None && unmet.minimum.is_empty() {
        let full = unmet.at_limit.map(limit_text);
        let full = full.unwrap_or_else(|| "matching node types are at their maximum".to_owned());
        let short = format!("{words}, {full}");
        let hint = "wait for running jobs to end, or raise max_workers";
        return Some(Finding::new(FindingKind::Unmet, Severity::Info, Some(since), &short, &short, hint));
    }
    // Of nodes that were never read, none can be seen joining.
    let unread = snapshot.unread_nodes().is_some();
    // v1 does not report infeasible demand: only a minimum, or a shape that fits on a known node, is certain.
    let certain = !unread
        && (report.version == AutoscalerVersion::V2
            || !unmet.minimum.is_empty()
            || unmet.room == Room::Certain);
    if since.age(snapshot.taken) >= STUCK_AFTER && certain {
        let long = format!("{words}; nothing pending, nothing launching, and no node has joined since");
        let hint = [
            Verb::MonitorLog.to("read monitor.log for a repeated error"),
            Verb::Restart.to("restart the cluster to clear it"),
        ];
        return Some(Finding::new(FindingKind::Stuck, Severity::Bad, Some(since), words, long, hint));
    }
    let doubt = match () {
        () if unread => "; the nodes could not be read",
        () if !certain => "; autoscaler v1 does not report whether any node type can provide it",
        () => "",
    };
    let long = format!("{words}{doubt}");
    Some(Finding::new(FindingKind::Unmet, Severity::Warn, Some(since), words, long, ""))
}

fn infeasible(report: &Autoscaler, unmet: &Unmet, history: &History) -> Option<Finding> {
    let demand = report.demands.iter().find(|d| d.infeasible)?;
    let others = match unmet.infeasible - demand.count {
        0 => String::new(),
        others => format!(" (and {others} for other resources)"),
    };
    let short = format!("{} for {}{others}", counted(demand.count as usize, "demand"), shape(&demand.shape));
    let long = format!("{short}: no node type provides it, or the ones that do are at their maximum");
    let hint = "request resources that a node type provides, or change the node types in the cluster file";
    Some(Finding::new(FindingKind::Infeasible, Severity::Warn, history.infeasible, short, long, hint))
}

/// How many workers of a type are up and pending: slices, while all of them are whole; otherwise hosts; nodes, as the
/// autoscaler counts them, if its slices have one host or none is known.
fn joined(t: &NodeTypeCount, snapshot: &Snapshot) -> String {
    let known = slices(&snapshot.nodes);
    let known: Vec<_> = known.iter().filter(|slice| slice.node_type == t.name.raw()).collect();
    let up = units(t, snapshot);
    let Some(size) = known.iter().map(|slice| slice.expected).max() else {
        return format!("{} {up} of {} nodes up", t.name, up + coming(t));
    };
    let missing: u32 = known.iter().map(|slice| slice.expected.saturating_sub(slice.registered)).sum();
    if missing == 0 {
        // A provider lists a pending slice either as one node or as its hosts.
        return if t.pending == 0 || !t.pending.is_multiple_of(size) {
            format!("{} {up} of {} slices up", t.name, up + coming(t))
        } else {
            format!("{} {} up, {} pending", t.name, counted(up as usize, "slice"), coming(t))
        };
    }
    let is_host = |n: &&Node| n.state.is_alive() && !n.is_head && n.node_type == t.name;
    let up = snapshot.nodes.iter().filter(is_host).count() as u32;
    if t.pending.checked_sub(missing).is_some_and(|others| others.is_multiple_of(size)) {
        let all = up + t.pending + t.launching.saturating_mul(size);
        return format!("{} {up} of {all} hosts up", t.name);
    }
    format!("{} {} up, {} pending", t.name, counted(up as usize, "host"), coming(t))
}

/// Pending nodes: information, or a warning if none joins.
fn moving(snapshot: &Snapshot, unmet: &Unmet, history: &History) -> Option<Finding> {
    let report = &*snapshot.autoscaler;
    let largest = report.types.iter().filter(|t| coming(t) > 0).max_by_key(|t| coming(t));
    let since = history.joining?;
    let short = match largest {
        Some(t) => joined(t, snapshot),
        None => counted(report.pending.len(), "node") + " pending",
    };
    let late = history.age_of(since) >= NO_NODE_JOINS;
    let (kind, severity) = if late {
        (FindingKind::NodesNotJoining, Severity::Warn)
    } else {
        (FindingKind::Scaling, Severity::Info)
    };
    let hint = if late { Hint::from(installation()) } else { Hint::none() };
    let rest = if unmet.is_something() { format!("; {}", unmet.text()) } else { String::new() };
    Some(Finding::new(kind, severity, Some(since), &short, format!("{short}{rest}"), hint))
}

fn installation() -> Fix {
    Verb::MonitorOut.to("read monitor.out, the output of machines while Ray is installed on them")
}

/// Single nodes that have been joining for too long, while others join.
fn late(report: &Autoscaler, history: &History) -> Option<Finding> {
    let since = |p: &PendingNode| history.pending_since(&p.address);
    let is_late = |p: &&PendingNode| since(p).is_some_and(|at| history.age_of(at) >= JOINS_LATE);
    let mut late: Vec<&PendingNode> = report.pending.iter().filter(is_late).collect();
    sort::by_key(&mut late, |p| since(p));
    let first = late.first()?;
    let status = if first.status.is_empty() { String::new() } else { format!(", {}", first.status) };
    let one = format!("{} ({}{status})", first.address, first.node_type);
    let short = match late.len() {
        1 => one,
        n => format!("{one}, +{}", n - 1),
    };
    Some(Finding::new(
        FindingKind::JoinDelayed,
        Severity::Warn,
        since(first),
        &short,
        format!("still joining: {short}"),
        installation(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_and_stockout_are_distinguished() {
        assert_eq!(cause("QUOTA_EXCEEDED: Quota 'TPUV4s' exhausted"), Some("no quota"));
        assert_eq!(cause("There is no more capacity in the zone \"us-central2-b\""), Some("no capacity"));
        assert_eq!(cause("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"), Some("no capacity"));
        assert_eq!(cause("LaunchFailed"), None);
    }
}
