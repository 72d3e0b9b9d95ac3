//! What an action acts on: the cluster, node, job, slice or TPU under the cursor or on the page.

use crate::app::fleet::Fleet;
use crate::app::text::labels;
use crate::model::text::printable;
use crate::model::{JobKey, NodeId, Text};
use crate::reconcile::{HostsKey, HostsKind};
use std::sync::Arc;

/// A thing in the fleet, by the index of its cluster and its own key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A cluster, by its index in the fleet.
    Cluster(usize),
    /// A file that could not be read, by its index in [`Fleet::broken`].
    Broken(usize),
    /// A node of a cluster.
    Node(usize, NodeId),
    /// A job of a cluster.
    Job(usize, JobKey),
    /// The stacks of the workers of a job of a cluster.
    Stacks(usize, JobKey),
    /// The usage of chips of a cluster.
    Chips(usize, Arc<ChipsOf>),
    /// A TPU slice or request of a cluster, by its name.
    Tpu(usize, Text),
    /// A slice of a cluster, or other hosts that share one row.
    Hosts(usize, HostsKey),
    /// The messages of the console.
    Messages,
}

/// Chips that are shown on one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipsOf {
    /// What they belong to, safe to print: a slice, a host or a job.
    pub what: String,
    /// That slice, host or job. Its hosts may change: a job may be restarted on another slice.
    pub of: Target,
}

impl Target {
    /// The index of its cluster in the fleet; `None` if it does not belong to a cluster.
    pub fn cluster_index(&self) -> Option<usize> {
        match self {
            Self::Cluster(cluster_index)
            | Self::Node(cluster_index, _)
            | Self::Job(cluster_index, _)
            | Self::Stacks(cluster_index, _)
            | Self::Chips(cluster_index, _)
            | Self::Tpu(cluster_index, _)
            | Self::Hosts(cluster_index, _) => Some(*cluster_index),
            Self::Broken(_) | Self::Messages => None,
        }
    }

    /// What it is, in a few words that are safe to print: `job raysubmit_4f1c`.
    pub fn text(&self, fleet: &Fleet) -> String {
        match self {
            Self::Cluster(_) => "details".to_owned(),
            Self::Broken(index) => {
                fleet.broken.get(*index).map_or_else(String::new, |(file, _)| printable(file).into_owned())
            }
            Self::Node(cluster_index, id) => {
                let cluster = fleet.clusters.get(*cluster_index);
                let named = cluster.and_then(|c| Some(c.node_name(c.node(id)?).to_string()));
                format!("node {}", named.unwrap_or_else(|| id.to_string()))
            }
            Self::Job(cluster_index, key) | Self::Stacks(cluster_index, key) => {
                let cluster = fleet.clusters.get(*cluster_index);
                let job = cluster.map_or_else(|| key.to_string(), |cluster| cluster.job_name(key));
                let of = if matches!(self, Self::Job(..)) { "job" } else { "stacks of" };
                format!("{of} {job}")
            }
            Self::Chips(_, chips) => format!("chips of {}", chips.what),
            Self::Tpu(_, name) => format!("tpu {name}"),
            Self::Hosts(_, key) => labels::hosts(key),
            Self::Messages => "messages".to_owned(),
        }
    }

    /// The text that is copied from its page, with a description.
    pub fn copied(&self, fleet: &Fleet) -> Option<(&'static str, String)> {
        Some(match self {
            Self::Cluster(cluster_index) => {
                ("cluster name", fleet.clusters.get(*cluster_index)?.name().as_str().to_owned())
            }
            Self::Broken(index) => ("file name", printable(&fleet.broken.get(*index)?.0).into_owned()),
            Self::Node(_, id) => ("node id", id.to_string()),
            // As displayed: a hostile id must not have an effect in the shell that it is pasted into.
            Self::Job(_, key) => ("job id", key.to_string()),
            Self::Tpu(_, name) => ("tpu name", name.to_string()),
            Self::Hosts(_, key) if key.kind == HostsKind::Slice => ("slice name", key.name.to_string()),
            Self::Hosts(..) | Self::Stacks(..) | Self::Chips(..) | Self::Messages => return None,
        })
    }
}
