//! What the console and the commands know of a job before its workers are asked.

use super::cluster::Cluster;
use super::vitals::could_serve;
use crate::crew::{Known, Pending, Unwell};
use crate::model::{Hint, Job, SignKind};
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
        // Both have the worst first; old vitals have no findings.
        let signs = self.vitals.jobs.get(&job.key).into_iter().flat_map(|vitals| &vitals.signs);
        let signs = signs.filter(|sign| sign.kind != SignKind::WaitsLong);
        let findings = self.findings.iter().filter(|finding| finding.job.as_ref() == Some(&job.key));
        let unwell = signs.zip(findings).map(|(sign, finding)| Unwell {
            words: sign.words(self.snapshot.taken),
            hint: finding.hint.clone(),
        });
        let (served, unwell) = (could_serve(job, self), unwell.collect());
        Known { job: Arc::clone(job), snapshot, names, pending, served, unwell }
    }
}
