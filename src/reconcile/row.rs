//! One machine of the table, as reported by Google and Ray together.

use crate::model::cloud::{Capacity, TpuHost};
use crate::model::{Hint, Text, Timestamp, Verb};
use std::time::Duration;

/// Time limit for all hosts of a machine to join Ray: TPU VMs start, pull an image of several gigabytes and start Ray
/// within about ten minutes.
pub const JOIN_TIME: Duration = Duration::from_secs(15 * 60);

/// Google's name for a request for more instances of a group.
pub(super) const RESIZE_REQUEST: &str = "resize request";

/// The status of a machine. Ordered by severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TpuStatus {
    /// Alive in Ray, but preempted or unknown in the cloud.
    Ghost,
    /// Some hosts have been missing for longer than [`JOIN_TIME`]: jobs on the slice wait forever.
    Incomplete,
    /// Up for longer than [`JOIN_TIME`], but Ray has no live node of it.
    NotInRay,
    /// Preempted and not deleted: it holds quota.
    HoldsQuota,
    /// Terminated by Google, e.g. for maintenance, and not deleted: it holds quota.
    Terminated,
    /// Preempted and not deleted; a stopped Compute Engine instance, or a group of those.
    Preempted,
    /// The request was refused; it exists until it is deleted.
    Refused,
    /// The TPU VM is stopped and can be started again.
    Stopped,
    /// In a state that this program does not know; the row has Google's name for it.
    Unknown,
    /// Being created, started or repaired for longer than [`READY_TIME`](crate::model::cloud::READY_TIME).
    Delayed,
    /// Starting, or its hosts are still joining.
    Joining,
    /// A request that waits for capacity.
    Waiting,
    /// Being deleted.
    Leaving,
    /// Up; Ray did not report whether its hosts have joined.
    Up,
    /// All its hosts are in Ray.
    Registered,
}

impl TpuStatus {
    /// The status in words, for the screen and JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ghost => "stale node",
            Self::Incomplete => "incomplete",
            Self::NotInRay => "not in Ray",
            Self::HoldsQuota => "preempted, holds quota",
            Self::Terminated => "terminated, holds quota",
            Self::Preempted => "preempted",
            Self::Refused => "refused",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown state",
            Self::Delayed => "delayed",
            Self::Joining => "joining",
            Self::Waiting => "waiting",
            Self::Leaving => "deleting",
            Self::Up => "up, Ray unknown",
            Self::Registered => "registered",
        }
    }

    /// How Google ended the machine, in one word; none if it did not.
    pub const fn ended(self) -> Option<&'static str> {
        match self {
            Self::HoldsQuota | Self::Preempted => Some("preempted"),
            Self::Terminated => Some("terminated"),
            _ => None,
        }
    }

    /// What to do about a machine of that name, or about several if it is empty; empty if nothing needs to be done.
    pub fn hint(self, machine: &str) -> Hint {
        match self {
            Self::Ghost => Hint::from("the autoscaler still counts it")
                .and(Verb::Restart.to("if it is not replaced, restart the cluster")),
            Self::Incomplete => Hint::from("check the missing host's log")
                .and(Verb::RemoveWorker.on(machine, "or delete the slice so that it is created again")),
            Self::NotInRay => Hint::from("check its startup log, or why its nodes died")
                .and(Verb::RemoveWorker.on(machine, "or delete it")),
            Self::HoldsQuota | Self::Preempted => Verb::CleanPreempted.to("delete the preempted TPUs").into(),
            Self::Terminated => Verb::CleanPreempted.to("delete the terminated TPUs").into(),
            Self::Refused => {
                Hint::from("read the reason").and(Verb::RemoveWorker.on(machine, "delete the request"))
            }
            Self::Stopped => {
                Hint::from("start it in Google Cloud").and(Verb::RemoveWorker.on(machine, "or delete it"))
            }
            Self::Unknown => Hint::from("see cloud.google.com/tpu/docs for this state"),
            Self::Delayed => Hint::from("see status.cloud.google.com for known outages")
                .and(Verb::RemoveWorker.on(machine, "or delete it")),
            Self::Joining | Self::Waiting | Self::Leaving | Self::Up | Self::Registered => Hint::none(),
        }
    }
}

/// Who manages a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManagedBy {
    /// Ray's autoscaler launched it.
    Autoscaler,
    /// It was added manually; no autoscaler replaces it.
    Manual,
}

impl ManagedBy {
    /// The manager in words, for the screen and JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Autoscaler => "autoscaler",
            Self::Manual => "manual",
        }
    }
}

/// A machine: a TPU VM, an instance or instance group with TPUs, a request for one, or Ray nodes without a machine at
/// Google.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The TPU VM's name; the address of a ghost that has none.
    pub name: Text,
    /// E.g. `v4-32`; empty if only Ray knows it.
    pub accelerator_type: Text,
    /// The number of its chips.
    pub chips: u32,
    /// The status of the machine.
    pub status: TpuStatus,
    /// Its resource type at Google (`tpu vm`, `queued resource`, `instance`, `instance group`, `resize request`);
    /// `None` for a ghost.
    pub resource: Option<&'static str>,
    /// Google's own name for its state, e.g. `REPAIRING`; `None` for a ghost that Google does not know.
    pub state: Option<Text>,
    /// Its node type in the cluster file, if known.
    pub ray_type: Option<Text>,
    /// The number of its hosts, and of those alive in Ray.
    pub hosts: (usize, usize),
    /// Its hosts, by worker number.
    pub logins: Vec<TpuHost>,
    /// Internal addresses of the hosts that are missing in Ray.
    pub missing: Vec<Text>,
    /// The kind of capacity that was requested; unknown for a ghost.
    pub capacity: Option<Capacity>,
    /// The manager of the machine.
    pub keeper: ManagedBy,
    /// The time of its request.
    pub created: Option<Timestamp>,
    /// Additional information from the cloud or Ray.
    pub note: Option<Text>,
}

impl Row {
    /// Whether it is a request for more instances of a group, which is not a machine and cannot be removed as one.
    pub fn is_resize_request(&self) -> bool {
        self.resource == Some(RESIZE_REQUEST)
    }

    /// What to do about it; empty if nothing needs to be done.
    pub fn hint(&self) -> Hint {
        if self.is_resize_request() && self.status == TpuStatus::Refused {
            return "read the reason; delete the request from its group in Google Cloud".into();
        }
        self.status.hint(self.name.raw())
    }
}
