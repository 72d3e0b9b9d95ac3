//! Which folders are trusted, with which content: one record for each, in the state folder, its owner's alone.
//!
//! A record names every file of the folder that was accepted and what it held. What has changed since, or was added,
//! is asked about again, as direnv does.

use super::Env;
use super::claims::Claim;
use super::held::Held;
use super::paths::{Folders, create_private};
use super::safe::{Unsafe, Us};
use crate::model::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the working folder brings, before anybody said that it is trusted.
#[derive(Clone, Debug)]
pub struct Review {
    /// The folder, links resolved.
    pub folder: PathBuf,
    /// Its files that would be used, and the files that they lead to.
    pub(super) files: Vec<Held>,
    /// What they would make us do, and which clusters would.
    pub claims: BTreeMap<Claim, Vec<String>>,
}

/// How a folder stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Somebody else could have written what is there. It is not used, whatever anybody answers.
    Unsafe(Unsafe),
    /// Accepted as it is.
    Trusted,
    /// Nobody was asked yet.
    New,
    /// These files are not as they were when the folder was trusted.
    Changed(Vec<PathBuf>),
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The folder.
    pub folder: PathBuf,
    /// What each file held that was accepted, `sha256:...`.
    pub files: BTreeMap<PathBuf, String>,
    /// When it was accepted, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Review {
    /// How the folder stands, as the records have it.
    pub fn standing(&self, records: &Records) -> Standing {
        if let Some(fault) = self.files.iter().find_map(|held| held.fault.clone()) {
            return Standing::Unsafe(fault);
        }
        let Some(known) = records.find(&self.folder) else { return Standing::New };
        let differs =
            |held: &&Held| known.files.get(&held.path).map(String::as_str) != Some(held.digest.as_str());
        let changed: Vec<PathBuf> = self.files.iter().filter(differs).map(|held| held.path.clone()).collect();
        if changed.is_empty() { Standing::Trusted } else { Standing::Changed(changed) }
    }

    /// The list that a person is asked about, a line for each thing.
    pub fn lines(&self) -> Vec<String> {
        super::claims::lines(&self.claims)
    }
}

/// The records of trust.
pub struct Records {
    /// None where no folder of ours is known.
    folder: Option<PathBuf>,
}

impl Records {
    /// Those of this user. Without a home there are none: our own files lie in the working folder then, where a
    /// stranger's would be taken for ours.
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

    /// The record of a folder. One that somebody else could have written is none.
    fn find(&self, folder: &Path) -> Option<Trusted> {
        read(&self.file(folder)?).filter(|record| record.folder == folder)
    }

    /// Every record, by folder.
    pub fn list(&self) -> Vec<Trusted> {
        let entries = self.folder.iter().filter_map(|f| fs::read_dir(f).ok()).flatten().flatten();
        let mut all: Vec<Trusted> = entries.filter_map(|entry| read(&entry.path())).collect();
        all.sort_by(|a, b| a.folder.cmp(&b.folder));
        all
    }

    /// Writes down that the folder is trusted with this content. What was accepted of other files of it stays.
    pub fn accept(&self, review: &Review, now: Timestamp) -> io::Result<()> {
        let (Some(records), Some(file)) = (&self.folder, self.file(&review.folder)) else {
            return Err(io::Error::other("there is no home folder; set HOME"));
        };
        let mut files = self.find(&review.folder).map(|known| known.files).unwrap_or_default();
        files.extend(review.files.iter().map(|held| (held.path.clone(), held.digest.as_str().to_owned())));
        let record = Trusted { folder: review.folder.clone(), files, at_ms: now.as_millis() };
        if let Some(state) = records.parent() {
            create_private(state)?;
        }
        create_private(records)?;
        let draft = file.with_extension(std::process::id().to_string());
        let mut text = serde_json::to_vec_pretty(&record)?;
        text.push(b'\n');
        let written = (|| {
            let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            out.write_all(&text)?;
            out.sync_all()?;
            fs::rename(&draft, &file)
        })();
        if written.is_err() {
            // Why it failed is what counts.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Forgets the folder; whether it was trusted.
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
    let held = Held::read(&std::path::absolute(file).ok()?, &Us::here());
    match held {
        Held { fault: Some(fault), .. } => {
            tracing::warn!("{} is not believed: {} {}", file.display(), fault.place.display(), fault.why);
            None
        }
        Held { text: Ok(text), .. } => serde_json::from_str(&text).ok(),
        Held { .. } => None,
    }
}
