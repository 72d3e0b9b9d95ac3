//! The age from which data counts as old.

use super::{App, cluster};
use std::time::Duration;

/// Poll intervals. Data is old when a second reading is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paces {
    /// Poll interval of the cluster on the screen.
    pub focused: Duration,
    /// Poll interval of the other clusters.
    pub background: Duration,
    /// Poll interval of Google Cloud.
    pub cloud: Duration,
}

impl App {
    /// The same console with these poll intervals.
    #[must_use]
    pub fn reading_every(mut self, paces: Paces) -> Self {
        for cluster in &mut self.fleet.clusters {
            (cluster.pace, cluster.tpus.pace) = (paces.background, paces.cloud);
        }
        self.paces = paces;
        self
    }

    /// The age below which data is shown as fresh; higher in the fleet, where clusters are polled less often.
    pub fn fresh(&self) -> Duration {
        match self.view().place() {
            Some(_) => cluster::FRESH,
            None => cluster::STALE.max(self.paces.background * 2),
        }
    }
}
