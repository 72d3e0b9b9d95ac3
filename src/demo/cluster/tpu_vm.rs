//! A TPU VM of a simulated cluster as Google lists it.

use super::super::life::TpuType;
use super::node::SliceKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::demo) struct TpuVm {
    pub name: String,
    /// Google's `acceleratorType`.
    pub accelerator: String,
    /// The node type of its hosts.
    pub node_type: String,
    /// Google's name for its state.
    pub state: &'static str,
    /// When it was requested, in milliseconds since the epoch.
    pub since: i64,
    /// Addresses of its hosts, by worker number; empty until Google has created them.
    pub hosts: Vec<String>,
}

/// The slices of an accelerator type with the given node type.
pub(in crate::demo) fn slice_kind(node_type: &str, accelerator: &str, zone: &str) -> SliceKind {
    SliceKind::of(&TpuType::new(node_type, accelerator, 0, 0), zone)
}
