//! A simulated slice, and the node type that it is of.

use super::super::cluster::autoscaling::Refused;
use super::super::cluster::node::SliceKind;
use super::TpuType;
use crate::model::NodeId;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A node type, and what waits for it.
pub(super) struct Kind {
    /// What its slices are.
    pub slice: SliceKind,
    /// The name, shared.
    pub name: Arc<str>,
    /// Jobs that wait for such a slice, the first first.
    pub waiting: VecDeque<usize>,
    /// Slices that are complete and have no work.
    pub free: BTreeSet<u64>,
    /// Slices that are there or asked for.
    pub up: usize,
    /// Those of them that are not complete yet.
    pub coming: usize,
    pub min: usize,
    pub max: usize,
    pub begin: usize,
    pub refused: Option<Refused>,
    pub not_before: i64,
}

impl Kind {
    /// None there yet.
    pub fn new(tpu: &TpuType, zone: &str) -> Self {
        Self {
            slice: SliceKind::of(tpu, zone),
            name: tpu.name.as_str().into(),
            waiting: VecDeque::new(),
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
    /// Google has the request.
    Asked,
    /// The machines are there.
    Joining,
    /// All hosts have joined.
    Complete,
    /// Google took the machines; the GCS has not noticed.
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
    /// The job that it works for.
    pub job: Option<usize>,
    /// Hosts that have joined, by worker number.
    pub hosts: Vec<NodeId>,
    /// Counts what happened to it, so that an old plan can be told from a new one.
    pub turn: u32,
    /// How far it is.
    pub stage: Stage,
    /// Asked for at, in milliseconds since the epoch.
    pub since: i64,
    /// The number of its first host.
    pub first_host: usize,
}
