//! Token sources: where they are, and in which order they are searched.

use crate::model::Secret;
use crate::model::text::printable;
use std::fmt;
use std::path::PathBuf;

/// The sources that are searched for a token, in this order.
#[derive(Clone, Debug, Default)]
pub struct TokenSources {
    /// `RAY_AUTH_TOKEN`; an empty value counts as unset.
    pub variable: Option<Secret>,
    /// `RAY_AUTH_TOKEN_PATH`; an unusable file is an error, and later sources are not tried.
    pub path_variable: Option<PathBuf>,
    /// Directory of the token files: `clusters/NAME`, which the user writes, and `secrets/PROJECT.SECRET`, the copies.
    pub cache: PathBuf,
    /// The home directory, for `~/.ray/auth_token`.
    pub home: Option<PathBuf>,
}

/// Where a token was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `RAY_AUTH_TOKEN`.
    Variable,
    File(PathBuf),
    /// A version of a secret.
    Payload(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable => f.write_str("RAY_AUTH_TOKEN"),
            Self::File(path) => f.write_str(&printable(&path.display().to_string())),
            Self::Payload(name) => f.write_str(&printable(name)),
        }
    }
}
