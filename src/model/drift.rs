//! Differences between a cluster's file and the running cluster, and how each takes effect.

use serde_json::Value;

/// A key with different values.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The key in the cluster file: `max_workers`, `available_node_types.tpu_worker.min_workers`.
    pub key: String,
    /// The value in the running cluster; null for none.
    pub running: Value,
    /// The value in the file; null for none.
    pub file: Value,
    /// How the difference takes effect.
    pub effect: Effect,
}

/// How a difference takes effect, in order of increasing disruption.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The autoscaler applies it immediately; Ray, its jobs and its workers keep running.
    Now,
    /// It applies only to workers that are started later.
    NewWorkers,
    /// The autoscaler terminates the workers of this node type, even if they are busy, because they no longer match the
    /// file.
    EndsWorkers(String),
    /// Ray must be restarted.
    Restart,
    /// The file describes a different cluster.
    OtherCluster,
}

impl Effect {
    /// The effect in words, safe to print.
    pub fn text(&self) -> String {
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
    /// The keys that require a restart of Ray or describe a different cluster.
    pub fn beyond_update(all: &[Self]) -> Vec<&Self> {
        all.iter().filter(|drift| drift.effect >= Effect::Restart).collect()
    }

    /// The node types whose workers are terminated.
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
