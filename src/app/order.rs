//! The order of rows, and the fields that a filter searches. Issues come first.

use super::cluster::Cluster;
use super::table::Sort;
use crate::diagnose::{FindingKind, Severity};
use crate::model::{Job, JobKey, JobStatus, Node, Text, Timestamp};
use std::cmp::{Ordering, Reverse};

/// Columns that clusters can be sorted by.
pub const FLEET_COLUMNS: [&str; 5] = ["CLUSTER", "NODES", "CHIPS", "JOBS", "PENDING"];
/// Columns that nodes can be sorted by.
pub const NODE_COLUMNS: [&str; 6] = ["NODE", "TYPE", "STATE", "CPU", "TPU", "UP"];
/// Columns that jobs can be sorted by.
pub const JOB_COLUMNS: [&str; 5] = ["JOB", "OWNER", "STATE", "AGE", "ENTRYPOINT"];

/// Issues first; equals stay in the order in which they were listed. None is a broken file.
pub fn clusters(a: Option<&Cluster>, b: Option<&Cluster>, sort: Sort) -> Ordering {
    let tally = |c: Option<&Cluster>| c.map(|c| c.tally).unwrap_or_default();
    let (ta, tb) = (tally(a), tally(b));
    let by = match sort.column {
        Some(0) => (a.is_none(), a.map(Cluster::name)).cmp(&(b.is_none(), b.map(Cluster::name))),
        Some(1) => tb.alive.cmp(&ta.alive),
        Some(2) => tb.chips.total_cmp(&ta.chips),
        Some(3) => (tb.running, tb.waiting).cmp(&(ta.running, ta.waiting)),
        Some(4) => tb.wants.cmp(&ta.wants),
        _ => trouble(a).cmp(&trouble(b)),
    };
    if sort.inverted { by.reverse() } else { by }
}

/// Rank of a cluster in the fleet's own order: bad, doubtful, in progress, well, idle.
fn trouble(cluster: Option<&Cluster>) -> u8 {
    match cluster.and_then(Cluster::operating) {
        Some(running) if running.is_stopped() => return 0,
        Some(_) => return 1,
        None => {}
    }
    match cluster.map(|c| c.says().map(|f| (f.kind, f.severity))) {
        None | Some(Some((_, Severity::Bad))) => 0,
        Some(Some((_, Severity::Warn))) => 1,
        Some(Some((FindingKind::Idle, _))) => 4,
        Some(Some((_, Severity::Info))) => 2,
        Some(None) => 3,
    }
}

/// A node with what else its place in the order depends on.
pub struct Placed<'a> {
    /// The node that is placed.
    pub node: &'a Node,
    /// The name that is shown.
    pub name: &'a Text,
    /// When its state was read.
    pub seen: Timestamp,
}

impl<'a> Placed<'a> {
    /// The node with its shown name, as the cluster's last state has it.
    pub fn of(cluster: &'a Cluster, node: &'a Node) -> Self {
        Self { node, name: cluster.node_name(node), seen: cluster.snapshot.taken }
    }
}

/// Lost nodes first, the latest loss first; then the head; then living nodes by type and name; then nodes that died long
/// ago or were stopped in order.
pub fn nodes(a: &Placed<'_>, b: &Placed<'_>, sort: Sort) -> Ordering {
    let used = |n: &Node, name: &str| n.resources.get(name).and_then(|r| r.used).unwrap_or(-1.0);
    let gauge = |name| used(b.node, name).total_cmp(&used(a.node, name));
    let by = match sort.column {
        Some(0) => natural(a.name.raw(), b.name.raw()),
        Some(1) => a.node.node_type.cmp(&b.node.node_type),
        Some(2) => a.node.state.cmp(&b.node.state),
        Some(3) => gauge("CPU"),
        Some(4) => gauge("TPU").then_with(|| gauge("GPU")),
        Some(5) => b.node.started.cmp(&a.node.started),
        _ => own_node_order(a).cmp(&own_node_order(b)),
    };
    let by = if sort.inverted { by.reverse() } else { by };
    by.then_with(|| natural(a.name.raw(), b.name.raw())).then_with(|| a.node.id.cmp(&b.node.id))
}

fn own_node_order<'a>(placed: &Placed<'a>) -> impl Ord + use<'a> {
    let n = placed.node;
    let rank = match n.state.is_alive() {
        true => 1,
        false if n.is_lost(placed.seen) => 0,
        false => 2,
    };
    (rank, Reverse(n.ended.filter(|_| rank != 1)), !n.is_head, n.node_type.raw())
}

/// Orders names as people read them: runs of digits compare as numbers, so that `w-2` comes before `w-10`.
pub fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.as_bytes(), right.as_bytes());
    loop {
        let (run, other) = (digits(left), digits(right));
        let by = if run > 0 && other > 0 {
            let (number, against) = (significant(&left[..run]), significant(&right[..other]));
            number.len().cmp(&against.len()).then_with(|| number.cmp(against))
        } else {
            left.first().cmp(&right.first())
        };
        if by != Ordering::Equal || left.is_empty() {
            return by;
        }
        (left, right) =
            if run > 0 && other > 0 { (&left[run..], &right[other..]) } else { (&left[1..], &right[1..]) };
    }
}

/// How many digits a text begins with; none where a letter follows, as in the hexadecimal names of machines.
fn digits(text: &[u8]) -> usize {
    let run = text.iter().take_while(|c| c.is_ascii_digit()).count();
    if text.get(run).is_some_and(u8::is_ascii_alphabetic) { 0 } else { run }
}

/// Digits without leading zeros.
fn significant(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|c| **c == b'0').count()..]
}

/// Jobs that have not ended first; then the newest first.
pub fn jobs(a: &Job, b: &Job, sort: Sort) -> Ordering {
    let by = match sort.column {
        Some(0) => a.key.cmp(&b.key),
        Some(1) => a.owner().cmp(&b.owner()),
        Some(2) => a.status.cmp(&b.status),
        Some(3) => b.started.cmp(&a.started),
        Some(4) => a.entrypoint.cmp(&b.entrypoint),
        _ => a.status.is_ended().cmp(&b.status.is_ended()),
    };
    let by = if sort.inverted { by.reverse() } else { by };
    by.then_with(|| b.started.cmp(&a.started)).then_with(|| a.key.cmp(&b.key))
}

/// The names of a node's fields in a filter; among all nodes the cluster's follows.
pub const NODE_FIELDS: [&str; 6] = ["node", "address", "host", "type", "state", "cluster"];
/// The names of a job's fields in a filter; among all jobs the cluster's follows.
pub const JOB_FIELDS: [&str; 6] = ["job", "owner", "state", "entrypoint", "message", "cluster"];

/// Fields of a node that a filter searches, with their names.
pub fn node_fields(n: &Node) -> [(&str, &str); 5] {
    let texts = [n.name.raw(), n.address.raw(), n.hostname.raw(), n.node_type.raw(), n.state.word()];
    named(&NODE_FIELDS, texts)
}

fn named<'a>(names: &[&'static str], texts: [&'a str; 5]) -> [(&'a str, &'a str); 5] {
    std::array::from_fn(|i| (names[i], texts[i]))
}

/// Fields of a job that a filter searches, with their names.
pub fn job_fields(j: &Job) -> [(&str, &str); 5] {
    let id = match &j.key {
        JobKey::Submission(id) => id.0.raw(),
        JobKey::Driver(id) => id.0.raw(),
    };
    let owner = j.owner().unwrap_or_default();
    named(&JOB_FIELDS, [id, owner, j.status.word(), j.entrypoint.raw(), j.message.raw()])
}

/// The job whose log is opened first: the newest running submission.
pub fn newest_running(jobs: &[std::sync::Arc<Job>]) -> Option<&Job> {
    let running = jobs.iter().filter(|j| j.status == JobStatus::Running && j.submission_id().is_some());
    running.max_by_key(|j| j.started).map(AsRef::as_ref)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["w-10", "w-2", "w-1", "w-100", "w-1-b", "w", "", "x-01", "w-1-a", "w-020"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["", "w", "w-1", "w-1-a", "w-1-b", "w-2", "w-10", "w-020", "w-100", "x-01"]);
        assert_eq!(natural("w-0afe", "w-07fe"), Ordering::Greater, "hexadecimal");
        assert_eq!(natural("w-01", "w-1"), Ordering::Equal, "the id of the node decides");
        assert_eq!(natural("99999999999999999999999", "100000000000000000000000"), Ordering::Less);
    }
}
