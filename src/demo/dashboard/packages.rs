//! Packages: uploaded by the dashboard's route, read back from the key-value store alone.

use super::super::connection::{Body, text};
use super::super::shared::Shared;
use super::failure::in_trouble;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// What aiohttp takes in one request.
const LIMIT: usize = 100 << 20;

/// `GET` tells whether a package is there, `PUT` takes one.
pub(super) async fn answer(
    request: Request<Incoming>,
    protocol: &str,
    name: &str,
    shared: &Shared,
) -> Response<Body> {
    if protocol != "gcs" {
        return in_trouble();
    }
    let uri = format!("gcs://{name}");
    match *request.method() {
        Method::GET | Method::HEAD if shared.now(|c| c.packages.contains_key(&uri)) => {
            text(StatusCode::OK, "")
        }
        Method::GET | Method::HEAD => text(StatusCode::NOT_FOUND, format!("Package {uri} does not exist")),
        Method::PUT => {
            let Ok(body) = request.into_body().collect().await else { return in_trouble() };
            let body = body.to_bytes();
            if body.len() > LIMIT {
                let words = format!("Maximum request body size {LIMIT} exceeded.");
                return text(StatusCode::PAYLOAD_TOO_LARGE, words);
            }
            shared.now(|c| c.packages.insert(uri, body));
            text(StatusCode::OK, "")
        }
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"),
    }
}
