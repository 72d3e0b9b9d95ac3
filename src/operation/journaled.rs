//! An interrupted operation of a cluster, as a console shows it.

use super::failure;
use super::journal::{Journal, JournalError, SKIPPED, Scope, Unfinished};
use crate::model::{ClusterName, ClusterSpec, Hint, JournaledOperation, Operation, Problem, StepName, Verb};
use std::path::Path;

impl Unfinished {
    /// The operation itself.
    pub fn operation(&self, cluster: &ClusterName) -> Operation {
        Operation::new(self.task.clone(), cluster.clone())
    }

    /// The first step that is not done, if any.
    pub fn next(&self) -> Option<StepName> {
        Operation::new(self.task.clone(), ClusterName::new("")).next(&self.done)
    }

    /// Whether this step is done.
    pub fn is_done(&self, step: StepName) -> bool {
        self.done.iter().any(|(done, _)| *done == step)
    }

    /// Whether the operation may end jobs and no step has changed anything, so that affected jobs can still be checked. A
    /// step that stops the cluster may have failed halfway.
    pub fn asks_first(&self) -> bool {
        self.task.kind().may_end_jobs() && self.done.iter().all(|(step, _)| step.changes_nothing())
    }

    /// Records that a step is skipped.
    pub fn record_skipped(&mut self, step: StepName) {
        self.done.push((step, SKIPPED.to_owned()));
    }

    /// An error if the operation was started with a cluster file other than the current one of this cluster.
    pub fn belongs_to(&self, spec: &ClusterSpec) -> Result<(), Problem> {
        match (&self.scope.file, Scope::of(spec).file) {
            (Some(then), Some(now)) if *then != now => {
                let what = format!(
                    "{} was started with {}, but the file of {} is now {}",
                    self.operation(&spec.name).title,
                    then.display(),
                    spec.name,
                    now.display()
                );
                Err(failure(
                    what,
                    Hint::from("resume with that file (--infra, --cluster)")
                        .and(Verb::Abandon.to("or abandon it")),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// The interrupted operation of a cluster according to its journal, which is not locked.
pub fn journaled(state: &Path, cluster: &ClusterName) -> Result<Option<JournaledOperation>, JournalError> {
    let Some((unfinished, held)) = Journal::peek(state, cluster)? else { return Ok(None) };
    Ok(Some(JournaledOperation {
        operation: unfinished.operation(cluster),
        since: unfinished.since,
        saved: unfinished.facts.saved(),
        done: unfinished.done,
        why: unfinished.why,
        elsewhere: held,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Task;

    #[test]
    fn a_skipped_step_never_runs_after_later_steps() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Journal::open(dir.path(), &ClusterName::new("lab")).unwrap();
        let mut journal = open();
        journal.begin(&Task::Restart { preserve: true }, &Scope::default()).unwrap();
        for step in [StepName::Check, StepName::ReadState, StepName::Backup] {
            journal.done(step, "").unwrap();
        }
        drop(journal);
        let mut journal = open();
        let mut unfinished = journal.unfinished().unwrap().clone();
        assert!(unfinished.asks_first());
        for step in [StepName::Stop, StepName::Start] {
            journal.done(step, "").unwrap();
        }
        journal.skip(StepName::CleanUp).unwrap();
        unfinished.record_skipped(StepName::CleanUp);
        assert!(unfinished.is_done(StepName::CleanUp));
        drop(journal);
        let later = open().unfinished().unwrap().clone();
        assert_eq!(
            later.next(),
            Some(StepName::WaitForRay),
            "the new Ray is not stopped by the skipped step"
        );
        assert!(!later.asks_first());
    }

    #[test]
    fn a_journal_is_read_without_being_locked() {
        let dir = tempfile::tempdir().unwrap();
        let name = ClusterName::new("lab");
        let read = || journaled(dir.path(), &name).unwrap();
        assert_eq!(read(), None);
        assert!(!dir.path().join("operations").exists(), "reading creates nothing");
        let mut journal = Journal::open(dir.path(), &name).unwrap();
        assert_eq!(read(), None);
        journal.begin(&Task::Stop, &Scope::default()).unwrap();
        journal.done(StepName::Check, "ray 2.60.0").unwrap();
        let seen = read().unwrap();
        assert!(seen.elsewhere && seen.operation.title == "stop lab");
        assert_eq!(seen.done, [(StepName::Check, "ray 2.60.0".to_owned())]);
        drop(journal);
        assert!(!read().unwrap().elsewhere);
        Journal::open(dir.path(), &name).unwrap().end("done").unwrap();
        assert_eq!(read(), None);
    }
}
