//! Polls for a condition that sends no notification, with a time limit.

use std::thread;
use std::time::{Duration, Instant};

/// Time limit of a wait, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);
/// Maximum pause between two cheap checks.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause between two checks that take long themselves.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The result of a check: whether a condition holds, or what was found.
pub trait Check {
    /// The value that was waited for.
    type Found;
    /// `None` while the wait continues.
    fn found(self) -> Option<Self::Found>;
}

impl Check for bool {
    type Found = ();
    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Check for Option<T> {
    type Found = T;
    fn found(self) -> Self {
        self
    }
}

/// Repeats a check until it holds or finds something; panics with `what` after the time limit. Slow checks, such as
/// requests to Ray, are repeated less often because they slow down what is waited for.
pub fn until<C: Check>(what: &str, mut check: impl FnMut() -> C) -> C::Found {
    let began = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        let check_began = Instant::now();
        if let Some(found) = check().found() {
            return found;
        }
        let took = check_began.elapsed();
        assert!(began.elapsed() < DEADLINE, "timed out waiting until {what}");
        thread::sleep(pause.max((took * 4).min(LONGEST_PAUSE)));
        pause = PAUSE.min(pause * 2);
    }
}
