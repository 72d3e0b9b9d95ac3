//! The vitals of one job, over many readings of the end of its driver's log.

mod warnings;

use super::saved::Saved;
use super::tail::Tail;
use super::track::{Key, Track, Written};
use crate::logs::{Clock, Patterns, Phase, Progress, Times, Writers, checkpoint, prefixed};
use crate::model::amount::is_chip;
use crate::model::sort;
use crate::model::{
    Holding, Job, JobActivity, Line, LogRead, Run, Text, Timestamp, VitalLimits, Vitals, Wait, WarningKind,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of tasks and writers that are distinguished; a driver's log has the lines of all workers.
const MAX_TRACKS: usize = 64;
/// Number of losses in a sparkline.
const MAX_LOSSES: usize = 24;
/// Maximum number of progress lines that are used from one earlier part of the log.
const MAX_PAST_LINES: usize = 10;
/// A second reading after this time is conclusive, even for a run that sometimes pauses for longer.
const CONCLUSIVE_GAP: Duration = Duration::from_secs(60);
/// A processor at or below this utilization, in percent, is idle.
const IDLE_CPU: f64 = 3.0;
/// The same for a chip.
const IDLE_CHIP: f64 = 1.0;

/// How often a job is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Once, for a command.
    Once,
    /// Repeatedly, for a screen: nothing is reported as stalled before a second reading.
    Often,
}

/// Tracks the vitals of one job.
#[derive(Clone, Debug)]
pub struct VitalsTracker {
    limits: VitalLimits,
    sampling: Sampling,
    patterns: Patterns,
    tail: Tail,
    unfinished: Option<Line>,
    writers: Writers,
    tracks: Vec<Track>,
    /// Number of progress lines that were added to tracks.
    progress_lines: u64,
    /// Number of readings and samples of the past that had such lines.
    parts: u32,
    /// The timestamp of the first progress line since lines were last skipped.
    since: Option<Timestamp>,
    phase: Option<(Phase, Option<Timestamp>)>,
    saved: Saved,
    /// When the job began: older times in its log do not belong to it.
    begun: Option<Timestamp>,
    /// The time since which every line was read.
    whole: Option<Timestamp>,
    /// Time of the newest line, by the log's clock.
    logged: Option<Timestamp>,
    /// Time of the newest progress line, by the log's clock.
    stepped: Option<Timestamp>,
    /// When new lines and new progress lines were last seen, by our clock.
    grown: Option<Timestamp>,
    moved: Option<Timestamp>,
    /// The last reading that skipped lines and contained no progress line: the skipped lines may have had one.
    unread: Option<Timestamp>,
    /// The minimum age of the newest progress line at the readings that brought one: the log's clock is behind by that.
    behind: Option<Duration>,
    readings: u32,
    /// The first and the last reading of its log. Nothing is known of its log after that.
    read: Option<(Timestamp, Timestamp)>,
    /// The last attempt to read its log.
    tried: Option<Timestamp>,
    /// Whether a sign was found in its log.
    has_log_warning: bool,
    /// Whether it has held chips, or had tasks or actors.
    had_work: bool,
    alone: Option<Timestamp>,
    idle: Option<(Timestamp, u32)>,
}

impl VitalsTracker {
    /// A tracker for a job of which nothing was read yet.
    pub fn new(limits: VitalLimits, sampling: Sampling) -> Self {
        Self {
            limits,
            sampling,
            patterns: Patterns::default(),
            tail: Tail::default(),
            unfinished: None,
            writers: Writers::default(),
            tracks: Vec::new(),
            progress_lines: 0,
            parts: 0,
            since: None,
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
            has_log_warning: false,
            had_work: false,
            alone: None,
            idle: None,
        }
    }

    /// Sets the patterns that recognize progress lines.
    #[must_use]
    pub fn knowing(mut self, patterns: Patterns) -> Self {
        self.patterns = patterns;
        self
    }

    /// Adds the last lines of the driver's log, whose times are read with `clock`, and the text after the last line
    /// break: a bar that overwrites itself never ends its line.
    pub fn read(&mut self, lines: &[Line], unfinished: Option<&Line>, clock: Clock) {
        let new = self.tail.compare(lines);
        let mut times = Times::new(clock);
        let (before, lines_before) = (self.moved, self.progress_lines);
        if new.is_gapped {
            self.skip();
        }
        for (at, line) in lines.iter().enumerate() {
            // The times of known lines are needed for those after them.
            let stamp = times.stamp(line.text());
            if at < new.known {
                continue;
            }
            if at == new.known && (new.is_gapped || self.readings == 0) {
                self.whole = None;
            }
            self.whole = self.whole.or(times.last());
            // The time of a line above may be hours old: a line without a timestamp is as new as the reading that
            // brings it; in the first reading, its time is unknown.
            let time = stamp.or_else(|| (self.readings > 0).then_some(clock.near));
            // Ray's autoscaler and raylets write to the logs of all drivers, even to that of a driver that hangs.
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
                (self.moved, self.stepped, self.idle) = (Some(clock.near), Some(clock.near), None);
                self.progress(unfinished.map_or("", Line::text), &progress, Some(clock.near), clock.near);
            }
        }
        self.unfinished = unfinished.cloned();
        self.end_part(lines_before);
        if new.is_gapped && self.moved == before {
            self.unread = Some(clock.near);
        }
        if let (true, Some(stepped)) = (self.readings > 0 && self.moved != before, self.stepped) {
            let age = stepped.age(clock.near);
            self.behind = Some(self.behind.map_or(age, |least| least.min(age)));
        }
        // Our clock may have been set back since then.
        for at in [&mut self.moved, &mut self.grown, &mut self.unread] {
            *at = at.map(|at| at.min(clock.near));
        }
        self.readings = self.readings.saturating_add(1);
        self.read = Some((self.read.map_or(clock.near, |(first, _)| first.min(clock.near)), clock.near));
        self.tried = Some(clock.near);
    }

    /// Adds samples of the log from before the first reading: a run that became slower, or whose loss rose, before then
    /// is recognized by its earlier figures. The lines of each sample are complete; `first` are the lines of the first
    /// reading, which are added after this.
    pub fn past(&mut self, samples: &[Vec<Line>], first: &[Line], clock: Clock) {
        let mut times = Times::new(clock);
        let Some(mut next) = first.iter().find_map(|line| times.stamp(line.text())) else { return };
        let mut timed: Vec<Vec<(&Line, Timestamp)>> = Vec::new();
        // From the last sample backwards: the date of a time without one is taken from the lines after it.
        for sample in samples.iter().rev() {
            let mut times = Times::beside(clock, Some(next));
            let lines: Vec<_> =
                sample.iter().filter_map(|line| Some((line, times.stamp(line.text())?))).collect();
            // Lines that the first reading contains as well, or that seem to be later, are not from the past.
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
            let lines_before = self.progress_lines;
            for (line, progress, at) in found.iter().step_by(found.len().div_ceil(MAX_PAST_LINES).max(1)) {
                self.skip();
                self.progress(line, progress, Some(*at), clock.near);
            }
            self.end_part(lines_before);
        }
        self.skip();
    }

    /// Records that lines after the last one were skipped.
    fn skip(&mut self) {
        self.since = None;
        self.tracks.iter_mut().for_each(|track| track.skips = true);
    }

    /// Counts a part of the log that was read, if it had progress lines: `lines_before` is their number before it.
    const fn end_part(&mut self, lines_before: u64) {
        if self.progress_lines > lines_before {
            self.parts = self.parts.saturating_add(1);
        }
    }

    /// Records that its log could not be read; it may have none yet.
    pub fn missed(&mut self, now: Timestamp) {
        self.tried = Some(now);
    }

    /// The last attempt to read its log, successful or not; `None` before the first.
    pub const fn tried(&self) -> Option<Timestamp> {
        self.tried
    }

    /// Whether anything of its log was read.
    pub const fn was_read(&self) -> bool {
        self.read.is_some()
    }

    /// Whether it writes so many other lines that its last few lines may contain no progress line.
    pub const fn is_chatty(&self) -> bool {
        self.unread.is_some()
    }

    /// Whether a sign was found in its log.
    pub const fn has_log_warning(&self) -> bool {
        self.has_log_warning
    }

    /// Whether it seems to have stopped according to a single reading, so that another one is needed.
    pub fn is_doubtful(&self) -> bool {
        let Some((_, read)) = self.read else { return false };
        let seems = self.age(read).zip(self.stall_limit()).is_some_and(|(age, limit)| age >= limit);
        seems && !self.is_seen_twice()
    }

    /// The time until which its log is known; `now` if it was never read.
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
            (self.moved, self.idle) = (Some(now), None);
            self.progress(line, &progress, time, now);
        }
    }

    fn progress(&mut self, line: &str, progress: &Progress<'_>, time: Option<Timestamp>, now: Timestamp) {
        let writer = prefixed(line).writer.map_or(0, |writer| 1 + self.writers.number(&writer));
        // The time of a line without a timestamp is that of the reading.
        let stamp = time.filter(|at| *at != now);
        let number = self.progress_lines.saturating_add(1);
        self.since = self.since.or(stamp);
        let written = Written { number, stamp, read: now, part: self.parts, since: self.since };
        let is_of_writer = |track: &Track| track.key.writer == writer && track.takes(progress);
        let known = self.tracks.iter().enumerate().filter(|(_, track)| is_of_writer(track));
        let known = known.max_by_key(|(_, track)| track.fit(progress)).map(|(at, _)| at);
        let at = known.or_else(|| {
            let key = Key { task: progress.task.clone().into_owned(), writer };
            self.add(Track::new(key, written))
        });
        let Some(at) = at else { return };
        self.progress_lines = written.number;
        self.tracks[at].push(progress, time, &self.limits, written);
    }

    /// Adds a track, and returns its index. If there are too many, it replaces one that has ended; `None` if all of
    /// them are still written: with more writers than tracks, each would otherwise begin again with each of its lines.
    fn add(&mut self, track: Track) -> Option<usize> {
        if self.tracks.len() < MAX_TRACKS {
            self.tracks.push(track);
            return Some(self.tracks.len() - 1);
        }
        let has_ended =
            |old: &Track| old.is_done() || old.has_ended(track.last) || (track.trains && !old.trains);
        let ended = self.tracks.iter().enumerate().filter(|(_, old)| has_ended(old));
        let oldest = ended.min_by_key(|(_, old)| (old.trains && !old.is_done(), old.last.number));
        let at = oldest.map(|(at, _)| at)?;
        self.tracks[at] = track;
        Some(at)
    }

    /// Adds the utilization of its machines: the maximum of their chips and of their processors, in percent.
    pub fn measured(&mut self, chip: Option<f64>, cpu: Option<f64>, now: Timestamp) {
        let is_idle = chip.map_or_else(|| cpu.map(|cpu| cpu <= IDLE_CPU), |chip| Some(chip <= IDLE_CHIP));
        match (is_idle, &mut self.idle) {
            (Some(true), Some((since, samples))) => {
                *since = (*since).min(now);
                *samples = samples.saturating_add(1);
            }
            (Some(true), none) => *none = Some((now, 1)),
            (Some(false), some) => *some = None,
            (None, _) => {}
        }
    }

    /// Whether its machines' utilization should be read: no step was seen for a third of the idle limit.
    pub fn wants_figures(&self, now: Timestamp) -> bool {
        let seen = self.seen(now);
        !self.limits.idle.is_zero() && self.moved.is_none_or(|at| at.age(seen) > self.limits.idle / 3)
    }

    /// The track that represents the run: it trains, is still written, has the most lines, and is ahead of the others.
    fn main(&self) -> Option<&Track> {
        let trains = self.tracks.iter().any(|track| track.trains);
        let of_kind = || self.tracks.iter().filter(move |track| track.trains == trains);
        let newest = of_kind().max_by_key(|track| track.last.number)?;
        // An evaluation between two steps may take long, whatever the name of its bar is. A bar without losses that
        // was given up, such as that of loading data, is not continued after a training.
        let is_paused = |track: &Track| {
            track.key.writer == newest.key.writer
                && track.is_unfinished()
                && (track.has_loss || !newest.has_loss)
                && !of_kind().any(|other| other.replaces(track))
        };
        let is_current = |track: &&Track| !track.has_ended(newest.last) || is_paused(track);
        let current: Vec<&Track> = of_kind().filter(is_current).collect();
        // The bar of the previous epoch, or of an evaluation between two steps.
        let is_over = |track: &Track| {
            let goes_on = |other: &Track| other.key.writer == track.key.writer && other.is_unfinished();
            track.is_done() && current.iter().any(|other| goes_on(other))
        };
        let step = |track: &Track| track.series.last().and_then(|last| last.step);
        // Numbers of lines are compared roughly, because a reading begins anywhere.
        let rank = |track: &Track| (!is_over(track), track.lines.max(1).ilog2(), step(track));
        current.iter().copied().max_by_key(|track| rank(track))
    }

    /// How long the run must be silent to count as stalled; `None` if it never does. A retry or an epoch that has
    /// written only a few lines is compared with those before it.
    fn stall_limit(&self) -> Option<Duration> {
        let (main, limit) = (self.main()?, self.limits.stalled);
        if main.is_done() || !main.has_few_lines() {
            return main.stall_limit(limit);
        }
        self.tracks.iter().filter_map(|track| track.limit_for(main, limit)).max()
    }

    /// A time in its log; `None` if it is older than the job, because a program may print the log of an earlier run.
    fn of_job(&self, time: Option<Timestamp>) -> Option<Timestamp> {
        time.filter(|at| self.begun.is_none_or(|begun| *at >= begun))
    }

    /// The age of the newest progress line, limited to the time since lines were last skipped; `None` without one.
    fn age(&self, now: Timestamp) -> Option<Duration> {
        let seen = self.moved?.age(now);
        let written = self.of_job(self.stepped);
        let written = written.map(|at| at.age(now).saturating_sub(self.behind.unwrap_or_default()));
        let age = written.map_or(seen, |written| written.max(seen));
        let unread = self.unread.filter(|at| self.moved < Some(*at));
        Some(unread.map_or(age, |at| age.min(at.age(now))))
    }

    /// The vitals, with what Ray reports about the job's driver; `holding` is `None` if Ray's lists were truncated.
    pub fn vitals(&mut self, job: &Job, holding: Option<&Holding>, now: Timestamp) -> Vitals {
        self.begun = job.started;
        let holds = holding.map(|holding| held(job, holding));
        let is_held = holding.is_some_and(|holding| held_chips(job, Some(holding)) > 0.0);
        let log = match (self.read, job.submission_id()) {
            (Some((_, last)), _) => LogRead::At(last),
            (None, Some(_)) => LogRead::Unread,
            (None, None) => LogRead::None,
        };
        let works = holding.is_some_and(|holding| holding.tasks + holding.actors > 0);
        let is_alone = holding.is_some_and(|holding| holding.waits.is_empty()) && !works && !is_held;
        self.had_work |= works && is_held;
        self.alone = is_alone.then(|| self.alone.map_or(now, |at| at.min(now)));
        if !is_held {
            self.idle = None;
        }
        let activity = self.activity(holding, is_held, is_alone, now);
        let since = match &activity {
            JobActivity::Waiting(wait) => wait.since,
            JobActivity::DriverOnly => self.alone,
            JobActivity::Compiling => self.phase.and_then(|(_, at)| at),
            JobActivity::Silent(at) => Some(*at),
            JobActivity::Training | JobActivity::Running { .. } => None,
        };
        let run = self.run(self.seen(now));
        let run = if matches!(activity, JobActivity::Waiting(_)) { run.as_ref().map(left_of) } else { run };
        let mut signs = self.signs(&activity, (is_held, works), is_alone, now);
        // A log that was not read yet may show what its machines do not.
        signs.retain(|sign| sign.kind != WarningKind::ChipsIdle || log != LogRead::Unread);
        self.has_log_warning = signs.iter().any(|sign| sign.kind.is_of_log());
        let restarts = self.main().map_or(0, |track| track.restarts);
        Vitals {
            read: now,
            log,
            activity,
            since,
            holds,
            nodes: holding.map(|holding| holding.nodes.iter().copied().collect()).unwrap_or_default(),
            waits: holding.map(|holding| holding.waits.clone()).unwrap_or_default(),
            run,
            logged: self.of_job(self.logged),
            restarts: restarts.max(holding.map_or(0, |holding| holding.restarts)),
            signs,
        }
    }

    fn activity(
        &self,
        holding: Option<&Holding>,
        is_held: bool,
        is_alone: bool,
        now: Timestamp,
    ) -> JobActivity {
        let waits =
            holding.and_then(|holding| holding.waits.iter().find(|wait| !is_held && is_for_chips(wait)));
        // Without running tasks and actors, it waits for its first wait, whatever that is.
        let idle = |holding: &&Holding| holding.tasks + holding.actors == 0;
        let waits = waits.or_else(|| holding.filter(idle).and_then(|holding| holding.waits.first()));
        if let Some(wait) = waits {
            return JobActivity::Waiting(wait.clone());
        }
        // The time since the last reading of its log does not count as silence.
        let seen = self.seen(now);
        let (age, limit) = (self.age(seen), self.stall_limit());
        let is_fresh = age.zip(limit).is_none_or(|(age, limit)| age < limit);
        if is_alone && !(age.is_some() && is_fresh) {
            return JobActivity::DriverOnly;
        }
        if self.compiles() {
            return JobActivity::Compiling;
        }
        let quiet = self.grown.map_or(Duration::ZERO, |at| at.age(seen));
        let logged = self.of_job(self.logged);
        let quiet = logged.map_or(quiet, |at| quiet.max(at.age(seen)));
        match age {
            Some(_) if !is_fresh && self.is_seen_twice() && limit.is_some_and(|limit| quiet >= limit) => {
                JobActivity::Silent(logged.or(self.grown).unwrap_or(seen))
            }
            Some(_) => JobActivity::Training,
            None => JobActivity::Running {
                tasks: holding.map_or(0, |holding| holding.tasks),
                actors: holding.map_or(0, |holding| holding.actors),
            },
        }
    }

    /// Whether it was read over a period in which it would have written something: a single reading may have come
    /// between two lines of a log with a different clock.
    fn is_seen_twice(&self) -> bool {
        let gap = self.main().map_or(Duration::ZERO, |track| track.gap).min(CONCLUSIVE_GAP);
        let watched = self.read.map_or(Duration::ZERO, |(first, last)| first.age(last));
        self.sampling == Sampling::Once || self.readings > 1 && watched >= gap
    }

    /// Whether it is preparing its first step; a line with step 0 may come before that is done.
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
            losses: series.losses(MAX_LOSSES),
            rate: track.pace.rate().or_else(|| series.rate()),
            typical_rate: track.pace.typical(),
            ends: left.map(|left| now.plus(left)),
            at: last.time,
            checkpoint: self.saved.last,
        })
    }
}

/// What is left of a run whose job waits for resources again: its figures are those of workers that are gone.
fn left_of(run: &Run) -> Run {
    Run { at: run.at, checkpoint: run.checkpoint, ..Run::default() }
}

/// The resources that a job holds: those of its entrypoint, its tasks and its actors.
fn held(job: &Job, holding: &Holding) -> Vec<(Text, f64)> {
    let mut all: BTreeMap<&str, f64> =
        sort::collected(holding.holds.iter().map(|(name, n)| (name.as_str(), *n)));
    for (name, n) in job.requested.iter().flatten() {
        *all.entry(name.raw()).or_default() += n;
    }
    all.into_iter().map(|(name, n)| (Text::from(name), n)).collect()
}

/// Number of chips that a job holds: those of its entrypoint, its tasks and its actors.
pub fn held_chips(job: &Job, holding: Option<&Holding>) -> f64 {
    let own = job.requested.iter().flatten().map(|(name, n)| (name.raw(), *n));
    let held = holding.into_iter().flat_map(|holding| holding.holds.iter().map(|(name, n)| (&**name, *n)));
    own.chain(held).filter(|(name, _)| is_chip(name)).map(|(_, n)| n).sum()
}

/// Whether it waits for chips, or for the head of a slice.
fn is_for_chips(wait: &Wait) -> bool {
    wait.shape.iter().any(|(name, _)| is_chip(name.raw()) || name.raw().starts_with("TPU-"))
}

#[cfg(test)]
mod tests;
