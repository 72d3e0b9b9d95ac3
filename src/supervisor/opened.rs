//! An open way to a cluster, and what it means when its dashboard is silent.

use super::ports::Ports;
use crate::model::{Hint, Problem, ProblemKind, Secret, Timestamp, Verb};
use crate::ray::{Client, RayError};
use crate::ssh::Tunnel;
use std::time::Duration;

/// How long to wait for a silent dashboard when the GCS answers instead.
pub const GCS_INSTEAD: Duration = Duration::from_secs(3);

/// An open way to a cluster.
pub struct Session {
    /// The SSH connection, and the TCP ports that were opened over it for people; none with `--address`.
    pub tunnel: Option<(Tunnel, Ports)>,
    /// Ray through it, with the token in force.
    pub client: Client,
    /// The client's token; none without token auth.
    pub token: Option<Secret>,
    /// Round trip of the dashboard's answer; none when it gave none.
    pub latency: Option<Duration>,
    /// The problem of the dashboard when the GCS is used instead.
    pub dashboard: Option<Problem>,
}

impl Session {
    /// Ends the connection; its ports are free afterwards, and the next one gets the same.
    pub async fn close(self) {
        if let Some((tunnel, ports)) = self.tunnel {
            tunnel.close().await;
            drop(ports);
        }
    }

    /// Connections to the head's ports that the head refused so far.
    pub fn refusals(&self) -> u64 {
        self.tunnel.as_ref().map_or(0, |(tunnel, _)| tunnel.refusals().borrow().count)
    }
}

/// ssh said that nothing listens behind the forward. Whether Ray runs there all the same is for the GCS to say: as long
/// as it answers, jobs run, and `ray up` would end them.
pub async fn dashboard_down(client: &Client) -> Problem {
    let (what, hint) = match tokio::time::timeout(GCS_INSTEAD, client.gcs_wants_token()).await {
        Ok(Ok(_)) => (
            "no dashboard listens on the head, but its GCS responds: jobs keep running",
            Hint::from(
                "check dashboard.log on the head; do not start the cluster, `ray up` would end its jobs",
            ),
        ),
        Ok(Err(RayError::Silent(_))) => (
            "neither a dashboard nor a GCS listens on the head: Ray is not running",
            Hint::from(Verb::Start.to("start the cluster")).and("or check `ray status` on the head first"),
        ),
        Ok(Err(_)) | Err(_) => (
            "no dashboard listens on the head; whether Ray is running is unknown",
            "check `ray status` on the head before starting the cluster; `ray up` ends running jobs".into(),
        ),
    };
    Problem::new(ProblemKind::DashboardSilent, what, hint, Timestamp::now())
}
