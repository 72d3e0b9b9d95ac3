//! The TPUs of a zone at Google: queried and stored once for all clusters in the zone.

use super::cloud::{ask_cloud, tpu_location};
use crate::gcp::Google;
use crate::model::cloud::CloudView;
use crate::model::{ClusterSpec, Problem};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// The zones that were queried, by project and name.
#[derive(Clone, Debug, Default)]
pub struct Zones(Arc<Mutex<HashMap<(String, String), Zone>>>);

/// The time and the answer of the last query. Requests during a query wait for its answer.
type Zone = Arc<tokio::sync::Mutex<Option<(Instant, Answer)>>>;
type Answer = Result<Arc<CloudView>, Problem>;

impl Zones {
    /// Everything in the cluster's zone according to an answer from Google at `since` or later: one for another
    /// cluster, or a new one.
    pub async fn view(&self, spec: &ClusterSpec, google: &Google, since: Instant) -> Answer {
        let location = tpu_location(spec)?;
        let zone = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry((location.project, location.zone)).or_default().clone()
        };
        let mut last = zone.lock().await;
        if let Some((_, answer)) = last.as_ref().filter(|(queried, _)| *queried >= since) {
            return answer.clone();
        }
        let queried = Instant::now();
        let answer = ask_cloud(spec, google).await.map(Arc::new);
        *last = Some((queried, answer.clone()));
        answer
    }
}
