//! Takes in where everything was drawn: tables learn their height from it.

use crate::app::action::target::Target;
use crate::app::log::Window;
use crate::app::screen::areas::{Areas, TableArea};
use crate::app::view::{Pane, View};
use crate::app::{App, Effect, Listing};
use crate::model::{NodeId, Request};
use std::collections::HashSet;

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
        let height = |table: &TableArea| usize::from(table.rows.height);
        match self.stack.page_mut() {
            Some(View::Cluster(place) | View::Log(place)) => {
                let page = &mut self.pages.cluster[*place];
                for (pane, table) in [(Pane::Nodes, &areas.nodes), (Pane::Jobs, &areas.jobs)] {
                    if let Some((table, listing)) = table.as_ref().zip(page.listing_mut(pane)) {
                        listing.drawn(height(table));
                    }
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
            Some(View::Operation(place)) => {
                let page = &mut self.pages.cluster[*place];
                page.operation_most = areas.details_last;
                page.operation_below = page.operation_below.min(areas.details_last);
            }
            Some(view) => {
                if let Some((table, listing)) =
                    areas.table.as_ref().zip(self.pages.listing_mut(view, self.split.focused))
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
            View::Cluster(place) => match self.pages.cluster[*place].listing(Pane::Nodes) {
                Some(listing) => (listing, &self.areas.nodes),
                None => return Vec::new(),
            },
            View::Details(details) => {
                let Target::Node(place, id) = details.target else { return Vec::new() };
                return vec![(place, vec![id])];
            }
            view => match self.pages.listing(view, self.split.focused) {
                Some(listing) => (listing, &self.areas.table),
                None => return Vec::new(),
            },
        };
        let Some(height) = table.as_ref().map(|t| usize::from(t.rows.height)) else { return Vec::new() };
        let top = listing.window(height);
        let mut visible: Vec<(usize, Vec<NodeId>)> = Vec::new();
        for target in (top..top + height).filter_map(|p| listing.target_at(&self.fleet, p)) {
            let Some((place, cluster)) = target.place().and_then(|p| Some((p, self.fleet.clusters.get(p)?)))
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
            match visible.iter_mut().find(|(p, _)| *p == place) {
                Some((_, ids)) => ids.extend(seen),
                None if seen.is_empty() => {}
                None => visible.push((place, seen)),
            }
        }
        // The grid of a slice shows all of its hosts; those in the table come first.
        if let View::Slice(place, hosts) = self.view() {
            let cluster = self.fleet.clusters.get(*place);
            let all = cluster.map(|cluster| cluster.alive_of(hosts)).unwrap_or_default();
            let seen = visible.pop().map(|(_, ids)| ids).unwrap_or_default();
            let first: HashSet<NodeId> = seen.iter().copied().collect();
            let rest = all.into_iter().filter(|id| !first.contains(id));
            return vec![(*place, seen.into_iter().chain(rest).collect())];
        }
        visible
    }
}
