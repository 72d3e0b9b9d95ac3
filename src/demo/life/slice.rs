//! A simulated slice and its node type.

use super::super::cluster::autoscaling::Refused;
use super::super::cluster::node::SliceKind;
use super::TpuType;
use crate::model::NodeId;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A node type, and the jobs that wait for it.
pub(super) struct Kind {
    /// The properties of its slices.
    pub slice: SliceKind,
    /// The node type's name.
    pub name: Arc<str>,
    /// Jobs that wait for such a slice, in order.
    pub waiting: VecDeque<usize>,
    /// Number of submitted jobs whose entrypoints request such a slice, and that no node has room for.
    pub asked: usize,
    /// Slices without a job of which Ray lists all hosts.
    pub free: BTreeSet<u64>,
    /// Slices of the autoscaler that exist or are requested.
    pub up: usize,
    /// Those of them that are not complete yet.
    pub coming: usize,
    pub min: usize,
    /// 0 if the autoscaler has no such node type.
    pub max: usize,
    pub begin: usize,
    pub refused: Option<Refused>,
    pub not_before: i64,
}

impl Kind {
    /// A node type without slices.
    pub fn new(tpu: &TpuType, zone: &str) -> Self {
        Self {
            slice: SliceKind::of(tpu, zone),
            name: tpu.name.as_str().into(),
            waiting: VecDeque::new(),
            asked: 0,
            free: BTreeSet::new(),
            up: 0,
            coming: 0,
            min: tpu.min_workers,
            max: tpu.max_workers,
            begin: tpu.slices.max(tpu.min_workers),
            refused: None,
            not_before: 0,
        }
    }
}

/// The phase of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Requested from Google.
    Requested,
    /// The machines exist, and hosts are joining.
    Joining,
    /// All hosts have joined.
    Complete,
    /// Google preempted the machines; the GCS has not noticed.
    Taken,
    /// A person deleted the machines; the GCS has not noticed.
    Deleted,
}

/// A slice.
pub(super) struct Slice {
    /// The TPU VM's name.
    pub name: String,
    /// Its node type.
    pub kind: usize,
    /// The job that runs on it.
    pub job: Option<usize>,
    /// Hosts that have joined, by worker number; the last one joins first.
    pub hosts: Vec<NodeId>,
    /// Incremented with each change, so that outdated events are ignored.
    pub turn: u32,
    /// Its phase.
    pub stage: Stage,
    /// When it was requested, in milliseconds since the epoch.
    pub since: i64,
    /// The number of its first host.
    pub first_host: usize,
    /// Whether the autoscaler requested it; false for one that a person added.
    pub is_own: bool,
}
