//! The remaining work of a simulated job.

use super::gang::Told;
use super::tale::Tale;
use super::train::Run;
use std::sync::Arc;

/// The remaining work of a job.
pub(super) struct Work {
    /// The node type that it needs; `None`: one that nobody offers.
    pub kind: Option<usize>,
    /// The slice that it has.
    pub slice: Option<u64>,
    /// Milliseconds of training that are left.
    pub left: i64,
    /// Since when it trains.
    pub since: i64,
    /// Fails at the end.
    pub fails: bool,
    /// The driver itself asks for the slice, so that the job is pending until there is one.
    pub pends: bool,
    /// The step that it goes on from.
    pub step: u64,
    pub turn: u32,
    /// It ends then, in milliseconds since the epoch; otherwise chance decides.
    pub ends: Option<i64>,
    /// What befalls its workers.
    pub told: Option<Told>,
    pub ip: Arc<str>,
    pub run: Run,
    pub tale: Tale,
}
