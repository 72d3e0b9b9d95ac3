//! Backups of jobs in a directory: the submissions of jobs that have not ended, with the packages that they need.
//!
//! Only the owner can access the directory, because it contains the jobs' secrets. The list is written last: a
//! directory without a list is an interrupted backup, which can be continued; one with a list is changed only by the
//! operation that wrote it, which adds and removes jobs while the cluster still runs.

use super::executor::Executor;
use super::folder;
use super::label_selectors::{Unread, open_submissions};
use crate::model::sort;
use crate::model::{Hint, JobStatus, Problem, ProblemKind, SubmissionId, Timestamp};
use crate::ray::{Client, NODE_ID_LABEL, RayError, Recorded, Submission};
use crate::replace;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// File name of the list of jobs in a backup directory.
pub(super) const JOBS_FILE: &str = "jobs.json";
/// Format version of the list.
const VERSION: u32 = 1;
/// Name of the file that marks a directory as a backup of this program.
pub(super) const MARK: &str = "marin-tui-backup";
/// The directory of packages in a backup.
pub(super) const PACKAGES: &str = "packages";
/// Time limit for a Ray that has just started to accept jobs.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// Interval between retries in that time.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Metadata key of jobs that the console itself started; a backup leaves them out.
const OWN_KEY: &str = "marin-tui";

/// A job in a backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The submission as it was sent to Ray.
    pub submission: Submission,
    /// Its packages that no longer existed on the cluster; without them it cannot be restored.
    pub missing: Vec<String>,
    /// Whether it is known which label selector it has, if any. Earlier versions did not save label selectors.
    #[serde(default)]
    pub is_selector_known: bool,
}

/// The content of a backup: the jobs saved and those skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupContent {
    /// Jobs that were saved.
    pub kept: Vec<Kept>,
    /// Jobs left out, with the reason.
    pub left_out: Vec<(SubmissionId, &'static str)>,
    /// A warning about saved jobs. Safe to print.
    pub warning: Option<String>,
}

impl BackupContent {
    /// Adds the warning about jobs whose label selectors are not known.
    pub(super) fn warn(&mut self, unread: &Unread) {
        let unknown = self.kept.iter().filter(|kept| !kept.is_selector_known);
        self.warning = unread.warning(&unknown.map(|kept| kept.submission.id()).collect::<Vec<_>>());
    }
}

/// The outcome for a job of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The job was resubmitted.
    Submitted,
    /// Ray already has a job with this id; nothing was sent.
    AlreadyThere,
    /// It cannot be submitted, with the reason.
    Failed(String),
    /// Ray could not accept it at the moment, with the reason.
    Later(String),
}

impl Restored {
    /// Whether Ray has the job.
    pub const fn is_there(&self) -> bool {
        matches!(self, Self::Submitted | Self::AlreadyThere)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct List {
    version: u32,
    /// Name of the cluster that the jobs ran on.
    pub cluster: String,
    /// The saved jobs.
    pub jobs: Vec<Kept>,
    /// Package files in the directory, by URI.
    packages: BTreeMap<String, String>,
}

fn problem(what: impl AsRef<str>, hint: impl Into<Hint>) -> Problem {
    Problem::new(ProblemKind::Other, what, hint, Timestamp::now())
}

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> Problem + '_ {
    move |e| {
        let hint = "free disk space there; nothing was changed on the cluster";
        problem(format!("cannot write {}: {e}", path.display()), hint)
    }
}

/// Saves every job that has not ended into a directory that is new, empty, or contains an interrupted backup.
pub async fn back_up(client: &Client, cluster: &str, dir: &Path) -> Result<BackupContent, Problem> {
    claim(dir)?;
    let list =
        List { version: VERSION, cluster: cluster.to_owned(), jobs: Vec::new(), packages: BTreeMap::new() };
    save(client, dir, list, &[]).await
}

/// Updates a complete backup with the current jobs: jobs that have ended since are removed, and jobs submitted since
/// are added. If the operation may have ended jobs itself (`stopping`), only succeeded jobs are removed.
pub(super) async fn amend(client: &Client, dir: &Path, stopping: bool) -> Result<BackupContent, Problem> {
    let list = read(dir)?;
    let earlier = if stopping { list.jobs.clone() } else { Vec::new() };
    save(client, dir, list, &earlier).await
}

/// Fetches the packages that the list lacks, and writes the list last. Fetching packages takes time, in which jobs end
/// and others are submitted, so the list is only written after a check that required no fetching. All `earlier` jobs
/// are kept except those that succeeded.
async fn save(
    client: &Client,
    dir: &Path,
    mut list: List,
    earlier: &[Kept],
) -> Result<BackupContent, Problem> {
    let to_problem = |e: RayError| e.problem(Timestamp::now());
    let mut gone = BTreeSet::new();
    loop {
        let (open, unread) = open_submissions(client).await.map_err(to_problem)?;
        let mut backed = BackupContent { kept: Vec::new(), left_out: Vec::new(), warning: None };
        let mut has_fetched = false;
        for Recorded { mut submission, .. } in open {
            if let Some(why) = left_out(&submission) {
                backed.left_out.push((submission.id(), why));
                continue;
            }
            let is_selector_known = keep_selector(&mut submission, &unread, &list.jobs);
            for uri in submission.packages() {
                if list.packages.contains_key(&uri) || gone.contains(&uri) {
                    continue;
                }
                has_fetched = true;
                match fetch(client, &uri, dir, &list).await? {
                    Some(name) => drop(list.packages.insert(uri, name)),
                    None => drop(gone.insert(uri)),
                }
            }
            let missing = submission.packages().into_iter().filter(|uri| gone.contains(uri)).collect();
            backed.kept.push(Kept { submission, missing, is_selector_known });
        }
        if has_fetched {
            continue;
        }
        backed.warn(&unread);
        for job in earlier {
            let id = job.submission.id();
            if backed.kept.iter().any(|k| k.submission.id() == id) {
                continue;
            }
            let now = client.submission(&id).await.map_err(to_problem)?;
            if now.is_none_or(|r| r.status != JobStatus::Succeeded) {
                backed.kept.push(job.clone());
            }
        }
        list.jobs.clone_from(&backed.kept);
        let path = dir.join(JOBS_FILE);
        let text = serde_json::to_vec_pretty(&list).map_err(|e| problem(e.to_string(), ""))?;
        replace::write(&path, &text).map_err(cannot_write(&path))?;
        return Ok(backed);
    }
}

/// Keeps the label selector that was saved before if it cannot be read now: while Ray is stopped, the actor of a job
/// ends before its record. Returns whether the selector is known.
fn keep_selector(job: &mut Submission, unread: &Unread, list: &[Kept]) -> bool {
    if !unread.jobs.contains(&job.id()) {
        return true;
    }
    let Some(before) = list.iter().find(|kept| kept.submission.submission_id == job.submission_id) else {
        return false;
    };
    job.entrypoint_label_selector.clone_from(&before.submission.entrypoint_label_selector);
    before.is_selector_known
}

/// Saves a package; returns the name of its file, or `None` if the cluster no longer has it.
async fn fetch(client: &Client, uri: &str, dir: &Path, list: &List) -> Result<Option<String>, Problem> {
    // Entries are never removed from the list, so its length is an unused file name.
    let name = format!("{PACKAGES}/{}", list.packages.len());
    let path = dir.join(&name);
    let mut part = replace::begin(&path).map_err(cannot_write(&path))?;
    match client.package(uri, &mut part).await {
        Ok(written) => {
            written.and_then(|()| replace::keep(part, &path)).map_err(cannot_write(&path))?;
            Ok(Some(name))
        }
        Err(RayError::NotFound(_)) => Ok(None),
        Err(e) => Err(e.problem(Timestamp::now())),
    }
}

/// Why a job is left out of backups, if it is.
pub(super) fn left_out(job: &Submission) -> Option<&'static str> {
    if job.metadata.contains_key(OWN_KEY) {
        return Some("started by the console");
    }
    // Marin's cleanup loop, which its operators start on every new cluster.
    let words = ["start-cleanup", "run-cleanup", "cleanup_tpu", "clean-preempted-tpus"];
    words.iter().any(|w| job.entrypoint.contains(w)).then_some("a cleanup job")
}

/// Creates the backup directory, or fails if it contains other files.
fn claim(dir: &Path) -> Result<(), Problem> {
    folder::make(dir).map_err(cannot_write(dir))?;
    let mut names =
        fs::read_dir(dir).map_err(cannot_write(dir))?.filter_map(Result::ok).map(|e| e.file_name());
    // A program that was killed while it wrote the mark has left it behind as a temporary file.
    let is_part_of_mark = |name: OsString| name.to_str().and_then(replace::target) == Some(MARK);
    let has_files = names.any(|name| !is_part_of_mark(name));
    let mark = dir.join(MARK);
    if dir.join(JOBS_FILE).exists() {
        let hint = "choose another directory; backups are never overwritten";
        return Err(problem(format!("{} already contains a backup", dir.display()), hint));
    }
    if has_files && !mark.exists() {
        let what = format!("{} is not empty and not a marin-tui backup", dir.display());
        return Err(problem(what, "choose a new or empty directory"));
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(cannot_write(dir))?;
    replace::write(&mark, b"jobs of a Ray cluster, with their secrets\n").map_err(cannot_write(&mark))?;
    folder::make(&dir.join(PACKAGES)).map_err(cannot_write(dir))
}

/// Submits the jobs of a backup, each once: a job whose id Ray knows is skipped. Returns the outcome of each job, and
/// the problem that ended the restore early, if there is one. A Ray that has just started answers 500 until its agents
/// run ("No available agent to submit job"), so the request is retried for a while.
pub async fn restore(
    client: &Client,
    dir: &Path,
    executor: &Executor,
) -> (Vec<(SubmissionId, Restored)>, Result<(), Problem>) {
    match read(dir) {
        Ok(list) => Restore { client, executor, dir: Some(dir), list: &list }.restore_all().await,
        Err(problem) => (Vec::new(), Err(problem)),
    }
}

/// Records what [`restore`] would submit to a new Ray, which has neither jobs nor packages. The client belongs to the
/// old Ray and is not used.
pub(super) async fn record(
    client: &Client,
    backed: &BackupContent,
    executor: &Executor,
) -> (Vec<(SubmissionId, Restored)>, Result<(), Problem>) {
    let jobs = &backed.kept;
    let is_there = |job: &Kept, uri: &String| !job.missing.contains(uri);
    let packages = jobs.iter().flat_map(|k| {
        k.submission.packages().into_iter().filter(|uri| is_there(k, uri)).map(|uri| (uri, String::new()))
    });
    let packages = sort::collected(packages);
    let list = List { version: VERSION, cluster: String::new(), jobs: jobs.clone(), packages };
    Restore { client, executor, dir: None, list: &list }.restore_all().await
}

/// A backup being restored to a Ray.
struct Restore<'a> {
    client: &'a Client,
    executor: &'a Executor,
    /// Directory of the backup. `None` in a dry run, which assumes a new Ray without jobs or packages.
    dir: Option<&'a Path>,
    list: &'a List,
}

impl Restore<'_> {
    async fn restore_all(&self) -> (Vec<(SubmissionId, Restored)>, Result<(), Problem>) {
        let mut outcomes = Vec::new();
        let deadline = Instant::now() + WAIT_LIMIT;
        for job in &self.list.jobs {
            let outcome = loop {
                break match self.restore_job(job).await {
                    Ok(outcome) => outcome,
                    // If Ray does not respond, the other jobs would fail as well: the restore must be repeated.
                    Err(e @ (RayError::Silent(_) | RayError::Unconfirmed { .. })) => {
                        return (outcomes, Err(e.problem(Timestamp::now())));
                    }
                    Err(e) if e.is_token() => return (outcomes, Err(e.problem(Timestamp::now()))),
                    Err(e) if e.is_final() || matches!(e, RayError::Setup(_)) => {
                        Restored::Failed(e.to_string())
                    }
                    Err(_) if Instant::now() < deadline => {
                        tokio::time::sleep(RETRY_INTERVAL).await;
                        continue;
                    }
                    Err(e) => Restored::Later(e.to_string()),
                };
            };
            outcomes.push((job.submission.id(), outcome));
        }
        (outcomes, Ok(()))
    }

    async fn restore_job(&self, job: &Kept) -> Result<Restored, RayError> {
        let Self { client, executor, dir, list } = *self;
        if dir.is_some() && client.submission(&job.submission.id()).await?.is_some() {
            return Ok(Restored::AlreadyThere);
        }
        let submission = self.placeable(&job.submission).await?;
        for uri in submission.packages() {
            if executor.has_uploaded(&uri)? || (dir.is_some() && client.has_package(&uri).await?) {
                continue;
            }
            let Some(name) = list.packages.get(&uri) else {
                return Ok(Restored::Failed(format!(
                    "its package {uri} no longer existed when the job was saved"
                )));
            };
            let file = match dir.map(|dir| open_package(dir, name)).transpose() {
                Ok(file) => file,
                Err(e) => return Ok(Restored::Failed(format!("cannot read its package: {e}"))),
            };
            executor.upload(client, &uri, file).await?;
        }
        executor.submit(client, &submission).await?;
        Ok(Restored::Submitted)
    }

    /// The submission without a required node that no longer exists: its entrypoint would stay pending. Fails if this
    /// Ray does not accept its label selector.
    async fn placeable(&self, saved: &Submission) -> Result<Submission, RayError> {
        let mut job = saved.clone();
        let selector = &mut job.entrypoint_label_selector;
        if self.dir.is_some() {
            self.client.drop_lost_nodes(vec![selector]).await?;
            self.client.check_label_selector(&job.entrypoint_label_selector).await?;
        } else {
            // The nodes of a new Ray have new ids.
            selector.remove(NODE_ID_LABEL);
        }
        Ok(job)
    }
}

/// Opens a package file. Refuses symbolic links that lead out of the backup's directory of packages.
fn open_package(dir: &Path, name: &str) -> io::Result<fs::File> {
    let (folder, path) = (dir.canonicalize()?, dir.join(name).canonicalize()?);
    if !path.starts_with(folder.join(PACKAGES)) || !path.is_file() {
        return Err(io::Error::other("it is not a file in the backup directory"));
    }
    fs::File::open(path)
}

fn read(dir: &Path) -> Result<List, Problem> {
    let path: PathBuf = dir.join(JOBS_FILE);
    let text = fs::read(&path).map_err(|e| {
        let hint = "specify the directory of a complete backup (create one with backup-jobs)";
        problem(format!("cannot read {}: {e}", path.display()), hint)
    })?;
    // The parser's message may quote a secret.
    let list: List = serde_json::from_slice(&text).map_err(|e| {
        let what = format!(
            "{} is not a valid backup list (line {}, column {})",
            path.display(),
            e.line(),
            e.column()
        );
        problem(what, "undo edits to the file, or submit its jobs with submit-job")
    })?;
    // Names in the list must not refer to files outside the directory.
    let is_inside = |name: &String| {
        name.strip_prefix("packages/").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty())
    };
    if list.version != VERSION {
        let what = format!("{} is a backup of version {}", path.display(), list.version);
        return Err(problem(
            what,
            format!("this program reads version {VERSION}: use the version that created it"),
        ));
    }
    if let Some(name) = list.packages.values().find(|name| !is_inside(name)) {
        let what = format!("{} refers to a package outside its directory: {name}", path.display());
        return Err(problem(what, "nothing outside the backup is read; create a new backup"));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_claimed_unless_it_has_files_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let interrupted = dir.path().join("interrupted");
        fs::create_dir(&interrupted).unwrap();
        fs::write(interrupted.join(format!(".{MARK}.x1.part")), "").unwrap();
        claim(&interrupted).unwrap();
        claim(&interrupted).unwrap();
        fs::write(interrupted.join(JOBS_FILE), "[]").unwrap();
        assert!(claim(&interrupted).is_err(), "it is complete");
        let others = dir.path().join("others");
        fs::create_dir(&others).unwrap();
        fs::write(others.join("notes"), "").unwrap();
        assert!(claim(&others).is_err());
    }

    #[test]
    fn a_label_selector_that_cannot_be_read_again_is_kept() {
        let labels = |value: &str| BTreeMap::from([("zone".to_owned(), value.to_owned())]);
        let job = |id: &str, labels: BTreeMap<String, String>| Submission {
            submission_id: id.to_owned(),
            entrypoint_label_selector: labels,
            ..Submission::default()
        };
        let saved = |submission: Submission, is_selector_known: bool| Kept {
            submission,
            missing: Vec::new(),
            is_selector_known,
        };
        let none = BTreeMap::new;
        let list = [saved(job("a", labels("x")), true), saved(job("old", none()), false)];
        let kept = |unread: &Unread, mut submission: Submission| {
            let is_known = keep_selector(&mut submission, unread, &list);
            (submission.entrypoint_label_selector, is_known)
        };
        let read = Unread::default();
        assert_eq!(kept(&read, job("a", none())), (none(), true), "submitted again without one since then");
        assert_eq!(kept(&read, job("a", labels("y"))), (labels("y"), true));
        let mut unread = Unread::default();
        unread.jobs.extend(["a", "old", "b"].map(|id| SubmissionId(id.into())));
        assert_eq!(kept(&unread, job("a", none())), (labels("x"), true));
        assert_eq!(
            kept(&unread, job("old", none())),
            (none(), false),
            "saved by a version without selectors"
        );
        assert_eq!(kept(&unread, job("b", none())), (none(), false));
        let mut backed = BackupContent { kept: list.to_vec(), left_out: Vec::new(), warning: None };
        backed.warn(&unread);
        assert!(backed.warning.unwrap().contains("the actors of old)"), "that of a is known");
    }

    #[test]
    fn a_backup_without_label_selectors_is_still_read() {
        let old = r#"{"version": 1, "cluster": "lab", "packages": {}, "jobs": [
            {"submission": {"entrypoint": "true", "submission_id": "a"}, "missing": []}
        ]}"#;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(JOBS_FILE), old).unwrap();
        let list = read(dir.path()).unwrap();
        assert!(list.jobs[0].submission.entrypoint_label_selector.is_empty());
        assert!(!list.jobs[0].is_selector_known);
    }
}
