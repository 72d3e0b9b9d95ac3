//! Access to the GCS independent of the library: raw bytes over gRPC, and protobuf as field numbers.

use bytes::{Buf, BufMut, Bytes};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

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

/// A codec that passes messages through as bytes.
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

/// A protobuf field: its number, its wire type, and its bytes (an integer as little-endian bytes).
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
