//! What stands half way on a cluster, as a console shows it.

use super::journal::{Journal, JournalError, Unfinished};
use crate::model::{ClusterName, Operation, Standing, StepName};
use std::path::Path;

impl Unfinished {
    /// The operation that it is.
    pub fn operation(&self, cluster: &ClusterName) -> Operation {
        Operation::new(self.task.clone(), cluster.clone())
    }

    /// The step that is not done yet, if any.
    pub fn next(&self) -> Option<StepName> {
        let steps = Operation::new(self.task.clone(), ClusterName::new("")).steps;
        steps.into_iter().find(|s| !self.done.iter().any(|(d, _)| d == s))
    }

    /// Where its jobs are saved, if they are.
    pub fn saved(&self) -> Option<String> {
        let folder = self.facts.backup.as_ref().filter(|b| b.join("jobs.json").exists());
        folder.map(|f| f.display().to_string())
    }
}

/// What stands half way on a cluster, by the journal in the state folder, which is not held for it.
pub fn standing(state: &Path, cluster: &ClusterName) -> Result<Option<Standing>, JournalError> {
    let Some((unfinished, held)) = Journal::peek(state, cluster)? else { return Ok(None) };
    Ok(Some(Standing {
        operation: unfinished.operation(cluster),
        since: unfinished.since,
        saved: unfinished.saved(),
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
    fn a_journal_is_looked_into_without_being_held() {
        let dir = tempfile::tempdir().unwrap();
        let name = ClusterName::new("lab");
        let look = || standing(dir.path(), &name).unwrap();
        assert_eq!(look(), None);
        assert!(!dir.path().join("operations").exists(), "looking makes nothing");
        let mut journal = Journal::open(dir.path(), &name).unwrap();
        assert_eq!(look(), None);
        journal.begin(&Task::Stop).unwrap();
        journal.done(StepName::Check, "ray 2.60.0").unwrap();
        let seen = look().unwrap();
        assert!(seen.elsewhere && seen.operation.title == "stop lab");
        assert_eq!(seen.done, [(StepName::Check, "ray 2.60.0".to_owned())]);
        drop(journal);
        assert!(!look().unwrap().elsewhere);
        Journal::open(dir.path(), &name).unwrap().end("done").unwrap();
        assert_eq!(look(), None);
    }
}
