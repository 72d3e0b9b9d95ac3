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
    /// It applies only to workers that are started after the next restart of Ray.
    NextRestart,
    /// The autoscaler sets up running workers again, may restart Ray there, and terminates workers where this fails,
    /// even if they are busy.
    UpdatesWorkers,
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
            Self::NextRestart => "applies to new workers after the next restart of Ray".to_owned(),
            Self::UpdatesWorkers => "updates running workers, which may terminate them".to_owned(),
            Self::EndsWorkers(kind) => {
                format!("terminates workers of type {}", super::text::printable(kind))
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
            Self::NextRestart => "next-restart",
            Self::UpdatesWorkers => "updates-workers",
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

    /// The changes that take effect only after the next restart of Ray, although an update applies them.
    pub fn awaiting_restart(all: &[Self]) -> Vec<&Self> {
        all.iter().filter(|drift| drift.effect == Effect::NextRestart).collect()
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

    /// Whether the autoscaler may terminate workers because of it, which may run jobs.
    pub fn may_end_workers(&self) -> bool {
        matches!(self.effect, Effect::UpdatesWorkers | Effect::EndsWorkers(_)) || self.limit().is_some()
    }

    /// The maximum number of workers that it lowers, with the node type; without one for all workers of the cluster.
    pub fn limit(&self) -> Option<(Option<&str>, usize)> {
        let node_type = match self.key.as_str() {
            "max_workers" => None,
            key => Some(key.strip_prefix("available_node_types.")?.strip_suffix(".max_workers")?),
        };
        let limit = self.file.as_u64()?;
        // Without a known limit before, the new one may be lower.
        if self.running.as_f64().zip(self.file.as_f64()).is_some_and(|(old, new)| new >= old) {
            return None;
        }
        Some((node_type, usize::try_from(limit).unwrap_or(usize::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_limit_names_its_node_type() {
        let of = |key: &str, file: Value| {
            let drift = Drift { key: key.to_owned(), running: Value::Null, file, effect: Effect::Now };
            drift.limit().map(|(node_type, limit)| (node_type.map(str::to_owned), limit))
        };
        assert_eq!(of("max_workers", json!(4)), Some((None, 4)));
        let local = of("available_node_types.local.cluster.node.max_workers", json!(0));
        assert_eq!(local, Some((Some("local.cluster.node".to_owned()), 0)));
        for (key, file) in [
            ("max_workers", json!("4")),
            ("available_node_types.w.min_workers", json!(4)),
            ("available_node_types.w", json!({"max_workers": 4})),
        ] {
            assert_eq!(of(key, file), None, "{key}");
        }
    }

    #[test]
    fn only_a_lowered_limit_ends_workers() {
        let drift = |running: Value, effect: Effect| Drift {
            key: "max_workers".to_owned(),
            running,
            file: json!(4),
            effect,
        };
        for lowered in [json!(5), json!(5.0), Value::Null, json!("8")] {
            let lowered = drift(lowered, Effect::Now);
            assert!(lowered.limit() == Some((None, 4)) && lowered.may_end_workers(), "{lowered:?}");
        }
        for raised in [json!(0), json!(3.0)] {
            let raised = drift(raised, Effect::Now);
            assert!(raised.limit().is_none() && !raised.may_end_workers(), "{raised:?}");
        }
        for (effect, ends) in [
            (Effect::NewWorkers, false),
            (Effect::NextRestart, false),
            (Effect::UpdatesWorkers, true),
            (Effect::EndsWorkers("w".to_owned()), true),
        ] {
            assert_eq!(drift(json!(0), effect.clone()).may_end_workers(), ends, "{effect:?}");
        }
    }
}
