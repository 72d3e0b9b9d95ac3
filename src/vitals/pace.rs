//! The step rate of a run, measured in successive checks, and whether it has decreased.

use crate::model::Timestamp;
use crate::model::sort;
use std::collections::VecDeque;
use std::time::Duration;

/// Minimum duration of a check, so that a pause between two steps is not the whole of it.
const MIN_CHECK: Duration = Duration::from_secs(60);
/// Minimum number of progress lines in a check.
const MIN_LINES: u32 = 5;
/// Maximum number of checks that are kept: two hours of a run that writes often.
const MAX_CHECKS: usize = 128;
/// Number of consecutive checks that must be slow: an evaluation or a checkpoint slows one or two down.
const MIN_SLOW_CHECKS: usize = 3;
/// Number of checks that must be known before those.
const MIN_CHECKS_BEFORE: usize = 5;

/// The step rate over a part of a run.
#[derive(Clone, Copy, Debug)]
struct Check {
    from: Timestamp,
    /// Steps per second.
    rate: f64,
}

/// A run that has become slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slow {
    /// When the lower rate began.
    pub since: Timestamp,
    /// Steps per second before that.
    pub typical: f64,
}

/// The speed of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// The beginning of the current check, with its first step and its number of lines so far.
    open: Option<(Timestamp, u64, u32)>,
    checks: VecDeque<Check>,
    slow: Option<Slow>,
}

impl Pace {
    /// Adds a step and its time; `limit` is the relative decrease of the rate that counts as slow. A limit of zero
    /// disables this.
    pub fn push(&mut self, step: u64, at: Timestamp, limit: f64) {
        let Some((from, first, lines)) = self.open else {
            self.open = Some((at, step, 0));
            return;
        };
        // Lines of several threads may arrive out of order.
        if at < from || step < first {
            return;
        }
        let lasted = from.age(at);
        if lasted < MIN_CHECK || lines + 1 < MIN_LINES {
            self.open = Some((from, first, lines + 1));
            return;
        }
        self.open = Some((at, step, 0));
        if self.checks.len() == MAX_CHECKS {
            self.checks.pop_front();
        }
        self.checks.push_back(Check { from, rate: (step - first) as f64 / lasted.as_secs_f64() });
        self.compare(limit);
    }

    fn compare(&mut self, limit: f64) {
        if limit <= 0.0 || self.checks.len() < MIN_SLOW_CHECKS {
            return;
        }
        let before = self.checks.len() - MIN_SLOW_CHECKS;
        let last = self.checks.range(before..);
        if let Some(slow) = self.slow {
            if last.clone().all(|check| check.rate > slow.typical * (1.0 - limit)) {
                self.slow = None;
            }
            return;
        }
        if before < MIN_CHECKS_BEFORE {
            return;
        }
        let typical: Vec<f64> = sorted(self.checks.range(..before).map(|check| check.rate));
        // A rate as low as that of one check in ten is not new.
        let (median, low) = (typical[before / 2], typical[before / 10]);
        let bound = (median * (1.0 - limit)).min(low);
        if last.clone().all(|check| check.rate < bound) {
            let is_slow = |check: &&Check| check.rate < bound;
            let first = self.checks.iter().rev().take_while(is_slow).last();
            self.slow = first.map(|check| Slow { since: check.from, typical: median });
        }
    }

    /// Steps per second in the last check.
    pub fn rate(&self) -> Option<f64> {
        self.checks.back().map(|check| check.rate)
    }

    /// The usual steps per second: before the run became slower, or over all checks.
    pub fn typical(&self) -> Option<f64> {
        let all = || sorted(self.checks.iter().map(|check| check.rate));
        self.slow.map(|slow| slow.typical).or_else(|| all().get(self.checks.len() / 2).copied())
    }

    /// The slowdown, if it is slower than before.
    pub const fn slow(&self) -> Option<Slow> {
        self.slow
    }
}

fn sorted(all: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = all.collect();
    sort::by(&mut all, f64::total_cmp);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: f64 = 0.2;

    /// A run with these times in seconds between two of its steps.
    fn run(seconds: impl IntoIterator<Item = f64>) -> Pace {
        let (mut pace, mut ms) = (Pace::default(), 0.0);
        for (step, took) in (0..).zip(seconds) {
            pace.push(step, Timestamp::from_millis(ms as i64), LIMIT);
            ms += took * 1000.0;
        }
        pace
    }

    #[test]
    fn a_quarter_fewer_steps_over_several_checks_is_slow_and_ends_when_they_are_back() {
        let slow = |n| run(vec![2.0; 600].into_iter().chain(vec![2.67; n]));
        assert_eq!(slow(60).slow(), None, "three checks have to be slow");
        let found = slow(120);
        let since = found.slow().unwrap();
        assert!((since.typical - 0.5).abs() < 1e-9, "{since:?}");
        let began = Timestamp::from_millis(1_200_000);
        assert!(since.since.age(began).max(began.age(since.since)) < Duration::from_secs(90), "{since:?}");
        assert!((found.rate().unwrap() - 0.375).abs() < 0.01 && found.typical() == Some(0.5));
        assert!(slow(5000).slow().is_some(), "however long it lasts");
        let back = run(vec![2.0; 600].into_iter().chain(vec![2.67; 300]).chain(vec![2.0; 150]));
        assert_eq!(back.slow(), None);
    }

    #[test]
    fn pauses_and_a_slow_beginning_are_not_slow() {
        // A compilation, an evaluation of five minutes each half hour, a checkpoint each ten minutes.
        let pause = |n: u32| match n {
            0 => 900.0,
            n if n % 900 == 0 => 300.0,
            n if n % 300 == 0 => 45.0,
            _ => 2.0,
        };
        for n in 1..40 {
            assert_eq!(run((0..n * 100).map(pause)).slow(), None, "{n}");
        }
        // 77 s per step, with small variations.
        assert_eq!(run((0..200).map(|n| 77.0 + f64::from(n % 5))).slow(), None);
    }

    #[test]
    fn steps_out_of_order_and_equal_times_are_accepted() {
        let mut pace = Pace::default();
        for n in 0..5000_i64 {
            let at = Timestamp::from_millis(1_000_000 + n / 7 * 1000 - (n % 3) * 400);
            pace.push(n as u64, at, LIMIT);
            pace.push(n.saturating_sub(2) as u64, at, LIMIT);
        }
        assert_eq!(pace.slow(), None);
        assert!(pace.rate().is_some_and(|rate| (rate - 7.0).abs() < 0.5), "{:?}", pace.rate());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_run_that_only_varies_is_not_slow(took in proptest::collection::vec(1.7f64..2.3, 100..3000)) {
            prop_assert_eq!(run(took).slow(), None);
        }
    }
}
