//! Connections to a simulated head's HTTP ports, and the responses of the dashboard, the GCS and the Prometheus
//! endpoints.

use super::meter::Metered;
use super::shared::Shared;
use crate::task;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

/// A response body of any kind; an error closes the connection in the middle of it.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A connection whose bytes are counted.
pub(super) type Io = TokioIo<Metered<TcpStream>>;

/// Accepts connections until the head is dropped, and serves each in a task that ends when the head closes its
/// connections.
pub(super) async fn accept<F>(listener: TcpListener, shared: Arc<Shared>, serve: fn(Io, Arc<Shared>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut closing = shared.generation.subscribe();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.changed() => if shared.is_closed() { return } else { continue },
        };
        let Ok((stream, _)) = stream else { continue };
        // Small responses must not wait for an acknowledgement; an error only costs speed.
        let _ = stream.set_nodelay(true);
        let serving = serve(TokioIo::new(Metered::new(stream, shared.meter.clone())), shared.clone());
        let mut closing = shared.generation.subscribe();
        task::spawn(async move {
            tokio::select! {
                () = serving => {}
                _ = closing.changed() => {}
            }
        });
    }
}

/// A response with a complete body.
pub(super) fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).map_err(|e| match e {}).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

/// Plain text, as aiohttp sends it.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    whole(status, "text/plain; charset=utf-8", body)
}

/// JSON text with status 200.
pub(super) fn json(body: impl Into<Bytes>) -> Response<Body> {
    whole(StatusCode::OK, "application/json; charset=utf-8", body)
}
