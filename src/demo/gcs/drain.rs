//! `DrainNode`: drains a node. Its effect is in `cluster/draining`.

use super::super::shared::Shared;
use super::call::{Outcome, ids, parse};
use crate::model::{Death, NodeId};
use crate::proto::autoscaler::{DrainNodeReason, DrainNodeReply, DrainNodeRequest};
use crate::proto::path;
use prost::Message;
use serde_json::json;

/// A node that no longer exists counts as drained.
pub(super) fn drain_node(message: &[u8], shared: &Shared) -> Outcome {
    let request: DrainNodeRequest = parse(message)?;
    let body = json!({
        "node_id": NodeId::from_bytes(&request.node_id).map(|id| id.to_string()),
        "reason": request.reason,
        "reason_message": request.reason_message,
        "deadline_timestamp_ms": request.deadline_timestamp_ms,
    });
    shared.report_request("POST", path::DRAIN_NODE, &body);
    let wanted = ids("DrainNode", std::iter::once(&request.node_id), shared)?;
    let busy = shared.now(|c| {
        let id = *wanted.first()?;
        let node = c.node(id).filter(|n| n.is_alive())?;
        // Ray rejects this reason while the node is busy.
        if request.reason() == DrainNodeReason::IdleTermination && node.idle_since.is_none() {
            return Some(());
        }
        let latest = if request.deadline_timestamp_ms > 0 { request.deadline_timestamp_ms } else { i64::MAX };
        // As in Ray, the message of the request becomes that of the node's death.
        c.drain(
            id,
            latest,
            if request.reason_message == Death::REMOVED { Death::REMOVED } else { "Node was preempted." },
        );
        None
    });
    let why = if busy.is_some() { "The node to be drained is not idle." } else { "" };
    Ok(DrainNodeReply { is_accepted: busy.is_none(), rejection_reason_message: why.into() }
        .encode_to_vec()
        .into())
}
