//! TPU slices: the registered hosts and the expected number of hosts.

use crate::model::{Node, Text, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// The hosts of a new slice register one after the other; after that long a missing one is missing.
pub const ASSEMBLY: Duration = Duration::from_secs(600);

/// A TPU slice with at least one living host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice<'a> {
    /// Its name (label `ray.io/tpu-slice-name`).
    pub name: &'a str,
    /// Node type of its hosts.
    pub node_type: &'a str,
    /// The number of hosts alive in Ray.
    pub registered: u32,
    /// Hosts that it consists of.
    pub expected: u32,
    /// When its first living host registered.
    pub started: Option<Timestamp>,
    /// Latest death of one of its hosts.
    pub lost: Option<Timestamp>,
}

/// Slices of several hosts whose size is known from Ray's labels (`ray.io/tpu-topology`, else
/// `ray.io/tpu-pod-type`, and the host's `TPU` resource), by name.
pub fn slices(nodes: &[Node]) -> Vec<Slice<'_>> {
    let mut by_name: BTreeMap<&str, Slice<'_>> = BTreeMap::new();
    for node in nodes {
        let Some(name) = label(node, "ray.io/tpu-slice-name").filter(|n| !n.is_empty()) else { continue };
        let slice = by_name.entry(name).or_insert(Slice {
            name,
            node_type: node.node_type.raw(),
            registered: 0,
            expected: 0,
            started: None,
            lost: None,
        });
        slice.expected = slice.expected.max(hosts(node).unwrap_or(0));
        if node.state.is_alive() {
            slice.registered += 1;
            slice.started = [slice.started, node.started].into_iter().flatten().min();
        } else {
            slice.lost = slice.lost.max(node.ended);
        }
    }
    by_name.into_values().filter(|s| s.registered > 0 && s.expected > 1).collect()
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.label(key).map(Text::raw)
}

/// Hosts of the slice that a host belongs to.
fn hosts(node: &Node) -> Option<u32> {
    let here = node.resources.get("TPU").map(|r| r.total).filter(|t| *t >= 1.0)?;
    let chips = label(node, "ray.io/tpu-topology")
        .and_then(chips_of_topology)
        .or_else(|| chips_of_pod_type(label(node, "ray.io/tpu-pod-type")?))?;
    // More than the largest slice that exists (v5p-12288) is no size but nonsense.
    (chips <= 16_384).then(|| (f64::from(chips) / here).ceil() as u32)
}

/// `2x2x4` is 16 chips.
fn chips_of_topology(topology: &str) -> Option<u32> {
    topology.split('x').map(|n| n.parse::<u32>().ok()).try_fold(1u32, |all, n| all.checked_mul(n?))
}

/// `v4-32` and `tpu7x-32` count cores, two a chip; `v5litepod-16`, `v5e-16` and `v6e-16` count chips.
fn chips_of_pod_type(kind: &str) -> Option<u32> {
    let (generation, size) = kind.split_once('-')?;
    let size: u32 = size.parse().ok()?;
    match generation {
        "v2" | "v3" | "v4" | "v5p" | "tpu7x" => Some(size / 2),
        "v5litepod" | "v5e" | "v6e" => Some(size),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_google_writes_them() {
        assert_eq!(chips_of_topology("2x2x4"), Some(16));
        assert_eq!(chips_of_topology("4x4"), Some(16));
        assert_eq!(chips_of_topology(""), None);
        assert_eq!(chips_of_topology("99999x99999"), None);
        assert_eq!(chips_of_pod_type("v4-32"), Some(16));
        assert_eq!(chips_of_pod_type("v5litepod-16"), Some(16));
        assert_eq!(chips_of_pod_type("v9-16"), None, "a generation that is not known yet");
    }
}
