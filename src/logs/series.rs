//! The progress lines of a run over time: last step, loss, rate, remaining time, and values for a sparkline.

use super::progress::Progress;
use crate::model::Timestamp;
use std::time::Duration;

/// A recorded progress line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Optimizer steps done, as the progress line reports them.
    pub step: Option<u64>,
    /// Time of the progress line; none if the log has no times.
    pub time: Option<Timestamp>,
    /// The loss; may be infinite or NaN.
    pub loss: Option<f64>,
}

/// The progress of one task of one source. Holds a bounded number of points that span the whole run: at the limit,
/// every other point is dropped.
#[derive(Clone, Debug)]
pub struct Series {
    points: Vec<Point>,
    /// Progress lines per recorded point, and lines since the last point.
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
    /// Maximum number of points.
    pub const MAX_POINTS: usize = 1024;

    /// Adds a progress line and its time. A step below the last one begins a new run and discards the points of the
    /// previous run.
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
            if self.points.len() == Self::MAX_POINTS {
                self.thin();
            }
            self.points.push(point);
        }
        self.every.1 = (self.every.1 + 1) % self.every.0;
    }

    /// Adds earlier points of the same run; points of an earlier run are ignored.
    pub fn precede(&mut self, above: &Self) {
        let step = |point: Option<&Point>| point.and_then(|p| p.step);
        let (end, begin) = (step(above.points.last()), step(self.points.first()));
        if end.zip(begin).is_some_and(|(end, begin)| end > begin) {
            return;
        }
        self.points.splice(0..0, above.points.iter().copied());
        while self.points.len() > Self::MAX_POINTS {
            self.thin();
        }
        self.not_finite.0 += above.not_finite.0;
        self.not_finite.1 = above.not_finite.1.or(self.not_finite.1);
        self.total = self.total.or(above.total);
    }

    /// Drops every other point.
    fn thin(&mut self) {
        let mut at = 0;
        self.points.retain(|_| {
            at += 1;
            at % 2 == 1
        });
        self.every.0 = self.every.0.saturating_mul(2);
    }

    /// The newest progress line.
    pub fn last(&self) -> Option<Point> {
        self.last
    }

    /// Total number of steps, if a line reported it.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// The number of runs in the log: each decrease of the step begins another run.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// The number of lines of this run whose loss was infinite or NaN, and the first of them.
    pub fn not_finite(&self) -> (u32, Option<Point>) {
        self.not_finite
    }

    /// Steps per second, as reported by the program, or calculated from the times of the last lines.
    pub fn rate(&self) -> Option<f64> {
        self.rate.or_else(|| {
            let (last, time) = self.last.and_then(|p| Some((p.step?, p.time?)))?;
            // Over the last points, not over the whole run, which began with a compilation.
            let mut recent = self.points.iter().rev().take(16).filter_map(|p| Some((p.step?, p.time?)));
            let (first, since) = recent.rfind(|(step, since)| *step < last && *since < time)?;
            Some((last - first) as f64 / since.age(time).as_secs_f64())
        })
    }

    /// The remaining time at `now`.
    pub fn remaining(&self, now: Timestamp) -> Option<Duration> {
        if let Some((left, at)) = self.remaining {
            return Some(left.saturating_sub(at.map_or(Duration::ZERO, |at| at.age(now))));
        }
        let last = self.last?;
        let left = self.total?.saturating_sub(last.step?) as f64 / self.rate().filter(|rate| *rate > 0.0)?;
        let left = Duration::try_from_secs_f64(left).ok()?;
        Some(left.saturating_sub(last.time.map_or(Duration::ZERO, |at| at.age(now))))
    }

    /// Up to `width` losses for a sparkline, oldest first; each is the mean of its share of the points. Losses that are
    /// infinite or NaN are omitted.
    pub fn losses(&self, width: usize) -> Vec<f64> {
        let all: Vec<f64> = self.points.iter().filter_map(|p| p.loss).filter(|l| l.is_finite()).collect();
        let width = width.min(all.len());
        let part = |n: usize| &all[n * all.len() / width..(n + 1) * all.len() / width];
        (0..width).map(part).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect()
    }

    /// The recorded points, oldest first.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::super::progress::Patterns;
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_secs_f64(1_795_424_400.0 + seconds)
    }

    fn series(lines: &[(&str, f64)]) -> Series {
        let (mut series, patterns) = (Series::default(), Patterns::default());
        for (line, seconds) in lines {
            series.push(&patterns.read(line).unwrap(), Some(at(*seconds)));
        }
        series
    }

    #[test]
    fn rate_and_remaining_time_are_as_the_program_reports_them() {
        let line =
            "Progress on:train 19.0it/70.0it rate:2.0s/it remaining:1:40 elapsed:31:40 postfix:loss=2.34";
        let s = series(&[(line, 0.0)]);
        assert_eq!(
            (s.total(), s.rate(), s.remaining(at(40.0))),
            (Some(70), Some(0.5), Some(Duration::from_secs(60)))
        );
    }

    #[test]
    fn otherwise_they_are_calculated_from_the_times_of_the_lines() {
        let s = series(&[
            ("step 0/100 loss 9", 0.0),
            ("step 10/100 loss 8", 600.0),
            ("step 30/100 loss 7", 610.0),
        ]);
        assert_eq!(s.rate().map(|r| (r * 1000.0) as u64), Some(49), "30 steps in 610 s");
        assert_eq!(s.remaining(at(610.0)).map(|d| d.as_secs()), Some(1423));
        assert_eq!(series(&[("step 3 loss 2", 0.0)]).rate(), None);
        assert_eq!(series(&[("step 3 loss 2", 0.0)]).remaining(at(0.0)), None);
    }

    #[test]
    fn a_lower_step_begins_a_run_and_losses_that_are_not_finite_are_counted() {
        let s = series(&[
            ("step 1 loss 3", 0.0),
            ("step 2 loss nan", 1.0),
            ("step 1 loss 3", 2.0),
            ("step 2 loss inf", 3.0),
            ("step 3 loss nan", 4.0),
        ]);
        assert_eq!((s.runs(), s.points().len(), s.losses(8)), (2, 3, vec![3.0]));
        let (times, first) = s.not_finite();
        assert_eq!((times, first.and_then(|p| p.step)), (2, Some(2)));
    }

    #[test]
    fn a_long_run_is_stored_in_few_points() {
        let mut s = Series::default();
        for step in 0..1_000_000u64 {
            let progress = Progress { step: Some(step), loss: Some(step as f64), ..Progress::default() };
            s.push(&progress, Some(at(step as f64)));
        }
        assert!(s.points().len() <= Series::MAX_POINTS && s.points().len() >= Series::MAX_POINTS / 2);
        assert_eq!((s.points()[0].step, s.last().and_then(|p| p.step)), (Some(0), Some(999_999)));
        let losses = s.losses(10);
        assert!(losses.len() == 10 && losses.windows(2).all(|w| w[0] < w[1]));
    }

    proptest! {
        #[test]
        fn a_sparkline_has_the_requested_width(losses in prop::collection::vec(any::<f64>(), 0..50), width in 0usize..60) {
            let mut s = Series::default();
            for loss in &losses {
                s.push(&Progress { loss: Some(*loss), ..Progress::default() }, None);
            }
            let finite = losses.iter().filter(|l| l.is_finite()).count();
            prop_assert_eq!(s.losses(width).len(), width.min(finite));
            prop_assert_eq!(s.not_finite().0 as usize, losses.len() - finite);
        }
    }
}
