//! Carries out actions.

use super::actions::Context;
use super::dialog::{Dialog, Question};
use super::logview::Step;
use super::prompt::{Prompt, PromptKind};
use super::{
    ALL_JOB_COLUMNS, ALL_NODE_COLUMNS, Action, App, Effect, FLEET_COLUMNS, JOB_COLUMNS, NODE_COLUMNS, Pane,
    Tone, View, actions::ACTIONS, describe,
};
use crate::model::{
    ClusterName, Hint, JobKey, LogSource, Order, ProblemKind, Request, Task, Text, Timestamp,
};

/// The autoscaler's log files on a head, in the order in which they are offered.
const MONITOR: [&str; 3] = ["monitor.log", "monitor.out", "monitor.err"];
/// A node's own log.
const RAYLET: &str = "raylet.out";

impl App {
    /// Carries an action out.
    pub fn act(&mut self, action: Action, now: Timestamp) -> Vec<Effect> {
        if self.read_only && action.changes_a_cluster() {
            let text = format!(
                "{} refused: read-only (--read-only, or `read_only` in the settings)",
                action.describe().name
            );
            self.toasts.say(Tone::Bad, text, now);
            return Vec::new();
        }
        match action {
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::HalfUp => self.step(-(self.page() / 2).max(1)),
            Action::HalfDown => self.step((self.page() / 2).max(1)),
            Action::PageUp => self.turn_page(-self.page()),
            Action::PageDown => self.turn_page(self.page()),
            Action::Top => self.jump(false),
            Action::Bottom => self.jump(true),
            Action::Open => self.open(now),
            Action::Back => self.back(),
            Action::Quit => self.leave(now),
            Action::ForceQuit => vec![Effect::Quit],
            Action::Redraw => vec![Effect::Redraw],
            Action::Suspend => vec![Effect::Suspend],
            Action::Accept => self.answer(now),
            Action::NextPane => self.turn_pane(1),
            Action::PreviousPane => self.turn_pane(3),
            Action::Pane1 => self.focus(Pane::Nodes),
            Action::Pane2 => self.focus(Pane::Jobs),
            Action::Pane3 => self.focus(Pane::Log),
            Action::Pane4 => self.focus(Pane::Autoscaler),
            Action::Zoom => {
                self.zoomed = !self.zoomed;
                Vec::new()
            }
            Action::Restart => self.plan(Task::Restart { preserve: true }, now),
            Action::Start => self.start_cluster(now),
            Action::StopCluster => self.plan(Task::Stop, now),
            Action::AddWorker => self.add_worker(now),
            Action::RemoveWorker => self.remove_worker(now),
            Action::InitWorker => self.init_worker(now),
            Action::Progress => self.show_progress(now),
            Action::Resume | Action::RollForward | Action::Abandon | Action::Cancel => {
                self.in_progress(action, now)
            }
            Action::Mark => self.mark(now),
            Action::StopJob => self.ask_to_stop(now),
            Action::Submit => self.submit_form(now),
            Action::Resubmit => self.resubmit_form(now),
            Action::DeleteJob => self.ask_to_delete(now),
            Action::Log => self.log(now),
            Action::Describe => self.describe(now),
            Action::Copy => self.copy(now),
            Action::CopyToken => self.at_cluster(Effect::CopyToken),
            Action::Dashboard => self.at_cluster(Effect::OpenDashboard),
            Action::Ports => self.toggle_ports(now),
            Action::Ssh if self.tpus().is_some() => self.ssh_tpu(now),
            Action::Ssh => self.at_cluster(Effect::SshHead),
            Action::Refresh => {
                let mut effects = self.at_cluster(|name| Effect::Ask(name, Request::Refresh));
                if self.tpus().is_some() {
                    effects.extend(self.at_cluster(|name| Effect::Ask(name, Request::Cloud)));
                }
                effects
            }
            Action::Reconnect => self.at_cluster(|name| Effect::Ask(name, Request::Reconnect)),
            Action::Filter => self.begin_filter(),
            Action::NextMatch => self.match_step(true, now),
            Action::PreviousMatch => self.match_step(false, now),
            Action::Follow => self.in_log(super::logview::LogView::toggle_follow),
            Action::Wrap => self.in_log(super::logview::LogView::toggle_wrap),
            Action::SortNext => self.sort(|sort, columns| sort.turned(columns, true)),
            Action::SortPrevious => self.sort(|sort, columns| sort.turned(columns, false)),
            Action::SortInvert => self.sort(|sort, _| super::Sort { inverted: !sort.inverted, ..sort }),
            Action::HostKey => self.host_key(now),
            Action::Tpus => self.open_tpus(now),
            Action::CleanPreempted => self.ask_to_clean(now),
            Action::LastPage => self.last_page(),
            Action::Clusters => self.show(View::Clusters),
            Action::AllNodes => self.show(View::Nodes),
            Action::AllJobs => self.show(View::Jobs),
            Action::Messages => {
                let said =
                    self.toasts.said().map(|t| (super::describe::ago(t.at, now), t.text.clone())).collect();
                self.dialog = Some(Dialog::tell("messages", said));
                Vec::new()
            }
            Action::Palette => {
                self.prompt = Some(Prompt::new(PromptKind::Command, ""));
                Vec::new()
            }
            Action::Help => {
                let lines = self.help();
                self.dialog = Some(Dialog::help(lines, self.dialog.take()));
                Vec::new()
            }
        }
    }

    fn page(&self) -> isize {
        let height = match (self.current(), self.pane) {
            (None, _) => match self.view {
                View::Nodes => self.all_nodes.table().height(),
                View::Jobs => self.all_jobs.table().height(),
                View::Tpus(place) => self.clusters[place].tpus.table().height(),
                _ => self.list.height(),
            },
            (Some(c), Pane::Nodes) => c.nodes.height(),
            (Some(c), Pane::Jobs) => c.jobs.height(),
            (Some(c), Pane::Log) => c.log.page(),
            (Some(_), Pane::Autoscaler) => usize::from(self.areas.autoscaler.unwrap_or_default().height),
        };
        isize::try_from(height.max(1)).unwrap_or(1)
    }

    fn turn_page(&mut self, by: isize) -> Vec<Effect> {
        if let Some(dialog) = &mut self.dialog {
            dialog.page(by);
            return Vec::new();
        }
        self.step(by)
    }

    pub(super) fn step(&mut self, by: isize) -> Vec<Effect> {
        if let Some(dialog) = &mut self.dialog {
            dialog.scroll(by);
            return Vec::new();
        }
        match self.view {
            View::Clusters => {
                self.list_moved = true;
                self.list.step(by, |i| i);
            }
            View::Nodes => self.all_nodes.step(by),
            View::Jobs => self.all_jobs.step(by),
            View::Tpus(_) => self.step_tpus(by),
            View::Cluster(_) => return self.scroll(self.pane, by),
        }
        Vec::new()
    }

    /// Moves the cursor of a pane, or its lines.
    pub(super) fn scroll(&mut self, pane: Pane, by: isize) -> Vec<Effect> {
        let last = self.areas.autoscaler_last;
        if let Some(c) = self.current_mut() {
            let snapshot = &c.snapshot;
            match pane {
                Pane::Nodes => c.nodes.step(by, |i| snapshot.nodes[i].id),
                Pane::Jobs => c.jobs.step(by, |i| snapshot.jobs[i].key.clone()),
                Pane::Log => c.log.scroll(by),
                Pane::Autoscaler => c.autoscaler_top = c.autoscaler_top.saturating_add_signed(by).min(last),
            }
        }
        Vec::new()
    }

    fn jump(&mut self, bottom: bool) -> Vec<Effect> {
        const FAR: isize = isize::MAX / 2;
        if self.dialog.is_none()
            && self.pane == Pane::Log
            && let Some(c) = self.current_mut()
        {
            if bottom {
                c.log.go_to_end();
            } else {
                c.log.go_to_top();
            }
            return Vec::new();
        }
        self.step(if bottom { FAR } else { -FAR })
    }

    fn open(&mut self, now: Timestamp) -> Vec<Effect> {
        match (&self.dialog, self.view, self.pane) {
            (Some(Dialog::Plan(_)), ..) => self.plan_pressed(),
            (Some(Dialog::Form(_)), ..) => self.form_pressed(),
            (Some(Dialog::Worker(_)), ..) => self.worker_form_pressed(now),
            (Some(Dialog::Ask { on_yes: true, .. }), ..) => self.answer(now),
            (Some(_), ..) => self.back(),
            (None, View::Clusters, _) => match self.list.selected_row() {
                Some(place) if place < self.clusters.len() => self.visit(place, now),
                Some(_) => self.describe(now),
                None => Vec::new(),
            },
            (None, View::Nodes, _) => self.visit_row(now),
            (None, View::Jobs, _) => {
                // With its log, where Ray keeps one: another job's must not stand beside it.
                let has_log = self.meant_job().is_some_and(|(_, job)| job.submission_id().is_some());
                if has_log { self.log(now) } else { self.visit_row(now) }
            }
            (None, View::Tpus(_), _) | (None, View::Cluster(_), Pane::Nodes) => self.describe(now),
            (None, View::Cluster(_), _) => self.log(now),
        }
    }

    /// Leaves the innermost dialog, mark, filter, zoom or view. Help returns to the dialog under it, and a plan made in
    /// a form returns to the form, so that typed text is kept.
    pub(super) fn back(&mut self) -> Vec<Effect> {
        if let Some(Dialog::Form(form)) = &mut self.dialog
            && form.holds_on()
        {
            return Vec::new();
        }
        if let Some(dialog) = self.dialog.take() {
            self.dialog = match dialog {
                Dialog::Plan(plan) => plan.form.map(Dialog::Worker),
                Dialog::Tell { under, .. } => under.map(|under| *under),
                _ => None,
            };
            return Vec::new();
        }
        // A message takes no key: what Esc is pressed for happens with it. Only a page is not left for it.
        let dismissed = self.toasts.dismiss();
        if self.clear_marks() || self.clear_filter() || std::mem::take(&mut self.zoomed) || dismissed {
            return Vec::new();
        }
        match self.view {
            View::Nodes | View::Jobs => self.show(View::Clusters),
            View::Tpus(_) => self.leave_tpus(),
            View::Cluster(_) if self.has_way_back() => self.show(self.root),
            View::Cluster(_) | View::Clusters => Vec::new(),
        }
    }

    /// Whether there is a view above the cluster on the screen: a single cluster has no fleet.
    fn has_way_back(&self) -> bool {
        self.clusters.len() + self.broken.len() > 1 || self.root != View::Clusters
    }

    fn leave(&mut self, now: Timestamp) -> Vec<Effect> {
        let root = self.view == View::Clusters || (self.current().is_some() && !self.has_way_back());
        match (&self.dialog, root) {
            (Some(_), _) => self.back(),
            (None, true) => self.ask_to_quit(now),
            (None, false) if self.tpus().is_some() => self.leave_tpus(),
            (None, false) if self.current().is_some() => self.show(self.root),
            (None, false) => self.show(View::Clusters),
        }
    }

    fn turn_pane(&mut self, by: usize) -> Vec<Effect> {
        if let Some(Dialog::Ask { on_yes, .. }) = &mut self.dialog {
            *on_yes = !*on_yes;
            return Vec::new();
        }
        if let Some(Dialog::Form(form)) = &mut self.dialog {
            form.turn(if by == 1 { 1 } else { -1 });
            return Vec::new();
        }
        if let Some(Dialog::Worker(form)) = &mut self.dialog {
            form.turn(if by == 1 { 1 } else { -1 });
            return Vec::new();
        }
        if let Some(Dialog::Plan(plan)) = &mut self.dialog {
            plan.turn(if by == 1 { 1 } else { plan.spots().len() - 1 });
            return Vec::new();
        }
        let order = self.areas.panes_as_drawn();
        let here = order.iter().position(|p| *p == self.pane).unwrap_or(0);
        self.focus(order[(here + by) % order.len()])
    }

    fn focus(&mut self, pane: Pane) -> Vec<Effect> {
        self.pane = pane;
        Vec::new()
    }

    /// The question was confirmed.
    fn answer(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(Dialog::Ask { question, .. }) = self.dialog.take() else { return Vec::new() };
        match question {
            Question::Quit => vec![Effect::Quit],
            Question::Abandon { cluster } => vec![Effect::Operate(cluster, Order::Abandon)],
            Question::Allow { cluster, order } => {
                self.dialog = Some(Dialog::Progress { cluster: cluster.clone(), top: 0, last: 0 });
                vec![Effect::Operate(cluster, *order)]
            }
            Question::StopJobs(jobs) => self.asked_of_jobs(jobs, Request::StopJob),
            Question::DeleteJobs(jobs) => self.asked_of_jobs(jobs, Request::DeleteJob),
            Question::CleanPreempted { cluster, left } => {
                let place = self.clusters.iter().position(|c| *c.name() == cluster);
                place.map(|place| self.begin_cleaning(place, left, now)).unwrap_or_default()
            }
            Question::TrustHostKey { cluster, fingerprint } => {
                self.toasts.say(Tone::Info, format!("{cluster}: accepting the new host key"), now);
                vec![Effect::Ask(cluster, Request::TrustHostKey(fingerprint))]
            }
        }
    }

    fn host_key(&mut self, now: Timestamp) -> Vec<Effect> {
        if !self.ask_about_host_key(now) {
            self.toasts.say(Tone::Info, "the host key has not changed", now);
        }
        Vec::new()
    }

    /// Asks whether a changed host key is to be accepted. False when none has changed.
    pub(super) fn ask_about_host_key(&mut self, now: Timestamp) -> bool {
        let Some((cluster, problem)) = self.meant().and_then(|c| Some((c, c.problem()?))) else {
            return false;
        };
        let ProblemKind::HostKeyChanged { known, offered } = &problem.kind else { return false };
        let label =
            |label: &str, text: &str| (label.to_owned(), crate::model::text::printable(text).into_owned());
        let lines = vec![
            label("cluster", cluster.name().as_str()),
            label("known key", known),
            label("offered key", offered),
            label("since", &describe::ago(problem.since, now)),
            label("", ""),
            label(
                "",
                "A recreated head has a new host key. Otherwise this may be a man-in-the-middle attack that would get the cluster's token.",
            ),
            label(
                "",
                "Before you accept, compare the offered key with the head's own: run ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on the head.",
            ),
        ];
        let title = format!("Accept the changed host key of {}?", cluster.name());
        let question =
            Question::TrustHostKey { cluster: cluster.name().clone(), fingerprint: offered.clone() };
        self.dialog = Some(Dialog::ask(question, title, lines, "Accept new key"));
        true
    }

    fn log(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(place) = self.meant_place() else { return Vec::new() };
        let of_job = self.meant_job().map(|(_, job)| match &job.key {
            JobKey::Submission(id) => Ok(LogSource::Job(id.clone())),
            JobKey::Driver(id) => Err(format!("{id} was started by hand: Ray keeps no log of it")),
        });
        let of_node = self.meant_node().map(|(_, node)| {
            if node.state.is_alive() {
                Ok(LogSource::File { node: node.id, name: Text::from(RAYLET) })
            } else {
                Err(format!("{} is dead: its log cannot be read", self.clusters[place].node_name(node)))
            }
        });
        let monitor = (self.context() == Context::Autoscaler)
            .then(|| Ok(next_monitor(self.clusters[place].log.source())));
        match of_job.or(of_node).or(monitor) {
            Some(Ok(source)) => {
                // The log pane belongs to the cluster's view.
                let mut effects = self.follow(place, source);
                if self.current().is_none() {
                    effects.extend(self.visit_row(now));
                }
                effects
            }
            Some(Err(why)) => {
                self.toasts.say(Tone::Bad, why, now);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn describe(&mut self, now: Timestamp) -> Vec<Effect> {
        let told = match (self.view, self.pane) {
            (View::Clusters, _) => match self.list.selected_row() {
                Some(row) if row >= self.clusters.len() => {
                    let (file, problem) = &self.broken[row - self.clusters.len()];
                    let hint = self.hint_in(&problem.hint, Some(Context::Tell));
                    let lines = [("file", file), ("problem", &problem.what), ("hint", &hint)];
                    Some(("broken file", lines.map(|(l, t)| (l.to_owned(), t.clone())).to_vec()))
                }
                Some(row) => {
                    let hint = |hint: &Hint| self.hint_in(hint, Some(Context::Tell));
                    Some(("cluster", describe::cluster(&self.clusters[row], hint, now)))
                }
                None => None,
            },
            (View::Tpus(_), _) => self.describe_tpu(now),
            (View::Nodes, _) | (View::Cluster(_), Pane::Nodes) => {
                self.meant_node().map(|(place, n)| ("node", self.describe_node(place, n, now)))
            }
            (View::Jobs | View::Cluster(_), _) => return self.describe_job(now),
        };
        match told {
            Some((title, lines)) => self.dialog = Some(Dialog::tell(title, lines)),
            None => self.nothing_chosen(Action::Describe, now),
        }
        Vec::new()
    }

    /// An action on a row where there is none.
    pub(super) fn nothing_chosen(&mut self, action: Action, now: Timestamp) {
        let text = format!("{}: no row selected", action.describe().name);
        self.toasts.say(Tone::Info, text, now);
    }

    fn copy(&mut self, _now: Timestamp) -> Vec<Effect> {
        if let Some(copied) = self.copied_of_operation() {
            return copied;
        }
        let copied = match (self.meant(), self.view, self.pane) {
            (Some(c), View::Tpus(_), _) => {
                c.tpus.selected().map(|row| ("tpu name".to_owned(), row.name.to_string()))
            }
            (Some(c), View::Clusters, _) => Some(("cluster name".to_owned(), c.name().as_str().to_owned())),
            (_, View::Nodes, _) | (_, View::Cluster(_), Pane::Nodes) => {
                self.meant_node().map(|(_, n)| ("node id".to_owned(), n.id.to_string()))
            }
            // As it is shown: a hostile id must not act in the shell that it is pasted into.
            (_, View::Jobs, _) | (_, View::Cluster(_), Pane::Jobs) => {
                self.meant_job().map(|(_, j)| ("job id".to_owned(), j.key.to_string()))
            }
            (Some(c), View::Cluster(_), Pane::Log) => {
                let lines: Vec<&str> = c.log.visible().collect();
                (!lines.is_empty()).then(|| (format!("{} lines", lines.len()), lines.join("\n")))
            }
            _ => None,
        };
        copied.map(|(what, text)| vec![Effect::Copy { what, text }]).unwrap_or_default()
    }

    fn at_cluster(&self, effect: impl Fn(ClusterName) -> Effect) -> Vec<Effect> {
        self.meant().map(|c| vec![effect(c.name().clone())]).unwrap_or_default()
    }

    fn in_log(&mut self, change: impl Fn(&mut super::LogView)) -> Vec<Effect> {
        if let Some(c) = self.current_mut() {
            change(&mut c.log);
        }
        Vec::new()
    }

    fn sort(&mut self, turn: impl Fn(super::Sort, usize) -> super::Sort) -> Vec<Effect> {
        let pane = self.pane;
        match self.current_mut() {
            Some(c) if pane == Pane::Nodes => {
                c.nodes.set_sort(turn(c.nodes.sort(), NODE_COLUMNS.len()));
                c.arrange_nodes();
            }
            Some(c) => {
                c.jobs.set_sort(turn(c.jobs.sort(), JOB_COLUMNS.len()));
                c.arrange_jobs();
            }
            None => self.sort_fleet(turn),
        }
        Vec::new()
    }

    fn sort_fleet(&mut self, turn: impl Fn(super::Sort, usize) -> super::Sort) {
        match self.view {
            View::Nodes => {
                let sort = turn(self.all_nodes.table().sort(), ALL_NODE_COLUMNS.len());
                self.all_nodes.table_mut().set_sort(sort);
            }
            View::Tpus(_) => self.sort_tpus(turn),
            View::Jobs => {
                let sort = turn(self.all_jobs.table().sort(), ALL_JOB_COLUMNS.len());
                self.all_jobs.table_mut().set_sort(sort);
            }
            _ => {
                self.list.set_sort(turn(self.list.sort(), FLEET_COLUMNS.len()));
                self.arrange_list();
            }
        }
        self.arrange_merged();
    }

    pub(super) fn match_step(&mut self, forward: bool, now: Timestamp) -> Vec<Effect> {
        let search = self.key_of(Action::Filter);
        let Some(c) = self.current_mut() else { return Vec::new() };
        let searched = c.log.search().to_owned();
        let said = if searched.is_empty() {
            format!("no search; {search} starts one")
        } else {
            match c.log.next_match(forward) {
                Some(Step::Next) => return Vec::new(),
                Some(Step::Wrapped) if forward => format!("`{searched}`: continued at the first match"),
                Some(Step::Wrapped) => format!("`{searched}`: continued at the last match"),
                None => format!("no match for `{searched}`"),
            }
        };
        self.toasts.say(Tone::Info, said, now);
        Vec::new()
    }

    /// The keys of this context with their help, then those of the others.
    fn help(&self) -> Vec<(String, String)> {
        let context = self.context();
        let row = |d: &super::actions::Description, place: &str| {
            let keys: Vec<String> = self.keymap.keys_of(d.action).collect();
            (keys.join(" "), format!("{place}{}  ({})", d.help, d.name))
        };
        let here = ACTIONS.iter().filter(|d| d.contexts.contains(&context)).map(|d| row(d, ""));
        let others = ACTIONS.iter().filter(|d| !d.contexts.contains(&context));
        let others = others.map(|d| row(d, &format!("in {}: ", d.places())));
        let blank = || (String::new(), String::new());
        here.chain([blank(), (String::new(), "elsewhere".into())]).chain(others).collect()
    }
}

/// The next of the autoscaler's files after the one that is open.
fn next_monitor(open: Option<&LogSource>) -> LogSource {
    let here = match open {
        Some(LogSource::Monitor(name)) => MONITOR.iter().position(|m| m == name),
        _ => None,
    };
    LogSource::Monitor(MONITOR[here.map_or(0, |i| (i + 1) % MONITOR.len())].to_owned())
}
