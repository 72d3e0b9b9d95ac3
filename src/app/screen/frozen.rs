//! The live state behind a frozen screen.
//!
//! The copy of the fleet shares the snapshots, and each log keeps at most what a log usually keeps, so that memory does
//! not grow with the duration of the freeze.

use crate::app::fleet::Fleet;
use crate::app::log::LogView;
use crate::model::{LogBatch, StreamId, Timestamp};
use std::collections::BTreeMap;

/// The live state behind a frozen screen.
#[derive(Debug)]
pub struct Frozen {
    /// When the screen was frozen.
    pub since: Timestamp,
    /// The live fleet.
    pub live: Fleet,
    /// The lines received since then, for each log that was open, by the index of its cluster.
    pub logs: BTreeMap<usize, LogView>,
}

impl Frozen {
    /// Stores lines of a log that was open when the screen was frozen. Returns the lines of a log opened since.
    pub fn hold(&mut self, cluster_index: usize, batch: LogBatch, now: Timestamp) -> Option<LogBatch> {
        match self.logs.get_mut(&cluster_index).filter(|log| log.reads(batch.stream)) {
            Some(log) => {
                log.take(batch, now);
                None
            }
            None => Some(batch),
        }
    }

    /// Sets the time zone by which lines that are received behind the screen are ordered.
    pub fn take_zone(&mut self, cluster_index: usize, stream: StreamId, utc_offset: i32, now: Timestamp) {
        if let Some(log) = self.logs.get_mut(&cluster_index) {
            log.take_zone(stream, utc_offset, now);
        }
    }
}
