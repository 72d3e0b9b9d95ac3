//! Google Cloud for commands: calls wait when Google asks to, and report it.

use crate::config::Settings;
use crate::gcp::Google;
use crate::model::GoogleWait;
use crate::supervisor;
use std::time::Duration;

/// Interval of the lines that report how long Google still asks to wait.
const COUNTED: Duration = Duration::from_secs(10);

/// Google Cloud according to the settings.
pub(super) fn google(settings: &Settings) -> Google {
    waiting(&supervisor::google(settings))
}

/// The same client, whose calls wait as long as Google asks; the wait is reported on stderr.
pub(super) fn waiting(google: &Google) -> Google {
    // Called on the runtime of the call.
    google.tell_waits(|wait| drop(tokio::spawn(count_down(wait))));
    google.patient()
}

async fn count_down(wait: GoogleWait) {
    eprintln!("{}", wait.words(wait.left));
    let mut left = wait.left;
    while left > COUNTED {
        tokio::time::sleep(COUNTED).await;
        left -= COUNTED;
        eprintln!("{}", GoogleWait::next(left));
    }
}
