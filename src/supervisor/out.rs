//! What a cluster's task sends to the front end, and how often it reads for it.

use crate::model::{ClusterName, News, Update};
use tokio::sync::mpsc;

/// News of one cluster on their way to the front end. Waits when the front end is behind: that slows this cluster's
/// task and nothing else.
#[derive(Clone)]
pub struct Out {
    /// The cluster that the news are about.
    pub cluster: ClusterName,
    /// The channel to the front end, shared by all clusters.
    pub updates: mpsc::Sender<Update>,
}

impl Out {
    /// Sends. A front end that is gone needs no news.
    pub async fn send(&self, news: News) {
        let _ = self.updates.send(Update { cluster: self.cluster.clone(), news }).await;
    }
}

/// How often a task reads its cluster's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At intervals, for a screen.
    Polling,
    /// Never: it works for one command, which asks what it needs.
    Asked,
}
