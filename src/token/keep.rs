//! Saves a fetched token: one file per secret and, for the default secret, `~/.ray/auth_token`.
//!
//! A file is replaced atomically and is never readable by other users.

use super::file::read;
use super::layout::{previous_file, version_file};
use super::{TokenError, TokenSources};
use crate::model::{Secret, SecretName};
use crate::replace;
use sha1::{Digest, Sha1};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

impl TokenSources {
    /// Saves the token of that version. The token that it replaces is kept, because running clusters use it until they
    /// are restarted. Returns the errors of files that could not be written; the token is usable anyway.
    pub fn keep(&self, secret: &SecretName, version: &str, token: &Secret) -> Vec<TokenError> {
        let file = self.file_of(secret);
        let mut errors = Vec::new();
        let mut write = |file: &Path, text: &str| {
            if let Err(error) = save(file, text) {
                errors.push(TokenError::Unwritable { file: file.into(), error });
            }
        };
        if let Ok(replaced) = read(&file)
            && replaced.token != *token
        {
            write(&previous_file(&file), &format!("{}\n", replaced.token.expose()));
        }
        write(&file, &format!("{}\n", token.expose()));
        write(&version_file(&file), &format!("{version} {}\n", fingerprint(token)));
        if let Some(home) = self.home_file().filter(|_| secret.is_default()) {
            let same = read(&home).is_ok_and(|found| found.token == *token && !found.exposed);
            if !same {
                write(&home, &format!("{}\n", token.expose()));
            }
        }
        if !errors.iter().any(|e| e.is_of_writing(&file)) {
            errors.extend(self.remove_old_copy(secret));
        }
        errors
    }

    /// The token that the saved one has replaced. Reads a file.
    pub fn previous(&self, secret: &SecretName) -> Option<Secret> {
        read(&previous_file(&self.file_of(secret))).ok().map(|found| found.token)
    }

    /// Removes the secret's copy in the older layout, which is no longer updated. The token is removed before its version
    /// file: without that file it would count as a cluster's own token.
    fn remove_old_copy(&self, secret: &SecretName) -> Option<TokenError> {
        let old = self.old_copy(secret)?;
        let removed = fs::remove_file(&old).and_then(|()| fs::remove_file(version_file(&old)));
        let error = removed.err().filter(|e| e.kind() != io::ErrorKind::NotFound)?;
        let error = io::Error::new(error.kind(), format!("cannot remove this old copy: {error}"));
        Some(TokenError::Unwritable { file: old, error })
    }

    /// The version of the saved token, if the file still contains the fetched token.
    pub fn version_of(&self, secret: &SecretName, token: &Secret) -> Option<String> {
        self.copies(secret).iter().find_map(|copy| {
            let text = fs::read_to_string(version_file(copy)).ok()?;
            let (version, print) = text.trim().split_once(' ')?;
            (print == fingerprint(token))
                .then(|| version.chars().filter(char::is_ascii_alphanumeric).collect())
        })
    }
}

/// A short checksum to distinguish two tokens, stored in a private file; too short to derive the token.
fn fingerprint(token: &Secret) -> String {
    let digest = Sha1::digest(token.expose().as_bytes());
    let [a, b, c, d, ..] = digest.0;
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// Removes the permissions of other users from a file of ours.
pub(super) fn close_to_others(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o600))
}

/// Replaces a private file, and creates its directory if necessary.
fn save(file: &Path, text: &str) -> io::Result<()> {
    // For a symbolic link the target is replaced.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.into());
    if file.is_dir() {
        return Err(io::Error::other("it is a directory; remove it"));
    }
    let folder = file.parent().ok_or(io::ErrorKind::NotFound)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    replace::write(&file, text.as_bytes())
}
