//! Sends events of a cluster's tasks to the front end, and defines whether a task polls.

use crate::model::{ClusterEvent, ClusterName, ClusterSpec, Timestamp};
use crate::state::{ClusterState, Update};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};

/// Sends the events of one cluster to the front end, each with the new state. Waits if the front end is slow; that
/// delays only this cluster's tasks.
#[derive(Clone)]
pub struct UpdateSender {
    spec: Arc<ClusterSpec>,
    /// The channel to the front end, shared by all clusters.
    updates: mpsc::Sender<Update>,
    /// The state that was sent last. Separate tasks read Ray, Google and locks; each holds this lock until its event is
    /// sent, so that states arrive in the order in which they were produced.
    state: Arc<Mutex<Arc<ClusterState>>>,
}

impl UpdateSender {
    /// The cluster of the events.
    pub fn cluster(&self) -> &ClusterName {
        &self.spec.name
    }

    /// Creates a sender for a cluster whose state is not known yet.
    pub fn new(spec: ClusterSpec, updates: mpsc::Sender<Update>) -> Self {
        let spec = Arc::new(spec);
        let state = Arc::new(ClusterState::new(Arc::clone(&spec)));
        Self { spec, updates, state: Arc::new(Mutex::new(state)) }
    }

    /// Sends an event. Ignores a front end that is gone.
    pub async fn send(&self, event: ClusterEvent) {
        let mut state = self.state.lock().await;
        if ClusterState::concerns(&event) {
            Arc::make_mut(&mut state).apply(&event);
        }
        let update = Update { cluster: self.spec.name.clone(), event, state: Arc::clone(&state) };
        let _ = self.updates.send(update).await;
    }

    /// Records whether an operation of this machine is stopping or starting the cluster.
    pub async fn operated(&self, is_at_work: bool) {
        Arc::make_mut(&mut *self.state.lock().await).apply_operation(is_at_work, Timestamp::now());
    }
}

/// Whether a task polls its cluster's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// At intervals, for a screen.
    Polling,
    /// No polling: a command requests what it needs.
    OnDemand,
}
