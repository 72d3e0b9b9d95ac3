//! Arguments of palette commands: jobs, nodes and TPUs, by their ids.

use crate::app::action::context::Context;
use crate::app::action::table::Action;
use crate::app::action::target::Target;
use crate::app::fleet::Fleet;
use crate::app::pages::jobs::Jobs;
use crate::app::pages::nodes::Nodes;
use crate::app::pages::tpu_table::TpuTable;
use crate::app::table::column::Kind;
use crate::model::sort;
use crate::model::{Job, Node, Text};

/// Actions that take a thing by name. The tables in which an action is available decide which kinds of things it takes.
const ON_RESOURCES: &[Action] = &[
    Action::StopJob,
    Action::DeleteJob,
    Action::Log,
    Action::Describe,
    Action::Resubmit,
    Action::RemoveWorker,
    Action::InitWorker,
];

/// A thing that can be named.
pub(in crate::app) struct ResourceId {
    /// Its id or name, safe to print.
    pub name: String,
    /// A one-line description.
    pub about: String,
    /// The target of the action if this thing is chosen.
    pub target: Target,
}

/// Whether an action takes a thing by name.
pub(in crate::app) fn takes_resource_id(action: Action) -> bool {
    ON_RESOURCES.contains(&action)
}

/// The things of a cluster, or of all, that an action has an effect on, in the order of their tables.
pub(in crate::app) fn resource_ids(fleet: &Fleet, of: Option<usize>, action: Action) -> Vec<ResourceId> {
    let has = |table| takes_resource_id(action) && action.describe().contexts.contains(&table);
    let on = |cluster_index: usize| {
        let cluster = fleet.clusters.get(cluster_index).filter(|_| of.is_none());
        cluster.map_or_else(String::new, |cluster| format!(", {}", cluster.name()))
    };
    let mut resource_ids = Vec::new();
    if has(Context::Jobs) {
        resource_ids.extend(ordered::<Jobs>(fleet, of).filter(|(_, row)| fits_job(action, row.job)).map(
            |(cluster_index, row)| {
                let owner = Text::from(row.job.owner().unwrap_or("-"));
                let about = format!(
                    "job, {}, {owner}{}",
                    row.cluster.vitals.status(row.job).label(),
                    on(cluster_index)
                );
                let target = Target::Job(cluster_index, row.job.key.clone());
                ResourceId { name: row.job.key.to_string(), about, target }
            },
        ));
    }
    if has(Context::Nodes) {
        resource_ids.extend(ordered::<Nodes>(fleet, of).filter(|(_, row)| fits_node(action, row.node)).map(
            |(cluster_index, row)| {
                let about =
                    format!("node, {}, {}{}", row.node.state.label(), row.node.address, on(cluster_index));
                let name = fleet.clusters[cluster_index].node_name(row.node).to_string();
                ResourceId { name, about, target: Target::Node(cluster_index, row.node.id) }
            },
        ));
    }
    if has(Context::Tpus) {
        resource_ids.extend(ordered::<TpuTable>(fleet, of).map(|(cluster_index, row)| {
            let about = format!("TPU, {}{}", row.tpu.status.label(), on(cluster_index));
            ResourceId {
                name: row.tpu.name.to_string(),
                about,
                target: Target::Tpu(cluster_index, row.tpu.name.clone()),
            }
        }));
    }
    resource_ids
}

/// The rows of a kind in the order of their table, each with the index of its cluster.
fn ordered<K: Kind>(fleet: &Fleet, of: Option<usize>) -> impl Iterator<Item = (usize, K::Row<'_>)> {
    let mut rows: Vec<_> = K::rows(fleet, of).collect();
    sort::by(&mut rows, |(_, a), (_, b)| K::order(a, b));
    rows.into_iter().map(|((cluster_index, _), row)| (cluster_index, row))
}

fn fits_job(action: Action, job: &Job) -> bool {
    match action {
        Action::StopJob => job.may_be_stopped(),
        Action::DeleteJob => job.may_be_deleted(),
        Action::Log | Action::Resubmit => job.submission_id().is_some(),
        _ => true,
    }
}

fn fits_node(action: Action, node: &Node) -> bool {
    match action {
        Action::RemoveWorker | Action::InitWorker => !node.is_head,
        Action::Log => node.state.is_alive(),
        _ => true,
    }
}
