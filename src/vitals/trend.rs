//! Detects a loss that stays above its trend for many steps, or that is not finite.

use crate::model::Timestamp;
use crate::model::sort;
use std::collections::VecDeque;

/// Number of consecutive losses that must be above the trend.
const LOSSES_ABOVE_TREND: usize = 10;
/// Maximum and minimum number of losses in the trend: so many that it does not follow a loss that rises slowly.
const MAX_SAMPLES: usize = 512;
const MIN_SAMPLES: usize = 20;
/// Number of consecutive losses that must be NaN or infinite: a single one may belong to a skipped batch.
const NOT_FINITE: u32 = 2;

/// A loss with its step and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loss {
    pub step: Option<u64>,
    pub at: Option<Timestamp>,
    pub value: f64,
}

/// A loss that has left its trend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Diverging {
    /// The first of the losses above it.
    pub first: Loss,
    /// The trend before that.
    pub trend: f64,
}

/// The losses of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Trend {
    /// The losses that form the trend.
    base: VecDeque<f64>,
    /// The newest losses, which are compared with the trend.
    recent: VecDeque<Loss>,
    diverging: Option<Diverging>,
    /// The first loss that is not finite, and the number of consecutive ones.
    not_finite: Option<(Loss, u32)>,
}

impl Trend {
    /// Adds a loss; `limit` is the relative excess over the trend that counts as diverging. A limit of zero disables
    /// this.
    pub fn push(&mut self, loss: Loss, limit: f64) {
        if !loss.value.is_finite() {
            let (first, n) = self.not_finite.unwrap_or((loss, 0));
            self.not_finite = Some((first, n.saturating_add(1)));
            return;
        }
        self.not_finite = None;
        self.recent.push_back(loss);
        if self.recent.len() > LOSSES_ABOVE_TREND
            && let Some(old) = self.recent.pop_front()
            && self.diverging.is_none()
        {
            if self.base.len() == MAX_SAMPLES {
                self.base.pop_front();
            }
            self.base.push_back(old.value);
        }
        if limit > 0.0 {
            self.compare(limit);
        }
    }

    fn compare(&mut self, limit: f64) {
        let lowest = self.recent.iter().map(|loss| loss.value).fold(f64::INFINITY, f64::min);
        if let Some(found) = self.diverging {
            if lowest <= found.trend * (1.0 + limit) {
                self.diverging = None;
            }
            return;
        }
        if self.recent.len() < LOSSES_ABOVE_TREND || self.base.len() < MIN_SAMPLES {
            return;
        }
        // A run whose losses often jump this high is not diverging.
        let (mut under, mut as_high) = (0, 0);
        for value in &self.base {
            under += usize::from(value * (1.0 + limit) < lowest);
            as_high += usize::from(*value >= lowest);
        }
        if under * 2 <= self.base.len() || as_high * 20 > self.base.len() {
            return;
        }
        let mut base: Vec<f64> = self.base.iter().copied().collect();
        sort::by(&mut base, f64::total_cmp);
        // Nor is one with losses around zero.
        let trend = base[base.len() / 2];
        if trend > 0.0 {
            self.diverging = self.recent.front().map(|first| Diverging { first: *first, trend });
        }
    }

    /// The divergence, if the loss has left its trend.
    pub const fn diverging(&self) -> Option<Diverging> {
        self.diverging
    }

    /// The first of the losses that are NaN or infinite, if there are several in a row.
    pub fn not_finite(&self) -> Option<Loss> {
        self.not_finite.filter(|(_, n)| *n >= NOT_FINITE).map(|(first, _)| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(losses: impl IntoIterator<Item = f64>) -> Trend {
        let mut trend = Trend::default();
        for (step, value) in (0..).zip(losses) {
            trend.push(Loss { step: Some(step), at: None, value }, 0.5);
        }
        trend
    }

    /// A healthy run, with some noise.
    fn falling(n: u32) -> f64 {
        1.9 + 9.0 / (1.0 + f64::from(n) / 60.0).powf(0.55) + f64::from(n * 37 % 11) * 0.02
    }

    #[test]
    fn a_loss_that_stays_high_is_diverging_until_it_is_back() {
        let risen = |n: u32| (0..300).map(falling).chain((0..n).map(|n| 12.0 + f64::from(n) * 0.1));
        assert_eq!(run(risen(9)).diverging(), None);
        let found = run(risen(10)).diverging().unwrap();
        assert_eq!(found.first.step, Some(300));
        assert!(
            run(risen(5000)).diverging().is_some_and(|f| (f.trend - found.trend).abs() < 1e-9),
            "however long it lasts"
        );
        assert_eq!(run(risen(200).chain([4.0])).diverging(), None);
    }

    #[test]
    fn a_loss_that_rises_slowly_is_found_too() {
        let rising = (0..2000).map(|n| 3.0 * (1.0 + f64::from(n - 1000).max(0.0) / 300.0));
        let found = run(rising.take(1180)).diverging().unwrap();
        assert!(found.first.step.is_some_and(|step| (1140..1180).contains(&step)), "{found:?}");
    }

    #[test]
    fn falling_short_and_noisy_series_are_not_diverging() {
        assert_eq!(run((0..3000).map(falling)).diverging(), None);
        assert_eq!(
            run([1.0; 15].into_iter().chain([9.0; 10])).diverging(),
            None,
            "too short to have a trend"
        );
        let spikes = (0..600).map(|n| if n % 40 < 6 { 9.0 } else { 2.0 });
        assert_eq!(run(spikes).diverging(), None, "spikes");
        assert_eq!(run((0..600).map(|n| f64::from(n % 7) - 3.0)).diverging(), None, "about zero");
        assert_eq!(run(std::iter::empty()).diverging(), None);
    }

    #[test]
    fn consecutive_losses_that_are_not_finite_are_reported() {
        let ends = |values: &[f64]| run((0..50).map(falling).chain(values.iter().copied())).not_finite();
        assert_eq!(ends(&[f64::NAN]).map(|l| l.step), None, "one batch");
        assert_eq!(ends(&[f64::INFINITY, f64::NAN]).map(|l| l.step), Some(Some(50)));
        assert_eq!(ends(&[f64::NAN, f64::NAN, 2.0]).map(|l| l.step), None, "it is over");
        assert_eq!(run([f64::NAN; 30]).diverging(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn noise_is_not_diverging(noise in proptest::collection::vec(0.8f64..1.3, 50..2000)) {
            prop_assert_eq!(run(noise).diverging(), None);
        }
    }
}
