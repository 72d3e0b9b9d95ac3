//! Nodes that are to go (`DrainNode`): they take no new work, and end once they are idle or their time is up.

use super::super::Shared;
use super::super::cluster::Cluster;
use super::super::cluster::node::ENDS;
use super::methods::{Outcome, ids, parse};
use super::wire::{DrainReply, DrainRequest};
use crate::model::NodeId;
use prost::Message;

/// `DRAIN_NODE_REASON_IDLE_TERMINATION`: Ray refuses it while something runs there.
const IDLE_TERMINATION: i32 = 1;

/// A node that is gone is drained already.
pub(super) fn drain_node(message: &[u8], shared: &Shared) -> Outcome {
    let request: DrainRequest = parse(message)?;
    let wanted = ids("DrainNode", std::iter::once(&request.node_id), shared)?;
    let busy = shared.now(|c| {
        let id = *wanted.first()?;
        let node = c.node(id).filter(|n| n.is_alive())?;
        if request.reason == IDLE_TERMINATION && node.idle_since.is_none() {
            return Some(());
        }
        let latest = if request.deadline > 0 { request.deadline } else { i64::MAX };
        c.draining.retain(|(other, _)| *other != id);
        c.draining.push((id, latest));
        c.version += 1;
        None
    });
    let why = if busy.is_some() { "The node to be drained is not idle." } else { "" };
    Ok(DrainReply { is_accepted: busy.is_none(), rejection: why.into() }.encode_to_vec().into())
}

impl Cluster {
    /// Whether the node takes no new work.
    pub fn is_draining(&self, id: NodeId) -> bool {
        self.draining.iter().any(|(draining, _)| *draining == id)
    }

    /// Ends those that are idle or out of time.
    pub fn tend_draining(&mut self) {
        let (now, nodes) = (self.now, &self.nodes);
        let is_over = |id: NodeId, latest: i64| {
            let node = nodes.iter().find(|n| n.id == id);
            latest <= now || node.is_none_or(|n| !n.is_alive() || n.idle_since.is_some())
        };
        let over: Vec<NodeId> =
            self.draining.extract_if(.., |(id, latest)| is_over(*id, *latest)).map(|(id, _)| id).collect();
        for id in over {
            let (reason, message) = ENDS[2];
            self.end(id, reason, message);
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
    fn a_drained_node_ends_when_it_is_idle_or_out_of_time() {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(0)));
        let mut cluster =
            Cluster::new(&Scenario { nodes: 4, dead: 0, changes: 0, clock, ..Scenario::default() });
        let ids: Vec<NodeId> = cluster.nodes.iter().map(|n| n.id).collect();
        for (id, idle_since) in ids.iter().zip([None, Some(0), None, Some(0)]) {
            cluster.node(*id).unwrap().idle_since = idle_since;
        }
        cluster.draining = vec![(ids[1], i64::MAX), (ids[2], 5000)];
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
