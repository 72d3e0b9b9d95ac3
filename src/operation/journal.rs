//! The journal of a cluster's operations: the operation that was started, its completed steps and the facts known so
//! far. One JSON object per line, synced to disk before the next step starts; locked, so that two programs never work
//! on one cluster at the same time.

use super::blocking::blocking;
use super::facts::Facts;
use super::folder;
use super::{failure, then_resume};
use crate::model::time::brief;
use crate::model::{
    CancelledState, ClusterName, ClusterSpec, Consent, Hint, Others, Preview, Problem, StepName, Task,
    Timestamp,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Characters of a cluster's name that are encoded in the file name.
const OUTSIDE_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// The outcome recorded for a step that was skipped.
pub(super) const SKIPPED: &str = "skipped";

/// Reason why a journal cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another program holds the journal's lock.
    #[error("another operation on {cluster} is running on this machine{what}; {hint}")]
    Busy {
        /// The cluster of the journal.
        cluster: ClusterName,
        /// The operation and its process according to the journal: `: restart lab, started 3m ago, at step 4 of 9 (ray
        /// down), by process 1234`.
        what: String,
        /// A hint for the operator.
        hint: Hint,
    },
    /// The journal file cannot be written.
    #[error("cannot write the journal {}: {why}", .path.display())]
    Disk {
        /// Path of the journal file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    Begin(Task),
    /// The scope of the operation, written right after `Begin`.
    Scope(Scope),
    Done {
        step: StepName,
        said: String,
    },
    Facts(Box<Facts>),
    Failed {
        step: StepName,
        why: String,
    },
    End {
        how: String,
    },
    /// The program that holds the journal from here on.
    Held {
        process: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct Line {
    at_ms: i64,
    event: Event,
}

/// The scope that was confirmed when an operation started; a resume must match it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// Path of the cluster file.
    pub file: Option<PathBuf>,
    /// Other people's jobs that may end.
    #[serde(flatten)]
    pub others: Others,
    /// Whether everything that runs on the worker may end.
    pub now: bool,
}

impl Scope {
    /// The scope of an operation on this cluster that may not end other people's jobs.
    pub fn of(spec: &ClusterSpec) -> Self {
        // The same file may be given by different paths.
        let file = spec.file.as_ref().map(|f| f.canonicalize().unwrap_or_else(|_| f.clone()));
        Self { file, ..Self::default() }
    }

    /// The permissions of a resume, which include those given when the operation was started.
    pub(super) fn allowed(&self, consent: &Consent) -> Consent {
        let mut allowed = consent.clone();
        allowed.now |= self.now;
        allowed.others.extend(self.others.clone());
        allowed
    }

    /// Other people's jobs that would end without permission.
    pub fn not_allowed(&self, seen: &Preview) -> Others {
        seen.others().beyond(&self.others)
    }
}

/// An operation that was started and has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfinished {
    /// The task of the operation.
    pub task: Task,
    /// The scope that was confirmed.
    pub scope: Scope,
    /// When the operation began.
    pub since: Timestamp,
    /// Completed steps, each with its result.
    pub done: Vec<(StepName, String)>,
    /// The facts known so far.
    pub facts: Facts,
    /// Why it stopped; empty if it was killed.
    pub why: String,
}

/// The open journal of a cluster; the lock is held while it exists.
#[derive(Debug)]
pub struct Journal {
    /// `None` for a dry run. Shared, because a pending write must keep the lock.
    file: Option<Arc<File>>,
    path: PathBuf,
    unfinished: Option<Unfinished>,
}

/// Locks a journal. A lock that is released within a moment is waited for: that of [`Journal::peek`], or one that a child
/// process of this program has until it starts its program.
fn lock(file: &File) -> Result<(), TryLockError> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            locked => return locked,
        }
    }
    file.try_lock()
}

impl Journal {
    /// Opens and locks the cluster's journal in the state directory.
    pub fn open(state: &Path, cluster: &ClusterName) -> Result<Self, JournalError> {
        let (folder, path) = journal_paths(state, cluster);
        let open = || {
            folder::make(&folder)?;
            OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(&path)
        };
        let disk = |why| JournalError::Disk { path: path.clone(), why };
        let mut file = open().map_err(disk)?;
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = Vec::new();
                file.read_to_end(&mut text).map_err(disk)?;
                return Err(busy(cluster, &text));
            }
            Err(TryLockError::Error(why)) => return Err(disk(why)),
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(disk)?;
        if !text.is_empty() && text.last() != Some(&b'\n') {
            // A line that was truncated by a crash must not swallow the next one.
            file.write_all(b"\n").map_err(disk)?;
        }
        let unfinished = last_unfinished(&text);
        let mut journal = Self { file: Some(Arc::new(file)), path, unfinished };
        journal.write(Event::Held { process: std::process::id() })?;
        Ok(journal)
    }

    /// The journal of a dry run, which is not written to disk and takes no lock.
    pub(super) fn nowhere() -> Self {
        Self { file: None, path: PathBuf::new(), unfinished: None }
    }

    /// The unfinished operation, and whether a program is running it. Creates nothing, and keeps no lock.
    pub fn peek(state: &Path, cluster: &ClusterName) -> Result<Option<(Unfinished, bool)>, JournalError> {
        let (_, path) = journal_paths(state, cluster);
        let disk = |why| JournalError::Disk { path: path.clone(), why };
        let mut file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(disk)?,
        };
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(disk)?;
        let Some(unfinished) = last_unfinished(&text) else { return Ok(None) };
        // Lock only an unfinished journal, and shared, so that several programs can do this at the same time.
        match file.try_lock_shared() {
            Ok(()) => Ok(Some((unfinished, false))),
            Err(TryLockError::WouldBlock) => Ok(Some((unfinished, true))),
            Err(TryLockError::Error(why)) => Err(disk(why)),
        }
    }

    /// The unfinished operation, if any.
    pub fn unfinished(&self) -> Option<&Unfinished> {
        self.unfinished.as_ref()
    }

    /// Records the start of an operation.
    pub fn begin(&mut self, task: &Task, scope: &Scope) -> Result<(), JournalError> {
        self.write(Event::Begin(task.clone()))?;
        self.write(Event::Scope(scope.clone()))
    }

    /// Records that a step is done.
    pub fn done(&mut self, step: StepName, result: &str) -> Result<(), JournalError> {
        self.write(Event::Done { step, said: result.to_owned() })
    }

    /// Records that a step is skipped. Later resumes skip it too, since it would undo the steps after it.
    pub(super) fn skip(&mut self, step: StepName) -> Result<(), JournalError> {
        self.done(step, SKIPPED)
    }

    /// Records the facts known now.
    pub fn facts(&mut self, facts: &Facts) -> Result<(), JournalError> {
        self.write(Event::Facts(Box::new(facts.clone())))
    }

    /// Records that a step failed; the operation stays unfinished.
    pub fn failed(&mut self, step: StepName, why: &str) -> Result<(), JournalError> {
        self.write(Event::Failed { step, why: why.to_owned() })
    }

    /// Records that the operation is over, in any way.
    pub fn end(&mut self, how: &str) -> Result<(), JournalError> {
        self.write(Event::End { how: how.to_owned() })
    }

    /// Records that the operation was cancelled, and the state that it leaves.
    pub(super) fn cancelled(&mut self, left: CancelledState) -> Result<(), JournalError> {
        self.end(&format!("cancelled; {}", left.text()))
    }

    /// Records facts before they are needed.
    pub(super) async fn keep(&self, facts: &Facts) -> Result<(), Problem> {
        let facts = facts.clone();
        Ok(self.write_with(move |journal| journal.facts(&facts)).await?)
    }

    /// Writes on a separate thread, because the disk may be slow.
    pub(super) async fn write_with(
        &self,
        write: impl FnOnce(&mut Self) -> Result<(), JournalError> + Send + 'static,
    ) -> Result<(), JournalError> {
        let mut journal = Self { file: self.file.clone(), path: self.path.clone(), unfinished: None };
        blocking(move || write(&mut journal)).await
    }

    fn write(&mut self, event: Event) -> Result<(), JournalError> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut file: &File = file;
        let put = || {
            let mut line = serde_json::to_vec(&Line { at_ms: Timestamp::now().as_millis(), event })?;
            line.push(b'\n');
            file.write_all(&line)?;
            file.sync_all()
        };
        put().map_err(|why| JournalError::Disk { path: self.path.clone(), why })
    }
}

/// All unfinished operations, of any cluster.
pub(super) fn unfinished(state: &Path) -> Vec<Unfinished> {
    let files = fs::read_dir(state.join("operations")).into_iter().flatten().flatten();
    files.filter_map(|file| last_unfinished(&fs::read(file.path()).ok()?)).collect()
}

/// A cluster's name as a file name.
pub(super) fn file_of(cluster: &ClusterName) -> String {
    percent_encoding::utf8_percent_encode(cluster.as_str(), OUTSIDE_NAME).collect()
}

/// The directory of journals, and the cluster's journal in it.
fn journal_paths(state: &Path, cluster: &ClusterName) -> (PathBuf, PathBuf) {
    let folder = state.join("operations");
    let path = folder.join(format!("{}.jsonl", file_of(cluster)));
    (folder, path)
}

/// The error for a journal that another process holds. It names the operation, its start time and the process, and
/// hints at cancelling it where that is possible.
fn busy(cluster: &ClusterName, text: &[u8]) -> JournalError {
    let (mut what, mut hint) = (String::new(), Hint::from("wait for it, or stop it where it runs"));
    if let Some(u) = last_unfinished(text) {
        let operation = u.operation(cluster);
        what = format!(": {}, started {} ago", operation.title, brief(u.since.age(Timestamp::now())));
        if let Some(step) = operation.next(&u.done) {
            what = format!("{what}, at {}", operation.position(step));
            if operation.is_harmless_at(step) {
                hint = "wait for it, or cancel it where it runs: ctrl-c in a shell, or the progress page of a console".into();
            }
        }
    }
    let holder = lines(text).filter_map(|l| match l.event {
        Event::Held { process } => Some(process),
        _ => None,
    });
    if let Some(process) = holder.last() {
        what = format!("{what}, by process {process}");
    }
    JournalError::Busy { cluster: cluster.clone(), what, hint }
}

fn lines(text: &[u8]) -> impl Iterator<Item = Line> {
    text.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice(l).ok())
}

/// The unfinished operation in a journal. Lines that cannot be read are skipped: their information is collected again
/// when the step is repeated.
fn last_unfinished(text: &[u8]) -> Option<Unfinished> {
    let mut open: Option<Unfinished> = None;
    for Line { at_ms, event } in lines(text) {
        match (event, &mut open) {
            (Event::Begin(task), _) => {
                let since = Timestamp::from_millis(at_ms);
                open = Some(Unfinished {
                    task,
                    scope: Scope::default(),
                    since,
                    done: Vec::new(),
                    facts: Facts::default(),
                    why: String::new(),
                });
            }
            (Event::Done { step, said: result }, Some(o)) => {
                o.done.push((step, result));
                o.why.clear();
            }
            (Event::Scope(scope), Some(o)) => o.scope = scope,
            (Event::Facts(facts), Some(o)) => o.facts = *facts,
            (Event::Failed { why, .. }, Some(o)) => o.why = why,
            (Event::End { .. }, _) => open = None,
            (Event::Held { .. }, _) | (_, None) => {}
        }
    }
    open
}

impl From<JournalError> for Problem {
    fn from(e: JournalError) -> Self {
        match e {
            JournalError::Busy { cluster, what, hint } => {
                failure(format!("another operation on {cluster} is running on this machine{what}"), hint)
            }
            e @ JournalError::Disk { .. } => failure(e.to_string(), then_resume("free disk space there")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AffectedJob, JobKey, JobStatus, Restoration, SubmissionId};

    #[test]
    fn fuzz_journal_lines() {
        let dir = tempfile::tempdir().unwrap();
        let name = ClusterName::new("a");
        let mut journal = Journal::open(dir.path(), &name).unwrap();
        journal.begin(&Task::Restart { preserve: true }, &Scope::default()).unwrap();
        journal.done(StepName::ReadState, "2 workers").unwrap();
        journal.facts(&Facts { session: "s1".into(), ..Facts::default() }).unwrap();
        journal.failed(StepName::Stop, "no route").unwrap();
        let text = std::fs::read(&journal.path).unwrap();
        crate::model::fuzz::fuzz(&[text], |bytes| {
            if let Some(found) = last_unfinished(bytes) {
                let operation = found.operation(&name);
                let _ = found.next().map(|step| (operation.number(step), operation.is_harmless_at(step)));
            }
            assert!(!busy(&name, bytes).to_string().is_empty());
        });
    }

    #[test]
    fn a_lock_of_a_moment_does_not_refuse_an_operation() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Journal::open(dir.path(), &ClusterName::new("a"));
        let path = open().unwrap().path;
        // As in `peek`.
        let reader = File::open(&path).unwrap();
        reader.try_lock_shared().unwrap();
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            drop(reader);
        });
        assert!(open().is_ok());
        reading.join().unwrap();
    }

    #[test]
    fn a_started_operation_is_found_again_and_only_one_process_holds_its_journal() {
        let dir = tempfile::tempdir().unwrap();
        let name = ClusterName::new("a/../b");
        let open = || Journal::open(dir.path(), &name);
        let mut journal = open().unwrap();
        assert_eq!(journal.unfinished(), None);
        let restart = Task::Restart { preserve: true };
        let key = |id: &str| JobKey::Submission(SubmissionId(id.into()));
        let others = Others { people: vec!["al".into()], unowned: vec![key("raysubmit_1")] };
        journal.begin(&restart, &Scope { others: others.clone(), ..Scope::default() }).unwrap();
        journal.facts(&Facts { session: "s1".into(), ..Facts::default() }).unwrap();
        journal.done(StepName::ReadState, "2 workers").unwrap();
        let second = open().unwrap_err().to_string();
        assert!(
            second.contains("restart a/../b, started 0s ago, at step 1 of 9 (check), by process")
                && second.contains("cancel it"),
            "{second}"
        );
        let path = journal.path.clone();
        drop(journal);
        // Killed while writing a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at_ms\":1,\"ev").unwrap();
        let mut journal = open().unwrap();
        let found = journal.unfinished().unwrap().clone();
        assert_eq!((found.task, found.facts.session.as_str()), (restart, "s1"));
        assert_eq!(found.scope.others, others);
        assert_eq!(found.done, [(StepName::ReadState, "2 workers".to_owned())]);
        journal.failed(StepName::Stop, "no route").unwrap();
        drop(journal);
        let mut journal = open().unwrap();
        assert_eq!(journal.unfinished().unwrap().why, "no route");
        journal.end("abandoned").unwrap();
        drop(journal);
        assert_eq!(open().unwrap().unfinished(), None);
    }

    #[test]
    fn jobs_of_unknown_owner_submitted_later_are_not_allowed() {
        let job = |id: &str, owner: Option<&str>| AffectedJob {
            key: JobKey::Submission(SubmissionId(id.into())),
            owner: owner.map(Into::into),
            status: JobStatus::Running,
            started: None,
            holds: None,
            restoration: Restoration::Back,
        };
        let mut seen =
            Preview { jobs: vec![job("raysubmit_1", None), job("x", Some("al"))], ..Preview::default() };
        let begun = Scope { others: seen.others(), ..Scope::default() };
        assert!(begun.not_allowed(&seen).is_empty());
        seen.jobs.extend([job("raysubmit_2", None), job("y", Some("al"))]);
        assert_eq!(begun.not_allowed(&seen).to_string(), "jobs of an unknown owner (raysubmit_2)");
    }

    #[test]
    fn a_scope_of_an_earlier_version_allows_no_jobs_of_unknown_owner() {
        let line = r#"{"file": null, "others": ["al"], "now": true}"#;
        let scope: Scope = serde_json::from_str(line).unwrap();
        assert_eq!(scope.others, Others { people: vec!["al".into()], unowned: Vec::new() });
        assert!(scope.now);
    }
}
