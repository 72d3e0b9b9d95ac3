//! Opens the form of a job, handles its buttons, and shows the result.

use crate::app::input::history::Entered;
use crate::app::job::form::Form;
use crate::app::screen::dialog::Dialog;
use crate::app::{Action, App, Effect, MessageKind};
use crate::model::{ClusterName, FormEvent, FormId, JobKey, Request, SubmissionId, Timestamp};

impl App {
    /// Opens the form, empty.
    pub(in crate::app) fn submit_form(&mut self, now: Timestamp) {
        if let Some(cluster) = self.target_cluster().map(|c| c.name().clone()) {
            self.dialog = Some(Dialog::Form(Box::new(Form::new(self.last_ids.form(), cluster))));
        } else {
            self.nothing_chosen(Action::Submit, now);
        }
    }

    /// Opens the form with the submission of the selected job.
    pub(in crate::app) fn resubmit_form(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some((cluster_index, key)) =
            self.target_job().map(|(cluster_index, job)| (cluster_index, job.key.clone()))
        else {
            return Vec::new();
        };
        let cluster = self.fleet.clusters[cluster_index].name().clone();
        match key {
            JobKey::Driver(id) => {
                let text = format!("{id} was started manually: its submission settings are unknown");
                self.toasts.report(MessageKind::Info, text, now);
                Vec::new()
            }
            JobKey::Submission(id) => {
                let form_id = self.last_ids.form();
                let mut form = Form::new(form_id, cluster.clone());
                form.in_progress = Some(format!("reading the settings of {id}"));
                self.dialog = Some(Dialog::Form(Box::new(form)));
                vec![Effect::Fill(cluster, form_id, id)]
            }
        }
    }

    /// Enter in the form.
    pub(in crate::app) fn form_pressed(&mut self) -> Vec<Effect> {
        let Some(Dialog::Form(form)) = &mut self.dialog else { return Vec::new() };
        match form.button() {
            None => {
                form.enter();
                Vec::new()
            }
            Some(false) => {
                self.dialog = None;
                Vec::new()
            }
            Some(true) if form.in_progress.is_some() => Vec::new(),
            Some(true) => {
                form.begin();
                let draft = form.draft();
                self.history.keep(Entered::Entrypoint, &draft.entrypoint);
                self.history.keep(Entered::WorkingDir, &draft.working_dir);
                vec![Effect::Submit(form.cluster.clone(), form.id, Box::new(draft))]
            }
        }
    }

    /// An event of a form on a cluster; the result of a form that was closed in the meantime becomes a message.
    pub(in crate::app) fn apply_form_event(
        &mut self,
        cluster: &ClusterName,
        id: FormId,
        event: FormEvent,
        now: Timestamp,
    ) -> Vec<Effect> {
        self.dirty = true;
        let form = match self.dialog.as_mut().map(Dialog::innermost) {
            Some(Dialog::Form(form)) if form.id == id => Some(form),
            _ => None,
        };
        match (event, form) {
            (FormEvent::Filled(draft), Some(form)) => {
                form.fill(&draft);
                form.in_progress = None;
            }
            (FormEvent::InProgress(words), Some(form)) => form.in_progress = Some(words),
            (FormEvent::Failed(why), Some(form)) => {
                form.in_progress = None;
                form.problem = why;
                form.scroll.reset();
            }
            (FormEvent::Warned(warnings), Some(form)) => {
                form.in_progress = None;
                let message = format!("{}; press Submit again to submit it anyway", warnings.join("; "));
                (form.problem, form.seen) = (message, warnings);
                form.scroll.reset();
            }
            (FormEvent::Warned(warnings), None) => {
                let why = warnings.join("; ");
                self.toasts.report(
                    MessageKind::Bad,
                    format!("{cluster}: the job was not submitted: {why}"),
                    now,
                );
            }
            (FormEvent::Failed(why), None) => {
                self.toasts.report(MessageKind::Bad, format!("{cluster}: {why}"), now);
            }
            (FormEvent::Submitted(id), form) => {
                let is_open = form.is_some();
                return self.submitted(cluster, &id, is_open, now);
            }
            (FormEvent::Filled(_) | FormEvent::InProgress(_), None) => {}
        }
        Vec::new()
    }

    /// Reports a submitted job, and closes its form if it is still open.
    fn submitted(
        &mut self,
        cluster: &ClusterName,
        id: &SubmissionId,
        is_open: bool,
        now: Timestamp,
    ) -> Vec<Effect> {
        if is_open {
            self.dialog = self.dialog.take().and_then(Dialog::without_innermost);
            let cluster_index = self.fleet.cluster_index(cluster);
            // On other pages the log that is opened next is not to be replaced later.
            if let Some(cluster_index) = cluster_index.filter(|index| self.view().shows_log(*index)) {
                self.pages.cluster[cluster_index].awaited = Some(id.clone());
            }
        }
        self.toasts.report(MessageKind::Good, format!("{cluster}: {id} submitted"), now);
        vec![Effect::Ask(cluster.clone(), Request::Refresh)]
    }
}
