//! Nodes: the GCS' registrations and live states, and rows of `GET /api/v0/nodes?detail=1`.

use super::super::RayError;
use super::super::json::{Flag, Num, Str, Table, read_with};
use super::envelope::{self, Listed};
use super::interner::Interner;
use super::jobs::millis;
use super::names::is_shadow;
use crate::model::sort;
use crate::model::{Death, DeathReason, Node, NodeId, NodeState, Resource, Resources, Text};
use crate::proto::{self, autoscaler};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node's registration and its death. `None` when its id is not valid.
pub fn registered(info: &proto::GcsNodeInfo, words: &Interner) -> Option<Node> {
    let alive = info.state == 0;
    let mut resources = Resources(Vec::with_capacity(info.resources_total.len()));
    for (name, total) in &info.resources_total {
        push(&mut resources, *total, None, name, || words.text(name));
    }
    Some(Node {
        id: NodeId::from_bytes(&info.node_id)?,
        name: words.text(&info.node_name),
        address: words.text(&info.node_manager_address),
        hostname: words.text(&info.node_manager_hostname),
        node_type: words.text(&info.node_type_name),
        instance_id: words.text(&info.instance_id),
        is_head: info.is_head_node,
        state: if alive { NodeState::Alive } else { NodeState::Dead },
        started: millis(info.start_time_ms),
        ended: millis(info.end_time_ms),
        death: (!alive).then(|| death(info.death_info.as_ref(), words)),
        idle_ms: None,
        resources,
        labels: texts(&info.labels, words),
    })
}

fn death(info: Option<&proto::NodeDeathInfo>, words: &Interner) -> Death {
    use proto::node_death_info::Reason;
    let reason = match info.map_or(Reason::Unspecified, proto::NodeDeathInfo::reason) {
        Reason::Unspecified => DeathReason::Unspecified,
        Reason::ExpectedTermination | Reason::AutoscalerDrainIdle => DeathReason::Expected,
        Reason::UnexpectedTermination => DeathReason::Unexpected,
        Reason::AutoscalerDrainPreempted => DeathReason::Preempted,
    };
    death_of(reason, info.map_or("", |i| &i.reason_message), words)
}

/// A node that this program has drained to remove it was stopped on purpose, although Ray calls it preempted.
fn death_of(reason: DeathReason, message: &str, words: &Interner) -> Death {
    let is_removed = reason == DeathReason::Preempted && message == Death::REMOVED;
    let reason = if is_removed { DeathReason::Expected } else { reason };
    Death { reason, message: words.text(message) }
}

fn texts(labels: &BTreeMap<String, String>, words: &Interner) -> Arc<[(Text, Text)]> {
    labels.iter().map(|(k, v)| (words.text(k), words.text(v))).collect()
}

/// Adds a resource, unless it belongs to a placement group. Names must come in order.
fn push(resources: &mut Resources, total: f64, used: Option<f64>, name: &str, text: impl FnOnce() -> Text) {
    if !is_shadow(name) {
        resources.0.push(Resource { name: text(), total, used });
    }
}

/// A node's current state from `GetClusterStatus`, combined with its registration.
pub fn live(state: &autoscaler::NodeState, registered: Option<&Node>, words: &Interner) -> Option<Node> {
    let id = NodeId::from_bytes(&state.node_id)?;
    let status = state.status();
    let mut node = registered.cloned().unwrap_or_else(|| bare(id, state, words));
    if status == autoscaler::NodeStatus::Dead || node.state == NodeState::Dead {
        node.state = NodeState::Dead;
        node.death.get_or_insert_with(|| death(None, words));
        return Some(node);
    }
    node.state = match status {
        autoscaler::NodeStatus::Idle => NodeState::Idle,
        autoscaler::NodeStatus::Draining => NodeState::Draining,
        _ => NodeState::Alive,
    };
    node.idle_ms =
        u64::try_from(state.idle_duration_ms).ok().filter(|_| status == autoscaler::NodeStatus::Idle);
    node.resources = Resources(Vec::with_capacity(state.total_resources.len()));
    for (name, total) in &state.total_resources {
        // A fully used resource is absent from the available ones.
        let left = state.available_resources.get(name).copied().unwrap_or(0.0);
        let registered = registered.and_then(|r| r.resources.get(name)).map(|r| r.name.clone());
        let text = || registered.unwrap_or_else(|| words.text(name));
        push(&mut node.resources, *total, Some(used(*total, left)), name, text);
    }
    Some(node)
}

/// The used part of `total`, rounded to Ray's unit of 1/10000 to remove floating-point error.
fn used(total: f64, left: f64) -> f64 {
    ((total - left).max(0.0) * 10_000.0).round() / 10_000.0
}

fn bare(id: NodeId, state: &autoscaler::NodeState, words: &Interner) -> Node {
    Node {
        id,
        name: words.text(&state.node_ip_address),
        address: words.text(&state.node_ip_address),
        hostname: Text::default(),
        node_type: words.text(&state.ray_node_type_name),
        instance_id: words.text(&state.instance_id),
        is_head: state.total_resources.contains_key("node:__internal_head__"),
        state: NodeState::Alive,
        started: None,
        ended: None,
        death: None,
        idle_ms: None,
        resources: Resources::default(),
        labels: texts(&state.labels, words),
    }
}

/// Alive before dead, the head first, then by address.
pub fn sort(nodes: &mut [Node]) {
    let rank = |n: &Node| (!n.state.is_alive(), !n.is_head);
    sort::by(nodes, |a, b| {
        rank(a).cmp(&rank(b)).then_with(|| a.address.cmp(&b.address)).then_with(|| a.id.cmp(&b.id))
    });
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeRow<'a> {
    #[serde(borrow)]
    node_id: Str<'a>,
    #[serde(borrow)]
    node_ip: Str<'a>,
    is_head_node: Flag,
    #[serde(borrow)]
    state: Str<'a>,
    #[serde(borrow)]
    state_message: Str<'a>,
    #[serde(borrow)]
    node_name: Str<'a>,
    resources_total: Table<Num>,
    #[serde(borrow)]
    labels: Table<Str<'a>>,
    start_time_ms: Num,
    end_time_ms: Num,
}

/// Nodes of `GET /api/v0/nodes?detail=1`: totals only, and no host names.
pub fn list(route: &str, body: &[u8]) -> Result<Vec<Node>, RayError> {
    read_with(route, body, |text| {
        let rows: Listed<NodeRow> = envelope::listed(text)?;
        let words = Interner::default();
        Ok(rows.result.0.iter().filter_map(|r| row(r, &words)).collect())
    })
}

/// The label that carries the autoscaler's node type (`ray.io/node-group`).
const NODE_GROUP: &str = "ray.io/node-group";

fn row(row: &NodeRow, words: &Interner) -> Option<Node> {
    let dead = row.state.0 == "DEAD";
    let mut resources = Resources(Vec::with_capacity(row.resources_total.0.len()));
    for (name, total) in &row.resources_total.0 {
        push(&mut resources, total.0.unwrap_or(0.0), None, name, || words.text(name));
    }
    Some(Node {
        id: NodeId::from_hex(&row.node_id.0)?,
        name: words.text(&row.node_name.0),
        address: words.text(&row.node_ip.0),
        hostname: Text::default(),
        node_type: words.text(row.labels.0.get(NODE_GROUP).map_or("", |group| &group.0)),
        instance_id: Text::default(),
        is_head: row.is_head_node.0,
        state: if dead { NodeState::Dead } else { NodeState::Alive },
        started: row.start_time_ms.millis(),
        ended: row.end_time_ms.millis(),
        death: dead.then(|| parse_death(&row.state_message.0, words)),
        idle_ms: None,
        resources,
        labels: row.labels.0.iter().map(|(k, v)| (words.text(k), words.text(&v.0))).collect(),
    })
}

/// Parses `Unexpected termination: health check failed` (`compose_state_message` in Ray's `dashboard/utils.py`).
fn parse_death(message: &str, words: &Interner) -> Death {
    const REASONS: [(&str, DeathReason); 4] = [
        ("Expected termination", DeathReason::Expected),
        ("Unexpected termination", DeathReason::Unexpected),
        ("Terminated due to preemption", DeathReason::Preempted),
        ("Terminated due to idle (no Ray activity)", DeathReason::Expected),
    ];
    let known = REASONS.iter().find_map(|(word, reason)| Some((message.strip_prefix(word)?, *reason)));
    let (rest, reason) = known.unwrap_or((message, DeathReason::Unspecified));
    death_of(reason, rest.trim_start_matches(": "), words)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{VERSIONS, body};
    use super::*;

    #[test]
    fn recorded_dead_nodes_have_the_cause_of_death() {
        for version in VERSIONS {
            let nodes = list("nodes", &body(version, "dead_v0_nodes")).unwrap();
            let killed = nodes.iter().find(|n| n.state == NodeState::Dead).unwrap();
            let death = killed.death.as_ref().unwrap();
            assert_eq!(death.reason, DeathReason::Unexpected, "{version}");
            assert_eq!(death.message.raw(), "health check failed due to missing too many heartbeats");
            assert!(killed.ended.is_some());
            let head = nodes.iter().find(|n| n.is_head).unwrap();
            assert_eq!(head.resources.get("CPU").map(|r| (r.total, r.used)), Some((2.0, None)));
        }
    }

    #[test]
    fn an_absent_resource_is_used_up() {
        let resources = |all: &[(&str, f64)]| all.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        let state = autoscaler::NodeState {
            node_id: vec![1; 28].into(),
            available_resources: resources(&[("CPU", 0.7)]),
            total_resources: resources(&[
                ("CPU", 1.0),
                ("TPU", 4.0),
                ("bundle_group_e9154e65c0a6fb61b6cf1577f1c104000000", 1000.0),
            ]),
            status: autoscaler::NodeStatus::Running.into(),
            ..autoscaler::NodeState::default()
        };
        let node = live(&state, None, &Interner::default()).unwrap();
        let used: Vec<_> = node.resources.0.iter().map(|r| (r.name.raw(), r.used)).collect();
        assert_eq!(used, [("CPU", Some(0.3)), ("TPU", Some(4.0))]);
        assert!(
            live(&autoscaler::NodeState { node_id: b"0101"[..].into(), ..state }, None, &Interner::default())
                .is_none()
        );
    }

    #[test]
    fn a_response_without_data_is_not_an_empty_cluster() {
        assert!(list("nodes", br#"{"result": false, "msg": "no"}"#).is_err());
        assert!(
            list("nodes", br#"{"data": {"result": {"result": [{"node_id": "zz"}, null]}}}"#)
                .unwrap()
                .is_empty()
        );
    }
}
