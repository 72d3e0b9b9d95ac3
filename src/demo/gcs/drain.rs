//! `DrainNode`: drains a node. Its effect is in `cluster/draining`.

use super::super::shared::Shared;
use super::call::{Outcome, ids, parse};
use super::wire::{DrainReply, DrainRequest};
use crate::model::NodeId;
use prost::Message;
use serde_json::json;

/// `DRAIN_NODE_REASON_IDLE_TERMINATION`: Ray refuses it while something runs there.
const IDLE_TERMINATION: i32 = 1;

/// A node that no longer exists counts as drained.
pub(super) fn drain_node(message: &[u8], shared: &Shared) -> Outcome {
    let request: DrainRequest = parse(message)?;
    let body = json!({
        "node_id": NodeId::from_bytes(&request.node_id).map(|id| id.to_string()),
        "reason": request.reason,
        "reason_message": request.words,
        "deadline_timestamp_ms": request.deadline,
    });
    shared.hear("POST", "/ray.rpc.autoscaler.AutoscalerStateService/DrainNode", &body);
    let wanted = ids("DrainNode", std::iter::once(&request.node_id), shared)?;
    let busy = shared.now(|c| {
        let id = *wanted.first()?;
        let node = c.node(id).filter(|n| n.is_alive())?;
        if request.reason == IDLE_TERMINATION && node.idle_since.is_none() {
            return Some(());
        }
        let latest = if request.deadline > 0 { request.deadline } else { i64::MAX };
        c.drain(id, latest);
        None
    });
    let why = if busy.is_some() { "The node to be drained is not idle." } else { "" };
    Ok(DrainReply { is_accepted: busy.is_none(), rejection: why.into() }.encode_to_vec().into())
}
