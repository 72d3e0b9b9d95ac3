//! Simulated slices: requested, refused or created, joined host by host, given to jobs, preempted, terminated.

use super::super::cluster::autoscaling::{FAILURE_SHOWN_FOR, Joining, Launching, Refused, Wanted};
use super::super::cluster::log::Log;
use super::super::cluster::node::{MISSED, SimNode, address};
use super::super::cluster::state::State;
use super::engine::{Engine, Event};
use super::monitor::info_line;
use super::slice::{Kind, Slice, Stage};
use super::tale::What;
use super::{Refusal, TpuType};
use crate::model::{DeathReason, NodeId};

/// Mean time from the first host of a slice to the last, in milliseconds.
const JOINING: f64 = 75_000.0;
/// `idle_timeout_minutes`, in milliseconds.
const IDLE: i64 = 300_000;
/// Time until the autoscaler retries a failed launch, in milliseconds.
const RETRY_DELAY: i64 = 60_000;
/// Maximum number of dead nodes that the GCS keeps.
const MAX_DEAD_NODES: usize = 1000;

impl Engine {
    /// The node type of an accelerator type, as an index; one that the autoscaler does not have is added with a maximum
    /// of 0.
    pub(super) fn kind_of(&mut self, pod_type: &str) -> usize {
        if let Some(known) = self.kinds.iter().position(|kind| kind.slice.pod_type == pod_type) {
            return known;
        }
        let none = TpuType { max_workers: 0, ..TpuType::new("", pod_type, 0, 0) };
        self.kinds.push(Kind::new(&none, &self.life.zone));
        self.kinds.len() - 1
    }

    /// Creates the initial slices, complete with all hosts.
    pub(super) fn create_initial_slices(&mut self, cluster: &mut State) {
        for kind in 0..self.kinds.len() {
            for _ in 0..self.kinds[kind].begin {
                let id = self.request(kind, 0);
                for _ in 0..self.kinds[kind].slice.hosts {
                    self.add_host(cluster, id);
                }
                self.complete(cluster, id);
            }
        }
    }

    /// Keeps jobs off the slices that will lose half of their hosts, and plans that loss.
    pub(super) fn reserve_halved_slices(&mut self, until: i64) {
        for halved in self.life.halved.clone() {
            let kind = self.kinds.iter_mut().find(|kind| *kind.name == *halved.node_type);
            let Some(id) = kind.and_then(|kind| kind.free.pop_first()) else { continue };
            if let Some(slice) = self.slices.get_mut(&id) {
                slice.turn += 1;
            }
            let at = until - i64::from(halved.minutes_ago) * 60_000;
            self.plan((at - self.now).max(0), Event::Halve(id));
        }
    }

    /// Half of the hosts of a slice die, and the others stay until a person acts. No job can use them: the first host,
    /// which has the head resource, is among those that die.
    pub(super) fn halve(&mut self, cluster: &mut State, id: u64) {
        let now = self.now;
        let hosts = self.hosts(id).to_vec();
        let gone = &hosts[..hosts.len().div_ceil(2)];
        self.each_host(cluster, id, |node| {
            if gone.contains(&node.id) {
                node.die(
                    now,
                    DeathReason::Unexpected,
                    "health check failed due to missing too many heartbeats",
                );
            }
        });
        self.changed = true;
    }

    /// Requests a slice that is created or refused after `takes` milliseconds; 0 for one that already exists.
    fn request(&mut self, kind: usize, takes: i64) -> u64 {
        let id = self.random.next();
        let name = format!("ray-{}-worker-{:08x}-tpu", self.life.cluster, id >> 32);
        let (first_host, since) = (self.hosts, self.now);
        self.hosts += self.kinds[kind].slice.hosts;
        self.kinds[kind].up += 1;
        self.kinds[kind].coming += 1;
        let slice = Slice {
            name,
            kind,
            job: None,
            hosts: Vec::new(),
            turn: 0,
            stage: Stage::Requested,
            since,
            first_host,
            is_own: true,
        };
        self.slices.insert(id, slice);
        self.changed = true;
        if takes > 0 {
            self.plan(takes, Event::Launched(id));
        }
        id
    }

    /// The autoscaler's decision for each node type: launches slices up to `min_workers` or the demand of jobs.
    pub(super) fn scale(&mut self, cluster: &mut State) {
        for kind in 0..self.kinds.len() {
            let node_type = &self.kinds[kind];
            let is_own = |id: &&u64| self.slices.get(*id).is_some_and(|slice| slice.is_own);
            let busy = node_type.up - node_type.free.iter().filter(is_own).count() - node_type.coming;
            let wanted = node_type.waiting.len() + node_type.asked;
            let target = (busy + wanted).max(node_type.min).min(node_type.max);
            let missing = target.saturating_sub(node_type.up);
            if missing == 0 || self.now < node_type.not_before {
                continue;
            }
            for _ in 0..missing {
                let takes = self.around(self.life.launch_seconds * 1000.0).max(1);
                self.request(kind, takes);
            }
            let message = format!("Adding {missing} node(s) of type {}.", self.kinds[kind].name);
            self.log_info(cluster, &message);
        }
    }

    /// Writes a line to `monitor.log`.
    fn log_info(&mut self, cluster: &mut State, message: &str) {
        self.monitor_log.turn(self.now, What::Lines([info_line(self.now, message)].into()));
        self.monitor_log.turn(self.now, What::Loops);
        self.show_log(cluster);
    }

    /// Copies `monitor.log` to the files of the cluster, unless a test has written it.
    pub(super) fn show_log(&self, cluster: &mut State) {
        let file = cluster.files.entry("monitor.log".into()).or_insert_with(Log::none);
        if matches!(file, Log::Simulated(_)) || file.end_position(self.now) == 0 {
            *file = Log::Simulated(self.monitor_log.clone());
        }
    }

    /// Google has created the machines, or refuses to.
    pub(super) fn launched(&mut self, cluster: &mut State, id: u64) {
        let refused = self.life.refusal.filter(|_| self.random.unit() < self.life.refused);
        let Some(slice) = self.slices.get_mut(&id).filter(|s| s.stage == Stage::Requested) else { return };
        self.changed = true;
        let Some(refusal) = refused else {
            slice.stage = Stage::Joining;
            self.kinds[slice.kind].refused = None;
            self.plan(5000, Event::Join(id));
            return;
        };
        let (category, reason) = self.refusal_message(refusal, id);
        let Some(slice) = self.slices.remove(&id) else { return };
        let kind = &mut self.kinds[slice.kind];
        kind.up -= 1;
        kind.coming -= 1;
        kind.not_before = self.now + RETRY_DELAY;
        let (node_type, at) = (kind.name.clone(), self.now);
        let message = format!("Failed to launch 1 node(s) of type {node_type}. ({category}): {reason}");
        kind.refused = Some(Refused { node_type, count: 1, category, reason, since: slice.since, at });
        self.log_info(cluster, &message);
    }

    /// Google's error: its category and message.
    fn refusal_message(&self, refusal: Refusal, id: u64) -> (&'static str, String) {
        let zone = &self.life.zone;
        match refusal {
            Refusal::Stockout => (
                "RESOURCE_EXHAUSTED",
                format!(
                    "There is no more capacity in the zone \"{zone}\"; you can try in another zone where Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) [EID: 0x{id:016x}]"
                ),
            ),
            Refusal::Quota => (
                "QUOTA_EXCEEDED",
                format!(
                    "Quota limit 'TPUV4PreemptiblePodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 2048 in zone {zone}."
                ),
            ),
        }
    }

    /// The next host joins; the last one makes the slice complete.
    pub(super) fn join(&mut self, cluster: &mut State, id: u64) {
        let Some(slice) = self.slices.get(&id).filter(|s| s.stage == Stage::Joining) else { return };
        let all = self.kinds[slice.kind].slice.hosts;
        let joined = slice.hosts.len() + 1;
        self.add_host(cluster, id);
        self.changed = true;
        if joined < all {
            let after = self.around(JOINING / all as f64);
            self.plan(after.max(1), Event::Join(id));
        } else {
            self.complete(cluster, id);
        }
    }

    fn add_host(&mut self, cluster: &mut State, id: u64) {
        let Some(slice) = self.slices.get_mut(&id) else { return };
        let (kind, joined) = (&self.kinds[slice.kind].slice, slice.hosts.len());
        // The host with the slice's head resource comes last: as soon as a node has it, Ray gives it to a job, which
        // needs all hosts.
        let (worker, at) =
            if slice.stage == Stage::Joining { (kind.hosts - 1 - joined, 0) } else { (joined, joined) };
        let number = slice.first_host + worker;
        let mut node = SimNode::of_slice(&mut self.random, self.now, number, kind, &slice.name, worker);
        // Its agent has not measured anything yet.
        (node.started, node.idle_since, node.sampled) = (self.now, Some(self.now), None);
        slice.hosts.insert(at, node.id);
        cluster.nodes.push(node);
    }

    fn complete(&mut self, cluster: &mut State, id: u64) {
        let Some(slice) = self.slices.get_mut(&id) else { return };
        slice.stage = Stage::Complete;
        self.kinds[slice.kind].coming -= 1;
        self.release(cluster, id);
    }

    /// Frees a complete slice: the first waiting job gets it, or it is idle. A slice is not free while a driver holds
    /// some of its chips.
    pub(super) fn release(&mut self, cluster: &mut State, id: u64) {
        if self.is_occupied(id) {
            return;
        }
        let now = self.now;
        let Some(slice) = self.slices.get_mut(&id).filter(|s| s.stage == Stage::Complete) else { return };
        slice.job = None;
        slice.turn += 1;
        let (kind, turn, is_own) = (slice.kind, slice.turn, slice.is_own);
        self.each_host(cluster, id, |node| node.rest(now));
        self.changed = true;
        if self.hosts(id).iter().any(|host| cluster.is_draining(*host)) {
            return;
        }
        self.kinds[kind].free.insert(id);
        if is_own {
            self.plan(IDLE, Event::Idle(id, turn));
        }
        self.serve(cluster, kind);
    }

    /// A person added a slice, and all of its hosts have joined: jobs can use it.
    pub fn adopt(&mut self, cluster: &mut State, name: String, pod_type: &str, hosts: Vec<NodeId>) {
        let kind = self.kind_of(pod_type);
        self.added += 1;
        let id = u64::MAX - self.added;
        let (stage, since) = (Stage::Complete, self.now);
        let slice =
            Slice { name, kind, job: None, hosts, turn: 0, stage, since, first_host: 0, is_own: false };
        self.slices.insert(id, slice);
        self.release(cluster, id);
    }

    /// Changes each host of a slice.
    pub(super) fn each_host(&self, cluster: &mut State, id: u64, change: impl Fn(&mut SimNode)) {
        let Some(slice) = self.slices.get(&id) else { return };
        let mut left = slice.hosts.len();
        // The newest nodes are last.
        for node in cluster.nodes.iter_mut().rev() {
            if left == 0 {
                break;
            }
            if slice.hosts.contains(&node.id) {
                left -= 1;
                change(node);
            }
        }
    }

    /// A slice's hosts that have joined.
    pub(super) fn hosts(&self, slice: u64) -> &[NodeId] {
        self.slices.get(&slice).map_or(&[], |s| &s.hosts)
    }

    /// The slice of a host.
    pub(super) fn slice_of(&self, host: NodeId) -> Option<u64> {
        self.slices.iter().find(|(_, s)| s.hosts.contains(&host)).map(|(id, _)| *id)
    }

    /// A host died: the whole slice is lost.
    pub fn lose_with(&mut self, cluster: &mut State, host: NodeId) {
        if let Some(id) = self.slice_of(host) {
            self.lose(cluster, id);
        }
    }

    /// Google preempts a slice: its machines disappear at once, without notice. Until Ray notices, it may start a job
    /// on them.
    pub(super) fn preempt(&mut self) {
        let complete = self.slices.iter().filter(|(_, s)| s.is_own && s.stage == Stage::Complete);
        let complete: Vec<u64> = complete.map(|(id, _)| *id).collect();
        let Some(&id) = complete.get(self.random.below(complete.len())) else { return };
        if let Some(slice) = self.slices.get_mut(&id) {
            slice.stage = Stage::Taken;
        }
        self.plan(MISSED, Event::Lost(id));
    }

    /// The GCS marks a slice's hosts as dead; its job waits or fails.
    pub(super) fn lose(&mut self, cluster: &mut State, id: u64) {
        self.finish(
            cluster,
            id,
            DeathReason::Unexpected,
            "health check failed due to missing too many heartbeats",
        );
    }

    /// The autoscaler terminates a slice that was idle for five minutes.
    pub(super) fn terminate_idle(&mut self, cluster: &mut State, id: u64, turn: u32) {
        let idle = |s: &&Slice| s.turn == turn && s.job.is_none() && s.stage == Stage::Complete;
        let Some(slice) = self.slices.get(&id).filter(idle) else { return };
        let kind = &self.kinds[slice.kind];
        if self.stuck || !cluster.monitor.alive {
            return;
        }
        // The entrypoint of a job may hold CPUs of a host.
        let is_busy = cluster.nodes.iter().any(|n| n.idle_since.is_none() && slice.hosts.contains(&n.id));
        if kind.up <= kind.min || is_busy {
            self.plan(IDLE, Event::Idle(id, turn));
            return;
        }
        let message = format!("Removing 1 nodes of type {} (idle).", kind.name);
        self.log_info(cluster, &message);
        self.finish(cluster, id, DeathReason::Expected, "Terminated by autoscaler.");
    }

    fn finish(&mut self, cluster: &mut State, id: u64, reason: DeathReason, message: &'static str) {
        let now = self.now;
        let is_own = self.slices.get(&id).is_some_and(|slice| slice.is_own);
        self.each_host(cluster, id, |node| match () {
            () if is_own => node.die(now, reason, message),
            // The machines that a person added stay.
            () if node.is_alive() => node.leave_slice(now),
            () => {}
        });
        let Some(slice) = self.slices.remove(&id) else { return };
        let kind = &mut self.kinds[slice.kind];
        kind.free.remove(&id);
        if is_own {
            kind.up -= 1;
            kind.coming -= usize::from(matches!(slice.stage, Stage::Requested | Stage::Joining));
        }
        self.changed = true;
        if let Some(job) = slice.job {
            self.lose_slice(cluster, job);
        }
        if is_own && reason == DeathReason::Unexpected {
            self.record_lost(id, slice);
        }
        forget(&mut cluster.nodes);
    }

    /// Unmet demand: slices that jobs wait for, including those that no node type offers.
    pub(super) fn demand(&self) -> Vec<Wanted> {
        let demand = |kind: &Kind| Wanted {
            shape: vec![("CPU".into(), 1.0), (format!("TPU-{}-head", kind.slice.pod_type), 1.0)],
            count: kind.waiting.len() as i64,
            infeasible: kind.max == 0,
            node_type: kind.name.clone(),
        };
        self.kinds.iter().filter(|kind| !kind.waiting.is_empty()).map(demand).collect()
    }

    /// Updates launches, joining hosts and failures in the autoscaler's report. A stuck autoscaler launches nothing.
    pub(super) fn report(&self, cluster: &mut State) {
        let view = &mut cluster.scaling;
        (view.launching, view.joining) = (Vec::new(), Vec::new());
        for slice in self.slices.values().filter(|_| !self.stuck) {
            let (kind, joined) = (&self.kinds[slice.kind], slice.hosts.len());
            match slice.stage {
                Stage::Requested => match view.launching.iter_mut().find(|l| l.node_type == kind.name) {
                    Some(launching) => launching.count += 1,
                    None => view.launching.push(Launching {
                        node_type: kind.name.clone(),
                        count: 1,
                        since: slice.since,
                    }),
                },
                Stage::Joining => view.joining.extend((0..kind.slice.hosts - joined).map(|worker| Joining {
                    node_type: kind.name.clone(),
                    ip: address(slice.first_host + worker),
                    instance_id: format!("{}-w-{worker}", slice.name),
                })),
                Stage::Complete | Stage::Taken | Stage::Deleted => {}
            }
        }
        let recent = |r: &&Refused| self.now - r.at < FAILURE_SHOWN_FOR;
        view.refused = self.kinds.iter().filter_map(|k| k.refused.as_ref()).filter(recent).cloned().collect();
        self.show_log(cluster);
    }
}

/// Removes the oldest dead nodes: the GCS keeps a thousand.
fn forget(nodes: &mut Vec<SimNode>) {
    let dead = nodes.iter().filter(|n| !n.is_alive()).count();
    let mut surplus = dead.saturating_sub(MAX_DEAD_NODES);
    if surplus > 0 {
        nodes.retain(|n| {
            let stays = n.is_alive() || surplus == 0;
            surplus -= usize::from(!stays);
            stays
        });
    }
}
