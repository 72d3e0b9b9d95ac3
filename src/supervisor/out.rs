//! What a cluster's tasks send to the front end, and how often they read for it.

use crate::model::{ClusterName, ClusterSpec, News, Timestamp};
use crate::state::{ClusterState, Update};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};

/// News of one cluster on their way to the front end, each with the state that it makes. Waits when the front end is
/// behind: that slows this cluster's tasks and nothing else.
#[derive(Clone)]
pub struct UpdateSender {
    spec: Arc<ClusterSpec>,
    /// The channel to the front end, shared by all clusters.
    updates: mpsc::Sender<Update>,
    /// The state that was sent last. Ray, Google and marks are read by tasks of their own: whoever has news holds it
    /// until they are sent, so that states arrive in the order in which they were made.
    state: Arc<Mutex<Arc<ClusterState>>>,
}

impl UpdateSender {
    /// The cluster that the news are about.
    pub fn cluster(&self) -> &ClusterName {
        &self.spec.name
    }

    /// For a cluster of which nothing is known yet.
    pub fn new(spec: ClusterSpec, updates: mpsc::Sender<Update>) -> Self {
        let spec = Arc::new(spec);
        let state = Arc::new(ClusterState::new(Arc::clone(&spec)));
        Self { spec, updates, state: Arc::new(Mutex::new(state)) }
    }

    /// Sends. A front end that is gone needs no news.
    pub async fn send(&self, news: News) {
        let mut state = self.state.lock().await;
        if ClusterState::concerns(&news) {
            Arc::make_mut(&mut state).learn(&news);
        }
        let update = Update { cluster: self.spec.name.clone(), news, state: Arc::clone(&state) };
        let _ = self.updates.send(update).await;
    }

    /// Learns whether an operation of this machine stops or starts the cluster now.
    pub async fn operated(&self, is_at_work: bool) {
        Arc::make_mut(&mut *self.state.lock().await).learn_operation(is_at_work, Timestamp::now());
    }
}

/// How often a task reads its cluster's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// At intervals, for a screen.
    Polling,
    /// Never: it works for one command, which asks what it needs.
    Asked,
}
