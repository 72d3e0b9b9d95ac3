//! What a run's progress lines say over time: last step, loss, rate, time left, and values for a sparkline.

use super::progress::Progress;
use crate::model::Timestamp;
use std::time::Duration;

/// A progress line that is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Steps done.
    pub step: Option<u64>,
    /// When.
    pub time: Option<Timestamp>,
    /// The loss; may be infinite or no number.
    pub loss: Option<f64>,
}

/// The progress of one task of one source. Holds a bounded number of points, which span the whole run: when there are
/// too many, every other one goes.
#[derive(Clone, Debug)]
pub struct Series {
    points: Vec<Point>,
    /// Lines per point that is kept, and lines since the last one.
    every: (u32, u32),
    last: Option<Point>,
    total: Option<u64>,
    rate: Option<f64>,
    remaining: Option<(Duration, Option<Timestamp>)>,
    runs: u32,
    not_finite: (u32, Option<Point>),
}

impl Default for Series {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            every: (1, 0),
            last: None,
            total: None,
            rate: None,
            remaining: None,
            runs: 0,
            not_finite: (0, None),
        }
    }
}

impl Series {
    /// Points that are held at most.
    pub const MOST: usize = 1024;

    /// Takes in a progress line and its time. A step below the last one begins a new run, and forgets the points of
    /// the one before.
    pub fn push(&mut self, progress: &Progress<'_>, time: Option<Timestamp>) {
        let point = Point { step: progress.step, time, loss: progress.loss };
        let before = self.last.and_then(|last| last.step);
        if self.runs == 0 || point.step.zip(before).is_some_and(|(now, before)| now < before) {
            *self = Self { runs: self.runs + 1, ..Self::default() };
        }
        if point.loss.is_some_and(|loss| !loss.is_finite()) {
            self.not_finite = (self.not_finite.0 + 1, self.not_finite.1.or(Some(point)));
        }
        self.total = progress.total.or(self.total);
        self.rate = progress.rate.or(self.rate);
        self.remaining = progress.remaining.map(|left| (left, time));
        self.last = Some(point);
        if self.every.1 == 0 {
            if self.points.len() == Self::MOST {
                let mut at = 0;
                self.points.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.every.0 = self.every.0.saturating_mul(2);
            }
            self.points.push(point);
        }
        self.every.1 = (self.every.1 + 1) % self.every.0;
    }

    /// The newest line.
    pub fn last(&self) -> Option<Point> {
        self.last
    }

    /// Steps in all, if a line has said so.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Runs that the log holds: 1 and once more for every time that the steps went back.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Lines of this run whose loss was infinite or no number, and the first of them.
    pub fn not_finite(&self) -> (u32, Option<Point>) {
        self.not_finite
    }

    /// Steps a second: as the last line says, or by the times of the last lines.
    pub fn rate(&self) -> Option<f64> {
        self.rate.or_else(|| {
            let (last, time) = self.last.and_then(|p| Some((p.step?, p.time?)))?;
            // Over the last points, not over the whole run: it began with a compilation.
            let mut recent = self.points.iter().rev().take(16).filter_map(|p| Some((p.step?, p.time?)));
            let (first, since) = recent.rfind(|(step, since)| *step < last && *since < time)?;
            Some((last - first) as f64 / time.age(since).as_secs_f64())
        })
    }

    /// Time left, as seen at a moment.
    pub fn remaining(&self, now: Timestamp) -> Option<Duration> {
        if let Some((left, at)) = self.remaining {
            return Some(left.saturating_sub(at.map_or(Duration::ZERO, |at| at.age(now))));
        }
        let last = self.last?;
        let left = self.total?.saturating_sub(last.step?) as f64 / self.rate().filter(|rate| *rate > 0.0)?;
        let left = Duration::try_from_secs_f64(left).ok()?;
        Some(left.saturating_sub(last.time.map_or(Duration::ZERO, |at| at.age(now))))
    }

    /// So many losses for a sparkline, from the oldest to the newest: the mean of the points that fall on each.
    /// Those that are infinite or no number are left out.
    pub fn losses(&self, width: usize) -> Vec<f64> {
        let all: Vec<f64> = self.points.iter().filter_map(|p| p.loss).filter(|l| l.is_finite()).collect();
        let width = width.min(all.len());
        let part = |n: usize| &all[n * all.len() / width..(n + 1) * all.len() / width];
        (0..width).map(part).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect()
    }

    /// The points that are held, from the oldest to the newest.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}
