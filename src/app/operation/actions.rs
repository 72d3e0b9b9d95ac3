//! Operations on clusters and their workers: confirm, watch, resume, skip, cancel, abandon.

use crate::app::input::line::Line;
use crate::app::operation::confirmation::{Check, Control, Plan};
use crate::app::operation::progress::{OperationProgress, OperationState, StepState};
use crate::app::operation::workers::abandoned_state;
use crate::app::screen::dialog::{Dialog, Question};
use crate::app::text::describe;
use crate::app::{Action, App, Cluster, Context, Effect, MessageKind, View};
use crate::model::{
    AffectedJob, ClusterName, Fix, Hint, OperationEnd, OperationEvent, OperationKind, Order, Progress,
    Refusal, Request, Task, Timestamp, runs_already,
};

impl App {
    /// Opens the confirmation of an operation on the selected cluster.
    pub(in crate::app) fn plan(&mut self, task: Task, now: Timestamp) -> Vec<Effect> {
        let name = self.target_cluster().map(|c| c.name().clone());
        name.map(|name| self.plan_on(name, task, now)).unwrap_or_default()
    }

    /// Opens the confirmation that starts the selected cluster, unless it is running already.
    pub(in crate::app) fn start_cluster(&mut self, now: Timestamp) -> Vec<Effect> {
        let up = |c: &&Cluster| c.is_up() && c.operating().is_none();
        let Some(cluster) = self.target_cluster().filter(up) else { return self.plan(Task::Start, now) };
        let open = cluster.snapshot.jobs.iter().filter(|j| !j.status.is_ended()).count();
        let (stop, restart) =
            (self.keyboard.keymap.key_of(Action::StopCluster), self.keyboard.keymap.key_of(Action::Restart));
        let lines = [
            (cluster.name().to_string(), runs_already(open)),
            (String::new(), format!("nothing to start; {stop} stops the cluster, {restart} restarts it")),
        ];
        self.dialog = Some(Dialog::text("Start cluster", lines.to_vec(), None));
        Vec::new()
    }

    /// Opens the confirmation of an operation, or the progress of the one that is running or interrupted already.
    pub(in crate::app) fn plan_on(&mut self, name: ClusterName, task: Task, now: Timestamp) -> Vec<Effect> {
        if let Some(effects) = self.refers_to_operation(&name, now) {
            return effects;
        }
        let cluster = self.fleet.named(&name).filter(|_| task.kind().is_of_cluster());
        let open = cluster.iter().flat_map(|c| c.snapshot.jobs.iter()).filter(|j| !j.status.is_ended());
        // The jobs on a single worker are not known before the preview.
        let jobs = open.map(|j| AffectedJob::of(j)).collect();
        let order = Order::Preview(task.clone());
        let short = self.fleet.short_name(&name);
        let plan = Plan { short, ..Plan::new(task, name.clone(), jobs) };
        self.dialog = Some(Dialog::Plan(Box::new(plan)));
        vec![Effect::Operate(name, order)]
    }

    /// Shows the running or interrupted operation on this cluster instead of starting another one; `None` if there is
    /// none.
    pub(in crate::app) fn refers_to_operation(
        &mut self,
        name: &ClusterName,
        now: Timestamp,
    ) -> Option<Vec<Effect>> {
        let running = self.fleet.named(name).and_then(Cluster::operating)?;
        let text = format!("{name}: {}; no other operation can start until it has ended", running.brief());
        self.toasts.answer(text, now);
        Some(self.open_operation(name))
    }

    /// Opens the page of the operation on that cluster, at the end of its output.
    fn open_operation(&mut self, name: &ClusterName) -> Vec<Effect> {
        let Some(cluster_index) = self.fleet.cluster_index(name) else { return Vec::new() };
        self.pages.cluster[cluster_index].operation.show_end();
        self.open_page(View::Operation(cluster_index))
    }

    /// Shows the progress of the operation on the selected cluster.
    pub(in crate::app) fn show_progress(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(cluster) = self.target_cluster() else { return Vec::new() };
        let name = cluster.name().clone();
        if cluster.running.is_some() {
            return self.open_operation(&name);
        }
        if let Some(lock) = &cluster.lock {
            let refusal = lock.refusal(now);
            let lines = [
                (name.to_string(), lock.brief(now)),
                ("operator".to_owned(), format!("{} (process {})", lock.who, lock.process)),
                ("started".to_owned(), describe::ago(lock.since(), now)),
                ("hint".to_owned(), self.hint_in(&refusal.hint, Some(Context::Text))),
            ];
            self.dialog = Some(Dialog::text("Another operator's operation", lines.to_vec(), None));
        } else {
            self.toasts.answer(format!("no operation running or interrupted on {name}"), now);
        }
        Vec::new()
    }

    /// Enter, or the space bar on an option.
    pub(in crate::app) fn plan_pressed(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(Dialog::Plan(plan)) = &mut self.dialog else { return Vec::new() };
        // The pressed line is visible.
        plan.is_scrolled = false;
        match plan.control {
            Control::Cancel => self.back(now),
            Control::Jobs | Control::Drain => {
                let Some(task) = plan.with_option_toggled() else { return Vec::new() };
                plan.replace(task.clone());
                // The typed name confirmed something else.
                plan.name = Line::default();
                vec![Effect::Operate(plan.operation.cluster.clone(), Order::Preview(task))]
            }
            Control::Others => {
                plan.others = !plan.others;
                Vec::new()
            }
            Control::UnknownJobs => {
                plan.allow_unknown_jobs = !plan.allow_unknown_jobs;
                Vec::new()
            }
            Control::TakeOver => {
                if let Some(lock) = &mut plan.others_lock {
                    lock.take_over = !lock.take_over;
                }
                Vec::new()
            }
            Control::Name => {
                plan.turn(1);
                Vec::new()
            }
            Control::Go => {
                if let Some(why) = plan.obstacle() {
                    plan.problem = why;
                    return Vec::new();
                }
                let order = Order::Begin(plan.operation.task.clone(), plan.consent());
                let cluster = plan.operation.cluster.clone();
                self.dialog = None;
                let mut effects = self.open_operation(&cluster);
                effects.push(Effect::Operate(cluster, order));
                effects
            }
        }
    }

    /// The operation whose progress is shown, to be changed, and its cluster.
    fn watched_mut(&mut self) -> Option<(ClusterName, &mut OperationProgress)> {
        let View::Operation(cluster_index) = *self.view() else { return None };
        let cluster = self.fleet.clusters.get_mut(cluster_index)?;
        Some((cluster.name().clone(), cluster.running.as_mut()?))
    }

    /// Resumes the operation whose progress is shown.
    pub(in crate::app) fn resume(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some((cluster, running)) = self.watched_mut().filter(|(_, r)| r.is_interrupted()) else {
            self.not_interrupted(now);
            return Vec::new();
        };
        vec![Effect::Operate(cluster, Order::Resume(running.consent_to_resume()))]
    }

    /// Continues after the failed step, if later steps do not need it.
    pub(in crate::app) fn skip_step(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some((cluster, running)) = self.watched_mut().filter(|(_, r)| r.is_interrupted()) else {
            self.not_interrupted(now);
            return Vec::new();
        };
        if running.is_skippable() {
            return vec![Effect::Operate(cluster, Order::SkipStep(running.consent_to_resume()))];
        }
        let text = format!("{cluster}: cannot skip this step: later steps need it");
        self.toasts.report(MessageKind::Info, text, now);
        Vec::new()
    }

    /// Cancels the operation, unless it has changed something that it must complete.
    pub(in crate::app) fn cancel(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some((cluster, running)) = self.watched_mut().filter(|(_, r)| r.state == OperationState::Running)
        else {
            self.toasts.answer("the operation is not running", now);
            return Vec::new();
        };
        if running.may_be_cancelled() {
            running.state = OperationState::Cancelling;
            return vec![Effect::Operate(cluster, Order::Cancel)];
        }
        let text =
            "cannot cancel: changes have already been made; if a step fails, the operation can be resumed";
        self.toasts.report(MessageKind::Info, format!("{cluster}: {text}"), now);
        Vec::new()
    }

    /// Asks before the interrupted operation is abandoned.
    pub(in crate::app) fn abandon(&mut self, now: Timestamp) {
        let stopped = self.watched_mut().filter(|(_, r)| r.is_interrupted()).map(|(cluster, _)| cluster);
        match stopped {
            Some(cluster) => self.ask_to_abandon(&cluster, now),
            None => self.not_interrupted(now),
        }
    }

    fn not_interrupted(&mut self, now: Timestamp) {
        self.toasts.answer("the operation is not interrupted", now);
    }

    /// Quits; asks first if that would interrupt an operation.
    pub(in crate::app) fn ask_to_quit(&mut self, now: Timestamp) -> Vec<Effect> {
        let ours =
            |r: &&OperationProgress| matches!(r.state, OperationState::Running | OperationState::Cancelling);
        let running: Vec<&OperationProgress> =
            self.fleet.clusters.iter().filter_map(|c| c.running.as_ref()).filter(ours).collect();
        if running.is_empty() {
            return vec![Effect::Quit];
        }
        let line = |r: &&OperationProgress| {
            let since = describe::ago(r.since, now);
            (r.operation.cluster.to_string(), format!("{}, started {since}", r.brief()))
        };
        let mut lines: Vec<_> = running.iter().map(line).collect();
        let text = "Quitting interrupts it at this step. Nothing is lost: the next start of the console offers to resume it.";
        lines.extend([(String::new(), String::new()), (String::new(), text.to_owned())]);
        self.dialog = Some(Dialog::ask(Question::Quit, "Quit the console?", lines, "Quit"));
        Vec::new()
    }

    fn ask_to_abandon(&mut self, cluster: &ClusterName, now: Timestamp) {
        let Some(running) = self.fleet.named(cluster).and_then(|c| c.running.as_ref()) else {
            return;
        };
        let line = |label: &str, text: String| (label.to_owned(), text);
        let mut lines = vec![
            line("operation", running.operation.title.clone()),
            line("started", describe::ago(running.since, now)),
            line("status", running.brief()),
        ];
        if let OperationState::Interrupted(_, Some(saved)) = &running.state {
            let later = Fix::restore_jobs(cluster, saved, "submit them again");
            lines.push(line("jobs", format!("remain saved in {saved}")));
            lines.push(line("hint", self.hint_in(&later.into(), Some(Context::Ask))));
        }
        lines.push(line("", String::new()));
        let remaining = abandoned_state(&running.operation.task, running.step());
        lines.push(line("", self.hint_in(&remaining, Some(Context::Ask))));
        let question = Question::Abandon { cluster: cluster.clone() };
        let title = format!("Abandon the interrupted operation on {cluster}?");
        self.dialog = Some(Dialog::ask(question, title, lines, "Abandon"));
    }

    /// An event of an operation on a cluster.
    pub(in crate::app) fn apply_operation_event(
        &mut self,
        name: &ClusterName,
        event: OperationEvent,
        now: Timestamp,
    ) -> Vec<Effect> {
        let is_operated = |app: &Self| app.fleet.named(name).is_some_and(Cluster::is_operated);
        let before = is_operated(self);
        let mut effects = self.record_operation_event(name, event, now);
        let after = is_operated(self);
        if before != after {
            effects.insert(0, Effect::Ask(name.clone(), Request::Operated(after)));
        }
        effects
    }

    fn record_operation_event(
        &mut self,
        name: &ClusterName,
        event: OperationEvent,
        now: Timestamp,
    ) -> Vec<Effect> {
        self.dirty = true;
        match event {
            OperationEvent::Offered(offer) => self.offered(name, offer),
            OperationEvent::Refused(kind, previewed, refusal) => {
                return self.refused(name, (kind, previewed.as_ref()), refusal, now);
            }
            // The steps have reported the rest.
            OperationEvent::Changed(changed) => {
                if let Some(running) = self.running_mut(name) {
                    running.shortfall = changed.shortfall(name, now);
                }
            }
            OperationEvent::Previewed(task, preview) => {
                if let Some(plan) = self.plan_of(name, &task) {
                    plan.set_preview(preview);
                }
            }
            OperationEvent::Locked(lock) => {
                if let Some(Dialog::Plan(plan)) = self.dialog.as_mut().map(Dialog::innermost)
                    && plan.operation.cluster == *name
                {
                    plan.set_lock(lock.clone());
                }
                if let Some(cluster) = self.fleet.named_mut(name) {
                    cluster.lock = lock;
                }
            }
            OperationEvent::Journaled(journaled) => {
                return self.journaled(name, journaled.map(OperationProgress::journaled), now);
            }
            OperationEvent::Began(operation) => {
                if let Some(cluster) = self.fleet.named_mut(name) {
                    cluster.running = Some(OperationProgress::new(operation, now));
                }
            }
            OperationEvent::Progress(progress) => {
                let answers = matches!(progress, Progress::Done(crate::model::StepName::WaitForRay, _));
                if let Some(running) = self.running_mut(name) {
                    running.take(progress, now);
                }
                if answers {
                    // The operation uses the same connection, which is therefore kept.
                    return vec![Effect::Ask(name.clone(), Request::Refresh)];
                }
            }
            OperationEvent::Ended(end) => return self.ended(name, end, now),
        }
        self.arrange_fleet();
        Vec::new()
    }

    /// The operation on a cluster, to be changed.
    fn running_mut(&mut self, name: &ClusterName) -> Option<&mut OperationProgress> {
        self.fleet.named_mut(name)?.running.as_mut()
    }

    fn refused(
        &mut self,
        name: &ClusterName,
        (kind, previewed): (OperationKind, Option<&Task>),
        refusal: Refusal,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Refusal { problem, allow, .. } = refusal;
        if let Some(plan) = previewed.and_then(|task| self.plan_of(name, task)) {
            plan.check = Check::Refused(problem);
            plan.focus(Control::Cancel);
            plan.scroll.reset();
        } else if let Some(order) =
            // Typed text must not answer a question that opens in the meantime.
            allow
                .filter(|_| self.is_watched(name) && self.dialog.is_none() && self.prompt.is_none())
        {
            let lines = [
                (name.to_string(), problem.what),
                // The dialog gives the permission itself.
                ("hint".to_owned(), self.hint_in(&problem.hint.without_permissions(), Some(Context::Ask))),
                (String::new(), "Nothing has been changed yet. Allow it to continue anyway.".to_owned()),
            ];
            let question = Question::Allow { cluster: name.clone(), order };
            let title = format!("Allow {} on {name}?", kind.command());
            self.dialog = Some(Dialog::ask(question, title, lines.to_vec(), "Allow"));
        } else {
            let why = problem.joined(&self.hint_in(&problem.hint, None));
            let text = format!("{name}: {} refused: {why}", kind.command());
            self.toasts.report(MessageKind::Bad, text, now);
            if self.is_watched(name) && self.fleet.named_mut(name).is_some_and(|c| c.running.is_none()) {
                return self.pop(now);
            }
        }
        Vec::new()
    }

    /// Whether the operation on that cluster is on the screen: the operator waits for the result of the order.
    fn is_watched(&self, name: &ClusterName) -> bool {
        matches!(*self.view(), View::Operation(cluster_index) if self.fleet.cluster_index(name) == Some(cluster_index))
    }

    /// Shows an operation found in the journal. An interrupted one is shown when it is found, unless another cluster's
    /// page is on the screen.
    fn journaled(
        &mut self,
        name: &ClusterName,
        running: Option<OperationProgress>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let stopped = running.as_ref().is_some_and(OperationProgress::is_interrupted);
        let Some(cluster) = self.fleet.named_mut(name) else { return Vec::new() };
        let known = cluster.running.is_some();
        // The state of a running operation is more recent here than in its journal; an ended one stays visible.
        let keeps = |r: &OperationProgress| match r.state {
            OperationState::Running | OperationState::Cancelling => true,
            OperationState::Ended(_) => running.is_none(),
            OperationState::Interrupted(Some(_), _) => stopped,
            OperationState::Interrupted(None, _) | OperationState::Elsewhere => false,
        };
        if cluster.running.as_ref().is_some_and(keeps) {
            return Vec::new();
        }
        let brief = running.as_ref().map(OperationProgress::brief).unwrap_or_default();
        cluster.running = running;
        self.arrange_fleet();
        if !stopped || known || self.is_frozen() {
            return Vec::new();
        }
        let is_elsewhere =
            self.view().cluster_index().is_some_and(|shown| self.fleet.cluster_index(name) != Some(shown));
        if is_elsewhere || self.dialog.is_some() || self.prompt.is_some() {
            let text = format!(
                "{name}: {brief}; press {} on its page for details",
                self.keyboard.keymap.key_of(Action::Progress)
            );
            self.toasts.report(MessageKind::Bad, text, now);
            return Vec::new();
        }
        self.open_operation(name)
    }

    /// Records the end of an operation; returns the requests that read what it has changed.
    fn ended(&mut self, name: &ClusterName, end: OperationEnd, now: Timestamp) -> Vec<Effect> {
        let is_of_cluster = self.running_mut(name).is_none_or(|r| r.operation.kind().is_of_cluster());
        self.record_end(name, end, now);
        self.arrange_fleet();
        // No operation needs a new connection: one on a cluster uses the same one, one on a worker leaves it alone.
        let cloud = (!is_of_cluster).then_some(Request::Cloud);
        let requests = std::iter::once(Request::Refresh).chain(cloud);
        requests.map(|request| Effect::Ask(name.clone(), request)).collect()
    }

    /// Records the end of an operation, and reports it unless its page is on the screen.
    fn record_end(&mut self, name: &ClusterName, end: OperationEnd, now: Timestamp) {
        let Some(running) = self.running_mut(name) else { return };
        running.end(end.clone(), now);
        let task = running.operation.task.clone();
        let remaining = abandoned_state(&task, running.step());
        let of_cluster = running.operation.kind().is_of_cluster();
        let title = running.operation.title.clone();
        let workers = match running.steps.last() {
            Some(StepState::Done(result, _)) => result.clone(),
            _ => String::new(),
        };
        let shortfall = running.shortfall.clone();
        let (tone, text) = match end {
            OperationEnd::Done => match &shortfall {
                Some(missing) => {
                    let missing = missing.joined(&self.hint_in(&missing.hint, None));
                    (MessageKind::Bad, format!("{title}: done; {missing}"))
                }
                None if workers.is_empty() => (MessageKind::Good, format!("{title}: done")),
                None => (MessageKind::Good, format!("{title}: done; {workers}")),
            },
            OperationEnd::Cancelled(left) => {
                let left = Hint::from(left.text()).and(left.hint(&task));
                (MessageKind::Info, format!("{title}: cancelled; {}", self.hint_in(&left, None)))
            }
            OperationEnd::Abandoned if of_cluster => {
                (MessageKind::Info, format!("{title}: abandoned; any backup is kept"))
            }
            OperationEnd::Abandoned => {
                (MessageKind::Info, format!("{title}: abandoned; {}", self.hint_in(&remaining, None)))
            }
            OperationEnd::Stopped(problem, saved) => {
                let saved = saved.map_or_else(String::new, |s| format!("; jobs saved in {s}"));
                let shows = self.keyboard.keymap.key_of(Action::Progress);
                let why = problem.joined(&self.hint_in(&problem.hint, None));
                let text = format!("{title}: interrupted: {why}{saved}; press {shows} for details");
                (MessageKind::Bad, text)
            }
        };
        // Its page shows it already.
        if !self.is_watched(name) {
            self.toasts.report(tone, text, now);
        }
    }

    /// The open confirmation of a task. Another one may be open by the time an earlier preview arrives.
    fn plan_of(&mut self, name: &ClusterName, task: &Task) -> Option<&mut Plan> {
        match self.dialog.as_mut().map(Dialog::innermost) {
            Some(Dialog::Plan(plan)) if plan.operation.cluster == *name && plan.operation.task == *task => {
                Some(plan)
            }
            _ => None,
        }
    }

    /// The space bar: marks a job, or toggles the focused option.
    pub(in crate::app) fn mark(&mut self, now: Timestamp) -> Vec<Effect> {
        match &self.dialog {
            None => self.mark_job(now),
            Some(Dialog::Columns(_)) => self.toggle_column(),
            Some(Dialog::Plan(plan))
                if !matches!(plan.control, Control::Cancel | Control::Name | Control::Go) =>
            {
                return self.plan_pressed(now);
            }
            Some(_) => {}
        }
        Vec::new()
    }

    /// The operation whose progress is shown.
    pub fn watched(&self) -> Option<&OperationProgress> {
        let View::Operation(cluster_index) = *self.view() else { return None };
        self.fleet.clusters.get(cluster_index)?.running.as_ref()
    }
}
