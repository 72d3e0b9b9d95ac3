//! The simulated GCS: unary gRPC over HTTP/2 without TLS, with the token in the metadata.
//!
//! A gRPC message is the protobuf after a frame header of five bytes, and the status is in the trailers; a server of
//! unary calls needs no other part of the protocol. `methods` implements the calls; `drain` implements `DrainNode`.

mod call;
mod drain;
mod methods;

use super::connection::{Body, Io};
use super::scenario::Fault;
use super::shared::Shared;
use bytes::{BufMut, Bytes, BytesMut};
pub(super) use call::{Status, parse};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use std::io;
use std::sync::Arc;

/// Serves the GCS on one connection; closes it at once if the `gcs_server` is dead.
pub(super) async fn serve(io: Io, shared: Arc<Shared>) {
    if shared.gcs_is_dead() {
        return;
    }
    let service = service_fn(|request| call(request, shared.clone()));
    // An error means that the client disconnected.
    let _ =
        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
}

async fn call(request: Request<Incoming>, shared: Arc<Shared>) -> io::Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    let _in_flight = shared.meter.request(&path);
    match shared.fault(&path) {
        Some(Fault::Latency(by)) => tokio::time::sleep(by).await,
        Some(Fault::Stall) => shared.stall(&path).await,
        Some(Fault::HangUp) => return Err(io::ErrorKind::ConnectionReset.into()),
        Some(_) => return Ok(refusal(&Status::unavailable("the simulated GCS has a fault"))),
        None => {}
    }
    let authorized = shared.token().is_none_or(|token| {
        let given = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok());
        given.and_then(|v| v.strip_prefix("Bearer ")) == Some(token.expose())
    });
    let method = methods::find(&path);
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    // A real GCS looks for the method before it looks at the token.
    let outcome = match method {
        None => Err(Status::unimplemented()),
        Some(_) if !authorized => Err(Status::unauthenticated()),
        Some(method) => body.get(5..).map_or_else(|| Err(Status::malformed()), |m| method(m, &shared)),
    };
    if shared.gcs_is_dead() {
        shared.drop_connections();
    }
    Ok(outcome.map_or_else(|status| refusal(&status), answer))
}

/// A message, followed by the status 0.
pub(super) fn answer(message: Bytes) -> Response<Body> {
    let mut head = BytesMut::with_capacity(5);
    head.put_u8(0);
    head.put_u32(message.len() as u32);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Frame::data(head.freeze()), Frame::data(message), Frame::trailers(trailers)];
    let body = StreamBody::new(futures_util::stream::iter(frames.map(Ok)));
    with_type(Response::new(body.boxed_unsync()))
}

/// A response with a status and no message.
pub(super) fn refusal(status: &Status) -> Response<Body> {
    let mut response =
        with_type(Response::new(http_body_util::Empty::new().map_err(|e| match e {}).boxed_unsync()));
    response.headers_mut().insert("grpc-status", status.code.into());
    if let Ok(message) = HeaderValue::from_str(&status.message) {
        response.headers_mut().insert("grpc-message", message);
    }
    response
}

fn with_type(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
