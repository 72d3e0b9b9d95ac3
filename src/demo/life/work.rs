//! The remaining work of a simulated job.

use super::gang::ScriptedRun;
use super::tale::Tale;
use super::train::Run;
use std::sync::Arc;

/// The remaining work of a job.
pub(super) struct Work {
    /// The index of the required node type.
    pub kind: usize,
    /// The slice that it runs on.
    pub slice: Option<u64>,
    /// Remaining training time in milliseconds.
    pub left: i64,
    /// When the current training began, in milliseconds since the epoch.
    pub since: i64,
    /// Whether the job fails at the end.
    pub fails: bool,
    /// Whether the entrypoint itself requests the slice, so that the job is pending until a slice is available.
    pub pends: bool,
    /// The step from which training continues.
    pub step: u64,
    /// Incremented whenever the job gets or loses a slice, so that outdated events are ignored.
    pub turn: u32,
    /// When it ends, in milliseconds since the epoch; `None` if the end is random.
    pub ends: Option<i64>,
    /// The scripted events of its workers.
    pub script: Option<ScriptedRun>,
    pub ip: Arc<str>,
    pub run: Run,
    pub tale: Tale,
}
