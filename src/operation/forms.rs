//! Submits the job of a form over the cluster's own connection, and reads the submission of an existing job.

use super::blocking::blocking;
use super::drafts::{Drafts, Ready};
use super::event::ServiceEvent;
use super::request::Request;
use crate::model::{ClusterName, Draft, FormEvent, FormId, Problem, SubmissionId, Target};
use std::sync::Arc;

impl Request {
    async fn report_form(&self, form: FormId, event: FormEvent) {
        // The front end may be shutting down.
        let _ = self.events.send(ServiceEvent::Form(self.spec.name.clone(), form, event)).await;
    }

    /// Reads the submission of a job and fills in the form.
    pub async fn fill(&self, form: FormId, drafts: &Drafts, id: SubmissionId) {
        let read = match self.connection.channel().await {
            Ok(channel) => drafts.draft(&channel.client, &self.spec.name, &id, &self.environment.me).await,
            Err(problem) => Err(unreached(&self.spec.name, &problem)),
        };
        let event = read.map_or_else(FormEvent::Failed, |draft| FormEvent::Filled(Box::new(draft)));
        self.report_form(form, event).await;
    }

    /// Packs and uploads the working directory of a form and submits its job, unless there are warnings that the
    /// operator has not seen.
    pub async fn submit(&self, form: FormId, drafts: Arc<Drafts>, draft: Draft) {
        let seen = draft.seen.clone();
        let event = match self.ready(form, drafts, draft).await {
            Err(why) => FormEvent::Failed(why),
            Ok(ready) if !ready.warnings.is_empty() && ready.warnings != seen => {
                FormEvent::Warned(ready.warnings)
            }
            Ok(ready) => match self.sent(form, &ready).await {
                Ok(id) => {
                    self.note(format!("submit-job {id}"), "submitted".to_owned()).await;
                    FormEvent::Submitted(id)
                }
                Err(why) => FormEvent::Failed(why),
            },
        };
        self.report_form(form, event).await;
    }

    async fn ready(&self, form: FormId, drafts: Arc<Drafts>, draft: Draft) -> Result<Ready, String> {
        self.report_form(form, FormEvent::InProgress("reading files to upload".into())).await;
        let (environment, spec) = (Arc::clone(&self.environment), self.spec.clone());
        blocking(move || drafts.ready(&spec, &draft, &environment.env)).await
    }

    async fn sent(&self, form: FormId, ready: &Ready) -> Result<SubmissionId, String> {
        self.report_form(form, FormEvent::InProgress("connecting".into())).await;
        let channel = self.connection.channel().await.map_err(|p| unreached(&self.spec.name, &p))?;
        // If there is no room for a progress message, the next one replaces it.
        let progress = |words| {
            let event = ServiceEvent::Form(self.spec.name.clone(), form, FormEvent::InProgress(words));
            let _ = self.events.try_send(event);
        };
        ready.send(&channel.client, progress).await
    }
}

fn unreached(cluster: &ClusterName, problem: &Problem) -> String {
    problem.in_commands(Target::of(cluster))
}
