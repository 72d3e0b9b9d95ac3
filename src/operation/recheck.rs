//! The second check, right before anything is stopped or removed: what has changed since the first.

use super::backup;
use super::cluster::living_workers;
use super::journal::Journal;
use super::performer::Performer;
use super::preview::{Detail, preview};
use super::{begin_again, failure, gates, then_resume};
use crate::model::{Fix, Hint, Operation, Order, Preview, Problem, Progress, SnapshotPart, Text};
use crate::ray::{Client, Poller};
use crate::supervisor::Channel;
use tokio::sync::mpsc;

impl Performer {
    /// Checks jobs and workers again. Jobs may have ended or been submitted since they were saved, possibly hours ago
    /// if the operation is resumed. Once the stop has started, the operation itself ends jobs; but a failed stop may
    /// have left a Ray that people use.
    pub(super) async fn recheck(
        &mut self,
        journal: &Journal,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        // The receiver may have been dropped.
        let report = |words: String| drop(progress.send(Progress::Output(words)));
        match self.connect().await {
            Ok(session) => {
                self.open_jobs(&session, report).await?;
                self.joined_since(&session, report).await?;
                self.still_allowed(&session, report).await?;
            }
            // This operation had the token of the Ray that it stops: this is another one.
            Err(refused)
                if self.facts.stopping && !self.facts.session.is_empty() && refused.kind.is_of_token() =>
            {
                return Err(Problem { hint: then_resume(refused.hint), ..refused });
            }
            Err(_) if self.facts.stopping => return Ok(()),
            // Jobs submitted since they were saved would be lost.
            Err(problem) if self.preserves() => {
                let what = format!("cannot read the jobs again: {}", problem.what);
                return Err(failure(what, then_resume(problem.hint).and(self.start_again())));
            }
            Err(problem) if self.executor.is_recording() => {
                report(format!("cannot read the jobs again: {}", problem.what));
            }
            Err(problem) => {
                let operation = Operation::new(self.task.clone(), self.spec.name.clone());
                self.permitted(&operation, &Preview::unknown(&self.operator, problem))?;
            }
        }
        self.facts.stopping = true;
        self.keep_facts(journal).await
    }

    /// Checks the jobs that run now against the permission: other people may have submitted some since.
    async fn still_allowed(&self, session: &Channel, report: impl Fn(String)) -> Result<(), Problem> {
        if self.executor.is_recording() {
            return Ok(());
        }
        let operation = Operation::new(self.task.clone(), self.spec.name.clone());
        let seen = match self.affected(&session.client, &operation).await {
            Ok(seen) => seen,
            // Ray is partly stopped; its jobs were checked before.
            Err(problem) if self.facts.stopping => {
                report(format!("cannot read the jobs again: {}", problem.what));
                return Ok(());
            }
            Err(problem) => Preview::unknown(&self.operator, problem),
        };
        self.permitted(&operation, &seen)
    }

    /// The jobs that an operation would end now.
    pub(super) async fn affected(&self, client: &Client, operation: &Operation) -> Result<Preview, Problem> {
        let cluster = (&self.spec, &self.options);
        Box::pin(preview(client, cluster, &self.operator, &operation.task, Detail::Owners)).await
    }

    /// Checks affected jobs against the permission, since which hours may have passed.
    pub(super) fn permitted(&self, operation: &Operation, seen: &Preview) -> Result<(), Problem> {
        gates::jobs(operation, &self.consent, seen, Order::Resume).map_err(|refusal| refusal.problem)
    }

    /// Workers that have joined since the operation started: they run jobs as well and must be cleared.
    async fn joined_since(&mut self, session: &Channel, report: impl Fn(String)) -> Result<(), Problem> {
        let snapshot = match Poller::new(session.client.clone()).refresh_all(&[SnapshotPart::Nodes]).await {
            Ok(snapshot) => snapshot,
            // Ray is partly stopped; its workers were recorded before.
            Err(e) => {
                report(format!("cannot check for workers that have joined since the operation began: {e}"));
                return Ok(());
            }
        };
        let living = living_workers(&snapshot);
        let new: Vec<String> = living.into_iter().filter(|w| !self.facts.workers.contains(w)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = new.iter().map(|w| Text::from(w.as_str()).to_string()).collect();
        report(format!("joined since the operation began: {}", names.join(", ")));
        let by_hand = self.manual(&new, &snapshot).await?;
        self.facts.manual.extend(by_hand);
        self.facts.workers.extend(new);
        Ok(())
    }

    /// Updates the jobs in the facts and in the backup to the current ones.
    async fn open_jobs(&mut self, session: &Channel, report: impl Fn(String)) -> Result<(), Problem> {
        if self.facts.is_other_session(session.ray_session.raw()) {
            return Err(self.other_ray());
        }
        let stopping = self.facts.stopping;
        let open = match self.facts.backup.clone().filter(|_| self.preserves()) {
            Some(folder) => match backup::amend(&session.client, &folder, stopping).await {
                Ok(backed) => {
                    if let Some(warning) = &backed.warning {
                        report(warning.clone());
                    }
                    let kept = backed.kept.iter().map(|k| k.submission.id());
                    kept.chain(backed.left_out.into_iter().map(|(id, _)| id)).collect::<Vec<_>>()
                }
                // Ray is partly stopped; its jobs were saved before.
                Err(problem) if stopping => {
                    report(format!("cannot read the jobs again: {}", problem.what));
                    return Ok(());
                }
                Err(problem) => return Err(problem),
            },
            None => match session.client.open_submissions().await {
                Ok(open) => open.iter().map(|r| r.submission.id()).collect(),
                Err(e) => {
                    report(format!("cannot read the jobs again: {e}"));
                    return Ok(());
                }
            },
        };
        let open: Vec<String> = open.into_iter().map(|id| id.0.raw().to_owned()).collect();
        let before = &self.facts.jobs;
        let names = |of: &[String], but: &[String]| -> Vec<String> {
            of.iter().filter(|id| !but.contains(id)).map(|id| Text::from(id.as_str()).to_string()).collect()
        };
        let (ended, new) = (names(before, &open), names(&open, before));
        if !ended.is_empty() {
            report(format!("ended since the operation began: {}", ended.join(", ")));
        }
        if !new.is_empty() {
            report(format!("submitted since the operation began: {}", new.join(", ")));
        }
        // Processes of jobs that have ended may still remain.
        self.facts.jobs.extend(open.into_iter().filter(|id| !before.contains(id)).collect::<Vec<_>>());
        Ok(())
    }

    /// The hint when the cluster has changed too much to resume the operation.
    pub(super) fn start_again(&self) -> Hint {
        let again = begin_again();
        match self.facts.saved() {
            Some(at) => again.and(Fix::restore_jobs(&self.spec.name, &at, "submit the saved jobs")),
            None => again,
        }
    }
}
