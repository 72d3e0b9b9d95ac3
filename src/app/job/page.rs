//! The page of a job: its row in full, its workers by slice and those with problems, its placement groups, its history,
//! its environment, the last lines of its log.

use crate::app::host::slices::NEARLY_FULL;
use crate::app::pages::details::{Details, Inspected};
use crate::app::table::facts::CellContext;
use crate::app::text::describe::{Lines, WARNS, ago, heading};
use crate::app::{Action, Cluster};
use crate::model::amount::{counted, shape};
use crate::model::sort;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{
    Inspection, Job, JobInspection, JobStatus, JobWorker, Node, NodeState, PlacementGroup, Text, Timestamp,
    WorkerState,
};
use std::collections::BTreeMap;

/// Up to this many workers are listed individually; more are counted by slice, and those with problems are named.
const MAX_LISTED_WORKERS: usize = 12;
/// Maximum number of lines of a long list.
const MAX_LINES: usize = 20;

/// Ray's answer about the job: the lines below those of the row.
pub fn lines(job: &Job, cluster: &Cluster, details: &Details, context: &CellContext<'_>) -> Lines {
    let mut lines = Lines::new();
    match &*details.inspected {
        Inspected::No => {}
        Inspected::Waiting(_) => lines.push(("workers".to_owned(), "querying Ray...".to_owned())),
        Inspected::Answered(_, at, answer) => {
            lines.push(("updated".to_owned(), ago(*at, context.now)));
            match &**answer {
                Err(why) => lines.push(("workers".to_owned(), format!("? ({})", printable(why)))),
                Ok(Inspection::Job(answer)) => sections(&mut lines, (job, answer), cluster, context),
                Ok(Inspection::Host(_)) => {}
            }
        }
    }
    lines
}

fn sections(
    lines: &mut Lines,
    (job, answer): (&Job, &JobInspection),
    cluster: &Cluster,
    context: &CellContext<'_>,
) {
    part(lines, "Workers", &answer.workers, |lines, all| workers(lines, all, cluster, context));
    part(lines, "Placement groups", &answer.groups, |lines, groups| {
        lines.extend(groups.iter().take(MAX_LINES).map(|group| of_group(group, cluster, context.now)));
    });
    heading(lines, "History");
    lines.extend(history(job, answer.workers.as_deref().unwrap_or_default(), cluster, context.now));
    part(lines, "Environment", &answer.environment, |lines, values| {
        lines.extend(values.iter().map(|(path, value)| (path.to_string(), value.to_string())));
    });
    part(lines, "Log", &answer.log, |lines, log| {
        lines.extend(log.iter().map(|line| (String::new(), line.text().to_owned())));
        lines.push((String::new(), format!("press {} to follow it", context.keymap.key_of(Action::Log))));
    });
}

/// The first failure among the workers of a failed job: the driver's own message is often a consequence.
pub fn cause(job: &Job, cluster: &Cluster, details: &Details) -> Option<(String, String)> {
    let Inspected::Answered(_, _, answer) = &*details.inspected else { return None };
    let Ok(Inspection::Job(answer)) = &**answer else { return None };
    let failures = failures(answer.workers.as_deref().unwrap_or_default());
    let (_, worker, why) = failures.first().filter(|_| job.status == JobStatus::Failed)?;
    Some(("cause".to_owned(), format!("{WARNS}{}", first_failure(worker, why, cluster))))
}

/// The failed workers with their errors, the first one first.
fn failures(workers: &[JobWorker]) -> Vec<(Timestamp, &JobWorker, &Text)> {
    let mut failed: Vec<_> = workers
        .iter()
        .filter_map(|worker| match &worker.state {
            WorkerState::Failed { why, at } => Some(((*at)?, worker, why)),
            WorkerState::Running | WorkerState::Ended => None,
        })
        .collect();
    sort::by_key(&mut failed, |(at, ..)| *at);
    failed
}

/// `first worker failed: t1v-n-7 pid 262 train_step: RESOURCE_EXHAUSTED: ...`.
fn first_failure(worker: &JobWorker, why: &Text, cluster: &Cluster) -> String {
    let node = cluster.node_label(&worker.node).unwrap_or_else(|| worker.node.to_string());
    let name = if worker.name.is_empty() { String::new() } else { format!(" {}", worker.name) };
    format!("first worker failed: {node} pid {}{name}: {}", worker.pid, last_line(why))
}

/// A section, unless it is empty; with the reason if it could not be read.
fn part<T>(
    lines: &mut Lines,
    title: &str,
    answer: &Result<Vec<T>, String>,
    write: impl FnOnce(&mut Lines, &[T]),
) {
    match answer {
        Ok(all) if all.is_empty() => {}
        Ok(all) => {
            heading(lines, title);
            write(lines, all);
        }
        Err(why) => {
            heading(lines, title);
            lines.push(("not read".to_owned(), printable(why).into_owned()));
        }
    }
}

/// Counts by slice, or by node type without slices; then each worker, or if there are many, those with problems.
fn workers(lines: &mut Lines, all: &[JobWorker], cluster: &Cluster, context: &CellContext<'_>) {
    let live: Vec<&JobWorker> = all.iter().filter(|worker| worker.state != WorkerState::Ended).collect();
    let mut slices: BTreeMap<String, Vec<&JobWorker>> = BTreeMap::new();
    for worker in &live {
        slices.entry(slice(worker, cluster)).or_default().push(worker);
    }
    for (slice, workers) in &slices {
        lines.push((slice.clone(), in_numbers(workers, cluster)));
    }
    let unhealthy = |worker: &&&JobWorker| !health(worker, cluster, context.now).is_empty();
    let is_few = live.len() <= MAX_LISTED_WORKERS;
    let listed: Vec<&JobWorker> =
        if is_few { live.clone() } else { live.iter().filter(unhealthy).copied().collect() };
    for worker in listed.iter().take(MAX_LINES) {
        let health = health(worker, cluster, context.now);
        let node = cluster.node_label(&worker.node).unwrap_or_else(|| worker.node.to_string());
        let mark = if health.is_empty() { "" } else { WARNS };
        let text = format!("{mark}{node} pid {} {}", worker.pid, worker.name);
        let health = if health.is_empty() { String::new() } else { format!(": {health}") };
        lines.push((" ".to_owned(), format!("{}{health}", text.trim_end())));
    }
    if listed.len() > MAX_LINES {
        lines.push((" ".to_owned(), format!("and {} more", listed.len() - MAX_LINES)));
    }
    if !is_few && listed.is_empty() {
        lines.push((" ".to_owned(), "no failures; all hosts are alive".to_owned()));
    }
}

fn slice(worker: &JobWorker, cluster: &Cluster) -> String {
    let Some(node) = cluster.node(&worker.node) else { return "gone".to_owned() };
    let kind = if node.is_head { Text::from("head") } else { node.node_type.clone() };
    let name = node.slice().unwrap_or(&kind);
    if name.is_empty() { "hosts".to_owned() } else { name.to_string() }
}

/// `256 workers on 256 hosts: 255 running, 1 failed`.
fn in_numbers(workers: &[&JobWorker], cluster: &Cluster) -> String {
    let hosts = sort::distinct(workers.iter().map(|worker| worker.node));
    let dead = hosts.iter().filter(|id| cluster.node(id).is_none_or(|node| !node.state.is_alive())).count();
    let failed = workers.iter().filter(|w| matches!(w.state, WorkerState::Failed { .. })).count();
    let states = [(workers.len() - failed, "running"), (failed, "failed")];
    let mut states: Vec<String> =
        states.into_iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if dead > 0 {
        states.push(format!("{} dead", counted(dead, "host")));
    }
    let mark = if failed + dead > 0 { WARNS } else { "" };
    let (workers, hosts) = (counted(workers.len(), "worker"), counted(hosts.len(), "host"));
    format!("{mark}{workers} on {hosts}: {}", states.join(", "))
}

/// The problem of a worker or its host; empty if there is none.
fn health(worker: &JobWorker, cluster: &Cluster, now: Timestamp) -> String {
    let host = match cluster.node(&worker.node) {
        None => Some("its node no longer exists".to_owned()),
        Some(node) => host(node, cluster, now),
    };
    let failed = match &worker.state {
        WorkerState::Failed { why, .. } => Some(format!("failed: {}", last_line(why))),
        WorkerState::Running | WorkerState::Ended => None,
    };
    [failed, host].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn host(node: &Node, cluster: &Cluster, now: Timestamp) -> Option<String> {
    match node.state {
        NodeState::Dead => {
            let since = node.ended.map(|at| format!(" {}", ago(at, now))).unwrap_or_default();
            let why = node.death.as_ref().map(|d| format!(": {}", d.message)).unwrap_or_default();
            Some(format!("its node died{since}{why}"))
        }
        NodeState::Draining => Some("its node is draining".to_owned()),
        NodeState::Alive | NodeState::Idle => {
            let (used, all) = cluster.physical(&node.id, now)?.memory?;
            let percent = used as f64 * 100.0 / all.max(1) as f64;
            (percent >= NEARLY_FULL).then(|| format!("the memory of its host is {percent:.0}% full"))
        }
    }
}

/// The last line of a traceback is the error.
fn last_line(why: &Text) -> String {
    let line = why.raw().lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    printable(line.trim()).into_owned()
}

/// `gang: created 3h 02m ago, 4 bundles of TPU 4`, or why it waits.
fn of_group(group: &PlacementGroup, cluster: &Cluster, now: Timestamp) -> (String, String) {
    let name = if group.name.is_empty() { "unnamed".to_owned() } else { group.name.to_string() };
    let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
    for (wanted, _) in &group.bundles {
        *shapes.entry(shape(wanted)).or_default() += 1;
    }
    let shapes = shapes.iter().map(|(shape, n)| format!("{} of {shape}", counted(*n, "bundle")));
    let shapes = shapes.collect::<Vec<_>>().join(", ");
    let placed = sort::distinct(group.bundles.iter().filter_map(|(_, node)| *node));
    let is_created = group.state.raw() == "CREATED";
    let age = |at: Timestamp| {
        let age = brief(at.age(now));
        if is_created { format!(" {age} ago") } else { format!(" for {age}") }
    };
    let age = group.created.map(age).unwrap_or_default();
    let why = if group.why.is_empty() { String::new() } else { format!(" ({})", readable(&group.why)) };
    let hosts = match placed.len() {
        0 => String::new(),
        1..=3 => {
            let names = placed.iter().map(|id| cluster.node_label(id).unwrap_or_else(|| id.to_string()));
            format!(", on {}", names.collect::<Vec<_>>().join(", "))
        }
        n => format!(", on {n} hosts"),
    };
    let mark = if is_created || group.state.raw() == "REMOVED" { "" } else { WARNS };
    (name, format!("{mark}{}{age}{why}: {shapes}{hosts}", readable(&group.state)))
}

/// A readable form of Ray's word: `no resources`.
fn readable(word: &Text) -> String {
    word.to_string().to_lowercase().replace('_', " ")
}

/// Known events, the oldest first: submission, the first failures, hosts that died, the end.
fn history(job: &Job, workers: &[JobWorker], cluster: &Cluster, now: Timestamp) -> Lines {
    let mut events: Vec<(Timestamp, String)> = Vec::new();
    events.extend(job.started.map(|at| (at, "submitted".to_owned())));
    let failed = failures(workers);
    if let Some((at, worker, why)) = failed.first() {
        events.push((*at, format!("{WARNS}{}", first_failure(worker, why, cluster))));
    }
    if let [_, .., (at, ..)] = failed.as_slice() {
        events.push((*at, format!("{WARNS}{} failed by then", counted(failed.len(), "worker"))));
    }
    let hosts = sort::distinct(workers.iter().map(|worker| worker.node));
    let died = hosts.iter().filter_map(|id| cluster.node(id)).filter_map(|node| Some((node.ended?, node)));
    let died = died.filter(|(_, node)| !node.state.is_alive());
    for (at, node) in died.take(MAX_LINES) {
        let why = node.death.as_ref().map(|death| format!(": {}", death.message)).unwrap_or_default();
        events.push((at, format!("{WARNS}its host {} died{why}", cluster.node_name(node))));
    }
    events.extend(job.ended.map(|at| (at, job.status.label().to_owned())));
    if job.ended.is_none() {
        events.push((now, cluster.vitals.status(job).label().to_owned()));
    }
    sort::by_key(&mut events, |(at, _)| *at);
    let label = |at: Timestamp| if at == now { "now".to_owned() } else { ago(at, now) };
    events.into_iter().map(|(at, what)| (label(at), what)).collect()
}
