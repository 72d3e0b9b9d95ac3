//! Submits jobs from forms. The original submissions stay here, because their variables are secrets.

use super::draft::{draft_of, wanted_of};
use super::slices::slice_resources;
use super::submit::{Upload, prepared, upload};
use super::warnings::warnings;
use crate::config::Env;
use crate::model::text::printable;
use crate::model::{ClusterName, ClusterSpec, Draft, SubmissionId, Target, Text, Timestamp};
use crate::ray::{Client, RayError, Submission};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of records that are kept.
const MAX_RECORDS: usize = 8;
/// Time limit for reading a label selector, without which a form can be filled in.
const SELECTOR_TIMEOUT: Duration = Duration::from_secs(5);

/// A submission from which a form was filled in.
#[derive(Clone)]
struct Record {
    cluster: ClusterName,
    id: SubmissionId,
    submission: Submission,
    /// A warning about jobs that are submitted from it.
    warning: Option<String>,
}

/// Submissions from which forms were filled in, the newest last.
#[derive(Default)]
pub struct Drafts(Mutex<VecDeque<Record>>);

/// A job that is ready to be submitted.
pub struct Ready {
    cluster: ClusterName,
    job: Submission,
    uploads: Vec<Upload>,
    /// Warnings about it, one sentence each.
    pub warnings: Vec<String>,
}

fn message(cluster: &ClusterName, e: &RayError) -> String {
    e.problem(Timestamp::now()).in_commands(Target::of(cluster))
}

/// The warning that the form of a job that is submitted again lacks the label selector that the job may have.
fn selector_warning(
    id: &SubmissionId,
    read: &Result<Option<BTreeMap<String, String>>, RayError>,
) -> Option<String> {
    let why = match read {
        Ok(Some(_)) => return None,
        Ok(None) => "Ray no longer lists its actor".to_owned(),
        Err(e) => e.to_string(),
    };
    Some(format!(
        "the label selector of {id} cannot be read ({}); if it has one, enter it in the form, or the job is submitted \
         without it",
        printable(&why)
    ))
}

impl Drafts {
    fn all(&self) -> MutexGuard<'_, VecDeque<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a record for the form that shows it, and drops the oldest: records contain secret variables.
    fn keep(&self, record: Record) {
        let mut all = self.all();
        all.retain(|known| (&known.cluster, &known.id) != (&record.cluster, &record.id));
        all.push_back(record);
        let over = all.len().saturating_sub(MAX_RECORDS);
        all.drain(..over);
    }

    fn find(&self, cluster: &ClusterName, id: &SubmissionId) -> Option<Record> {
        let all = self.all();
        all.iter().find(|known| (&known.cluster, &known.id) == (cluster, id)).cloned()
    }

    /// The submission of a job as a form for `me`; the error is a message.
    pub async fn draft(
        &self,
        client: &Client,
        cluster: &ClusterName,
        id: &SubmissionId,
        me: &str,
    ) -> Result<Draft, String> {
        let selector = async {
            let read = timeout(SELECTOR_TIMEOUT, client.label_selector(id)).await;
            let late = RayError::Silent("the response timed out".to_owned());
            Ok::<_, RayError>(read.unwrap_or(Err(late)))
        };
        let read = tokio::try_join!(client.record(id), selector);
        let (record, selector) = read.map_err(|e| message(cluster, &e))?;
        let mut submission = record.ok_or_else(|| format!("Ray has no record of {id}"))?.submission;
        let warning = selector_warning(id, &selector);
        submission.entrypoint_label_selector = selector.ok().flatten().unwrap_or_default();
        let draft = draft_of(&submission, me);
        self.keep(Record { cluster: cluster.clone(), id: id.clone(), submission, warning });
        Ok(draft)
    }

    /// The job that a form describes, with its uploads. Reads local files, which may take a while.
    pub fn ready(&self, spec: &ClusterSpec, draft: &Draft, here: &Env) -> Result<Ready, String> {
        // Without the record it is unknown which values were typed and which come from the record.
        let like = match &draft.like {
            Some(id) => {
                let known = self.find(&spec.name, id);
                Some(known.ok_or_else(|| format!("the record of submission {id} no longer exists"))?)
            }
            None => None,
        };
        let of_record = like.as_ref().map(|record| &record.submission);
        let mut wanted = wanted_of(draft, of_record).map_err(|e| e.to_string())?;
        if !draft.tpu.trim().is_empty() {
            wanted.more_resources = slice_resources(spec, draft.tpu.trim()).map_err(|e| e.to_string())?;
        }
        let (job, uploads) = prepared(&wanted, here).map_err(|e| e.to_string())?;
        let mut warnings = warnings(&job, spec);
        let is_typed = !job.entrypoint_label_selector.is_empty();
        warnings.extend(like.and_then(|record| record.warning).filter(|_| !is_typed));
        Ok(Ready { cluster: spec.name.clone(), job, uploads, warnings })
    }
}

impl Ready {
    /// Uploads and submits the job; `progress` receives progress messages.
    pub async fn send(&self, client: &Client, progress: impl FnMut(String)) -> Result<SubmissionId, String> {
        let selector = &self.job.entrypoint_label_selector;
        client.check_label_selector(selector).await.map_err(|e| message(&self.cluster, &e))?;
        upload(client, &self.uploads, progress)
            .await
            .map_err(|p| p.in_commands(Target::of(&self.cluster)))?;
        for uri in self.job.packages() {
            if !client.has_package(&uri).await.map_err(|e| message(&self.cluster, &e))? {
                let uri = Text::from(uri);
                return Err(format!(
                    "its package {uri} no longer exists on the cluster; specify the directory it was packed from"
                ));
            }
        }
        client.submit_job(&self.job).await.map_err(|e| message(&self.cluster, &e))?;
        Ok(self.job.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Settings, cluster_of};
    use crate::demo::{Fault, FaultRule, Head, Scenario};
    use crate::model::JobStatus;
    use crate::ray::Endpoint;

    /// A simulated head with this version of Ray and without jobs, and its client.
    async fn head_with(version: &str) -> (Head, Client) {
        let scenario = Scenario { jobs: 0, changes: 0, ray_version: version.into(), ..Scenario::default() };
        let head = Head::start(scenario).await.unwrap();
        let (dashboard, gcs) = (format!("http://{}", head.dashboard), Some(head.gcs.to_string()));
        let client = Client::new(Endpoint::Direct { dashboard, gcs }, None).unwrap();
        (head, client)
    }

    #[test]
    fn a_form_is_checked_like_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let text = "cluster_name: lab\nhead_node_type: head\nprovider: {type: gcp, project_id: p, availability_zone: z-a}\n\
                    available_node_types:\n  head: {}\n  slice: {resources: {TPU: 4}, max_workers: 2, node_config: \
                    {acceleratorType: v4-32}}\n";
        let spec = cluster_of(text, &dir.path().join("c.yaml"), &Settings::default()).unwrap();
        std::fs::write(dir.path().join("c.yaml"), text).unwrap();
        let ready = |tpu: &str, resources: &str| {
            let draft = Draft {
                entrypoint: "true".into(),
                tpu: tpu.into(),
                resources: resources.into(),
                ..Draft::default()
            };
            Drafts::default().ready(&spec, &draft, &Env::default())
        };
        let slice = ready(" v4-32 ", "").map_err(drop).unwrap();
        assert_eq!(slice.job.entrypoint_resources, [("TPU-v4-32-head".to_owned(), 1.0)].into());
        assert_eq!(slice.warnings, [""; 0]);
        let why = ready("v4-64", "").map(drop).unwrap_err();
        assert!(why.contains("lab has no node type for v4-64; the nearest are v4-32"), "{why}");
        let warned = ready("", "{\"TPU\": 8}").map_err(drop).unwrap().warnings;
        assert!(
            warned.len() == 1 && warned[0].starts_with("TPU 8 is requested from a single host"),
            "{warned:?}"
        );
        let unknown = ready("", "{\"unobtainium\": 1}").map_err(drop).unwrap().warnings;
        assert!(unknown[0].starts_with("no node type provides unobtainium 1"), "{unknown:?}");
        assert_eq!(ready("", "").map_err(drop).unwrap().warnings, [""; 0]);
        // From the form of a job whose label selector cannot be read.
        let drafts = Drafts::default();
        let (id, why) = (SubmissionId("a".into()), RayError::Silent("timed out".to_owned()));
        let again = |label_selector: &str| {
            let draft = Draft {
                like: Some(id.clone()),
                entrypoint: "true".into(),
                label_selector: label_selector.into(),
                ..Draft::default()
            };
            drafts.ready(&spec, &draft, &Env::default()).map_err(drop).unwrap()
        };
        drafts.keep(Record {
            cluster: spec.name.clone(),
            submission: Submission::default(),
            warning: selector_warning(&id, &Err(why)),
            id: id.clone(),
        });
        assert!(again("").warnings[0].starts_with("the label selector of a cannot be read"));
        let labels = BTreeMap::from([("zone".to_owned(), "x".to_owned())]);
        let submitted = again(r#"{"zone": "x"}"#);
        assert_eq!((submitted.warnings.len(), &submitted.job.entrypoint_label_selector), (0, &labels));
        assert_eq!(selector_warning(&SubmissionId("a".into()), &Ok(Some(labels))), None);
        assert_eq!(selector_warning(&SubmissionId("a".into()), &Ok(Some(BTreeMap::new()))), None);
        let gone = selector_warning(&SubmissionId("a".into()), &Ok(None)).unwrap();
        assert!(gone.contains("(Ray no longer lists its actor)"), "{gone}");
    }

    #[tokio::test]
    async fn a_form_is_filled_with_the_label_selector() {
        let (head, client) = head_with("2.60.0").await;
        let job = Submission {
            entrypoint: "true".into(),
            submission_id: "a".into(),
            entrypoint_label_selector: BTreeMap::from([("zone".to_owned(), "x".to_owned())]),
            ..Submission::default()
        };
        client.submit_job(&job).await.unwrap();
        let (drafts, cluster) = (Drafts::default(), ClusterName::new("lab"));
        let filled = async || {
            let draft = drafts.draft(&client, &cluster, &job.id(), "me").await.unwrap();
            (draft.label_selector, drafts.find(&cluster, &job.id()).unwrap().warning)
        };
        assert_eq!(filled().await, (r#"{"zone":"x"}"#.to_owned(), None));
        head.set_faults(vec![FaultRule { path: "/api/v0/actors".into(), fault: Fault::Status(500) }]);
        let (selector, warning) = filled().await;
        assert!(
            selector.is_empty() && warning.unwrap().contains("cannot be read"),
            "the form is filled in nevertheless"
        );
    }

    #[tokio::test]
    async fn a_label_selector_is_not_sent_to_an_older_ray() {
        for (version, is_sent) in [("2.53.0", false), ("2.60.0", true)] {
            let (head, client) = head_with(version).await;
            let job = Submission {
                entrypoint: "true".into(),
                submission_id: "a".into(),
                entrypoint_label_selector: BTreeMap::from([("zone".to_owned(), "x".to_owned())]),
                ..Submission::default()
            };
            let ready =
                Ready { cluster: ClusterName::new("lab"), job, uploads: Vec::new(), warnings: Vec::new() };
            let sent = ready.send(&client, drop).await;
            if is_sent {
                assert_eq!(sent, Ok(SubmissionId("a".into())));
            } else {
                let why = sent.unwrap_err();
                assert!(why.contains("Ray 2.53.0 does not support label selectors"), "{why}");
                assert!(why.contains("remove the label selector"), "{why}");
            }
            assert_eq!(head.submissions(JobStatus::Pending).len(), usize::from(is_sent), "{version}");
        }
    }
}
