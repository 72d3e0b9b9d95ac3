//! A node of a Ray cluster: its resources, their use, and its cause of death.

use super::time::brief;
use super::{Text, Timestamp};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A Ray node id: 28 bytes, shown as 56 hex digits.
///
/// An id of another length cannot be constructed: a malformed id in a GCS request crashes the whole `gcs_server`
/// (a failed check in Ray's `NodeID`, seen on 2.60).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 28]);

impl NodeId {
    /// From bytes sent by the GCS; `None` unless there are exactly 28.
    pub fn from_bytes(b: &[u8]) -> Option<Self> {
        b.try_into().ok().map(Self)
    }

    /// From 56 hex digits, as the dashboard reports them.
    pub fn from_hex(s: &str) -> Option<Self> {
        if s.len() != 56 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut id = [0; 28];
        for (i, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(s.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Self(id))
    }

    /// The id as 28 bytes.
    pub const fn as_bytes(&self) -> &[u8; 28] {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// Registered and sending heartbeats.
    Alive,
    /// Alive and idle (reported by autoscaler v2; v1 does not distinguish).
    Idle,
    /// About to be removed; takes no new work.
    Draining,
    /// Removed or failed; see [`Node::death`].
    Dead,
}

impl NodeState {
    /// Whether the node is not dead.
    pub const fn is_alive(self) -> bool {
        !matches!(self, Self::Dead)
    }

    /// The state as shown on the screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Idle => "idle",
            Self::Draining => "draining",
            Self::Dead => "dead",
        }
    }
}

/// The cause of a node's death as reported by Ray (`NodeDeathInfo.Reason` in Ray's `gcs.proto`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeathReason {
    /// Ray gave no reason.
    Unspecified,
    /// Stopped regularly (`ray stop`, SIGTERM, the autoscaler).
    Expected,
    /// Missed its heartbeats or crashed.
    Unexpected,
    /// Drained because the machine was preempted.
    Preempted,
}

/// The end of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Reason reported by Ray.
    pub reason: DeathReason,
    /// Ray's message, e.g. `health check failed due to missing too many heartbeats`.
    pub message: Text,
}

impl Death {
    /// The message of a drain before a removal. Ray repeats it as that of the node's death, with the reason "preempted",
    /// the only one that it accepts for a busy node.
    pub const REMOVED: &str = "removed by marin-tui";
}

/// Time for which a lost node is reported; Ray keeps it for days.
pub const LOST_LATELY: Duration = Duration::from_secs(3600);

impl Node {
    /// The value of the label with this key.
    pub fn label(&self, key: &str) -> Option<&Text> {
        self.labels.iter().find(|(k, _)| k.raw() == key).map(|(_, value)| value)
    }

    /// When and why it died: `node died 12m ago: health check failed`.
    pub fn died(&self, now: Timestamp) -> String {
        let ago = self.ended.map(|at| format!(" {} ago", brief(at.age(now)))).unwrap_or_default();
        let why = self.death.as_ref().filter(|death| !death.message.is_empty());
        let why = why.map(|death| format!(": {}", death.message)).unwrap_or_default();
        format!("node died{ago}{why}")
    }

    /// Whether the node died recently without an orderly stop: preempted, crashed, or for an unknown reason.
    pub fn is_lost(&self, now: Timestamp) -> bool {
        self.died_unexpectedly() && self.ended.is_some_and(|at| at.age(now) < LOST_LATELY)
    }

    /// Whether the node died at any time without an orderly stop.
    pub fn died_unexpectedly(&self) -> bool {
        !self.state.is_alive() && self.death.as_ref().is_none_or(|d| d.reason != DeathReason::Expected)
    }
}

/// One logical resource of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Ray's name, verbatim: `CPU`, `TPU`, `memory`, `TPU-v4-8-head`.
    pub name: Text,
    /// Capacity; bytes for `memory` and `object_store_memory`.
    pub total: f64,
    /// Amount in use; `None` if the channel does not report it.
    pub used: Option<f64>,
}

/// Logical resources, in a stable order (by name).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources(pub Vec<Resource>);

impl Resources {
    /// The resource with exactly this name.
    pub fn get(&self, name: &str) -> Option<&Resource> {
        self.0.iter().find(|r| r.name.raw() == name)
    }
}

/// A node as Ray sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Ray's node id.
    pub id: NodeId,
    /// Ray's node name: the address, unless the provider sets a name.
    pub name: Text,
    /// IP address of the raylet.
    pub address: Text,
    /// Host name; empty if unknown.
    pub hostname: Text,
    /// The autoscaler's node type (`tpu_worker`); empty for nodes that it did not start.
    pub node_type: Text,
    /// The provider's id of the machine; empty if unknown.
    pub instance_id: Text,
    /// Whether this is the head.
    pub is_head: bool,
    /// State of the node.
    pub state: NodeState,
    /// Time of registration.
    pub started: Option<Timestamp>,
    /// Time of death.
    pub ended: Option<Timestamp>,
    /// Cause of death.
    pub death: Option<Death>,
    /// Idle time in milliseconds; `None` if busy or unknown.
    pub idle_ms: Option<u64>,
    /// Logical resources with current use.
    pub resources: Resources,
    /// Labels, sorted by key. They do not change after registration.
    pub labels: Arc<[(Text, Text)]>,
}

/// Display names of nodes that have a name besides their address: the provider's name, else the host name.
pub fn node_names(nodes: &[Node]) -> HashMap<NodeId, Text> {
    let mut hosts: HashMap<&str, usize> = HashMap::new();
    for node in nodes.iter().filter(|n| n.state.is_alive()) {
        *hosts.entry(node.hostname.raw()).or_default() += 1;
    }
    let name = |node: &Node| {
        // All containers on one machine may have its host name.
        let is_unique = !node.hostname.is_empty() && hosts.get(node.hostname.raw()).is_none_or(|n| *n < 2);
        match () {
            () if !node.name.is_empty() && node.name != node.address => Some(node.name.clone()),
            () if is_unique => Some(node.hostname.clone()),
            () => None,
        }
    };
    nodes.iter().filter_map(|node| Some((node.id, name(node)?))).collect()
}

/// Metrics of the machine (dashboard, `GET /nodes/{id}`), sampled by the node's agent every 5 s.
#[derive(Clone, Debug, PartialEq)]
pub struct Physical {
    /// Time of the sample (the node's clock).
    pub sampled: Option<Timestamp>,
    /// Whole-machine CPU use, 0 to 100.
    pub cpu_percent: Option<f64>,
    /// Memory used and total, bytes.
    pub memory: Option<(u64, u64)>,
    /// Root disk used and total, bytes.
    pub disk: Option<(u64, u64)>,
    /// TPU chips, if the node's device plug-in reports them (GKE only; empty on plain TPU VMs).
    pub tpus: Vec<TpuChip>,
}

/// One TPU chip, as reported by the device plug-in.
#[derive(Clone, Debug, PartialEq)]
pub struct TpuChip {
    /// Tensor-core utilisation, 0 to 100.
    pub tensorcore_percent: Option<f64>,
    /// Memory used and total, bytes.
    pub memory: Option<(u64, u64)>,
}

/// `t1v-n-7 (10.0.0.7)`, or only the address if the host has no other name; safe for a terminal.
pub(super) fn host_label(host: &Text, address: &Text) -> String {
    if host == address { address.to_string() } else { format!("{host} ({address})") }
}

#[cfg(test)]
impl Node {
    /// A live node with number `n`, without resources.
    pub(crate) fn sample(n: u8) -> Self {
        Self {
            id: NodeId::from_bytes(&[n; 28]).expect("28 bytes"),
            name: "n".into(),
            address: format!("10.0.0.{n}").into(),
            hostname: Text::default(),
            node_type: Text::default(),
            instance_id: Text::default(),
            is_head: false,
            state: NodeState::Alive,
            started: None,
            ended: None,
            death: None,
            idle_ms: None,
            resources: Resources::default(),
            labels: std::sync::Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_28_bytes_make_a_node_id() {
        assert!(NodeId::from_bytes(&[7; 28]).is_some());
        for n in [0, 1, 27, 29, 56] {
            assert!(NodeId::from_bytes(&vec![7; n]).is_none(), "{n} bytes");
        }
        assert!(NodeId::from_hex(&"zz".repeat(28)).is_none());
        assert!(NodeId::from_hex(&"é".repeat(28)).is_none());
        let hex = "0123456789abcdef".repeat(4)[..56].to_owned();
        assert_eq!(NodeId::from_hex(&hex).map(|i| i.to_string()), Some(hex));
    }
}
