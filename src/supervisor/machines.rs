//! Selects the machines whose figures are requested next. The dashboard is a single Python process shared by a whole
//! team, and each node's answer has about 20 kB, so only nodes on the screen are requested, a few at a time, the one
//! with the oldest figures first.

use crate::model::NodeId;
use crate::model::sort;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A node's agent samples every 5 s; more frequent requests return nothing new.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of requests per round.
const REQUESTS_PER_ROUND: usize = 2;

/// The time of the last request for each node's machine figures.
#[derive(Debug, Default)]
pub struct Machines {
    requested: HashMap<NodeId, Instant>,
}

impl Machines {
    /// Returns the nodes to request now, and records the requests.
    pub fn next_round(&mut self, visible: &[NodeId], now: Instant) -> Vec<NodeId> {
        self.requested.retain(|id, _| visible.contains(id));
        let age = |id: &NodeId| self.requested.get(id).map_or(Duration::MAX, |at| now.duration_since(*at));
        let mut due: Vec<NodeId> = visible.iter().filter(|id| age(id) >= SAMPLE_INTERVAL).copied().collect();
        sort::by_key(&mut due, |id| std::cmp::Reverse(age(id)));
        due.truncate(REQUESTS_PER_ROUND);
        self.requested.extend(due.iter().map(|id| (*id, now)));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_the_oldest_figures_come_first_and_fresh_ones_are_not_requested() {
        let ids: Vec<NodeId> = (0..6).filter_map(|i| NodeId::from_bytes(&[i; 28])).collect();
        let mut machines = Machines::default();
        let t = Instant::now();
        assert_eq!(machines.next_round(&ids, t), ids[..2]);
        assert_eq!(machines.next_round(&ids, t + Duration::from_secs(1)), ids[2..4]);
        assert_eq!(machines.next_round(&ids, t + Duration::from_secs(2)), ids[4..]);
        assert!(machines.next_round(&ids, t + Duration::from_secs(3)).is_empty());
        assert_eq!(machines.next_round(&ids, t + SAMPLE_INTERVAL), ids[..2]);
        assert_eq!(machines.next_round(&ids[5..], t + SAMPLE_INTERVAL * 2), ids[5..]);
    }
}
