//! Reading a cluster's state at intervals.

use super::out::PollMode;
use crate::model::Snapshot;
use crate::ray::{Client, Poller, RayError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

type Refresh = JoinHandle<(Poller, Duration, Result<Snapshot, RayError>)>;

/// Reads the state, never twice at once.
pub(super) struct Polling {
    pub poller: Option<Poller>,
    running: Option<Refresh>,
    /// When the refresh under way was started, or the last one.
    begun: Instant,
    pub due: Instant,
    /// Asked for while one was under way, which may have looked already.
    again: bool,
}

impl Polling {
    /// Over this client; nothing is read for a command.
    pub fn new(client: &Client, pace: PollMode) -> Self {
        let poller = (pace == PollMode::Polling).then(|| Poller::new(client.clone()));
        let now = Instant::now();
        Self { poller, running: None, begun: now, due: now, again: false }
    }

    /// Requests a refresh that begins from now on.
    pub fn ask(&mut self) {
        self.again = self.running.is_some();
        self.due = Instant::now();
    }

    /// One is over: how long to wait for the next, at most `pause`.
    pub fn rest(&mut self, pause: Duration) -> Duration {
        let pause = if std::mem::take(&mut self.again) { Duration::ZERO } else { pause };
        self.due = Instant::now() + pause;
        pause
    }

    /// Starts a refresh unless one is still unanswered.
    pub fn start(&mut self) {
        if let Some(mut poller) = self.poller.take() {
            self.begun = Instant::now();
            self.running = Some(tokio::spawn(async move {
                let began = Instant::now();
                let result = poller.refresh().await;
                (poller, began.elapsed(), result)
            }));
        }
    }

    /// How long a refresh has been under way.
    pub fn waited(&self) -> Duration {
        if self.running.is_some() { self.begun.elapsed() } else { Duration::ZERO }
    }

    /// Reads now, unless a refresh is under way.
    pub fn ask_if_idle(&mut self) {
        if self.running.is_none() {
            self.ask();
        }
    }

    /// Resolves with the refresh under way; for ever pending without one.
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

/// The pause after a session's first answer. A fleet comes up together, at the start and after a wake; read together
/// ever after, it would want many times the memory and the processor of one cluster in the same moment. Multiples of
/// the golden section lie evenly in an interval, however many there are.
pub(super) fn spread(interval: Duration, place: usize) -> Duration {
    const GOLDEN_SECTION: f64 = 0.618_033_988_749_895;
    interval.mul_f64(((place + 1) as f64 * GOLDEN_SECTION).fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_asked_for_during_a_reading_is_read_after_it() {
        let pause = Duration::from_secs(15);
        let (due, again) = (Instant::now(), false);
        let mut polling = Polling { poller: None, running: None, begun: due, due, again };
        polling.ask();
        assert_eq!(polling.rest(pause), pause, "the reading that begins now is the one");
        polling.running = Some(tokio::spawn(std::future::pending()));
        polling.ask();
        assert_eq!((polling.rest(pause), polling.due <= Instant::now()), (Duration::ZERO, true));
        assert_eq!((polling.rest(pause), polling.due > Instant::now()), (pause, true));
    }

    #[test]
    fn a_fleet_is_read_evenly_over_the_interval() {
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
