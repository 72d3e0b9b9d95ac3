//! How TPUs are asked for, and what becomes of a request for them.

/// How a TPU was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// Billed on demand, kept until deleted.
    OnDemand,
    /// Preemptible, after a day at the latest.
    Preemptible,
    /// Spot: preemptible at any time.
    Spot,
    /// What is left over (API v2alpha1).
    BestEffort,
    /// Capacity of a reservation.
    Reserved,
    /// As soon as there is capacity, for seven days at most (Compute Engine).
    FlexStart,
}

impl Capacity {
    /// The word on the screen.
    pub const fn word(self) -> &'static str {
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
    /// Asked for; waits for capacity.
    Waiting,
    /// The TPU VMs are being created.
    Provisioning,
    /// Its TPU VMs are there.
    Active,
    /// Its TPU VMs were taken away and do not come back.
    Suspended,
    /// Refused; stays until it is deleted.
    Failed,
    /// The queued resource is being deleted.
    Deleting,
    /// A state that is not known here.
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

    /// The word on the screen.
    pub const fn word(self) -> &'static str {
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
