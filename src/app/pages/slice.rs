//! The page of a slice, or of other hosts in one row: each host as a cell of a grid, and a table of them.

use super::nodes::Nodes;
use super::page::{NodesInView, Page, nodes_of_rows};
use crate::app::fleet::Fleet;
use crate::app::fleet::cluster::Cluster;
use crate::app::screen::areas::Areas;
use crate::app::screen::pane::Pane;
use crate::app::table::list::{List, Listing};
use crate::model::natural::natural;
use crate::model::sort;
use crate::model::{Node, NodeId};
use crate::reconcile::HostsKey;
use std::collections::HashSet;

#[derive(Debug)]
pub struct SlicePage {
    /// The hosts as a table.
    pub list: List<Nodes>,
    cluster_index: usize,
    /// The numbers of its nodes in the order of their names: the cells of the grid.
    cells: Vec<usize>,
}

impl SlicePage {
    /// The page of the hosts with that key.
    pub fn new(cluster_index: usize, hosts: HostsKey) -> Self {
        Self { list: List::among(cluster_index, hosts), cluster_index, cells: Vec::new() }
    }

    /// Whether it is the page of those hosts.
    pub fn is_of(&self, cluster_index: usize, hosts: &HostsKey) -> bool {
        self.cluster_index == cluster_index && self.list.within() == Some(hosts)
    }

    /// The nodes in the grid that still exist.
    pub fn cells<'f>(&self, cluster: &'f Cluster) -> impl Iterator<Item = &'f Node> {
        self.cells.iter().filter_map(|number| node(cluster, *number))
    }
}

impl Page for SlicePage {
    fn listing(&self, _pane: Pane) -> Option<&dyn Listing> {
        Some(&self.list)
    }

    fn listing_mut(&mut self, _pane: Pane) -> Option<&mut dyn Listing> {
        Some(&mut self.list)
    }

    /// Sorts rows and cells. A dead host whose address is alive again was replaced, and has no cell.
    fn rearrange(&mut self, fleet: &Fleet) {
        self.list.arrange(fleet);
        let Some(cluster) = fleet.clusters.get(self.cluster_index) else { return };
        let mut hosts: Vec<(usize, &Node)> =
            self.list.numbers().filter_map(|n| Some((n, node(cluster, n)?))).collect();
        let back: HashSet<&str> =
            hosts.iter().filter(|(_, n)| n.state.is_alive()).map(|(_, n)| n.address.raw()).collect();
        hosts.retain(|(_, n)| n.state.is_alive() || !back.contains(n.address.raw()));
        sort::by(&mut hosts, |(_, a), (_, b)| {
            natural(cluster.node_name(a).raw(), cluster.node_name(b).raw())
        });
        self.cells = hosts.into_iter().map(|(number, _)| number).collect();
    }

    /// The grid shows all of its hosts; those in the table come first.
    fn nodes_in_view(&self, fleet: &Fleet, areas: &Areas) -> NodesInView {
        let height = areas.table.as_ref().map_or(0, |table| table.rows.height.into());
        let seen = nodes_of_rows(&self.list, fleet, height).pop().map(|(_, ids)| ids).unwrap_or_default();
        let first: HashSet<NodeId> = seen.iter().copied().collect();
        let all = fleet.clusters.get(self.cluster_index).zip(self.list.within());
        let all = all.map(|(cluster, hosts)| cluster.alive_of(hosts)).unwrap_or_default();
        let rest = all.into_iter().filter(|id| !first.contains(id));
        vec![(self.cluster_index, seen.into_iter().chain(rest).collect())]
    }
}

fn node(cluster: &Cluster, number: usize) -> Option<&Node> {
    cluster.snapshot.nodes.get(number)
}
