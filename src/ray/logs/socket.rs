//! The WebSocket of a job's log (`GET /api/jobs/{id}/logs/tail`, RFC 6455).
//!
//! Ray replays the log from its beginning on every connection. Compression is not offered: the dashboard would accept
//! it and then close the connection without a frame.

use super::super::RayError;
use super::super::client::{Client, encoded};
use crate::model::SubmissionId;
use base64::Engine;
use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, StatusCode};
use reqwest::{Method, Upgraded};
use std::hash::{BuildHasher, RandomState};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// An open connection.
pub struct Socket {
    stream: WebSocketStream<Upgraded>,
    client: Client,
}

/// A result of reading the socket.
pub enum Frame {
    /// A piece of the log.
    Data(Bytes),
    /// Closed by Ray with code 1000: the log ended, or Ray could not read it.
    Done,
    /// The connection broke, with the reason.
    Broken(String),
}

impl Socket {
    /// Opens the log of a job.
    pub async fn open(client: &Client, id: &SubmissionId) -> Result<Self, RayError> {
        let route = format!("/api/jobs/{}/logs/tail", encoded(id.0.raw()));
        let key = key();
        let request = client
            .request(Method::GET, &route)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let response = client.open(request).await?;
        if !is_accepted(response.status(), response.headers(), &key) {
            return Err(RayError::NotRay("it does not support WebSocket".to_owned()));
        }
        let upgraded = response.upgrade().await.map_err(|e| super::super::client::silent(&e))?;
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config())).await;
        Ok(Self { stream, client: client.clone() })
    }

    /// The next frame. Safe to drop while waiting.
    pub async fn next(&mut self) -> Frame {
        let frame = frame(&mut self.stream).await;
        if let Frame::Data(bytes) = &frame {
            self.client.meter().http.receive(bytes.len());
        }
        frame
    }
}

/// Maximum size of a message, which is one line; the splitter cuts long lines later.
fn config() -> WebSocketConfig {
    WebSocketConfig::default().max_frame_size(Some(64 << 20))
}

/// Whether a response accepts the upgrade that was requested with this key (RFC 6455, section 4.2.2).
fn is_accepted(status: StatusCode, headers: &HeaderMap, key: &str) -> bool {
    let accepted = headers.get(SEC_WEBSOCKET_ACCEPT);
    status == StatusCode::SWITCHING_PROTOCOLS
        && accepted.is_some_and(|a| a.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes())
}

async fn frame<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut WebSocketStream<S>) -> Frame {
    loop {
        match stream.next().await {
            Some(Ok(Message::Text(text))) => return Frame::Data(Bytes::from(text)),
            Some(Ok(Message::Binary(bytes))) => return Frame::Data(bytes),
            Some(Ok(Message::Close(Some(close)))) if close.code == CloseCode::Normal => return Frame::Done,
            Some(Ok(Message::Close(close))) => {
                let why = close.map(|c| format!("closed with code {}", c.code)).unwrap_or_default();
                return Frame::Broken(why);
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Err(Error::ConnectionClosed)) | None => {
                return Frame::Broken("the connection was closed".to_owned());
            }
            Some(Err(error)) => return Frame::Broken(error.to_string()),
        }
    }
}

/// A key of sixteen bytes that differs for each connection, so that no cache responds (RFC 6455, section 4.1).
fn key() -> String {
    let random = || RandomState::new().hash_one(0u8).to_be_bytes();
    base64::engine::general_purpose::STANDARD.encode([random(), random()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fuzz::fuzz;
    use http::HeaderValue;
    use tokio::io::AsyncWriteExt;

    /// A server's frame, as it is sent on the wire.
    fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
        [&[first, u8::try_from(payload.len()).unwrap()], payload].concat()
    }

    #[test]
    fn fuzz_websocket_frames() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let whole =
            [sent(0x81, b"step 1\n"), sent(0x89, b"ping"), sent(0x82, b"\xff\n"), sent(0x88, &[3, 232])];
        let pieces = [sent(0x01, b"st"), sent(0x00, b"ep"), sent(0x80, b"\n"), sent(0x88, b"")];
        fuzz(&[whole.concat(), pieces.concat(), vec![0x82, 127, 0, 0, 0, 0, 64, 0, 0, 1]], |bytes| {
            runtime.block_on(async {
                let (ours, mut theirs) = tokio::io::duplex(128 << 10);
                theirs.write_all(bytes).await.unwrap();
                theirs.shutdown().await.unwrap();
                let mut stream = WebSocketStream::from_raw_socket(ours, Role::Client, Some(config())).await;
                let mut taken = 0;
                while let Frame::Data(data) = frame(&mut stream).await {
                    taken += data.len();
                }
                assert!(taken <= bytes.len(), "more was received than sent");
            });
        });
    }

    #[test]
    fn fuzz_websocket_handshake() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        // RFC 6455, section 1.3.
        let answer = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        fuzz(&[answer.to_vec()], |bytes| {
            let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
            let headers = HeaderMap::from_iter([(SEC_WEBSOCKET_ACCEPT, value)]);
            assert_eq!(is_accepted(StatusCode::SWITCHING_PROTOCOLS, &headers, key), bytes == answer);
            assert!(!is_accepted(StatusCode::OK, &headers, key));
        });
    }
}
