//! The content of a details page: a thing in full, or the messages, as of now.

use crate::app::action::target::Target;
use crate::app::host::{self, chips};
use crate::app::job::{self, vitals::HOLDS};
use crate::app::pages::details::Details;
use crate::app::pages::hosts::HostsRow;
use crate::app::table::facts::CellContext;
use crate::app::text::describe::{self, Lines};
use crate::model::Hint;

/// The title and the lines of a details page; one line if the thing is gone.
pub fn lines(context: &CellContext<'_>, details: &Details) -> (&'static str, Lines) {
    let (fleet, now) = (context.fleet, context.now);
    let words = |hint: &Hint| context.hint(hint);
    let gone = |what: &str| vec![(String::new(), format!("{what} is no longer listed"))];
    let cluster = details.target.cluster_index().and_then(|cluster_index| fleet.clusters.get(cluster_index));
    match (&details.target, cluster) {
        (Target::Cluster(_), Some(cluster)) => ("Cluster", describe::cluster(cluster, words, now)),
        (Target::Node(_, id), Some(cluster)) => {
            let node = cluster.node(id);
            (
                "Node",
                node.map_or_else(
                    || gone("the node"),
                    |node| host::page::lines(node, cluster, details, context),
                ),
            )
        }
        (Target::Job(_, key), Some(cluster)) => {
            let Some(job) = cluster.job(key) else { return ("Job", gone("the job")) };
            let mut lines = describe::job(job, cluster, words, now);
            // Below the issue, which shows the driver's error.
            let at = usize::from(!lines.is_empty());
            lines.splice(at..at, job::page::cause(job, cluster, details));
            let after = lines.iter().position(|(label, _)| label == "status").map_or(0, |at| at + 1);
            let work = job::description::lines(&details.work, cluster, job.status.is_ended(), now);
            // The slice that it holds is shown once: its vitals may list it, too.
            let is_known = lines.iter().any(|(label, _)| label == HOLDS);
            lines.splice(after..after, work.into_iter().filter(|(label, _)| !is_known || label != HOLDS));
            lines.extend(job::page::lines(job, cluster, details, context));
            ("Job", lines)
        }
        (Target::Stacks(_, key), Some(cluster)) => {
            let vitals = cluster.vitals.jobs.get(key).map(AsRef::as_ref);
            ("Stacks", job::stacks::lines(&details.stacks, vitals, words, now))
        }
        (Target::Chips(_, of), Some(_)) => ("Chips", chips::lines(of, details.chips.as_deref(), words, now)),
        (Target::Tpu(_, name), Some(cluster)) => {
            let tpu = cluster.tpu(name);
            let knows_ray = cluster.tpus.knows_ray();
            ("TPU", tpu.map_or_else(|| gone("the TPU"), |tpu| describe::tpu(tpu, knows_ray, words, now)))
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
        (Target::Messages, _) => {
            let mut messages: Lines =
                context.messages.messages().map(|t| (describe::ago(t.at, now), t.text.clone())).collect();
            if messages.is_empty() {
                messages.push((String::new(), "no messages so far".to_owned()));
            }
            ("Messages", messages)
        }
        (_, None) => ("", Vec::new()),
    }
}
