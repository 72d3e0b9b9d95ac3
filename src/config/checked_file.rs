//! A file of the working directory, read once, so that the content that was checked and hashed is the content in use.

use super::safe::{CurrentUser, Unsafe};
use super::yaml::{self, FileError};
use crate::model::Digest;
use crate::regular;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct CheckedFile {
    /// Its path as given.
    pub path: PathBuf,
    /// Its text, or the error of reading it, which becomes a row in the console.
    pub text: Result<String, FileError>,
    /// Digest of the path and the content.
    pub digest: Digest,
    /// Why another user could change it; `None` if nobody else can.
    pub fault: Option<Unsafe>,
}

impl CheckedFile {
    /// Reads a file at an absolute path, and checks who could have written it.
    pub fn read(path: &Path, us: &CurrentUser) -> Self {
        let opened = open_regular(path);
        let (text, seen) = match opened {
            Ok((file, meta)) => (yaml::read_open(file, path), Some((meta.dev(), meta.ino()))),
            Err(e) => (Err(e), None),
        };
        let (resolved, mut fault) = match us.walk(path) {
            Ok(Ok(resolved)) => (resolved, None),
            Ok(Err(fault)) => (path.to_owned(), Some(fault)),
            Err(_) => (path.to_owned(), None),
        };
        // The path was checked after the file was opened: both must be the same file.
        let same = |(dev, ino)| fs::metadata(&resolved).is_ok_and(|m| m.dev() == dev && m.ino() == ino);
        if fault.is_none() && seen.is_some_and(|seen| !same(seen)) {
            let why = "was replaced while it was being read".to_owned();
            fault = Some(Unsafe { path: path.into(), why, fix: "start again".into() });
        }
        let bytes = text.as_ref().map(String::as_bytes).unwrap_or_default();
        Self { digest: digest(&resolved, bytes), path: path.into(), text, fault }
    }

    /// A file that is named but not read yet: the digest covers its path only.
    pub fn unread(path: &Path, us: &CurrentUser) -> (Self, PathBuf) {
        let (resolved, fault) = match us.walk(path) {
            Ok(Ok(resolved)) => (resolved, None),
            Ok(Err(fault)) => (path.to_owned(), Some(fault)),
            Err(_) => (path.to_owned(), None),
        };
        let digest = digest(&resolved, b"");
        (Self { path: path.into(), text: Ok(String::new()), digest, fault }, resolved)
    }
}

/// The text of a file that was accepted with that digest.
///
/// # Errors
///
/// The file has changed since, or cannot be read.
pub(super) fn unchanged(path: &Path, accepted: &Digest) -> Result<String, FileError> {
    let (file, _) = open_regular(path)?;
    let text = yaml::read_open(file, path)?;
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if digest(&resolved, text.as_bytes()) == *accepted {
        return Ok(text);
    }
    let hint = "start marin-tui again to review the new content";
    Err(FileError::new(path, "has changed since its directory was trusted", hint))
}

fn digest(resolved: &Path, text: &[u8]) -> Digest {
    Digest::of(resolved.as_os_str().as_bytes(), text)
}

fn open_regular(path: &Path) -> Result<(File, Metadata), FileError> {
    regular::open(path).map_err(|e| yaml::unreadable(path, &e))
}
