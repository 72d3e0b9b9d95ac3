//! Navigation between pages: a stack that Esc pops, and the previous pages for `-`.

use super::pages::details::Details;
use super::pages::{found, issues};
use super::screen::pane::Pane;
use super::view::View;
use super::{Action, App, Effect};
use crate::app::action::availability::{has_submission, is_at_the_root};
use crate::app::action::context::Context;
use crate::app::action::target::Target;
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::screen::dialog::Dialog;
use crate::app::table::list::Listing;
use crate::model::{Request, Timestamp};

impl App {
    /// Replaces the page stack; the last page is on top. A cluster is polled more often while it is on the screen.
    fn go_to(&mut self, stack: Vec<View>) -> Vec<Effect> {
        if stack == self.stack.pages() {
            return Vec::new();
        }
        let cluster_index = |stack: &[View]| stack.last().and_then(View::cluster_index);
        let (before, after) = (cluster_index(self.stack.pages()), cluster_index(&stack));
        self.stack.go(stack);
        self.dirty = true;
        self.forget_logs();
        let mut effects = Vec::new();
        if before != after {
            self.split.is_zoomed = false;
            effects.extend(before.map(|cluster_index| self.focus_on(cluster_index, false)));
            effects.extend(after.map(|cluster_index| self.focus_on(cluster_index, true)));
        }
        if let (View::Clusters, Some(cluster_index)) = (self.view(), before) {
            self.pages.clusters.select(&self.fleet, cluster_index, &());
        }
        self.arrange_page();
        match *self.view() {
            View::Tpus(cluster_index) => {
                let name = self.fleet.clusters[cluster_index].name().clone();
                effects.push(Effect::Ask(name, Request::Cloud));
            }
            View::Cluster(cluster_index) if self.fleet.clusters[cluster_index].known => {
                let (page, mut with) = self.following(cluster_index);
                effects.extend(page.follow_newest(&mut with));
            }
            _ => {}
        }
        effects
    }

    fn focus_on(&mut self, cluster_index: usize, is_on_screen: bool) -> Effect {
        let cluster = &mut self.fleet.clusters[cluster_index];
        cluster.poll_intervals.0 = if is_on_screen {
            self.settings.poll_intervals.focused
        } else {
            self.settings.poll_intervals.background
        };
        Effect::Ask(cluster.name().clone(), Request::Focus(is_on_screen))
    }

    /// Sorts the rows of the page on the screen.
    pub(super) fn arrange_page(&mut self) {
        if let View::Slice(cluster_index, hosts) = self.stack.page() {
            self.pages.open_slice(*cluster_index, hosts);
        }
        if let Some((page, fleet, _)) = self.page_mut() {
            page.rearrange(fleet);
        }
    }

    /// Opens a page over the one on the screen.
    pub(super) fn open_page(&mut self, view: View) -> Vec<Effect> {
        self.go_to(self.stack.to(view))
    }

    /// Opens a page over the one on the screen, even if the same page is already in the stack.
    pub(super) fn open_over(&mut self, view: View) -> Vec<Effect> {
        self.go_to(self.stack.over(view))
    }

    /// Shows the fleet.
    pub(super) fn show_fleet(&mut self) -> Vec<Effect> {
        self.go_to(vec![View::Clusters])
    }

    /// Goes to the previous page, as `cd -` does.
    pub(super) fn last_page(&mut self) -> Vec<Effect> {
        self.go_to(self.stack.before())
    }

    /// Shows a cluster, and asks about a changed host key.
    pub(super) fn visit(&mut self, cluster_index: usize, now: Timestamp) -> Vec<Effect> {
        let effects = self.open_page(View::Cluster(cluster_index));
        if self.refusal(Action::HostKey).is_none() {
            self.ask_about_host_key(now);
        }
        effects
    }

    /// Opens the selection: presses the focused button, or opens the cluster, the log of a job, or a details page.
    pub(super) fn open(&mut self, now: Timestamp) -> Vec<Effect> {
        match &self.dialog {
            Some(Dialog::Plan(_)) => return self.plan_pressed(now),
            Some(Dialog::Form(_)) => return self.form_pressed(),
            Some(Dialog::Worker(_)) => return self.worker_form_pressed(now),
            Some(Dialog::Columns(_)) => return self.keep_columns(),
            Some(Dialog::Ask { on_yes: true, .. }) => return self.answer(now),
            Some(_) => return self.back(now),
            None => {}
        }
        if self.context() == Context::Log {
            return self.open_repeated(now);
        }
        match (self.view(), self.target()) {
            (View::Clusters, Some(Target::Cluster(cluster_index))) => self.visit(cluster_index, now),
            (View::Details(_), Some(Target::Stacks(..))) => self.open_stack(),
            (View::Details(page), Some(Target::Node(..))) => match page.files() {
                files if files.is_empty() => self.open_log_of_row(now),
                files => {
                    self.prompt = Some(Prompt::of(PromptKind::Files, files));
                    Vec::new()
                }
            },
            (View::JobWorkers(cluster_index), _) => self.open_worker(*cluster_index, now),
            (View::Cluster(_), Some(Target::Cluster(_))) | (View::Details(_), _) => self.open_log_of_row(now),
            (View::Table(page), Some(target)) if **page == issues::PAGE => self.open_issue(target, now),
            (_, Some(Target::Job(..))) if has_submission(self) => self.open_log_of_row(now),
            (_, Some(Target::Hosts(cluster_index, hosts))) => {
                self.open_page(View::Slice(cluster_index, hosts))
            }
            (View::Table(page), Some(_)) if **page == found::PAGE => self.open_found(),
            (View::Table(_), Some(target)) => self.visit_row(&target, now),
            (_, Some(_)) => self.describe(now),
            (_, None) => Vec::new(),
        }
    }

    /// Opens the subject of an issue: the job, the slice, the TPU, or the pane of the cluster that shows it.
    fn open_issue(&mut self, target: Target, now: Timestamp) -> Vec<Effect> {
        match target {
            Target::Job(..) => return self.open_details(target),
            Target::Hosts(cluster_index, hosts) => return self.open_page(View::Slice(cluster_index, hosts)),
            _ => {}
        }
        let issue = self.listing().and_then(Listing::row_index);
        let kind = issue.and_then(|(cluster_index, number)| {
            Some(self.fleet.clusters[cluster_index].findings.get(number)?.kind)
        });
        let effects = self.visit_row(&target, now);
        self.split.focused = kind.and_then(issues::pane).unwrap_or(self.split.focused);
        effects
    }

    /// Opens the cluster of a row of an all-clusters table, with that row selected in its pane.
    fn visit_row(&mut self, target: &Target, now: Timestamp) -> Vec<Effect> {
        let Some(cluster_index) = target.cluster_index() else { return Vec::new() };
        if let Target::Tpu(_, name) = target {
            let effects = self.open_page(View::Tpus(cluster_index));
            self.pages.tpus[cluster_index].list.select(&self.fleet, cluster_index, name);
            return effects;
        }
        let effects = self.visit(cluster_index, now);
        let page = &mut self.pages.cluster[cluster_index];
        match target {
            Target::Node(_, id) => {
                self.split.focused = Pane::Nodes;
                page.nodes.select(&self.fleet, cluster_index, id);
                if let Some(key) = self.fleet.clusters[cluster_index].hosts_of_node(id) {
                    page.slices.select(&self.fleet, cluster_index, key);
                }
            }
            Target::Job(_, key) => {
                self.split.focused = Pane::Jobs;
                page.jobs.select(&self.fleet, cluster_index, key);
            }
            _ => {}
        }
        effects
    }

    /// Opens the details of the selection.
    pub(super) fn describe(&mut self, now: Timestamp) -> Vec<Effect> {
        // On a cluster's page only a row counts, not the cluster.
        let is_empty = self.listing().is_some_and(|listing| listing.target(&self.fleet).is_none());
        let Some(target) = self.target().filter(|_| !is_empty) else {
            self.nothing_chosen(super::Action::Describe, now);
            return Vec::new();
        };
        if let Target::Hosts(cluster_index, hosts) = target {
            return self.open_page(View::Slice(cluster_index, hosts));
        }
        self.open_details(target)
    }

    /// Opens the page of a thing.
    pub(super) fn open_details(&mut self, target: Target) -> Vec<Effect> {
        // A page that is open already is not requested again.
        if self.stack.details().is_some_and(|page| page.target == target) {
            return Vec::new();
        }
        let mut effects = self.open_page(View::Details(Box::new(Details::of(target))));
        effects.extend(self.ask_for_details());
        effects
    }

    /// Requests what the details page on the screen shows about a job or a host.
    pub(super) fn ask_for_details(&mut self) -> Vec<Effect> {
        self.stack.details_mut().map(|page| page.ask(&self.fleet)).unwrap_or_default()
    }

    /// Leaves the innermost dialog, mark, filter, zoom or page. Help returns to the dialog under it, and a plan made in
    /// a form returns to the form, so that typed text is kept.
    pub(super) fn back(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.dialog.as_mut().is_some_and(Dialog::warn_before_discarding) {
            return Vec::new();
        }
        if let Some(dialog) = self.dialog.take() {
            self.dialog = match dialog {
                Dialog::Plan(plan) => plan.form.map(Dialog::Worker),
                Dialog::Text { under, .. } => under.map(|under| *under),
                Dialog::Columns(chooser) => {
                    self.lay_out(chooser.table, &chooser.before);
                    None
                }
                _ => None,
            };
            return Vec::new();
        }
        // Esc dismisses messages and also clears the innermost marks, filter or zoom. If it dismissed a message, it
        // does not leave the page.
        let dismissed = self.toasts.dismiss();
        if self.clear_marks() || self.clear_filter() || std::mem::take(&mut self.split.is_zoomed) || dismissed
        {
            return Vec::new();
        }
        self.pop(now)
    }

    /// Goes to the page below; the first page stays.
    pub(super) fn pop(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(below) = self.stack.back() else { return Vec::new() };
        let left = self.log_below(below.len() - 1);
        let mut effects = self.go_to(below);
        if let Some(left) = left {
            effects.extend(self.return_to_log(left, now));
        }
        effects
    }

    /// Leaves the dialog or the page; on the first page, quits.
    pub(super) fn leave(&mut self, now: Timestamp) -> Vec<Effect> {
        match &self.dialog {
            Some(_) => self.back(now),
            None if is_at_the_root(self) => self.ask_to_quit(now),
            None => self.pop(now),
        }
    }

    /// Focuses the next or the previous pane, field or button.
    pub(super) fn turn_pane(&mut self, forward: bool) -> Vec<Effect> {
        let by = if forward { 1 } else { -1 };
        match &mut self.dialog {
            // Backward is always Cancel, so that no key leads from there to a change by going round.
            Some(Dialog::Ask { on_yes, .. }) => *on_yes = forward && !*on_yes,
            Some(Dialog::Form(form)) => form.turn(by),
            Some(Dialog::Worker(form)) => form.turn(by),
            Some(Dialog::Plan(plan)) => plan.turn(if forward { 1 } else { plan.controls().len() - 1 }),
            Some(_) => {}
            None => {
                if let View::JobWorkers(cluster_index) = *self.view() {
                    self.turn_workers(self.pages.job_workers[cluster_index].view.turned(forward));
                    return Vec::new();
                }
                let order = self.areas.panes_as_drawn();
                let here = order.iter().position(|p| *p == self.split.focused).unwrap_or(0);
                return self.focus(order[(here + if forward { 1 } else { 3 }) % order.len()]);
            }
        }
        Vec::new()
    }

    /// Focuses a pane of the cluster; from its log page, returns to its panes.
    pub(super) fn focus(&mut self, pane: Pane) -> Vec<Effect> {
        self.split.focused = pane;
        match *self.view() {
            View::Log(cluster_index) if pane != Pane::Log => self.open_page(View::Cluster(cluster_index)),
            _ => Vec::new(),
        }
    }

    /// Toggles zoom of the focused pane; on the log page, returns to the panes.
    pub(super) fn zoom(&mut self) -> Vec<Effect> {
        if let View::Log(cluster_index) = *self.view() {
            self.split.is_zoomed = false;
            return self.open_page(View::Cluster(cluster_index));
        }
        self.split.is_zoomed = !self.split.is_zoomed;
        Vec::new()
    }
}
