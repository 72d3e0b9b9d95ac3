//! Reads a cluster's state at intervals.

use super::out::PollMode;
use crate::model::Snapshot;
use crate::ray::{Client, Poller, RayError};
use crate::task;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

type Refresh = JoinHandle<(Poller, Duration, Result<Snapshot, RayError>)>;

/// Reads the state, one refresh at a time.
pub(super) struct Polling {
    pub poller: Option<Poller>,
    running: Option<Refresh>,
    /// When the current or the last refresh was started.
    begun: Instant,
    pub due: Instant,
    /// Whether another refresh was requested during the current one, which may already have passed the change.
    is_requested: bool,
}

impl Polling {
    /// Polls with this client; reads nothing for a command.
    pub fn new(client: &Client, mode: PollMode) -> Self {
        let poller = (mode == PollMode::Polling).then(|| Poller::new(client.clone()));
        let now = Instant::now();
        Self { poller, running: None, begun: now, due: now, is_requested: false }
    }

    /// Requests a refresh that starts now, or after the current one.
    pub fn request(&mut self) {
        self.is_requested = self.running.is_some();
        self.due = Instant::now();
    }

    /// Schedules the next refresh, after `pause` or at once if one was requested in the meantime; returns the wait.
    pub fn schedule(&mut self, pause: Duration) -> Duration {
        let pause = if std::mem::take(&mut self.is_requested) { Duration::ZERO } else { pause };
        self.due = Instant::now() + pause;
        pause
    }

    /// Starts a refresh unless one is still in progress.
    pub fn start(&mut self) {
        if let Some(mut poller) = self.poller.take() {
            self.begun = Instant::now();
            self.running = Some(task::spawn(async move {
                let began = Instant::now();
                let result = poller.refresh().await;
                (poller, began.elapsed(), result)
            }));
        }
    }

    /// How long the current refresh has been in progress.
    pub fn waited(&self) -> Duration {
        if self.running.is_some() { self.begun.elapsed() } else { Duration::ZERO }
    }

    /// Starts a refresh unless one is in progress.
    pub fn request_if_idle(&mut self) {
        if self.running.is_none() {
            self.request();
        }
    }

    /// Resolves with the result of the current refresh; pends forever if there is none.
    pub async fn finished(&mut self) -> Option<(Duration, Result<Snapshot, RayError>)> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let joined = running.await;
        self.running = None;
        let (poller, took, result) = joined.ok()?;
        self.poller = Some(poller);
        Some((took, result))
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

/// The pause after a session's first answer. All clusters of a fleet connect at the same time, at the start and after
/// sleep; if they kept refreshing together, memory and CPU use would peak. Multiples of the golden ratio are spread
/// evenly over an interval, whatever their number.
pub(super) fn spread(interval: Duration, cluster_index: usize) -> Duration {
    const GOLDEN_SECTION: f64 = 0.618_033_988_749_895;
    interval.mul_f64(((cluster_index + 1) as f64 * GOLDEN_SECTION).fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_refresh_requested_during_another_one_follows_it() {
        let pause = Duration::from_secs(15);
        let (due, is_requested) = (Instant::now(), false);
        let mut polling = Polling { poller: None, running: None, begun: due, due, is_requested };
        polling.request();
        assert_eq!(polling.schedule(pause), pause, "the refresh that starts now is the requested one");
        polling.running = Some(tokio::spawn(std::future::pending()));
        polling.request();
        assert_eq!((polling.schedule(pause), polling.due <= Instant::now()), (Duration::ZERO, true));
        assert_eq!((polling.schedule(pause), polling.due > Instant::now()), (pause, true));
    }

    #[test]
    fn refreshes_of_a_fleet_are_spread_evenly() {
        for count in [2, 7, 14, 28] {
            let mut at: Vec<Duration> = (0..count).map(|n| spread(Duration::from_secs(15), n)).collect();
            at.sort();
            at.push(at[0] + Duration::from_secs(15));
            let widest = at.windows(2).map(|two| two[1].checked_sub(two[0]).unwrap()).max().unwrap();
            let even = Duration::from_secs(15) / u32::try_from(count).unwrap();
            assert!(widest < even * 2, "{count}: {widest:?}, {even:?} would be even");
        }
    }
}
