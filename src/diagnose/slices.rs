//! TPU slices: the registered hosts and the expected number of hosts.

use crate::model::{Node, Text, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// The hosts of a new slice register one after another; a host that has not registered after this time is missing.
pub const MAX_ASSEMBLY: Duration = Duration::from_secs(600);

/// A TPU slice with at least one living host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice<'a> {
    /// Its name.
    pub name: &'a str,
    /// Node type of its hosts.
    pub node_type: &'a str,
    /// The number of hosts alive in Ray.
    pub registered: u32,
    /// The number of hosts that it should have.
    pub expected: u32,
    /// When its first living host registered.
    pub started: Option<Timestamp>,
    /// Latest death of one of its hosts since `started`: a slice may have been created again under the same name.
    pub lost: Option<Timestamp>,
}

/// Slices of several hosts whose size is known from Ray's labels, by name.
pub fn slices(nodes: &[Node]) -> Vec<Slice<'_>> {
    let mut by_name: BTreeMap<&str, Slice<'_>> = BTreeMap::new();
    for node in nodes {
        let Some(name) = node.slice().map(Text::raw) else { continue };
        let slice = by_name.entry(name).or_insert(Slice {
            name,
            node_type: node.node_type.raw(),
            registered: 0,
            expected: 0,
            started: None,
            lost: None,
        });
        slice.expected = slice.expected.max(node.hosts_of_slice().unwrap_or(0));
        if node.state.is_alive() {
            slice.registered += 1;
            slice.started = [slice.started, node.started].into_iter().flatten().min();
        } else {
            slice.lost = slice.lost.max(node.ended);
        }
    }
    for slice in by_name.values_mut() {
        slice.lost = slice.lost.filter(|lost| slice.started.is_none_or(|started| *lost > started));
    }
    by_name.into_values().filter(|s| s.registered > 0 && s.expected > 1).collect()
}
