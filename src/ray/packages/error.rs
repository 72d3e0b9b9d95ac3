//! Why a package cannot be built.

use std::io;
use std::path::{Path, PathBuf};

/// Maximum request size of a Ray dashboard in bytes (`CLIENT_MAX_SIZE` of its HTTP server).
pub const UPLOAD_LIMIT: u64 = 100 << 20;

/// Why a package cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// Too large to upload.
    #[error(
        "{} is {} MiB, but Ray accepts at most {} MiB: exclude files that the job does not need (.gitignore, .rayignore, --exclude); the largest files are {}",
        .path.display(), .bytes.div_ceil(1 << 20), UPLOAD_LIMIT >> 20, .largest.join(", ")
    )]
    TooLarge {
        /// The directory or file to pack.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// Its largest files, with their sizes.
        largest: Vec<String>,
    },
    /// Anything else.
    #[error("{0}")]
    Refused(String),
}

impl PackError {
    pub(super) fn unreadable(path: &Path, why: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), why }
    }
}
