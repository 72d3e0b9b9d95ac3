//! The vitals of one job, over many readings of the end of its driver's log.

use super::saved::Saved;
use super::tail::Tail;
use super::track::{Key, Track};
use crate::logs::{Clock, Patterns, Phase, Progress, Times, Writers, checkpoint, prefixed};
use crate::model::amount::grouped;
use crate::model::vitals::{loss, rate_was};
use crate::model::{
    Holding, Job, JobActivity, Line, LogRead, Run, Sign, SignKind, Text, Timestamp, VitalLimits, Vitals, Wait,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Tasks and writers that are distinguished; a driver's log has the lines of all workers.
const TRACKS: usize = 64;
/// Losses for a sparkline.
const LOSSES: usize = 24;
/// Progress lines of one place of the log's past.
const PAST: usize = 10;
/// Checkpoints that have to be known before the next one can be late.
const CHECKPOINTS: u32 = 2;
/// After so long a second look tells more than the first, also of a run that sometimes pauses for longer.
const SHORT: Duration = Duration::from_secs(60);
/// A processor that works less, in percent, does nothing.
const IDLE_CPU: f64 = 3.0;
/// The same of a chip.
const IDLE_CHIP: f64 = 1.0;

/// How often a job is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Once, for a command.
    Once,
    /// Again and again, for a screen: nothing is called stalled before a second look.
    Often,
}

/// What is known of one job.
#[derive(Clone, Debug)]
pub struct VitalsTracker {
    limits: VitalLimits,
    looks: Sampling,
    patterns: Patterns,
    tail: Tail,
    unfinished: Option<Line>,
    writers: Writers,
    tracks: Vec<Track>,
    phase: Option<(Phase, Option<Timestamp>)>,
    saved: Saved,
    /// When the job began: older times in its log are those of something else.
    begun: Option<Timestamp>,
    /// Every line since then was read.
    whole: Option<Timestamp>,
    /// Time of the newest line, by the log's clock.
    logged: Option<Timestamp>,
    /// Time of the newest progress line, by the log's clock.
    stepped: Option<Timestamp>,
    /// When new lines and new progress lines were last seen, by ours.
    grown: Option<Timestamp>,
    moved: Option<Timestamp>,
    /// The last reading that left lines out and brought no progress line: there may have been one among those.
    unread: Option<Timestamp>,
    /// How old the newest progress line was at the readings that brought one, at least: a clock that is that late.
    behind: Option<Duration>,
    readings: u32,
    /// The first reading, and the last one. Of its log nothing is known after that.
    read: Option<(Timestamp, Timestamp)>,
    /// The last attempt to read it.
    tried: Option<Timestamp>,
    /// Whether a sign was found in its log.
    is_sick: bool,
    /// Whether it has held chips, or had tasks or actors.
    had_work: bool,
    alone: Option<Timestamp>,
    idle: Option<(Timestamp, u32)>,
}

impl VitalsTracker {
    /// Of a job of which nothing was read.
    pub fn new(limits: VitalLimits, looks: Sampling) -> Self {
        Self {
            limits,
            looks,
            patterns: Patterns::default(),
            tail: Tail::default(),
            unfinished: None,
            writers: Writers::default(),
            tracks: Vec::new(),
            phase: None,
            saved: Saved::default(),
            begun: None,
            whole: None,
            logged: None,
            stepped: None,
            grown: None,
            moved: None,
            unread: None,
            behind: None,
            readings: 0,
            read: None,
            tried: None,
            is_sick: false,
            had_work: false,
            alone: None,
            idle: None,
        }
    }

    /// The same, which knows progress lines by these patterns.
    #[must_use]
    pub fn knowing(mut self, patterns: Patterns) -> Self {
        self.patterns = patterns;
        self
    }

    /// Adds the last lines of the driver's log, by this clock, and what stands behind the last line break: a bar
    /// that overwrites itself never ends its line.
    pub fn read(&mut self, lines: &[Line], unfinished: Option<&Line>, clock: Clock) {
        let new = self.tail.compare(lines);
        let mut times = Times::new(clock);
        let before = self.moved;
        if new.is_gapped {
            self.skip();
        }
        for (at, line) in lines.iter().enumerate() {
            // Known lines bring the times of those behind them.
            let said = times.said(line.text());
            if at < new.known {
                continue;
            }
            if at == new.known && (new.is_gapped || self.readings == 0) {
                self.whole = times.last();
            }
            // The time of a line above may be hours old: a line that says none is as new as the reading that brings it, and of
            // those of the first reading nothing is known.
            let time = said.or_else(|| (self.readings > 0).then_some(clock.near));
            // Its autoscaler and raylets write into the logs of all drivers, also of one that hangs.
            if prefixed(line.text()).writer.is_some_and(|writer| writer.is_of_ray()) {
                continue;
            }
            self.logged = self.logged.max(time);
            self.grown = Some(clock.near);
            self.line(line.text(), time, clock.near);
        }
        if unfinished.is_some() && unfinished != self.unfinished.as_ref() {
            self.grown = Some(clock.near);
            if let Some(progress) = unfinished.and_then(|line| self.patterns.read(line.text())) {
                (self.moved, self.stepped) = (Some(clock.near), Some(clock.near));
                self.progress(unfinished.map_or("", Line::text), &progress, Some(clock.near));
            }
        }
        self.unfinished = unfinished.cloned();
        if new.is_gapped && self.moved == before {
            self.unread = Some(clock.near);
        }
        if let (true, Some(stepped)) = (self.readings > 0 && self.moved != before, self.stepped) {
            let age = stepped.age(clock.near);
            self.behind = Some(self.behind.map_or(age, |least| least.min(age)));
        }
        self.readings = self.readings.saturating_add(1);
        self.read = Some((self.read.map_or(clock.near, |(first, _)| first), clock.near));
        self.tried = Some(clock.near);
    }

    /// Adds what stands at some places of the log before the lines of the first reading: a run that became slower, or whose
    /// loss rose, before anybody looked is known by what it did earlier. The lines of each place are whole; `first` are the
    /// lines that are read after it.
    pub fn past(&mut self, places: &[Vec<Line>], first: &[Line], clock: Clock) {
        let mut times = Times::new(clock);
        let Some(mut next) = first.iter().find_map(|line| times.said(line.text())) else { return };
        let mut timed: Vec<Vec<(&Line, Timestamp)>> = Vec::new();
        // From the last one on: a clock without a date is near that of the lines behind it.
        for place in places.iter().rev() {
            let mut times = Times::behind(clock, Some(next));
            let lines: Vec<_> =
                place.iter().filter_map(|line| Some((line, times.said(line.text())?))).collect();
            // What the first reading has, too, or what seems to be later says nothing of the past.
            if lines.last().is_some_and(|(_, at)| *at < next) {
                next = lines[0].1;
                timed.push(lines);
            }
        }
        for lines in timed.iter().rev() {
            let found: Vec<_> = lines
                .iter()
                .filter_map(|(line, at)| Some((line.text(), self.patterns.read(line.text())?, *at)))
                .collect();
            for (line, progress, at) in found.iter().step_by(found.len().div_ceil(PAST).max(1)) {
                self.skip();
                self.progress(line, progress, Some(*at));
            }
        }
        self.skip();
    }

    /// Lines were left out behind the last one.
    fn skip(&mut self) {
        self.tracks.iter_mut().for_each(|track| track.skips = true);
    }

    /// Its log could not be read: it may have none yet.
    pub fn missed(&mut self, now: Timestamp) {
        self.tried = Some(now);
    }

    /// When its log was last read, or could not be; none before.
    pub const fn tried(&self) -> Option<Timestamp> {
        self.tried
    }

    /// Whether anything of its log was read.
    pub const fn was_read(&self) -> bool {
        self.read.is_some()
    }

    /// Whether it writes so much beside its progress lines that the few last lines may have none of them.
    pub const fn is_chatty(&self) -> bool {
        self.unread.is_some()
    }

    /// Whether a sign was found in its log.
    pub const fn is_sick(&self) -> bool {
        self.is_sick
    }

    /// Whether it seems to have stopped by one reading alone: another one tells.
    pub fn is_doubtful(&self) -> bool {
        let Some((_, read)) = self.read else { return false };
        let patience = self.main().and_then(|track| track.patience(self.limits.stalled));
        let seems = self.age(read).zip(patience).is_some_and(|(age, patience)| age >= patience);
        seems && !self.is_seen_twice()
    }

    /// Until when its log is known; now, where it was never read.
    fn seen(&self, now: Timestamp) -> Timestamp {
        self.read.map_or(now, |(_, last)| last)
    }

    fn line(&mut self, line: &str, time: Option<Timestamp>, now: Timestamp) {
        if let Some(phase) = Phase::of(line) {
            self.phase = Some((phase, time));
        } else if let Some(step) = checkpoint(line) {
            self.saved.push(step, time);
        } else if let Some(progress) = self.patterns.read(line) {
            self.stepped = self.stepped.max(time);
            self.moved = Some(now);
            self.progress(line, &progress, time);
        }
    }

    fn progress(&mut self, line: &str, progress: &Progress<'_>, time: Option<Timestamp>) {
        let writer = prefixed(line).writer.map_or(0, |writer| 1 + self.writers.number(&writer));
        let is_it = |track: &Track| track.key.writer == writer && track.key.task == *progress.task;
        let at = match self.tracks.iter().position(is_it) {
            Some(at) => at,
            None if self.tracks.len() < TRACKS => {
                let key = Key { task: progress.task.clone().into_owned(), writer };
                self.tracks.push(Track::new(key));
                self.tracks.len() - 1
            }
            None => return,
        };
        self.tracks[at].push(progress, time, &self.limits);
    }

    /// Adds the figures of machines that it holds: how much a processor and a chip work, in percent, at most.
    pub fn measured(&mut self, chip: Option<f64>, cpu: Option<f64>, now: Timestamp) {
        let is_idle = chip.map_or_else(|| cpu.map(|cpu| cpu <= IDLE_CPU), |chip| Some(chip <= IDLE_CHIP));
        match (is_idle, &mut self.idle) {
            (Some(true), Some((_, looks))) => *looks = looks.saturating_add(1),
            (Some(true), none) => *none = Some((now, 1)),
            (Some(false), some) => *some = None,
            (None, _) => {}
        }
    }

    /// Whether its machines' figures would say more: it holds chips, and no step of it was seen for a while.
    pub fn wants_figures(&self, now: Timestamp) -> bool {
        let seen = self.seen(now);
        !self.limits.idle.is_zero() && self.moved.is_none_or(|at| at.age(seen) > self.limits.idle / 3)
    }

    /// The track that says how the run goes: it trains, has the most lines, and is ahead of the others.
    fn main(&self) -> Option<&Track> {
        let step = |track: &Track| track.series.last().and_then(|last| last.step);
        // About as many lines are as many: a reading begins anywhere.
        self.tracks.iter().max_by_key(|track| (track.trains(), track.lines.max(1).ilog2(), step(track)))
    }

    /// A time of its log; none that is older than the job: a program may print the log of a run before it.
    fn of_job(&self, time: Option<Timestamp>) -> Option<Timestamp> {
        time.filter(|at| self.begun.is_none_or(|begun| *at >= begun))
    }

    /// How long ago the newest progress line was written, as far as all lines since then were read; none without one.
    fn age(&self, now: Timestamp) -> Option<Duration> {
        let seen = self.moved?.age(now);
        let said = self.of_job(self.stepped);
        let said = said.map(|at| at.age(now).saturating_sub(self.behind.unwrap_or_default()));
        let age = said.map_or(seen, |said| said.max(seen));
        let unread = self.unread.filter(|at| self.moved < Some(*at));
        Some(unread.map_or(age, |at| age.min(at.age(now))))
    }

    /// The vitals, with what Ray says of the job's driver; none when Ray's lists were cut.
    pub fn vitals(&mut self, job: &Job, holding: Option<&Holding>, now: Timestamp) -> Vitals {
        self.begun = job.started;
        let holds = holding.map(|holding| held(job, holding));
        let is_held = holds.as_ref().is_some_and(|holds| chips(holds) > 0.0);
        let log = match (self.read, job.submission_id()) {
            (Some((_, last)), _) => LogRead::At(last),
            (None, Some(_)) => LogRead::Unread,
            (None, None) => LogRead::None,
        };
        let works = holding.is_some_and(|holding| holding.tasks + holding.actors > 0);
        let is_alone = holding.is_some_and(|holding| holding.waits.is_empty()) && !works && !is_held;
        self.had_work |= works && is_held;
        self.alone = if is_alone { self.alone.or(Some(now)) } else { None };
        if !is_held {
            self.idle = None;
        }
        let doing = self.doing(holding, is_held, is_alone, now);
        let since = match &doing {
            JobActivity::Waits(wait) => wait.since,
            JobActivity::DriverOnly => self.alone,
            JobActivity::Compiles => self.phase.and_then(|(_, at)| at),
            JobActivity::Silent(at) => Some(*at),
            JobActivity::Steps | JobActivity::Works { .. } => None,
        };
        let mut signs = self.signs(&doing, (is_held, works), is_alone, now);
        // What its machines do not show may be in a log that nobody has read yet.
        signs.retain(|sign| sign.kind != SignKind::ChipsIdle || log != LogRead::Unread);
        self.is_sick = signs.iter().any(|sign| sign.kind.is_of_log());
        let restarts = self.main().map_or(0, |track| track.restarts);
        Vitals {
            read: now,
            log,
            doing,
            since,
            holds,
            nodes: holding.map(|holding| holding.nodes.iter().copied().collect()).unwrap_or_default(),
            waits: holding.map(|holding| holding.waits.clone()).unwrap_or_default(),
            run: self.run(self.seen(now)),
            logged: self.of_job(self.logged),
            restarts: restarts.max(holding.map_or(0, |holding| holding.restarts)),
            signs,
        }
    }

    fn doing(&self, holding: Option<&Holding>, is_held: bool, is_alone: bool, now: Timestamp) -> JobActivity {
        let waits =
            holding.and_then(|holding| holding.waits.iter().find(|wait| !is_held && is_for_chips(wait)));
        // Without tasks and actors that run it waits for whatever it waits for.
        let idle = |holding: &&Holding| holding.tasks + holding.actors == 0;
        let waits = waits.or_else(|| holding.filter(idle).and_then(|holding| holding.waits.first()));
        if let Some(wait) = waits {
            return JobActivity::Waits(wait.clone());
        }
        // What its log does not say after its last reading is no silence.
        let seen = self.seen(now);
        let (age, patience) = (self.age(seen), self.main().and_then(|t| t.patience(self.limits.stalled)));
        let is_fresh = age.zip(patience).is_none_or(|(age, patience)| age < patience);
        if is_alone && !(age.is_some() && is_fresh) {
            return JobActivity::DriverOnly;
        }
        if self.compiles() {
            return JobActivity::Compiles;
        }
        let quiet = self.grown.map_or(Duration::ZERO, |at| at.age(seen));
        let logged = self.of_job(self.logged);
        let quiet = logged.map_or(quiet, |at| quiet.max(at.age(seen)));
        match age {
            Some(_) if !is_fresh && self.is_seen_twice() && patience.is_some_and(|p| quiet >= p) => {
                JobActivity::Silent(logged.or(self.grown).unwrap_or(seen))
            }
            Some(_) => JobActivity::Steps,
            None => JobActivity::Works {
                tasks: holding.map_or(0, |holding| holding.tasks),
                actors: holding.map_or(0, |holding| holding.actors),
            },
        }
    }

    /// Whether it was looked at over a time in which it would have written something: one look may have come between two
    /// lines of a log whose clock is another one.
    fn is_seen_twice(&self) -> bool {
        let gap = self.main().map_or(Duration::ZERO, |track| track.gap).min(SHORT);
        let watched = self.read.map_or(Duration::ZERO, |(first, last)| first.age(last));
        self.looks == Sampling::Once || self.readings > 1 && watched >= gap
    }

    /// Whether it prepares its first step: a line with a step 0 may come before that is done.
    fn compiles(&self) -> bool {
        let Some((phase, at)) = self.phase.filter(|(phase, _)| *phase < Phase::Running) else { return false };
        let last = self.main().and_then(|track| track.series.last());
        match last {
            None => true,
            Some(last) => {
                last.time < at || last.step.is_some_and(|step| step <= 1) && phase > Phase::FirstStep
            }
        }
    }

    fn run(&self, now: Timestamp) -> Option<Run> {
        let track = self.main()?;
        let (series, last) = (&track.series, track.series.last()?);
        let left = series.remaining(now);
        Some(Run {
            step: last.step,
            total: series.total(),
            loss: last.loss.or_else(|| series.points().iter().rev().find_map(|point| point.loss)),
            losses: series.losses(LOSSES),
            rate: track.pace.rate().or_else(|| series.rate()),
            usual_rate: track.pace.usual(),
            ends: left.map(|left| now.plus(left)),
            at: last.time,
            checkpoint: self.saved.last,
        })
    }

    fn signs(
        &self,
        doing: &JobActivity,
        (is_held, works): (bool, bool),
        is_alone: bool,
        now: Timestamp,
    ) -> Vec<Sign> {
        let runs = matches!(doing, JobActivity::Steps | JobActivity::Silent(_) | JobActivity::Works { .. });
        let seen = self.seen(now);
        let stalled = self.stalled(doing, seen).filter(|_| runs && (works || is_held));
        let is_moving = stalled.is_none() && *doing == JobActivity::Steps;
        let slowed = self.slowed().filter(|_| is_moving);
        let late = self.late(seen).filter(|_| is_moving);
        let found = [
            self.not_finite(seen).filter(|_| runs),
            stalled,
            self.diverging(seen).filter(|_| runs),
            self.abandoned(is_alone, doing, now),
            self.unused(is_held, doing, now),
            slowed,
            late,
            self.waiting(doing, now),
        ];
        found.into_iter().flatten().collect()
    }

    fn not_finite(&self, now: Timestamp) -> Option<Sign> {
        let first = self.main()?.trend.not_finite()?;
        let evidence = format!("loss {}{}", loss(first.value), at_step(first.step));
        Some(Sign { kind: SignKind::NotFinite, since: first.at.unwrap_or(now), evidence })
    }

    fn diverging(&self, now: Timestamp) -> Option<Sign> {
        let track = self.main()?;
        let found = track.trend.diverging()?;
        let newest = track.series.last().and_then(|last| last.loss).unwrap_or(found.first.value);
        let from = found
            .first
            .step
            .map(|step| format!(" until step {}", grouped(step as usize)))
            .unwrap_or_default();
        let evidence = format!("loss {}, was {}{from}", loss(newest), loss(found.trend));
        Some(Sign { kind: SignKind::Diverging, since: found.first.at.unwrap_or(now), evidence })
    }

    fn stalled(&self, doing: &JobActivity, now: Timestamp) -> Option<Sign> {
        let (track, age) = (self.main()?, self.age(now)?);
        let patience = track.patience(self.limits.stalled)?;
        (age >= patience && self.is_seen_twice()).then_some(())?;
        let steps = self.run(now).map(|run| run.steps()).unwrap_or_default();
        let log = if matches!(doing, JobActivity::Silent(_)) {
            "its log has no new lines"
        } else {
            "its log has new lines"
        };
        let since = self.of_job(self.stepped).or(self.moved).unwrap_or(now);
        Some(Sign { kind: SignKind::Stalled, since, evidence: format!("at {steps}, {log}") })
    }

    fn slowed(&self) -> Option<Sign> {
        let pace = &self.main()?.pace;
        let (slow, now) = (pace.slow()?, pace.rate()?);
        let less = (1.0 - now / slow.usual) * 100.0;
        let evidence = format!("{} ({less:.0}% slower)", rate_was(now, slow.usual));
        Some(Sign { kind: SignKind::Slowed, since: slow.since, evidence })
    }

    fn late(&self, now: Timestamp) -> Option<Sign> {
        let (saved, limit) = (self.saved, self.limits.checkpoint);
        let last = saved.last.filter(|_| saved.count >= CHECKPOINTS && !limit.is_zero())?;
        // Behind a part that was not read nothing is known of checkpoints before it.
        let since = last.at?.max(self.whole?);
        (since.age(now) >= limit.max(saved.longest * 3)).then_some(())?;
        let evidence = format!("no checkpoint since the last one{}", at_step(last.step));
        Some(Sign { kind: SignKind::CheckpointLate, since, evidence })
    }

    fn abandoned(&self, is_alone: bool, doing: &JobActivity, now: Timestamp) -> Option<Sign> {
        let (limit, since) = (self.limits.driver, self.alone.filter(|_| is_alone && self.had_work)?);
        let is_late = !limit.is_zero() && *doing == JobActivity::DriverOnly && since.age(now) >= limit;
        let evidence = "it has no running or pending tasks or actors".to_owned();
        is_late.then_some(Sign { kind: SignKind::DriverAlone, since, evidence })
    }

    fn unused(&self, is_held: bool, doing: &JobActivity, now: Timestamp) -> Option<Sign> {
        let (limit, (since, looks)) = (self.limits.idle, self.idle.filter(|_| is_held)?);
        let is_quiet = self.grown.is_none_or(|at| at.age(self.seen(now)) >= limit)
            && !matches!(doing, JobActivity::Compiles);
        let is_idle = !limit.is_zero() && is_quiet && looks > 2 && since.age(now) >= limit;
        let log = if self.read.is_some() { ", and its log has no new line" } else { "" };
        let evidence = format!("its machines are idle{log}");
        is_idle.then_some(Sign { kind: SignKind::ChipsIdle, since, evidence })
    }

    fn waiting(&self, doing: &JobActivity, now: Timestamp) -> Option<Sign> {
        let JobActivity::Waits(wait) = doing else { return None };
        let (limit, since) = (self.limits.pending, wait.since?);
        let is_late = !limit.is_zero() && since.age(now) >= limit;
        let evidence = crate::model::vitals::need(&wait.shape);
        is_late.then_some(Sign { kind: SignKind::WaitsLong, since, evidence })
    }
}

fn at_step(step: Option<u64>) -> String {
    step.map(|step| format!(" at step {step}")).unwrap_or_default()
}

/// What a job holds: its entrypoint, its tasks and its actors.
fn held(job: &Job, holding: &Holding) -> Vec<(Text, f64)> {
    let mut all: BTreeMap<&str, f64> = holding.holds.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    for (name, n) in job.requested.iter().flatten() {
        *all.entry(name.raw()).or_default() += n;
    }
    all.into_iter().map(|(name, n)| (Text::from(name), n)).collect()
}

fn chips(holds: &[(Text, f64)]) -> f64 {
    holds.iter().filter(|(name, _)| matches!(name.raw(), "TPU" | "GPU")).map(|(_, n)| n).sum()
}

/// Whether it waits for chips, or for the head of a slice.
fn is_for_chips(wait: &Wait) -> bool {
    let is_chip = |name: &str| matches!(name, "TPU" | "GPU") || name.starts_with("TPU-");
    wait.shape.iter().any(|(name, _)| is_chip(name.raw()))
}

#[cfg(test)]
mod tests;
