//! Slices whose chips were taken by the entrypoints of submitted jobs: no run uses them meanwhile.

use super::super::cluster::state::State;
use super::engine::Engine;
use super::slice::Stage;
use crate::model::NodeId;
use crate::model::sort;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// The first node type of the autoscaler whose hosts have these resources, as an index.
    pub fn kind_for(&self, shape: &[(String, f64)]) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.max > 0 && kind.slice.fits(shape))
    }

    /// The name of a node type.
    pub fn type_name(&self, kind: usize) -> Arc<str> {
        self.kinds[kind].name.clone()
    }

    /// Sets the node types that waiting jobs request, one for each job.
    pub fn ask(&mut self, kinds: &[usize]) {
        for (number, kind) in self.kinds.iter_mut().enumerate() {
            kind.asked = kinds.iter().filter(|asked| **asked == number).count();
        }
    }

    /// The driver of a job has taken chips of this host, whose slice may still be joining.
    pub fn occupy(&mut self, job: usize, host: NodeId) {
        if let Some(id) = self.slice_of(host) {
            let is_occupied = self.is_occupied(id);
            let Some(slice) = self.slices.get_mut(&id) else { return };
            let was_free = self.kinds[slice.kind].free.remove(&id);
            // Other complete slices are used by a run, or are to stay without one.
            if slice.stage == Stage::Complete && !was_free && !is_occupied {
                return;
            }
            slice.turn += 1;
        }
        self.occupied.insert(job, host);
    }

    /// Whether drivers have taken chips of a slice.
    pub(super) fn is_occupied(&self, id: u64) -> bool {
        let hosts = self.hosts(id);
        self.occupied.values().any(|host| hosts.contains(host))
    }

    /// The first host of the slice of this host; while the slice is joining, the first of those that have joined.
    pub fn first_host(&self, host: NodeId) -> Option<NodeId> {
        self.hosts(self.slice_of(host)?).first().copied()
    }

    /// Frees the slices whose chips were held by jobs that have ended.
    pub fn vacate(&mut self, cluster: &mut State) {
        let mut over = Vec::new();
        self.occupied.retain(|job, host| {
            let has_ended = cluster.jobs[*job].status.is_ended();
            over.extend(has_ended.then_some(*host));
            !has_ended
        });
        let over: BTreeSet<u64> = sort::collected(over.into_iter().filter_map(|host| self.slice_of(host)));
        for id in over {
            self.release(cluster, id);
        }
    }
}
