//! A short history of chip use: one sample per 30 s, a bounded number of them.

use crate::model::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// Time between two samples.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of samples: as many as the widest screen shows.
pub const MAX_SAMPLES: usize = 24;
/// The highest level: all chips in use.
pub const HIGHEST_LEVEL: u8 = 7;

/// Levels of use, oldest first; `None` where the use was unknown.
#[derive(Clone, Debug, Default)]
pub struct Trend {
    levels: VecDeque<Option<u8>>,
    last: Option<Timestamp>,
}

impl Trend {
    /// Adds a share of 0 to 1 at time `at`. Returns whether the shown levels changed.
    pub fn record(&mut self, share: Option<f64>, at: Timestamp) -> bool {
        if self.last.is_some_and(|last| last.age(at) < SAMPLE_INTERVAL) {
            return false;
        }
        let before = self.levels.clone();
        // Missed samples leave a gap.
        let missed = self
            .last
            .map_or(0, |last| (last.age(at).as_secs() / SAMPLE_INTERVAL.as_secs()).saturating_sub(2));
        let missed = usize::try_from(missed).unwrap_or(MAX_SAMPLES).min(MAX_SAMPLES);
        self.levels.extend(std::iter::repeat_n(None, missed));
        self.levels.push_back(share.map(|s| (s.clamp(0.0, 1.0) * f64::from(HIGHEST_LEVEL)).ceil() as u8));
        self.levels.drain(..self.levels.len().saturating_sub(MAX_SAMPLES));
        self.last = Some(at);
        before != self.levels
    }

    /// The last `n` levels, 0 to [`HIGHEST_LEVEL`], oldest first.
    pub fn levels(&self, n: usize) -> impl Iterator<Item = Option<u8>> {
        self.levels.iter().skip(self.levels.len().saturating_sub(n)).copied()
    }
}

/// Levels of 0 to [`HIGHEST_LEVEL`] as characters; a space where the use is unknown.
pub fn sparkline(levels: impl Iterator<Item = Option<u8>>) -> String {
    const LEVELS: [&str; HIGHEST_LEVEL as usize + 1] = ["▁", "▁", "▂", "▃", "▄", "▅", "▆", "▇"];
    levels.map(|level| level.and_then(|l| LEVELS.get(usize::from(l))).unwrap_or(&" ")).copied().collect()
}

/// The last `width` values, scaled between their minimum and maximum, as a sparkline.
pub fn curve(values: &[f64], width: usize) -> String {
    let values = &values[values.len().saturating_sub(width)..];
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
    let level = |value: &f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        Some(1 + (share * f64::from(HIGHEST_LEVEL - 1)).round() as u8)
    };
    sparkline(values.iter().map(level))
}

#[cfg(test)]
mod tests {
    use crate::app::fleet::trend::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(0).plus(Duration::from_secs(secs))
    }

    #[test]
    fn samples_are_spaced_and_bounded_and_missed_ones_leave_gaps() {
        let mut trend = Trend::default();
        assert!(trend.record(Some(0.5), at(0)));
        assert!(!trend.record(Some(1.0), at(29)), "too early");
        assert!(trend.record(Some(1.0), at(30)));
        assert!(trend.record(None, at(60)));
        assert_eq!(trend.levels(9).collect::<Vec<_>>(), [Some(4), Some(HIGHEST_LEVEL), None]);
        trend.record(Some(0.0), at(180));
        assert_eq!(
            trend.levels(9).collect::<Vec<_>>(),
            [Some(4), Some(HIGHEST_LEVEL), None, None, None, Some(0)]
        );
        assert_eq!(trend.levels(1).collect::<Vec<_>>(), [Some(0)]);
        for n in 0..100 {
            trend.record(Some(0.0), at(1000 + n * 30));
        }
        assert_eq!(trend.levels(999).count(), MAX_SAMPLES);
        assert!(!trend.record(Some(0.0), at(9000 - 5030)), "a flat line does not change");
    }
}
