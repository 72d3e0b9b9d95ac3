//! Resize requests of managed instance groups: Compute Engine's queue, as queued resources are Cloud TPU's.

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
    /// Its state, in the words of a queued resource.
    pub state: QueuedState,
    /// The same in Google's own word, e.g. `ACCEPTED`.
    pub api_state: Text,
    /// Why it failed, or why Google's last attempt did.
    pub error: Option<Text>,
    /// How many instances it is for.
    pub size: usize,
    /// The TPU that one of its instances is, e.g. `v6e-4`.
    pub accelerator_type: Text,
    /// Chips of all its instances.
    pub chips: u32,
    /// How its group asks for them.
    pub capacity: Capacity,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Label `ray-cluster-name` of the group's instances.
    pub ray_cluster: Option<Text>,
    /// Label `ray-user-node-type` of the group's instances.
    pub ray_type: Option<Text>,
}

impl ResizeRequest {
    /// The state for Google's word. One that has succeeded or was cancelled is over: its instances are seen by
    /// themselves, or there are none.
    pub fn state_of(word: &str) -> Option<QueuedState> {
        match word {
            "SUCCEEDED" | "CANCELLED" => None,
            // Queued until there is capacity.
            "ACCEPTED" => Some(QueuedState::Waiting),
            // Taken in, and not yet queued.
            "CREATING" => Some(QueuedState::Provisioning),
            "FAILED" => Some(QueuedState::Failed),
            _ => Some(QueuedState::Unknown),
        }
    }

    /// What it is for and why it is not met, in a line.
    pub fn words(&self) -> String {
        let s = if self.size == 1 { "" } else { "s" };
        let why = self.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        format!("resize request {} for {} instance{s} is {}{why}", self.name, self.size, self.api_state)
    }
}
