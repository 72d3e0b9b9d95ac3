//! Runs actions.

use crate::app::action::context::{self, Context};
use crate::app::action::list::actions;
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::log::open::{MONITOR, RAYLET};
use crate::app::screen::dialog::{Dialog, Question};
use crate::app::table::By;
use crate::app::text::describe;
use crate::app::{Action, App, Effect, Impact, MessageKind, Pane, View};
use crate::manual;
use crate::model::{ClusterName, Job, JobKey, LogSource, Order, ProblemKind, Request, Text, Timestamp};

impl App {
    /// Runs an action.
    pub fn act(&mut self, action: Action, now: Timestamp) -> Vec<Effect> {
        // If this action dismisses a message, it does not leave the page.
        if action != Action::Back {
            self.toasts.give_way(now);
        }
        if self.is_refused(action, now) {
            return Vec::new();
        }
        let confirms = self.context().confirms();
        let mut effects = self.run(action, now);
        if !confirms {
            // An effect that changes a cluster is only carried out from the dialog that the action opens.
            effects.retain(|effect| effect.impact() < Impact::Changes);
        }
        effects
    }

    /// The number of visible rows or lines of the dialog, or of the page.
    fn page_height(&self) -> isize {
        let height = match (&self.dialog, self.page()) {
            (Some(_), _) => self.areas.dialog_lines,
            (None, Some(page)) => page.page_height(&self.areas, self.split.focused),
            (None, None) => 1,
        };
        isize::try_from(height.max(1)).unwrap_or(1)
    }

    /// Moves by a page; `direction` is 1 or -1.
    pub(in crate::app) fn turn_page(&mut self, direction: isize) {
        let by = direction * self.page_height();
        match &mut self.dialog {
            Some(dialog) => dialog.page(by),
            None => self.scroll(self.split.focused, by),
        }
    }

    /// Moves by half a page; `direction` is 1 or -1.
    pub(in crate::app) fn turn_half_page(&mut self, direction: isize) {
        self.step(direction * (self.page_height() / 2).max(1));
    }

    /// Moves the cursor or the lines by this many rows.
    pub(in crate::app) fn step(&mut self, by: isize) {
        match &mut self.dialog {
            Some(dialog) => dialog.scroll(by),
            None => self.scroll(self.split.focused, by),
        }
    }

    /// Moves the cursor or the lines of a pane.
    pub(in crate::app) fn scroll(&mut self, pane: Pane, by: isize) {
        if let Some((page, fleet, _)) = self.page_mut() {
            page.scroll(fleet, pane, by);
        }
    }

    /// Goes to the first or the last row or line.
    pub(in crate::app) fn jump(&mut self, bottom: bool) -> Vec<Effect> {
        const FAR: isize = isize::MAX / 2;
        let is_log = self.dialog.is_none() && self.context() == Context::Log;
        match self.log_mut().filter(|_| is_log) {
            Some(log) if bottom && log.is_cut() => return self.open_again(),
            Some(log) if bottom => log.go_to_end(),
            Some(log) => log.go_to_top(),
            None => self.step(if bottom { FAR } else { -FAR }),
        }
        Vec::new()
    }

    /// Carries out the confirmed question.
    pub(in crate::app) fn answer(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(Dialog::Ask { question, .. }) = self.dialog.take() else { return Vec::new() };
        match question {
            Question::Quit => vec![Effect::Quit],
            Question::Abandon { cluster } => vec![Effect::Operate(cluster, Order::Abandon)],
            Question::Allow { cluster, order } => vec![Effect::Operate(cluster, *order)],
            Question::StopJobs(jobs) => self.request_for_jobs(jobs, Request::StopJob),
            Question::StopOthers(jobs) => self.ask_about_others(jobs, now),
            Question::DeleteJobs(jobs) => self.request_for_jobs(jobs, Request::DeleteJob),
            Question::CleanPreempted { cluster, left } => {
                let cluster_index = self.fleet.cluster_index(&cluster);
                cluster_index
                    .map(|cluster_index| self.begin_cleaning(cluster_index, left, now))
                    .unwrap_or_default()
            }
            Question::DownloadLog { cluster, stream, pattern } => {
                self.download_log(cluster, stream, pattern, now)
            }
            Question::ReplaceFile { path, text, loaded_lines } => {
                vec![Effect::WriteFile { path, text, replace: true, loaded_lines }]
            }
            Question::TrustHostKey { cluster, fingerprint } => {
                self.toasts.report(MessageKind::Info, format!("{cluster}: accepting the new host key"), now);
                vec![Effect::Ask(cluster, Request::TrustHostKey(fingerprint))]
            }
        }
    }

    pub(in crate::app) fn host_key(&mut self, now: Timestamp) {
        if !self.ask_about_host_key(now) {
            self.toasts.answer("the host key has not changed", now);
        }
    }

    /// Asks whether to accept a changed host key. Returns false if none has changed.
    pub(in crate::app) fn ask_about_host_key(&mut self, now: Timestamp) -> bool {
        let Some((cluster, problem)) = self.target_cluster().and_then(|c| Some((c, c.problem()?))) else {
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
                "If the head was recreated, a new host key is expected. If not, this may be a man-in-the-middle attack that would get the cluster's token.",
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

    /// Opens the logs of the marked jobs, several together; without marks, the log of the selection.
    pub(in crate::app) fn open_log(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.marked() == 0 {
            return self.open_log_of_row(now);
        }
        match &self.chosen()[..] {
            [(cluster_index, job)] => self.open_log_or_report(*cluster_index, log_of_job(job), now),
            _ => self.open_marked_logs(now),
        }
    }

    /// Opens the log of the selection in the whole window: a job's, a worker's, a node's, or the autoscaler's.
    pub(in crate::app) fn open_log_of_row(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(cluster_index) = self.target_cluster_index() else { return Vec::new() };
        if let View::JobWorkers(_) = self.view() {
            return self.open_worker_log(cluster_index, now);
        }
        if let Some(effects) = self.open_log_of_stack(now) {
            return effects;
        }
        let of_job = self.target_job().map(|(_, job)| log_of_job(job));
        let of_node = self.target_node().map(|(_, node)| {
            if node.state.is_alive() {
                Ok(LogSource::File { node: node.id, name: Text::from(RAYLET) })
            } else {
                let name = self.fleet.clusters[cluster_index].node_name(node);
                Err(format!("{name} is dead: its log cannot be read"))
            }
        });
        let monitor = (self.context() == Context::Autoscaler)
            .then(|| Ok(next_monitor(self.pages.cluster[cluster_index].log.source())));
        match of_job.or(of_node).or(monitor) {
            // The autoscaler's files are cycled in the pane next to its report if that is on the screen.
            Some(Ok(source @ LogSource::Monitor(_)))
                if self.areas.autoscaler.is_none() || self.areas.log.is_some() =>
            {
                self.follow(cluster_index, source)
            }
            Some(source) => self.open_log_or_report(cluster_index, source, now),
            None => Vec::new(),
        }
    }

    /// Opens a log in the whole window, or says why there is none.
    fn open_log_or_report(
        &mut self,
        cluster_index: usize,
        source: Result<LogSource, String>,
        now: Timestamp,
    ) -> Vec<Effect> {
        match source {
            Ok(source) => self.open_log_at(cluster_index, source, None),
            Err(why) => {
                self.toasts.report(MessageKind::Bad, why, now);
                Vec::new()
            }
        }
    }

    /// Reports that an action needs a row and none is selected.
    pub(in crate::app) fn nothing_chosen(&mut self, action: Action, now: Timestamp) {
        let text = format!("{}: no row selected", action.describe().name);
        self.toasts.answer(text, now);
    }

    /// An effect on the target cluster.
    pub(in crate::app) fn at_cluster(&self, effect: impl Fn(ClusterName) -> Effect) -> Vec<Effect> {
        self.target_cluster().map(|c| vec![effect(c.name().clone())]).unwrap_or_default()
    }

    /// Refreshes the cluster's data now. A frozen screen returns to live data.
    pub(in crate::app) fn refresh(&mut self, now: Timestamp) -> Vec<Effect> {
        self.unfreeze(now);
        let mut effects = self.at_cluster(|name| Effect::Ask(name, Request::Refresh));
        if self.tpus().is_some() {
            effects.extend(self.at_cluster(|name| Effect::Ask(name, Request::Cloud)));
        }
        effects.extend(self.ask_for_details());
        if let View::JobWorkers(cluster_index) = *self.view() {
            self.fleet.clusters[cluster_index]
                .job_workers
                .refresh(self.pages.job_workers[cluster_index].view.part());
        }
        if let Some(cluster) = self.target_cluster() {
            let text = format!("{}: refreshing", cluster.name());
            self.toasts.answer(text, now);
        }
        effects
    }

    /// Shows where to begin, to operators who have not typed anything into the console yet.
    pub fn welcome(&mut self, now: Timestamp) {
        let [help, palette, filter] =
            [Action::Help, Action::Palette, Action::Filter].map(|a| self.keyboard.keymap.key_of(a));
        let text = format!(
            "{help} lists the keys, {filter} filters, {palette} runs actions by name; for a guide, type {palette}help getting-started"
        );
        self.toasts.answer(text, now);
    }

    /// Opens the command line of the palette.
    pub(in crate::app) fn begin_command(&mut self) {
        self.prompt = Some(Prompt::new(PromptKind::Command, ""));
    }

    /// Shows the keys, over the open dialog if any.
    pub(in crate::app) fn help(&mut self) {
        let lines = self.help_lines();
        let palette = self.keyboard.keymap.key_of(Action::Palette);
        self.dialog = Some(Dialog::help(lines, &palette, self.dialog.take()));
    }

    /// Shows the audit log.
    pub(in crate::app) fn show_audit(&mut self, read: Result<Vec<(String, String)>, String>, now: Timestamp) {
        match read {
            Ok(lines) if lines.is_empty() => {
                self.toasts.report(
                    MessageKind::Info,
                    "the audit log is empty: nothing has been changed from this machine",
                    now,
                );
            }
            Ok(lines) => self.dialog = Some(Dialog::text("Audit log".to_owned(), lines, self.dialog.take())),
            Err(why) => {
                self.toasts.report(MessageKind::Bad, format!("cannot read the audit log: {why}"), now);
            }
        }
        self.dirty = true;
    }

    /// Sorts the focused table.
    pub(in crate::app) fn sort(&mut self, by: By) {
        if let Some((listing, fleet)) = self.listing_mut() {
            listing.sort_by(fleet, by);
        }
    }

    /// The keys of this context with their help, what the states mean, then the keys of other contexts.
    fn help_lines(&self) -> Vec<(String, String)> {
        let context = self.context();
        let row = |action: Action, prefix: &str| {
            let keys: Vec<String> = self.keyboard.keymap.keys_of(action).collect();
            let d = action.describe();
            (keys.join(" "), format!("{prefix}{}  ({})", d.help, d.name))
        };
        let (here, others): (Vec<Action>, Vec<Action>) =
            actions().iter().partition(|action| action.describe().contexts.contains(&context));
        let here = here.into_iter().map(|action| row(action, ""));
        let others = others
            .into_iter()
            .map(|action| row(action, &format!("{}: ", context::place(&action.describe().contexts_text()))));
        let blank = || (String::new(), String::new());
        let titled = |title: &str| [blank(), (String::new(), title.to_owned())];
        here.chain(titled("states"))
            .chain(manual::states())
            .chain(titled("elsewhere"))
            .chain(others)
            .collect()
    }
}

/// The driver log of a job, or why there is none.
fn log_of_job(job: &Job) -> Result<LogSource, String> {
    match &job.key {
        JobKey::Submission(id) => Ok(LogSource::Job(id.clone())),
        JobKey::Driver(id) => Err(format!("{id} was started manually: Ray keeps no log of it")),
    }
}

/// The autoscaler file after the one that is open.
fn next_monitor(open: Option<&LogSource>) -> LogSource {
    let here = match open {
        Some(LogSource::Monitor(name)) => MONITOR.iter().position(|m| m == name),
        _ => None,
    };
    LogSource::Monitor(MONITOR[here.map_or(0, |i| (i + 1) % MONITOR.len())].to_owned())
}
