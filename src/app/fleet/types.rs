//! The TPUs and GPUs of a cluster by type: slices, chips, and what was recently lost or is pending.

use crate::app::fleet::chips::Sum;
use crate::model::natural::natural;
use crate::model::sort;
use crate::model::{Node, Snapshot};
use std::collections::{HashMap, HashSet};

/// The slices and chips of one type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kind {
    /// `v4-128`; Ray's accelerator name if it is not a TPU slice; the node type if Ray does not report one.
    pub name: String,
    /// Slices with at least one alive host, or nodes.
    pub slices: usize,
    /// Chips of alive hosts.
    pub chips: Sum,
    /// Slices that recently lost their last alive host.
    pub lost: usize,
    /// Slices that are being launched or are joining.
    pub pending: u32,
}

/// The types of a cluster.
pub fn kinds(snapshot: &Snapshot) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut of_type: HashMap<&str, String> = HashMap::new();
    let mut counted: HashSet<&str> = HashSet::new();
    let with_chips = || snapshot.nodes.iter().filter_map(|node| Some((node, chips(node)?)));
    for (node, (used, total)) in with_chips().filter(|(node, _)| node.state.is_alive()) {
        let kind = entry(&mut kinds, name(node));
        kind.chips.add(used, total);
        kind.slices += usize::from(counted.insert(slice(node)));
    }
    for (node, _) in with_chips() {
        of_type.entry(node.node_type.raw()).or_insert_with(|| name(node));
        if node.is_lost(snapshot.taken) && counted.insert(slice(node)) {
            entry(&mut kinds, name(node)).lost += 1;
        }
    }
    for report in &snapshot.autoscaler.types {
        let pending = report.pending + report.launching;
        // If no node of a type was ever seen, it is unknown whether the type has chips.
        if pending > 0
            && let Some(name) = of_type.get(report.name.raw())
        {
            entry(&mut kinds, name.clone()).pending += pending;
        }
    }
    kinds
}

/// The types of several clusters combined, those with most chips first.
pub fn together<'a>(all: impl Iterator<Item = &'a Kind>) -> Vec<Kind> {
    let mut sums: Vec<Kind> = Vec::new();
    for kind in all {
        let sum = entry(&mut sums, kind.name.clone());
        sum.slices += kind.slices;
        sum.chips.join(&kind.chips);
        sum.lost += kind.lost;
        sum.pending += kind.pending;
    }
    sort::by(&mut sums, |a, b| b.chips.all.total_cmp(&a.chips.all).then_with(|| natural(&a.name, &b.name)));
    sums
}

fn entry(kinds: &mut Vec<Kind>, name: String) -> &mut Kind {
    let at = kinds.iter().position(|kind| kind.name == name).unwrap_or(kinds.len());
    if at == kinds.len() {
        kinds.push(Kind { name, ..Kind::default() });
    }
    &mut kinds[at]
}

/// Chips in use and total chips of a node; `None` if it has none.
fn chips(node: &Node) -> Option<(Option<f64>, f64)> {
    node.chips().map(|r| (r.used, r.total))
}

fn name(node: &Node) -> String {
    node.chip_type().unwrap_or(&node.node_type).to_string()
}

/// The slice of a host; a node outside any slice counts as its own.
fn slice(node: &Node) -> &str {
    node.slice().unwrap_or(&node.address).raw()
}

#[cfg(test)]
mod tests {
    use crate::app::fleet::types::*;
    use crate::model::{
        Autoscaler, Death, DeathReason, NodeState, NodeTypeCount, Resource, Resources, Text, Timestamp,
    };
    use std::sync::Arc;

    fn host(n: u8, slice: &str, used: f64) -> Node {
        Node {
            node_type: "tpu_worker".into(),
            resources: Resources(vec![Resource { name: "TPU".into(), total: 4.0, used: Some(used) }]),
            labels: [
                ("ray.io/tpu-slice-name".into(), slice.into()),
                ("ray.io/tpu-pod-type".into(), "v4-16".into()),
            ]
            .into(),
            ..Node::sample(n)
        }
    }

    #[test]
    fn slices_and_chips_are_summed_by_type_with_what_is_lost_and_pending() {
        let taken = Timestamp::from_millis(9_000_000);
        let dead = |n, slice| Node {
            state: NodeState::Dead,
            ended: Some(taken),
            death: Some(Death { reason: DeathReason::Preempted, message: Text::default() }),
            ..host(n, slice, 0.0)
        };
        let single = Node { labels: Arc::default(), node_type: "gpu".into(), ..host(9, "", 1.0) };
        let nodes = vec![
            host(1, "a", 4.0),
            host(2, "a", 4.0),
            host(3, "b", 0.0),
            // One of the hosts of b is dead: the slice is not lost.
            dead(4, "b"),
            dead(5, "c"),
            dead(6, "c"),
            single,
        ];
        let coming =
            |name: &str, pending| NodeTypeCount { name: name.into(), pending, ..NodeTypeCount::default() };
        let types = vec![coming("tpu_worker", 2), coming("never_seen", 3)];
        let autoscaler = Arc::new(Autoscaler { types, ..Autoscaler::default() });
        let found = kinds(&Snapshot { taken, nodes: Arc::new(nodes), autoscaler, ..Snapshot::default() });
        let words = |kinds: &[Kind]| -> Vec<String> {
            let one = |k: &Kind| {
                let (used, all) = (k.chips.used.unwrap_or(-1.0), k.chips.all);
                format!("{} {} {used}/{all} {} {}", k.name, k.slices, k.lost, k.pending)
            };
            kinds.iter().map(one).collect()
        };
        assert_eq!(words(&found), ["v4-16 2 8/12 1 2", "gpu 1 1/4 0 0"]);
        let both = together(found.iter().chain(&found));
        assert_eq!(words(&both), ["v4-16 4 16/24 2 4", "gpu 2 2/8 0 0"]);
    }
}
