//! Stops jobs and reports the actual result: some Ray versions answer "stopped" for a pending job and do nothing
//! (ray-project/ray#58353), so the status is read until it shows the end.

use super::Session;
use super::connection::{ConnectionState, client_of};
use super::out::UpdateSender;
use crate::model::{ClusterEvent, JobStatus, JobStopOutcome, SubmissionId};
use crate::ray::{Client, RayError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, watch};

/// How long to wait for the effect: Ray gives the job 3 s between SIGTERM and SIGKILL, and shows the end about 1.4 s
/// later.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to watch a job after a stop request without an answer: a hanging head or a lost connection may recover.
const UNANSWERED_TIMEOUT: Duration = Duration::from_secs(600);
/// Poll interval while waiting for a job to end.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Sends a stop request and watches for the effect. `changed` requests a refresh. A request without an answer may have
/// arrived: this is reported, and corrected once the job's status is seen. `permits` limits the requests at a time.
pub(super) async fn stop_and_watch(
    mut ray: CurrentClient,
    id: SubmissionId,
    out: UpdateSender,
    changed: mpsc::UnboundedSender<()>,
    permits: &Semaphore,
) {
    let report = async |outcome| {
        tracing::info!(cluster = %out.cluster(), job = %id, ?outcome, "stop job");
        out.send(ClusterEvent::JobStop { id: id.clone(), outcome }).await;
        // The session may have ended in the meantime.
        let _ = changed.send(());
    };
    let answer = {
        let _permit = permits.acquire().await;
        ray.client().stop_job(&id).await
    };
    let outcome = match answer {
        Ok(_) => {
            report(JobStopOutcome::Requested).await;
            wait_for_end(&mut ray, &id, EFFECT_TIMEOUT).await
        }
        Err(e) if may_have_arrived(&e) => JobStopOutcome::Unknown { why: e.to_string(), watching: true },
        Err(e) => JobStopOutcome::Failed(e.to_string()),
    };
    let is_watched = matches!(outcome, JobStopOutcome::Unknown { watching: true, .. });
    report(outcome).await;
    if is_watched {
        report(wait_for_end(&mut ray, &id, UNANSWERED_TIMEOUT).await).await;
    }
}

/// Sends a stop request and waits for the effect, even if the answer was lost.
pub async fn stop_job(session: &Session, id: &SubmissionId) -> JobStopOutcome {
    let mut ray = CurrentClient::new(session.client.clone(), session.connection().watch());
    match ray.client().stop_job(id).await {
        Err(e) if !may_have_arrived(&e) => JobStopOutcome::Failed(e.to_string()),
        Ok(_) | Err(_) => wait_for_end(&mut ray, id, EFFECT_TIMEOUT).await,
    }
}

/// A client of Ray over the current connection: a long wait must survive a reconnection.
pub(super) struct CurrentClient {
    client: Client,
    state: watch::Receiver<ConnectionState>,
}

impl CurrentClient {
    /// Starts with this connection and continues with those that follow it.
    pub(super) fn new(client: Client, state: watch::Receiver<ConnectionState>) -> Self {
        Self { client, state }
    }

    fn client(&mut self) -> &Client {
        if let Some(client) = client_of(&self.state) {
            self.client = client;
        }
        &self.client
    }
}

/// Whether Ray may have received a request that failed with this error.
const fn may_have_arrived(error: &RayError) -> bool {
    matches!(error, RayError::Silent(_) | RayError::Malformed { .. } | RayError::TooLarge(_))
}

/// Deletes an ended job from Ray; the error is a message.
pub async fn delete_job(client: &Client, id: &SubmissionId) -> Result<(), String> {
    match client.delete_job(id).await {
        Ok(()) => Ok(()),
        Err(RayError::Status { message, .. }) if message.contains("non-terminal") => {
            Err(NOT_ENDED.to_owned())
        }
        Err(e) => Err(e.to_string()),
    }
}

/// Why the record of a job cannot be deleted.
pub const NOT_ENDED: &str = "has not ended; stop it first with stop-job";

/// Waits until Ray reports the end of the job. [`JobStopOutcome::Unknown`] if its status could not be read.
async fn wait_for_end(ray: &mut CurrentClient, id: &SubmissionId, limit: Duration) -> JobStopOutcome {
    let began = Instant::now();
    let unknown = |e: &RayError| JobStopOutcome::Unknown { why: e.to_string(), watching: false };
    // If the status could not be read for a while, the full time starts again with the next successful read.
    let mut seen_since = None;
    loop {
        match status(ray.client(), id).await {
            Ok(status) if status.is_ended() => return JobStopOutcome::Ended(status.label().into()),
            Ok(status) if seen_since.get_or_insert_with(Instant::now).elapsed() > EFFECT_TIMEOUT => {
                return JobStopOutcome::StillThere(status);
            }
            Err(e @ (RayError::NotFound(_) | RayError::TokenMissing | RayError::TokenRefused)) => {
                return unknown(&e);
            }
            Err(e) if began.elapsed() > limit => return unknown(&e),
            Err(_) => {
                seen_since = None;
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

async fn status(client: &Client, id: &SubmissionId) -> Result<JobStatus, RayError> {
    client.job(id).await.map(|detail| detail.job.status)
}
