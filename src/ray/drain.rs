//! Draining a node: what runs there, and the request to accept no new work (`DrainNode` of the GCS).

use super::RayError;
use super::client::Client;
use super::convert::envelope;
use super::gcs::{Gcs, decode};
use super::json::{Str, read_with};
use crate::model::{JobId, NodeId, Text, Timestamp};
use crate::proto::autoscaler::{DrainNodeReason, DrainNodeReply, DrainNodeRequest};
use crate::proto::path;
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum number of rows of each kind.
const MAX_ROWS: usize = 10_000;

/// A request that a node accepts no new work and is removed when it is idle or at the deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    pub node: NodeId,
    /// The message in Ray's logs.
    pub why: String,
    pub deadline: Timestamp,
}

impl Drain {
    /// The GCS method that receives it.
    pub const METHOD: &'static str = path::DRAIN_NODE;

    /// The request message.
    fn message(&self) -> DrainNodeRequest {
        DrainNodeRequest {
            node_id: bytes::Bytes::copy_from_slice(self.node.as_bytes()),
            // Ray accepts this reason while work is running on the node.
            reason: DrainNodeReason::Preemption.into(),
            reason_message: self.why.clone(),
            deadline_timestamp_ms: self.deadline.as_millis(),
        }
    }

    /// The request message with protobuf's JSON names, and with the node's id as Ray prints it.
    pub fn to_json(&self) -> Value {
        let sent = self.message();
        json!({
            "node_id": self.node.to_string(),
            "reason": sent.reason,
            "reason_message": sent.reason_message,
            "deadline_timestamp_ms": sent.deadline_timestamp_ms,
        })
    }
}

/// A task or actor that runs on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// The job that it belongs to.
    pub job: JobId,
    /// `task` or `actor`.
    pub kind: &'static str,
    /// Function or class.
    pub name: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row<'a> {
    #[serde(borrow)]
    job_id: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    class_name: Str<'a>,
    #[serde(borrow)]
    state: Str<'a>,
    #[serde(borrow)]
    node_id: Str<'a>,
}

/// What runs on each node according to a list of the state API; `None` if Ray may have cut the list.
fn running_rows(
    text: &str,
    state: &str,
    kind: &'static str,
) -> Result<Option<Vec<(NodeId, Running)>>, serde_json::Error> {
    let listed = envelope::listed::<Row>(text)?;
    // The GCS returns at most as many rows, and the list does not say whether it left out some.
    if listed.is_cut() || listed.result.0.len() >= MAX_ROWS {
        return Ok(None);
    }
    let row = |r: &Row<'_>| {
        let node = NodeId::from_hex(&r.node_id.0)?;
        let name = if r.name.is_empty() { r.class_name.text() } else { r.name.text() };
        // An actor's method is listed as the actor.
        (r.state.0 == state).then(|| (node, Running { job: JobId(r.job_id.text()), kind, name }))
    };
    Ok(Some(listed.result.0.iter().filter_map(row).collect()))
}

impl Client {
    /// Tasks and actors that run on each node now, from the state API: two requests for the whole cluster. A request
    /// for a single node would hide that rows are missing: the GCS filters by state and limits the rows, and only then
    /// does the dashboard filter them by node (`get_all_task_info` in `ray/util/state/state_manager.py`).
    ///
    /// # Errors
    ///
    /// [`RayError::TooMany`]: there may be more than Ray lists, and those of another job may be among the others.
    pub async fn running_everywhere(&self) -> Result<Vec<(NodeId, Running)>, RayError> {
        let mut all = self.running("tasks", "RUNNING", "task").await?;
        all.extend(self.running("actors", "ALIVE", "actor").await?);
        all.sort();
        Ok(all)
    }

    async fn running(
        &self,
        list: &'static str,
        state: &'static str,
        kind: &'static str,
    ) -> Result<Vec<(NodeId, Running)>, RayError> {
        let route = format!(
            "/api/v0/{list}?limit={MAX_ROWS}&filter_keys=state&filter_predicates=%3D&filter_values={state}"
        );
        let body = self.get(&route).await?;
        let rows = read_with("/api/v0", &body, |text| running_rows(text, state, kind))?;
        rows.ok_or(RayError::TooMany { list, max: MAX_ROWS })
    }

    /// Requests that a node accepts no new work. The inner error is Ray's reason for rejecting the request.
    pub async fn drain(&self, drain: &Drain) -> Result<Result<(), Text>, RayError> {
        let gcs = Gcs::of(self)?.ok_or_else(|| {
            RayError::Setup("draining a node requires the GCS, which cannot be reached".into())
        })?;
        let request = drain.message();
        let reply: DrainNodeReply = decode(path::DRAIN_NODE, gcs.call(path::DRAIN_NODE, &request).await?)?;
        Ok(if reply.is_accepted { Ok(()) } else { Err(Text::from(reply.rejection_reason_message.as_str())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_ray_may_have_cut_is_refused() {
        let on = |n: u8| NodeId::from_bytes(&[n; 28]).unwrap();
        let row = |n: u8| json!({"job_id": "01000000", "name": "step", "state": "RUNNING", "node_id": on(n).to_string()});
        let read = |rows: &[Value], all: usize| {
            let text = json!({"data": {"result": {"result": rows, "num_filtered": all}}}).to_string();
            running_rows(&text, "RUNNING", "task").unwrap()
        };
        let two = [row(1), row(2)];
        let nodes: Vec<NodeId> = read(&two, 2).unwrap().into_iter().map(|(node, _)| node).collect();
        assert_eq!(nodes, [on(1), on(2)]);
        assert_eq!(read(&two, 3), None);
        // Ray reads no more rows than this of the whole cluster.
        let many = vec![row(1); MAX_ROWS];
        assert_eq!(read(&many, MAX_ROWS), None);
        assert_eq!(read(&many[1..], MAX_ROWS - 1).unwrap().len(), MAX_ROWS - 1);
    }
}
