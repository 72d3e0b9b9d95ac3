//! Adds the limits in the cluster file to the report of the autoscaler.

use crate::model::{Autoscaler, ClusterSpec, NodeTypeCount, Text};

/// Fills in the cluster's limit, and `min` and `max` per type; adds the types that are missing from the report because
/// they have no nodes. The head's own type is left out unless the report has it, because it cannot be scaled.
pub fn with_limits(mut report: Autoscaler, spec: &ClusterSpec) -> Autoscaler {
    report.max_workers = spec.max_workers;
    for limit in &spec.node_types {
        let known = report.types.iter_mut().find(|t| t.name.raw() == limit.name);
        match known {
            Some(count) => (count.min, count.max) = (Some(limit.min), Some(limit.max)),
            None if limit.is_head => {}
            None => report.types.push(NodeTypeCount {
                name: Text::from(limit.name.as_str()),
                min: Some(limit.min),
                max: Some(limit.max),
                ..NodeTypeCount::default()
            }),
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NodeTypeLimits, Provider};

    #[test]
    fn every_type_of_the_file_has_a_row_with_its_limits() {
        let limit = |name: &str, is_head| NodeTypeLimits {
            name: name.into(),
            min: 1,
            max: 4,
            is_head,
            gives: Vec::new(),
        };
        let seen = NodeTypeCount { name: "cpu".into(), active: 2, ..NodeTypeCount::default() };
        let report = Autoscaler { types: vec![seen], ..Autoscaler::default() };
        let node_types = vec![limit("head", true), limit("cpu", false), limit("tpu", false)];
        let spec =
            ClusterSpec { node_types, max_workers: Some(6), ..ClusterSpec::sample("c", Provider::Gcp) };
        let report = with_limits(report, &spec);
        assert_eq!(report.max_workers, Some(6));
        let rows: Vec<_> = report.types.iter().map(|t| (t.name.raw(), t.active, t.min, t.max)).collect();
        assert_eq!(rows, [("cpu", 2, Some(1), Some(4)), ("tpu", 0, Some(1), Some(4))]);
    }
}
