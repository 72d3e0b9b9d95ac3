//! The words, glyphs and roles of states, shared by all pages.

use crate::app::fleet::cluster::{Cluster, SHOWN_IN_MINUTES};
use crate::app::table::cell::Role;
use crate::app::text::describe::death_label;
use crate::diagnose::{Finding, FindingKind, Severity};
use crate::model::amount::{self, grouped};
use crate::model::time::brief;
use crate::model::{DeathReason, JobStatus, Link, LogName, NodeId, NodeState, Text, Timestamp, WorkerFile};
use crate::reconcile::{HostsKey, HostsKind};
use std::time::Duration;

/// The glyph and role of a node's state.
pub fn node(state: NodeState) -> (&'static str, Role) {
    match state {
        NodeState::Alive => ("●", Role::Good),
        NodeState::Idle => ("○", Role::Good),
        NodeState::Draining => ("◐", Role::Text),
        NodeState::Dead => ("✕", Role::Bad),
    }
}

/// The glyph and role of a job's state.
pub fn job(status: JobStatus) -> (&'static str, Role) {
    match status {
        JobStatus::Pending => ("◐", Role::Text),
        JobStatus::Running => ("●", Role::Good),
        JobStatus::Succeeded => ("✓", Role::Dim),
        JobStatus::Stopped => ("■", Role::Dim),
        JobStatus::Failed => ("✕", Role::Bad),
        JobStatus::Unknown => ("?", Role::Warn),
    }
}

/// Cluster names in short: `marin-eu-west4 and 12 more`.
pub fn named(names: &[impl std::fmt::Display]) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        [first, second] => format!("{first} and {second}"),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

/// A finding as a line: the issue, its age, the details.
pub fn finding(finding: &Finding, now: Timestamp) -> String {
    if let Some(lost) = lost(finding, now) {
        return lost;
    }
    let since = finding.age(now).map_or_else(String::new, |age| format!(" {}", minutes(age)));
    let details = if finding.short.is_empty() { String::new() } else { format!(": {}", finding.short) };
    format!("{}{since}{details}", finding.label())
}

/// Lost nodes as a phrase, because their details begin with a number: `1 node lost 25m ago`.
fn lost(finding: &Finding, now: Timestamp) -> Option<String> {
    let age = finding.age(now).filter(|_| finding.kind == FindingKind::NodesLost)?;
    let end = finding.short.find(|c: char| !c.is_ascii_digit()).unwrap_or(finding.short.len());
    let (n, details) = finding.short.split_at(end);
    let n: usize = n.parse().ok()?;
    let when = finding.when(&minutes(age));
    let nodes = amount::counted(n, "node");
    Some(match details.trim() {
        "preempted" => format!("{nodes} preempted {when}"),
        details => format!("{nodes} lost {when}{details}"),
    })
}

/// The role of a finding's severity.
pub fn severity(severity: Severity) -> Role {
    match severity {
        Severity::Bad => Role::Bad,
        Severity::Warn => Role::Warn,
        Severity::Info => Role::Dim,
    }
}

/// The glyph of a finding's severity, and its role.
pub fn severity_mark(of: Severity) -> (&'static str, Role) {
    let glyph = match of {
        Severity::Bad => "▲",
        Severity::Warn => "!",
        Severity::Info => "○",
    };
    (glyph, severity(of))
}

/// The display name of a node; its id if Ray does not list it.
pub fn host(cluster: &Cluster, node: &NodeId) -> String {
    cluster.node(node).map_or_else(|| node.to_string(), |node| cluster.node_name(node).to_string())
}

/// A file in the log directory of a node: `10.0.0.7/4123 err` for a worker's file, `10.0.0.7/4123 err.1` for a rotated
/// one, `10.0.0.7 raylet.out` for others.
pub fn log_file(cluster: &Cluster, node: &NodeId, name: &Text) -> String {
    log_of_worker(cluster, node, name, ["out", "err"])
}

/// The same where there is more room: `10.0.0.7/4123 stderr`.
pub fn log_file_in_full(cluster: &Cluster, node: &NodeId, name: &Text) -> String {
    log_of_worker(cluster, node, name, ["stdout", "stderr"])
}

fn log_of_worker(cluster: &Cluster, node: &NodeId, name: &Text, [out, err]: [&str; 2]) -> String {
    let host = host(cluster, node);
    let LogName { log, suffix, .. } = LogName::parse(name.raw());
    match WorkerFile::parse(log) {
        Some(file) => format!("{host}/{} {}{suffix}", file.pid, if file.is_err { err } else { out }),
        None => format!("{host} {name}"),
    }
}

/// Ray's category of a log file in words.
pub fn log_category(category: &Text) -> String {
    match category.raw() {
        "worker_out" => "worker stdout".to_owned(),
        "worker_err" => "worker stderr".to_owned(),
        _ => category.to_string(),
    }
}

/// Nodes that are alive, pending, and recently lost: `41 +3 ✕2`.
pub fn node_counts(cluster: &Cluster) -> String {
    format!("{}{}", grouped(cluster.node_counts().0), unhealthy_nodes(cluster))
}

/// Nodes that are alive, and recently lost or else pending: `41 ✕2`.
pub fn node_counts_in_brief(cluster: &Cluster) -> String {
    let (alive, pending, lost) = cluster.node_counts();
    format!("{}{}", grouped(alive), if lost > 0 { counted(lost, "✕") } else { counted(pending, "+") })
}

/// Nodes that are pending and recently lost: ` +3 ✕2`.
pub fn unhealthy_nodes(cluster: &Cluster) -> String {
    let (_, pending, lost) = cluster.node_counts();
    format!("{}{}", counted(pending, "+"), counted(lost, "✕"))
}

/// Jobs that are running, pending, and recently failed: `12 ◐3 ✕1`.
pub fn job_counts(cluster: &Cluster, now: Timestamp) -> String {
    let (running, waiting, failed) = cluster.job_counts(now);
    format!("{}{}{}", grouped(running), counted(waiting, "◐"), counted(failed, "✕"))
}

fn counted(n: usize, glyph: &str) -> String {
    if n > 0 { format!(" {glyph}{}", grouped(n)) } else { String::new() }
}

/// The state of the connection to a cluster, in a few words.
pub fn link(cluster: &Cluster, now: Timestamp) -> (String, Role) {
    match &cluster.link {
        None => ("○ waiting".into(), Role::Dim),
        Some(Link::Connecting { phase, .. }) => (format!("◌ {}", phase.label()), Role::Dim),
        Some(Link::Up { dashboard: Some(problem), .. }) => {
            (format!("! {} {}", problem.kind.text(), minutes(problem.since.age(now))), Role::Warn)
        }
        Some(Link::Up { latency, .. }) => {
            let tone = if cluster.is_stale(now) { Role::Warn } else { Role::Good };
            (latency.map_or_else(|| "● up".into(), |latency| format!("● up, {} RTT", trip(latency))), tone)
        }
        Some(Link::Retrying { problem, at }) => {
            (format!("✕ {}, retry in {}", problem.kind.text(), countdown(at.until(now))), Role::Bad)
        }
        Some(Link::Stopped { problem }) => (format!("✕ {}", problem.kind.text()), Role::Bad),
    }
}

/// A round-trip time, e.g. `12 ms`.
pub fn trip(latency: Duration) -> String {
    match latency.as_millis() {
        0 => "<1 ms".into(),
        ms @ 1..10_000 => format!("{ms} ms"),
        ms => format!("{}s", ms / 1000),
    }
}

/// Whole seconds, rounded up: a countdown ends at "1s", not at "0s".
pub fn countdown(left: Duration) -> String {
    format!("{}s", left.as_millis().div_ceil(1000))
}

/// An age; below `fresh` a fixed text, so that it does not change.
pub fn age(age: Option<Duration>, fresh: Duration) -> String {
    match age {
        None => "-".into(),
        Some(age) if age < fresh => format!("<{}s", fresh.as_secs()),
        Some(age) if age < SHOWN_IN_MINUTES => format!("{}s", age.as_secs()),
        Some(age) => brief(age),
    }
}

/// A duration with seconds: `8s`, `1m 08s`, `1h 02m`.
pub fn span(d: Duration) -> String {
    match d.as_secs() {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3600 => format!("{}m {:02}s", s / 60, s % 60),
        _ => brief(d),
    }
}

/// A duration without seconds, so that it changes at most once a minute.
pub fn minutes(d: Duration) -> String {
    if d < Duration::from_secs(60) { "<1m".into() } else { brief(d) }
}

/// The hosts of one row, in a few words: `slice ray-c-worker-7f-tpu`.
pub fn hosts(key: &HostsKey) -> String {
    match key.kind {
        HostsKind::Head => "head".to_owned(),
        HostsKind::Slice => format!("slice {}", key.name),
        HostsKind::Type if key.name.is_empty() => "workers".to_owned(),
        HostsKind::Type => format!("workers of {}", key.name),
        HostsKind::Dead => match key.lost {
            Some((reason, _)) if reason != DeathReason::Unspecified => {
                format!("{} hosts", death_label(reason))
            }
            _ => "dead hosts".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::app::text::labels::*;

    #[test]
    fn log_files_of_workers_are_named_by_their_stream() {
        let label = |category: &str| log_category(&Text::from(category));
        assert_eq!(
            ["worker_out", "worker_err", "raylet"].map(label),
            ["worker stdout", "worker stderr", "raylet"]
        );
    }

    #[test]
    fn dead_hosts_are_named_by_their_cause_if_ray_reports_one() {
        let label = |lost| hosts(&HostsKey { kind: HostsKind::Dead, name: Text::default(), lost });
        assert_eq!(label(Some((DeathReason::Preempted, None))), "preempted hosts");
        assert_eq!(label(Some((DeathReason::Unexpected, None))), "lost hosts");
        assert_eq!(label(Some((DeathReason::Unspecified, None))), "dead hosts");
        assert_eq!(label(None), "dead hosts");
    }
}
