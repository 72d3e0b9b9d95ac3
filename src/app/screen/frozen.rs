//! What goes on behind a frozen screen.
//!
//! The copy of the fleet shares the snapshots, and each log keeps at most what a log keeps anyway, so that a frozen
//! screen takes no more memory the longer it stands.

use crate::app::fleet::Fleet;
use crate::app::log::LogView;
use crate::model::{LogBatch, Timestamp};
use std::collections::BTreeMap;

/// What goes on behind a frozen screen.
#[derive(Debug)]
pub struct Frozen {
    /// When it was frozen.
    pub since: Timestamp,
    /// The fleet as it is now.
    pub live: Fleet,
    /// The lines that have come since, of each log that was open, by its cluster's place.
    pub logs: BTreeMap<usize, LogView>,
}

impl Frozen {
    /// Keeps lines of a log that was open when the screen was frozen. Returns those of a log opened since.
    pub fn hold(&mut self, place: usize, batch: LogBatch, now: Timestamp) -> Option<LogBatch> {
        match self.logs.get_mut(&place).filter(|log| log.reads(batch.stream)) {
            Some(log) => {
                log.take(batch, now);
                None
            }
            None => Some(batch),
        }
    }
}
