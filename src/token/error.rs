//! Why no token could be read or written.

use super::{Source, TokenSources};
use crate::model::text::printable;
use crate::model::{ClusterName, Fix, Hint, Problem, ProblemKind, Timestamp};
use std::io;
use std::path::{Path, PathBuf};

/// Why no token could be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// No source has a token.
    #[error("no token found: RAY_AUTH_TOKEN is not set, and there is no {}", shown(.tried))]
    NotFound {
        /// Files that do not exist.
        tried: Vec<PathBuf>,
    },
    /// A file exists and cannot be read.
    #[error("cannot read token file {}: {error}", file.display())]
    Unreadable {
        /// Path of the token file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", printable(&file.display().to_string()))]
    Unwritable {
        /// Path of the token file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The content of a source is not a token.
    #[error("{origin} {why}")]
    Unusable {
        /// Where that content was found.
        origin: Source,
        /// What is wrong with its content.
        why: &'static str,
    },
}

fn shown(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|f| printable(&f.display().to_string()).into_owned()).collect();
    names.join(" or ")
}

impl TokenError {
    /// What to do about it; `cached` is the path for the user's own token file.
    pub fn hint(&self, cached: &Path) -> Hint {
        match self {
            Self::NotFound { .. } => {
                format!("save the token in {} (chmod 600), or set RAY_AUTH_TOKEN", cached.display()).into()
            }
            Self::Unreadable { file, error } => match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("write the token to {}, or correct RAY_AUTH_TOKEN_PATH", file.display()).into()
                }
                io::ErrorKind::IsADirectory => {
                    format!("remove the directory {}, or use the path of a file", file.display()).into()
                }
                _ => Fix::command("check its owner and mode", format!("ls -l {}", file.display())).into(),
            },
            Self::Unwritable { file, .. } => {
                let folder = file.parent().unwrap_or(file);
                format!("make {} writable, or remove it", folder.display()).into()
            }
            Self::Unusable { origin, .. } => {
                format!("save the token again, as the only text on the first line of {origin}").into()
            }
        }
    }

    /// Whether this is a failure to write that file.
    pub fn is_of_writing(&self, file: &Path) -> bool {
        matches!(self, Self::Unwritable { file: failed, .. } if failed == file)
    }

    /// The problem to show for that cluster.
    pub fn problem(&self, cluster: &ClusterName, sources: &TokenSources, since: Timestamp) -> Problem {
        let hint = self.hint(&sources.cluster_file(cluster));
        Problem::new(ProblemKind::TokenMissing, self.to_string(), hint, since)
    }
}
