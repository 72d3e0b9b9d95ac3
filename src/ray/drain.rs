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

impl Client {
    /// Tasks and actors that run on a node now, from the state API.
    ///
    /// # Errors
    ///
    /// There are more than Ray lists: those of another job may be among the others.
    pub async fn running_on(&self, node: NodeId) -> Result<Vec<Running>, RayError> {
        let mut all = self.rows_on(node, "tasks", "RUNNING", "task").await?;
        all.extend(self.rows_on(node, "actors", "ALIVE", "actor").await?);
        all.sort();
        Ok(all)
    }

    async fn rows_on(
        &self,
        node: NodeId,
        list: &'static str,
        state: &'static str,
        kind: &'static str,
    ) -> Result<Vec<Running>, RayError> {
        let route = format!(
            "/api/v0/{list}?detail=1&limit={MAX_ROWS}&filter_keys=node_id&filter_predicates=%3D&filter_values={node}\
             &filter_keys=state&filter_predicates=%3D&filter_values={state}"
        );
        let body = self.get(&route).await?;
        read_with("/api/v0", &body, |text| {
            let listed = envelope::listed::<Row>(text)?;
            if listed.is_cut() {
                return Err(serde::de::Error::custom(format!(
                    "more than {MAX_ROWS} {list} run on node {node}"
                )));
            }
            let here = listed.result.0.iter().filter(|r| {
                // An actor's method is listed as the actor.
                NodeId::from_hex(&r.node_id.0) == Some(node) && r.state.0 == state
            });
            Ok(here
                .map(|r| Running {
                    job: JobId(r.job_id.text()),
                    kind,
                    name: if r.name.is_empty() { r.class_name.text() } else { r.name.text() },
                })
                .collect())
        })
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
