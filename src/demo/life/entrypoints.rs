//! Slices whose chips were taken by the entrypoints of submitted jobs: no run uses them meanwhile.

use super::super::cluster::state::State;
use super::engine::Engine;
use crate::model::NodeId;
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

    /// The driver of a job has taken chips of this host.
    pub fn occupy(&mut self, job: usize, host: NodeId) {
        let Some((&id, slice)) = self.slices.iter_mut().find(|(_, s)| s.hosts.contains(&host)) else {
            return;
        };
        let was_free = self.kinds[slice.kind].free.remove(&id);
        // Others are used by a run, or are to stay without one.
        if was_free || self.occupied.values().any(|other| *other == id) {
            slice.turn += 1;
            self.occupied.insert(job, id);
        }
    }

    /// Frees the slices whose chips were held by jobs that have ended.
    pub fn vacate(&mut self, cluster: &mut State) {
        let mut over = Vec::new();
        self.occupied.retain(|job, id| {
            let has_ended = cluster.jobs[*job].status.is_ended();
            over.extend(has_ended.then_some(*id));
            !has_ended
        });
        for id in over {
            if !self.occupied.values().any(|other| *other == id) {
                self.release(cluster, id);
            }
        }
    }
}
