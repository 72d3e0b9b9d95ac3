//! Waits for what nothing tells a test, and gives up in the end.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);
/// The longest pause between two looks that cost nothing.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two looks that take long themselves.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a look gives: whether something holds, or what was found.
pub trait Look {
    /// What was waited for.
    type Found;
    /// Nothing as long as it has to be waited for.
    fn found(self) -> Option<Self::Found>;
}

impl Look for bool {
    type Found = ();
    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Look for Option<T> {
    type Found = T;
    fn found(self) -> Self {
        self
    }
}

/// Looks until something holds or is found. A panic, naming `what`, when it takes too long. A look that takes long, as a
/// question to Ray does, is repeated less often: it takes time from what is waited for.
pub fn until<L: Look>(what: &str, mut look: impl FnMut() -> L) -> L::Found {
    let began = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        let began_look = Instant::now();
        if let Some(found) = look().found() {
            return found;
        }
        let took = began_look.elapsed();
        assert!(began.elapsed() < DEADLINE, "waited in vain until {what}");
        thread::sleep(pause.max((took * 4).min(LONGEST_PAUSE)));
        pause = PAUSE.min(pause * 2);
    }
}
