//! What the console and the commands know of a job before its workers are asked.

use super::cluster::Cluster;
use super::vitals::could_serve;
use crate::crew::{Known, Pending};
use crate::model::{Hint, Job};
use std::sync::Arc;

impl Cluster {
    /// What is known of a job before its workers are asked.
    pub fn known_of(&self, job: &Arc<Job>) -> Known {
        let why = self.pending.get(&job.key);
        let finding = why.and_then(|why| self.findings.iter().find(|f| Some(f.kind) == why.finding));
        let pending = why.map(|why| Pending {
            words: why.words.clone(),
            finding: finding.map(|finding| finding.long.clone()),
            hint: finding.map_or_else(Hint::none, |finding| finding.hint.clone()),
        });
        let (snapshot, names) = (Arc::clone(&self.snapshot), Arc::clone(&self.names));
        Known { job: Arc::clone(job), snapshot, names, pending, served: could_serve(job, self) }
    }
}
