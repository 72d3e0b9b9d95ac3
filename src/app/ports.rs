//! Local ports for operators: opened and closed by a key, shown with the service behind each.

use super::event::Effect;
use super::toast::Tone;
use super::{Action, App};
use crate::model::service::{OPEN_TO_ALL, addresses};
use crate::model::{Link, LocalPorts, Request, Timestamp};

impl App {
    /// Opens the local ports of the selected cluster, or closes them.
    pub(super) fn toggle_ports(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(cluster) = self.meant() else { return Vec::new() };
        let (name, open) = (cluster.name().clone(), cluster.ports.is_empty());
        let is_up = matches!(cluster.link, Some(Link::Up { .. }));
        if !open {
            self.toasts.say(Tone::Info, format!("{name}: local ports closed"), now);
        } else if !is_up {
            let text = format!("{name} is not connected; its local ports open once it is");
            self.toasts.say(Tone::Info, text, now);
        }
        vec![Effect::Ask(name, Request::Ports(open))]
    }

    /// Takes in the ports that are open now.
    pub(super) fn ports_news(&mut self, place: usize, open: LocalPorts, notes: &[String], now: Timestamp) {
        let cluster = &mut self.fleet.clusters[place];
        let name = cluster.name().clone();
        let is_told = open.is_empty() || open == cluster.ports;
        let is_open_to_all = matches!(cluster.link, Some(Link::Up { token_auth: false, .. }));
        cluster.ports = open;
        if !is_told {
            let warning = if is_open_to_all { format!("; {OPEN_TO_ALL}") } else { String::new() };
            let text = format!("{name}: {}{warning}", addresses(&name, &self.fleet.clusters[place].ports));
            self.toasts.say(if is_open_to_all { Tone::Info } else { Tone::Good }, text, now);
        }
        if !notes.is_empty() {
            let key = self.key_of(Action::Messages);
            self.toasts.say_one_of_many(name.as_str(), &notes.join("; "), now, |n| {
                format!("{n} clusters use other local ports than usual; {key} lists them")
            });
        }
        self.dirty = true;
    }
}
