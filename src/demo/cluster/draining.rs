//! Draining nodes: they accept no new work and are removed when they are idle or at their deadline.

use super::Cluster;
use super::node::ENDS;
use super::state::State;
use crate::model::NodeId;

impl Cluster {
    /// Removes draining nodes that are idle or past their deadline.
    pub fn end_drained(&mut self) {
        let State { now, nodes, draining, .. } = &mut self.state;
        let is_over = |id: NodeId, latest: i64| {
            let node = nodes.iter().find(|n| n.id == id);
            latest <= *now || node.is_none_or(|n| !n.is_alive() || n.idle_since.is_some())
        };
        let over: Vec<_> = draining.extract_if(.., |(id, latest, _)| is_over(*id, *latest)).collect();
        for (id, _, why) in over {
            self.end(id, ENDS[2].0, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{Clock, Scenario};
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    #[test]
    fn a_draining_node_ends_when_it_is_idle_or_at_its_deadline() {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(0)));
        let mut cluster =
            Cluster::new(&Scenario { nodes: 4, dead: 0, changes: 0, clock, ..Scenario::default() });
        let ids: Vec<NodeId> = cluster.nodes.iter().map(|n| n.id).collect();
        for (id, idle_since) in ids.iter().zip([None, Some(0), None, Some(0)]) {
            cluster.node(*id).unwrap().idle_since = idle_since;
        }
        cluster.drain(ids[1], i64::MAX, "");
        cluster.drain(ids[2], 5000, "");
        assert!(cluster.is_draining(ids[1]) && !cluster.is_draining(ids[3]));
        let alive = |c: &Cluster| {
            ids.iter().map(|id| c.nodes.iter().any(|n| n.id == *id && n.is_alive())).collect::<Vec<_>>()
        };
        cluster.advance(1000);
        assert_eq!(alive(&cluster), [true, false, true, true]);
        cluster.advance(5000);
        assert_eq!(alive(&cluster), [true, false, false, true]);
        assert!(cluster.draining.is_empty());
    }
}
