//! What aiohttp answers when a handler fails.

use super::super::connection::{Body, text};
use super::IN_TROUBLE;
use http::{Response, StatusCode};

/// aiohttp's answer to an exception.
pub(super) fn in_trouble() -> Response<Body> {
    text(StatusCode::INTERNAL_SERVER_ERROR, IN_TROUBLE)
}
