//! The WebSocket of a job's log (`GET /api/jobs/{id}/logs/tail`, RFC 6455).
//!
//! Ray replays the log from its beginning on every connection. Compression is never offered: the dashboard
//! would accept it and then close without a frame.

use super::super::RayError;
use super::super::client::{Client, encoded};
use crate::model::SubmissionId;
use base64::Engine;
use bytes::Bytes;
use futures_util::StreamExt;
use http::StatusCode;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Method, Upgraded};
use std::hash::{BuildHasher, RandomState};
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

/// What a socket yields.
pub enum Frame {
    /// A piece of the log.
    Data(Bytes),
    /// Ray has no more to say (close code 1000): the log ended, or it could not read it.
    Done,
    /// The connection broke, and why.
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
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if response.status() != StatusCode::SWITCHING_PROTOCOLS
            || accepted.is_none_or(|a| a.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
        {
            return Err(RayError::NotRay("it does not speak websocket".to_owned()));
        }
        let upgraded = response.upgrade().await.map_err(|e| super::super::client::silent(&e))?;
        // One line is one message: leave room for absurd ones, the splitter cuts them.
        let config = WebSocketConfig::default().max_frame_size(Some(64 << 20));
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Self { stream, client: client.clone() })
    }

    /// The next frame. Safe to drop while waiting.
    pub async fn next(&mut self) -> Frame {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return self.counted(Bytes::from(text)),
                Some(Ok(Message::Binary(bytes))) => return self.counted(bytes),
                Some(Ok(Message::Close(Some(close)))) if close.code == CloseCode::Normal => {
                    return Frame::Done;
                }
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

    fn counted(&self, bytes: Bytes) -> Frame {
        self.client.meter().http.receive(bytes.len());
        Frame::Data(bytes)
    }
}

/// Sixteen bytes that differ from those of the last connection, so that no cache answers (RFC 6455, section 4.1).
fn key() -> String {
    let random = || RandomState::new().hash_one(0u8).to_be_bytes();
    base64::engine::general_purpose::STANDARD.encode([random(), random()].concat())
}
