//! TPU VMs whose creation, start or repair takes too long.

use super::cloud::{CloudView, VmState};
use super::{Text, Timestamp};
use std::collections::BTreeMap;

/// A TPU VM that is late ([`super::cloud::TpuVm::is_late`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayedTpu {
    /// Name of the TPU VM.
    pub name: Text,
    /// Its state as Google names it, e.g. `REPAIRING`.
    pub api_state: Text,
    /// When it was requested, or when that state was first seen.
    pub since: Timestamp,
}

/// When the TPU VMs of a cluster entered a state that precedes ready. Google reports this only for new TPU VMs; for a
/// repair, it is the time of the first response that contains it.
#[derive(Clone, Debug, Default)]
pub struct DelayedSince(BTreeMap<Text, (Text, Timestamp)>);

impl DelayedSince {
    /// Records a response from Google; returns the late TPU VMs of this cluster.
    pub fn update(&mut self, cluster: &str, view: &CloudView) -> Vec<DelayedTpu> {
        let mut before = std::mem::take(&mut self.0);
        let is_ours = |l: &Option<Text>| l.as_ref().is_some_and(|l| l.raw() == cluster);
        let coming = view.vms.iter().filter(|vm| vm.state == VmState::Starting && is_ours(&vm.ray_cluster));
        let mut late = Vec::new();
        for vm in coming {
            let known = before.remove(&vm.name).filter(|(state, _)| *state == vm.api_state);
            let since = vm.state_since().or(known.map(|(_, since)| since)).unwrap_or(view.queried);
            if vm.is_late(since, view.queried) {
                late.push(DelayedTpu { name: vm.name.clone(), api_state: vm.api_state.clone(), since });
            }
            self.0.insert(vm.name.clone(), (vm.api_state.clone(), since));
        }
        if !view.complete {
            // A TPU VM that Google could not list may still exist.
            before.retain(|name, _| !view.vms.iter().any(|vm| vm.name == *name));
            self.0.extend(before);
        }
        late
    }
}
