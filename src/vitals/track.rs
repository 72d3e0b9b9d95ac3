//! The progress of one task of one writer; a run ends when its step decreases.

use super::pace::Pace;
use super::trend::{Loss, Trend};
use crate::logs::{Progress, Series};
use crate::model::{Timestamp, VitalLimits};
use std::time::Duration;

/// Number of lines that a run must have before it can count as stalled.
const MIN_LINES: u32 = 5;

/// Identifies a track: the task (`train`, `eval`; empty if lines do not report it) and a number of the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub task: String,
    pub writer: u32,
}

/// The progress of one task of one writer.
#[derive(Clone, Debug)]
pub(super) struct Track {
    pub key: Key,
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
}

impl Track {
    pub fn new(key: Key) -> Self {
        let (series, pace, trend) = (Series::default(), Pace::default(), Trend::default());
        Self { key, series, pace, trend, lines: 0, gap: Duration::ZERO, skips: false, restarts: 0 }
    }

    /// Adds a line. A step below the last one begins another run, whose history is empty.
    pub fn push(&mut self, progress: &Progress<'_>, at: Option<Timestamp>, limits: &VitalLimits) {
        let (before, runs) = (self.series.last(), self.series.runs());
        self.series.push(progress, at);
        if runs > 0 && self.series.runs() > runs {
            self.restarts += 1;
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
            self.trend.push(Loss { step: progress.step, at, value }, limits.diverging);
        }
    }

    /// Whether it trains, judging by its name.
    pub fn trains(&self) -> bool {
        let task = self.key.task.to_ascii_lowercase();
        !["eval", "valid", "test", "predict", "load", "download"].iter().any(|word| task.contains(word))
    }

    /// Whether it has made its last step.
    pub fn is_done(&self) -> bool {
        let step = self.series.last().and_then(|last| last.step);
        step.zip(self.series.total()).is_some_and(|(step, total)| step.saturating_add(1) >= total)
    }

    /// How long it must be silent to count as stalled: at least three times its longest pause. `None` if it has too few
    /// lines, has made its last step, or `limit` is zero.
    pub fn stall_limit(&self, limit: Duration) -> Option<Duration> {
        (self.lines >= MIN_LINES && !limit.is_zero() && !self.is_done()).then(|| limit.max(self.gap * 3))
    }
}
