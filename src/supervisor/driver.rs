//! On which node a job's driver runs, and thus which node has its log.

use crate::model::{Job, NodeId, SubmissionId};
use crate::ray::{Client, RayError};
use std::time::Duration;
use tokio::time::timeout;

/// Time limit of each of the two queries that show on which node a job's driver runs. After it, the log on the head is
/// shown until a later query is answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of consecutive queries for the head's id without an answer after which the log of a job that has ended
/// counts as that on the head.
pub(super) const MAX_UNANSWERED: u32 = 3;

/// Where a job's driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriverPlace {
    /// Ray did not answer in time.
    Unknown,
    /// Nowhere yet: the job has no driver.
    NotStarted,
    /// Nowhere: the job has ended without a driver.
    Never,
    /// On the head.
    Head,
    /// On another node, which has its log. A file on the head with the same name is not its log: Ray 2.60 writes there
    /// that it sets up the runtime environment.
    Elsewhere,
}

impl DriverPlace {
    /// Where the driver of this job runs; `head` is the head's node id, if known.
    pub(super) fn of(job: &Job, head: Option<NodeId>) -> Self {
        match (job.driver_node, head) {
            (None, _) if job.status.is_ended() => Self::Never,
            (None, _) => Self::NotStarted,
            (Some(_), None) => Self::Unknown,
            (Some(node), Some(head)) if node == head => Self::Head,
            (Some(_), Some(_)) => Self::Elsewhere,
        }
    }
}

/// Asks Ray where a job's driver runs; `head` is the head's node id, if known.
pub(super) async fn driver_place(client: &Client, id: &SubmissionId, head: Option<NodeId>) -> DriverPlace {
    match tokio::join!(timeout(ANSWER_TIMEOUT, client.job(id)), head_id(client, head)) {
        (Ok(Ok(detail)), head) => DriverPlace::of(&detail.job, head),
        (Ok(Err(_)) | Err(_), _) => DriverPlace::Unknown,
    }
}

/// The head's node id, which Ray is asked for if it is not known; `None` if Ray does not answer in time.
async fn head_id(client: &Client, known: Option<NodeId>) -> Option<NodeId> {
    ask_head(client, known).await?.ok()
}

/// The same, with the error if Ray answered with one.
pub(super) async fn ask_head(client: &Client, known: Option<NodeId>) -> Option<Result<NodeId, RayError>> {
    match known {
        Some(known) => Some(Ok(known)),
        None => timeout(ANSWER_TIMEOUT, client.head_node()).await.ok(),
    }
}

/// Whether a job's driver runs on a node other than the head, so that the head does not have its log. `false` if Ray
/// does not answer in time; then the log on the head is tried.
pub async fn is_elsewhere(client: &Client, id: &SubmissionId, head: Option<NodeId>) -> bool {
    driver_place(client, id, head).await == DriverPlace::Elsewhere
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobStatus;

    #[test]
    fn a_driver_is_where_its_node_is() {
        let node = |n: u8| NodeId::from_bytes(&[n; 28]).unwrap();
        let place = |status, driver_node, head| {
            DriverPlace::of(&Job { driver_node, ..Job::sample("a", status) }, head)
        };
        let (running, head) = (JobStatus::Running, Some(node(1)));
        assert_eq!(place(running, Some(node(1)), head), DriverPlace::Head);
        assert_eq!(place(running, Some(node(2)), head), DriverPlace::Elsewhere);
        assert_eq!(place(running, Some(node(2)), None), DriverPlace::Unknown);
        assert_eq!(place(JobStatus::Pending, None, head), DriverPlace::NotStarted);
        assert_eq!(place(JobStatus::Failed, None, None), DriverPlace::Never);
    }
}
