//! What Google Cloud says of a cluster's TPUs. Terms and states: Cloud TPU API v2, `nodes` and `queuedResources`; Compute
//! Engine v1, `instances` and `instanceGroupManagers`, for TPUs that are made with it.

pub use super::capacity::{Capacity, QueuedState};
use super::{ResizeRequest, RunningHead, Text, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long Google may take to create, start or repair a TPU VM. Large slices take longer than small ones.
pub const READY_TIME: Duration = Duration::from_secs(30 * 60);

/// State of a TPU VM (`Node.state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VmState {
    /// Asked for; waits for capacity (Compute Engine, which has the machine or its group before that).
    Waiting,
    /// Coming: being created, started, restarted, reimaged or repaired.
    Coming,
    /// The VM is up.
    Ready,
    /// The VM is stopped or stopping.
    Stopped,
    /// Preempted by Google. It was not deleted, so it holds quota.
    Preempted,
    /// Terminated by Google; it holds quota, too.
    Terminated,
    /// The VM is being deleted.
    Deleting,
    /// A state that is not known here.
    Unknown,
}

impl VmState {
    /// Parses a state of the TPU API.
    pub fn from_api(word: &str) -> Self {
        match word {
            "CREATING" | "STARTING" | "RESTARTING" | "REIMAGING" | "REPAIRING" => Self::Coming,
            "READY" => Self::Ready,
            "STOPPED" | "STOPPING" => Self::Stopped,
            "PREEMPTED" => Self::Preempted,
            "TERMINATED" => Self::Terminated,
            "DELETING" => Self::Deleting,
            _ => Self::Unknown,
        }
    }

    /// Parses a state of Compute Engine (`Instance.status`). `is_spot`: Google may take it at any time. A spot TPU that
    /// has stopped cannot be started again, whoever stopped it (docs.cloud.google.com/tpu/docs/spot-compute).
    pub fn from_instance(word: &str, is_spot: bool) -> Self {
        match word {
            "PENDING" => Self::Waiting,
            "PROVISIONING" | "STAGING" | "REPAIRING" => Self::Coming,
            "RUNNING" => Self::Ready,
            "STOPPED" | "TERMINATED" if is_spot => Self::Preempted,
            "STOPPING" | "PENDING_STOP" | "STOPPED" | "TERMINATED" | "SUSPENDING" | "SUSPENDED" => {
                Self::Stopped
            }
            "DEPROVISIONING" => Self::Deleting,
            _ => Self::Unknown,
        }
    }

    /// Taken away or ended, and not deleted.
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Preempted | Self::Terminated)
    }

    /// The word on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Coming => "starting",
            Self::Ready => "ready",
            Self::Stopped => "stopped",
            Self::Preempted => "preempted",
            Self::Terminated => "terminated",
            Self::Deleting => "deleting",
            Self::Unknown => "in an unknown state",
        }
    }
}

/// What a TPU is that was made with Compute Engine: a single instance, or a managed instance group whose instances are
/// the hosts of one slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComputeTpu {
    /// Its managed instance group below the project, e.g. `zones/us-central1-c/instanceGroupManagers/a`; none for an
    /// instance that a person or Ray's autoscaler made.
    pub group: Option<String>,
    /// Whether it is the whole group. Otherwise it is one of its instances, each of which is a slice of one host.
    pub whole: bool,
    /// The numbers that Google gave its instances.
    pub instances: Vec<String>,
    /// The number of its chips.
    pub chips: u32,
}

/// A TPU VM: one host, or a slice of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpuVm {
    /// The number that Google gave it and gives no other TPU VM; none where it named none.
    pub id: Option<Text>,
    /// Name of the TPU VM.
    pub name: Text,
    /// Accelerator type, e.g. `v4-32`.
    pub accelerator_type: Text,
    /// State of the TPU VM.
    pub state: VmState,
    /// The same in Google's own word, e.g. `REPAIRING`; empty when it gave none.
    pub api_state: Text,
    /// What is wrong with it, when its health is not `HEALTHY`.
    pub unhealthy: Option<Text>,
    /// Internal address of each host, by worker number; empty before it is up.
    pub hosts: Vec<Text>,
    /// Address of each in the Internet, in the same order; none of a host without.
    pub external: Vec<Option<Text>>,
    /// How it was asked for.
    pub capacity: Capacity,
    /// The queued resource that it came from.
    pub queued_resource: Option<Text>,
    /// When it was asked for.
    pub created: Option<Timestamp>,
    /// Value of the label `ray-cluster-name`.
    pub ray_cluster: Option<Text>,
    /// Label `ray-user-node-type`: the node type in the cluster's YAML.
    pub ray_type: Option<Text>,
    /// What it is at Compute Engine; none for a node of Cloud TPU.
    pub compute: Option<ComputeTpu>,
}

/// A host of a TPU VM, to log in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpuHost {
    /// The TPU VM; empty when Google does not know the host.
    pub vm: Text,
    /// Number of the worker in the slice, from 0.
    pub worker: usize,
    /// Address inside its network, or a host name.
    pub internal: Text,
    /// External IP address, if any.
    pub external: Option<Text>,
}

impl TpuHost {
    /// A host of which only the address or the name is known.
    pub fn at(address: &str) -> Self {
        Self { vm: Text::new(""), worker: 0, internal: Text::new(address), external: None }
    }
}

/// Google's word for a state that has none here.
fn state_words(word: &'static str, is_known: bool, api_state: &Text) -> String {
    if is_known || api_state.is_empty() { word.to_owned() } else { api_state.to_string() }
}

impl QueuedResource {
    /// Its state in words, safe to print: Google's own where it is not known here.
    pub fn state_words(&self) -> String {
        state_words(self.state.word(), self.state != QueuedState::Unknown, &self.api_state)
    }
}

impl TpuVm {
    /// The number of its chips; 0 when its type is not known.
    pub fn chips(&self) -> u32 {
        self.compute.as_ref().map_or_else(|| chips(self.accelerator_type.raw()).unwrap_or(0), |c| c.chips)
    }

    /// What it is at Google, in Google's words.
    pub fn kind(&self) -> &'static str {
        match &self.compute {
            None => "tpu vm",
            Some(compute) if compute.whole => "instance group",
            Some(_) => "instance",
        }
    }

    /// Its state in words, safe to print: Google's own where it is not known here.
    pub fn state_words(&self) -> String {
        state_words(self.state.word(), self.state != VmState::Unknown, &self.api_state)
    }

    /// Whether it is on its way in that state, and not ready for longer than any takes ([`READY_TIME`]).
    pub fn is_late(&self, since: Timestamp, now: Timestamp) -> bool {
        self.state == VmState::Coming && since.age(now) > READY_TIME
    }

    /// Since when it is in its state; none where Google does not say so, as of a repair.
    pub fn state_since(&self) -> Option<Timestamp> {
        self.created.filter(|_| self.api_state.raw() == "CREATING")
    }

    /// Its hosts, by worker number.
    pub fn logins(&self) -> impl Iterator<Item = TpuHost> {
        self.hosts.iter().enumerate().map(|(worker, internal)| TpuHost {
            vm: self.name.clone(),
            worker,
            internal: internal.clone(),
            external: self.external.get(worker).cloned().flatten(),
        })
    }
}

/// A request for TPU VMs that Google keeps until there is capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedResource {
    /// Name of the queued resource.
    pub name: Text,
    /// State of the queued resource.
    pub state: QueuedState,
    /// The same in Google's own word, e.g. `WAITING_FOR_RESOURCES`; empty when it gave none.
    pub api_state: Text,
    /// The error that made the request fail.
    pub error: Option<Text>,
    /// Accelerator type, e.g. `v4-128`.
    pub accelerator_type: Text,
    /// Names of its TPU VMs, whether they exist or not.
    pub nodes: Vec<Text>,
    /// How it was asked for.
    pub capacity: Capacity,
    /// When it was asked for.
    pub created: Option<Timestamp>,
    /// Label `ray-cluster-name` of its nodes.
    pub ray_cluster: Option<Text>,
}

/// The TPU VMs and queued resources of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudView {
    /// All TPU VMs of the zone.
    pub vms: Vec<TpuVm>,
    /// All queued resources of the zone.
    pub queued: Vec<QueuedResource>,
    /// Resize requests of the zone's managed instance groups with TPUs that are open or failed; those of a group without an
    /// instance are told with the group.
    pub resizes: Vec<ResizeRequest>,
    /// Running machines of the zone that are labelled as heads, of all clusters; none where they cannot be listed.
    pub heads: Vec<RunningHead>,
    /// Whether Google listed all; it names places that it could not reach.
    pub complete: bool,
    /// Why the TPUs that were made with Compute Engine are missing here, if they are.
    pub unlisted: Option<Text>,
    /// Time of the query.
    pub asked: Timestamp,
}

impl CloudView {
    /// Whether nothing can be missing here.
    pub fn is_whole(&self) -> bool {
        self.complete && self.unlisted.is_none()
    }

    /// The hosts with that internal or external address, each with its TPU VM. Living ones come first: one that was
    /// taken away may still be listed with an address that another has now.
    pub fn at(&self, address: &str) -> Vec<(&TpuVm, TpuHost)> {
        let is_it = |h: &TpuHost| {
            h.internal.raw() == address || h.external.as_ref().is_some_and(|e| e.raw() == address)
        };
        let of = |vm| TpuVm::logins(vm).filter(is_it).map(move |host| (vm, host));
        let mut found: Vec<(&TpuVm, TpuHost)> = self.vms.iter().flat_map(of).collect();
        found.sort_by_key(|(vm, _)| vm.state.is_gone() || vm.state == VmState::Deleting);
        found
    }
}

/// Chips of an accelerator type: the number in it counts `TensorCores` up to v4, for v5p and for `TPU7x`, chips for
/// v5e and v6e (cloud.google.com/tpu/docs, "TPU architecture"). `None` when it is no accelerator type.
pub fn chips(accelerator_type: &str) -> Option<u32> {
    let (generation, size) = accelerator_type.rsplit_once('-')?;
    let size: u32 = size.parse().ok()?;
    match generation {
        "v2" | "v3" | "v4" | "v5p" | "tpu7x" => Some(size / 2),
        "v5litepod" | "v5e" | "v6e" => Some(size),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_by_generation() {
        let cases = [("v4-8", 4), ("v5p-64", 32), ("v5litepod-16", 16), ("v6e-8", 8), ("v3-32", 16)];
        assert!(cases.iter().all(|(t, n)| chips(t) == Some(*n)));
        assert_eq!((chips("n2-standard-8"), chips("v4"), chips("v4-x")), (None, None, None));
    }
}
