//! Submits and deletes jobs, and reads submissions back with all their fields, including secrets.

use super::RayError;
use super::client::{Client, encoded};
use super::gcs::{Gcs, decode, succeeded};
use super::json;
use crate::model::draft::KEPT_VALUE;
use crate::model::sort;
use crate::model::{JobStatus, SubmissionId, Text};
use crate::proto;
use bytes::Bytes;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

/// The route for submitting jobs.
pub const JOBS_ROUTE: &str = "/api/jobs/";
/// Timeout of a whole upload; a tunnel may be slow.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// The request that submits a job (`ray.dashboard.modules.job.common.JobSubmitRequest`).
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Submission {
    /// The shell command.
    pub entrypoint: String,
    /// Its submission id, chosen by us, so that repeating the request does not submit the job twice.
    pub submission_id: String,
    /// The runtime environment. Its `env_vars` are secrets.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub runtime_env: Map<String, Value>,
    /// The submitter's metadata.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// CPUs of the entrypoint itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_num_cpus: Option<f64>,
    /// GPUs of the entrypoint itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_num_gpus: Option<f64>,
    /// Bytes of memory of the entrypoint itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_memory: Option<u64>,
    /// Other resources of the entrypoint itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entrypoint_resources: BTreeMap<String, f64>,
    /// The labels that the node of the entrypoint must have. Sent only if there are any: Ray before 2.54 refuses the
    /// field ([`Client::check_label_selector`]). Ray's record of a submission does not have it
    /// ([`Client::label_selectors`]).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entrypoint_label_selector: BTreeMap<String, String>,
}

/// Without the runtime environment: it may hold secrets.
impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("submission_id", &self.submission_id).finish_non_exhaustive()
    }
}

impl Submission {
    pub fn id(&self) -> SubmissionId {
        SubmissionId(Text::from(self.submission_id.as_str()))
    }

    /// The resources that its entrypoint requests.
    pub fn entrypoint_needs(&self) -> impl Iterator<Item = (&str, f64)> {
        let cpus = self.entrypoint_num_cpus.map(|n| ("CPU", n));
        let gpus = self.entrypoint_num_gpus.map(|n| ("GPU", n));
        let memory = self.entrypoint_memory.map(|n| ("memory", n as f64));
        let others = self.entrypoint_resources.iter().map(|(name, n)| (name.as_str(), *n));
        [cpus, gpus, memory].into_iter().flatten().chain(others)
    }

    /// The request with the values of its variables replaced by `***`, for display and scripts.
    pub fn without_secrets(&self) -> Value {
        let mut sent = serde_json::to_value(self).unwrap_or_default();
        if let Some(Value::Object(variables)) = sent.pointer_mut("/runtime_env/env_vars") {
            variables.values_mut().for_each(|value| *value = KEPT_VALUE.into());
        }
        sent
    }

    /// Packages in the GCS that its runtime environment names (`gcs://...`), at any depth.
    pub fn packages(&self) -> Vec<String> {
        fn collect(value: &Value, out: &mut Vec<String>) {
            match value {
                Value::String(s) if s.starts_with("gcs://") && !out.contains(s) => out.push(s.clone()),
                Value::Array(items) => items.iter().for_each(|v| collect(v, out)),
                Value::Object(fields) => fields.values().for_each(|v| collect(v, out)),
                _ => {}
            }
        }
        let mut out = Vec::new();
        // The values of variables are not packages.
        let fields = self.runtime_env.iter().filter(|(name, _)| *name != "env_vars");
        fields.for_each(|(_, value)| collect(value, &mut out));
        out
    }
}

/// A submission as the GCS keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub submission: Submission,
    pub status: JobStatus,
}

/// The value under `_ray_internal_job_info_<id>` (`ray.dashboard.modules.job.common.JobInfo`).
#[derive(Deserialize)]
struct Record {
    status: String,
    entrypoint: String,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    runtime_env_json: Option<String>,
    #[serde(default)]
    entrypoint_num_cpus: Option<f64>,
    #[serde(default)]
    entrypoint_num_gpus: Option<f64>,
    #[serde(default)]
    entrypoint_memory: Option<f64>,
    #[serde(default)]
    entrypoint_resources: Option<BTreeMap<String, f64>>,
}

impl Record {
    fn read(key: &[u8], value: &[u8]) -> Result<Recorded, RayError> {
        let id = String::from_utf8_lossy(key.strip_prefix(proto::JOB_KEY_PREFIX).unwrap_or(key)).into_owned();
        let bad = |why: String| RayError::Malformed {
            route: format!("the record of job {}", Text::from(id.as_str())),
            why,
        };
        let record: Self = serde_json::from_slice(value).map_err(|e| bad(e.to_string()))?;
        let runtime_env = match record.runtime_env_json.as_deref() {
            None | Some("") => Map::new(),
            Some(text) => serde_json::from_str(text).map_err(|e| bad(e.to_string()))?,
        };
        let some = |n: Option<f64>| n.filter(|n| *n > 0.0);
        let submission = Submission {
            entrypoint: record.entrypoint,
            submission_id: id,
            runtime_env,
            metadata: record.metadata.unwrap_or_default(),
            entrypoint_num_cpus: some(record.entrypoint_num_cpus),
            entrypoint_num_gpus: some(record.entrypoint_num_gpus),
            entrypoint_memory: some(record.entrypoint_memory).map(|n| n as u64),
            entrypoint_resources: record.entrypoint_resources.unwrap_or_default(),
            entrypoint_label_selector: BTreeMap::new(),
        };
        Ok(Recorded { submission, status: JobStatus::parse(&record.status) })
    }
}

impl Client {
    /// Submits a job (`POST /api/jobs/`) once: after a timeout, Ray's record of the id shows whether it was submitted. If
    /// that cannot be read either, the error is [`RayError::Unconfirmed`].
    /// An id that is in use is an error.
    pub async fn submit_job(&self, job: &Submission) -> Result<(), RayError> {
        let body = serde_json::to_vec(job).map_err(|e| RayError::Setup(e.to_string()))?;
        // Ray itself waits for an agent for up to 10 s.
        let request = self.request(Method::POST, JOBS_ROUTE).timeout(self.inner.limits.call * 2).body(body);
        match self.send(request).await {
            Ok(_) => Ok(()),
            Err(RayError::Silent(why)) => match self.job(&job.id()).await {
                Ok(found) if found.job.entrypoint.raw() == job.entrypoint => Ok(()),
                _ => Err(RayError::Unconfirmed { id: job.id().0, why }),
            },
            Err(e) => Err(e),
        }
    }

    /// Deletes the record of an ended job (`DELETE /api/jobs/{id}`); Ray refuses it for a job that has not ended.
    pub async fn delete_job(&self, id: &SubmissionId) -> Result<(), RayError> {
        let route = format!("/api/jobs/{}", encoded(id.0.raw()));
        self.send(self.request(Method::DELETE, &route).timeout(self.inner.limits.call)).await.map(|_| ())
    }

    /// Whether a package with this URI (`gcs://...`) exists.
    pub async fn has_package(&self, uri: &str) -> Result<bool, RayError> {
        match self.get(&package_route(uri)?).await {
            Ok(_) => Ok(true),
            Err(RayError::NotFound(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Uploads a package under its URI, through the dashboard.
    pub async fn upload_package(&self, uri: &str, content: Bytes) -> Result<(), RayError> {
        let route = package_route(uri)?;
        self.send(self.request(Method::PUT, &route).timeout(UPLOAD_TIMEOUT).body(content)).await.map(|_| ())
    }

    /// Uploads a file as a package. A file that is too large for the dashboard is streamed to the GCS, as a driver's
    /// `ray.init` does.
    pub async fn upload_package_file(&self, uri: &str, mut file: File) -> Result<(), RayError> {
        let unread = |e: io::Error| RayError::Setup(format!("cannot read its package: {e}"));
        if file.metadata().map_err(unread)?.len() <= super::UPLOAD_LIMIT {
            let mut content = Vec::new();
            file.read_to_end(&mut content).map_err(unread)?;
            return self.upload_package(uri, content.into()).await;
        }
        let Some(gcs) = Gcs::of(self)? else { return Err(RayError::TooLarge(super::UPLOAD_LIMIT as usize)) };
        let sent = tokio::time::timeout(UPLOAD_TIMEOUT, gcs.write_value(uri.as_bytes(), file)).await;
        sent.unwrap_or_else(|_| Err(RayError::Silent("the GCS timed out".to_owned())))
    }

    /// Writes an uploaded package (`gcs://_ray_pkg_<hash>.zip`) to `to`. It is read from the GCS: the dashboard has no
    /// route for it. The inner error is the writer's.
    pub async fn package(&self, uri: &str, to: &mut (dyn Write + Send)) -> Result<io::Result<()>, RayError> {
        let Some(gcs) = Gcs::of(self)? else {
            return Err(RayError::NotFound("reading packages needs the GCS".to_owned()));
        };
        let reading = gcs.read_value(Bytes::copy_from_slice(uri.as_bytes()), to);
        match tokio::time::timeout(UPLOAD_TIMEOUT, reading).await {
            Ok(Ok(Ok(None))) => Err(RayError::NotFound(format!("there is no package {}", Text::from(uri)))),
            Ok(read) => read.map(|written| written.map(|_| ())),
            Err(_) => Err(RayError::Silent("the gcs timed out".to_owned())),
        }
    }

    /// The requests of all submissions that have not ended, from the GCS. A record that cannot be read is an error: a
    /// backup must not silently leave one out.
    pub async fn open_submissions(&self) -> Result<Vec<Recorded>, RayError> {
        let Some(gcs) = Gcs::of(self)? else {
            return Err(RayError::NotFound("reading submissions needs the GCS".to_owned()));
        };
        let namespace = Bytes::from_static(proto::JOB_NAMESPACE);
        let prefix = Bytes::from_static(proto::JOB_KEY_PREFIX);
        let request = proto::InternalKvKeysRequest { prefix, namespace };
        let body = gcs.call(proto::path::KV_KEYS, &request).await?;
        let keys: proto::InternalKvKeysReply = decode(proto::path::KV_KEYS, body)?;
        succeeded(keys.status.as_ref())?;
        let namespace = Bytes::from_static(proto::JOB_NAMESPACE);
        let request = proto::InternalKvMultiGetRequest { keys: keys.results, namespace };
        let body = gcs.call(proto::path::KV_MULTI_GET, &request).await?;
        let reply: proto::InternalKvMultiGetReply = decode(proto::path::KV_MULTI_GET, body)?;
        succeeded(reply.status.as_ref())?;
        let mut open = Vec::new();
        // A submission that was deleted in the meantime is left out.
        for entry in reply.results {
            let recorded = Record::read(&entry.key, &entry.value)?;
            if !recorded.status.is_ended() {
                open.push(recorded);
            }
        }
        sort::by(&mut open, |a, b| a.submission.submission_id.cmp(&b.submission.submission_id));
        Ok(open)
    }

    /// One submission with its complete request, from the GCS; without a GCS, with the fields that the dashboard
    /// returns. `None` when Ray does not know it.
    pub async fn record(&self, id: &SubmissionId) -> Result<Option<Recorded>, RayError> {
        let Some(gcs) = Gcs::of(self)? else { return self.submission(id).await };
        let key = [proto::JOB_KEY_PREFIX, id.0.raw().as_bytes()].concat();
        match gcs.kv(Bytes::from(key.clone()), proto::JOB_NAMESPACE).await? {
            Some(value) => Record::read(&key, &value).map(Some),
            None => Ok(None),
        }
    }

    /// The request of one submission; `None` when Ray does not know it.
    pub async fn submission(&self, id: &SubmissionId) -> Result<Option<Recorded>, RayError> {
        #[derive(Deserialize)]
        struct Row {
            status: String,
            entrypoint: String,
            #[serde(default)]
            runtime_env: Option<Map<String, Value>>,
            #[serde(default)]
            metadata: Option<BTreeMap<String, String>>,
        }
        let route = format!("/api/jobs/{}", encoded(id.0.raw()));
        let body = match self.get(&route).await {
            Err(RayError::NotFound(_)) => return Ok(None),
            body => body?,
        };
        let row: Row = json::read(&route, &body)?;
        let submission = Submission {
            entrypoint: row.entrypoint,
            submission_id: id.0.raw().to_owned(),
            runtime_env: row.runtime_env.unwrap_or_default(),
            metadata: row.metadata.unwrap_or_default(),
            ..Submission::default()
        };
        Ok(Some(Recorded { submission, status: JobStatus::parse(&row.status) }))
    }
}

/// The dashboard's route for uploading a package: `/api/packages/gcs/<name>`.
///
/// # Errors
///
/// [`RayError::Setup`] for a URI that does not begin with `gcs://`.
pub fn package_route(uri: &str) -> Result<String, RayError> {
    let name = uri.strip_prefix("gcs://").filter(|n| !n.is_empty());
    let name =
        name.ok_or_else(|| RayError::Setup(format!("{} is not a Ray package URI", Text::from(uri))))?;
    Ok(format!("/api/packages/gcs/{}", encoded(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_becomes_the_submission_that_it_was() {
        let record = json!({
            "status": "PENDING", "entrypoint": "python x.py", "metadata": {"owner": "alice"},
            "entrypoint_num_cpus": 0.5, "entrypoint_num_gpus": 0, "entrypoint_memory": 1000,
            "entrypoint_resources": {"TPU": 4.0}, "start_time": 1,
            "runtime_env_json": "{\"working_dir\": \"gcs://_ray_pkg_1.zip\", \"env_vars\": {\"A\": \"hunter2\"}}"
        });
        let read = Record::read(b"_ray_internal_job_info_j", record.to_string().as_bytes()).unwrap();
        assert_eq!((read.status, read.submission.submission_id.as_str()), (JobStatus::Pending, "j"));
        assert_eq!(read.submission.packages(), ["gcs://_ray_pkg_1.zip"]);
        assert!(!format!("{read:?}").contains("hunter2"));
        let body = serde_json::to_value(&read.submission).unwrap();
        let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
        let labeled = Submission { entrypoint_label_selector: labels, ..read.submission.clone() };
        let labeled = serde_json::to_value(&labeled).unwrap();
        assert_eq!(labeled["entrypoint_label_selector"], json!({"disk": "ssd"}));
        assert_eq!(
            body,
            json!({
                "entrypoint": "python x.py", "submission_id": "j", "metadata": {"owner": "alice"},
                "entrypoint_num_cpus": 0.5, "entrypoint_memory": 1000, "entrypoint_resources": {"TPU": 4.0},
                "runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip", "env_vars": {"A": "hunter2"}}
            })
        );
        assert_eq!(serde_json::from_value::<Submission>(body).unwrap(), read.submission);
    }

    #[test]
    fn a_package_in_a_variable_is_not_one() {
        let env = json!({
            "py_modules": ["gcs://a.zip", "s3://b/c.zip", "gcs://a.zip"], "env_vars": {"X": "gcs://bucket/x"}
        });
        let job = Submission { runtime_env: env.as_object().unwrap().clone(), ..Submission::default() };
        assert_eq!(job.packages(), ["gcs://a.zip"]);
        assert!(package_route("s3://x").is_err());
        assert_eq!(package_route("gcs://a b.zip").unwrap(), "/api/packages/gcs/a%20b.zip");
    }
}
