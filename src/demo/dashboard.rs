//! The simulated dashboard's HTTP server: HTTP/1.1 on a loopback socket, Ray's token check, and the faults.
//!
//! `routes` passes requests to `jobs` (`tail`: a live log), `packages`, `logs`, `nodes`, `tasks`, `status` and
//! `stacks`. `query` is the parsed query string, `rows` the lists of the state API. `metrics` is served on a separate
//! socket.

mod failure;
mod jobs;
pub(super) mod logs;
pub(super) mod metrics;
mod nodes;
mod packages;
pub(super) mod query;
mod routes;
mod rows;
mod stacks;
pub(super) mod status;
mod tail;
mod tasks;

use super::connection::{Body, Io, json, text, whole};
use super::scenario::Fault;
use super::shared::Shared;
use bytes::Bytes;
use failure::IN_TROUBLE;
use futures_util::{StreamExt, stream};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use serde_json::Value;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Paths that Ray answers without a token.
const OPEN: [&str; 8] = [
    "/",
    "/favicon.ico",
    "/api/authentication_mode",
    "/api/authenticate",
    "/api/healthz",
    "/api/gcs_healthz",
    "/api/local_raylet_healthz",
    "/-/healthz",
];

/// Serves the dashboard on one connection.
pub(super) async fn serve(io: Io, shared: Arc<Shared>) {
    let service = service_fn(|request| answer(request, shared.clone()));
    // An error means that the client disconnected, or that a fault closed the connection.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).with_upgrades().await;
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> io::Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    let _answering = shared.meter.request(&path);
    let fault = shared.fault(&path);
    match &fault {
        Some(Fault::Latency(by)) => tokio::time::sleep(*by).await,
        Some(Fault::Stall) => shared.stall(&path).await,
        Some(Fault::HangUp) => return Err(io::ErrorKind::ConnectionReset.into()),
        Some(Fault::Status(code)) => {
            let status = StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Ok(text(status, IN_TROUBLE));
        }
        Some(Fault::Html) => {
            let page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Sign in to continue.</body></html>\n";
            return Ok(whole(StatusCode::OK, "text/html; charset=utf-8", page));
        }
        Some(Fault::HalfBody | Fault::Padding(_)) | None => {}
    }
    if let Err(refusal) = authorize(&path, request.headers(), &shared) {
        return Ok(refusal);
    }
    // A submission is reported to the observer with its body, in `jobs::submit`.
    let submits = path == jobs::ROUTE && request.method() == Method::POST;
    if !submits && !matches!(*request.method(), Method::GET | Method::HEAD) {
        shared.report_request(request.method().as_str(), &path, &Value::Null);
    }
    let answer = routes::answer(request, &shared).await;
    match fault {
        Some(Fault::HalfBody) => half(answer).await,
        Some(Fault::Padding(spaces)) => padded(answer, spaces).await,
        _ => Ok(answer),
    }
}

/// Ray's token check: the first credential that is present decides.
fn authorize(path: &str, headers: &HeaderMap, shared: &Shared) -> Result<(), Response<Body>> {
    let Some(token) = shared.token() else { return Ok(()) };
    if OPEN.contains(&path) || path.starts_with("/static/") {
        return Ok(());
    }
    let named = |name| headers.get(name).and_then(|v| v.to_str().ok()).filter(|v| !v.is_empty());
    let bearer = named(AUTHORIZATION.as_str()).or_else(|| named("x-ray-authorization"));
    let cookie = || {
        let pairs = named(COOKIE.as_str())?.split("; ");
        pairs
            .filter_map(|p| p.split_once('='))
            .find(|(k, _)| *k == "ray-authentication-token")
            .map(|(_, v)| v)
    };
    let given = match bearer {
        Some(value) => Some(value.strip_prefix("Bearer ").unwrap_or_default()),
        None => cookie(),
    };
    match given {
        None => Err(text(StatusCode::UNAUTHORIZED, "Unauthorized: Missing authentication token")),
        Some(given) if given == token.expose() => Ok(()),
        Some(_) => Err(text(StatusCode::FORBIDDEN, "Forbidden: Invalid authentication token")),
    }
}

async fn collect(answer: Response<Body>) -> io::Result<(http::response::Parts, Bytes)> {
    let (parts, body) = answer.into_parts();
    Ok((parts, body.collect().await?.to_bytes()))
}

/// Announces the length of the whole body, sends half of it, and closes the connection.
async fn half(answer: Response<Body>) -> io::Result<Response<Body>> {
    let (mut parts, body) = collect(answer).await?;
    parts.headers.insert(CONTENT_LENGTH, body.len().into());
    let first = stream::once(ready(Ok(Frame::data(body.slice(..body.len() / 2)))));
    let end = stream::once(async {
        // The written half must be sent before the connection is closed.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Err(io::ErrorKind::ConnectionReset.into())
    });
    Ok(Response::from_parts(parts, StreamBody::new(first.chain(end)).boxed_unsync()))
}

async fn padded(answer: Response<Body>, spaces: usize) -> io::Result<Response<Body>> {
    let (parts, body) = collect(answer).await?;
    let mut all = vec![b' '; spaces];
    all.extend_from_slice(&body);
    let body = Full::new(Bytes::from(all)).map_err(|e| match e {}).boxed_unsync();
    Ok(Response::from_parts(parts, body))
}
