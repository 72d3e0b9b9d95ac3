//! The time to wait before the next attempt: doubling, capped, and jittered, so that many consoles that lost the same
//! network do not reconnect at the same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Counts consecutive failures and returns how long to wait.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The first backoff.
    const FIRST_BACKOFF: Duration = Duration::from_secs(1);

    /// Records a failure and returns the wait before the next try, at most `cap`, of which the last fifth is
    /// random.
    pub fn next(&mut self, cap: Duration) -> Duration {
        let wait = Self::FIRST_BACKOFF.saturating_mul(1 << self.failures.min(10)).min(cap);
        self.failures += 1;
        wait.mul_f64(0.8 + 0.2 * jitter())
    }

    /// Forgets past failures: it worked, or the circumstances changed.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A number in `0..1`. The standard library's hasher seeds are random enough to spread retries.
fn jitter() -> f64 {
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_stay_within_their_jitter() {
        let cap = Duration::from_secs(15);
        let mut backoff = Backoff::default();
        for want in [1, 2, 4, 8, 15, 15] {
            let wait = backoff.next(cap).as_secs_f64();
            assert!((f64::from(want) * 0.8..=f64::from(want)).contains(&wait), "{wait} for {want}");
        }
        backoff.reset();
        assert!(backoff.next(cap) <= Duration::from_secs(1));
        for _ in 0..100 {
            assert!(backoff.next(cap) <= cap);
        }
    }
}
