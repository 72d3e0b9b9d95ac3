//! The fleet: all clusters in the order of their issues, their totals, and the moves between views.

use super::{App, Cluster, Effect, Filter, Pane, View, order};
use crate::diagnose::{Finding, Severity};
use crate::model::{Chip, JobKey, Link, NodeId, Request, Timestamp};

/// Chips of one kind of several clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Chips in use; none when the use is known on no cluster.
    pub used: Option<f64>,
    /// Whether the use of some chips is not known, so that more may be in use.
    pub is_least: bool,
    /// The number of chips.
    pub all: f64,
}

impl Sum {
    fn add(&mut self, used: Option<f64>, all: f64) {
        match used {
            _ if all <= 0.0 => {}
            Some(used) => self.used = Some(self.used.unwrap_or(0.0) + used),
            None => self.is_least = true,
        }
        self.all += all;
    }
}

/// Totals over all clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// The number of clusters.
    pub clusters: usize,
    /// Clusters with a working connection.
    pub up: usize,
    /// Clusters whose state was read; without one all that follows is unknown.
    pub known: usize,
    /// Files that could not be read.
    pub broken: usize,
    /// The number of nodes alive.
    pub nodes: usize,
    /// TPU chips of all clusters.
    pub tpus: Sum,
    /// GPUs of all clusters.
    pub gpus: Sum,
    /// The number of running jobs.
    pub running: usize,
    /// The number of pending jobs.
    pub waiting: usize,
}

impl App {
    /// Totals over all clusters, as far as they are known.
    pub fn totals(&self) -> Totals {
        let mut all =
            Totals { clusters: self.clusters.len(), broken: self.broken.len(), ..Totals::default() };
        for c in &self.clusters {
            let t = &c.tally;
            all.up += usize::from(matches!(c.link, Some(Link::Up { .. })));
            all.known += usize::from(c.known);
            all.nodes += t.alive;
            all.running += t.running;
            all.waiting += t.waiting;
            match t.chip {
                Chip::Tpu => all.tpus.add(t.used, t.chips),
                Chip::Gpu => all.gpus.add(t.used, t.chips),
                Chip::Cpu => {}
            }
        }
        all
    }

    /// The number of findings in the fleet that need action.
    pub fn alerts(&self) -> usize {
        self.broken.len() + self.clusters.iter().map(Cluster::alerts).sum::<usize>()
    }

    pub(super) fn arrange_list(&mut self) {
        let (clusters, broken) = (&self.clusters, &self.broken);
        let admits = |i: usize, filter: &Filter| match clusters.get(i) {
            Some(c) => {
                let issue = c.says().map_or("", |f| f.kind.word());
                filter.admits([("cluster", c.name().as_str()), ("issue", issue)])
            }
            None => {
                filter.admits([("cluster", broken[i - clusters.len()].0.as_str()), ("issue", "broken file")])
            }
        };
        self.list.arrange(
            clusters.len() + broken.len(),
            |i| i,
            admits,
            |a, b, sort| order::clusters(clusters.get(a), clusters.get(b), sort),
        );
        if !self.list_moved {
            self.list.go(0, |i| i);
        }
    }

    /// Puts the merged rows in order, if they are on the screen.
    pub(super) fn arrange_merged(&mut self) {
        match self.view {
            View::Nodes => self.all_nodes.arrange_nodes(&self.clusters),
            View::Jobs => self.all_jobs.arrange_jobs(&self.clusters),
            View::Clusters | View::Cluster(_) | View::Tpus(_) => {}
        }
    }

    /// Shows the fleet, all nodes, or all jobs.
    pub(super) fn show(&mut self, view: View) -> Vec<Effect> {
        let effects = self.leave_cluster();
        if let View::Cluster(place) | View::Tpus(place) = self.view {
            self.list.select(&place, |i| i);
        }
        self.turn_to(view);
        self.root = view;
        self.arrange_merged();
        effects
    }

    /// Puts a page on the screen, and keeps the one before for the key that goes back to it.
    pub(super) fn turn_to(&mut self, view: View) {
        if view != self.view {
            self.last = std::mem::replace(&mut self.view, view);
        }
    }

    /// Goes to the page before this one, as `cd -` does.
    pub(super) fn last_page(&mut self) -> Vec<Effect> {
        match self.last {
            View::Cluster(place) => self.enter(place),
            View::Tpus(place) => self.enter_tpus(place),
            view => self.show(view),
        }
    }

    /// Shows a cluster; it is polled more often while it is on the screen.
    pub(super) fn enter(&mut self, place: usize) -> Vec<Effect> {
        let mut effects = self.leave_cluster();
        self.turn_to(View::Cluster(place));
        self.list_moved = true;
        self.zoomed = false;
        self.dirty = true;
        self.clusters[place].pace = self.paces.focused;
        effects.push(Effect::Ask(self.clusters[place].name().clone(), Request::Focus(true)));
        if self.clusters[place].known {
            effects.extend(self.follow_newest(place));
        }
        effects
    }

    /// Shows a cluster, and asks about a changed host key.
    pub(super) fn visit(&mut self, place: usize, now: Timestamp) -> Vec<Effect> {
        let effects = self.enter(place);
        self.ask_about_host_key(now);
        effects
    }

    /// Opens the cluster of the selected merged row, with that row selected in its pane.
    pub(super) fn visit_row(&mut self, now: Timestamp) -> Vec<Effect> {
        let node = self.meant_node().map(|(place, n)| (place, n.id));
        let job = self.meant_job().map(|(place, j)| (place, j.key.clone()));
        match (self.view, node, job) {
            (View::Nodes, Some((place, id)), _) => {
                self.pane = Pane::Nodes;
                self.clusters[place].select_node(id);
                self.visit(place, now)
            }
            (View::Jobs, _, Some((place, key))) => {
                self.pane = Pane::Jobs;
                self.clusters[place].select_job(&key);
                self.visit(place, now)
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn leave_cluster(&mut self) -> Vec<Effect> {
        let (View::Cluster(place) | View::Tpus(place)) = self.view else { return Vec::new() };
        let Some(cluster) = self.clusters.get_mut(place) else { return Vec::new() };
        cluster.pace = self.paces.background;
        vec![Effect::Ask(cluster.name().clone(), Request::Focus(false))]
    }
}

impl Cluster {
    /// The worst finding, which the fleet's row shows.
    pub fn says(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// The number of findings that need action; one for an unreachable cluster: its others may be out of date.
    pub fn alerts(&self) -> usize {
        if let Some(running) = self.operating() {
            if running.takes_down() {
                return 0;
            }
            if running.is_stopped() {
                return 1;
            }
        }
        if self.problem().is_some() {
            return 1;
        }
        self.findings.iter().filter(|f| f.severity == Severity::Bad).count()
    }

    /// Selects a node; a filter that hides it is cleared.
    fn select_node(&mut self, id: NodeId) {
        let nodes = self.snapshot.clone();
        self.nodes.select(&id, |i| nodes.nodes[i].id);
        if self.node().is_none_or(|n| n.id != id) {
            self.nodes.set_filter(Filter::default());
            self.arrange_nodes();
        }
    }

    /// Selects a job; a filter that hides it is cleared.
    pub(super) fn select_job(&mut self, key: &JobKey) {
        let jobs = self.snapshot.clone();
        self.jobs.select(key, |i| jobs.jobs[i].key.clone());
        if self.job().is_none_or(|j| j.key != *key) {
            self.jobs.set_filter(Filter::default());
            self.arrange_jobs();
        }
    }
}
