//! Google Cloud for commands: calls wait as long as Google asks, and the wait is reported.

use crate::config::Settings;
use crate::gcp::Google;
use crate::model::GoogleWait;
use crate::supervisor;
use crate::task;
use std::time::Duration;

/// Interval of the messages about the remaining wait.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A client of Google Cloud according to the settings.
pub(super) fn google(settings: &Settings) -> Google {
    waiting(&supervisor::google(settings))
}

/// The same client, whose calls wait as long as Google asks; the wait is reported on stderr.
pub(super) fn waiting(google: &Google) -> Google {
    // The callback runs on the runtime of the call.
    google.on_wait(|wait| drop(task::spawn(count_down(wait))));
    google.with_waits()
}

async fn count_down(wait: GoogleWait) {
    eprintln!("{}", wait.text(wait.left));
    let mut left = wait.left;
    while left > REPORT_INTERVAL {
        tokio::time::sleep(REPORT_INTERVAL).await;
        left -= REPORT_INTERVAL;
        eprintln!("{}", GoogleWait::next(left));
    }
}
