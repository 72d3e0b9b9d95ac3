//! Submits jobs from the form, beside the loop.

use super::operate::Errand;
use crate::app::Event;
use crate::model::{Draft, FormId, FormNews, Problem, SubmissionId};
use crate::operation::Desk;
use std::sync::Arc;

fn say(errand: &Errand, form: FormId, news: FormNews) {
    // The console may be on its way out.
    let _ = errand.tell.send(Event::Form(errand.spec.name.clone(), form, news));
}

fn unreached(problem: &Problem) -> String {
    format!("{}; {}", problem.what, problem.mend)
}

/// Reads what a job was submitted with, and fills the form.
pub(super) async fn fill(errand: Errand, form: FormId, desk: Arc<Desk>, id: SubmissionId) {
    let read = match errand.connect().await {
        Ok(session) => {
            let draft = desk.draft(&session, &errand.spec.name, &id, &errand.ground.me).await;
            session.close().await;
            draft
        }
        Err(problem) => Err(unreached(&problem)),
    };
    say(&errand, form, read.map_or_else(FormNews::Failed, |draft| FormNews::Filled(Box::new(draft))));
}

/// Packs, uploads, submits.
pub(super) async fn submit(errand: Errand, form: FormId, desk: Arc<Desk>, draft: Draft) {
    let news = match sent(&errand, form, desk, draft).await {
        Ok(id) => {
            errand.note(&format!("submit-job {id}"), "submitted");
            FormNews::Submitted(id)
        }
        Err(why) => FormNews::Failed(why),
    };
    say(&errand, form, news);
}

async fn sent(errand: &Errand, form: FormId, desk: Arc<Desk>, draft: Draft) -> Result<SubmissionId, String> {
    say(errand, form, FormNews::Doing("reading what is to be uploaded".into()));
    let (ground, cluster) = (Arc::clone(&errand.ground), errand.spec.name.clone());
    let ready = tokio::task::spawn_blocking(move || desk.ready(&cluster, &draft, &ground.env));
    let ready = ready.await.map_err(|e| e.to_string())??;
    say(errand, form, FormNews::Doing("connecting".into()));
    let session = errand.connect().await.map_err(|p| unreached(&p))?;
    let done = ready.send(&session, |words| say(errand, form, FormNews::Doing(words))).await;
    session.close().await;
    done
}
