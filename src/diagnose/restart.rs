//! A new Ray session on a head: Ray was restarted, and its nodes and jobs are gone with the old session.

use super::{Finding, FindingKind, Severity};
use crate::model::{Job, JobKey, NodeState, Snapshot, SubmissionId, Text, Timestamp};
use std::collections::HashSet;
use std::time::Duration;

/// A restart is shown for this long.
pub const RECENT: Duration = Duration::from_secs(3600);
/// The head's clock is believed if it differs no more than this from ours.
const CLOCKS: Duration = Duration::from_secs(300);
/// Jobs and workers that are named; the others are counted.
const NAMED: usize = 3;

/// Who restarted Ray, as far as it is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartedBy {
    /// An operation of this program.
    Us,
    /// The operator whose mark was on the cluster, `user@host`.
    Operator(Text),
    /// Somebody else, or Ray ended by itself and was started again.
    Unknown,
}

/// One restart, and what ran before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When the new session began: the head's start if its clock can be believed, otherwise when it was first seen.
    pub since: Timestamp,
    /// Who did it.
    pub by: RestartedBy,
    /// `session_name` of the old session: its logs are in a folder of that name on the head.
    pub old_session: Text,
    /// Jobs of the old session that had not ended, with their owners' words.
    jobs: Vec<(JobKey, String)>,
    /// Addresses of workers of the old session that were alive.
    workers: Vec<Text>,
}

impl Restart {
    /// The restart that lies between two states of one cluster; none when both are of the same session.
    pub fn between(before: &Snapshot, now: &Snapshot, by: RestartedBy) -> Option<Self> {
        if before.session.is_empty() || now.session.is_empty() || before.session == now.session {
            return None;
        }
        let head = now.nodes.iter().find(|n| n.is_head && n.state.is_alive());
        let believed = |at: &Timestamp| {
            before.taken.age(at.plus(CLOCKS)) > Duration::ZERO
                && at.age(now.taken.plus(CLOCKS)) > Duration::ZERO
        };
        let since = head.and_then(|n| n.started).filter(believed).unwrap_or(now.taken);
        let open = before.jobs.iter().filter(|job| !job.status.is_ended());
        let alive = before.nodes.iter().filter(|n| !n.is_head && n.state != NodeState::Dead);
        Some(Self {
            since,
            by,
            old_session: before.session.clone(),
            jobs: open.map(|job| (job.key.clone(), job.owner_words())).collect(),
            workers: alive.map(|n| n.address.clone()).collect(),
        })
    }

    /// Whether it is still news when a state was taken.
    pub fn is_recent(&self, taken: Timestamp) -> bool {
        self.since.age(taken) < RECENT
    }

    /// Why a job is not there any more, if this restart has ended it.
    pub fn why_lost(&self, id: &SubmissionId, jobs: &[std::sync::Arc<Job>]) -> Option<String> {
        let is_it = |key: &JobKey| matches!(key, JobKey::Submission(known) if known == id);
        if !self.jobs.iter().any(|(key, _)| is_it(key)) || jobs.iter().any(|job| is_it(&job.key)) {
            return None;
        }
        Some(id.lost_with(&self.old_session))
    }

    /// Jobs that did not come back.
    fn lost(&self, now: &Snapshot) -> Vec<String> {
        let there: HashSet<&JobKey> = now.jobs.iter().map(|job| &job.key).collect();
        let gone = self.jobs.iter().filter(|(key, _)| !there.contains(key));
        gone.map(|(key, owner)| format!("{key} ({owner})")).collect()
    }

    /// Workers that did not come back.
    fn missing(&self, now: &Snapshot) -> Vec<String> {
        let alive = now.nodes.iter().filter(|n| n.state != NodeState::Dead);
        let there: HashSet<&Text> = alive.map(|n| &n.address).collect();
        self.workers.iter().filter(|w| !there.contains(w)).map(ToString::to_string).collect()
    }

    /// What is to be known of it; nothing of one of our own, which its operation reports.
    pub(super) fn finding(&self, now: &Snapshot) -> Option<Finding> {
        let who = match &self.by {
            RestartedBy::Us => return None,
            RestartedBy::Operator(who) => format!("by {who}"),
            RestartedBy::Unknown => "not by this console".to_owned(),
        };
        if !self.is_recent(now.taken) {
            return None;
        }
        let (lost, missing) = (self.lost(now), self.missing(now));
        let jobs = match lost.len() {
            0 => "no job lost".to_owned(),
            1 => "1 job lost".to_owned(),
            n => format!("{n} jobs lost"),
        };
        let workers = match missing.len() {
            0 => String::new(),
            n => format!(", {n} of {} workers not back", self.workers.len()),
        };
        let named = |all: &[String]| match all.len().saturating_sub(NAMED) {
            _ if all.is_empty() => String::new(),
            0 => format!(": {}", all.join(", ")),
            more => format!(": {}, +{more}", all[..NAMED].join(", ")),
        };
        let long = format!("Ray was restarted {who}; {jobs}{}{workers}{}", named(&lost), named(&missing));
        let mend = if lost.is_empty() {
            String::new()
        } else {
            format!(
                "ask who restarted it, and submit the lost jobs again; their logs are on the head in /tmp/ray/{}/logs",
                self.old_session
            )
        };
        let severity = match (lost.is_empty(), missing.is_empty()) {
            (false, _) => Severity::Bad,
            (true, false) => Severity::Warn,
            (true, true) => Severity::Info,
        };
        let short = format!("{jobs}{workers}");
        Some(Finding::new(FindingKind::Restarted, severity, Some(self.since), short, long, mend))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobStatus;
    use std::sync::Arc;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_795_000_000_000).plus(Duration::from_secs(secs))
    }

    fn job(id: &str, status: JobStatus) -> Arc<Job> {
        Arc::new(Job {
            key: JobKey::Submission(SubmissionId(id.into())),
            driver: None,
            status,
            entrypoint: Text::default(),
            message: Text::default(),
            error_type: Text::default(),
            started: None,
            ended: None,
            metadata: Vec::new(),
            driver_node: None,
            exit_code: None,
        })
    }

    fn state(session: &str, secs: u64, jobs: Vec<Arc<Job>>) -> Snapshot {
        Snapshot { session: session.into(), taken: at(secs), jobs: Arc::new(jobs), ..Snapshot::default() }
    }

    #[test]
    fn a_new_session_names_the_jobs_that_did_not_come_back() {
        use JobStatus::{Failed, Running};
        let before = state("old", 0, vec![job("a", Running), job("b", Running), job("c", Failed)]);
        let now = state("new", 60, vec![job("b", Running)]);
        assert_eq!(Restart::between(&before, &before, RestartedBy::Unknown), None);
        assert_eq!(Restart::between(&state("", 0, vec![]), &now, RestartedBy::Unknown), None);
        let restart = Restart::between(&before, &now, RestartedBy::Unknown).unwrap();
        let found = restart.finding(&now).unwrap();
        assert_eq!((found.severity, found.short.as_str()), (Severity::Bad, "1 job lost"));
        assert_eq!(found.long, "Ray was restarted not by this console; 1 job lost: a (owner unknown)");
        assert!(found.mend.contains("/tmp/ray/old/logs"), "{found:?}");
        let why = |id: &str| restart.why_lost(&SubmissionId(id.into()), &now.jobs);
        assert!(why("a").unwrap().contains("job-driver-a.log"));
        assert_eq!((why("b"), why("c")), (None, None), "it came back; it had ended before");
        assert_eq!(restart.finding(&state("new", 3660, vec![])), None, "old news");
        let by_us = Restart { by: RestartedBy::Us, ..restart };
        assert_eq!(by_us.finding(&now), None, "its operation reports it");
    }
}
