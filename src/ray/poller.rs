//! Reads [`Snapshot`]s of a cluster with as few requests as possible.
//!
//! The GCS is used when it is reachable, the dashboard otherwise; unchanged data are neither fetched nor allocated
//! again. The caller decides when to refresh.

mod dashboard;
mod direct;
mod identity;
mod jobs;
mod read_schedule;

pub use identity::Identity;

use super::RayError;
use super::client::Client;
use super::gcs::Gcs;
use crate::model::{Snapshot, SnapshotPart, Timestamp};
use std::time::{Duration, Instant};

/// Interval between two probes of a GCS that failed.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// Timeout of such a probe. It runs concurrently with a refresh over HTTP, which it must not delay for longer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after which a GCS that is being read is probed. On a slow link the response arrives after the data that is
/// being read, so the probe has the same time again.
const SLOW_GCS: Duration = Duration::from_secs(3);

/// Reads one cluster repeatedly.
#[derive(Debug)]
pub struct Poller {
    client: Client,
    gcs: Option<direct::Channel>,
    /// When the GCS failed or was last probed without success; none while it is used.
    gcs_failed: Option<Instant>,
    over_gcs: bool,
    dashboard: dashboard::Reader,
    last: Snapshot,
}

impl Poller {
    /// A poller without data.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            gcs: None,
            gcs_failed: None,
            over_gcs: false,
            dashboard: dashboard::Reader::default(),
            last: Snapshot::default(),
        }
    }

    /// Whether the last refresh came through the GCS.
    pub fn over_gcs(&self) -> bool {
        self.over_gcs
    }

    /// Reads the cluster once. When the GCS fails, it logs a warning and reads over HTTP; a token that the GCS refuses
    /// is an error, because the dashboard would refuse it too.
    pub async fn refresh(&mut self) -> Result<Snapshot, RayError> {
        match self.refresh_directly().await {
            Ok(Some(snapshot)) => return Ok(self.keep(snapshot, true)),
            Ok(None) => {}
            Err(error) if error.is_token() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "cannot read the GCS, using the dashboard");
                self.gcs = None;
                self.gcs_failed = Some(Instant::now());
            }
        }
        let is_due = self.gcs_failed.is_some_and(|at| at.elapsed() >= PROBE_EVERY);
        let probe = async {
            let gcs = Gcs::of(&self.client).ok().flatten().filter(|_| is_due)?;
            responds(&gcs, PROBE_TIMEOUT).await.then_some(gcs)
        };
        let (snapshot, gcs) = tokio::join!(Box::pin(self.dashboard.read(&self.client, &self.last)), probe);
        if is_due {
            self.gcs_failed = gcs.is_none().then(Instant::now);
            self.gcs = gcs.map(direct::Channel::new);
        }
        Ok(self.keep(snapshot?, false))
    }

    /// Reads the cluster once, as a basis for a decision.
    ///
    /// # Errors
    ///
    /// One of these parts could not be read: an empty list would be taken for a cluster without nodes or jobs, and data
    /// of the last refresh for current data.
    pub async fn refresh_all(&mut self, parts: &[SnapshotPart]) -> Result<Snapshot, RayError> {
        let snapshot = self.refresh().await?;
        match snapshot.lacks(parts) {
            Some(missing) => Err(RayError::Partial(missing.clone())),
            None => Ok(snapshot),
        }
    }

    /// Reads the cluster through the GCS; `None` when there is none, or after it has failed. A slow GCS is waited for
    /// as long as it responds to probes.
    async fn refresh_directly(&mut self) -> Result<Option<Snapshot>, RayError> {
        if self.gcs.is_none() && self.gcs_failed.is_none() {
            self.gcs = Gcs::of(&self.client)?.map(direct::Channel::new);
        }
        let Some(channel) = &mut self.gcs else { return Ok(None) };
        let gcs = channel.gcs().clone();
        let hangs = async {
            loop {
                tokio::time::sleep(SLOW_GCS).await;
                if !responds(&gcs, SLOW_GCS).await {
                    return;
                }
            }
        };
        tokio::select! {
            read = Box::pin(channel.read(&self.last)) => read.map(Some),
            () = hangs => Err(RayError::Grpc(format!("no response within {} s", (SLOW_GCS * 2).as_secs()))),
        }
    }

    fn keep(&mut self, mut snapshot: Snapshot, over_gcs: bool) -> Snapshot {
        if self.over_gcs != over_gcs {
            tracing::info!(over_gcs, "reading state from this channel");
        }
        self.over_gcs = over_gcs;
        snapshot.taken = Timestamp::now();
        self.last = snapshot.clone();
        snapshot
    }
}

/// Whether a GCS responds to a small request in time.
async fn responds(gcs: &Gcs, limit: Duration) -> bool {
    matches!(tokio::time::timeout(limit, gcs.version()).await, Ok(Ok(_)))
}
