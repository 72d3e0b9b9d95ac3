//! Parses the token in a file or a secret.

use super::{Source, TokenError};
use crate::model::Secret;
use crate::regular;
use std::fs;
use std::path::Path;

/// Maximum size of a token file in bytes; Ray reads its first line only.
const MAX_SIZE: u64 = 64 << 10;

/// A token and where it came from.
#[derive(Clone, Debug)]
pub struct Found {
    /// The token, without surrounding white space.
    pub token: Secret,
    /// Where it was found.
    pub source: Source,
    /// Whether other users can read the file.
    pub exposed: bool,
    /// Whether it was read from a copy of the cluster's secret: the latest version may replace it.
    pub from_secret: bool,
}

pub(super) fn read(file: &Path) -> Result<Found, TokenError> {
    let unreadable = |error| TokenError::Unreadable { file: file.into(), error };
    let bytes = regular::read(file, MAX_SIZE).map_err(unreadable)?;
    let source = Source::File(file.into());
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| TokenError::Unusable { origin: source.clone(), why: "is not a text file" })?;
    let token = parse(text, &source)?;
    Ok(Found { token, exposed: others_can_read(file), source, from_secret: false })
}

/// The token in a secret's payload; `origin` names its version.
pub fn parse_payload(text: &str, origin: &str) -> Result<Secret, TokenError> {
    parse(text, &Source::Payload(origin.into()))
}

/// Reads the first line only and trims spaces, `\r` and `\n` around it, as Ray does. Characters that are not allowed in
/// an HTTP header (RFC 9110, section 5.5) are an error here, before a library refuses them without explanation.
pub(super) fn parse(text: &str, origin: &Source) -> Result<Secret, TokenError> {
    let unusable = |why| TokenError::Unusable { origin: origin.clone(), why };
    if text.starts_with('\u{feff}') {
        return Err(unusable("starts with a byte order mark, which Ray would read as part of the token"));
    }
    let token =
        text.trim_matches([' ', '\r', '\n']).lines().next().unwrap_or_default().trim_matches([' ', '\r']);
    if token.is_empty() {
        return Err(unusable("is empty"));
    }
    if !token.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Err(unusable("contains characters that are not allowed in a token"));
    }
    Ok(Secret::new(token))
}

fn others_can_read(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|m| m.permissions().mode() & 0o077 != 0)
}
