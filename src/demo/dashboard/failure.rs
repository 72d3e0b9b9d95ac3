//! What aiohttp answers when a handler fails.

use super::super::connection::{Body, text};
use http::{Response, StatusCode};

/// aiohttp's answer to an exception.
pub(super) fn in_trouble() -> Response<Body> {
    text(StatusCode::INTERNAL_SERVER_ERROR, IN_TROUBLE)
}

/// aiohttp's words for an exception in a handler.
pub(super) const IN_TROUBLE: &str = "500 Internal Server Error\n\nServer got itself in trouble";
