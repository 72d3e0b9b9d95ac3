//! Waits that Google has asked for. A service that answered with `Retry-After` is asked nothing more until then, by
//! whatever call: another request would only use up more of the quota.

use super::GcpError;
use crate::model::GoogleWait;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The service that gives access tokens, for the calls of all others.
pub(super) const LOGIN: &str = "login";

/// Shorter waits are not announced: they pass before a person could read of them.
const UNTOLD: Duration = Duration::from_secs(1);

type Tell = dyn Fn(GoogleWait) + Send + Sync;

/// The waits that are not over, by service, and the listener for those that a call waits for.
#[derive(Clone, Default)]
pub(super) struct Waits {
    open: Arc<Mutex<HashMap<String, Wait>>>,
    tell: Arc<OnceLock<Box<Tell>>>,
}

/// What a service answered.
struct Wait {
    error: GcpError,
    asked: Duration,
    until: Instant,
    is_told: bool,
}

impl Waits {
    /// Calls this function for each wait that begins. The first one that is given counts.
    pub fn tell(&self, tell: impl Fn(GoogleWait) + Send + Sync + 'static) {
        let _ = self.tell.set(Box::new(tell));
    }

    /// Applies what a service answered.
    pub fn learn(&self, service: &str, error: &GcpError) {
        let Some(asked) = error.retry_after() else { return };
        let now = Instant::now();
        let until = now + asked;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, wait| wait.until > now);
        // Calls side by side are all answered so; the wait is the longest, and it is one.
        let is_told = open.get(service).is_some_and(|known| known.is_told && known.until + UNTOLD > until);
        if open.get(service).is_none_or(|known| known.until < until) {
            let error = error.clone();
            open.insert(service.to_owned(), Wait { error, asked, until, is_told });
        }
    }

    /// How long the service is to be asked nothing, and its answer with that time.
    pub fn left(&self, service: &str) -> Option<(Duration, GcpError)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = open.get(service)?;
        let left = wait.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| (left, wait.error.clone().asking_for(in_seconds(left))))
    }

    /// A call in this project waits for the service: said once for all calls that do.
    pub fn begins(&self, service: &str, project: &str) {
        let Some(tell) = self.tell.get() else { return };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(wait) = open.get_mut(service).filter(|wait| !wait.is_told && wait.asked > UNTOLD) else {
            return;
        };
        wait.is_told = true;
        let left = wait.until.saturating_duration_since(Instant::now());
        let project = if service == LOGIN { "" } else { project };
        let said = GoogleWait {
            project: project.to_owned(),
            reason: wait.error.to_string(),
            asked: wait.asked,
            left,
        };
        drop(open);
        tell(said);
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
    fn a_service_is_left_alone_as_long_as_it_asks_and_no_other_is() {
        let waits = Waits::default();
        waits.learn("a", &GcpError::Quota { message: String::new(), after: None });
        waits.learn("b", &busy(0));
        assert!(waits.left("a").is_none() && waits.left("b").is_none());
        waits.learn("a", &busy(60));
        // A call that was sent before says less.
        waits.learn("a", &busy(5));
        let (left, error) = waits.left("a").unwrap();
        assert!(left > Duration::from_secs(50) && error.to_string().contains("no more reads"), "{error}");
        assert_eq!(error.retry_after(), Some(in_seconds(left)));
        assert!(waits.left("b").is_none());
    }

    #[test]
    fn a_wait_is_said_once_and_a_longer_one_again() {
        let waits = Waits::default();
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        waits.tell(move |wait| heard.lock().unwrap().push((wait.project, wait.asked.as_secs())));
        for (service, seconds) in [("s", 60), ("s", 60), ("s", 90), (LOGIN, 60), ("short", 1)] {
            waits.learn(service, &busy(seconds));
            waits.begins(service, "p");
        }
        let expected = [("p", 60), ("p", 90), ("", 60)].map(|(project, s)| (project.to_owned(), s));
        assert_eq!(*said.lock().unwrap(), expected);
    }
}
