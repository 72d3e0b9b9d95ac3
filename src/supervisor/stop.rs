//! Stopping a job, and the truth about it: some Ray versions answer "stopped" for a pending job and do nothing
//! (ray-project/ray#58353), so the status is read again until it says so.

use super::task::Out;
use crate::model::{JobStatus, JobStopOutcome, News, SubmissionId};
use crate::ray::{Client, RayError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Ray gives the job 3 s between SIGTERM and SIGKILL, and shows the end about 1.4 s later.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// Asks Ray to stop the job and watches for the effect. `changed` asks for a refresh when something has.
pub async fn stop_and_watch(client: Client, id: SubmissionId, out: Out, changed: mpsc::UnboundedSender<()>) {
    let tell = async |outcome| {
        tracing::info!(cluster = %out.cluster, job = %id, ?outcome, "stop job");
        out.send(News::JobStop { id: id.clone(), outcome }).await;
        // The session may have ended meanwhile.
        let _ = changed.send(());
    };
    if let Err(e) = client.stop_job(&id).await {
        return tell(JobStopOutcome::Failed(e.to_string())).await;
    }
    tell(JobStopOutcome::Asked).await;
    tell(seen_to_end(&client, &id).await).await;
}

/// Asks Ray to stop the job and waits for the effect.
pub async fn stop_job(client: &Client, id: &SubmissionId) -> JobStopOutcome {
    match client.stop_job(id).await {
        Ok(_) => seen_to_end(client, id).await,
        Err(e) => JobStopOutcome::Failed(e.to_string()),
    }
}

/// Makes Ray forget an ended job; why not, in words.
pub async fn delete_job(client: &Client, id: &SubmissionId) -> Result<(), String> {
    match client.delete_job(id).await {
        Ok(()) => Ok(()),
        Err(RayError::Status { message, .. }) if message.contains("non-terminal") => {
            Err("has not ended; stop-job stops it".to_owned())
        }
        Err(e) => Err(e.to_string()),
    }
}

async fn seen_to_end(client: &Client, id: &SubmissionId) -> JobStopOutcome {
    let began = Instant::now();
    loop {
        match status(client, id).await {
            Ok(status) if status.is_ended() => return JobStopOutcome::Ended(status.word().into()),
            Ok(status) if began.elapsed() > PATIENCE => {
                return JobStopOutcome::StillThere(status.word().into());
            }
            Err(e) if began.elapsed() > PATIENCE => {
                let why = format!("ray was asked to stop it, but its state cannot be read: {e}");
                return JobStopOutcome::Failed(why);
            }
            Ok(_) | Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

async fn status(client: &Client, id: &SubmissionId) -> Result<JobStatus, RayError> {
    client.job(id).await.map(|detail| detail.job.status)
}
