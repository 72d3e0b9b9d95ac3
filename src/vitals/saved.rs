//! The checkpoints that a log reports.

use crate::model::{Checkpoint, Timestamp};
use std::time::Duration;

/// The checkpoints of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    /// The last checkpoint.
    pub last: Option<Checkpoint>,
    /// The number of checkpoints.
    pub count: u32,
    /// The longest time between two of them.
    pub longest: Duration,
}

impl Saved {
    /// Adds a checkpoint.
    pub fn push(&mut self, step: Option<u64>, at: Option<Timestamp>) {
        let before = self.last.and_then(|last| last.at);
        if let Some((before, now)) = before.zip(at) {
            self.longest = self.longest.max(before.age(now));
        }
        // Every worker may report the same one.
        if self.last.is_none_or(|last| last.step != step || step.is_none()) {
            self.count = self.count.saturating_add(1);
        }
        self.last = Some(Checkpoint { step, at });
    }
}
