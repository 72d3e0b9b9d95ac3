//! Findings about single jobs: the signs in their vitals, and jobs that wait for too long.

use super::{Finding, FindingKind, Pending, Severity, Subject};
use crate::model::amount::counted;
use crate::model::sort;
use crate::model::{
    ClusterVitals, Fix, Hint, Job, JobKey, JobStatus, RunWarning, Snapshot, Timestamp, Verb, Vitals,
    WarningKind,
};
use std::time::Duration;

/// Maximum number of waiting jobs that are named.
const MAX_JOBS: usize = 3;
/// Maximum number of kinds of signs in a summary.
const MAX_KINDS: usize = 2;

/// The findings about the jobs of a state, worst first. Before the vitals were read, only pending jobs have findings.
/// `why` returns why a job is pending.
pub fn of_jobs<'w>(
    snapshot: &Snapshot,
    cluster_vitals: &ClusterVitals,
    why: impl Fn(&JobKey) -> Option<&'w Pending>,
) -> Vec<Finding> {
    let is_fresh = cluster_vitals.is_fresh(snapshot.taken);
    let mut signs: Vec<(&RunWarning, &Job, &Vitals)> = Vec::new();
    let mut waits: Vec<(Timestamp, &Job, String)> = Vec::new();
    for job in snapshot.jobs.iter() {
        if let Some(since) = pending_too_long(job, cluster_vitals.limits.pending, snapshot.taken) {
            let words = why(&job.key).map_or_else(String::new, |why| why.text.clone());
            waits.push((since, job, words));
        }
        // The vitals of a job that has ended since then no longer apply.
        let vitals =
            cluster_vitals.jobs.get(&job.key).filter(|_| is_fresh && job.status == JobStatus::Running);
        for (sign, vitals) in vitals.iter().flat_map(|vitals| vitals.signs.iter().map(move |s| (s, vitals))) {
            if sign.kind == WarningKind::PendingTooLong {
                waits.push((sign.since, job, format!("waits for {}", sign.evidence)));
            } else {
                signs.push((sign, job, vitals));
            }
        }
    }
    sort::by_key(&mut signs, |(sign, job, _)| (sign.kind, sign.since, &job.key));
    let mut found: Vec<Finding> =
        signs.into_iter().map(|(sign, job, vitals)| of_sign(sign, job, vitals)).collect();
    found.extend(waiting(waits));
    sort::by_key(&mut found, |f| f.severity);
    found
}

/// Since when a job has been pending, if for at least `limit`; a limit of zero disables this.
pub fn pending_too_long(job: &Job, limit: Duration, now: Timestamp) -> Option<Timestamp> {
    let is_late = |at: &Timestamp| !limit.is_zero() && at.age(now) >= limit;
    job.started.filter(is_late).filter(|_| job.status == JobStatus::Pending)
}

fn of_sign(sign: &RunWarning, job: &Job, vitals: &Vitals) -> Finding {
    let short = format!("{} ({})", job.key, job.owner_label());
    let chips = vitals.chips().map(|(name, n)| format!(", {n:.0} {name}")).unwrap_or_default();
    let long = format!(
        "{} of {}{chips}: {}; clears {}",
        job.key,
        job.owner_label(),
        sign.evidence,
        cleared(sign.kind)
    );
    Finding::new(
        kind(sign.kind),
        sign_severity(sign.kind),
        Some(sign.since),
        short,
        long,
        hint(sign.kind, job),
    )
    .about(Subject::Job(job.key.clone()))
}

const fn kind(sign: WarningKind) -> FindingKind {
    match sign {
        WarningKind::NotFinite => FindingKind::LossNotFinite,
        WarningKind::Stalled => FindingKind::Stalled,
        WarningKind::Diverging => FindingKind::Diverging,
        WarningKind::DriverAlone => FindingKind::DriverAlone,
        WarningKind::ChipsIdle => FindingKind::ChipsIdle,
        WarningKind::Slowed => FindingKind::Slowed,
        WarningKind::CheckpointOverdue => FindingKind::CheckpointOverdue,
        WarningKind::PendingTooLong => FindingKind::PendingTooLong,
    }
}

/// The severity of a sign: [`Severity::Bad`] if the run no longer makes useful progress.
pub const fn sign_severity(sign: WarningKind) -> Severity {
    match sign {
        WarningKind::NotFinite | WarningKind::Stalled => Severity::Bad,
        _ => Severity::Warn,
    }
}

/// The number of unhealthy runs in a few words: `2 runs stalled, 1 run slowed`; `None` if there are none. The worst
/// kinds come first; waiting jobs do not count.
pub fn unhealthy_runs(findings: &[Finding]) -> Option<String> {
    let words = WarningKind::ALL.into_iter().filter_map(|sign| {
        let kind = kind(sign);
        let n = findings.iter().filter(|finding| finding.kind == kind && finding.job().is_some()).count();
        (n > 0).then(|| format!("{} {}", counted(n, "run"), how(sign)))
    });
    let words: Vec<String> = words.take(MAX_KINDS).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The sign as an attribute of a run.
const fn how(sign: WarningKind) -> &'static str {
    match sign {
        WarningKind::NotFinite => "with a loss that is not finite",
        WarningKind::Stalled => "stalled",
        WarningKind::Diverging => "diverging",
        WarningKind::DriverAlone => "without workers",
        WarningKind::ChipsIdle => "idle",
        WarningKind::Slowed => "slowed",
        WarningKind::CheckpointOverdue => "without checkpoints",
        WarningKind::PendingTooLong => "waiting",
    }
}

/// What clears the finding, to follow `clears`.
const fn cleared(sign: WarningKind) -> &'static str {
    match sign {
        WarningKind::NotFinite => "with a finite loss",
        WarningKind::Stalled => "with the next step",
        WarningKind::Diverging => "when the loss is back at its trend",
        WarningKind::DriverAlone => "when it starts tasks or actors, or the job ends",
        WarningKind::ChipsIdle => "when its machines are busy again, or its log has a new line",
        WarningKind::Slowed => "after three checks at the previous rate",
        WarningKind::CheckpointOverdue => "with the next checkpoint",
        WarningKind::PendingTooLong => "when it gets the resources that it waits for",
    }
}

fn hint(sign: WarningKind, job: &Job) -> Hint {
    let id = job.key.to_string();
    let stacks = |purpose: &str| Verb::JobStacks.on(&id, purpose);
    let log = |purpose: &str| Verb::JobLog.on(&id, purpose);
    match sign {
        WarningKind::Stalled | WarningKind::ChipsIdle => {
            [stacks("find the worker whose stack differs"), log("read the last lines of the job's log")]
                .into()
        }
        WarningKind::Slowed => stacks("find the worker whose stack differs").into(),
        WarningKind::DriverAlone => {
            [log("find out why its workers ended"), Fix::from("stop the job if nothing is left to do")].into()
        }
        WarningKind::NotFinite | WarningKind::Diverging => [
            log("read the last lines of the job's log"),
            Fix::from("restart the run from an earlier checkpoint"),
        ]
        .into(),
        WarningKind::CheckpointOverdue => log("check whether saving a checkpoint fails").into(),
        WarningKind::PendingTooLong => Hint::none(),
    }
}

/// One finding for all waiting jobs, longest wait first.
fn waiting(mut waits: Vec<(Timestamp, &Job, String)>) -> Option<Finding> {
    sort::by(&mut waits, |a, b| (a.0, &a.1.key).cmp(&(b.0, &b.1.key)));
    let (since, first, why) = waits.first()?;
    // What it waits for, without numbers that change: this text identifies the finding.
    let what = why.split([':', ';', ',']).next().unwrap_or_default();
    let first_text = if what.is_empty() { first.key.to_string() } else { format!("{what} ({})", first.key) };
    let short = match waits.len() {
        1 => first_text,
        n => format!("{first_text}, +{}", n - 1),
    };
    let named = waits.iter().take(MAX_JOBS).map(|(_, job, why)| match why.as_str() {
        "" => job.key.to_string(),
        why => format!("{} {why}", job.key),
    });
    let more = waits.len().saturating_sub(MAX_JOBS);
    let named: Vec<String> = named.chain((more > 0).then(|| format!("and {more} more"))).collect();
    // The finding's kind already says that they are pending.
    let long = match waits.len() {
        1 => named.join("; "),
        n => format!("{}: {}", counted(n, "job"), named.join("; ")),
    };
    let hint = Verb::ExplainJob.on(&first.key.to_string(), "see which node types it could run on");
    let found = Finding::new(FindingKind::PendingTooLong, Severity::Warn, Some(*since), short, long, hint);
    Some(found.of_all(waits.iter().map(|(_, job, _)| &job.key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobActivity, VitalLimits};
    use std::sync::Arc;

    fn at(minute: u64) -> Timestamp {
        Timestamp::from_millis(1_795_000_000_000).plus(Duration::from_secs(minute * 60))
    }

    fn sign(kind: WarningKind, minute: u64) -> RunWarning {
        RunWarning { kind, since: at(minute), evidence: "at step 812, its log has no new lines".into() }
    }

    /// The findings at minute 100 of jobs with these signs, whose vitals were read at minute `read`.
    fn found(jobs: &[(&str, JobStatus, Vec<RunWarning>)], read: u64) -> Vec<Finding> {
        let job = |id: &str, status| Job { started: Some(at(20)), ..Job::sample(id, status) };
        let list: Vec<Arc<Job>> = jobs.iter().map(|(id, status, _)| Arc::new(job(id, *status))).collect();
        let vitals = |signs: &Vec<RunWarning>| Vitals {
            signs: signs.clone(),
            ..Vitals::sample(JobActivity::Training, at(read))
        };
        let cluster_vitals = ClusterVitals {
            read: Some(at(read)),
            jobs: list
                .iter()
                .zip(jobs)
                .map(|(job, (.., s))| (job.key.clone(), Arc::new(vitals(s))))
                .collect(),
            limits: VitalLimits::default(),
            ..ClusterVitals::default()
        };
        let snapshot = Snapshot { taken: at(100), jobs: Arc::new(list), ..Snapshot::default() };
        of_jobs(&snapshot, &cluster_vitals, |_| None)
    }

    #[test]
    fn a_warning_becomes_a_finding_with_its_time_evidence_and_hint() {
        use JobStatus::Running;
        let all = found(
            &[
                ("a", Running, vec![sign(WarningKind::Slowed, 50)]),
                ("b", Running, vec![sign(WarningKind::Stalled, 78)]),
            ],
            99,
        );
        let kinds: Vec<_> = all.iter().map(|f| (f.kind, f.severity, f.since)).collect();
        assert_eq!(
            kinds,
            [
                (FindingKind::Stalled, Severity::Bad, Some(at(78))),
                (FindingKind::Slowed, Severity::Warn, Some(at(50)))
            ]
        );
        assert!(
            all[0].short.starts_with("b (")
                && all[0].long.contains("no new lines; clears with the next step"),
            "{all:?}"
        );
        assert!(!all[0].hint.is_empty());
    }

    #[test]
    fn unhealthy_runs_are_counted_the_worst_first_and_waiting_ones_are_not() {
        use JobStatus::Running;
        let of = |jobs: &[(&str, WarningKind)]| {
            let jobs: Vec<_> = jobs.iter().map(|(id, kind)| (*id, Running, vec![sign(*kind, 50)])).collect();
            unhealthy_runs(&found(&jobs, 99))
        };
        let (slowed, stalled, late) =
            (WarningKind::Slowed, WarningKind::Stalled, WarningKind::CheckpointOverdue);
        let all = of(&[("a", slowed), ("b", stalled), ("c", stalled), ("d", late)]);
        assert_eq!(all.as_deref(), Some("2 runs stalled, 1 run slowed"));
        assert_eq!(of(&[("a", WarningKind::PendingTooLong)]), None);
        assert_eq!(unhealthy_runs(&[]), None);
    }

    #[test]
    fn ended_jobs_and_old_vitals_have_no_findings() {
        let signs = || vec![sign(WarningKind::Stalled, 10)];
        assert!(found(&[("a", JobStatus::Failed, signs())], 99).is_empty());
        assert!(found(&[("a", JobStatus::Running, signs())], 60).is_empty(), "read long ago");
        assert!(found(&[("a", JobStatus::Running, Vec::new())], 99).is_empty(), "healthy");
    }

    #[test]
    fn a_pending_job_is_found_where_no_job_runs_and_no_vitals_are_read() {
        let job = Job { started: Some(at(20)), ..Job::sample("a", JobStatus::Pending) };
        let of = |limits| {
            let snapshot = Snapshot {
                taken: at(100),
                jobs: Arc::new(vec![Arc::new(job.clone())]),
                ..Snapshot::default()
            };
            of_jobs(&snapshot, &ClusterVitals { limits, ..ClusterVitals::default() }, |_| None)
        };
        let found = of(VitalLimits::default());
        assert_eq!(
            (found.len(), found[0].kind, found[0].since),
            (1, FindingKind::PendingTooLong, Some(at(20)))
        );
        assert!(
            of(VitalLimits { pending: Duration::ZERO, ..VitalLimits::default() }).is_empty(),
            "turned off"
        );
    }

    #[test]
    fn jobs_that_wait_for_long_are_one_finding() {
        use JobStatus::{Pending, Running};
        let waits = || vec![RunWarning { evidence: "v4-256".into(), ..sign(WarningKind::PendingTooLong, 5) }];
        let all =
            found(&[("a", Pending, Vec::new()), ("b", Running, waits()), ("c", Pending, Vec::new())], 99);
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!(
            (one.kind, one.since, one.short.as_str()),
            (FindingKind::PendingTooLong, Some(at(5)), "waits for v4-256 (b), +2")
        );
        assert!(one.long.starts_with("3 jobs: b waits for"), "{one:?}");
    }
}
