//! Local ports for operators: opened and closed by a key, listed with the service behind each.

use crate::app::App;
use crate::app::event::Effect;
use crate::app::text::toast::{Cause, MessageKind};
use crate::model::service::{OPEN_TO_ALL, addresses};
use crate::model::{Link, LocalPorts, Request, Timestamp};

impl App {
    /// Opens the local ports of the selected cluster, or closes them.
    pub(in crate::app) fn toggle_ports(&mut self, now: Timestamp) -> Vec<Effect> {
        // A frozen screen shows the ports as they were.
        let live = self.frozen.as_ref().map_or(&self.fleet, |frozen| &frozen.live);
        let Some(cluster) =
            self.target_cluster_index().and_then(|cluster_index| live.clusters.get(cluster_index))
        else {
            return Vec::new();
        };
        let (name, open) = (cluster.name().clone(), cluster.ports.is_empty());
        let is_up = cluster.is_up();
        if !open {
            self.toasts.report(MessageKind::Info, format!("{name}: local ports closed"), now);
        } else if !is_up {
            let text = format!("{name} is not connected; its local ports will open once it is");
            self.toasts.report(MessageKind::Info, text, now);
        }
        vec![Effect::Ask(name, Request::Ports(open))]
    }

    /// Stores the ports that are currently open.
    pub(in crate::app) fn apply_ports(
        &mut self,
        cluster_index: usize,
        open: LocalPorts,
        notes: &[String],
        now: Timestamp,
    ) {
        let cluster = &mut self.fleet.clusters[cluster_index];
        let name = cluster.name().clone();
        let is_known = open.is_empty() || open == cluster.ports;
        let is_open_to_all = matches!(cluster.link, Some(Link::Up { token_auth: false, .. }));
        cluster.ports = open;
        if !is_known {
            let warning = if is_open_to_all { format!("; {OPEN_TO_ALL}") } else { String::new() };
            let text =
                format!("{name}: {}{warning}", addresses(&name, &self.fleet.clusters[cluster_index].ports));
            self.toasts.report(if is_open_to_all { MessageKind::Info } else { MessageKind::Good }, text, now);
        }
        if !notes.is_empty() {
            self.report_of_cluster(&name, Cause::Ports, &notes.join("; "), now);
        }
        self.dirty = true;
    }
}
