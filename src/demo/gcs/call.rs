//! What every method of the simulated GCS does with a request.

use super::super::shared::Shared;
use crate::model::NodeId;
use bytes::Bytes;
use prost::Message;

/// A gRPC status that is not OK.
pub(in crate::demo) struct Status {
    /// gRPC's code.
    pub code: i32,
    /// Ray's words.
    pub message: String,
}

impl Status {
    /// The method does not exist.
    pub fn unimplemented() -> Self {
        Self { code: 12, message: String::new() }
    }

    /// No token, or a wrong one.
    pub fn unauthenticated() -> Self {
        Self { code: 16, message: "InvalidAuthToken: Authentication token is missing or incorrect".into() }
    }

    /// Not now.
    pub fn unavailable(why: &str) -> Self {
        Self { code: 14, message: why.into() }
    }

    /// Bytes that are not the message.
    pub fn malformed() -> Self {
        Self { code: 13, message: "could not parse the request".into() }
    }
}

/// The result of a method.
pub(super) type Outcome = Result<Bytes, Status>;

/// The message in those bytes.
pub(in crate::demo) fn parse<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|_| Status::malformed())
}

/// The ids of a request. A wrong length kills the simulated GCS, as Ray's `NodeID` checks the length and aborts.
pub(super) fn ids<'a>(
    method: &str,
    all: impl Iterator<Item = &'a Bytes>,
    shared: &Shared,
) -> Result<Vec<NodeId>, Status> {
    let mut ids = Vec::new();
    for id in all.filter(|id| !id.is_empty()) {
        let Some(id) = NodeId::from_bytes(id) else {
            shared.kill_gcs(&format!("{method}: a node id of {} bytes", id.len()));
            return Err(Status::unavailable("Socket closed"));
        };
        ids.push(id);
    }
    Ok(ids)
}
