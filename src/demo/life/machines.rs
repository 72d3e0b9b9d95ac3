//! The TPU VMs of a simulated cluster that Google lists, including those of slices that Ray has lost.

use super::super::cluster::node::MISSED;
use super::super::cluster::node::address;
use super::super::cluster::state::State;
use super::super::cluster::tpu_vm::TpuVm;
use super::engine::{Engine, Event};
use super::slice::{Slice, Stage};
use super::tale::What;

/// Time until the autoscaler deletes the machines of a dead slice, in milliseconds.
const DELETION_DELAY: i64 = 45_000;

impl Engine {
    /// All TPU VMs that Google lists.
    pub fn tpu_vms(&self) -> Vec<TpuVm> {
        let listed = self.slices.values().filter(|s| s.is_own && s.stage != Stage::Deleted);
        let listed = listed.map(|s| self.tpu_vm(s, state(s.stage)));
        listed.chain(self.left.values().map(|s| self.tpu_vm(s, "PREEMPTED"))).collect()
    }

    fn tpu_vm(&self, slice: &Slice, state: &'static str) -> TpuVm {
        let kind = &self.kinds[slice.kind];
        let hosts = if slice.stage == Stage::Requested { 0 } else { kind.slice.hosts };
        TpuVm {
            name: slice.name.clone(),
            accelerator: kind.slice.pod_type.to_string(),
            node_type: kind.name.to_string(),
            state,
            since: slice.since,
            hosts: (0..hosts).map(|worker| address(slice.first_host + worker)).collect(),
        }
    }

    /// Records a lost slice. Google keeps listing its machines until they are deleted.
    pub(super) fn record_lost(&mut self, id: u64, slice: Slice) {
        if slice.stage != Stage::Deleted {
            self.left.insert(id, slice);
            self.plan(DELETION_DELAY, Event::Noticed(id));
        }
    }

    /// Starts after a restart of Ray: takes over the machines of the previous cluster as lost ones, which are of no
    /// use.
    pub fn take_over(&mut self, previous: Engine) {
        self.monitor_log.turn(self.now, What::Loops);
        self.hosts = previous.hosts;
        let left = previous.left.into_iter().chain(previous.slices).filter(|(_, slice)| slice.is_own);
        for (id, slice) in left {
            self.record_lost(id, Slice { hosts: Vec::new(), job: None, ..slice });
        }
        self.start_events();
    }

    /// The autoscaler deletes the machines of a lost slice, unless it is stuck or not running.
    pub(super) fn delete_lost(&mut self, cluster: &State, id: u64) {
        if !self.stuck && cluster.monitor.alive {
            self.left.remove(&id);
        }
    }

    /// A person deletes a TPU VM; the GCS notices the missing heartbeats later.
    pub fn delete(&mut self, name: &str) {
        self.left.retain(|_, s| s.name != name);
        let mut own = self.slices.iter_mut().filter(|(_, s)| s.is_own);
        let Some((&id, slice)) = own.find(|(_, s)| s.name == name) else { return };
        if matches!(slice.stage, Stage::Requested | Stage::Joining) {
            self.kinds[slice.kind].coming -= 1;
        }
        slice.stage = Stage::Deleted;
        self.plan(MISSED, Event::Lost(id));
    }
}

/// Google's name for the state.
fn state(stage: Stage) -> &'static str {
    match stage {
        Stage::Requested => "CREATING",
        Stage::Joining | Stage::Complete => "READY",
        Stage::Taken | Stage::Deleted => "PREEMPTED",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::cluster::Cluster;
    use super::*;
    use crate::demo::{Clock, Life, Scenario, TpuType};
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    const T0: i64 = 1_795_000_000_000;

    fn cluster(stuck: bool) -> Cluster {
        let life = Life {
            types: vec![TpuType::new("tpu_worker", "v4-16", 2, 2)],
            past_minutes: if stuck { 60 } else { 0 },
            jobs_per_hour: 0.0,
            preemptions_per_hour: 0.0,
            stuck,
            ..Life::default()
        };
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        Cluster::new(&Scenario { dead: 0, jobs: 0, life: Some(life), clock, ..Scenario::default() })
    }

    fn states(cluster: &Cluster) -> Vec<&'static str> {
        let mut all: Vec<_> = cluster.tpu_vms().iter().map(|vm| vm.state).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn lost_machines_remain_until_the_autoscaler_notices() {
        let mut cluster = cluster(false);
        assert_eq!(states(&cluster), ["READY", "READY"]);
        let hosts: Vec<String> = cluster.tpu_vms().into_iter().flat_map(|vm| vm.hosts).collect();
        let nodes = cluster.nodes.iter().filter(|n| !n.is_head).map(|n| &n.ip);
        assert!(nodes.clone().all(|ip| hosts.contains(ip)) && nodes.count() == 4);
        let victim = cluster.nodes[1].id;
        cluster.kill(victim);
        assert_eq!(states(&cluster), ["PREEMPTED", "READY"]);
        cluster.advance(T0 + 10_000);
        assert_eq!(states(&cluster), ["CREATING", "PREEMPTED", "READY"], "a replacement is requested");
        cluster.advance(T0 + 600_000);
        assert_eq!(states(&cluster), ["READY", "READY"]);
    }

    #[test]
    fn a_stuck_autoscaler_keeps_lost_machines_until_a_person_deletes_them() {
        let mut cluster = cluster(true);
        cluster.advance(T0 + 600_000);
        assert_eq!(states(&cluster), ["PREEMPTED", "PREEMPTED"]);
        let name = cluster.tpu_vms()[0].name.clone();
        cluster.delete_tpu_vm(&name);
        assert_eq!(states(&cluster), ["PREEMPTED"]);
        cluster.advance(T0 + 900_000);
        assert_eq!(states(&cluster), ["PREEMPTED"], "no replacement is requested");
    }

    #[test]
    fn a_slice_whose_machines_were_deleted_is_noticed_later_and_replaced() {
        let mut cluster = cluster(false);
        let name = cluster.tpu_vms()[0].name.clone();
        cluster.delete_tpu_vm(&name);
        assert_eq!(states(&cluster), ["READY"]);
        let alive = |c: &Cluster| c.nodes.iter().filter(|n| n.is_alive()).count();
        assert_eq!(alive(&cluster), 5);
        cluster.advance(T0 + MISSED + 1000);
        assert_eq!(alive(&cluster), 3);
        cluster.advance(T0 + 600_000);
        assert_eq!((states(&cluster), alive(&cluster)), (vec!["READY", "READY"], 5));
    }
}
