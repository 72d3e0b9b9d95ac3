//! The progress of one task of one writer; a run ends when its step decreases.

use super::pace::Pace;
use super::trend::{Loss, Trend};
use crate::logs::{Progress, Series};
use crate::model::{Timestamp, VitalLimits};
use std::time::Duration;

/// Number of lines that a run must have before it can count as stalled.
const MIN_LINES: u32 = 5;

/// A task or a writer has ended if it has had no line for this long, and for twice as long as ever before, while others
/// had some.
const ENDED_AFTER: Duration = Duration::from_secs(300);
/// The same in progress lines, for lines without timestamps that one reading brought: several rounds of as many writers
/// as are distinguished.
const ENDED_LINES: u64 = 256;
/// Number of consecutive parts of the log that have no line of it, if lines between them were skipped.
const ENDED_PARTS: u32 = 2;

/// When a progress line was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Its position among the progress lines.
    pub number: u64,
    /// Its timestamp; `None` for a line without one.
    pub stamp: Option<Timestamp>,
    /// The time of the reading that brought it, by our clock.
    pub read: Timestamp,
    /// The number of parts of the log with progress lines that were read before it: readings, or samples of its past.
    pub part: u32,
    /// The timestamp of the first progress line since lines were last skipped, if any of them had one.
    pub since: Option<Timestamp>,
}

/// The task of a track (`train`, `eval`; empty if lines do not report it) and a number of the writer. Tracks without a
/// task may have the same key if their totals differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub task: String,
    pub writer: u32,
}

/// The progress of one task of one writer.
#[derive(Clone, Debug)]
pub(super) struct Track {
    pub key: Key,
    /// Whether it trains, judging by its name.
    pub trains: bool,
    /// When its newest line was written.
    pub last: Written,
    /// Whether any of its lines reported a loss.
    pub has_loss: bool,
    pub series: Series,
    pub pace: Pace,
    pub trend: Trend,
    /// Lines of this run.
    pub lines: u32,
    /// The longest time between two of them, if all lines between them were read.
    pub gap: Duration,
    /// Whether lines after the last one were skipped.
    pub skips: bool,
    /// The number of times that the step decreased.
    pub restarts: u64,
    /// The longest pause of its earlier runs, such as epochs, of those that were read from their first steps.
    earlier: Option<Duration>,
}

impl Track {
    /// A track without lines, the first of which is `last`.
    pub fn new(key: Key, last: Written) -> Self {
        let task = key.task.to_ascii_lowercase();
        let others = ["eval", "valid", "test", "predict", "load", "download"];
        Self {
            trains: !others.iter().any(|word| task.contains(word)),
            key,
            last,
            has_loss: false,
            series: Series::default(),
            pace: Pace::default(),
            trend: Trend::default(),
            lines: 0,
            gap: Duration::ZERO,
            skips: false,
            restarts: 0,
            earlier: None,
        }
    }

    /// Whether a line of its writer may be of its task. Lines without a task may be of several bars, such as Hugging
    /// Face's for training and evaluation: one with another total and a lower step is of another bar.
    pub fn takes(&self, progress: &Progress<'_>) -> bool {
        let last = self.series.last().and_then(|last| last.step);
        let is_lower = progress.step.zip(last).is_some_and(|(step, last)| step < last);
        let is_other = progress.total.zip(self.series.total()).is_some_and(|(total, own)| total != own);
        self.key.task == *progress.task && !(self.key.task.is_empty() && is_lower && is_other)
    }

    /// The rank of this track among those that may take a line: a track with the same total is best, then one whose
    /// lines have losses, because a line may report only a loss.
    pub fn fit(&self, progress: &Progress<'_>) -> (bool, bool, u32) {
        let is_same = progress.total.is_some() && progress.total == self.series.total();
        (is_same, self.has_loss, self.lines)
    }

    /// Adds a line. A step below the last one begins another run, whose history is empty.
    pub fn push(
        &mut self,
        progress: &Progress<'_>,
        at: Option<Timestamp>,
        limits: &VitalLimits,
        written: Written,
    ) {
        self.last = written;
        self.has_loss |= progress.loss.is_some();
        let (before, runs, pause) = (self.series.last(), self.series.runs(), self.pause_from_start());
        // A line with nothing but a loss belongs to the last step.
        let step = progress.step.or_else(|| before.and_then(|last| last.step));
        self.series.push(&Progress { step, ..progress.clone() }, at);
        if runs > 0 && self.series.runs() > runs {
            self.restarts += 1;
            self.earlier = self.earlier.max(pause);
            (self.pace, self.trend) = (Pace::default(), Trend::default());
            (self.lines, self.gap) = (0, Duration::ZERO);
        } else if let Some((last, now)) = before.and_then(|p| p.time).zip(at).filter(|_| !self.skips) {
            self.gap = self.gap.max(last.age(now));
        }
        self.skips = false;
        self.lines = self.lines.saturating_add(1);
        if let Some((step, at)) = progress.step.zip(at) {
            self.pace.push(step, at, limits.slowed);
        }
        if let Some(value) = progress.loss {
            self.trend.push(Loss { step, at, value }, limits.diverging);
        }
    }

    /// Whether its task or its writer has ended, judging by the newest line of another: an attempt that was retried in
    /// another process, or the bar of an earlier epoch.
    pub fn has_ended(&self, newest: Written) -> bool {
        let last = self.last;
        let stamps = last.stamp.zip(newest.stamp);
        let quiet = stamps.map_or(Duration::ZERO, |(last, newest)| last.age(newest));
        let is_untimed = stamps.is_none() && last.read == newest.read;
        let limit = ENDED_AFTER.max(self.gap * 2);
        // Readings may be far apart, and its lines may be among those that were skipped.
        let read = newest.since.zip(newest.stamp).map_or(Duration::ZERO, |(since, newest)| since.age(newest));
        let is_known = !self.skips || newest.part.saturating_sub(last.part) >= ENDED_PARTS || read > limit;
        let is_quiet = quiet.max(last.read.age(newest.read)) > limit;
        is_known && (is_quiet || is_untimed && newest.number.saturating_sub(last.number) > ENDED_LINES)
    }

    /// Whether it is the next bar of the other's task, such as that of the next epoch.
    pub fn replaces(&self, other: &Self) -> bool {
        self.key.writer == other.key.writer
            && self.series.total() == other.series.total()
            && self.last.number > other.last.number
    }

    /// Whether it has made its last step.
    pub fn is_done(&self) -> bool {
        let step = self.series.last().and_then(|last| last.step);
        step.zip(self.series.total()).is_some_and(|(step, total)| step.saturating_add(1) >= total)
    }

    /// Whether steps are left, according to its total.
    pub fn is_unfinished(&self) -> bool {
        self.series.total().is_some() && !self.is_done()
    }

    /// Whether it has too few lines to count as stalled on its own.
    pub const fn has_few_lines(&self) -> bool {
        self.lines < MIN_LINES
    }

    /// The longest pause of this run, if it has enough lines and the time of its first step is known: a run may begin
    /// with a long pause, and so may the next epoch.
    fn pause_from_start(&self) -> Option<Duration> {
        let first = self.series.points().first().filter(|first| first.time.is_some());
        let is_first = first.and_then(|first| first.step).is_some_and(|step| step <= 1);
        (!self.has_few_lines() && is_first).then_some(self.gap)
    }

    /// How long it must be silent to count as stalled: at least three times its longest pause. `None` if it has too few
    /// lines, has made its last step, or `limit` is zero.
    pub fn stall_limit(&self, limit: Duration) -> Option<Duration> {
        (!self.has_few_lines() && !limit.is_zero() && !self.is_done()).then(|| limit.max(self.gap * 3))
    }

    /// How long another track, or a later run of this one, must be silent to count as stalled while it has too few
    /// lines: as long as this one, if it is an attempt at the same task or an earlier epoch.
    pub fn limit_for(&self, other: &Self, limit: Duration) -> Option<Duration> {
        if self.series.total() != other.series.total() {
            return None;
        }
        let pause = if self.key.task == other.key.task {
            self.earlier
        } else if self.is_epoch_beside(other) {
            self.earlier.max(self.pause_from_start())
        } else {
            return None;
        };
        let epoch = pause.filter(|_| !limit.is_zero()).map(|pause| limit.max(pause * 3));
        let attempt = self.stall_limit(limit).filter(|_| self.key.task == other.key.task);
        epoch.max(attempt)
    }

    /// Whether the names of the two tasks differ only in numbers: `Epoch 1` and `Epoch 2` of the same writer.
    fn is_epoch_beside(&self, other: &Self) -> bool {
        let letters = |task: &str| task.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        self.key.writer == other.key.writer
            && self.series.total().is_some()
            && letters(&self.key.task) == letters(&other.key.task)
    }
}
