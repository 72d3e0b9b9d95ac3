//! A new Ray session on a head: Ray was restarted, and the nodes and jobs of the old session are gone.

use super::{Finding, FindingKind, Severity};
use crate::model::amount::counted;
use crate::model::{Hint, Job, JobKey, NodeState, Snapshot, SnapshotPart, SubmissionId, Text, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// A restart is shown for this long.
pub const SHOWN_FOR: Duration = Duration::from_secs(3600);
/// The head's clock is used if it differs from ours by no more than this.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(300);
/// Maximum number of jobs that are named; the others are counted.
const MAX_JOBS: usize = 3;

/// Who restarted Ray, as far as this program knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartedBy {
    /// An operation of this program.
    Us,
    /// The operator who held the lock of the cluster, `user@host`.
    Operator(Text),
    /// Another person, or Ray ended on its own and was started again.
    Unknown,
}

/// One restart, and what ran before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When the new session began: the head's start if its clock is plausible, otherwise when it was first seen.
    pub since: Timestamp,
    /// Who restarted Ray.
    pub by: RestartedBy,
    /// Jobs that had not ended before it.
    jobs: Vec<Open>,
    /// How many workers were alive before it.
    workers: usize,
}

/// A job that had not ended when its Ray session did.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    key: JobKey,
    /// Its owner, in words.
    owner: String,
    /// `session_name` of its Ray session; its log is in the directory of that name on the head.
    session: Text,
}

impl Open {
    /// Whether it exists again. Ray numbers the drivers of each session from 1, so a driver with the same number is
    /// another job.
    fn is_back(&self, jobs: &[Arc<Job>]) -> bool {
        matches!(self.key, JobKey::Submission(_)) && jobs.iter().any(|job| job.key == self.key)
    }
}

impl Restart {
    /// The restart between two states of one cluster; `None` if both are of the same session, or one is unknown.
    pub fn between(before: &Snapshot, now: &Snapshot, by: RestartedBy) -> Option<Self> {
        if before.session.is_empty() || now.session.is_empty() || before.session == now.session {
            return None;
        }
        let head = now.nodes.iter().find(|n| n.is_head && n.state.is_alive());
        let plausible = |at: &Timestamp| {
            before.taken.age(at.plus(MAX_CLOCK_SKEW)) > Duration::ZERO
                && at.age(now.taken.plus(MAX_CLOCK_SKEW)) > Duration::ZERO
        };
        let since = head.and_then(|n| n.started).filter(plausible).unwrap_or(now.taken);
        let open = before.jobs.iter().filter(|job| !job.status.is_ended());
        let job = |job: &Arc<Job>| Open {
            key: job.key.clone(),
            owner: job.owner_label(),
            session: before.session.clone(),
        };
        Some(Self { since, by, jobs: open.map(job).collect(), workers: living_workers(before) })
    }

    /// Adds the jobs that an earlier restart ended and that do not exist again: after two restarts, the jobs of both
    /// are lost.
    pub(super) fn after(mut self, earlier: Option<Self>, jobs: &[Arc<Job>]) -> Self {
        let Some(earlier) = earlier.filter(|e| e.by != RestartedBy::Us && e.is_recent(self.since)) else {
            return self;
        };
        let lost: Vec<Open> = earlier.jobs.into_iter().filter(|job| !job.is_back(jobs)).collect();
        if !lost.is_empty() {
            self.by = earlier.by;
            self.jobs.extend(lost);
        }
        self
    }

    /// Whether it was recent when a state was taken.
    pub fn is_recent(&self, taken: Timestamp) -> bool {
        self.since.age(taken) < SHOWN_FOR
    }

    /// Why a job no longer exists, if this restart ended it.
    pub fn why_lost(&self, id: &SubmissionId, jobs: &[Arc<Job>]) -> Option<String> {
        let is_it = |open: &&Open| matches!(&open.key, JobKey::Submission(known) if known == id);
        let lost = self.jobs.iter().find(is_it).filter(|open| !open.is_back(jobs))?;
        Some(id.lost_with(&lost.session))
    }

    /// The finding about it; `None` for a restart by this program, which its operation reports.
    pub(super) fn finding(&self, now: &Snapshot) -> Option<Finding> {
        let who = match &self.by {
            RestartedBy::Us => return None,
            RestartedBy::Operator(who) => format!("by {who}"),
            RestartedBy::Unknown => "outside this console".to_owned(),
        };
        // What could not be read is not lost.
        let unread = now.lacks(&[SnapshotPart::Jobs, SnapshotPart::SomeJobs, SnapshotPart::Nodes]);
        if !self.is_recent(now.taken) || unread.is_some() {
            return None;
        }
        let lost: Vec<&Open> = self.jobs.iter().filter(|open| !open.is_back(&now.jobs)).collect();
        // Recreated machines have other addresses, so workers are only counted.
        let missing = self.workers.saturating_sub(living_workers(now));
        let jobs = match lost.len() {
            0 => "no jobs lost".to_owned(),
            1 => "1 job lost".to_owned(),
            n => format!("{n} jobs lost"),
        };
        let workers = match missing {
            0 => String::new(),
            n => format!(", {n} of {} not rejoined", counted(self.workers, "worker")),
        };
        let names: Vec<String> =
            lost.iter().take(MAX_JOBS).map(|job| format!("{} ({})", job.key, job.owner)).collect();
        let named = match lost.len().saturating_sub(MAX_JOBS) {
            _ if lost.is_empty() => String::new(),
            0 => format!(": {}", names.join(", ")),
            more => format!(": {}, +{more}", names.join(", ")),
        };
        let long = format!("Ray was restarted {who}; {jobs}{named}{workers}");
        let hint = match (lost.first(), &self.by) {
            (None, _) => Hint::none(),
            (Some(_), RestartedBy::Operator(who)) => {
                format!(
                    "their operation may still be restoring jobs; ask {who} before you resubmit any"
                )
                .into()
            }
            (Some(job), _) => format!(
                "find out who restarted it, and resubmit the lost jobs; their logs are on the head in /tmp/ray/{}/logs",
                job.session
            )
            .into(),
        };
        let severity = match (&lost[..], missing, &self.by) {
            ([], 0, _) => Severity::Info,
            ([_, ..], _, RestartedBy::Unknown) => Severity::Bad,
            _ => Severity::Warn,
        };
        let short = format!("{jobs}{workers}");
        Some(Finding::new(FindingKind::Restarted, severity, Some(self.since), short, long, hint))
    }
}

fn living_workers(snapshot: &Snapshot) -> usize {
    snapshot.nodes.iter().filter(|n| !n.is_head && n.state != NodeState::Dead).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobStatus, MissingPart};

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_795_000_000_000).plus(Duration::from_secs(secs))
    }

    fn job(id: &str, status: JobStatus) -> Arc<Job> {
        Arc::new(Job::sample(id, status))
    }

    fn state(session: &str, secs: u64, jobs: Vec<Arc<Job>>) -> Snapshot {
        Snapshot { session: session.into(), taken: at(secs), jobs: Arc::new(jobs), ..Snapshot::default() }
    }

    #[test]
    fn a_new_session_names_the_lost_jobs() {
        use JobStatus::{Failed, Running};
        let before = state("old", 0, vec![job("a", Running), job("b", Running), job("c", Failed)]);
        let now = state("new", 60, vec![job("b", Running)]);
        assert_eq!(Restart::between(&before, &before, RestartedBy::Unknown), None);
        assert_eq!(Restart::between(&state("", 0, vec![]), &now, RestartedBy::Unknown), None);
        let restart = Restart::between(&before, &now, RestartedBy::Unknown).unwrap();
        let found = restart.finding(&now).unwrap();
        assert_eq!((found.severity, found.short.as_str()), (Severity::Bad, "1 job lost"));
        assert_eq!(found.long, "Ray was restarted outside this console; 1 job lost: a (owner unknown)");
        assert!(found.hint.to_string().contains("/tmp/ray/old/logs"), "{found:?}");
        let why = |id: &str| restart.why_lost(&SubmissionId(id.into()), &now.jobs);
        assert!(why("a").unwrap().contains("job-driver-a.log"));
        assert_eq!((why("b"), why("c")), (None, None), "it came back; it had ended before");
        assert_eq!(restart.finding(&state("new", 3660, vec![])), None, "no longer recent");
        let unread = Snapshot {
            missing: vec![MissingPart { part: SnapshotPart::Jobs, why: "timed out".into() }],
            ..now.clone()
        };
        assert_eq!(restart.finding(&unread), None, "what could not be read is not lost");
        // A second restart, by us: the jobs of the first are still lost.
        let third = state("third", 120, vec![job("b", Running)]);
        let again = Restart::between(&now, &third, RestartedBy::Us)
            .unwrap()
            .after(Some(restart.clone()), &third.jobs);
        assert_eq!(again.finding(&third).unwrap().short, "1 job lost");
        assert!(
            again.why_lost(&SubmissionId("a".into()), &third.jobs).unwrap().contains("/tmp/ray/old/logs")
        );
        let by_us = Restart { by: RestartedBy::Us, ..restart };
        assert_eq!(by_us.finding(&now), None, "its operation reports it");
    }
}
