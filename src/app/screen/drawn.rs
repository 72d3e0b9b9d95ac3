//! Records where everything was drawn: tables get their height from it.

use crate::app::screen::areas::Areas;
use crate::app::{App, Effect};
use crate::model::Request;

impl App {
    /// Records where everything was drawn. Returns requests for the nodes that are now on the screen.
    pub fn drawn(&mut self, areas: Areas) -> Vec<Effect> {
        self.dirty = false;
        if let (Some(dialog), Some(_)) = (&mut self.dialog, areas.dialog) {
            dialog.drawn(areas.dialog_top, areas.dialog_last);
        }
        self.areas = areas;
        let visible = self.page_mut().map(|(page, fleet, areas)| {
            page.measure(areas);
            page.nodes_in_view(fleet, areas)
        });
        let visible = visible.unwrap_or_default();
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
}
