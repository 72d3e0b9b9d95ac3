//! Keeping a fetched token: one file per secret and, for the default secret, `~/.ray/auth_token`.
//!
//! A file is replaced in one step and is its owner's alone from its first byte on.

use super::{Places, TokenError, read};
use crate::model::{Secret, SecretName};
use sha1::{Digest, Sha1};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

impl Places {
    /// Where the secret's token is kept.
    pub fn file_of(&self, secret: &SecretName) -> PathBuf {
        // Letters, digits, `-`, `_`, `.` and `:` only: it leads nowhere else.
        let project = secret.project.as_deref().filter(|p| SecretName::is_project(p)).unwrap_or("unknown");
        self.cache.join(format!("{project}.{}", secret.name))
    }

    /// `~/.ray/auth_token`, unless there is no home.
    pub fn home_file(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(".ray/auth_token"))
    }

    /// Keeps the token of that version. Returns what could not be kept: the token works all the same.
    pub fn keep(&self, secret: &SecretName, version: &str, token: &Secret) -> Vec<TokenError> {
        let file = self.file_of(secret);
        let mut troubles = Vec::new();
        let mut write = |file: &Path, text: &str| {
            if let Err(error) = replace(file, text) {
                troubles.push(TokenError::Unwritable { file: file.into(), error });
            }
        };
        write(&file, &format!("{}\n", token.expose()));
        write(&version_file(&file), &format!("{version} {}\n", fingerprint(token)));
        if let Some(home) = self.home_file().filter(|_| secret.is_default()) {
            let same = read(&home).is_ok_and(|found| found.token == *token && !found.exposed);
            if !same {
                write(&home, &format!("{}\n", token.expose()));
            }
        }
        troubles
    }

    /// The version that the kept token is, if it is still the one that was fetched.
    pub fn version_of(&self, secret: &SecretName, token: &Secret) -> Option<String> {
        let text = fs::read_to_string(version_file(&self.file_of(secret))).ok()?;
        let (version, print) = text.trim().split_once(' ')?;
        (print == fingerprint(token)).then(|| version.chars().filter(char::is_ascii_alphanumeric).collect())
    }
}

fn version_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".version");
    name.into()
}

/// Tells two tokens apart in a file that is its owner's alone; too short to tell the token.
fn fingerprint(token: &Secret) -> String {
    let digest = Sha1::digest(token.expose().as_bytes());
    let [a, b, c, d, ..] = digest.0;
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// Takes from others what a file of ours gives them.
pub(super) fn close_to_others(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o600))
}

/// Writes beside the file, for its owner alone, and moves it there: readers see the old or the new text, whole.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // A link's target is what is meant.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.into());
    if file.is_dir() {
        return Err(io::Error::other("it is a folder; remove it"));
    }
    let folder = file.parent().ok_or(io::ErrorKind::NotFound)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let fresh = folder.join(format!(".{name}.{}.{number}", std::process::id()));
    let written = (|| {
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&fresh, &file)
    })();
    if written.is_err() {
        // Nothing half-written may stay; why it failed is what counts.
        let _ = fs::remove_file(&fresh);
    }
    written
}
