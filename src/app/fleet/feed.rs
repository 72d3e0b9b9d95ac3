//! Changes in the fleet as plain lines, one per change: for screen readers and pipes.
//!
//! It reads the same state and findings as the screen and compares them with what it last reported. Its memory is
//! bounded by the state itself.

use crate::app::Cluster;
use crate::diagnose::{Finding, FindingKind, Severity};
use crate::model::amount::counted;
use crate::model::fix::Target;
use crate::model::text::printable;
use crate::model::{ClusterName, Job, JobKey, JobStatus, Link, Liveness, Problem, SnapshotPart, Timestamp};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of lines about jobs per state; the others are only counted.
const MAX_LINES: usize = 20;

/// Maximum number of names that are added to an issue that is reported again.
const MAX_NAMES: usize = 3;

/// What was reported about each cluster.
#[derive(Debug, Default)]
pub struct Feed {
    reported: HashMap<ClusterName, Reported>,
    /// Whether jobs are shown by their short names, as in the jobs pane.
    is_brief: bool,
}

/// What was reported about one cluster.
#[derive(Debug, Default)]
struct Reported {
    link: Option<Reach>,
    /// Whether a state was known.
    known: bool,
    issues: Vec<Issue>,
    /// The list of jobs as last compared: the same list has no changes.
    jobs: Option<Arc<Vec<Arc<Job>>>>,
    /// Id, step and liveness of another operator's operation, and its text.
    operation: Option<((String, usize, bool), String)>,
}

/// An issue that was reported.
#[derive(Debug)]
struct Issue {
    kind: FindingKind,
    /// The job that it concerns.
    job: Option<JobKey>,
    severity: Severity,
    /// What it concerns, if that is several things.
    members: Vec<String>,
}

impl Issue {
    fn of(finding: &Finding) -> Self {
        let Finding { kind, severity, members, .. } = finding;
        Self { kind: *kind, job: finding.job().cloned(), severity: *severity, members: members.clone() }
    }

    fn is(&self, other: &Self) -> bool {
        self.kind == other.kind && self.job == other.job
    }

    /// What it concerns that was not reported before.
    fn joined_since<'i>(&'i self, earlier: Option<&Self>) -> Vec<&'i str> {
        let is_new = |member: &&String| earlier.is_none_or(|e| e.members.binary_search(member).is_err());
        self.members.iter().filter(is_new).map(String::as_str).collect()
    }
}

/// The state of a connection as far as it is reported.
#[derive(Debug, PartialEq, Eq)]
enum Reach {
    Up,
    Down { what: String, for_good: bool },
}

impl Feed {
    /// A feed for narrow output: what happened comes first, and jobs have their short names.
    pub fn brief() -> Self {
        Self { is_brief: true, ..Self::default() }
    }

    /// Whether the connection and the state of a cluster were reported: everything after that is a change.
    pub fn has_reported(&self, cluster: &ClusterName) -> bool {
        self.reported.get(cluster).is_some_and(|reported| reported.known && reported.link.is_some())
    }

    /// The changes of a cluster since the last call, most important first. The lines are safe to print, and each begins
    /// with the cluster's name.
    pub fn changes(&mut self, cluster: &Cluster, now: Timestamp) -> Vec<String> {
        let lines = self.changes_of(cluster, now);
        lines.iter().map(|line| format!("{}: {line}", cluster.name())).collect()
    }

    /// The same without the cluster's name.
    pub fn changes_of(&mut self, cluster: &Cluster, now: Timestamp) -> Vec<String> {
        let reported = self.reported.entry(cluster.name().clone()).or_default();
        let target = Target::of(cluster.name());
        let mut lines = Vec::new();
        lines.extend(reported.reach(cluster.link.as_ref(), target));
        reported.operation(cluster, now, &mut lines);
        if cluster.known {
            let first = !std::mem::replace(&mut reported.known, true);
            if first {
                lines.push(at_first(cluster, now));
            }
            let jobs = &cluster.snapshot.jobs;
            let named = |key: &JobKey| {
                let job = jobs.iter().find(|job| self.is_brief && job.key == *key);
                job.map_or_else(|| key.to_string(), |job| job.short_name().into_owned())
            };
            reported.issues(&cluster.findings, target, named, &mut lines);
            // If they could not be read, none has started or ended.
            if cluster.knows(SnapshotPart::Jobs) {
                reported.jobs(jobs, if self.is_brief { changed_in_brief } else { changed_job }, &mut lines);
            }
        }
        lines.iter().map(|line| printable(line).into_owned()).collect()
    }
}

impl Reported {
    fn reach(&mut self, link: Option<&Link>, target: Target<'_>) -> Option<String> {
        let down = |problem: &Problem, for_good| Reach::Down { what: problem.what.clone(), for_good };
        let (reach, hint) = match link? {
            // An attempt is not reported; its outcome is.
            Link::Connecting { .. } => return None,
            Link::Up { .. } => (Reach::Up, String::new()),
            Link::Retrying { problem, .. } => (down(problem, false), problem.hint.in_commands(target)),
            Link::Stopped { problem } => (down(problem, true), problem.hint.in_commands(target)),
        };
        if self.link.as_ref() == Some(&reach) {
            return None;
        }
        let words = match (&reach, &self.link) {
            (Reach::Up, None) => "connected".to_owned(),
            (Reach::Up, Some(_)) => "reconnected".to_owned(),
            (Reach::Down { what, for_good: false }, _) => hinted(format!("down, retrying: {what}"), &hint),
            (Reach::Down { what, for_good: true }, _) => hinted(format!("down: {what}"), &hint),
        };
        self.link = Some(reach);
        Some(words)
    }

    fn issues(
        &mut self,
        findings: &[Finding],
        target: Target<'_>,
        named: impl Fn(&JobKey) -> String,
        lines: &mut Vec<String>,
    ) {
        // A broken connection is reported separately.
        let is_reported = |f: &&Finding| f.problem.is_none() && f.severity != Severity::Info;
        let mut now: Vec<Issue> = Vec::new();
        for finding in findings.iter().filter(is_reported) {
            let issue = Issue::of(finding);
            // Of several issues of a kind and of the same job, the worst comes first.
            if now.iter().any(|other| other.is(&issue)) {
                continue;
            }
            let earlier = self.issues.iter().find(|earlier| earlier.is(&issue));
            let joined = issue.joined_since(earlier);
            if earlier.is_none_or(|earlier| earlier.severity != issue.severity) || !joined.is_empty() {
                let about = |job: &JobKey| finding.long.replace(&job.to_string(), &named(job));
                let long = finding.job().map_or_else(|| finding.long.clone(), about);
                // The text names the first members; the new ones are why the issue is reported again.
                let unnamed = joined.into_iter().filter(|name| earlier.is_some() && !long.contains(name));
                let unnamed: Vec<&str> = unnamed.take(MAX_NAMES).collect();
                let new =
                    if unnamed.is_empty() { String::new() } else { format!("; new: {}", unnamed.join(", ")) };
                let words = format!("{}: {}: {long}{new}", finding.severity.label(), finding.label());
                lines.push(hinted(words, &finding.hint.in_commands(target)));
            }
            now.push(issue);
        }
        for gone in self.issues.iter().filter(|earlier| !now.iter().any(|issue| issue.is(earlier))) {
            let of = gone.job.as_ref().map_or_else(String::new, |job| format!(": {}", named(job)));
            lines.push(format!("resolved: {}{of}", gone.kind.label()));
        }
        self.issues = now;
    }

    /// Jobs that started, ended or left the list, in the order of the lists. The first list only sets the baseline.
    fn jobs(&mut self, jobs: &Arc<Vec<Arc<Job>>>, describe: fn(&Job) -> String, lines: &mut Vec<String>) {
        let Some(before) = self.jobs.replace(Arc::clone(jobs)) else { return };
        if Arc::ptr_eq(&before, jobs) {
            return;
        }
        let was: HashMap<&JobKey, JobStatus> = before.iter().map(|job| (&job.key, job.status)).collect();
        let is: HashSet<&JobKey> = jobs.iter().map(|job| &job.key).collect();
        let changed =
            jobs.iter().filter(|job| was.get(&job.key) != Some(&job.status)).map(|job| describe(job));
        let gone = before.iter().filter(|job| !job.status.is_ended() && !is.contains(&job.key));
        let mut changes = changed.chain(gone.map(|job| format!("job {} is no longer listed", job.key)));
        lines.extend(changes.by_ref().take(MAX_LINES));
        let more = changes.count();
        if more > 0 {
            lines.push(format!("and {} changed", counted(more, "more job")));
        }
    }

    fn operation(&mut self, cluster: &Cluster, now: Timestamp, lines: &mut Vec<String>) {
        let operation = cluster.lock.as_ref().map(|lock| {
            let is_fresh = lock.liveness(now) == Liveness::Fresh;
            ((lock.id.clone(), lock.step, is_fresh), lock.brief(now))
        });
        match (&self.operation, &operation) {
            (Some((was, _)), Some((is, words))) if was != is => lines.push(format!("operation: {words}")),
            (None, Some((_, words))) => lines.push(format!("operation: {words}")),
            (Some((_, words)), None) => lines.push(format!("operation finished: {words}")),
            _ => {}
        }
        self.operation = operation;
    }
}

/// The first state as a line.
fn at_first(cluster: &Cluster, now: Timestamp) -> String {
    let (alive, pending, lost) = cluster.node_counts();
    let (running, waiting, failed) = cluster.job_counts(now);
    let of = |n: usize, words: &str| if n > 0 { format!(", {n} {words}") } else { String::new() };
    let unread = |part| cluster.unread(part).map(|missing| format!("not read ({})", missing.why));
    let nodes = unread(SnapshotPart::Nodes)
        .unwrap_or_else(|| format!("{alive} alive{}{}", of(pending, "pending"), of(lost, "lost")));
    let jobs = unread(SnapshotPart::Jobs).unwrap_or_else(|| {
        format!("{running} running{}{}", of(waiting, "pending"), of(failed, "failed in 24h"))
    });
    format!("Ray {}; nodes: {nodes}; jobs: {jobs}", cluster.snapshot.ray_version.shown())
}

/// The change of a job, beginning with what happened: `started exp1395_qwen3-4f1c (dara)`.
fn changed_in_brief(job: &Job) -> String {
    let what = match job.status {
        JobStatus::Pending => "submitted",
        JobStatus::Running => "started",
        JobStatus::Succeeded => "succeeded",
        JobStatus::Stopped => "stopped",
        JobStatus::Failed => "failed",
        JobStatus::Unknown => "unknown state",
    };
    let owner = job.owner().map_or_else(String::new, |owner| format!(" ({owner})"));
    let why = Job::in_a_line(job.message.raw()).filter(|_| job.status == JobStatus::Failed);
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("{what} {}{owner}{why}", job.short_name())
}

/// The change of a job as a sentence, with its full id.
pub(in crate::app) fn changed_job(job: &Job) -> String {
    let name = format!("job {} (owner {})", job.key, job.owner().unwrap_or("unknown"));
    match job.status {
        JobStatus::Pending => format!("{name} submitted"),
        JobStatus::Running => format!("{name} started"),
        JobStatus::Succeeded => format!("{name} succeeded"),
        JobStatus::Stopped => format!("{name} was stopped"),
        JobStatus::Failed => {
            let why = Job::in_a_line(job.message.raw()).map_or_else(String::new, |why| format!(": {why}"));
            format!("{name} failed{why}")
        }
        JobStatus::Unknown => format!("{name} is in an unknown state"),
    }
}

fn hinted(words: String, hint: &str) -> String {
    if hint.is_empty() { words } else { format!("{words}. Hint: {hint}") }
}
