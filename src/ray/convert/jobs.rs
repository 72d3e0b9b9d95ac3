//! Jobs: rows of `GET /api/jobs/`, records of the GCS' key-value store, and the GCS' table of drivers.
//!
//! The runtime environment is never kept, because it may contain secrets.

use super::super::RayError;
use super::super::json::{Loose, Num, Str, Table, read_with};
use super::cut;
use super::interner::Interner;
use crate::model::sort;
use crate::model::text::hex;
use crate::model::{Job, JobId, JobKey, JobStatus, NodeId, SubmissionId, Text, Timestamp};
use crate::proto;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// `ray.job_submission.JobDetails`; the key-value store holds the same without the ids.
#[derive(Default, Deserialize)]
#[serde(default)]
struct JobRow<'a> {
    #[serde(borrow)]
    job_id: Str<'a>,
    #[serde(borrow)]
    submission_id: Str<'a>,
    #[serde(borrow)]
    status: Str<'a>,
    #[serde(borrow)]
    entrypoint: Str<'a>,
    #[serde(borrow)]
    message: Str<'a>,
    #[serde(borrow)]
    error_type: Str<'a>,
    start_time: Num,
    end_time: Num,
    #[serde(borrow)]
    metadata: Table<Str<'a>>,
    #[serde(borrow)]
    driver_node_id: Str<'a>,
    driver_exit_code: Num,
    entrypoint_num_cpus: Num,
    entrypoint_num_gpus: Num,
    entrypoint_memory: Num,
    entrypoint_resources: Table<Num>,
}

impl JobRow<'_> {
    /// The row as a job; `None` when it names neither a submission nor a driver.
    fn job(&self, submission: Option<Text>, words: &Interner) -> Option<Job> {
        let is_record = submission.is_some();
        let driver = (!self.job_id.is_empty()).then(|| JobId(self.job_id.text()));
        let submission =
            submission.or_else(|| (!self.submission_id.is_empty()).then(|| self.submission_id.text()));
        let key = match (submission, &driver) {
            (Some(id), _) => JobKey::Submission(SubmissionId(id)),
            (None, Some(id)) => JobKey::Driver(id.clone()),
            (None, None) => return None,
        };
        // Only the records of the key-value store, which do not contain a submission id, have the requested resources.
        let requested = is_record.then(|| self.requested(words));
        Some(Job {
            key,
            driver,
            status: JobStatus::parse(&self.status.0),
            entrypoint: words.text(&self.entrypoint.0),
            message: words.text(&excerpt(&self.message.0)),
            error_type: words.text(&self.error_type.0),
            started: self.start_time.millis(),
            ended: self.end_time.millis(),
            metadata: self.metadata.0.iter().map(|(k, v)| (words.text(k), words.text(&v.0))).collect(),
            driver_node: NodeId::from_hex(&self.driver_node_id.0),
            exit_code: self.driver_exit_code.0.map(|n| n as i32),
            requested,
        })
    }

    /// The resources that the entrypoint requests; Ray writes zeros for those that it does not.
    fn requested(&self, words: &Interner) -> Vec<(Text, f64)> {
        let own = [("CPU", &self.entrypoint_num_cpus), ("GPU", &self.entrypoint_num_gpus)];
        let own = own.into_iter().chain([("memory", &self.entrypoint_memory)]);
        let others = self.entrypoint_resources.0.iter().map(|(name, n)| (&**name, n));
        let all = own
            .chain(others)
            .filter_map(|(name, n)| Some((words.text(name), n.0.filter(|n| n.is_finite() && *n > 0.0)?)));
        all.collect()
    }
}

/// The part of a message that a row keeps: of a message that is too long, the first line and the end, where the log
/// that Ray quotes names the error.
fn excerpt(message: &str) -> Cow<'_, str> {
    const GAP: &str = "\n…\n";
    if message.len() <= Job::MESSAGE_LIMIT {
        return message.into();
    }
    let first = cut(message.lines().next().unwrap_or_default(), Job::MESSAGE_LIMIT / 4);
    let from = message.len() - (Job::MESSAGE_LIMIT - Job::MESSAGE_LIMIT / 4 - GAP.len());
    let from = (from..message.len()).find(|at| message.is_char_boundary(*at)).unwrap_or(message.len());
    let end = &message[from..];
    // The end begins with a whole line, if it has one.
    let lines = end.split_once('\n').map(|(_, lines)| lines).filter(|lines| !lines.trim().is_empty());
    format!("{first}{GAP}{}", lines.unwrap_or(end)).into()
}

/// The list of `GET /api/jobs/`. Unchanged jobs keep their allocation.
pub fn list(route: &str, body: &[u8], known: &HashMap<JobKey, Arc<Job>>) -> Result<Vec<Arc<Job>>, RayError> {
    read_with(route, body, |text| {
        let rows: Vec<Loose<JobRow>> = serde_json::from_str(text)?;
        let words = Interner::default();
        let jobs = rows.iter().filter_map(|row| row.0.job(None, &words));
        Ok(jobs.map(|job| shared(job, known)).collect())
    })
}

fn shared(job: Job, known: &HashMap<JobKey, Arc<Job>>) -> Arc<Job> {
    match known.get(&job.key) {
        Some(old) if **old == job => old.clone(),
        _ => Arc::new(job),
    }
}

/// One job: a response of `GET /api/jobs/{id}` (no id given), or a record of the key-value store.
pub fn one(route: &str, body: &[u8], submission: Option<&Text>, words: &Interner) -> Result<Job, RayError> {
    let job = read_with(route, body, |text| {
        let row: JobRow = serde_json::from_str(text)?;
        Ok(row.job(submission.cloned(), words))
    })?;
    job.ok_or_else(|| RayError::Malformed { route: route.to_owned(), why: "a job without an id".to_owned() })
}

/// Newest first, then by id.
pub fn sort(jobs: &mut [Arc<Job>]) {
    sort::by(jobs, |a, b| b.started.cmp(&a.started).then_with(|| a.key.cmp(&b.key)));
}

/// The drivers in the GCS' table.
#[derive(Debug, Default)]
pub struct Drivers {
    /// The driver of each submission.
    pub of_submission: HashMap<SubmissionId, JobId>,
    /// Drivers that were not started by a submission.
    pub by_hand: Vec<Arc<Job>>,
}

impl Drivers {
    /// From `GetAllJobInfo`. Ray's own drivers (namespace `_ray_internal_*`) are left out, as `/api/jobs/` does.
    pub fn of(table: Vec<proto::JobTableData>) -> Self {
        const INTERNAL: &str = "_ray_internal_";
        let mut drivers = Self::default();
        for row in table {
            let id = JobId(Text::from(hex(&row.job_id)));
            let config = row.config.clone().unwrap_or_default();
            if config.ray_namespace.starts_with(INTERNAL) {
                continue;
            }
            match config.metadata.get("job_submission_id") {
                Some(submission) => {
                    // If a submission has several drivers, the last one counts, as in `/api/jobs/`.
                    let last = drivers.of_submission.entry(SubmissionId(Text::from(submission.as_str())));
                    last.and_modify(|known| *known = known.clone().max(id.clone())).or_insert(id);
                }
                None => drivers.by_hand.push(Arc::new(by_hand(id, row, config))),
            }
        }
        drivers
    }
}

fn by_hand(id: JobId, row: proto::JobTableData, config: proto::JobConfig) -> Job {
    Job {
        key: JobKey::Driver(id.clone()),
        driver: Some(id),
        // Ray does not know how such a driver ended and reports every dead one as succeeded.
        status: if row.is_dead { JobStatus::Succeeded } else { JobStatus::Running },
        entrypoint: Text::from(row.entrypoint),
        message: Text::default(),
        error_type: Text::default(),
        started: millis(row.start_time),
        ended: millis(row.end_time),
        metadata: config.metadata.into_iter().map(|(k, v)| (Text::from(k), Text::from(v))).collect(),
        driver_node: None,
        exit_code: None,
        requested: None,
    }
}

/// A time of the GCS in milliseconds; zero means "not yet".
pub fn millis(ms: u64) -> Option<Timestamp> {
    i64::try_from(ms).ok().filter(|ms| *ms > 0).map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{VERSIONS, body};
    use super::*;

    fn table(version: &str, name: &str) -> HashMap<String, Arc<Job>> {
        let jobs = list("jobs", &body(version, name), &HashMap::new()).unwrap();
        jobs.into_iter().map(|j| (j.key.to_string(), j)).collect()
    }

    #[test]
    fn a_long_message_keeps_its_first_line_and_its_end() {
        assert_eq!(excerpt("short\nand whole"), "short\nand whole");
        let log: Vec<String> = (0..900).map(|n| format!("line {n} é")).collect();
        let log = log.join("\n");
        let long =
            format!("failed with exit code 1, last available logs:\n{log}\nValueError: no such bucket\n");
        let kept = excerpt(&long);
        assert!(kept.len() <= Job::MESSAGE_LIMIT);
        let lines: Vec<&str> = kept.lines().collect();
        assert_eq!(lines[..2], ["failed with exit code 1, last available logs:", "…"]);
        assert_eq!(lines.last(), Some(&"ValueError: no such bucket"));
        assert!(lines[2].starts_with("line "), "not a whole line: {}", lines[2]);
        // One line without an end, of characters of several bytes.
        let endless = "é".repeat(5000);
        let kept = excerpt(&endless);
        assert!(kept.len() <= Job::MESSAGE_LIMIT && kept.ends_with('é'));
    }

    #[test]
    fn recorded_jobs_are_read() {
        for version in VERSIONS {
            let jobs = table(version, "busy_jobs");
            let busy = &jobs["busy-1"];
            assert_eq!(busy.status, JobStatus::Running, "{version}");
            assert_eq!(busy.driver, Some(JobId("04000000".into())));
            assert_eq!(busy.owner(), Some("rt"));
            assert!(busy.started.is_some() && busy.ended.is_none() && busy.driver_node.is_some());
            assert_eq!((jobs["pend-1"].status, &jobs["pend-1"].driver), (JobStatus::Pending, &None));
            let failed = &jobs["fail-1"];
            assert_eq!((failed.status, failed.exit_code), (JobStatus::Failed, Some(3)));
            assert_eq!(failed.error_type.raw(), "JOB_ENTRYPOINT_COMMAND_ERROR");
            assert!(jobs["badenv-1"].message.raw().len() <= Job::MESSAGE_LIMIT);
            let driver = jobs.values().find(|j| j.submission_id().is_none()).unwrap();
            assert!(driver.driver.is_some() && driver.ended.is_none());
        }
    }

    #[test]
    fn a_secret_of_the_runtime_environment_is_not_kept() {
        for version in VERSIONS {
            assert!(!format!("{:?}", table(version, "busy_jobs")).contains("hunter2"));
        }
    }

    #[test]
    fn an_unchanged_job_stays_the_same_allocation() {
        let body = body("2.60.0", "busy_jobs");
        let first = list("jobs", &body, &HashMap::new()).unwrap();
        let known = first.iter().map(|j| (j.key.clone(), j.clone())).collect();
        let second = list("jobs", &body, &known).unwrap();
        assert!(first.iter().zip(&second).all(|(a, b)| Arc::ptr_eq(a, b)));
    }

    #[test]
    fn bad_rows_leave_the_good_ones() {
        let body =
            br#"[null, 7, {"status": 3}, {"submission_id": "a", "status": "RUNNING", "start_time": "12",
            "end_time": {}, "metadata": [1], "driver_exit_code": NaN, "entrypoint": null}]"#;
        let jobs = list("jobs", body, &HashMap::new()).unwrap();
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].started, Some(Timestamp::from_millis(12)));
        assert!(list("jobs", b"{}", &HashMap::new()).is_err(), "an object is not a list of jobs");
    }

    #[test]
    fn a_record_has_the_resources_of_the_entrypoint_and_a_row_of_the_list_does_not() {
        let body = br#"{"status": "PENDING", "entrypoint": "x", "entrypoint_num_cpus": 0.5, "entrypoint_num_gpus": 0,
            "entrypoint_memory": null, "entrypoint_resources": {"TPU-v4-8-head": 1.0, "b": "?"}}"#;
        let read = |id: Option<Text>| one("jobs", body, id.as_ref(), &Interner::default());
        let requested = read(Some("a".into())).unwrap().requested.unwrap();
        assert_eq!(requested, [("CPU".into(), 0.5), ("TPU-v4-8-head".into(), 1.0)]);
        let listed =
            list("jobs", br#"[{"submission_id": "a", "status": "PENDING"}]"#, &HashMap::new()).unwrap();
        assert_eq!(listed[0].requested, None);
    }

    #[test]
    fn drivers_are_matched_to_their_submissions() {
        let row = |id: u8, namespace: &str, submission: Option<&str>| proto::JobTableData {
            job_id: vec![id, 0, 0, 0].into(),
            config: Some(proto::JobConfig {
                ray_namespace: namespace.to_owned(),
                metadata: submission
                    .map(|s| ("job_submission_id".to_owned(), s.to_owned()))
                    .into_iter()
                    .collect(),
                ..Default::default()
            }),
            ..proto::JobTableData::default()
        };
        let drivers = Drivers::of(vec![
            row(1, "_ray_internal_dashboard", None),
            row(2, "a", Some("sub")),
            row(3, "b", None),
            row(4, "c", Some("sub")),
        ]);
        assert_eq!(drivers.of_submission[&SubmissionId("sub".into())], JobId("04000000".into()));
        assert_eq!(drivers.by_hand.iter().map(|j| j.key.to_string()).collect::<Vec<_>>(), ["03000000"]);
    }
}
