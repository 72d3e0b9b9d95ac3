//! The view of a cluster's TPUs: those in Google Cloud, joined with Ray's nodes.

use super::describe::{self, ago};
use super::dialog::{Dialog, Question};
use super::table::{Sort, Table};
use super::{App, Cluster, Context, Effect, Tone, View};
use crate::model::cloud::{Capacity, CloudView, TpuHost};
use crate::model::{
    Cleaned, Hint, Leftover, Node, Problem, ProblemKind, Request, Text, Timestamp, leftovers,
};
use crate::reconcile::{Chips, Row, Standing, TypeCount, chips_by_generation, reconcile, types};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Columns that TPUs can be sorted by.
pub const TPU_COLUMNS: [&str; 6] = ["STATUS", "NAME", "TYPE", "CHIPS", "IN RAY", "AGE"];
/// An answer of Google older than this is stale, unless its poll interval is longer; usually one minute.
const STALE: Duration = Duration::from_secs(180);
/// Lines of a dialog's list.
const LISTED: usize = 12;

/// The known TPUs of a cluster, and the state of their table.
#[derive(Debug, Default)]
pub struct Tpus {
    view: Option<Arc<CloudView>>,
    problem: Option<Problem>,
    rows: Vec<Row>,
    left: Vec<Leftover>,
    types: Vec<TypeCount>,
    ghosts: HashSet<Text>,
    table: Table<Text>,
    /// Whether the cursor was moved. Until then it stays on the first row.
    moved: bool,
    cleaning: bool,
    ray_known: bool,
    /// First of the worker types below the rows that is shown.
    types_top: usize,
    /// Highest of these, known once drawn.
    types_last: usize,
    /// Poll interval of Google.
    pub(super) pace: Duration,
}

impl Tpus {
    /// Why Google's last answer failed. The rows are older than that.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// The time of Google's last answer.
    pub fn asked(&self) -> Option<Timestamp> {
        self.view.as_ref().map(|v| v.asked)
    }

    /// Whether Google could list everything.
    pub fn is_complete(&self) -> bool {
        self.view.as_ref().is_none_or(|v| v.complete)
    }

    /// Whether the rows include what Ray reports.
    pub fn knows_ray(&self) -> bool {
        self.ray_known
    }

    /// Whether Google's answer may be out of date.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        let old = STALE.max(self.pace * 2);
        self.problem.is_some() || self.asked().is_some_and(|at| at.age(now) >= old)
    }

    /// The rows' order, selection, filter.
    pub fn table(&self) -> &Table<Text> {
        &self.table
    }

    /// The row shown at a position.
    pub fn row(&self, position: usize) -> Option<&Row> {
        self.rows.get(self.table.row(position)?)
    }

    /// The selected row, if the table has any.
    pub fn selected(&self) -> Option<&Row> {
        self.row(self.table.cursor())
    }

    /// All rows, whatever the filter.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The chips of each TPU generation, e.g. `v4`.
    pub fn chips(&self) -> BTreeMap<&str, Chips> {
        chips_by_generation(&self.rows)
    }

    /// The worker types of the cluster's file, with their limits and the machines that exist.
    pub fn types(&self) -> &[TypeCount] {
        &self.types
    }

    /// The first of the worker types with a place on the screen that is shown.
    pub fn types_top(&self) -> usize {
        self.types_top
    }

    /// Preempted TPUs and suspended requests that are not deleted.
    pub fn left(&self) -> &[Leftover] {
        &self.left
    }

    /// Whether leftovers are being deleted.
    pub fn is_cleaning(&self) -> bool {
        self.cleaning
    }

    /// Whether a node is alive in Ray but gone in Google Cloud.
    pub fn is_ghost(&self, node: &Node) -> bool {
        node.state.is_alive() && !node.is_head && self.ghosts.contains(&node.address)
    }

    fn arrange(&mut self) {
        let rows = &self.rows;
        self.table.arrange(
            rows.len(),
            |i| rows[i].name.clone(),
            |i, filter| filter.admits(fields(&rows[i])),
            |a, b, sort| order(&rows[a], &rows[b], sort),
        );
        if !self.moved {
            self.table.go(0, |i| rows[i].name.clone());
        }
    }

    /// Moves the cursor; behind the last row the worker types are scrolled, and back before it moves up again.
    fn step(&mut self, by: isize) {
        self.moved = true;
        let rows = &self.rows;
        let left = self.table.len().saturating_sub(self.table.cursor() + 1);
        let (rest, back) = (by.unsigned_abs(), self.types_top);
        if by > 0 {
            self.types_top = back.saturating_add(rest.saturating_sub(left)).min(self.types_last);
            self.table.step(by, |i| rows[i].name.clone());
        } else {
            self.types_top = back.saturating_sub(rest);
            self.table.step(by.saturating_add_unsigned(back).min(0), |i| rows[i].name.clone());
        }
    }

    pub(super) fn go(&mut self, position: usize) {
        self.moved = true;
        let rows = &self.rows;
        self.table.go(position, |i| rows[i].name.clone());
    }

    pub(super) fn drawn(&mut self, height: usize, types_last: usize) {
        self.table.drawn(height);
        self.types_last = types_last;
        self.types_top = self.types_top.min(types_last);
    }
}

/// Fields that a filter searches.
fn fields(row: &Row) -> impl Iterator<Item = &str> {
    let words = [
        row.name.raw(),
        row.accelerator_type.raw(),
        row.standing.word(),
        row.keeper.word(),
        row.capacity.map_or("", Capacity::word),
    ];
    words.into_iter().chain(row.logins.iter().map(|h| h.internal.raw()))
}

fn order(a: &Row, b: &Row, sort: Sort) -> Ordering {
    let by = match sort.column {
        Some(1) => a.name.cmp(&b.name),
        Some(2) => a.accelerator_type.cmp(&b.accelerator_type),
        Some(3) => b.chips.cmp(&a.chips),
        Some(4) => b.hosts.1.cmp(&a.hosts.1),
        Some(5) => b.created.cmp(&a.created),
        _ => a.standing.cmp(&b.standing),
    };
    let by = if sort.inverted { by.reverse() } else { by };
    by.then_with(|| (a.standing, &a.name).cmp(&(b.standing, &b.name)))
}

impl Cluster {
    /// Takes Google's answer in; an error leaves the older answer beside it.
    /// True when anything that can be seen changed.
    fn take_cloud(&mut self, answer: Result<Arc<CloudView>, Problem>) -> bool {
        let before = (self.tpus.rows.clone(), self.tpus.problem.clone());
        match answer {
            Ok(view) => {
                self.tpus.left = leftovers(self.spec.name.as_str(), &view);
                (self.tpus.view, self.tpus.problem) = (Some(view), None);
            }
            Err(mut problem) => {
                let same = self.tpus.problem.as_ref().filter(|p| p.what == problem.what);
                problem.since = same.map_or(problem.since, |p| p.since);
                self.tpus.problem = Some(problem);
            }
        }
        self.join_tpus();
        before != (self.tpus.rows.clone(), self.tpus.problem.clone())
    }

    /// Joins the last states of Google and Ray. While Ray cannot be reached, only Google's is used.
    pub(super) fn join_tpus(&mut self) {
        let Some(view) = self.tpus.view.clone() else { return };
        let snapshot = self.snapshot.clone();
        let nodes = Some(snapshot.nodes.as_slice()).filter(|_| self.known && self.is_up());
        let now = view.asked.max(snapshot.taken);
        let tpus = &mut self.tpus;
        tpus.ray_known = nodes.is_some();
        tpus.rows = reconcile(self.spec.name.as_str(), &view, nodes, now);
        tpus.types = types(&self.spec.node_types, &tpus.rows, nodes);
        let ghosts = tpus.rows.iter().filter(|r| r.standing == Standing::Ghost);
        tpus.ghosts = ghosts.flat_map(|r| &r.logins).map(|h| h.internal.clone()).collect();
        tpus.arrange();
    }
}

impl App {
    /// The cluster whose TPUs are on the screen.
    pub fn tpus(&self) -> Option<&Cluster> {
        match self.view {
            View::Tpus(place) => self.clusters.get(place),
            _ => None,
        }
    }

    pub(super) fn tpus_mut(&mut self) -> Option<&mut Tpus> {
        match self.view {
            View::Tpus(place) => self.clusters.get_mut(place).map(|c| &mut c.tpus),
            _ => None,
        }
    }

    /// Shows the TPUs of the selected cluster, and asks Google for them.
    pub(super) fn open_tpus(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(place) = self.meant_place().filter(|p| *p < self.clusters.len()) else { return Vec::new() };
        let spec = &self.clusters[place].spec;
        if spec.provider != "gcp" {
            let provider = if spec.provider.is_empty() { "none" } else { &spec.provider };
            let text =
                format!("TPUs are shown for Google Cloud only; the provider of {} is {provider}", spec.name);
            self.toasts.say(Tone::Info, text, now);
            return Vec::new();
        }
        self.above = self.view;
        self.enter_tpus(place)
    }

    /// Shows the TPUs of a cluster; it is polled more often while they are on the screen.
    pub(super) fn enter_tpus(&mut self, place: usize) -> Vec<Effect> {
        let mut effects = self.leave_cluster();
        self.turn_to(View::Tpus(place));
        self.clusters[place].pace = self.paces.focused;
        let name = self.clusters[place].name();
        effects.extend([Request::Focus(true), Request::Cloud].map(|r| Effect::Ask(name.clone(), r)));
        effects
    }

    /// Back to where the TPUs were opened from.
    pub(super) fn leave_tpus(&mut self) -> Vec<Effect> {
        match self.above {
            View::Cluster(place) => self.enter(place),
            above => self.show(above),
        }
    }

    pub(super) fn step_tpus(&mut self, by: isize) {
        if let Some(tpus) = self.tpus_mut() {
            tpus.step(by);
        }
    }

    pub(super) fn filter_tpus(&mut self, text: &str) {
        if let Some(tpus) = self.tpus_mut() {
            tpus.table.set_filter(text);
            tpus.arrange();
        }
    }

    pub(super) fn sort_tpus(&mut self, turn: impl Fn(Sort, usize) -> Sort) {
        if let Some(tpus) = self.tpus_mut() {
            tpus.table.set_sort(turn(tpus.table.sort(), TPU_COLUMNS.len()));
            tpus.arrange();
        }
    }

    /// Logs in to the selected row's host: the first that Ray misses, else the first.
    pub(super) fn ssh_tpu(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(cluster) = self.tpus() else { return Vec::new() };
        let Some(row) = cluster.tpus.selected() else { return Vec::new() };
        let is_missing = |h: &&TpuHost| row.missing.contains(&h.internal);
        let reached = || row.logins.iter().filter(|h| !h.internal.is_empty() || h.external.is_some());
        let host = reached().find(is_missing).or_else(|| reached().next());
        let why = match (row.standing, host) {
            (Standing::EatsQuota, _) => format!("{} was preempted: there is no host to log in to", row.name),
            (_, None) => format!("{} has no address", row.name),
            (_, Some(host)) => return vec![Effect::SshHost(cluster.name().clone(), host.clone())],
        };
        self.toasts.say(Tone::Info, why, now);
        Vec::new()
    }

    pub(super) fn describe_tpu(&self, now: Timestamp) -> Option<(&'static str, Vec<(String, String)>)> {
        let tpus = &self.tpus()?.tpus;
        let row = tpus.selected()?;
        Some(("tpu", lines(row, self.hint_in(&row.hint(), Some(Context::Tell)), tpus.ray_known, now)))
    }

    /// The description of a node; if Google contradicts Ray, that comes first.
    pub(super) fn describe_node(&self, place: usize, node: &Node, now: Timestamp) -> Vec<(String, String)> {
        let cluster = &self.clusters[place];
        let mut lines = describe::node(node, cluster.physical(&node.id, now), now);
        if cluster.tpus.is_ghost(node) {
            let hint = self.hint_in(&Standing::Ghost.hint(""), Some(Context::Tell));
            lines.insert(0, ("ghost".to_owned(), format!("alive in Ray, gone in Google Cloud; {hint}")));
        }
        lines
    }

    /// Asks before preempted TPUs are deleted.
    pub(super) fn ask_to_clean(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(cluster) = self.tpus() else { return Vec::new() };
        let left = cluster.tpus.left.clone();
        if cluster.tpus.cleaning {
            self.toasts.say(
                Tone::Info,
                format!("{}: preempted TPUs are already being deleted", cluster.name()),
                now,
            );
            return Vec::new();
        }
        if left.is_empty() {
            self.toasts.say(Tone::Info, "no preempted TPUs to delete", now);
            return Vec::new();
        }
        let row = |label: &str, text: String| (label.to_owned(), text);
        let chips: u32 = left.iter().map(|l| l.chips).sum();
        let mut told = vec![row("cluster", cluster.name().to_string()), row("chips", chips.to_string())];
        let named = left
            .iter()
            .take(LISTED)
            .map(|l| row(l.kind.word(), format!("{}  {}", l.name, l.accelerator_type)));
        told.extend(named);
        if left.len() > LISTED {
            told.push(row(" ", format!("and {} more", left.len() - LISTED)));
        }
        told.push(row("", String::new()));
        told.push(row(
            "",
            "Each is checked again right before it is deleted; one that is back is kept.".into(),
        ));
        let title = format!("Delete preempted TPUs on {}?", cluster.name());
        let question = Question::CleanPreempted { cluster: cluster.name().clone(), left };
        self.dialog = Some(Dialog::ask(question, title, told, "Delete preempted TPUs"));
        Vec::new()
    }

    /// Deletes them, after the confirmation.
    pub(super) fn begin_cleaning(
        &mut self,
        place: usize,
        left: Vec<Leftover>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let cluster = &mut self.clusters[place];
        cluster.tpus.cleaning = true;
        let name = cluster.name().clone();
        self.toasts.say(
            Tone::Info,
            format!("{name}: deleting preempted TPUs; a large slice takes some minutes"),
            now,
        );
        vec![Effect::Ask(name, Request::CleanPreempted(left))]
    }

    pub(super) fn cloud_news(
        &mut self,
        place: usize,
        answer: Result<Arc<CloudView>, Problem>,
        now: Timestamp,
    ) {
        if let Err(problem) = &answer
            && problem.kind == ProblemKind::Login
        {
            // One login serves all clusters, so that one message does.
            let told = |c: &Cluster| c.tpus.problem().is_some_and(|p| p.what == problem.what);
            if !self.clusters.iter().any(told) {
                let why = problem.joined(&self.hint_in(&problem.hint, None));
                let text = format!("cannot list TPUs: {why}");
                self.toasts.say(Tone::Info, text, now);
            }
        }
        let cluster = &mut self.clusters[place];
        let changed = cluster.take_cloud(answer);
        if cluster.diagnose() {
            self.arrange_list();
        }
        // Where the TPUs are on the screen, so is the age of the answer.
        let hidden = matches!(self.view, View::Cluster(shown) | View::Tpus(shown) if shown != place);
        self.dirty |= self.view == View::Tpus(place) || (changed && !hidden);
    }

    pub(super) fn cleaned_news(
        &mut self,
        place: usize,
        done: Result<Vec<(Leftover, Cleaned)>, Problem>,
        now: Timestamp,
    ) {
        let cluster = &mut self.clusters[place];
        cluster.tpus.cleaning = false;
        let name = cluster.name().clone();
        let (tone, text) = match done {
            Err(problem) => (Tone::Bad, problem.joined(&self.hint_in(&problem.hint, None))),
            Ok(done) => outcome(&done, |hint| self.hint_in(hint, None)),
        };
        self.toasts.say(tone, format!("{name}: {text}"), now);
        self.dirty = true;
    }
}

fn outcome(done: &[(Leftover, Cleaned)], words: impl Fn(&Hint) -> String) -> (Tone, String) {
    let count = |is: fn(&Cleaned) -> bool| done.iter().filter(|(_, c)| is(c)).count();
    let deleted = count(|c| matches!(c, Cleaned::Deleted | Cleaned::GoneAlready));
    let alone = count(|c| matches!(c, Cleaned::LeftAlone(_)));
    let failed = done.iter().filter(|(_, c)| !c.is_well()).collect::<Vec<_>>();
    let alone = if alone > 0 { format!(", {alone} kept") } else { String::new() };
    let text = format!("{deleted} of {} deleted{alone}", done.len());
    match failed.first() {
        None => (Tone::Good, text),
        Some((leftover, cleaned)) => {
            let more =
                if failed.len() > 1 { format!(" (and {} more)", failed.len() - 1) } else { String::new() };
            (Tone::Bad, format!("{text}; {} {}{more}", leftover.name, cleaned.words(words)))
        }
    }
}

/// The description of a row.
fn lines(row: &Row, hint: String, ray_known: bool, now: Timestamp) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut push = |label: &str, text: String| {
        if !text.is_empty() {
            lines.push((label.to_owned(), text));
        }
    };
    push("name", row.name.to_string());
    push("status", row.standing.word().into());
    push("hint", hint);
    push("Google state", row.state.unwrap_or("not found").into());
    push("note", row.note.as_ref().map(ToString::to_string).unwrap_or_default());
    push("type", row.accelerator_type.to_string());
    push("chips", row.chips.to_string());
    push("node type", row.ray_type.as_ref().map(ToString::to_string).unwrap_or_default());
    push("capacity", row.capacity.map_or("", Capacity::word).into());
    push("managed by", row.keeper.word().into());
    push("requested", row.created.map(|t| ago(t, now)).unwrap_or_default());
    for (i, host) in row.logins.iter().enumerate() {
        let in_ray = match () {
            () if !ray_known => "Ray unknown",
            () if row.missing.contains(&host.internal) => "not in Ray",
            () => "in Ray",
        };
        let external = host.external.as_ref().map(|e| format!(" ({e})")).unwrap_or_default();
        let address =
            if host.internal.is_empty() { "no address yet".into() } else { host.internal.to_string() };
        push(if i == 0 { "hosts" } else { " " }, format!("{i}  {address}{external}  {in_ray}"));
    }
    lines
}
