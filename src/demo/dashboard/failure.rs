//! aiohttp's response when a handler fails.

use super::super::connection::{Body, text};
use http::{Response, StatusCode};

/// aiohttp's response to an exception in a handler.
pub(super) fn in_trouble() -> Response<Body> {
    text(StatusCode::INTERNAL_SERVER_ERROR, IN_TROUBLE)
}

/// Text of aiohttp's response to an exception in a handler.
pub(super) const IN_TROUBLE: &str = "500 Internal Server Error\n\nServer got itself in trouble";
