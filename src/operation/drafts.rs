//! Jobs that are submitted from a form. What a job was submitted with stays here: its variables are secrets.

use super::draft::{draft_of, wanted_of};
use super::submit::{Upload, prepared, upload};
use crate::config::Env;
use crate::model::{ClusterName, Draft, SubmissionId, Target, Text, Timestamp};
use crate::ray::{Client, RayError, Submission};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Submissions that forms were made from.
#[derive(Default)]
pub struct Drafts(Mutex<HashMap<(ClusterName, SubmissionId), Submission>>);

/// A job that is ready to be sent.
pub struct Ready {
    job: Submission,
    uploads: Vec<Upload>,
}

fn asked(e: &RayError) -> String {
    e.problem(Timestamp::now()).in_commands(Target::default())
}

impl Drafts {
    fn all(&self) -> MutexGuard<'_, HashMap<(ClusterName, SubmissionId), Submission>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a job was submitted with, for the form of `me`; why not, in words.
    pub async fn draft(
        &self,
        client: &Client,
        cluster: &ClusterName,
        id: &SubmissionId,
        me: &str,
    ) -> Result<Draft, String> {
        let record = client.record(id).await.map_err(|e| asked(&e))?;
        let submission = record.ok_or_else(|| format!("Ray has no record of {id}"))?.submission;
        let draft = draft_of(&submission, me);
        self.all().insert((cluster.clone(), id.clone()), submission);
        Ok(draft)
    }

    /// The job that a form describes, with its uploads. Reads local files, which may take a while.
    pub fn ready(&self, cluster: &ClusterName, draft: &Draft, here: &Env) -> Result<Ready, String> {
        // Without the record it is unknown which values of the form were typed and which come from the record.
        let like = match &draft.like {
            Some(id) => {
                let known = self.all().get(&(cluster.clone(), id.clone())).cloned();
                Some(known.ok_or_else(|| format!("the record of the submission {id} is gone"))?)
            }
            None => None,
        };
        let wanted = wanted_of(draft, like.as_ref()).map_err(|e| e.to_string())?;
        let (job, uploads) = prepared(&wanted, here).map_err(|e| e.to_string())?;
        Ok(Ready { job, uploads })
    }
}

impl Ready {
    /// Uploads and submits the job; `tell` receives progress messages.
    pub async fn send(&self, client: &Client, tell: impl FnMut(String)) -> Result<SubmissionId, String> {
        upload(client, &self.uploads, tell).await.map_err(|p| p.in_commands(Target::default()))?;
        for uri in self.job.packages() {
            if !client.has_package(&uri).await.map_err(|e| asked(&e))? {
                let uri = Text::from(uri);
                return Err(format!(
                    "its package {uri} is gone from the cluster; give the folder it was packed from"
                ));
            }
        }
        client.submit_job(&self.job).await.map_err(|e| asked(&e))?;
        Ok(self.job.id())
    }
}
