//! Where everything was drawn: the mouse needs it, and tables learn their height from it.

use super::logview::Window;
use super::pages::{Pane, View};
use super::target::Target;
use super::{App, Effect, Listing};
use crate::model::{NodeId, Request};

/// A rectangle of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Column of the left edge.
    pub x: u16,
    /// Row of the top edge.
    pub y: u16,
    /// Width in columns.
    pub width: u16,
    /// Height in rows.
    pub height: u16,
}

impl Area {
    pub(super) fn contains(self, column: u16, row: u16) -> bool {
        (self.x..self.x.saturating_add(self.width)).contains(&column)
            && (self.y..self.y.saturating_add(self.height)).contains(&row)
    }
}

/// Where a table was drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headed {
    /// Where its rows are; the titles are in the line above.
    pub rows: Area,
    /// Left edge and width of each of its columns; no width where there was no room.
    pub heads: Vec<(u16, u16)>,
}

impl Headed {
    /// The column whose title is there.
    pub(super) fn head_at(&self, column: u16, row: u16) -> Option<usize> {
        let is_there = |(x, width): &(u16, u16)| (*x..x.saturating_add(*width)).contains(&column);
        (row + 1 == self.rows.y).then(|| self.heads.iter().position(is_there)).flatten()
    }
}

/// Where everything was drawn; none for what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// The table of a page that is one.
    pub table: Option<Headed>,
    /// The nodes pane.
    pub nodes: Option<Headed>,
    /// The jobs pane.
    pub jobs: Option<Headed>,
    /// Where the lines of the log are.
    pub log: Option<Area>,
    /// Where the lines of the autoscaler pane are.
    pub autoscaler: Option<Area>,
    /// Highest first line of the autoscaler pane.
    pub autoscaler_last: usize,
    /// Highest first line of the worker types below a cluster's TPUs.
    pub tpu_types_last: usize,
    /// Where the lines of a thing in full are.
    pub details: Option<Area>,
    /// Highest first line of these.
    pub details_last: usize,
    /// Where the dialog is, with its border.
    pub dialog: Option<Area>,
    /// The dialog's buttons: Cancel, and the one that confirms.
    pub buttons: Option<[Area; 2]>,
    /// First line of the dialog that is shown.
    pub dialog_top: usize,
    /// Highest first line of the dialog.
    pub dialog_last: usize,
    /// Nothing could be drawn: the window is too small.
    pub is_too_small: bool,
}

impl Areas {
    /// Where a pane's rows or lines are.
    pub(super) fn pane(&self, pane: Pane) -> Option<Area> {
        match pane {
            Pane::Nodes => self.nodes.as_ref().map(|t| t.rows),
            Pane::Jobs => self.jobs.as_ref().map(|t| t.rows),
            Pane::Log => self.log,
            Pane::Autoscaler => self.autoscaler,
        }
    }

    /// The table of a pane, or of the page.
    pub(super) fn table_of(&self, pane: Option<Pane>) -> Option<&Headed> {
        match pane {
            None => self.table.as_ref(),
            Some(Pane::Nodes) => self.nodes.as_ref(),
            Some(Pane::Jobs) => self.jobs.as_ref(),
            Some(Pane::Log | Pane::Autoscaler) => None,
        }
    }

    /// The panes from the top left to the bottom right; by their numbers where they are not all on the screen.
    pub(super) fn panes_as_drawn(&self) -> [Pane; 4] {
        let mut order = Pane::ALL;
        if order.iter().all(|pane| self.pane(*pane).is_some()) {
            order.sort_by_key(|pane| self.pane(*pane).map(|a| (a.y, a.x)));
        }
        order
    }
}

impl App {
    /// Takes in where everything was drawn. Returns requests for the nodes that are on the screen now.
    pub fn drawn(&mut self, areas: Areas) -> Vec<Effect> {
        self.dirty = false;
        if let (Some(dialog), Some(_)) = (&mut self.dialog, areas.dialog) {
            dialog.drawn(areas.dialog_top, areas.dialog_last);
        }
        self.areas = areas;
        self.measure_tables();
        let visible = self.visible_nodes();
        if visible == self.visible {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.visible, visible);
        for (place, cluster) in self.fleet.clusters.iter_mut().enumerate() {
            let watched = self.visible.iter().find(|(p, _)| *p == place);
            cluster.watched = watched.map_or(0, |(_, nodes)| nodes.len());
        }
        let gone = before.iter().filter(|(place, _)| self.visible.iter().all(|(p, _)| p != place));
        let now_empty = gone.map(|(place, _)| (*place, Vec::new()));
        let changed = self.visible.iter().filter(|now| !before.contains(now)).cloned();
        let name = |place: usize| self.fleet.clusters[place].name().clone();
        let asked = now_empty.chain(changed);
        asked.map(|(place, ids)| Effect::Ask(name(place), Request::Visible(ids))).collect()
    }

    /// Tells tables, log and texts how much of them is on the screen.
    fn measure_tables(&mut self) {
        let areas = &self.areas;
        let height = |table: &Headed| usize::from(table.rows.height);
        match self.stack.last_mut() {
            Some(View::Cluster(place) | View::Log(place)) => {
                let page = &mut self.pages.cluster[*place];
                if let Some(table) = &areas.nodes {
                    page.nodes.drawn(height(table));
                }
                if let Some(table) = &areas.jobs {
                    page.jobs.drawn(height(table));
                }
                if let Some(area) = areas.log {
                    page.log.drawn(Window { width: area.width.into(), height: area.height.into() });
                }
                page.autoscaler_top = page.autoscaler_top.min(areas.autoscaler_last);
            }
            Some(View::Details(details)) => {
                details.last = areas.details_last;
                details.top = details.top.min(details.last);
            }
            Some(view) => {
                if let Some((table, listing)) =
                    areas.table.as_ref().zip(self.pages.listing_mut(view, self.pane))
                {
                    listing.drawn(height(table));
                }
                if let View::Tpus(place) = view {
                    self.pages.tpus[*place].measured(areas.tpu_types_last);
                }
            }
            None => {}
        }
    }

    /// The nodes on the screen that are alive, by cluster.
    fn visible_nodes(&self) -> Vec<(usize, Vec<NodeId>)> {
        let (listing, table): (&dyn Listing, _) = match self.view() {
            View::Nodes => (&self.pages.nodes, &self.areas.table),
            View::Cluster(place) => (&self.pages.cluster[*place].nodes, &self.areas.nodes),
            View::Details(details) => {
                let Target::Node(place, id) = details.target else { return Vec::new() };
                return vec![(place, vec![id])];
            }
            _ => return Vec::new(),
        };
        let Some(height) = table.as_ref().map(|t| usize::from(t.rows.height)) else { return Vec::new() };
        let top = listing.window(height);
        let mut visible: Vec<(usize, Vec<NodeId>)> = Vec::new();
        for target in (top..top + height).filter_map(|p| listing.target_at(&self.fleet, p)) {
            let Target::Node(place, id) = target else { continue };
            let node = self.fleet.clusters.get(place).and_then(|c| c.node(&id));
            if !node.is_some_and(|n| n.state.is_alive()) {
                continue;
            }
            match visible.iter_mut().find(|(p, _)| *p == place) {
                Some((_, ids)) => ids.push(id),
                None => visible.push((place, vec![id])),
            }
        }
        visible
    }
}
