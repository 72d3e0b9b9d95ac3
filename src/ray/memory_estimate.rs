//! Estimates the memory of a protobuf response before it is decoded.
//!
//! A row of two bytes on the wire (a tag and the length zero) has hundreds of bytes as a struct: a response below the
//! size limit may still exhaust the memory. The estimate is independent of the message types.

use super::RayError;
use prost::encoding::decode_varint;

/// Maximum memory of a response in bytes. A cluster of 10,000 nodes uses about half of it.
const MAX_RESPONSE_BYTES: u64 = 512 << 20;
/// Maximum memory of a length-delimited field besides its content: the largest row is a node's, with strings and
/// maps.
const ROW: u64 = 336;
/// Maximum depth of nested messages: that of the replies that we request (`GetClusterStatusReply`: status, node, map,
/// entry), and some more.
const DEPTH: usize = 8;

/// Fails when a response would use more memory than a cluster of any real size needs.
pub fn check(path: &str, body: &[u8]) -> Result<(), RayError> {
    let mut scale = Scale { left: MAX_RESPONSE_BYTES };
    if scale.message(body, DEPTH) == MemoryEstimate::TooHeavy {
        let why = format!(
            "its {} bytes would use more than {} MiB of memory",
            body.len(),
            MAX_RESPONSE_BYTES >> 20
        );
        return Err(RayError::Malformed { route: path.to_owned(), why });
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryEstimate {
    /// It is a message, and it fits.
    Message,
    /// It is not a message: text, or bytes.
    Other,
    /// It does not fit.
    TooHeavy,
}

struct Scale {
    left: u64,
}

impl Scale {
    /// Estimates the fields of a possible message. The wire format does not show whether a length-delimited field is a
    /// message, a text or bytes (Protocol Buffers, "Encoding"): each is parsed as a message, and text that happens to
    /// parse is overestimated a little.
    fn message(&mut self, mut rest: &[u8], depth: usize) -> MemoryEstimate {
        while !rest.is_empty() {
            // The fields before the error count: a decoder allocates them too before it fails.
            let Some(field) = field(&mut rest) else { return MemoryEstimate::Other };
            let Field::Long(content) = field else { continue };
            let Some(left) = self.left.checked_sub(ROW + content.len() as u64) else {
                return MemoryEstimate::TooHeavy;
            };
            self.left = left;
            if depth > 0 && self.message(content, depth - 1) == MemoryEstimate::TooHeavy {
                return MemoryEstimate::TooHeavy;
            }
        }
        MemoryEstimate::Message
    }
}

/// A field as encoded on the wire.
enum Field<'a> {
    Number,
    /// Something with a length: a message, a text, or bytes.
    Long(&'a [u8]),
}

/// Reads one field; `None` when the bytes are not a field.
fn field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let key = decode_varint(rest).ok()?;
    if key >> 3 == 0 || key > u64::from(u32::MAX) {
        return None;
    }
    let length = match key & 7 {
        0 => return decode_varint(rest).ok().map(|_| Field::Number),
        1 => 8,
        5 => 4,
        2 => usize::try_from(decode_varint(rest).ok()?).ok()?,
        // Ray's messages have no groups.
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(if key & 7 == 2 { Field::Long(content) } else { Field::Number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{self, autoscaler};
    use prost::Message;

    /// `n` empty rows.
    fn empty_rows(tag: u8, n: usize) -> Vec<u8> {
        [tag << 3 | 2, 0].repeat(n)
    }

    fn within(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut all = vec![tag << 3 | 2];
        prost::encoding::encode_varint(content.len() as u64, &mut all);
        [all, content.to_vec()].concat()
    }

    #[test]
    fn empty_rows_are_refused_at_every_depth() {
        let rows = empty_rows(3, 4 << 20);
        let broken = [&rows[..], b"\xff"].concat();
        for body in [rows.clone(), within(2, &rows), within(2, &within(3, &rows)), within(2, &broken), broken]
        {
            let error = check("/GetClusterStatus", &body).unwrap_err().to_string();
            assert!(error.contains("/GetClusterStatus") && error.contains("512 MiB"), "{error}");
        }
    }

    #[test]
    fn a_row_is_not_larger_than_estimated() {
        let rows = [
            size_of::<proto::GcsNodeInfo>(),
            size_of::<proto::JobTableData>(),
            size_of::<autoscaler::NodeState>(),
        ];
        assert!(rows.iter().all(|size| *size as u64 <= ROW), "{rows:?}");
    }

    #[test]
    fn the_largest_clusters_fit() {
        let resource = |n: usize| (format!("accelerator_type:TPU-{n}"), 1.0);
        let node = autoscaler::NodeState {
            node_id: vec![0xff; 28].into(),
            instance_id: "ray-marin-us-central2-worker-0123456789abcdef".into(),
            ray_node_type_name: "tpu_worker".into(),
            available_resources: (0..8).map(resource).collect(),
            total_resources: (0..8).map(resource).collect(),
            node_ip_address: "10.128.0.2".into(),
            labels: (0..8).map(|n| (format!("ray.io/label-{n}"), "value".to_owned())).collect(),
            ..autoscaler::NodeState::default()
        };
        let state =
            autoscaler::ClusterResourceState { node_states: vec![node; 10_000], ..Default::default() };
        let reply = autoscaler::GetClusterStatusReply {
            cluster_resource_state: Some(state),
            ..autoscaler::GetClusterStatusReply::default()
        };
        let body = reply.encode_to_vec();
        check("x", &body).unwrap();
    }

    #[test]
    fn text_and_bytes_are_not_rows() {
        check("x", &within(1, &vec![b'a'; 60 << 20])).unwrap();
        check("x", &within(1, &br#"{"entrypoint": "python train.py"}"#.repeat(1 << 20))).unwrap();
        assert_eq!(Scale { left: MAX_RESPONSE_BYTES }.message(b"{}", DEPTH), MemoryEstimate::Other);
        assert!(check("x", b"").is_ok() && check("x", b"\xff").is_ok(), "the decoder reports the error");
    }
}
