//! The state of the screen: events in, effects out. No terminal, no network, no clock of its own.
//!
//! A key is one call stack: `update` looks it up in the context that the state implies, `act` changes the state and
//! returns what the world outside has to do.

pub mod actions;
pub mod cluster;
pub mod describe;
mod dialog;
mod event;
mod fixes;
mod fleet;
pub mod form;
mod forms;
mod keymap;
mod logview;
mod marks;
mod merged;
mod mouse;
mod news;
mod operate;
mod order;
mod paces;
pub mod plan;
mod ports;
mod prompt;
pub mod running;
mod steps;
mod table;
mod toast;
mod tpus;
mod trend;
mod typing;
mod work;
pub mod worker;
mod workers;

pub use actions::{Action, Context};
pub use cluster::{Cluster, Listed};
pub use dialog::{Dialog, Question};
pub use event::{Effect, Event, Outcome};
pub use fleet::{Sum, Totals};
pub use keymap::{Keymap, KeymapError};
pub use logview::{LogView, Window, pieces};
pub use merged::{ALL_JOB_COLUMNS, ALL_NODE_COLUMNS, Merged};
pub use mouse::{Area, Areas};
pub use order::{FLEET_COLUMNS, JOB_COLUMNS, NODE_COLUMNS};
pub use paces::Paces;
pub use plan::Plan;
pub use prompt::{Prompt, PromptKind};
pub use running::Running;
pub use table::{Filter, Sort, Table};
pub use toast::{Toast, Toasts, Tone};
pub use tpus::{TPU_COLUMNS, Tpus};
pub use trend::{FULL, Trend};

use crate::model::{ClusterName, Job, JobKey, Link, Node, NodeId, Problem, Request, StreamId, Timestamp};
use crossterm::event::{KeyCode, KeyEvent};
use keymap::Meaning;
use std::sync::Arc;
use std::time::Duration;

/// A page of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The fleet: one row per cluster.
    Clusters,
    /// The nodes of all clusters.
    Nodes,
    /// The jobs of all clusters.
    Jobs,
    /// One cluster, by its place.
    Cluster(usize),
    /// The TPUs of one cluster.
    Tpus(usize),
}

/// A region of a cluster's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// Pane 1: the cluster's nodes.
    Nodes,
    /// Pane 2: the cluster's jobs.
    Jobs,
    /// Pane 3: the open log.
    Log,
    /// Pane 4: the autoscaler's report.
    Autoscaler,
}

impl Pane {
    /// In the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Nodes, Self::Jobs, Self::Log, Self::Autoscaler];
}

/// The state of the screen.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct App {
    clusters: Vec<Cluster>,
    broken: Vec<(String, Problem)>,
    view: View,
    /// The page before this one, for the key that goes back and forth.
    last: View,
    /// Where leaving a cluster leads.
    root: View,
    /// Where leaving a cluster's TPUs leads.
    above: View,
    pane: Pane,
    zoomed: bool,
    /// The clusters, and after them the broken files.
    list: Table<usize>,
    /// Whether the cursor was moved. Until then it stays on the first row, whatever issue comes up.
    list_moved: bool,
    all_nodes: Merged<NodeId>,
    all_jobs: Merged<JobKey>,
    dialog: Option<Dialog>,
    prompt: Option<Prompt>,
    toasts: Toasts,
    keymap: Keymap,
    /// Keys of a sequence pressed so far.
    pressed: Vec<KeyEvent>,
    areas: Areas,
    /// Nodes on the screen by their cluster's place, as last asked for.
    visible: Vec<(usize, Vec<NodeId>)>,
    next_stream: u64,
    next_form: u64,
    read_only: bool,
    paces: Paces,
    dirty: bool,
}

impl App {
    /// The console before any cluster has reported.
    pub fn new(listed: Vec<Listed>, keymap: Keymap) -> Self {
        let mut app = Self {
            clusters: Vec::new(),
            broken: Vec::new(),
            view: View::Clusters,
            last: View::Clusters,
            root: View::Clusters,
            above: View::Clusters,
            pane: Pane::Jobs,
            zoomed: false,
            list: Table::default(),
            list_moved: false,
            all_nodes: Merged::default(),
            all_jobs: Merged::default(),
            dialog: None,
            prompt: None,
            toasts: Toasts::default(),
            keymap,
            pressed: Vec::new(),
            areas: Areas::default(),
            visible: Vec::new(),
            next_stream: 1,
            next_form: 1,
            read_only: false,
            paces: Paces::default(),
            dirty: true,
        };
        for row in listed {
            match row {
                Listed::Cluster(spec) => app.clusters.push(Cluster::new(spec)),
                Listed::Broken { file, problem } => app.broken.push((file, problem)),
            }
        }
        app.arrange_list();
        // A broken file has the first row, but the cursor starts on a cluster.
        app.list.select(&0, |i| i);
        app
    }

    /// The same console; with `read_only` it refuses actions that change a cluster.
    #[must_use]
    pub fn reading_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether actions that change a cluster are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Opens the first page: the named cluster, or the only one, or the fleet.
    pub fn start(&mut self, named: Option<&ClusterName>) -> Vec<Effect> {
        let only = (self.clusters.len() == 1 && self.broken.is_empty()).then_some(0);
        let place = named.and_then(|n| self.clusters.iter().position(|c| c.name() == n)).or(only);
        place.map(|place| self.enter(place)).unwrap_or_default()
    }

    /// Applies an event to the state and returns what the world outside has to do.
    pub fn update(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        self.dirty |= self.toasts.expire(now);
        match event {
            Event::Key(key) => {
                self.dirty = true;
                self.key(key, now)
            }
            Event::Mouse(mouse) => self.mouse(mouse, now),
            Event::Paste(text) => {
                // Outside an input line, pasted text would press keys.
                if let Some(line) = self.field() {
                    prompt::paste(line, &text);
                    self.dirty = true;
                } else if let Some(prompt) = &mut self.prompt {
                    prompt.paste(&text);
                    self.typed();
                    self.dirty = true;
                }
                Vec::new()
            }
            Event::Resize | Event::Tick => {
                self.dirty = true;
                Vec::new()
            }
            Event::Update(update) => self.news(update, now),
            Event::Form(cluster, form, news) => self.form_news(&cluster, form, news, now),
            Event::Operation(cluster, news) => self.operation_news(&cluster, news, now),
            Event::Done(outcome) => {
                let (tone, text) = match outcome {
                    Outcome::Copied(text) | Outcome::Opened(text) => (Tone::Good, text),
                    Outcome::Returned(text) | Outcome::Cleared(text) | Outcome::Doing(text) => {
                        (Tone::Info, text)
                    }
                    Outcome::Failed(text) => (Tone::Bad, text),
                };
                self.toasts.say(tone, text, now);
                self.dirty = true;
                Vec::new()
            }
            Event::Ignored => Vec::new(),
        }
    }

    fn key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Effect> {
        let meaning = self.keymap.meaning(self.context(), &self.pressed, key);
        if meaning == Meaning::Action(Action::ForceQuit) {
            return vec![Effect::Quit];
        }
        // While nothing is drawn, keys have no effect.
        if self.areas.is_too_small {
            let quits = key.code == KeyCode::Char('q') && key.modifiers.is_empty();
            return if quits { self.act(Action::Quit, now) } else { Vec::new() };
        }
        if self.prompt.is_some() {
            return self.prompt_key(key, now);
        }
        if let Some(Dialog::Worker(form)) = &mut self.dialog {
            form.sees(key);
        }
        if self.field().is_some_and(|line| prompt::edit(line, key))
            || self.chooses(key)
            || (self.is_form_at_work() && prompt::edit(&mut String::new(), key))
        {
            return Vec::new();
        }
        match meaning {
            Meaning::Action(action) => {
                self.pressed.clear();
                self.act(action, now)
            }
            Meaning::Pending => {
                self.pressed.push(key);
                Vec::new()
            }
            // A key that does not continue the sequence starts a new one.
            Meaning::Nothing if !self.pressed.is_empty() => {
                self.pressed.clear();
                self.key(key, now)
            }
            Meaning::Nothing => {
                self.say_where(key, now);
                Vec::new()
            }
        }
    }

    /// The context of a key press: the dialog, or the focused pane.
    pub fn context(&self) -> Context {
        match &self.dialog {
            Some(Dialog::Ask { .. }) => Context::Ask,
            Some(Dialog::Tell { .. }) => Context::Tell,
            Some(Dialog::Plan(_)) => Context::Plan,
            Some(Dialog::Progress { .. }) => Context::Progress,
            Some(Dialog::Form(_) | Dialog::Worker(_)) => Context::Form,
            None => self.page_context(),
        }
    }

    /// The context of the page, also beneath a dialog.
    const fn page_context(&self) -> Context {
        match (self.view, self.pane) {
            (View::Clusters, _) => Context::Clusters,
            (View::Nodes, _) => Context::AllNodes,
            (View::Jobs, _) => Context::AllJobs,
            (View::Tpus(_), _) => Context::Tpus,
            (View::Cluster(_), Pane::Nodes) => Context::Nodes,
            (View::Cluster(_), Pane::Jobs) => Context::Jobs,
            (View::Cluster(_), Pane::Log) => Context::Log,
            (View::Cluster(_), Pane::Autoscaler) => Context::Autoscaler,
        }
    }

    /// Takes in where everything was drawn. Returns requests for the nodes that are on the screen now.
    pub fn drawn(&mut self, areas: Areas) -> Vec<Effect> {
        self.dirty = false;
        if let Some(area) = areas.list {
            self.list.drawn(area.height.into());
        }
        if let (Some(dialog), Some(_)) = (&mut self.dialog, areas.dialog) {
            dialog.drawn(areas.dialog_top, areas.dialog_last);
        }
        if let (Some(area), Some(tpus)) = (areas.tpus, self.tpus_mut()) {
            tpus.drawn(area.height.into(), areas.tpu_types_last);
        }
        self.areas = areas;
        let visible = self.drawn_tables(areas);
        if visible == self.visible {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.visible, visible);
        for (place, cluster) in self.clusters.iter_mut().enumerate() {
            let watched = self.visible.iter().find(|(p, _)| *p == place);
            cluster.watched = watched.map_or(0, |(_, nodes)| nodes.len());
        }
        let gone = before.iter().filter(|(place, _)| self.visible.iter().all(|(p, _)| p != place));
        let now_empty = gone.map(|(place, _)| (*place, Vec::new()));
        let changed = self.visible.iter().filter(|now| !before.contains(now)).cloned();
        let asked = now_empty
            .chain(changed)
            .map(|(place, ids)| Effect::Ask(self.clusters[place].name().clone(), Request::Visible(ids)));
        asked.collect()
    }

    /// Tells the tables their height on the screen; returns the nodes on the screen that are alive, by cluster.
    fn drawn_tables(&mut self, areas: Areas) -> Vec<(usize, Vec<NodeId>)> {
        let mut visible: Vec<(usize, Vec<NodeId>)> = Vec::new();
        let View::Cluster(place) = self.view else {
            let height = usize::from(areas.merged.unwrap_or_default().height);
            match self.view {
                View::Nodes => self.all_nodes.table_mut().drawn(height),
                View::Jobs => self.all_jobs.table_mut().drawn(height),
                _ => {}
            }
            if self.view == View::Nodes {
                let top = self.all_nodes.table().window(height);
                for (place, node) in
                    (top..top + height).filter_map(|p| self.all_nodes.node(&self.clusters, p))
                {
                    if node.state.is_alive() {
                        match visible.iter_mut().find(|(p, _)| *p == place) {
                            Some((_, ids)) => ids.push(node.id),
                            None => visible.push((place, vec![node.id])),
                        }
                    }
                }
            }
            return visible;
        };
        let Some(cluster) = self.clusters.get_mut(place) else { return visible };
        if let Some(area) = areas.nodes {
            let height = usize::from(area.height);
            cluster.nodes.drawn(height);
            let top = cluster.nodes.window(height);
            let rows = (top..top + height).filter_map(|p| cluster.snapshot.nodes.get(cluster.nodes.row(p)?));
            let alive: Vec<NodeId> = rows.filter(|n| n.state.is_alive()).map(|n| n.id).collect();
            visible.extend((!alive.is_empty()).then_some((place, alive)));
        }
        if let Some(area) = areas.jobs {
            cluster.jobs.drawn(area.height.into());
        }
        if let Some(area) = areas.log {
            cluster.log.drawn(Window { width: area.width.into(), height: area.height.into() });
        }
        cluster.autoscaler_top = cluster.autoscaler_top.min(areas.autoscaler_last);
        visible
    }

    /// Whether the screen is out of date.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// When a clock text on the screen changes next by itself. Ages below [`cluster::FRESH`] and durations show no
    /// seconds, so that an idle screen draws nothing.
    pub fn next_change(&self, now: Timestamp) -> Option<Duration> {
        const SECOND: Duration = Duration::from_secs(1);
        let minute = 60_000 - u64::try_from(now.as_millis().rem_euclid(60_000)).unwrap_or(0);
        let mut next = Duration::from_millis(minute);
        if let Some(toast) = self.toasts.next_change(now) {
            next = next.min(toast);
        }
        let shown: Vec<&Cluster> = match self.view {
            View::Cluster(place) | View::Tpus(place) => self.clusters.get(place).into_iter().collect(),
            _ => self.clusters.iter().collect(),
        };
        for cluster in shown {
            next = cluster.next_old_figures(now).map_or(next, |old| next.min(old));
            let counting = matches!(cluster.link, Some(Link::Retrying { .. }));
            match cluster.age(now) {
                _ if counting => next = next.min(SECOND),
                Some(age) if age >= cluster::AGED => {}
                Some(age) if age >= self.fresh() => next = next.min(SECOND),
                Some(age) => next = next.min(self.fresh().saturating_sub(age)),
                None => {}
            }
        }
        if self.watched().is_some_and(Running::is_at_work) {
            next = next.min(SECOND);
        }
        Some(next.max(Duration::from_millis(20)))
    }

    fn stream(&mut self) -> StreamId {
        self.next_stream += 1;
        StreamId(self.next_stream)
    }

    /// The cluster on the screen.
    pub fn current(&self) -> Option<&Cluster> {
        match self.view {
            View::Cluster(place) => self.clusters.get(place),
            _ => None,
        }
    }

    fn current_mut(&mut self) -> Option<&mut Cluster> {
        match self.view {
            View::Cluster(place) => self.clusters.get_mut(place),
            _ => None,
        }
    }

    /// The cluster on the screen, or the cluster of the row under the cursor.
    pub fn meant(&self) -> Option<&Cluster> {
        self.clusters.get(self.meant_place()?)
    }

    fn meant_place(&self) -> Option<usize> {
        match self.view {
            View::Cluster(place) | View::Tpus(place) => Some(place),
            View::Clusters => self.list.selected_row(),
            View::Nodes => self.all_nodes.cluster(),
            View::Jobs => self.all_jobs.cluster(),
        }
    }

    /// The selected node, in the cluster's pane or among all nodes, and its cluster's place.
    pub fn meant_node(&self) -> Option<(usize, &Node)> {
        match (self.view, self.pane) {
            (View::Cluster(place), Pane::Nodes) => Some((place, self.clusters.get(place)?.node()?)),
            (View::Nodes, _) => self.all_nodes.node(&self.clusters, self.all_nodes.table().cursor()),
            _ => None,
        }
    }

    /// The selected job, in the cluster's pane or among all jobs, and its cluster's place.
    pub fn meant_job(&self) -> Option<(usize, &Arc<Job>)> {
        match (self.view, self.pane) {
            (View::Cluster(place), Pane::Jobs) => Some((place, self.clusters.get(place)?.job()?)),
            (View::Jobs, _) => self.all_jobs.job(&self.clusters, self.all_jobs.table().cursor()),
            _ => None,
        }
    }

    /// All clusters, in the order in which they were listed.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// Cluster files that could not be read, each with its problem.
    pub fn broken(&self) -> &[(String, Problem)] {
        &self.broken
    }

    /// The fleet's table; rows past the clusters are broken files.
    pub fn list(&self) -> &Table<usize> {
        &self.list
    }

    /// The nodes of all clusters.
    pub fn all_nodes(&self) -> &Merged<NodeId> {
        &self.all_nodes
    }

    /// The jobs of all clusters.
    pub fn all_jobs(&self) -> &Merged<JobKey> {
        &self.all_jobs
    }

    /// The page on the screen.
    pub fn view(&self) -> View {
        self.view
    }

    /// The focused pane of a cluster's page; it stays when the page changes.
    pub fn pane(&self) -> Pane {
        self.pane
    }

    /// Whether the focused pane has the whole window.
    pub fn is_zoomed(&self) -> bool {
        self.zoomed
    }

    /// The open dialog, if there is one.
    pub fn dialog(&self) -> Option<&Dialog> {
        self.dialog.as_ref()
    }

    /// The open prompt, if there is one.
    pub fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    /// The messages, shown and past.
    pub fn toasts(&self) -> &Toasts {
        &self.toasts
    }

    /// The keymap in force.
    pub fn keymap(&self) -> &Keymap {
        &self.keymap
    }
}
