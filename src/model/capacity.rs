//! Types of TPU capacity, and states of a request for TPUs.

/// Type of capacity with which a TPU was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// On demand; kept until deleted.
    OnDemand,
    /// Preemptible; preempted after 24 hours at the latest.
    Preemptible,
    /// Spot: preemptible at any time.
    Spot,
    /// Best effort: unused capacity (API v2alpha1).
    BestEffort,
    /// Capacity of a reservation.
    Reserved,
    /// Provisioned as soon as there is capacity, for at most seven days (Compute Engine).
    FlexStart,
}

impl Capacity {
    /// The type as shown on the screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::OnDemand => "on demand",
            Self::Preemptible => "preemptible",
            Self::Spot => "spot",
            Self::BestEffort => "best effort",
            Self::Reserved => "reserved",
            Self::FlexStart => "flex-start",
        }
    }
}

/// State of a queued resource (`QueuedResource.state.state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueuedState {
    /// Requested; waits for capacity.
    Waiting,
    /// The TPU VMs are being created.
    Provisioning,
    /// Its TPU VMs have been created.
    Active,
    /// Its TPU VMs were preempted and will not be recreated.
    Suspended,
    /// Failed; kept until it is deleted.
    Failed,
    /// The queued resource is being deleted.
    Deleting,
    /// A state that this version does not know.
    Unknown,
}

impl QueuedState {
    /// Parses a state of the queued resources API.
    pub fn from_api(word: &str) -> Self {
        match word {
            "CREATING" | "ACCEPTED" | "WAITING_FOR_RESOURCES" => Self::Waiting,
            "PROVISIONING" => Self::Provisioning,
            "ACTIVE" => Self::Active,
            "SUSPENDING" | "SUSPENDED" => Self::Suspended,
            "FAILED" => Self::Failed,
            "DELETING" => Self::Deleting,
            _ => Self::Unknown,
        }
    }

    /// The state as shown on the screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Provisioning => "provisioning",
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Failed => "refused",
            Self::Deleting => "deleting",
            Self::Unknown => "in an unknown state",
        }
    }
}
