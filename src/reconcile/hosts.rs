//! The nodes of a cluster by slice: one row for the hosts of a slice, for other workers of a node type, and for nodes
//! that died of one cause at one time. Pure; one pass over the nodes for each state of the cluster.

use crate::model::sort;
use crate::model::{DeathReason, Node, NodeState, Text, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Deaths within this time of each other are grouped: the hosts of a preempted slice do not die at the same moment.
const GROUPING_WINDOW: Duration = Duration::from_secs(120);

/// What the hosts of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostsKind {
    /// The head.
    Head,
    /// One slice, of which at least one host is alive.
    Slice,
    /// Living workers of one node type that are in no slice.
    Type,
    /// Hosts that died of one cause: whole slices, and workers in no slice.
    Dead,
}

/// Identifies a row across states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsKey {
    /// What its hosts have in common.
    pub kind: HostsKind,
    /// The name of the slice or of the node type; empty for the head and for dead hosts.
    pub name: Text,
    /// For dead hosts, the cause, and when the first of them died; no time for those that died earlier or were stopped.
    pub lost: Option<(DeathReason, Option<Timestamp>)>,
}

/// A group of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Hosts {
    /// Identifies the row.
    pub key: HostsKey,
    /// The name of the slice, or of the node type for living workers in no slice; empty if there is none.
    pub name: Text,
    /// Indexes of the hosts in the cluster's list of nodes.
    pub nodes: Vec<u32>,
    /// The number of slices.
    pub slices: u32,
    /// Node type of the first of them; empty if Ray does not report it.
    pub node_type: Text,
    /// Type of their chips, e.g. `v4-128`; empty if Ray does not report it.
    pub chip_type: Text,
    /// The topology of their chips, e.g. `4x4x8`; empty if Ray does not report it.
    pub topology: Text,
    /// The number of living hosts.
    pub alive: u32,
    /// The number of dead hosts; for a slice with living hosts, those that died since `started`.
    pub dead: u32,
    /// The number of draining hosts.
    pub draining: u32,
    /// The number of hosts that the slice should have; `None` if unknown.
    pub expected: Option<u32>,
    /// Chips of living hosts: those in use, `None` if Ray does not report it, and their total.
    pub chips: (Option<f64>, f64),
    /// When the first living host registered.
    pub started: Option<Timestamp>,
    /// The latest death among them, and Ray's message about it; for a slice with living hosts, since `started`, because
    /// it may have been created again under the same name.
    pub ended: Option<(Timestamp, Text)>,
}

impl Hosts {
    /// Whether hosts of the slice are missing.
    pub fn is_incomplete(&self) -> bool {
        self.alive > 0 && self.expected.is_some_and(|expected| self.alive < expected)
    }

    /// Whether they died recently without being stopped.
    pub fn is_lost(&self) -> bool {
        matches!(self.key.lost, Some((_, Some(_))))
    }
}

/// The nodes of a cluster by slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BySlice {
    /// The rows.
    pub rows: Vec<Hosts>,
    /// The index of the row of each node, by node index.
    row_of: Vec<u32>,
}

impl BySlice {
    /// The nodes by slice. A dead node counts as lost if [`Node::is_lost`] holds at `now`.
    pub fn of(nodes: &[Node], now: Timestamp) -> Self {
        let mut rows: Vec<Hosts> = Vec::new();
        let mut row_indices: HashMap<(HostsKind, &str), usize> = HashMap::new();
        let mut loose: Vec<u32> = Vec::new();
        for (number, node) in (0..).zip(nodes) {
            let is_alive = node.state.is_alive();
            let (kind, name) = match (node.slice(), node.is_head) {
                (_, true) if is_alive => (HostsKind::Head, ""),
                (Some(slice), false) => (HostsKind::Slice, slice.raw()),
                (None, false) if is_alive => (HostsKind::Type, node.node_type.raw()),
                _ => {
                    loose.push(number);
                    continue;
                }
            };
            let row_index = *row_indices.entry((kind, name)).or_insert_with(|| {
                rows.push(row(HostsKey { kind, name: name.into(), lost: None }, node));
                rows.len() - 1
            });
            rows[row_index].add(number, node);
        }
        let is_dead = |row: &Hosts| row.alive == 0;
        let (dead, mut rows): (Vec<Hosts>, Vec<Hosts>) = rows.into_iter().partition(is_dead);
        let loose = loose.into_iter().map(|number| {
            let node = &nodes[number as usize];
            let mut one = row(HostsKey { kind: HostsKind::Dead, name: Text::default(), lost: None }, node);
            one.add(number, node);
            one
        });
        rows.extend(folded(dead.into_iter().chain(loose).collect(), nodes, now));
        let mut row_of = vec![0; nodes.len()];
        for (row_index, row) in (0..).zip(&mut rows) {
            row.finish(nodes, now);
            row.nodes.iter().for_each(|number| row_of[*number as usize] = row_index);
        }
        Self { rows, row_of }
    }

    /// The row with that key.
    pub fn find(&self, key: &HostsKey) -> Option<&Hosts> {
        self.rows.iter().find(|row| row.key == *key)
    }

    /// The row of the node with that index.
    pub fn row_of(&self, number: usize) -> Option<&Hosts> {
        self.rows.get(self.row_index_of(number)?)
    }

    /// The index of that row.
    pub fn row_index_of(&self, number: usize) -> Option<usize> {
        self.row_of.get(number).map(|row_index| *row_index as usize)
    }
}

/// A row with the attributes of a node, without hosts.
fn row(key: HostsKey, node: &Node) -> Hosts {
    let slices = u32::from(key.kind == HostsKind::Slice);
    Hosts {
        name: key.name.clone(),
        key,
        nodes: Vec::new(),
        slices,
        node_type: node.node_type.clone(),
        chip_type: node.chip_type().cloned().unwrap_or_default(),
        topology: node.topology().cloned().unwrap_or_default(),
        alive: 0,
        dead: 0,
        draining: 0,
        expected: None,
        chips: (Some(0.0), 0.0),
        started: None,
        ended: None,
    }
}

impl Hosts {
    fn add(&mut self, number: u32, node: &Node) {
        self.nodes.push(number);
        if !node.state.is_alive() {
            let latest = self.ended.as_ref().map(|(at, _)| *at);
            if let Some(at) = node.ended.filter(|at| latest.is_none_or(|latest| *at > latest)) {
                let message = node.death.as_ref().map(|death| death.message.clone());
                self.ended = Some((at, message.unwrap_or_default()));
            }
            return;
        }
        self.alive += 1;
        self.draining += u32::from(node.state == NodeState::Draining);
        self.started = [self.started, node.started].into_iter().flatten().min();
        if let Some(chips) = node.chips() {
            let used = self.chips.0.zip(chips.used).map(|(sum, used)| sum + used);
            self.chips = (used, self.chips.1 + chips.total);
        }
    }

    /// Sets the numbers of dead and of expected hosts, which require all hosts of the row. Without a label that reports
    /// the latter, lost hosts of a slice whose address has not returned count as missing. Deaths before the slice was
    /// created again do not count.
    fn finish(&mut self, nodes: &[Node], now: Timestamp) {
        if self.key.kind != HostsKind::Slice {
            self.dead = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX).saturating_sub(self.alive);
            return;
        }
        let started = self.started;
        let is_since = |at: Timestamp| started.is_none_or(|started| at > started);
        self.ended = self.ended.take().filter(|(at, _)| is_since(*at));
        let hosts = || self.nodes.iter().map(|number| &nodes[*number as usize]);
        let is_dead = |node: &&Node| !node.state.is_alive() && node.ended.is_some_and(is_since);
        self.dead = u32::try_from(hosts().filter(is_dead).count()).unwrap_or(u32::MAX);
        self.expected = hosts().find_map(Node::hosts_of_slice).or_else(|| {
            let (alive, dead): (Vec<&Node>, Vec<&Node>) = hosts().partition(|node| node.state.is_alive());
            let alive: BTreeSet<&str> = sort::collected(alive.iter().map(|node| node.address.raw()));
            let is_lost = |node: &&&Node| node.is_lost(now) && node.ended.is_some_and(is_since);
            let lost = dead.iter().filter(is_lost).map(|node| node.address.raw());
            let missing: BTreeSet<&str> = sort::collected(lost.filter(|address| !alive.contains(address)));
            let all = u32::try_from(alive.len() + missing.len()).ok();
            all.filter(|_| !missing.is_empty())
        });
    }

    /// The worst cause among its deaths: of a preempted slice, some hosts only miss their heartbeats.
    fn cause(&self, nodes: &[Node]) -> DeathReason {
        let reasons = self.nodes.iter().filter_map(|number| nodes[*number as usize].death.as_ref());
        let rank = |reason: &DeathReason| match reason {
            DeathReason::Preempted => 3,
            DeathReason::Unexpected => 2,
            DeathReason::Unspecified => 1,
            DeathReason::Expected => 0,
        };
        reasons.map(|death| death.reason).max_by_key(rank).unwrap_or(DeathReason::Unspecified)
    }
}

/// Groups dead hosts by cause: recently lost hosts that died together are one row; all that died earlier, or were
/// stopped, are one row per cause.
fn folded(mut dead: Vec<Hosts>, nodes: &[Node], now: Timestamp) -> Vec<Hosts> {
    // A row is identified by its first death: Ray forgets the oldest deaths, but no new one precedes them.
    sort::by_key(&mut dead, |row| row.ended.as_ref().map(|(at, _)| *at));
    let mut rows: Vec<Hosts> = Vec::new();
    for one in dead {
        let cause = one.cause(nodes);
        let at = one.ended.as_ref().map(|(at, _)| *at);
        let is_loss = cause != DeathReason::Expected
            && one.nodes.iter().any(|number| nodes[*number as usize].is_lost(now));
        let joins = |row: &&mut Hosts| match row.key.lost {
            Some((of, first)) if of == cause && first.is_some() == is_loss => {
                !is_loss
                    || row
                        .ended
                        .as_ref()
                        .zip(at)
                        .is_some_and(|((last, _), at)| last.age(at) <= GROUPING_WINDOW)
            }
            _ => false,
        };
        if let Some(row) = rows.iter_mut().rev().find(joins) {
            row.join(one);
        } else {
            let lost = Some((cause, at.filter(|_| is_loss)));
            let key = HostsKey { kind: HostsKind::Dead, name: Text::default(), lost };
            rows.push(Hosts { key, ..one });
        }
    }
    rows
}

impl Hosts {
    /// Adds hosts that died later; attributes that they do not share become empty.
    fn join(&mut self, later: Self) {
        self.nodes.extend(later.nodes);
        self.slices += later.slices;
        for (mine, other) in [
            (&mut self.name, later.name),
            (&mut self.node_type, later.node_type),
            (&mut self.chip_type, later.chip_type),
            (&mut self.topology, later.topology),
        ] {
            if *mine != other {
                *mine = Text::default();
            }
        }
        self.ended = later.ended.or(self.ended.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Death, NodeId, Resource, Resources};
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(100_000_000);

    fn ago(secs: i64) -> Timestamp {
        Timestamp::from_millis(NOW.as_millis() - secs * 1000)
    }

    /// A host of a v4-64 slice, which has eight hosts; a worker without chips if `slice` is empty.
    fn host(n: u8, slice: &str) -> Node {
        let labels: Vec<(Text, Text)> = [
            ("ray.io/tpu-pod-type", "v4-64"),
            ("ray.io/tpu-slice-name", slice),
            ("ray.io/tpu-topology", "2x4x4"),
        ]
        .map(|(key, value)| (key.into(), value.into()))
        .to_vec();
        let tpu = Resource { name: "TPU".into(), total: 4.0, used: Some(2.0) };
        let is_tpu = !slice.is_empty();
        Node {
            node_type: if is_tpu { "tpu".into() } else { "cpu".into() },
            labels: if is_tpu { labels.into() } else { [].into() },
            resources: if is_tpu { Resources(vec![tpu]) } else { Resources::default() },
            started: Some(ago(9000 - i64::from(n))),
            ..Node::sample(n)
        }
    }

    fn dead(node: Node, secs: i64, reason: DeathReason) -> Node {
        let death = Some(Death { reason, message: "gone".into() });
        Node { state: NodeState::Dead, ended: Some(ago(secs)), death, ..node }
    }

    /// Name, hosts alive of expected, slices, and hosts of each row.
    fn rows(nodes: &[Node]) -> Vec<String> {
        let rows = BySlice::of(nodes, NOW).rows;
        let line = |row: &Hosts| {
            let expected = row.expected.map_or_else(|| "?".into(), |n| n.to_string());
            let lost = match row.key.lost {
                Some((reason, Some(at))) => format!(" {reason:?} {}", at.age(NOW).as_secs()),
                Some((reason, None)) => format!(" {reason:?} earlier"),
                None => String::new(),
            };
            format!("{}:{} {}/{expected} of {}{lost}", row.name.raw(), row.slices, row.alive, row.nodes.len())
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn hosts_are_grouped_by_slice_workers_by_type_and_the_head_alone() {
        let head = Node { is_head: true, ..host(0, "") };
        let nodes = [head, host(1, "a"), host(2, "b"), host(3, "a"), host(4, ""), host(5, "")];
        assert_eq!(rows(&nodes), [":0 1/? of 1", "a:1 2/8 of 2", "b:1 1/8 of 1", "cpu:0 2/? of 2"]);
        let by_slice = BySlice::of(&nodes, NOW);
        assert_eq!(by_slice.row_of(3).unwrap().nodes, [1, 3]);
        assert_eq!(by_slice.rows[1].chips, (Some(4.0), 8.0));
        assert_eq!(by_slice.rows[1].started, Some(ago(8999)));
        assert!(by_slice.rows[1].is_incomplete() && !by_slice.rows[3].is_incomplete());
        assert!(by_slice.row_of(6).is_none());
    }

    #[test]
    fn hosts_lost_together_are_one_row_and_earlier_deaths_another() {
        use DeathReason::{Expected, Preempted, Unexpected};
        let mut nodes: Vec<Node> =
            (0..8).map(|n| dead(host(n, "a"), 1500 + i64::from(n), Preempted)).collect();
        // One of them only missed its heartbeats.
        nodes[7] = dead(host(7, "a"), 1480, Unexpected);
        nodes.push(dead(host(10, "b"), 1470, Preempted));
        nodes.push(dead(host(11, "c"), 300, Preempted));
        nodes.push(dead(host(12, ""), 1500, Unexpected));
        nodes.push(dead(host(13, "d"), 7300, Preempted));
        nodes.push(dead(host(14, "e"), 90_000, Preempted));
        nodes.push(dead(host(15, "f"), 60, Expected));
        assert_eq!(
            rows(&nodes),
            [
                ":2 0/? of 2 Preempted earlier",
                ":0 0/? of 1 Unexpected 1500",
                ":2 0/? of 9 Preempted 1480",
                "c:1 0/? of 1 Preempted 300",
                "f:1 0/? of 1 Expected earlier",
            ]
        );
    }

    #[test]
    fn an_incomplete_slice_is_one_row_even_without_labels() {
        let labelled = [host(1, "a"), dead(host(2, "a"), 60, DeathReason::Unexpected)];
        assert_eq!(rows(&labelled), ["a:1 1/8 of 2"]);
        let old = |n: u8| Node {
            labels: [].into(),
            resources: Resources(
                [("TPU", 4.0), ("ray-c-worker-1-tpu", 1.0)]
                    .map(|(name, total)| Resource { name: name.into(), total, used: None })
                    .into(),
            ),
            ..host(n, "a")
        };
        let name = "ray-c-worker-1-tpu:1";
        let lost = dead(old(2), 60, DeathReason::Unexpected);
        assert_eq!(rows(&[old(1), old(2)]), [format!("{name} 2/? of 2")], "the number of hosts is unknown");
        assert_eq!(rows(&[old(1), lost.clone()]), [format!("{name} 1/2 of 2")]);
        let reborn = [Node { started: Some(ago(30)), ..old(1) }, lost.clone()];
        assert_eq!(rows(&reborn), [format!("{name} 1/? of 2")], "a host of the earlier slice of that name");
        assert_eq!(BySlice::of(&reborn, NOW).rows[0].ended, None);
        let again = [&reborn[..], &[dead(old(3), 10, DeathReason::Unexpected)]].concat();
        let row = BySlice::of(&again, NOW).rows.remove(0);
        assert_eq!((row.dead, row.ended.as_ref().map(|(at, _)| *at)), (1, Some(ago(10))), "one since then");
        let both = [old(1), lost.clone(), dead(old(3), 10, DeathReason::Unexpected)];
        assert_eq!(BySlice::of(&both, NOW).rows[0].dead, 2);
        let back = Node { id: NodeId::from_bytes(&[99; 28]).unwrap(), ..old(2) };
        assert_eq!(rows(&[old(1), lost, back]), [format!("{name} 2/? of 3")], "it came back");
        assert_eq!(BySlice::of(&[old(1)], NOW).rows[0].chips, (None, 4.0), "the usage is unknown");
    }

    proptest! {
        #[test]
        fn every_node_is_in_exactly_one_row(
            all in prop::collection::vec((any::<bool>(), any::<bool>(), ".{0,3}", ".{0,5}", 0_i64..9000), 0..40),
        ) {
            let nodes: Vec<Node> = (0..).zip(&all).map(|(n, (is_head, is_alive, slice, topology, secs))| {
                let mut node = host(n, slice);
                node.is_head = *is_head;
                node.labels = [("ray.io/tpu-slice-name".into(), slice.as_str().into()),
                    ("ray.io/tpu-topology".into(), topology.as_str().into())].into();
                if *is_alive { node } else { dead(node, *secs, DeathReason::Unexpected) }
            }).collect();
            let by_slice = BySlice::of(&nodes, NOW);
            let mut seen: Vec<u32> = by_slice.rows.iter().flat_map(|row| row.nodes.clone()).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..u32::try_from(nodes.len()).unwrap()).collect::<Vec<_>>());
            for (n, node) in nodes.iter().enumerate() {
                let row = by_slice.row_of(n).unwrap();
                prop_assert!(row.nodes.contains(&u32::try_from(n).unwrap()));
                prop_assert!(by_slice.find(&row.key) == Some(row), "keys are unique");
                prop_assert!(!node.state.is_alive() || row.alive > 0);
            }
        }
    }
}
