//! A cluster's TPUs as reported by Google Cloud. Terms and states: Cloud TPU API v2, `nodes` and `queuedResources`;
//! Compute Engine v1, `instances` and `instanceGroupManagers`, for TPUs that are created with it.

pub use super::capacity::{Capacity, QueuedState};
use super::{Node, ResizeRequest, RunningHead, Text, Timestamp};
use crate::model::sort;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long Google may take to create, start or repair a TPU VM. Large slices take longer than small ones.
pub const READY_TIME: Duration = Duration::from_secs(30 * 60);

/// State of a TPU VM (`Node.state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VmState {
    /// Requested; waits for capacity (Compute Engine, where the instance or its group exists before that).
    Waiting,
    /// Being created, started, restarted, reimaged or repaired.
    Starting,
    /// The VM is up.
    Ready,
    /// The VM is stopped or stopping.
    Stopped,
    /// Preempted by Google. It was not deleted, so it holds quota.
    Preempted,
    /// Terminated by Google; it also holds quota.
    Terminated,
    /// The VM is being deleted.
    Deleting,
    /// A state that this version does not know.
    Unknown,
}

impl VmState {
    /// Parses a state of the TPU API.
    pub fn from_api(word: &str) -> Self {
        match word {
            "CREATING" | "STARTING" | "RESTARTING" | "REIMAGING" | "REPAIRING" => Self::Starting,
            "READY" => Self::Ready,
            "STOPPED" | "STOPPING" => Self::Stopped,
            "PREEMPTED" => Self::Preempted,
            "TERMINATED" => Self::Terminated,
            "DELETING" => Self::Deleting,
            _ => Self::Unknown,
        }
    }

    /// Parses a state of Compute Engine (`Instance.status`). `is_spot`: Google may preempt it at any time. A stopped
    /// spot TPU cannot be started again, whoever stopped it (docs.cloud.google.com/tpu/docs/spot-compute).
    pub fn from_instance(word: &str, is_spot: bool) -> Self {
        match word {
            "PENDING" => Self::Waiting,
            "PROVISIONING" | "STAGING" | "REPAIRING" => Self::Starting,
            "RUNNING" => Self::Ready,
            "STOPPED" | "TERMINATED" if is_spot => Self::Preempted,
            "STOPPING" | "PENDING_STOP" | "STOPPED" | "TERMINATED" | "SUSPENDING" | "SUSPENDED" => {
                Self::Stopped
            }
            "DEPROVISIONING" => Self::Deleting,
            _ => Self::Unknown,
        }
    }

    /// Whether it was preempted or terminated, but not deleted.
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Preempted | Self::Terminated)
    }

    /// The state as shown on the screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopped => "stopped",
            Self::Preempted => "preempted",
            Self::Terminated => "terminated",
            Self::Deleting => "deleting",
            Self::Unknown => "in an unknown state",
        }
    }
}

/// A TPU created with Compute Engine: a single instance, or a managed instance group whose instances are the hosts of
/// one slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComputeTpu {
    /// Path of its managed instance group below the project, e.g. `zones/us-central1-c/instanceGroupManagers/a`; none
    /// for an instance that was created manually or by Ray's autoscaler.
    pub group: Option<String>,
    /// Whether it is the whole group. Otherwise it is one instance, and each instance is a slice of one host.
    pub whole: bool,
    /// Ids that Google assigned to its instances.
    pub instances: Vec<String>,
    /// Number of chips.
    pub chips: u32,
}

/// A TPU VM: one host, or a slice of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpuVm {
    /// Unique id that Google assigned to it; none if not reported.
    pub id: Option<Text>,
    /// Name of the TPU VM.
    pub name: Text,
    /// Accelerator type, e.g. `v4-32`.
    pub accelerator_type: Text,
    /// State of the TPU VM.
    pub state: VmState,
    /// The state as Google names it, e.g. `REPAIRING`; empty if not reported.
    pub api_state: Text,
    /// The problem, if its health is not `HEALTHY`.
    pub unhealthy: Option<Text>,
    /// Internal address of each host, by worker number; empty before it is up.
    pub hosts: Vec<Text>,
    /// External address of each host, in the same order; none for a host without one.
    pub external: Vec<Option<Text>>,
    /// Type of capacity that was requested.
    pub capacity: Capacity,
    /// The queued resource that created it.
    pub queued_resource: Option<Text>,
    /// When it was requested.
    pub created: Option<Timestamp>,
    /// When the last of its instances started, which may be long after the request; none for a node of Cloud TPU.
    pub started: Option<Timestamp>,
    /// Value of the label `ray-cluster-name`.
    pub ray_cluster: Option<Text>,
    /// Label `ray-user-node-type`: the node type in the cluster's YAML.
    pub ray_type: Option<Text>,
    /// The Compute Engine resource; none for a node of Cloud TPU.
    pub compute: Option<ComputeTpu>,
}

/// A host of a TPU VM, to log in to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TpuHost {
    /// The TPU VM; empty when Google does not know the host.
    pub vm: Text,
    /// Its hostname; empty when Ray does not report it.
    pub hostname: Text,
    /// Number of the worker in the slice, from 0.
    pub worker: usize,
    /// Address inside its network, or a host name.
    pub internal: Text,
    /// External IP address, if any.
    pub external: Option<Text>,
}

impl TpuHost {
    /// A host for which only the address or name is known.
    pub fn at(address: &str) -> Self {
        let (vm, hostname) = (Text::new(""), Text::new(""));
        Self { vm, hostname, worker: 0, internal: Text::new(address), external: None }
    }

    /// The host of a node.
    pub fn of(node: &Node) -> Self {
        Self { hostname: node.hostname.clone(), ..Self::at(node.address.raw()) }
    }
}

/// `word` for a known state, else Google's name of the state.
fn state_label(word: &'static str, is_known: bool, api_state: &Text) -> String {
    if is_known || api_state.is_empty() { word.to_owned() } else { api_state.to_string() }
}

impl QueuedResource {
    /// Whether that TPU VM was created for this request. A Compute Engine TPU of the same name was not.
    pub fn has(&self, vm: &TpuVm) -> bool {
        vm.compute.is_none()
            && (vm.queued_resource.as_ref() == Some(&self.name) || self.nodes.contains(&vm.name))
    }

    /// Its state in words, safe to print; Google's name of it if this version does not know the state.
    pub fn state_label(&self) -> String {
        state_label(self.state.label(), self.state != QueuedState::Unknown, &self.api_state)
    }
}

impl TpuVm {
    /// Number of chips; 0 if its type is unknown.
    pub fn chips(&self) -> u32 {
        self.compute.as_ref().map_or_else(|| chips(self.accelerator_type.raw()).unwrap_or(0), |c| c.chips)
    }

    /// Its state in words, safe to print; Google's name of it if this version does not know the state.
    pub fn state_label(&self) -> String {
        state_label(self.state.label(), self.state != VmState::Unknown, &self.api_state)
    }

    /// Whether it has been in [`VmState::Starting`] for longer than [`READY_TIME`].
    pub fn is_late(&self, since: Timestamp, now: Timestamp) -> bool {
        self.state == VmState::Starting && since.age(now) > READY_TIME
    }

    /// When it entered its state; none if Google does not report it, e.g. for a repair.
    pub fn state_since(&self) -> Option<Timestamp> {
        self.created.filter(|_| self.api_state.raw() == "CREATING")
    }

    /// Its hosts, by worker number.
    pub fn logins(&self) -> impl Iterator<Item = TpuHost> {
        self.hosts.iter().enumerate().map(|(worker, internal)| TpuHost {
            vm: self.name.clone(),
            hostname: Text::new(""),
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
    /// The state as Google names it, e.g. `WAITING_FOR_RESOURCES`; empty if not reported.
    pub api_state: Text,
    /// Why the request failed.
    pub error: Option<Text>,
    /// Accelerator type, e.g. `v4-128`.
    pub accelerator_type: Text,
    /// Names of its TPU VMs, including ones that do not exist.
    pub nodes: Vec<Text>,
    /// Type of capacity that was requested.
    pub capacity: Capacity,
    /// When it was requested.
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
    /// Open or failed resize requests of the zone's managed instance groups with TPUs. Requests of a group without
    /// instances are reported with the group.
    pub resizes: Vec<ResizeRequest>,
    /// Running machines of the zone that are labeled as heads, of all clusters; empty if they cannot be listed.
    pub heads: Vec<RunningHead>,
    /// Whether Google's list is complete: Google reports locations that it could not reach.
    pub complete: bool,
    /// Why TPUs created with Compute Engine or resize requests are missing here, if any are.
    pub unlisted: Option<Text>,
    /// Time of the query.
    pub queried: Timestamp,
}

impl CloudView {
    /// Whether the view is complete.
    pub fn is_whole(&self) -> bool {
        self.complete && self.unlisted.is_none()
    }

    /// The hosts with this internal or external address, each with its TPU VM. Existing TPU VMs come first: a preempted
    /// one may still be listed with an address that another one has now.
    pub fn at(&self, address: &str) -> Vec<(&TpuVm, TpuHost)> {
        let is_it = |h: &TpuHost| {
            h.internal.raw() == address || h.external.as_ref().is_some_and(|e| e.raw() == address)
        };
        let of = |vm| TpuVm::logins(vm).filter(is_it).map(move |host| (vm, host));
        let mut found: Vec<(&TpuVm, TpuHost)> = self.vms.iter().flat_map(of).collect();
        sort::by_key(&mut found, |(vm, _)| vm.state.is_gone() || vm.state == VmState::Deleting);
        found
    }
}

/// Number of chips of an accelerator type: its number counts `TensorCores` up to v4, for v5p and for `TPU7x`, and chips
/// for v5e and v6e (cloud.google.com/tpu/docs, "TPU architecture"). `None` if it is not an accelerator type.
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
