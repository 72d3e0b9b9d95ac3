//! Submits the job of a form over the cluster's own connection, and reads what a job was submitted with.

use super::blocking::blocking;
use super::drafts::Drafts;
use super::news::News;
use super::request::Request;
use crate::model::{Draft, FormId, FormNews, Problem, SubmissionId, Target};
use std::sync::Arc;

impl Request {
    async fn say_of(&self, form: FormId, news: FormNews) {
        // The front end may be on its way out.
        let _ = self.news.send(News::Form(self.spec.name.clone(), form, news)).await;
    }

    /// Reads what a job was submitted with, and fills the form.
    pub async fn fill(&self, form: FormId, drafts: &Drafts, id: SubmissionId) {
        let read = match self.connection.channel().await {
            Ok(channel) => drafts.draft(&channel.client, &self.spec.name, &id, &self.environment.me).await,
            Err(problem) => Err(unreached(&problem)),
        };
        let news = read.map_or_else(FormNews::Failed, |draft| FormNews::Filled(Box::new(draft)));
        self.say_of(form, news).await;
    }

    /// Packs and uploads the working directory of a form and submits its job.
    pub async fn submit(&self, form: FormId, drafts: Arc<Drafts>, draft: Draft) {
        let news = match self.sent(form, drafts, draft).await {
            Ok(id) => {
                self.note(format!("submit-job {id}"), "submitted".to_owned()).await;
                FormNews::Submitted(id)
            }
            Err(why) => FormNews::Failed(why),
        };
        self.say_of(form, news).await;
    }

    async fn sent(&self, form: FormId, drafts: Arc<Drafts>, draft: Draft) -> Result<SubmissionId, String> {
        self.say_of(form, FormNews::Doing("reading files to upload".into())).await;
        let (environment, cluster) = (Arc::clone(&self.environment), self.spec.name.clone());
        let ready = blocking(move || drafts.ready(&cluster, &draft, &environment.env)).await?;
        self.say_of(form, FormNews::Doing("connecting".into())).await;
        let channel = self.connection.channel().await.map_err(|p| unreached(&p))?;
        // What it does is a word at a time; one that finds no room is followed by the next.
        let tell = |words| {
            let news = News::Form(self.spec.name.clone(), form, FormNews::Doing(words));
            let _ = self.news.try_send(news);
        };
        ready.send(&channel.client, tell).await
    }
}

fn unreached(problem: &Problem) -> String {
    problem.in_commands(Target::default())
}
