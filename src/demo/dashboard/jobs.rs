//! The Jobs API: one job, its whole log, stop, delete, submit.

use super::super::cluster::job::{RequestedResources, SimJob};
use super::super::cluster::log::Log;
use super::super::connection::{Body, text};
use super::super::json::dumps;
use super::super::shared::Shared;
use super::failure::in_trouble;
use super::json;
use crate::model::JobStatus;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

/// The route for submissions.
pub(super) const ROUTE: &str = "/api/jobs/";

/// Ray's response for an unknown id.
pub(super) fn unknown(id: &str) -> Response<Body> {
    text(StatusCode::NOT_FOUND, format!("Job {id} does not exist"))
}

/// `GET /api/jobs/{id}`.
pub(super) fn one(id: &str, shared: &Shared) -> Response<Body> {
    let found = shared.now(|c| {
        let head = c.head();
        c.job(id).map(|j| j.text(head).to_owned())
    });
    found.map_or_else(|| unknown(id), json)
}

/// `GET /api/jobs/{id}/logs`: the whole file; fails if it is not valid UTF-8.
pub(super) fn logs(id: &str, shared: &Shared) -> Response<Body> {
    let found = shared.now(|c| {
        let now = c.now;
        c.job(id).map(|j| (j.submission.is_some(), j.log.tail(None, now)))
    });
    match found {
        None => unknown(id),
        Some((false, _)) => text(StatusCode::BAD_REQUEST, "Can only get logs of submission type jobs"),
        Some((true, bytes)) => match String::from_utf8(bytes) {
            Ok(logs) => json(dumps(&json!({"logs": logs}))),
            Err(e) => {
                let error = e.utf8_error();
                let message = format!(
                    "Traceback (most recent call last):\nUnicodeDecodeError: 'utf-8' codec can't decode byte in position {}: invalid start byte\n",
                    error.valid_up_to()
                );
                text(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
        },
    }
}

/// `POST /api/jobs/{id}/stop`: reports at once whether the job can be stopped; it ends later.
pub(super) fn stop(id: &str, shared: &Shared) -> Response<Body> {
    let is_ignored = shared.ignores_stop();
    shared.now(|c| match c.job(id) {
        None => unknown(id),
        Some(job) if job.submission.is_none() => {
            text(StatusCode::BAD_REQUEST, "Can only stop submission type jobs")
        }
        Some(job) => {
            let stopped = if is_ignored { !job.status.is_ended() } else { c.stop(id) };
            json(format!("{{\"stopped\": {stopped}}}"))
        }
    })
}

/// `DELETE /api/jobs/{id}`: only a job that has ended can be deleted.
pub(super) fn delete(id: &str, shared: &Shared) -> Response<Body> {
    shared.now(|c| match c.job(id).map(|j| (j.submission.is_some(), j.status.is_ended(), j.status_label())) {
        None => unknown(id),
        Some((false, ..)) => text(StatusCode::BAD_REQUEST, "Can only delete submission type jobs"),
        Some((true, false, word)) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("Traceback (most recent call last):\nRuntimeError: Attempted to delete job '{id}', but it is in a non-terminal state {word}.\n"),
        ),
        Some((true, true, _)) => {
            c.forget(id);
            json("{\"deleted\": true}")
        }
    })
}

/// The pairs of an object whose values are strings.
fn strings(object: &Value) -> Vec<(String, String)> {
    let pairs = object.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// `POST /api/jobs/`.
pub(super) async fn submit(request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let Ok(body) = request.into_body().collect().await else { return in_trouble() };
    let Ok(body) = serde_json::from_slice::<Value>(&body.to_bytes()) else { return in_trouble() };
    shared.report_request("POST", ROUTE, &body);
    let Some(entrypoint) = body["entrypoint"].as_str() else {
        let message = "Traceback (most recent call last):\nTypeError: JobSubmitRequest.__init__() missing 1 required positional argument: 'entrypoint'\n";
        return text(StatusCode::BAD_REQUEST, message);
    };
    shared.now(|c| {
        let id = body["submission_id"].as_str().map_or_else(|| format!("raysubmit_{:016x}", c.now), str::to_owned);
        let resubmission = c.recognize(&id, &body);
        let job = SimJob {
            submission: Some(id.clone()),
            driver: None,
            status: JobStatus::Pending,
            entrypoint: entrypoint.to_owned(),
            message: Some("Job has not started yet.".into()),
            error: None,
            started: c.now,
            ended: None,
            metadata: body.get("metadata").filter(|m| m.is_object()).cloned(),
            runtime_env: body.get("runtime_env").filter(|m| m.is_object()).cloned(),
            requested: RequestedResources {
                cpus: body["entrypoint_num_cpus"].as_f64().unwrap_or(0.0),
                gpus: body["entrypoint_num_gpus"].as_f64().unwrap_or(0.0),
                memory: body["entrypoint_memory"].as_i64().unwrap_or(0),
                resources: body.get("entrypoint_resources").filter(|r| r.is_object()).cloned(),
                labels: strings(&body["entrypoint_label_selector"]),
            },
            stopping: None,
            queued: resubmission.is_none(),
            starting: None,
            never_started: false,
            driver_node: None,
            driver_ip: None,
            log: Log::none(),
            written: None,
            in_store: None,
        };
        if c.add(job) {
            match resubmission {
                Some(resubmission) => c.attach_resubmission(resubmission),
                None => c.place_drivers(),
            }
            return json(dumps(&json!({"job_id": id, "submission_id": id})));
        }
        let message = format!(
            "Traceback (most recent call last):\n  File \"job_head.py\", line 391, in submit_job\nRuntimeError: Request \
             failed with status code 500: Traceback (most recent call last):\n  File \"job_agent.py\", line 42, in \
             submit_job\nValueError: Job with submission_id {id} already exists. Please use a different \
             submission_id.\n.\n"
        );
        text(StatusCode::INTERNAL_SERVER_ERROR, message)
    })
}
