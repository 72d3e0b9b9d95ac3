//! The warnings of a job's vitals: what must be true for each, and its evidence.

use super::VitalsTracker;
use crate::model::amount::grouped;
use crate::model::vitals::{loss, rate_was};
use crate::model::{JobActivity, RunWarning, Timestamp, WarningKind};

/// Number of checkpoints that must be known before the next one can be late.
const MIN_CHECKPOINTS: u32 = 2;

impl VitalsTracker {
    /// The warnings of the job at this time.
    pub(super) fn signs(
        &self,
        activity: &JobActivity,
        (is_held, works): (bool, bool),
        is_alone: bool,
        now: Timestamp,
    ) -> Vec<RunWarning> {
        let runs =
            matches!(activity, JobActivity::Training | JobActivity::Silent(_) | JobActivity::Running { .. });
        let seen = self.seen(now);
        let stalled = self.stalled(activity, seen).filter(|_| runs && (works || is_held));
        let is_moving = stalled.is_none() && *activity == JobActivity::Training;
        let slowed = self.slowed().filter(|_| is_moving);
        let late = self.late(seen).filter(|_| is_moving);
        let found = [
            self.not_finite(seen).filter(|_| runs),
            stalled,
            self.diverging(seen).filter(|_| runs),
            self.abandoned(is_alone, activity, now),
            self.unused(is_held, activity, now),
            slowed,
            late,
            self.waiting(activity, now),
        ];
        found.into_iter().flatten().collect()
    }

    fn not_finite(&self, now: Timestamp) -> Option<RunWarning> {
        let first = self.main()?.trend.not_finite()?;
        let evidence = format!("loss {}{}", loss(first.value), at_step(first.step));
        Some(RunWarning { kind: WarningKind::NotFinite, since: first.at.unwrap_or(now), evidence })
    }

    fn diverging(&self, now: Timestamp) -> Option<RunWarning> {
        let track = self.main()?;
        let found = track.trend.diverging()?;
        let newest = track.series.last().and_then(|last| last.loss).unwrap_or(found.first.value);
        let from = found
            .first
            .step
            .map(|step| format!(" until step {}", grouped(step as usize)))
            .unwrap_or_default();
        let evidence = format!("loss {}, was {}{from}", loss(newest), loss(found.trend));
        Some(RunWarning { kind: WarningKind::Diverging, since: found.first.at.unwrap_or(now), evidence })
    }

    fn stalled(&self, activity: &JobActivity, now: Timestamp) -> Option<RunWarning> {
        let (age, limit) = (self.age(now)?, self.stall_limit()?);
        (age >= limit && self.is_seen_twice()).then_some(())?;
        let steps = self.run(now).map(|run| run.steps()).unwrap_or_default();
        let log = if matches!(activity, JobActivity::Silent(_)) {
            "its log has no new lines"
        } else {
            "its log has new lines"
        };
        let since = self.of_job(self.stepped).or(self.moved).unwrap_or(now);
        Some(RunWarning { kind: WarningKind::Stalled, since, evidence: format!("at {steps}, {log}") })
    }

    fn slowed(&self) -> Option<RunWarning> {
        let pace = &self.main()?.pace;
        let (slow, now) = (pace.slow()?, pace.rate()?);
        let less = (1.0 - now / slow.typical) * 100.0;
        let evidence = format!("{} ({less:.0}% slower)", rate_was(now, slow.typical));
        Some(RunWarning { kind: WarningKind::Slowed, since: slow.since, evidence })
    }

    fn late(&self, now: Timestamp) -> Option<RunWarning> {
        let (saved, limit) = (self.saved, self.limits.checkpoint);
        let last = saved.last.filter(|_| saved.count >= MIN_CHECKPOINTS && !limit.is_zero())?;
        // Checkpoints before a part that was not read are unknown.
        let since = last.at?.max(self.whole?);
        (since.age(now) >= limit.max(saved.longest * 3)).then_some(())?;
        let evidence = format!("no checkpoint since the previous one{}", at_step(last.step));
        Some(RunWarning { kind: WarningKind::CheckpointOverdue, since, evidence })
    }

    fn abandoned(&self, is_alone: bool, activity: &JobActivity, now: Timestamp) -> Option<RunWarning> {
        let (limit, since) = (self.limits.driver, self.alone.filter(|_| is_alone && self.had_work)?);
        let is_late = !limit.is_zero() && *activity == JobActivity::DriverOnly && since.age(now) >= limit;
        let evidence = "it has no running or pending tasks or actors".to_owned();
        is_late.then_some(RunWarning { kind: WarningKind::DriverAlone, since, evidence })
    }

    fn unused(&self, is_held: bool, activity: &JobActivity, now: Timestamp) -> Option<RunWarning> {
        let (limit, (since, samples)) = (self.limits.idle, self.idle.filter(|_| is_held)?);
        let is_quiet = self.grown.is_none_or(|at| at.age(self.seen(now)) >= limit)
            && !matches!(activity, JobActivity::Compiling);
        let is_idle = !limit.is_zero() && is_quiet && samples > 2 && since.age(now) >= limit;
        let log = if self.read.is_some() { ", and its log has no new line" } else { "" };
        let evidence = format!("its machines are idle{log}");
        is_idle.then_some(RunWarning { kind: WarningKind::ChipsIdle, since, evidence })
    }

    fn waiting(&self, activity: &JobActivity, now: Timestamp) -> Option<RunWarning> {
        let JobActivity::Waiting(wait) = activity else { return None };
        let (limit, since) = (self.limits.pending, wait.since?);
        let is_late = !limit.is_zero() && since.age(now) >= limit;
        let evidence = crate::model::vitals::need(&wait.shape);
        is_late.then_some(RunWarning { kind: WarningKind::PendingTooLong, since, evidence })
    }
}

fn at_step(step: Option<u64>) -> String {
    step.map(|step| format!(" at step {step}")).unwrap_or_default()
}
