//! An open session with a cluster, and the handling of a dashboard that does not respond.

use super::ports::Ports;
use crate::model::{Hint, Problem, ProblemKind, Secret, Timestamp, Verb};
use crate::ray::{Client, RayError};
use crate::ssh::Tunnel;
use std::time::Duration;

/// How long to wait for a dashboard that does not respond if the GCS responds instead.
pub const GCS_INSTEAD: Duration = Duration::from_secs(3);

/// An open session with a cluster.
pub struct Session {
    /// The SSH connection, and the TCP ports opened over it for users; `None` with `--address`.
    pub tunnel: Option<(Tunnel, Ports)>,
    /// The client for Ray over this connection, with the token in force.
    pub client: Client,
    /// The client's token; `None` without token authentication.
    pub token: Option<Secret>,
    /// Round-trip time of the dashboard's answer; `None` if there was none.
    pub latency: Option<Duration>,
    /// The problem of the dashboard if the GCS is used instead.
    pub dashboard: Option<Problem>,
}

impl Session {
    /// Closes the connection. Its ports are free afterwards, so that the next session can use the same.
    pub async fn close(self) {
        if let Some((tunnel, ports)) = self.tunnel {
            tunnel.close().await;
            drop(ports);
        }
    }

    /// Number of connections to the head's ports that the head has refused so far.
    pub fn refusals(&self) -> u64 {
        self.tunnel.as_ref().map_or(0, |(tunnel, _)| tunnel.refusals().borrow().count)
    }
}

/// ssh reported that nothing listens behind the forward. Whether Ray is running is decided by the GCS: if it responds,
/// jobs are running, and `ray up` would end them.
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
