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
        for (cluster_index, cluster) in self.fleet.clusters.iter_mut().enumerate() {
            let watched = self.visible.iter().find(|(p, _)| *p == cluster_index);
            cluster.watched = watched.map_or(0, |(_, nodes)| nodes.len());
        }
        let gone =
            before.iter().filter(|(cluster_index, _)| self.visible.iter().all(|(p, _)| p != cluster_index));
        let now_empty = gone.map(|(cluster_index, _)| (*cluster_index, Vec::new()));
        let changed = self.visible.iter().filter(|now| !before.contains(now)).cloned();
        let name = |cluster_index: usize| self.fleet.clusters[cluster_index].name().clone();
        let requests = now_empty.chain(changed);
        requests.map(|(cluster_index, ids)| Effect::Ask(name(cluster_index), Request::Visible(ids))).collect()
    }
}
