//! TPU VMs that Google creates, starts or repairs for longer than that takes.

use super::cloud::{CloudView, VmState};
use super::{Text, Timestamp};
use std::collections::BTreeMap;

/// One that is late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayedTpu {
    /// Name of the TPU VM.
    pub name: Text,
    /// Google's word for what it does with it.
    pub api_state: Text,
    /// Since when: when it was requested, or when that state was first seen.
    pub since: Timestamp,
}

/// Since when TPU VMs of a cluster are on their way. Google says that of new ones alone; of a repair the first answer that
/// has it counts.
#[derive(Clone, Debug, Default)]
pub struct DelayedSince(BTreeMap<Text, (Text, Timestamp)>);

impl DelayedSince {
    /// Learns an answer of Google's; returns those of that cluster that are late.
    pub fn learn(&mut self, cluster: &str, view: &CloudView) -> Vec<DelayedTpu> {
        let mut before = std::mem::take(&mut self.0);
        let is_ours = |l: &Option<Text>| l.as_ref().is_some_and(|l| l.raw() == cluster);
        let coming = view.vms.iter().filter(|vm| vm.state == VmState::Coming && is_ours(&vm.ray_cluster));
        let mut late = Vec::new();
        for vm in coming {
            let known = before.remove(&vm.name).filter(|(state, _)| *state == vm.api_state);
            let since = vm.state_since().or(known.map(|(_, since)| since)).unwrap_or(view.asked);
            if vm.is_late(since, view.asked) {
                late.push(DelayedTpu { name: vm.name.clone(), api_state: vm.api_state.clone(), since });
            }
            self.0.insert(vm.name.clone(), (vm.api_state.clone(), since));
        }
        if !view.complete {
            // One that Google could not list may still be there.
            before.retain(|name, _| !view.vms.iter().any(|vm| vm.name == *name));
            self.0.extend(before);
        }
        late
    }
}
