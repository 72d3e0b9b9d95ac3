//! Streams packages into and out of the GCS's key-value store: a package may have 500 MiB and is never held in memory
//! completely. The two messages are encoded and decoded here by hand (`gcs_service.proto`).

use super::RayError;
use super::gcs::{Gcs, succeeded};
use crate::proto;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use prost::Message;
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};
use std::fs::File;
use std::io::{self, Read, Write};
use tonic::Status;
use tonic::body::Body;

/// Maximum number of bytes of a status before the value, and of a piece that is read from a file.
const MAX_PIECE_BYTES: usize = 256 << 10;
/// Key of a length-delimited field (bytes or a message) with this number.
const fn field(number: u64) -> u64 {
    number << 3 | 2
}

impl Gcs {
    /// Writes one value of the key-value store to `to`; `None` when there is no such key. The inner error is the
    /// writer's.
    pub async fn read_value(
        &self,
        key: Bytes,
        to: &mut (dyn Write + Send),
    ) -> Result<io::Result<Option<()>>, RayError> {
        let message = proto::InternalKvGetRequest { key, namespace: Bytes::new() }.encode_to_vec();
        let mut start = BytesMut::with_capacity(5 + message.len());
        prefix(&mut start, message.len());
        start.put_slice(&message);
        let body = Body::new(http_body_util::Full::new(start.freeze()));
        let mut answer = self.ask(proto::path::KV_GET, body).await?.into_body();
        let mut reply = Reply::default();
        while let Some(frame) = answer.frame().await {
            match frame.map_err(|e| self.body_error(&e))?.into_data() {
                Ok(data) => {
                    if let Err(e) = reply.take(data, to)? {
                        return Ok(Err(e));
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.check_status(&trailers)?;
                    }
                }
            }
        }
        reply.end().map(Ok)
    }

    /// Stores a file as one value in the key-value store, replacing an existing one.
    pub async fn write_value(&self, key: &[u8], mut file: File) -> Result<(), RayError> {
        let unreadable = |e: io::Error| RayError::Setup(format!("cannot read the package: {e}"));
        let size = file.metadata().map_err(unreadable)?.len();
        let mut head = BytesMut::new();
        encode_varint(field(1), &mut head);
        encode_varint(key.len() as u64, &mut head);
        head.put_slice(key);
        encode_varint(field(2), &mut head);
        encode_varint(size, &mut head);
        // `overwrite: true`, a varint of field 3.
        let tail = Bytes::from_static(&[3 << 3, 1]);
        let mut start = BytesMut::with_capacity(5 + head.len());
        prefix(&mut start, head.len() + size as usize + tail.len());
        start.put_slice(&head);
        let mut left = size as usize;
        let content = std::iter::from_fn(move || {
            let mut piece = BytesMut::zeroed(left.min(MAX_PIECE_BYTES));
            left -= piece.len();
            if piece.is_empty() {
                return None;
            }
            let read = file.read_exact(&mut piece).map_err(|e| Status::aborted(e.to_string()));
            Some(read.map(|()| Frame::data(piece.freeze())))
        });
        let first = std::iter::once(Ok(Frame::data(start.freeze())));
        let frames = first.chain(content).chain(std::iter::once(Ok(Frame::data(tail))));
        let answer = self.ask(proto::path::KV_PUT, Body::new(StreamBody::new(stream::iter(frames)))).await?;
        let body = answer.into_body().collect().await.map_err(|e| self.body_error(&e))?;
        if let Some(trailers) = body.trailers() {
            self.check_status(trailers)?;
        }
        let mut body = body.to_bytes();
        let malformed = |why: String| RayError::Malformed { route: proto::path::KV_PUT.to_owned(), why };
        if body.len() < 5 {
            return Err(malformed("it is truncated".to_owned()));
        }
        body.advance(5);
        let reply = proto::InternalKvPutReply::decode(body).map_err(|e| malformed(e.to_string()))?;
        succeeded(reply.status.as_ref())
    }

    /// One call with a streamed body.
    async fn ask(&self, path: &'static str, body: Body) -> Result<Response<Body>, RayError> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.version_mut() = http::Version::HTTP_2;
        *request.uri_mut() = http::Uri::from_static(path);
        let headers = request.headers_mut();
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        self.authorize(headers)?;
        let answer = self.send(request).await?;
        self.check_status(answer.headers())?;
        Ok(answer)
    }

    /// Fails if the headers or trailers contain a gRPC error status.
    fn check_status(&self, headers: &HeaderMap) -> Result<(), RayError> {
        match Status::from_header_map(headers) {
            Some(status) if status.code() != tonic::Code::Ok => Err(self.refusal(&status)),
            _ => Ok(()),
        }
    }
}

/// Writes the prefix of every message: not compressed, and its length.
fn prefix(to: &mut BytesMut, length: usize) {
    to.put_u8(0);
    to.put_u32(length as u32);
}

/// An `InternalKVGetReply` as it arrives.
#[derive(Default)]
struct Reply {
    /// Bytes that are not parsed yet.
    unparsed: BytesMut,
    is_started: bool,
    /// Number of bytes of the value that are still missing, once its length was read.
    value: Option<u64>,
    status: proto::GcsStatus,
}

impl Reply {
    /// Parses the next bytes. The inner error is the writer's.
    fn take(&mut self, mut data: Bytes, to: &mut dyn Write) -> Result<io::Result<()>, RayError> {
        while !data.is_empty() {
            if let Some(left) = &mut self.value {
                let piece = data.split_to(data.len().min(usize::try_from(*left).unwrap_or(usize::MAX)));
                if piece.is_empty() {
                    return Err(malformed("unexpected bytes after the value"));
                }
                *left -= piece.len() as u64;
                if let Err(e) = to.write_all(&piece) {
                    return Ok(Err(e));
                }
                continue;
            }
            self.unparsed.extend_from_slice(&data);
            data = self.parse_fields()?;
        }
        Ok(Ok(()))
    }

    /// Parses the fields before the value; returns the first bytes of the value.
    fn parse_fields(&mut self) -> Result<Bytes, RayError> {
        if !self.is_started {
            if self.unparsed.len() < 5 {
                return Ok(Bytes::new());
            }
            if self.unparsed.get_u8() != 0 {
                return Err(malformed("it is compressed"));
            }
            self.unparsed.advance(4);
            self.is_started = true;
        }
        loop {
            let mut rest = &self.unparsed[..];
            let (Ok(key), Ok(length)) = (decode_varint(&mut rest), decode_varint(&mut rest)) else {
                // Two varints have at most ten bytes each.
                let is_bad = self.unparsed.len() > 20;
                return if is_bad { Err(malformed("a field is too long")) } else { Ok(Bytes::new()) };
            };
            let head = encoded_len_varint(key) + encoded_len_varint(length);
            if key == field(2) {
                self.value = Some(length);
                return Ok(std::mem::take(&mut self.unparsed).freeze().split_off(head));
            }
            if key != field(1) || length > MAX_PIECE_BYTES as u64 {
                return Err(malformed("an unknown field"));
            }
            let end = head + length as usize;
            if self.unparsed.len() < end {
                return Ok(Bytes::new());
            }
            let status = self.unparsed.split_to(end).split_off(head);
            self.status = proto::GcsStatus::decode(status).map_err(|e| malformed(&e.to_string()))?;
            if self.unparsed.is_empty() {
                return Ok(Bytes::new());
            }
        }
    }

    fn end(self) -> Result<Option<()>, RayError> {
        if self.status.code == proto::STATUS_NOT_FOUND {
            return Ok(None);
        }
        succeeded(Some(&self.status))?;
        match self.value {
            Some(0) => Ok(Some(())),
            None if self.is_started && self.unparsed.is_empty() => Ok(Some(())),
            _ => Err(RayError::Silent("the GCS sent an incomplete package".to_owned())),
        }
    }
}

fn malformed(why: &str) -> RayError {
    RayError::Malformed { route: proto::path::KV_GET.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(reply: &proto::InternalKvGetReply) -> Vec<u8> {
        let mut all = BytesMut::new();
        prefix(&mut all, reply.encoded_len());
        reply.encode(&mut all).unwrap();
        all.to_vec()
    }

    fn read(bytes: &[u8], piece: usize) -> Result<(Option<()>, Vec<u8>), RayError> {
        let (mut reply, mut to) = (Reply::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            reply.take(Bytes::copy_from_slice(piece), &mut to)?.unwrap();
        }
        Ok((reply.end()?, to))
    }

    #[test]
    fn a_value_is_read_in_pieces_of_any_size() {
        let value: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let status = Some(proto::GcsStatus { code: 0, message: "fine".into() });
        let whole = message(&proto::InternalKvGetReply { status, value: value.clone().into() });
        for piece in [1, 2, 3, 7, 500, 5000] {
            assert_eq!(read(&whole, piece).unwrap(), (Some(()), value.clone()), "pieces of {piece}");
        }
        assert!(matches!(read(&whole[..whole.len() - 1], 64), Err(RayError::Silent(_))));
        assert!(matches!(read(&[], 1), Err(RayError::Silent(_))));
        assert!(matches!(read(&[whole, vec![1]].concat(), 64), Err(RayError::Malformed { .. })));
    }

    #[test]
    fn fuzz_package_reply() {
        let status = Some(proto::GcsStatus { code: 0, message: "fine".into() });
        let reply = proto::InternalKvGetReply { status, value: vec![7; 300].into() };
        crate::model::fuzz::fuzz(&[message(&reply)], |bytes| {
            let result = |piece| read(bytes, piece).map_err(|_| ());
            assert_eq!(result(1), result(7), "the result depends on the size of the pieces");
            if let Ok((_, value)) = result(64) {
                assert!(value.len() <= bytes.len());
            }
        });
    }

    #[test]
    fn an_empty_value_and_a_missing_key_are_different() {
        let of = |code| {
            let status = Some(proto::GcsStatus { code, message: String::new() });
            read(&message(&proto::InternalKvGetReply { status, value: Bytes::new() }), 3).unwrap().0
        };
        assert_eq!(of(0), Some(()));
        assert_eq!(of(proto::STATUS_NOT_FOUND), None);
        assert!(read(b"\0\0\0\0\x02\x08\x01", 9).is_err(), "a field of another kind");
    }
}
