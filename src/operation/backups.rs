//! The backups on this machine. They contain the jobs' secrets (`env_vars`, as Ray has them), so old ones should be
//! deleted.
//!
//! The list covers the backups that restarts make below the state directory, and those that `backup-jobs` wrote to
//! other directories. A backup is deleted only on request, and never while an interrupted operation needs it.

use super::backup::{JOBS_FILE, List, MARK, PACKAGES};
use super::journal::unfinished;
use super::{failure, folder};
use crate::model::sort;
use crate::model::{Problem, Target, Timestamp};
use crate::replace;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// File with the paths of backups in other directories, one per line.
const ELSEWHERE: &str = "elsewhere";

/// A backup on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Path of the backup directory.
    pub folder: PathBuf,
    /// The cluster of the jobs; `None` if it was interrupted before its list was written.
    pub cluster: Option<String>,
    /// Number of jobs in the backup.
    pub jobs: usize,
    /// When it was last written.
    pub made: Timestamp,
    /// Whether an interrupted operation needs it.
    pub is_needed: bool,
}

impl Backup {
    /// Whether the backup is old enough to be deleted and no interrupted operation needs it.
    pub fn is_due(&self, age: Duration, now: Timestamp) -> bool {
        !self.is_needed && self.made.age(now) >= age
    }
}

/// All known backups in the state directory, oldest first.
pub fn backups(state: &Path) -> Result<Vec<Backup>, Problem> {
    let dir = state.join("backups");
    let read = |why: io::Error| failure(format!("cannot read {}: {why}", dir.display()), "");
    let listed = match fs::read_dir(&dir) {
        Ok(listed) => listed,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(read(e)),
    };
    let mut folders = BTreeSet::new();
    for entry in listed {
        folders.insert(entry.map_err(read)?.path());
    }
    folders.extend(elsewhere(&dir).map_err(read)?);
    let needed: Vec<PathBuf> = unfinished(state).into_iter().filter_map(|u| u.facts.backup).collect();
    let mut all: Vec<Backup> = folders.iter().filter_map(|folder| read_backup(folder, &needed)).collect();
    sort::by_key(&mut all, |b| b.made);
    Ok(all)
}

/// Reads a backup directory; `None` if it is not, or no longer, a backup.
fn read_backup(folder: &Path, needed: &[PathBuf]) -> Option<Backup> {
    let mark = folder.join(MARK);
    if !fs::symlink_metadata(folder).ok()?.is_dir() || !mark.is_file() {
        return None;
    }
    let list = folder.join(JOBS_FILE);
    let newest = if list.exists() { &list } else { &mark };
    let written = fs::metadata(newest).and_then(|m| m.modified()).ok()?;
    let since = written.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let list = fs::read(&list).ok().and_then(|text| serde_json::from_slice::<List>(&text).ok());
    Some(Backup {
        folder: folder.to_owned(),
        jobs: list.as_ref().map_or(0, |l| l.jobs.len()),
        cluster: list.map(|l| l.cluster),
        made: Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        is_needed: needed.iter().any(|n| n == folder),
    })
}

fn elsewhere(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read(dir.join(ELSEWHERE)) {
        Ok(text) => {
            let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
            Ok(lines.map(|l| PathBuf::from(std::ffi::OsString::from_vec(l.to_vec()))).collect())
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Records the path of a backup in a directory that the operator chose.
pub fn remember(state: &Path, folder: &Path) -> Result<(), Problem> {
    let dir = state.join("backups");
    let put = || {
        folder::make(&dir)?;
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join(ELSEWHERE))?;
        file.write_all(&[folder.as_os_str().as_bytes(), b"\n"].concat())
    };
    let hint =
        format!("the backup is complete, but `{}` will not list it", Target::default().line("backups"));
    put().map_err(|why| failure(format!("cannot write {}: {why}", dir.display()), hint))
}

/// Deletes a backup: first its list, which contains the secrets, and then only files of the backup.
pub fn delete(backup: &Backup) -> Result<(), Problem> {
    if backup.is_needed {
        let what = format!("{} is needed by an interrupted operation", backup.folder.display());
        return Err(failure(what, "resume or abandon it first"));
    }
    remove(&backup.folder, |name| name == JOBS_FILE)?;
    let packages = backup.folder.join(PACKAGES);
    remove(&packages, |name| name.bytes().all(|b| b.is_ascii_digit()))?;
    ignore_missing(fs::remove_dir(&packages)).map_err(cannot_delete(&packages))?;
    let mark = backup.folder.join(MARK);
    ignore_missing(fs::remove_file(&mark)).map_err(cannot_delete(&mark))?;
    match fs::remove_dir(&backup.folder) {
        // The directory contains other files.
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        done => ignore_missing(done).map_err(cannot_delete(&backup.folder)),
    }
}

/// Removes files by name, including partial ones that a killed process left.
fn remove(folder: &Path, is_ours: impl Fn(&str) -> bool) -> Result<(), Problem> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(cannot_delete(folder))?,
    };
    for entry in entries {
        let path = entry.map_err(cannot_delete(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_ours(replace::target(&name).unwrap_or(&name)) {
            ignore_missing(fs::remove_file(&path)).map_err(cannot_delete(&path))?;
        }
    }
    Ok(())
}

/// Converts the error of a failed deletion of this path.
fn cannot_delete(path: &Path) -> impl FnOnce(io::Error) -> Problem {
    move |why| failure(format!("cannot delete {}: {why}", path.display()), "delete it manually")
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Facts;
    use super::super::journal::{Journal, Scope};
    use super::*;
    use crate::model::{ClusterName, Task};

    fn make(folder: &Path) {
        fs::create_dir_all(folder.join(PACKAGES)).unwrap();
        fs::write(folder.join(MARK), "").unwrap();
        fs::write(folder.join(JOBS_FILE), r#"{"version":1,"cluster":"a","jobs":[],"packages":{}}"#).unwrap();
        fs::write(folder.join(PACKAGES).join("0"), "zip").unwrap();
    }

    #[test]
    fn backups_are_found_below_the_state_and_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert!(backups(&state).unwrap().is_empty());
        let (ours, other) = (state.join("backups/a-1"), dir.path().join("mine"));
        make(&ours);
        make(&other);
        fs::create_dir(state.join("backups/no-backup")).unwrap();
        remember(&state, &other).unwrap();
        remember(&state, &dir.path().join("gone since")).unwrap();
        let found: BTreeSet<_> =
            backups(&state).unwrap().into_iter().map(|b| (b.folder, b.cluster)).collect();
        let a = || Some("a".to_owned());
        assert_eq!(found, [(ours, a()), (other, a())].into());
    }

    #[test]
    fn only_files_of_the_backup_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        let (clean, mixed) = (state.join("backups/a-1"), state.join("backups/a-2"));
        make(&clean);
        make(&mixed);
        fs::write(mixed.join("notes.txt"), "mine").unwrap();
        // Left by a killed process.
        replace::begin(&clean.join(JOBS_FILE)).unwrap().keep().unwrap();
        replace::begin(&clean.join(PACKAGES).join("1")).unwrap().keep().unwrap();
        for backup in backups(state).unwrap() {
            delete(&backup).unwrap();
        }
        assert!(!clean.exists());
        let left: Vec<_> = fs::read_dir(&mixed).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
        assert!(backups(state).unwrap().is_empty());
    }

    #[test]
    fn a_backup_that_an_operation_needs_is_neither_due_nor_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("backups/a-1");
        make(&folder);
        let mut journal = Journal::open(dir.path(), &ClusterName::new("a")).unwrap();
        journal.begin(&Task::Restart { preserve: true }, &Scope::default()).unwrap();
        journal.facts(&Facts { backup: Some(folder.clone()), ..Facts::default() }).unwrap();
        let only = || backups(dir.path()).unwrap().remove(0);
        let later = only().made.plus(Duration::from_secs(100));
        assert!(only().is_needed && !only().is_due(Duration::ZERO, later));
        assert!(delete(&only()).unwrap_err().what.contains("by an interrupted operation"));
        assert!(folder.join(JOBS_FILE).exists());
        journal.end("abandoned").unwrap();
        assert!(only().is_due(Duration::from_secs(100), later));
        assert!(!only().is_due(Duration::from_secs(101), later));
    }
}
