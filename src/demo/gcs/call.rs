//! Request parsing and errors shared by all methods of the simulated GCS.

use super::super::shared::Shared;
use crate::model::NodeId;
use bytes::Bytes;
use prost::Message;

/// A gRPC status that is not OK.
pub(in crate::demo) struct Status {
    /// The gRPC status code.
    pub code: i32,
    /// The message, as Ray writes it.
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

    /// The service is not available at the moment.
    pub fn unavailable(why: &str) -> Self {
        Self { code: 14, message: why.into() }
    }

    /// The bytes cannot be decoded as the expected message.
    pub fn malformed() -> Self {
        Self { code: 13, message: "could not parse the request".into() }
    }
}

/// The result of a method.
pub(super) type Outcome = Result<Bytes, Status>;

/// Decodes a request message.
pub(in crate::demo) fn parse<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|_| Status::malformed())
}

/// The node ids of a request. A wrong length kills the simulated GCS: Ray's `NodeID` checks the length and aborts.
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
