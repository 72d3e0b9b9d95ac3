//! The report of autoscaler v2, as the GCS keeps it.

use super::{Types, add, demand, in_order};
use crate::model::{
    Autoscaler, AutoscalerVersion, LaunchFailure, Node, NodeState, PendingNode, Text, Timestamp,
};
use crate::proto::autoscaler::{AutoscalingState, ClusterResourceState};

/// Counts live nodes by type.
pub fn count(nodes: &[Node], types: &mut Types) {
    for node in nodes.iter().filter(|n| !n.node_type.is_empty()) {
        let count = types.of(node.node_type.raw());
        match node.state {
            NodeState::Idle => count.idle += 1,
            NodeState::Alive | NodeState::Draining => count.active += 1,
            NodeState::Dead => {}
        }
    }
}

/// The report. It has no timestamp: the poller watches its version instead.
pub fn report(autoscaling: &AutoscalingState, state: &ClusterResourceState, nodes: &[Node]) -> Autoscaler {
    let mut types = Types::default();
    count(nodes, &mut types);
    for launching in &autoscaling.pending_instance_requests {
        add(&mut types.of(&launching.ray_node_type_name).launching, number(launching.count));
    }
    let mut pending = Vec::new();
    for machine in &autoscaling.pending_instances {
        types.of(&machine.ray_node_type_name).pending += 1;
        let address = if machine.ip_address.is_empty() { &machine.instance_id } else { &machine.ip_address };
        pending.push(PendingNode {
            node_type: Text::from(machine.ray_node_type_name.as_str()),
            address: Text::from(address.as_str()),
            status: Text::from(machine.details.as_str()),
        });
    }
    let mut failures = Vec::new();
    for failed in &autoscaling.failed_instance_requests {
        let count = number(failed.count);
        add(&mut types.of(&failed.ray_node_type_name).failed, count);
        let at = if failed.failed_ts > 0 { failed.failed_ts } else { failed.start_ts };
        failures.push(LaunchFailure {
            node_type: Text::from(failed.ray_node_type_name.as_str()),
            count,
            reason: Text::from(failed.reason.as_str()),
            at: (at > 0).then(|| Timestamp::from_millis(at.saturating_mul(1000))),
            from_text: false,
            day_unknown: false,
        });
    }
    in_order(Autoscaler {
        version: AutoscalerVersion::V2,
        reported: None,
        types: types.finish(),
        pending,
        demands: demand::demands(state, Some(autoscaling)),
        failures,
        ..Autoscaler::default()
    })
}

fn number(count: i32) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::nodes::live;
    use super::*;
    use crate::proto::autoscaler::{self, FailedInstanceRequest, PendingInstance, PendingInstanceRequest};
    use crate::ray::convert::interner::Interner;

    #[test]
    fn a_report_counts_nodes_by_type_and_has_the_causes_of_failed_launches() {
        let node = |id: u8, name: &str, status: autoscaler::NodeStatus| {
            let state = autoscaler::NodeState {
                node_id: vec![id; 28].into(),
                ray_node_type_name: name.to_owned(),
                status: status.into(),
                ..autoscaler::NodeState::default()
            };
            live(&state, None, &Interner::default()).unwrap()
        };
        let nodes = [
            node(1, "head", autoscaler::NodeStatus::Running),
            node(2, "tpu", autoscaler::NodeStatus::Idle),
            node(3, "tpu", autoscaler::NodeStatus::Draining),
            node(4, "tpu", autoscaler::NodeStatus::Dead),
        ];
        let failed = |reason: &str, failed_ts| FailedInstanceRequest {
            ray_node_type_name: "tpu".to_owned(),
            count: 2,
            reason: reason.to_owned(),
            start_ts: 5,
            failed_ts,
        };
        let autoscaling = AutoscalingState {
            pending_instance_requests: vec![PendingInstanceRequest {
                ray_node_type_name: "tpu".to_owned(),
                count: 3,
                request_ts: 1,
            }],
            pending_instances: vec![PendingInstance {
                ray_node_type_name: "tpu".to_owned(),
                instance_id: "i-1".to_owned(),
                ip_address: String::new(),
                details: "RAY_INSTALLING".to_owned(),
            }],
            failed_instance_requests: vec![failed("older", 0), failed("quota", 9)],
            ..AutoscalingState::default()
        };
        let report = report(&autoscaling, &ClusterResourceState::default(), &nodes);
        let tpu = report.types.iter().find(|t| t.name.raw() == "tpu").unwrap();
        assert_eq!((tpu.active, tpu.idle, tpu.pending, tpu.launching, tpu.failed), (1, 1, 1, 3, 4));
        assert_eq!(report.types[0].name.raw(), "tpu", "busiest first");
        assert_eq!(report.pending[0].address.raw(), "i-1");
        assert_eq!(report.failures[0].reason.raw(), "quota", "newest first");
        assert_eq!(report.failures[1].at, Some(Timestamp::from_millis(5_000)));
    }
}
