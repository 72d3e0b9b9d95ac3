//! The marked jobs, for actions on all of them.

use crate::model::{Job, SubmissionId};
use std::collections::HashSet;

/// Marked jobs, by the index of their cluster.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    jobs: HashSet<(usize, SubmissionId)>,
}

impl Marks {
    /// Whether the job is marked.
    pub fn has(&self, cluster_index: usize, job: &Job) -> bool {
        // Usually there are none, and this is called for each row.
        !self.jobs.is_empty() && job.submission_id().is_some_and(|id| self.contains(cluster_index, id))
    }

    /// Whether the job with this id is marked.
    pub fn contains(&self, cluster_index: usize, id: &SubmissionId) -> bool {
        self.jobs.contains(&(cluster_index, id.clone()))
    }

    /// Marks the job.
    pub fn add(&mut self, cluster_index: usize, id: SubmissionId) {
        self.jobs.insert((cluster_index, id));
    }

    /// The number of marked jobs of the cluster; with `None`, of all clusters.
    pub fn count(&self, of: Option<usize>) -> usize {
        self.jobs.iter().filter(|(cluster_index, _)| of.is_none_or(|of| of == *cluster_index)).count()
    }

    /// Marks or unmarks the job.
    pub fn toggle(&mut self, cluster_index: usize, id: SubmissionId) {
        let mark = (cluster_index, id);
        if !self.jobs.remove(&mark) {
            self.jobs.insert(mark);
        }
    }

    /// Removes all marks of the cluster. Returns whether there were any.
    pub fn clear(&mut self, cluster_index: usize) -> bool {
        let before = self.jobs.len();
        self.jobs.retain(|(of, _)| *of != cluster_index);
        before != self.jobs.len()
    }

    /// Removes the marks of jobs that the cluster no longer lists.
    pub fn keep(&mut self, cluster_index: usize, jobs: &[std::sync::Arc<Job>]) {
        if self.count(Some(cluster_index)) == 0 {
            return;
        }
        let listed: HashSet<&SubmissionId> = jobs.iter().filter_map(|j| j.submission_id()).collect();
        self.jobs.retain(|(of, id)| *of != cluster_index || listed.contains(id));
    }
}
