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
    let began = Instant::now();
    loop {
        let seen = status(&client, &id).await;
        match seen {
            Ok(status) if status.is_ended() => {
                return tell(JobStopOutcome::Ended(status.word().into())).await;
            }
            Ok(status) if began.elapsed() > PATIENCE => {
                return tell(JobStopOutcome::StillThere(status.word().into())).await;
            }
            Err(e) if began.elapsed() > PATIENCE => {
                let why = format!("ray was asked to stop it, but its state cannot be read: {e}");
                return tell(JobStopOutcome::Failed(why)).await;
            }
            Ok(_) | Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

async fn status(client: &Client, id: &SubmissionId) -> Result<JobStatus, RayError> {
    client.job(id).await.map(|detail| detail.job.status)
}
