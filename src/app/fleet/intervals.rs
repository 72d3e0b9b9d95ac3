//! Poll intervals, from which the age follows at which data counts as old.

use std::time::Duration;

/// Poll intervals. Data is old when a second reading is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollIntervals {
    /// Poll interval of the cluster on the screen.
    pub focused: Duration,
    /// Poll interval of the other clusters.
    pub background: Duration,
    /// Poll interval of Google Cloud.
    pub cloud: Duration,
}
