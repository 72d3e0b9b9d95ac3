//! Where a cluster's file differs from what the cluster runs with, and what it takes to apply each difference.

use serde_json::Value;

/// One key that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The key in the cluster file: `max_workers`, `available_node_types.tpu_worker.min_workers`.
    pub key: String,
    /// The value that the cluster runs with; null for none.
    pub running: Value,
    /// The value in the file; null for none.
    pub file: Value,
    /// What applies it.
    pub effect: Effect,
}

/// What it takes to apply a difference, the least first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The autoscaler reads it at once; Ray, its jobs and its workers stay.
    Now,
    /// Only workers that are started from now on have it.
    NewWorkers,
    /// The autoscaler ends the workers of this node type, whatever they do: they are no longer what the file describes.
    EndsWorkers(String),
    /// Ray has to be stopped and started.
    Restart,
    /// The file describes a different cluster.
    OtherCluster,
}

impl Effect {
    /// The effect in words, safe to print.
    pub fn words(&self) -> String {
        match self {
            Self::Now => "applies immediately".to_owned(),
            Self::NewWorkers => "applies to new workers".to_owned(),
            Self::EndsWorkers(kind) => {
                format!("ends workers of type {}", super::text::printable(kind))
            }
            Self::Restart => "requires a restart of Ray".to_owned(),
            Self::OtherCluster => "describes a different cluster".to_owned(),
        }
    }

    /// Name of the effect in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::NewWorkers => "new-workers",
            Self::EndsWorkers(_) => "ends-workers",
            Self::Restart => "restart",
            Self::OtherCluster => "other-cluster",
        }
    }
}

impl Drift {
    /// The keys that need a restart of Ray, or describe another cluster.
    pub fn beyond_update(all: &[Self]) -> Vec<&Self> {
        all.iter().filter(|drift| drift.effect >= Effect::Restart).collect()
    }

    /// The node types whose workers end.
    pub fn ended_types(all: &[Self]) -> Vec<&str> {
        let mut types: Vec<&str> = all
            .iter()
            .filter_map(
                |drift| if let Effect::EndsWorkers(kind) = &drift.effect { Some(&**kind) } else { None },
            )
            .collect();
        types.dedup();
        types
    }
}
