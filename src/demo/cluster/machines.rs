//! The TPU VMs of a simulated cluster at Google: one for each slice that is requested, running, or lost and not deleted.

use super::Cluster;
use super::node::SliceKind;
use super::tpu_vm::TpuVm;
use serde_json::Value;
use std::collections::BTreeMap;

impl Cluster {
    /// Every TPU VM that Google has of this cluster.
    pub fn tpu_vms(&self) -> Vec<TpuVm> {
        let mut all = match &self.life {
            Some(life) => life.tpu_vms(),
            None => self.standing(),
        };
        all.extend(self.by_hand.tpu_vms(self.now));
        all
    }

    /// Without a life the slices are those that Ray has; what died was deleted.
    fn standing(&self) -> Vec<TpuVm> {
        let mut slices: BTreeMap<&str, TpuVm> = BTreeMap::new();
        for node in self.nodes.iter().filter(|n| n.is_alive()) {
            let label = |key| node.labels.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
            let (Some(slice), Some(pod)) = (label("ray.io/tpu-slice-name"), label("ray.io/tpu-pod-type"))
            else {
                continue;
            };
            if self.by_hand.has(slice) {
                continue;
            }
            let vm = slices.entry(slice).or_insert_with(|| TpuVm {
                name: slice.to_owned(),
                accelerator: pod.to_owned(),
                node_type: node.node_type.to_string(),
                state: "READY",
                since: node.started,
                hosts: Vec::new(),
            });
            vm.hosts.push(node.ip.clone());
        }
        slices.into_values().collect()
    }

    /// A slice that a person made at `since`, some time ago: its hosts are in Ray. `body` is what was asked for.
    pub fn made_by_hand(&mut self, name: &str, kind: SliceKind, body: Value, since: i64) {
        self.by_hand.ask(name, name, kind, body, since, false);
        self.by_hand.tend(&mut self.state, &mut self.random);
        self.version += 1;
    }

    /// Google deletes a TPU VM: its hosts are gone, and Ray hears nothing of it until it misses their heartbeats.
    pub fn delete_tpu_vm(&mut self, name: &str) {
        if self.by_hand.delete(name, self.state.now) {
            return;
        }
        if let Some(life) = &mut self.life {
            life.delete(name);
            return;
        }
        let of_it = |n: &super::node::SimNode| {
            n.is_alive() && n.labels.iter().any(|(k, v)| k == "ray.io/tpu-slice-name" && v == name)
        };
        let hosts: Vec<_> = self.nodes.iter().filter(|n| of_it(n)).map(|n| n.id).collect();
        for host in hosts {
            self.kill(host);
        }
    }
}
