//! The trusted directories and their content: one record per directory, in the state directory, accessible only to its
//! owner.
//!
//! A record has a digest of every accepted file of the directory. Changed and added files must be confirmed again, as
//! with direnv.

use super::Env;
use super::checked_file::CheckedFile;
use super::claims::RequestedAction;
use super::paths::{Folders, create_private};
use super::safe::{CurrentUser, Unsafe};
use crate::model::sort;
use crate::model::{Digest, Timestamp};
use crate::replace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files of the working directory, to be reviewed before they are trusted.
#[derive(Clone, Debug)]
pub struct Review {
    /// The directory, links resolved.
    pub folder: PathBuf,
    /// Its files that would be used, and the files that they name.
    pub(super) files: Vec<CheckedFile>,
    /// The actions that they would cause, each with the clusters or files that request it.
    pub claims: BTreeMap<RequestedAction, Vec<String>>,
}

/// The trust status of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustState {
    /// Another user can change its files. They are not used, even after confirmation.
    Unsafe(Unsafe),
    /// Accepted with its current content.
    Trusted,
    /// Not reviewed yet.
    New,
    /// These files have changed since the directory was trusted.
    Changed(Vec<PathBuf>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    pub folder: PathBuf,
    /// Digest of each accepted file, `sha256:...`.
    pub files: BTreeMap<PathBuf, String>,
    /// When it was accepted, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Review {
    /// The directory's trust status according to the records.
    pub fn state(&self, records: &Records) -> TrustState {
        if let Some(fault) = self.files.iter().find_map(|held| held.fault.clone()) {
            return TrustState::Unsafe(fault);
        }
        let Some(known) = records.find(&self.folder) else { return TrustState::New };
        let differs = |held: &&CheckedFile| {
            known.files.get(&held.path).map(String::as_str) != Some(held.digest.as_str())
        };
        let changed: Vec<PathBuf> = self.files.iter().filter(differs).map(|held| held.path.clone()).collect();
        if changed.is_empty() { TrustState::Trusted } else { TrustState::Changed(changed) }
    }

    /// The actions to confirm, one line for each.
    pub fn lines(&self) -> Vec<String> {
        super::claims::lines(&self.claims)
    }
}

/// The records of trust.
pub struct Records {
    /// `None` when there is no state directory.
    folder: Option<PathBuf>,
}

impl Records {
    /// The records of this user. Without a home directory there are none: they would be in the working directory, where
    /// another person's records would count as ours.
    pub fn of(env: &Env) -> Self {
        let is_ours = env.home().is_some() || env.var("XDG_STATE_HOME").is_some();
        let state = Folders::new(env).state;
        Self { folder: (is_ours && state.is_absolute()).then(|| state.join("trusted")) }
    }

    fn file(&self, folder: &Path) -> Option<PathBuf> {
        let hash = Digest::of(folder.as_os_str().as_bytes(), b"");
        let name = format!("{}.json", hash.as_str().trim_start_matches("sha256:"));
        self.folder.as_ref().map(|records| records.join(name))
    }

    /// The record of a directory. A record that another user can change is ignored.
    fn find(&self, folder: &Path) -> Option<Trusted> {
        read(&self.file(folder)?).filter(|record| record.folder == folder)
    }

    /// Every record, by directory.
    pub fn list(&self) -> Vec<Trusted> {
        let entries = self.folder.iter().filter_map(|f| fs::read_dir(f).ok()).flatten().flatten();
        let mut all: Vec<Trusted> = entries.filter_map(|entry| read(&entry.path())).collect();
        sort::by(&mut all, |a, b| a.folder.cmp(&b.folder));
        all
    }

    /// Records that the directory is trusted with this content. Other accepted files of the directory stay in the
    /// record.
    pub fn accept(&self, review: &Review, now: Timestamp) -> io::Result<()> {
        let (Some(records), Some(file)) = (&self.folder, self.file(&review.folder)) else {
            return Err(io::Error::other("no home directory: set HOME"));
        };
        let mut files = self.find(&review.folder).map(|known| known.files).unwrap_or_default();
        files.extend(review.files.iter().map(|held| (held.path.clone(), held.digest.as_str().to_owned())));
        let record = Trusted { folder: review.folder.clone(), files, at_ms: now.as_millis() };
        if let Some(state) = records.parent() {
            create_private(state)?;
        }
        create_private(records)?;
        let mut text = serde_json::to_vec_pretty(&record)?;
        text.push(b'\n');
        replace::write(&file, &text)
    }

    /// Removes the directory's record; returns whether there was one.
    pub fn remove(&self, folder: &Path) -> io::Result<bool> {
        let Some(file) = self.file(folder) else { return Ok(false) };
        match fs::remove_file(file) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn read(file: &Path) -> Option<Trusted> {
    if file.extension().is_none_or(|e| e != "json") {
        return None;
    }
    let held = CheckedFile::read(&std::path::absolute(file).ok()?, &CurrentUser::here());
    match held {
        CheckedFile { fault: Some(fault), .. } => {
            tracing::warn!("ignoring {}: {} {}", file.display(), fault.path.display(), fault.why);
            None
        }
        CheckedFile { text: Ok(text), .. } => serde_json::from_str(&text).ok(),
        CheckedFile { .. } => None,
    }
}
