//! The content of a details page: a thing in full, or the messages, as of now.

use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::host::{self, chips};
use crate::app::job::{self, stacks::StackRows, vitals::HOLDS};
use crate::app::pages::details::Details;
use crate::app::pages::hosts::HostsRow;
use crate::app::table::facts::CellContext;
use crate::app::text::describe::{self, Lines};
use crate::model::{Hint, Job, JobKey};

/// The title and the lines of a details page, and its rows that can be selected, each with its lines.
pub fn with_rows(context: &CellContext<'_>, details: &Details) -> (&'static str, Lines, StackRows) {
    let cluster = details.target.cluster_index().and_then(|at| context.fleet.clusters.get(at));
    if let (Target::Stacks(_, key), Some(cluster)) = (&details.target, cluster) {
        let (lines, rows) = stacks(key, cluster, details, context);
        return ("Stacks", lines, rows);
    }
    let (title, lines) = lines(context, details);
    (title, lines, Vec::new())
}

/// The title and the lines of a details page; one line if the thing is gone.
pub fn lines(context: &CellContext<'_>, details: &Details) -> (&'static str, Lines) {
    let (fleet, now) = (context.fleet, context.now);
    let words = |hint: &Hint| context.hint(hint);
    let cluster = details.target.cluster_index().and_then(|cluster_index| fleet.clusters.get(cluster_index));
    match (&details.target, cluster) {
        (Target::Cluster(_), Some(cluster)) => ("Cluster", describe::cluster(cluster, words, now)),
        (Target::Node(_, id), Some(cluster)) => {
            let node = cluster.node(id).map(|node| host::page::lines(node, cluster, details, context));
            ("Node", node.unwrap_or_else(|| gone("the node")))
        }
        (Target::Job(_, key), Some(cluster)) => {
            let job = cluster.job(key).map(|job| of_job(job, cluster, details, context));
            ("Job", job.unwrap_or_else(|| gone("the job")))
        }
        (Target::Stacks(_, key), Some(cluster)) => ("Stacks", stacks(key, cluster, details, context).0),
        (Target::Chips(..), Some(_)) => ("Chips", chips::lines(details, words, now)),
        (Target::Tpu(_, name), Some(cluster)) => {
            let knows_ray = cluster.tpus.knows_ray();
            let tpu = cluster.tpu(name).map(|tpu| describe::tpu(tpu, knows_ray, words, now));
            ("TPU", tpu.unwrap_or_else(|| gone("the TPU")))
        }
        (Target::Hosts(cluster_index, key), Some(cluster)) => {
            let row = HostsRow::find(cluster, *cluster_index, key);
            ("Slice", row.map_or_else(|| gone("the slice"), |row| host::slice::lines(&row, now)))
        }
        (Target::Broken(among), _) => {
            let Some((file, problem)) = fleet.broken.get(*among) else { return ("File", gone("the file")) };
            let hint = words(&problem.hint);
            let lines = [("file", file), ("problem", &problem.what), ("hint", &hint)];
            ("Broken file", lines.map(|(label, text)| (label.to_owned(), text.clone())).to_vec())
        }
        (Target::Messages, _) => ("Messages", messages(context)),
        (_, None) => ("", Vec::new()),
    }
}

fn gone(what: &str) -> Lines {
    vec![(String::new(), format!("{what} is no longer listed"))]
}

/// The stacks of a job's workers.
fn stacks(
    key: &JobKey,
    cluster: &Cluster,
    details: &Details,
    context: &CellContext<'_>,
) -> (Lines, StackRows) {
    let vitals = cluster.vitals.jobs.get(key).map(AsRef::as_ref);
    job::stacks::lines(&details.stacks, vitals, |hint| context.hint(hint), context.now)
}

/// A job: its row, with the cause of a failure and its work, then Ray's answer about it.
fn of_job(job: &Job, cluster: &Cluster, details: &Details, context: &CellContext<'_>) -> Lines {
    let now = context.now;
    let mut lines = describe::job(job, cluster, |hint: &Hint| context.hint(hint), now);
    // Below the issue, which shows the driver's error.
    let at = usize::from(!lines.is_empty());
    lines.splice(at..at, job::page::cause(job, cluster, details));
    let after = lines.iter().position(|(label, _)| label == "status").map_or(0, |at| at + 1);
    let work = job::description::lines(&details.work, cluster, job.status.is_ended(), now);
    // The slice that it holds is shown once: its vitals may list it, too.
    let is_known = lines.iter().any(|(label, _)| label == HOLDS);
    lines.splice(after..after, work.into_iter().filter(|(label, _)| !is_known || label != HOLDS));
    lines.extend(job::page::lines(job, cluster, details, context));
    lines
}

fn messages(context: &CellContext<'_>) -> Lines {
    let messages = context.messages.messages();
    let mut lines: Lines = messages.map(|t| (describe::ago(t.at, context.now), t.text.clone())).collect();
    if lines.is_empty() {
        lines.push((String::new(), "no messages so far".to_owned()));
    }
    lines
}
