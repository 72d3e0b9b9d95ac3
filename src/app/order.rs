//! In which order rows stand, and in which of their fields a filter looks. Trouble comes first.

use super::table::Sort;
use crate::model::{Job, JobKey, JobStatus, Node, NodeState};
use std::cmp::{Ordering, Reverse};

/// Columns that nodes can be sorted by.
pub const NODE_COLUMNS: [&str; 6] = ["NODE", "TYPE", "STATE", "CPU", "TPU", "UP"];
/// Columns that jobs can be sorted by.
pub const JOB_COLUMNS: [&str; 5] = ["JOB", "OWNER", "STATE", "AGE", "ENTRYPOINT"];

/// Dead ones first, latest death first; then by type and name; the head last.
pub fn nodes(a: &Node, b: &Node, sort: Sort) -> Ordering {
    let used = |n: &Node, name: &str| n.resources.get(name).and_then(|r| r.used).unwrap_or(-1.0);
    let gauge = |name| used(b, name).total_cmp(&used(a, name));
    let by = match sort.column {
        Some(0) => a.name.cmp(&b.name),
        Some(1) => a.node_type.cmp(&b.node_type),
        Some(2) => a.state.cmp(&b.state),
        Some(3) => gauge("CPU"),
        Some(4) => gauge("TPU").then_with(|| gauge("GPU")),
        Some(5) => b.started.cmp(&a.started),
        _ => own_node_order(a).cmp(&own_node_order(b)),
    };
    let by = if sort.inverted { by.reverse() } else { by };
    by.then_with(|| a.name.cmp(&b.name)).then_with(|| a.id.cmp(&b.id))
}

fn own_node_order(n: &Node) -> impl Ord {
    let dead = n.state == NodeState::Dead;
    (!dead, Reverse(n.ended.filter(|_| dead)), n.is_head, n.node_type.clone())
}

/// What has not ended first; within that the newest first.
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

/// Fields of a node that a filter looks into.
pub fn node_fields(n: &Node) -> [&str; 5] {
    [n.name.raw(), n.address.raw(), n.hostname.raw(), n.node_type.raw(), n.state.word()]
}

/// Fields of a job that a filter looks into.
pub fn job_fields(j: &Job) -> [&str; 5] {
    let id = match &j.key {
        JobKey::Submission(id) => id.0.raw(),
        JobKey::Driver(id) => id.0.raw(),
    };
    [id, j.owner().unwrap_or_default(), j.status.word(), j.entrypoint.raw(), j.message.raw()]
}

/// The job whose log is worth opening first: the newest that runs and has one.
pub fn newest_running(jobs: &[std::sync::Arc<Job>]) -> Option<&Job> {
    let running = jobs.iter().filter(|j| j.status == JobStatus::Running && j.submission_id().is_some());
    running.max_by_key(|j| j.started).map(AsRef::as_ref)
}
