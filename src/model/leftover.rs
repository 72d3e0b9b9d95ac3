//! Preempted TPUs and queued resources of a cluster that were not deleted: they hold quota and are not replaced.

use super::cloud::{CloudView, QueuedResource, QueuedState, TpuVm, VmState};
use super::{Hint, Text, Timestamp};
use crate::model::sort;
use std::collections::BTreeSet;

/// Kind of a resource that may be left over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftoverKind {
    /// A TPU VM that was preempted or terminated.
    TpuVm,
    /// A queued resource that contains only leftovers.
    QueuedResource,
    /// An instance of Compute Engine that was preempted.
    Instance,
    /// A managed instance group of Compute Engine (one slice) whose instances were all preempted.
    InstanceGroup,
}

impl LeftoverKind {
    /// The name of the kind in messages and the audit log.
    pub const fn label(self) -> &'static str {
        match self {
            Self::TpuVm => "TPU VM",
            Self::QueuedResource => "queued resource",
            Self::Instance => "instance",
            Self::InstanceGroup => "instance group",
        }
    }

    /// The name of the kind in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpuVm => "tpu vm",
            other => other.label(),
        }
    }
}

/// A Google Cloud resource of the cluster that is no longer used and can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Kind of the resource.
    pub kind: LeftoverKind,
    /// Name of the resource.
    pub name: Text,
    /// Accelerator type, e.g. `v4-32`.
    pub accelerator_type: Text,
    /// Number of chips; 0 for a queued resource, whose TPU VMs are counted instead.
    pub chips: u32,
    /// For a queued resource: its TPU VMs, which are also leftovers and must be deleted first.
    pub holds: Vec<Text>,
    /// When it was requested.
    pub created: Option<Timestamp>,
    /// Whether Google reports it, or a TPU VM of a queued resource, as terminated, not as preempted.
    pub is_terminated: bool,
}

impl Leftover {
    /// The label of its deletion in the audit log.
    pub fn audit_label(&self) -> String {
        format!("clean-preempted {} {}", self.kind.label(), self.name)
    }
}

/// Outcome of deleting one leftover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// Deleted; verified that it no longer exists.
    Deleted,
    /// It did not exist any more before the deletion.
    AlreadyGone,
    /// Skipped because it is no longer a leftover; the reason.
    Skipped(String),
    /// Not deleted, or it still exists afterwards.
    Failed {
        /// What failed and why.
        what: String,
        /// A hint for the operator.
        hint: Hint,
    },
}

impl Cleaned {
    /// Whether nothing remains to be done.
    pub const fn is_well(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }

    /// The outcome in words; `words` formats its hint.
    pub fn text(&self, hint_text: impl Fn(&Hint) -> String) -> String {
        match self {
            Self::Deleted => "deleted".into(),
            Self::AlreadyGone => "already gone".into(),
            Self::Skipped(why) => format!("skipped: {why}"),
            Self::Failed { what, hint } => format!("not deleted: {what}; {}", hint_text(hint)),
        }
    }
}

impl TpuVm {
    /// The kind of resource that it is.
    pub const fn kind(&self) -> LeftoverKind {
        match &self.compute {
            None => LeftoverKind::TpuVm,
            Some(compute) if compute.whole => LeftoverKind::InstanceGroup,
            Some(_) => LeftoverKind::Instance,
        }
    }

    /// Whether it is gone and belongs to this cluster by its label.
    pub fn is_leftover_of(&self, cluster: &str) -> bool {
        self.state.is_gone() && self.ray_cluster.as_ref().is_some_and(|l| l.raw() == cluster)
    }
}

impl QueuedResource {
    /// Whether the queued resource belongs to this cluster by its label and has no use once its TPU VMs are gone. A
    /// waiting or provisioning one does not count; a failed one is kept, because it shows the cause.
    pub fn is_leftover_of(&self, cluster: &str) -> bool {
        let over = matches!(self.state, QueuedState::Active | QueuedState::Suspended);
        over && self.ray_cluster.as_ref().is_some_and(|l| l.raw() == cluster)
    }
}

/// This cluster's leftovers: TPU VMs first, then the queued resources that contain only these, then resources created
/// with Compute Engine.
pub fn leftovers(cluster: &str, cloud: &CloudView) -> Vec<Leftover> {
    let vms: Vec<&TpuVm> = cloud.vms.iter().filter(|vm| vm.is_leftover_of(cluster)).collect();
    let names: BTreeSet<&str> = sort::collected(vms.iter().map(|vm| vm.name.raw()));
    let of_vm = |vm: &&TpuVm| Leftover {
        kind: vm.kind(),
        name: vm.name.clone(),
        accelerator_type: vm.accelerator_type.clone(),
        chips: vm.chips(),
        holds: Vec::new(),
        created: vm.created,
        is_terminated: vm.state == VmState::Terminated,
    };
    let of_request = |q: &QueuedResource| {
        let held: Vec<&TpuVm> = cloud.vms.iter().filter(|vm| q.has(vm)).collect();
        let inside: Vec<Text> = held.iter().map(|vm| vm.name.clone()).collect();
        let has_others = inside.iter().any(|vm| !names.contains(vm.raw()));
        // If no TPU VM of an active one is listed, it may be in a location that Google could not reach.
        if !q.is_leftover_of(cluster) || has_others || (inside.is_empty() && q.state == QueuedState::Active) {
            return None;
        }
        Some(Leftover {
            kind: LeftoverKind::QueuedResource,
            name: q.name.clone(),
            accelerator_type: q.accelerator_type.clone(),
            chips: 0,
            holds: inside,
            created: q.created,
            is_terminated: held.iter().any(|vm| vm.state == VmState::Terminated),
        })
    };
    let mut all: Vec<Leftover> = vms.iter().map(of_vm).collect();
    all.extend(cloud.queued.iter().filter_map(of_request));
    sort::by(&mut all, |a, b| (a.kind, a.name.raw()).cmp(&(b.kind, b.name.raw())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::{Capacity, ComputeTpu};

    fn vm(name: &str, state: VmState, cluster: Option<&str>, queued: Option<&str>) -> TpuVm {
        TpuVm {
            id: None,
            name: name.into(),
            accelerator_type: "v4-32".into(),
            state,
            api_state: "".into(),
            unhealthy: None,
            hosts: Vec::new(),
            external: Vec::new(),
            capacity: Capacity::Spot,
            queued_resource: queued.map(Text::new),
            created: None,
            started: None,
            ray_cluster: cluster.map(Text::new),
            ray_type: None,
            compute: None,
        }
    }

    fn request(name: &str, state: QueuedState, cluster: &str, nodes: &[&str]) -> QueuedResource {
        QueuedResource {
            name: name.into(),
            state,
            api_state: "".into(),
            error: None,
            accelerator_type: "v4-32".into(),
            nodes: nodes.iter().map(|n| Text::new(*n)).collect(),
            capacity: Capacity::Spot,
            created: None,
            ray_cluster: Some(cluster.into()),
        }
    }

    fn names(cluster: &str, vms: Vec<TpuVm>, queued: Vec<QueuedResource>) -> Vec<String> {
        let view = CloudView {
            vms,
            queued,
            complete: true,
            unlisted: None,
            queried: Timestamp::default(),
            heads: Vec::new(),
            resizes: Vec::new(),
        };
        let terminated = |l: &Leftover| if l.is_terminated { " terminated" } else { "" };
        leftovers(cluster, &view)
            .iter()
            .map(|l| format!("{} {} {}{}", l.kind.label(), l.name, l.chips, terminated(l)))
            .collect()
    }

    #[test]
    fn leftovers_are_gone_and_have_the_clusters_label() {
        let vms = vec![
            vm("taken", VmState::Preempted, Some("c"), None),
            vm("ended", VmState::Terminated, Some("c"), Some("q")),
            vm("works", VmState::Ready, Some("c"), None),
            vm("stopped", VmState::Stopped, Some("c"), None),
            vm("leaving", VmState::Deleting, Some("c"), None),
            vm("unheard-of", VmState::Unknown, Some("c"), None),
            vm("of-another", VmState::Preempted, Some("c2"), None),
            vm("of-nobody", VmState::Preempted, None, None),
        ];
        let queued = vec![request("q", QueuedState::Active, "c", &["ended"])];
        let expected = ["TPU VM ended 16 terminated", "TPU VM taken 16", "queued resource q 0 terminated"];
        assert_eq!(names("c", vms, queued), expected);
    }

    #[test]
    fn a_queued_resource_is_a_leftover_only_if_all_its_vms_are() {
        let vms = vec![
            vm("a", VmState::Preempted, Some("c"), Some("qa")),
            vm("b-0", VmState::Preempted, Some("c"), Some("qb")),
            vm("b-1", VmState::Ready, Some("c"), Some("qb")),
            vm("x", VmState::Preempted, Some("other"), Some("qx")),
            vm("d", VmState::Preempted, Some("c"), None),
        ];
        let queued = vec![
            request("qa", QueuedState::Active, "c", &["a"]),
            request("qb", QueuedState::Active, "c", &["b-0", "b-1"]),
            // Has this cluster's label, but contains another cluster's TPU VM.
            request("qx", QueuedState::Suspended, "c", &["x"]),
            request("qd", QueuedState::Provisioning, "c", &["d"]),
            request("empty", QueuedState::Suspended, "c", &["e-0", "e-1"]),
            request("unseen", QueuedState::Active, "c", &["u"]),
            request("waits", QueuedState::Waiting, "c", &["w"]),
            request("refused", QueuedState::Failed, "c", &["r"]),
            request("of-another", QueuedState::Suspended, "c2", &["y"]),
        ];
        let expected = [
            "TPU VM a 16",
            "TPU VM b-0 16",
            "TPU VM d 16",
            "queued resource empty 0",
            "queued resource qa 0",
        ];
        assert_eq!(names("c", vms, queued), expected);
    }

    #[test]
    fn compute_engine_resources_are_named_by_their_kind() {
        let of = |name: &str, state, compute: ComputeTpu| TpuVm {
            compute: Some(ComputeTpu { chips: 8, ..compute }),
            ..vm(name, state, Some("c"), None)
        };
        let group =
            || ComputeTpu { group: Some("zones/z/instanceGroupManagers/g".into()), ..ComputeTpu::default() };
        let vms = vec![
            of("alone", VmState::Preempted, ComputeTpu::default()),
            of("one-of-many", VmState::Preempted, group()),
            of("slice", VmState::Preempted, ComputeTpu { whole: true, ..group() }),
            of("stopped-by-hand", VmState::Stopped, ComputeTpu::default()),
            of("up", VmState::Ready, group()),
        ];
        // Belongs to another API, although its node has the same name.
        let queued = vec![request("q", QueuedState::Active, "c", &["alone"])];
        let expected = ["instance alone 8", "instance one-of-many 8", "instance group slice 8"];
        assert_eq!(names("c", vms, queued), expected);
    }
}
