//! The list of jobs, as a table and for scripts.

use super::super::output;
use super::row::{JobRow, print_rows};
use crate::model::json::object;
use crate::model::time::brief;
use crate::model::{Job, JobKey, Timestamp};
use crate::state::ClusterState;
use serde_json::json;

/// Prints jobs, with the cluster of each if there are several.
pub fn print(rows: &[JobRow<'_>], is_several: bool, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let value = |row: &JobRow<'_>| {
            let mut value = row_for_scripts(row.job, row.state);
            if is_several {
                value["cluster"] = row.cluster.as_str().into();
            }
            value
        };
        return output::json(&rows.iter().map(value).collect::<Vec<_>>());
    }
    let now = Timestamp::now();
    print_rows(rows, is_several, &["JOB", "STATUS", "OWNER", "AGE", "COMMAND"], |row| cells(row.job, now))
}

fn cells(job: &Job, now: Timestamp) -> Vec<String> {
    /// Maximum length of a command in the table, in characters.
    const MAX_COMMAND_LENGTH: usize = 100;
    let age = job.started.map_or_else(|| "-".into(), |at| brief(at.age(now)));
    let raw = job.entrypoint.raw();
    let mut command: String = raw.chars().take(MAX_COMMAND_LENGTH).collect();
    if command.len() < raw.len() {
        command.push('…');
    }
    let owner = job.owner().unwrap_or("-").to_owned();
    vec![job.key.to_string(), job.status.label().into(), owner, age, command]
}

/// The fields of a job in JSON, of a cluster in this state.
pub fn row_for_scripts(job: &Job, state: &ClusterState) -> serde_json::Value {
    let metadata = object(job.metadata.iter().map(|(k, v)| (k.raw(), v.raw())));
    let submission = job.submission_id().map(|id| id.0.raw());
    let driver = match &job.key {
        JobKey::Driver(id) => Some(id),
        JobKey::Submission(_) => job.driver.as_ref(),
    };
    let requested = job.requested.as_deref().map(super::vitals::amounts);
    let mut value = json!({
        "submission_id": submission, "job_id": driver.map(|id| id.0.raw()), "status": state.vitals.status(job).label(),
        "owner": job.owner(), "entrypoint": job.entrypoint.raw(), "message": job.message.raw(),
        "error_type": job.error_type.raw(), "started_ms": job.started.map(Timestamp::as_millis),
        "ended_ms": job.ended.map(Timestamp::as_millis), "metadata": metadata, "exit_code": job.exit_code,
        "requested": requested, "reason": state.pending.get(&job.key).map(|why| why.text.as_str()),
    });
    if state.vitals.read.is_some() {
        value["vitals"] = super::vitals::for_scripts(job, state);
    }
    value
}
