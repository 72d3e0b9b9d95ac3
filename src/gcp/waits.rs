//! Waits that Google has asked for. A service that responded with `Retry-After` is not called again until then, by any
//! call: another request would only use up more of the quota.

use super::GcpError;
use crate::model::GoogleWait;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The service that returns access tokens, for calls to all other services.
pub(super) const LOGIN: &str = "login";

/// Waits up to this length are not announced: they are over before anyone could read the message.
const MAX_UNANNOUNCED: Duration = Duration::from_secs(1);

type Listener = dyn Fn(GoogleWait) + Send + Sync;

/// The waits that are not over, by service, and the listener for those that a call waits for.
#[derive(Clone, Default)]
pub(super) struct Waits {
    open: Arc<Mutex<HashMap<String, Wait>>>,
    listener: Arc<OnceLock<Box<Listener>>>,
}

/// A wait that a service asked for.
struct Wait {
    error: GcpError,
    requested: Duration,
    until: Instant,
    is_announced: bool,
}

impl Waits {
    /// Calls this function for each wait that begins. Only the first function that is set counts.
    pub fn listen(&self, listener: impl Fn(GoogleWait) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    /// Records the wait that this error of a service asks for, if any.
    pub fn record(&self, service: &str, error: &GcpError) {
        let Some(requested) = error.retry_after() else { return };
        let now = Instant::now();
        let until = now + requested;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, wait| wait.until > now);
        // Concurrent calls all get such a response; they count as one wait, the longest.
        let is_announced = open
            .get(service)
            .is_some_and(|known| known.is_announced && known.until + MAX_UNANNOUNCED > until);
        if open.get(service).is_none_or(|known| known.until < until) {
            let error = error.clone();
            open.insert(service.to_owned(), Wait { error, requested, until, is_announced });
        }
    }

    /// How long the service must not be called, and its error with that time.
    pub fn remaining(&self, service: &str) -> Option<(Duration, GcpError)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = open.get(service)?;
        let left = wait.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| (left, wait.error.clone().asking_for(in_seconds(left))))
    }

    /// Announces that a call in this project waits for the service, once for all calls that wait.
    pub fn begins(&self, service: &str, project: &str) {
        let Some(listener) = self.listener.get() else { return };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(wait) =
            open.get_mut(service).filter(|wait| !wait.is_announced && wait.requested > MAX_UNANNOUNCED)
        else {
            return;
        };
        wait.is_announced = true;
        let left = wait.until.saturating_duration_since(Instant::now());
        let project = if service == LOGIN { "" } else { project };
        let announcement = GoogleWait {
            project: project.to_owned(),
            reason: wait.error.to_string(),
            requested: wait.requested,
            left,
        };
        drop(open);
        listener(announcement);
    }
}

/// Whole seconds, rounded up: after that time the wait is over.
fn in_seconds(left: Duration) -> Duration {
    Duration::from_secs(u64::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u64::MAX))
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(seconds: u64) -> GcpError {
        GcpError::Quota { message: "no more reads".into(), after: Some(Duration::from_secs(seconds)) }
    }

    #[test]
    fn only_the_service_that_asked_for_a_wait_is_not_called() {
        let waits = Waits::default();
        waits.record("a", &GcpError::Quota { message: String::new(), after: None });
        waits.record("b", &busy(0));
        assert!(waits.remaining("a").is_none() && waits.remaining("b").is_none());
        waits.record("a", &busy(60));
        // The response to an earlier call asks for less.
        waits.record("a", &busy(5));
        let (left, error) = waits.remaining("a").unwrap();
        assert!(left > Duration::from_secs(50) && error.to_string().contains("no more reads"), "{error}");
        assert_eq!(error.retry_after(), Some(in_seconds(left)));
        assert!(waits.remaining("b").is_none());
    }

    #[test]
    fn a_wait_is_announced_once_and_a_longer_one_again() {
        let waits = Waits::default();
        let announced = Arc::new(Mutex::new(Vec::new()));
        let sink = announced.clone();
        waits.listen(move |wait| sink.lock().unwrap().push((wait.project, wait.requested.as_secs())));
        for (service, seconds) in [("s", 60), ("s", 60), ("s", 90), (LOGIN, 60), ("short", 1)] {
            waits.record(service, &busy(seconds));
            waits.begins(service, "p");
        }
        let expected = [("p", 60), ("p", 90), ("", 60)].map(|(project, s)| (project.to_owned(), s));
        assert_eq!(*announced.lock().unwrap(), expected);
    }
}
