//! The common interface of pages.

use crate::app::action::target::Target;
use crate::app::fleet::Fleet;
use crate::app::screen::areas::Areas;
use crate::app::screen::pane::Pane;
use crate::app::table::column::Kind;
use crate::app::table::list::{List, Listing};
use crate::model::NodeId;

/// Nodes, by the index of their cluster.
pub type NodesInView = Vec<(usize, Vec<NodeId>)>;

/// A page over the data of the fleet. It owns its rows or lines, and its cursor; the default methods are those of a
/// page with one table. Only a cluster's page has panes: `pane` is the one with the focus, or under the pointer.
///
/// The table of actions ([`crate::app::Action`]) defines what other keys do, and [`crate::ui`] how a page is drawn.
pub trait Page: Send {
    /// Each of its tables, on the screen or not.
    fn tables(&self) -> Vec<&dyn Listing> {
        self.listing(Pane::Nodes).into_iter().collect()
    }

    /// Each of its tables, mutable.
    fn tables_mut(&mut self) -> Vec<&mut dyn Listing> {
        self.listing_mut(Pane::Nodes).into_iter().collect()
    }

    /// The table on the screen; `None` for a page of lines.
    fn listing(&self, _pane: Pane) -> Option<&dyn Listing> {
        None
    }

    /// The table on the screen, mutable.
    fn listing_mut(&mut self, _pane: Pane) -> Option<&mut dyn Listing> {
        None
    }

    /// Puts its rows in order.
    fn rearrange(&mut self, fleet: &Fleet) {
        self.tables_mut().into_iter().for_each(|table| table.arrange(fleet));
    }

    /// Moves the cursor or the lines.
    fn scroll(&mut self, fleet: &Fleet, pane: Pane, by: isize) {
        if let Some(listing) = self.listing_mut(pane) {
            listing.step(fleet, by);
        }
    }

    /// Number of rows or lines on the screen.
    fn page_height(&self, _areas: &Areas, pane: Pane) -> usize {
        self.listing(pane).map_or(1, Listing::height)
    }

    /// Records where it was drawn.
    fn measure(&mut self, areas: &Areas) {
        if let Some((table, listing)) = areas.table.as_ref().zip(self.listing_mut(Pane::Nodes)) {
            listing.drawn(table);
        }
    }

    /// The alive nodes on the screen.
    fn nodes_in_view(&self, fleet: &Fleet, areas: &Areas) -> NodesInView {
        let drawn = areas.nodes.as_ref().or(areas.table.as_ref());
        match self.listing(Pane::Nodes).zip(drawn) {
            Some((listing, table)) => nodes_of_rows(listing, fleet, table.rows.height.into()),
            None => Vec::new(),
        }
    }
}

impl<K: Kind> Page for List<K> {
    fn listing(&self, _pane: Pane) -> Option<&dyn Listing> {
        Some(self)
    }

    fn listing_mut(&mut self, _pane: Pane) -> Option<&mut dyn Listing> {
        Some(self)
    }
}

/// The alive nodes in the rows of a window of this height.
pub(super) fn nodes_of_rows(listing: &dyn Listing, fleet: &Fleet, height: usize) -> NodesInView {
    let top = listing.window(height);
    let mut visible: NodesInView = Vec::new();
    for target in (top..top + height).filter_map(|position| listing.target_at(fleet, position)) {
        let Some((cluster_index, cluster)) =
            target.cluster_index().and_then(|p| Some((p, fleet.clusters.get(p)?)))
        else {
            continue;
        };
        let seen = match target {
            Target::Node(_, id) => {
                cluster.node(&id).filter(|n| n.state.is_alive()).map(|n| n.id).into_iter().collect()
            }
            // The worst of them is shown.
            Target::Hosts(_, hosts) => cluster.alive_of(&hosts),
            _ => Vec::new(),
        };
        match visible.iter_mut().find(|(p, _)| *p == cluster_index) {
            Some((_, ids)) => ids.extend(seen),
            None if seen.is_empty() => {}
            None => visible.push((cluster_index, seen)),
        }
    }
    visible
}
