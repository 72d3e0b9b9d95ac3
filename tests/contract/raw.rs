//! What a head answers, with nothing of ours in between: JSON as shapes, protobuf as field numbers.

use bytes::{Buf, BufMut, Bytes};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

/// Objects whose keys are data (resource names, labels, ids), not fields.
const MAPS: [&str; 16] = [
    "labels",
    "resources_total",
    "resourcesTotal",
    "nodeLogicalResources",
    "metadata",
    "usage",
    "usageByNode",
    "activeNodes",
    "pendingLaunches",
    "nodeAvailabilities",
    "nodeTypeMapping",
    "summary",
    "disk",
    "usedResources",
    "required_resources",
    "state_counts",
];

/// Lists, also of lists, of such objects.
const LISTS_OF_MAPS: [&str; 2] = ["nodeTypes", "resourceDemand"];

/// The types that were seen at a place, and what lies below it.
#[derive(Debug, Default)]
pub struct Shape {
    types: BTreeSet<&'static str>,
    below: BTreeMap<String, Shape>,
}

impl Shape {
    /// Of one answer.
    pub fn of(value: &Value) -> Self {
        let mut shape = Self::default();
        shape.add("", value);
        shape
    }

    fn add(&mut self, name: &str, value: &Value) {
        self.types.insert(match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        });
        match value {
            Value::Array(items) => {
                let name = if LISTS_OF_MAPS.contains(&name) { name } else { "" };
                for item in items {
                    self.below.entry("[]".into()).or_default().add(name, item);
                }
            }
            // Anything that a user wrote.
            Value::Object(_) if name == "runtime_env" => {}
            Value::Object(fields) => {
                let map = MAPS.contains(&name) || LISTS_OF_MAPS.contains(&name);
                for (key, v) in fields {
                    let place = if map { "{}" } else { key };
                    // A map of maps: what lies below has data as keys, too.
                    let name = if name == "usageByNode" { "usage" } else { place };
                    self.below.entry(place.into()).or_default().add(name, v);
                }
            }
            _ => {}
        }
    }

    /// Places of `self` that `real` does not have, or has with other types. What is null on one side, or a list or
    /// map that is empty there, tells nothing.
    pub fn beyond(&self, real: &Self, path: &str, out: &mut Vec<String>) {
        let known = |s: &Self| s.types.iter().any(|t| *t != "null");
        let strange: Vec<_> = self.types.difference(&real.types).filter(|t| **t != "null").collect();
        if known(real) && !strange.is_empty() {
            out.push(format!("{path} is {strange:?}, in Ray {:?}", real.types));
        }
        for (key, shape) in &self.below {
            let path = format!("{path}/{key}");
            match real.below.get(key) {
                Some(real) => shape.beyond(real, &path, out),
                None if !known(real) || key == "[]" || key == "{}" => {}
                None => out.push(format!("{path} does not exist in Ray")),
            }
        }
    }
}

/// Calls a GCS method with raw bytes.
pub async fn call(gcs: &str, token: Option<&str>, path: &str, message: &[u8]) -> Result<Bytes, Status> {
    let channel =
        tonic::transport::Endpoint::from_shared(format!("http://{gcs}")).unwrap().connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(64 << 20);
    client.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
    let mut request = Request::new(Bytes::copy_from_slice(message));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let path = path.parse().unwrap();
    Ok(client.unary(request, path, Raw).await?.into_inner())
}

/// Messages as they are on the wire.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A protobuf field: its number, its wire type, its bytes (or its number, as little-endian bytes).
pub type Field = (u64, u64, Vec<u8>);

/// The fields of a message.
pub fn fields(mut message: &[u8]) -> Vec<Field> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes.get_u8();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
        }
        value
    }
    let mut all = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = match key & 7 {
            0 => varint(&mut message).to_le_bytes().to_vec(),
            kind => {
                let length = match kind {
                    1 => 8,
                    5 => 4,
                    _ => varint(&mut message) as usize,
                };
                message.copy_to_bytes(length).to_vec()
            }
        };
        all.push((key >> 3, key & 7, value));
    }
    all
}

/// The numbers and wire types of all messages that lie at `path` (field numbers) in a message.
pub fn numbers(message: &[u8], path: &[u64]) -> BTreeSet<(u64, u64)> {
    let Some((first, rest)) = path.split_first() else {
        return fields(message).into_iter().map(|(n, kind, _)| (n, kind)).collect();
    };
    fields(message).iter().filter(|(n, ..)| n == first).flat_map(|(_, _, v)| numbers(v, rest)).collect()
}
