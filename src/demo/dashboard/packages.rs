//! Packages: uploaded through the dashboard's route. They can be read only from the key-value store.

use super::super::connection::{Body, text};
use super::super::shared::Shared;
use super::failure::in_trouble;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// Maximum size of a request body in aiohttp, in bytes.
const MAX_BODY: usize = 100 << 20;

/// `GET` reports whether a package exists, `PUT` uploads one.
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
            if body.len() > MAX_BODY {
                let message = format!("Maximum request body size {MAX_BODY} exceeded.");
                return text(StatusCode::PAYLOAD_TOO_LARGE, message);
            }
            shared.now(|c| c.packages.insert(uri, body));
            text(StatusCode::OK, "")
        }
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"),
    }
}
