//! Google Cloud as a command uses it: it waits where Google asks it to, and says so.

use crate::config::Settings;
use crate::gcp::Google;
use crate::model::GoogleWait;
use crate::supervisor;
use std::time::Duration;

/// Time between two lines that say how long Google still wants no call.
const COUNTED: Duration = Duration::from_secs(10);

/// Google Cloud as the settings have it.
pub(super) fn google(settings: &Settings) -> Google {
    waiting(&supervisor::google(settings))
}

/// The same client, whose calls wait as long as Google asks; what they wait for is progress on stderr.
pub(super) fn waiting(google: &Google) -> Google {
    // A call runs on a runtime, so this does too.
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
