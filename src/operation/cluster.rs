//! Runs the steps of an operation in order. Contains the steps of a restart, start and stop that use the `ray` command.

use super::backup::{self, Restored};
use super::call::Call;
use super::executor::{Executor, Recorded};
use super::facts::{Facts, Outcome};
use super::journal::Journal;
use super::lock::HeldLock;
use super::performer::Performer;
use super::preview::{RECORDED_PARTS, REQUIRED_PARTS, would_back_up};
use super::{failure, then_resume};
use crate::model::amount::counted;
use crate::model::sort;
use crate::model::{
    AutoscalerVersion, CancelledState, Fix, Hint, JobStatus, NodeState, Operation, Problem, Progress,
    Snapshot, StepName, Task, Text, Timestamp, Verb,
};
use crate::ray::Poller;
use crate::supervisor;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::ffi::OsStr;
use std::path::PathBuf;
use tokio::sync::mpsc;

/// One attempt at the steps of an operation: the first one, or a resume.
struct Attempt<'a> {
    operation: &'a Operation,
    /// The steps of an earlier attempt, each with its result.
    done: &'a [(StepName, String)],
    journal: &'a Journal,
    /// The operation's lock; `None` in a dry run, and if no lock could be placed.
    held: Option<&'a HeldLock>,
    progress: &'a mpsc::UnboundedSender<Progress>,
}

impl Attempt<'_> {
    fn report(&self, line: Progress) {
        // The receiver may have been dropped.
        drop(self.progress.send(line));
    }

    /// The result of this step in an earlier attempt; `None` if the step must run.
    fn earlier_result(&self, step: StepName) -> Option<String> {
        let was_done = |step| self.done.iter().any(|(s, _)| *s == step);
        // Local conditions may have changed, so the check is repeated. A start counts as done only once Ray has
        // responded, and a request only once its capacity has arrived; both steps check for their effect first.
        let is_reusable = match step {
            StepName::Check => false,
            StepName::Start => was_done(StepName::WaitForRay),
            StepName::RequestTpus => was_done(StepName::Capacity),
            _ => true,
        };
        let earlier = self.done.iter().find(|(s, _)| *s == step && is_reusable);
        earlier.map(|(_, result)| result.clone())
    }

    /// Records the result of a step in the journal and reports it. Returns the step's error, which is also recorded in
    /// the lock.
    async fn record(&self, step: StepName, ended: Result<String, Problem>) -> Result<(), Problem> {
        match ended {
            Ok(result) => {
                let done = result.clone();
                self.journal.write_with(move |j| j.done(step, &done)).await?;
                self.report(Progress::Done(step, result));
                Ok(())
            }
            Err(problem) => {
                let why = problem.what.clone();
                self.journal.write_with(move |j| j.failed(step, &why)).await?;
                if let Some(held) = self.held {
                    held.stop(self.operation.number(step)).await;
                }
                self.report(Progress::Failed(step, problem.clone()));
                Err(problem)
            }
        }
    }
}

impl Performer {
    /// The changes that the operation would make if it started now. Its steps run, but changes are only recorded and
    /// treated as done. Reads are real, so the dry run fails where the operation would fail before its first change. It
    /// writes neither a journal nor a backup.
    ///
    /// It cannot predict the results of changes: manually added workers that do not rejoin after a restart at Google,
    /// machines and jobs that appear or end during the operation, and errors.
    pub async fn dry_run(mut self, operation: &Operation) -> Result<Vec<Call>, Problem> {
        let recorded = Recorded::default();
        self.executor = Executor::Recording(recorded.clone());
        // The progress lines of the steps would read as if the changes had been made.
        let (progress, _) = mpsc::unbounded_channel();
        let (_cancel, mut cancels) = mpsc::unbounded_channel();
        let journal = Journal::nowhere();
        let attempt = Attempt { operation, done: &[], journal: &journal, held: None, progress: &progress };
        self.steps(&attempt, &mut cancels).await?;
        Ok(recorded.calls())
    }

    /// Runs the remaining steps of an operation; `done` are the steps of an earlier attempt. Stops at the first step
    /// that fails and records it in the journal. A message on `cancels` cancels the operation if the current step
    /// allows it, and is ignored otherwise.
    pub async fn run(
        &mut self,
        operation: &Operation,
        journal: &Journal,
        done: &[(StepName, String)],
        progress: &mpsc::UnboundedSender<Progress>,
        cancels: &mut mpsc::UnboundedReceiver<()>,
    ) -> Result<Outcome, Problem> {
        let is_new = self.facts.lock.is_none();
        let held = match self.acquire_lock(operation, operation.next(done), journal, progress).await {
            Ok(held) => held,
            Err(problem) => {
                // Nothing was done, so there is nothing to resume. An earlier attempt may have requested machines before
                // its first step was done.
                if is_new && done.is_empty() {
                    journal.write_with(|j| j.end("refused")).await?;
                }
                return Err(problem);
            }
        };
        let attempt = Attempt { operation, done, journal, held: held.as_ref(), progress };
        self.steps(&attempt, cancels).await
    }

    async fn steps(
        &mut self,
        attempt: &Attempt<'_>,
        cancels: &mut mpsc::UnboundedReceiver<()>,
    ) -> Result<Outcome, Problem> {
        let &Attempt { operation, done, journal, held, progress } = attempt;
        for &step in &operation.steps {
            if let Some(result) = attempt.earlier_result(step) {
                attempt.report(Progress::Skipped(step, result));
                continue;
            }
            attempt.report(Progress::Began(step));
            let cancelled = operation.cancelled_again(step, done);
            // Boxed, because a future that queries Google and Ray at once is large.
            let ended = tokio::select! {
                biased;
                Some(()) = cancels.recv(), if cancelled.is_some() => None,
                ended = Box::pin(self.locked_step(step, attempt)) => Some(ended),
            };
            let Some(ended) = ended else {
                let left = cancelled.unwrap_or(CancelledState::Unchanged);
                self.unlock(held, progress).await;
                journal.write_with(move |j| j.cancelled(left)).await?;
                return Ok(Outcome::Cancelled(left));
            };
            if cancelled.is_none() {
                while cancels.try_recv().is_ok() {}
            }
            attempt.record(step, ended).await?;
        }
        self.unlock(held, progress).await;
        journal.write_with(|j| j.end("done")).await?;
        Ok(Outcome::Done)
    }

    /// Runs a step and records it in the operation's lock.
    async fn locked_step(&mut self, step: StepName, attempt: &Attempt<'_>) -> Result<String, Problem> {
        let &Attempt { operation, journal, held, progress, .. } = attempt;
        let Some(held) = held else { return self.step(step, journal, progress).await };
        let number = operation.number(step);
        held.advance(number, progress).await?;
        tokio::select! {
            ended = self.step(step, journal, progress) => ended,
            never = held.keep_renewing(number) => match never {},
        }
    }

    /// Runs a step. Boxed outside of a future, the futures of all steps are compiled once.
    fn step<'a>(
        &'a mut self,
        step: StepName,
        journal: &'a Journal,
        progress: &'a mpsc::UnboundedSender<Progress>,
    ) -> BoxFuture<'a, Result<String, Problem>> {
        self.run_step(step, journal, progress).boxed()
    }

    async fn run_step(
        &mut self,
        step: StepName,
        journal: &Journal,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<String, Problem> {
        match step {
            StepName::Check => self.check(progress).await,
            StepName::ReadState => {
                let result = self.read_state().await?;
                if self.preserves() && !self.executor.is_recording() {
                    let name =
                        format!("{}-{}", file_name(self.spec.name.as_str()), Timestamp::now().as_millis());
                    self.facts.backup = Some(self.state.join("backups").join(name));
                }
                self.keep_facts(journal).await?;
                Ok(result)
            }
            StepName::Backup => self.back_up(progress).await,
            StepName::Stop => {
                self.recheck(journal, progress).await?;
                if self.is_google() {
                    self.delete_machines(journal, progress).await?;
                }
                let result = self.stop(progress).await?;
                self.stopped = true;
                Ok(result)
            }
            StepName::CleanUp => {
                self.no_other_ray().await?;
                self.clean_up(progress).await
            }
            StepName::Start => {
                if let Some(result) = self.runs_already().await? {
                    return Ok(result);
                }
                self.facts.launched = true;
                self.keep_facts(journal).await?;
                self.start(progress).await
            }
            StepName::WaitForRay => self.wait_for_ray().await,
            StepName::Restore => {
                let result = self.restore(progress).await?;
                self.keep_facts(journal).await?;
                Ok(result)
            }
            StepName::Workers => self.workers(progress).await,
            StepName::Apply => self.apply(progress).await,
            StepName::Verify => self.verify().await,
            StepName::Find if matches!(self.task, Task::RemoveWorkers { .. }) => {
                self.find_all_turns(journal).await
            }
            StepName::RemoveEach => self.remove_each(journal, progress).await,
            StepName::Find
            | StepName::RequestTpus
            | StepName::Capacity
            | StepName::StartRay
            | StepName::Join
            | StepName::Drain
            | StepName::Remove
            | StepName::WaitUntilGone => self.worker_step(step, journal, progress).await,
        }
    }

    async fn check(&self, progress: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let file = self.file()?;
        std::fs::File::open(file)
            .map_err(|e| failure(format!("cannot read {}: {e}", file.display()), "nothing was changed"))?;
        let words = self.options.ray.join(" ");
        let (code, lines) = self.ray(&[OsStr::new("--version")], progress).await?;
        if code != 0 {
            let last = lines.last().cloned().unwrap_or_default();
            let hint = "install ray, or set the command as `ray` in the settings; nothing was changed";
            return Err(failure(format!("`{words} --version` failed with exit code {code}: {last}"), hint));
        }
        if self.updates() {
            self.changes_to_apply().await?;
        }
        Ok(lines.last().cloned().unwrap_or_else(|| "ray command found".to_owned()))
    }

    async fn read_state(&mut self) -> Result<String, Problem> {
        self.facts.known_heads = self.known_heads().await?;
        let session = match self.connect().await {
            Ok(session) => session,
            Err(problem) => return self.unknown_state(problem),
        };
        // An operation that saves jobs must know all of them.
        let parts = if self.preserves() { &REQUIRED_PARTS[..] } else { &RECORDED_PARTS };
        let snapshot = Poller::new(session.client.clone())
            .refresh_all(parts)
            .await
            .map_err(|e| e.problem(Timestamp::now()))?;
        let facts = self.facts_of(&snapshot, &session.ray_session);
        let summary = format!(
            "{}, {} that have not ended",
            counted(facts.workers.len(), "worker"),
            counted(facts.jobs.len(), "job")
        );
        let manual = self.manual(&facts.workers, &snapshot).await?;
        let summary = match manual.len() {
            0 => summary,
            n => format!("{summary}; {} added manually", counted(n, "worker")),
        };
        self.facts = Facts { manual, ..facts };
        Ok(summary)
    }

    /// The result of reading the state of a cluster that does not respond: an error if this operation needs the state.
    fn unknown_state(&self, problem: Problem) -> Result<String, Problem> {
        if self.preserves() {
            let hint = problem.hint.and([
                Verb::Abandon.to("or abandon this operation without restoring jobs"),
                Verb::RestartWithoutJobs.to("then restart without saving them"),
            ]);
            return Err(Problem { hint, ..problem });
        }
        if self.updates() {
            return Err(Problem { hint: then_resume(problem.hint), ..problem });
        }
        Ok(format!("no response ({}): workers unknown", problem.what))
    }

    /// The facts with the workers and the jobs in this snapshot of the Ray with this `session_name`.
    fn facts_of(&self, snapshot: &Snapshot, session: &Text) -> Facts {
        let open = || snapshot.jobs.iter().filter(|j| !j.status.is_ended());
        let submissions = || open().filter_map(|job| Some((job.submission_id()?.0.raw().to_owned(), job)));
        let pending = submissions().filter(|(_, job)| job.status == JobStatus::Pending);
        let mut facts = Facts {
            session: session.raw().to_owned(),
            workers: living_workers(snapshot),
            jobs: submissions().map(|(id, _)| id).collect(),
            pending: pending.map(|(id, _)| id).collect(),
            drivers: open().filter(|j| j.submission_id().is_none()).map(|j| j.key.to_string()).collect(),
            autoscaler: match snapshot.autoscaler.version {
                AutoscalerVersion::V1 => Some(1),
                AutoscalerVersion::V2 => Some(2),
                AutoscalerVersion::None => None,
            },
            ..self.facts.clone()
        };
        if self.updates() {
            let running = open().map(|job| (job.key.to_string(), job.status.label().to_owned()));
            facts.running = sort::collected(running);
        }
        facts
    }

    fn backup_folder(&self) -> Result<PathBuf, Problem> {
        let folder = self.facts.backup.clone();
        folder.ok_or_else(|| {
            failure(
                "the journal does not name a backup",
                Fix::restore_jobs(&self.spec.name, "DIR", "restore the jobs of a backup"),
            )
        })
    }

    async fn back_up(&mut self, progress: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let folder = if self.executor.is_recording() { None } else { Some(self.backup_folder()?) };
        if let Some(folder) = folder.as_ref().filter(|f| f.join("jobs.json").exists()) {
            return Ok(format!("already saved in {}", folder.display()));
        }
        let session = self.connect().await?;
        let backed = match &folder {
            Some(folder) => backup::back_up(&session.client, self.spec.name.as_str(), folder).await,
            None => would_back_up(&session.client).await,
        };
        let resume = |p: Problem| Problem { hint: then_resume(p.hint), ..p };
        let backed = backed.map_err(resume)?;
        if let Some(warning) = &backed.warning {
            // The receiver may have been dropped.
            let _ = progress.send(Progress::Output(warning.clone()));
        }
        let lost: Vec<_> = backed.kept.iter().filter(|k| !k.missing.is_empty()).collect();
        for kept in &lost {
            let (id, gone) = (kept.submission.id(), Text::from(kept.missing.join(", ")));
            let words = format!("cannot restore {id}: its package no longer exists on the cluster ({gone})");
            // The receiver may have been dropped.
            let _ = progress.send(Progress::Output(words));
        }
        let lost = match lost.len() {
            0 => String::new(),
            n => format!(", {n} with missing packages"),
        };
        let left = backed.left_out.len();
        let n = backed.kept.len();
        let Some(folder) = folder else {
            self.backed = Some(backed);
            return Ok(format!("{}{lost}; {left} skipped", counted(n, "job")));
        };
        Ok(format!("{} in {}{lost}; {left} skipped", counted(n, "job"), folder.display()))
    }

    async fn restore(&mut self, progress: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let session = self.connect().await?;
        let ((restored, result), folder) = if let Some(backed) = &self.backed {
            (backup::record(&session.client, backed, &self.executor).await, PathBuf::new())
        } else {
            let folder = self.backup_folder()?;
            (backup::restore(&session.client, &folder, &self.executor).await, folder)
        };
        result?;
        let (mut failed, mut later) = (Vec::new(), None);
        for (id, outcome) in &restored {
            if let Restored::Failed(why) | Restored::Later(why) = outcome {
                let why = Text::from(why.as_str());
                // The receiver may have been dropped.
                drop(progress.send(Progress::Output(format!("{id}: not restored: {why}"))));
                failed.push(id.to_string());
                if matches!(outcome, Restored::Later(_)) {
                    later = Some(why);
                }
            }
        }
        if let Some(why) = later {
            let what = format!("{} of {} jobs not restored: {why}", failed.len(), restored.len());
            let saved = folder.display().to_string();
            let hint = Hint::from([
                Verb::Resume.to("resume (restored jobs are kept)"),
                Verb::Abandon.to("or abandon this operation"),
                Fix::restore_jobs(&self.spec.name, &saved, "and restore the jobs later"),
            ]);
            return Err(failure(what, hint));
        }
        self.facts.not_restored.clone_from(&failed);
        let mut results = vec![format!("{} restored", counted(restored.len() - failed.len(), "job"))];
        if !failed.is_empty() {
            results.push(format!("not restored: {} (saved in {})", failed.join(", "), folder.display()));
        }
        if !self.facts.drivers.is_empty() {
            results.push(format!("ended: {} (started manually)", self.facts.drivers.join(", ")));
        }
        Ok(results.join("; "))
    }

    /// Removes the lock of an operation that is over, before the journal is ended: if the program is killed in between,
    /// the operation can still be resumed, and no lock remains that nobody can remove.
    async fn unlock(&self, held: Option<&HeldLock>, progress: &mpsc::UnboundedSender<Progress>) {
        match (held, &self.facts.lock) {
            (Some(held), _) => held.remove(progress).await,
            // It may have been placed although no answer came.
            (None, Some(id)) => {
                if let Err(problem) = supervisor::remove_lock(self.access(), id).await {
                    tracing::warn!(cluster = %self.spec.name, "{}", problem.what);
                }
            }
            (None, None) => {}
        }
    }
}

/// Addresses of the workers that are not dead.
pub(super) fn living_workers(snapshot: &Snapshot) -> Vec<String> {
    let alive = snapshot.nodes.iter().filter(|n| n.state != NodeState::Dead && !n.is_head);
    alive.map(|n| n.address.raw().to_owned()).collect()
}

fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Folders, Settings};
    use crate::model::{ClusterSpec, HeadAddress, NewWorker, Provider, Task};
    use crate::supervisor::Options;
    use std::path::Path;

    fn options(home: &Path) -> Options {
        let env = Env::new(&[("HOME", home.to_str().unwrap())], home);
        let token = crate::token::TokenSources { cache: home.into(), ..Default::default() };
        Options::new(&Settings::default(), &Folders::new(&env), token)
    }

    #[test]
    fn unsupported_providers_are_refused_with_a_reason() {
        let spec = |provider: Provider, file: Option<&str>| ClusterSpec {
            file: file.map(PathBuf::from),
            ..ClusterSpec::sample("c", provider)
        };
        let (dir, restart) = (tempfile::tempdir().unwrap(), Task::Restart { preserve: true });
        let options = options(dir.path());
        let preflight = |spec: &ClusterSpec, task: &Task| super::super::preflight(spec, &options, task);
        assert!(preflight(&spec(Provider::Local, Some("c.yaml")), &restart).is_ok());
        let aws = preflight(&spec(Provider::Other("aws"), Some("c.yaml")), &restart).unwrap_err();
        assert!(
            aws.what.contains("not supported for provider aws")
                && aws.hint.to_string().contains("backup-jobs")
        );
        let gcp = preflight(&spec(Provider::Gcp, Some("c.yaml")), &restart).unwrap_err();
        assert!(gcp.hint.to_string().contains("project_id"), "{gcp:?}");
        assert!(preflight(&spec(Provider::None, None), &Task::Stop).is_err());
        let head = Task::RemoveWorker { worker: "10.0.0.1".into(), drain: None };
        let local = ClusterSpec {
            head: HeadAddress::Ssh(crate::model::HostName::parse("10.0.0.1").unwrap()),
            ..spec(Provider::Local, Some("c.yaml"))
        };
        assert!(preflight(&local, &head).unwrap_err().what.contains("is the head"));
        let tpus = NewWorker::Queued { node_type: "v4-8".into(), capacity: "x".into(), names: Vec::new() };
        assert!(preflight(&local, &Task::AddWorker(tpus)).unwrap_err().hint.to_string().contains("--host"));
    }
}
