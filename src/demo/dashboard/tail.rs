//! `GET /api/jobs/{id}/logs/tail`: the live log over a WebSocket, frames of at most ten lines from the beginning.

use super::super::connection::{Body, text};
use super::super::shared::Shared;
use super::jobs::unknown;
use crate::task;
use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{self, Message};

/// Upgrades the connection, or returns an error response.
pub(super) fn answer(mut request: Request<Incoming>, id: &str, shared: &Arc<Shared>) -> Response<Body> {
    match shared.now(|c| c.job(id).map(|j| j.submission.is_some())) {
        None => return unknown(id),
        Some(false) => return text(StatusCode::BAD_REQUEST, "Can only get logs of submission type jobs"),
        Some(true) => {}
    }
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "500: WebSocket proxy error");
    };
    let accept = derive_accept_key(key.as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    task::spawn(run(upgrade, id.to_owned(), shared.clone()));
    let mut response = Response::new(Empty::new().map_err(|e| match e {}).boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

async fn run(upgrade: OnUpgrade, id: String, shared: Arc<Shared>) {
    let mut closing = shared.generation.subscribe();
    let Ok(io) = upgrade.await else { return };
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Server, None).await;
    let (mut out, mut from) = socket.split();
    let disconnected = async { while let Some(Ok(_)) = from.next().await {} };
    tokio::select! {
        // Ray ignores messages of the client; reading detects that it has disconnected.
        () = disconnected => {}
        _ = closing.changed() => {}
        // The log has ended, or the client has disconnected.
        _ = send(&mut out, &id, &shared) => {}
    }
}

type Out = futures_util::stream::SplitSink<WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>, Message>;

/// Sends the log until the job has ended and everything is sent, then closes with 1000.
async fn send(out: &mut Out, id: &str, shared: &Shared) -> Result<(), tungstenite::Error> {
    let mut at = 0;
    loop {
        let next = shared.now(|c| {
            let now = c.now;
            c.job(id).map(|j| (j.log.frame(&mut at, now), j.status.is_ended()))
        });
        let Some((frame, ended)) = next else { break };
        match String::from_utf8(frame) {
            Ok(frame) if frame.is_empty() => {
                if ended {
                    break;
                }
                tokio::time::sleep(shared.scenario.tail_poll).await;
            }
            Ok(frame) => out.send(Message::text(frame)).await?,
            // Invalid UTF-8 ends the stream as if the log had ended.
            Err(_) => break,
        }
    }
    let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    out.send(Message::Close(Some(close))).await?;
    out.flush().await
}
