//! How old data may be before it is called old.

use super::{App, View, cluster};
use std::time::Duration;

/// How often things are read, which decides when they are old: when a second reading is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paces {
    /// Time between two readings of the cluster on the screen.
    pub focused: Duration,
    /// The same for the others.
    pub background: Duration,
    /// Time between two questions to Google Cloud.
    pub cloud: Duration,
}

impl App {
    /// The same, of things that are read so often.
    #[must_use]
    pub fn reading_every(mut self, paces: Paces) -> Self {
        for cluster in &mut self.clusters {
            (cluster.pace, cluster.tpus.pace) = (paces.background, paces.cloud);
        }
        self.paces = paces;
        self
    }

    /// Up to which age data is simply called fresh: in the list others are read seldom on purpose.
    pub fn fresh(&self) -> Duration {
        match self.view {
            View::Cluster(_) | View::Tpus(_) => cluster::FRESH,
            _ => cluster::STALE.max(self.paces.background * 2),
        }
    }
}
