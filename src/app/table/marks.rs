//! The jobs that are marked, for an action on all of them.

use crate::model::{Job, SubmissionId};
use std::collections::HashSet;

/// Marked jobs, by the place of their cluster.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    jobs: HashSet<(usize, SubmissionId)>,
}

impl Marks {
    /// Whether the job is marked.
    pub fn has(&self, place: usize, job: &Job) -> bool {
        // Most of the time there are none, and this is asked for each row.
        !self.jobs.is_empty()
            && job.submission_id().is_some_and(|id| self.jobs.contains(&(place, id.clone())))
    }

    /// Whether any job of the cluster is marked; with none, of any cluster.
    pub fn any(&self, of: Option<usize>) -> bool {
        self.count(of) > 0
    }

    /// How many jobs of the cluster are marked, or of all.
    pub fn count(&self, of: Option<usize>) -> usize {
        self.jobs.iter().filter(|(place, _)| of.is_none_or(|of| of == *place)).count()
    }

    /// Marks the job, or takes its mark away.
    pub fn toggle(&mut self, place: usize, id: SubmissionId) {
        let mark = (place, id);
        if !self.jobs.remove(&mark) {
            self.jobs.insert(mark);
        }
    }

    /// Takes all marks of the cluster away, or of all. True when there were any.
    pub fn clear(&mut self, of: Option<usize>) -> bool {
        let before = self.jobs.len();
        self.jobs.retain(|(place, _)| of.is_some_and(|of| of != *place));
        before != self.jobs.len()
    }

    /// Keeps only the marks of jobs that the cluster still lists.
    pub fn keep(&mut self, place: usize, jobs: &[std::sync::Arc<Job>]) {
        if !self.any(Some(place)) {
            return;
        }
        let listed: HashSet<&SubmissionId> = jobs.iter().filter_map(|j| j.submission_id()).collect();
        self.jobs.retain(|(of, id)| *of != place || listed.contains(id));
    }
}
