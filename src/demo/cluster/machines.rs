//! The TPU VMs of a simulated cluster at Google: one for each slice that is requested, running, or lost and not
//! deleted.

use super::Cluster;
use super::node::SliceKind;
use super::tpu_vm::TpuVm;
use serde_json::Value;
use std::collections::BTreeMap;

impl Cluster {
    /// All TPU VMs of this cluster that Google lists.
    pub fn tpu_vms(&self) -> Vec<TpuVm> {
        let mut all = match &self.life {
            Some(life) => life.tpu_vms(),
            None => self.live_slices(),
        };
        all.extend(self.by_hand.tpu_vms(self.now));
        all
    }

    /// The TPU VMs without simulated activity: the slices in Ray; those of dead nodes are deleted.
    fn live_slices(&self) -> Vec<TpuVm> {
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

    /// Adds a slice that a person created at `since`, so that its hosts have joined Ray by now. `body`: the request.
    pub fn add_existing_slice(&mut self, name: &str, kind: SliceKind, body: Value, since: i64) {
        self.by_hand.add(name, name, kind, body, since, false);
        self.by_hand.advance(&mut self.state, &mut self.random);
        self.adopt_slices();
        self.version += 1;
    }

    /// Lets the jobs of the simulated activity use the slices that a person added, once all hosts have joined.
    pub fn adopt_slices(&mut self) {
        let complete = self.by_hand.take_complete();
        if let Some(life) = &mut self.life {
            for (name, pod_type, hosts) in complete {
                life.adopt(&mut self.state, name, &pod_type, hosts);
            }
        }
    }

    /// Google deletes a TPU VM. Ray does not know until it misses the heartbeats of the hosts.
    pub fn delete_tpu_vm(&mut self, name: &str) {
        if self.by_hand.delete(name, self.state.now) {
            return;
        }
        if let Some(life) = &mut self.life {
            life.delete(name);
            return;
        }
        let is_its_host = |n: &super::node::SimNode| {
            n.is_alive() && n.labels.iter().any(|(k, v)| k == "ray.io/tpu-slice-name" && v == name)
        };
        let hosts: Vec<_> = self.nodes.iter().filter(|n| is_its_host(n)).map(|n| n.id).collect();
        for host in hosts {
            self.kill(host);
        }
    }
}
