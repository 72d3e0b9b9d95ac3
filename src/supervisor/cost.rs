//! The load that this program puts on a head, over the last minute.

use crate::model::Cost;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The averaging window.
const WINDOW: Duration = Duration::from_secs(60);

/// Converts running totals to those of the last minute.
#[derive(Debug, Default)]
pub struct CostMeter {
    samples: VecDeque<(Instant, u64, u64)>,
}

impl CostMeter {
    /// Records the totals at `now` and returns those of the last minute.
    pub fn sample(&mut self, now: Instant, requests: u64, bytes: u64) -> Cost {
        self.samples.push_back((now, requests, bytes));
        while self.samples.len() > 1 && self.samples.get(1).is_some_and(|s| now.duration_since(s.0) >= WINDOW)
        {
            self.samples.pop_front();
        }
        let (_, r, b) = self.samples.front().copied().unwrap_or((now, requests, bytes));
        Cost { requests_per_minute: requests.saturating_sub(r), bytes_per_minute: bytes.saturating_sub(b) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_minute_counts() {
        let t = Instant::now();
        let mut meter = CostMeter::default();
        meter.sample(t, 0, 0);
        let soon = meter.sample(t + Duration::from_secs(30), 10, 1000);
        assert_eq!(soon, Cost { requests_per_minute: 10, bytes_per_minute: 1000 });
        meter.sample(t + Duration::from_secs(60), 12, 1200);
        let later = meter.sample(t + Duration::from_secs(95), 15, 1500);
        assert_eq!(later, Cost { requests_per_minute: 5, bytes_per_minute: 500 });
    }
}
