//! Resize requests of managed instance groups: Compute Engine's counterpart to the queued resources of Cloud TPU.

use super::{Capacity, QueuedState, Text, Timestamp};

/// A request of a managed instance group for more TPU instances, which Google keeps until there is capacity (Compute
/// Engine v1, `InstanceGroupManagerResizeRequest`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeRequest {
    /// Name of the request.
    pub name: Text,
    /// Name of its group.
    pub group: Text,
    /// Zone of its group.
    pub zone: Text,
    /// Its state, as the corresponding state of a queued resource.
    pub state: QueuedState,
    /// The state as Google names it, e.g. `ACCEPTED`.
    pub api_state: Text,
    /// Why it failed, or why Google's last attempt failed.
    pub error: Option<Text>,
    /// Number of requested instances.
    pub size: usize,
    /// Accelerator type of one instance, e.g. `v6e-4`.
    pub accelerator_type: Text,
    /// Number of chips of all its instances.
    pub chips: u32,
    /// Type of capacity that its group requests.
    pub capacity: Capacity,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Label `ray-cluster-name` of the group's instances.
    pub ray_cluster: Option<Text>,
    /// Label `ray-user-node-type` of the group's instances.
    pub ray_type: Option<Text>,
}

impl ResizeRequest {
    /// The state for Google's state name. None for a request that succeeded, whose instances are listed separately, or
    /// was cancelled.
    pub fn state_of(word: &str) -> Option<QueuedState> {
        match word {
            "SUCCEEDED" | "CANCELLED" => None,
            // Queued until there is capacity.
            "ACCEPTED" => Some(QueuedState::Waiting),
            // Accepted by the API, and not yet queued.
            "CREATING" => Some(QueuedState::Provisioning),
            "FAILED" => Some(QueuedState::Failed),
            _ => Some(QueuedState::Unknown),
        }
    }

    /// The request, its state and its error, in one line.
    pub fn text(&self) -> String {
        let s = if self.size == 1 { "" } else { "s" };
        let why = self.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        format!("resize request {} for {} instance{s} is {}{why}", self.name, self.size, self.api_state)
    }
}
