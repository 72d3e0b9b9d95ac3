//! What the console and the commands know of a job before its workers are read.

use crate::app::fleet::cluster::Cluster;
use crate::app::job::vitals::could_serve;
use crate::job_workers::{HealthIssue, Known, Pending};
use crate::model::{Hint, Job, JobActivity, JobStatus, Wait, WarningKind};
use std::sync::Arc;

impl Cluster {
    /// What is known of a job before its workers are read.
    pub fn known_of(&self, job: &Arc<Job>) -> Known {
        let why = self.pending.get(&job.key);
        let finding = why.and_then(|why| self.findings.iter().find(|f| Some(f.kind) == why.finding));
        let pending = why.filter(|_| job.status == JobStatus::Pending).map(|why| Pending {
            text: why.text.clone(),
            finding: finding.map(|finding| finding.long.clone()),
            hint: finding.map_or_else(Hint::none, |finding| finding.hint.clone()),
        });
        let (snapshot, names) = (Arc::clone(&self.snapshot), Arc::clone(&self.names));
        // Both are sorted by severity; outdated vitals have no findings.
        let signs = self.vitals.jobs.get(&job.key).into_iter().flat_map(|vitals| &vitals.signs);
        let signs = signs.filter(|sign| sign.kind != WarningKind::PendingTooLong);
        let findings = self.findings.iter().filter(|finding| finding.job() == Some(&job.key));
        let issues = signs.zip(findings).map(|(sign, finding)| HealthIssue {
            text: sign.text(self.snapshot.taken),
            hint: finding.hint.clone(),
        });
        // A problem of the autoscaler comes before the node types.
        let blocked = finding.filter(|_| pending.is_none());
        let blocked = blocked.map(|finding| format!("{}: {}", finding.label(), finding.long));
        let served = blocked.into_iter().chain(could_serve(job, self)).collect();
        let issues = issues.collect();
        Known { job: Arc::clone(job), snapshot, names, pending, waits: self.waits_of(job), served, issues }
    }

    /// What a running job waits for, if it does nothing else.
    fn waits_of(&self, job: &Job) -> Option<Wait> {
        let vitals = self.vitals.of(job)?;
        if let JobActivity::Waiting(wait) = &vitals.activity { Some(wait.clone()) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use crate::app::job::known::*;
    use crate::job_workers::{JobWorkers, Verdict, running};
    use crate::logs::Clock;
    use crate::model::{
        ClusterEvent, ClusterSpec, ClusterVitals, JobStatus, Provider, RunWarning, Snapshot, Timestamp,
        Vitals,
    };
    use crate::state::ClusterState;

    const NOW: Timestamp = Timestamp::from_millis(1_795_000_000_000);

    /// The verdict about a running job with these warnings.
    fn verdict_of(kinds: &[WarningKind], activity: JobActivity) -> crate::job_workers::Findings {
        let job = Arc::new(Job::sample("a", JobStatus::Running));
        let sign = |kind: &WarningKind| RunWarning { kind: *kind, since: NOW, evidence: "1.3 s/step".into() };
        let vitals = Vitals { signs: kinds.iter().map(sign).collect(), ..Vitals::sample(activity, NOW) };
        let jobs = [(job.key.clone(), Arc::new(vitals))].into();
        let cluster_vitals = ClusterVitals { read: Some(NOW), jobs, ..ClusterVitals::default() };
        let snapshot = Snapshot { taken: NOW, jobs: Arc::new(vec![Arc::clone(&job)]), ..Snapshot::default() };
        let spec = ClusterSpec::sample("lab", Provider::Gcp);
        let mut state = ClusterState::new(Arc::new(spec.clone()));
        state.apply(&ClusterEvent::Snapshot(Arc::new(snapshot)));
        state.apply(&ClusterEvent::Vitals(Arc::new(cluster_vitals)));
        let known = Cluster::of(spec, state).known_of(&job);
        running(&JobWorkers::new(known, Vec::new(), Clock::utc(NOW)), &[], &[], &[])
    }

    #[test]
    fn a_run_with_warnings_is_not_healthy() {
        let found = verdict_of(&[WarningKind::Diverging, WarningKind::Slowed], JobActivity::Training);
        assert_eq!(found.verdict, Verdict::Unhealthy);
        assert!(found.summary.contains("loss diverging for"), "{}", found.summary);
        assert!(
            found.evidence.len() == 1 && found.evidence[0].contains("run slowed"),
            "{:?}",
            found.evidence
        );
        assert!(!found.hint.is_empty(), "the hint is that of the issue");
        assert_eq!(verdict_of(&[], JobActivity::Training).verdict, Verdict::Healthy);
    }

    #[test]
    fn a_waiting_run_with_a_placeholder_worker_is_not_healthy() {
        let shape = vec![("TPU-v4-256-head".into(), 1.0)];
        let wait = Wait { shape, count: 1, since: Some(NOW.minus(std::time::Duration::from_secs(2880))) };
        let found = verdict_of(&[WarningKind::PendingTooLong], JobActivity::Waiting(wait));
        assert_eq!(found.verdict, Verdict::Waiting);
        assert!(found.summary.ends_with("waits for TPU-v4-256-head 1, for 48m"), "{}", found.summary);
    }
}
