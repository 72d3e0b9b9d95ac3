//! Poll intervals, from which the age follows at which data counts as stale.

use std::time::Duration;

/// Poll intervals. Data is stale when a second read is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollIntervals {
    /// Poll interval of the cluster on the screen.
    pub focused: Duration,
    /// Poll interval of the other clusters.
    pub background: Duration,
    /// Poll interval of Google Cloud.
    pub cloud: Duration,
}
