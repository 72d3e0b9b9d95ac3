//! Workers that a person adds to a simulated cluster: a queued resource waits, is provisioned and becomes a TPU VM,
//! whose hosts join Ray one after the other.

use super::super::random::Random;
use super::node::{MISSED, SimNode, SliceKind, address, first_by_hand};
use super::state::State;
use super::tpu_vm::TpuVm;
use crate::model::NodeId;
use serde_json::Value;

/// Time that a request waits for capacity, in milliseconds.
const WAITING: i64 = 4000;
/// Time of provisioning, in milliseconds.
const PROVISIONING: i64 = 4000;
/// Boot time of its hosts, in milliseconds.
const BOOTING: i64 = 3000;
/// Time from the end of booting until the first host joins Ray, and from the first to the last, in milliseconds.
const STARTING: i64 = 2000;
const JOINING: i64 = 8000;

/// A queued resource and its TPU VM.
struct Request {
    /// Name of the queued resource.
    name: String,
    /// Name of its TPU VM.
    vm: String,
    kind: SliceKind,
    /// The request body, as Google returns it.
    body: Value,
    /// When it was requested, in milliseconds since the epoch.
    since: i64,
    /// The earliest time at which a host joins, in milliseconds since the epoch.
    not_before: i64,
    /// Whether capacity never becomes available.
    never_granted: bool,
    first_host: usize,
    /// Hosts that have joined, by worker number; the last one joins first.
    hosts: Vec<NodeId>,
    /// Whether all of them have joined, and jobs can use them.
    is_complete: bool,
    /// When it was deleted, in milliseconds since the epoch.
    deleted: Option<i64>,
}

/// The phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Provisioning,
    Booting,
    Up,
}

impl Request {
    fn stage(&self, now: i64) -> Stage {
        match now - self.since {
            _ if self.never_granted => Stage::Waiting,
            ..WAITING => Stage::Waiting,
            age if age < WAITING + PROVISIONING => Stage::Provisioning,
            age if age < WAITING + PROVISIONING + BOOTING => Stage::Booting,
            _ => Stage::Up,
        }
    }

    /// Google's name for its state.
    fn state(&self, now: i64) -> &'static str {
        match self.stage(now) {
            Stage::Waiting => "WAITING_FOR_RESOURCES",
            Stage::Provisioning => "PROVISIONING",
            Stage::Booting | Stage::Up => "ACTIVE",
        }
    }

    fn tpu_vm(&self, now: i64) -> Option<TpuVm> {
        let stage = self.stage(now);
        if self.deleted.is_some() || matches!(stage, Stage::Waiting | Stage::Provisioning) {
            return None;
        }
        let is_up = stage == Stage::Up;
        let hosts = if is_up { self.kind.hosts } else { 0 };
        Some(TpuVm {
            name: self.vm.clone(),
            accelerator: self.kind.pod_type.to_string(),
            node_type: self.kind.node_type.to_string(),
            state: if is_up { "READY" } else { "CREATING" },
            since: self.since,
            hosts: (0..hosts).map(|worker| address(self.first_host + worker)).collect(),
        })
    }

    /// Number of hosts that should have joined by `now`.
    fn due(&self, now: i64) -> usize {
        let first = self.since + WAITING + PROVISIONING + BOOTING + STARTING;
        let joining = now - first.max(self.not_before);
        if self.never_granted || joining < 0 || self.deleted.is_some() {
            return 0;
        }
        let all = self.kind.hosts;
        let joining = usize::try_from(joining).unwrap_or(usize::MAX);
        (1 + joining.saturating_mul(all) / usize::try_from(JOINING).unwrap_or(1)).min(all)
    }
}

pub(in crate::demo) struct ByHand {
    requests: Vec<Request>,
    /// The next host's number.
    next: usize,
}

impl ByHand {
    /// Without requests, for the cluster with this network number.
    pub fn new(network: usize) -> Self {
        Self { requests: Vec::new(), next: first_by_hand(network) }
    }

    /// Adds a request for a TPU VM, made at `since`; `name` is the queued resource's, `vm` the TPU VM's.
    pub fn add(
        &mut self,
        name: &str,
        vm: &str,
        kind: SliceKind,
        body: Value,
        since: i64,
        never_granted: bool,
    ) {
        let first_host = self.next;
        self.next += kind.hosts;
        let (name, vm) = (name.to_owned(), vm.to_owned());
        let (not_before, hosts, deleted) = (since, Vec::new(), None);
        self.requests.push(Request {
            name,
            vm,
            kind,
            body,
            since,
            not_before,
            never_granted,
            first_host,
            hosts,
            is_complete: false,
            deleted,
        });
    }

    /// Moves all requests to a restarted head, which their hosts join by themselves.
    pub fn for_new_head(&mut self, now: i64) -> Self {
        let mut requests = std::mem::take(&mut self.requests);
        for request in &mut requests {
            request.hosts.clear();
            request.is_complete = false;
            request.not_before = now + STARTING;
        }
        Self { requests, next: self.next }
    }

    /// The state and the request body of each queued resource.
    pub fn queued(&self, now: i64) -> impl Iterator<Item = (&'static str, &Value)> {
        self.requests.iter().filter(|r| r.deleted.is_none()).map(move |r| (r.state(now), &r.body))
    }

    /// The request body of the TPU VM with this name; `None` if it was not added manually.
    pub fn body(&self, vm: &str) -> Option<&Value> {
        self.requests.iter().find(|r| r.deleted.is_none() && r.vm == vm).map(|r| &r.body)
    }

    /// Whether this TPU VM was added manually; also true shortly after its deletion.
    pub fn has(&self, vm: &str) -> bool {
        self.requests.iter().any(|r| r.vm == vm)
    }

    /// The TPU VMs that exist.
    pub fn tpu_vms(&self, now: i64) -> impl Iterator<Item = TpuVm> {
        self.requests.iter().filter_map(move |r| r.tpu_vm(now))
    }

    /// Adds the hosts that are due to join; returns those that Ray loses because their TPU VM was deleted.
    pub fn advance(&mut self, state: &mut State, random: &mut Random) -> Vec<NodeId> {
        let now = state.now;
        for request in &mut self.requests {
            for joined in request.hosts.len()..request.due(now) {
                // The host with the slice's head resource comes last: only then can a job use the slice.
                let worker = request.kind.hosts - 1 - joined;
                let number = request.first_host + worker;
                let mut node = SimNode::of_slice(random, now, number, &request.kind, &request.vm, worker);
                // Its agent has not measured anything yet.
                (node.started, node.idle_since, node.sampled) = (now, Some(now), None);
                request.hosts.insert(0, node.id);
                state.nodes.push(node);
            }
        }
        let is_over = |r: &Request| r.deleted.is_some_and(|deleted| deleted + MISSED <= now);
        self.requests.extract_if(.., |r| is_over(r)).flat_map(|r| r.hosts).collect()
    }

    /// The slices whose last host has joined since the last call: name of the TPU VM, Ray's pod type, and hosts.
    pub fn take_complete(&mut self) -> Vec<(String, String, Vec<NodeId>)> {
        let is_new = |r: &&mut Request| {
            !r.is_complete && r.deleted.is_none() && !r.hosts.is_empty() && r.hosts.len() == r.kind.hosts
        };
        let mark = |request: &mut Request| {
            request.is_complete = true;
            (request.vm.clone(), request.kind.pod_type.to_string(), request.hosts.clone())
        };
        self.requests.iter_mut().filter(is_new).map(mark).collect()
    }

    /// Deletes a queued resource with its TPU VM, by the name of either; false if there is none.
    pub fn delete(&mut self, name: &str, now: i64) -> bool {
        let found =
            self.requests.iter_mut().find(|r| r.deleted.is_none() && (r.vm == name || r.name == name));
        found.map(|r| r.deleted = Some(now)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cluster;
    use super::super::tpu_vm::slice_kind;
    use super::*;
    use crate::demo::{Clock, Scenario};
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    const T0: i64 = 1_795_000_000_000;

    fn cluster() -> Cluster {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        Cluster::new(&Scenario { nodes: 3, dead: 1, clock, ..Scenario::default() })
    }

    fn alive(cluster: &Cluster) -> Vec<String> {
        cluster.nodes.iter().filter(|n| n.is_alive()).map(|n| n.ip.clone()).collect()
    }

    /// The states of queued resources, and the states and numbers of hosts of TPU VMs.
    fn status(cluster: &Cluster) -> (Vec<&'static str>, Vec<(&'static str, usize)>) {
        let queued = cluster.by_hand.queued(cluster.now).map(|(state, _)| state).collect();
        let vms = cluster.by_hand.tpu_vms(cluster.now).map(|vm| (vm.state, vm.hosts.len())).collect();
        (queued, vms)
    }

    #[test]
    fn a_request_waits_is_provisioned_joins_and_is_deleted() {
        let mut cluster = cluster();
        let kind = slice_kind("tpu_slice_v4_16", "v4-16", "z");
        cluster.by_hand.add("q", "w", kind.clone(), json!({}), T0, false);
        cluster.by_hand.add("v", "v", kind, json!({}), T0, true);
        let waiting = "WAITING_FOR_RESOURCES";
        assert_eq!(status(&cluster), (vec![waiting, waiting], vec![]));
        cluster.advance(T0 + WAITING);
        assert_eq!(status(&cluster), (vec!["PROVISIONING", waiting], vec![]));
        cluster.advance(T0 + WAITING + PROVISIONING);
        assert_eq!(status(&cluster), (vec!["ACTIVE", waiting], vec![("CREATING", 0)]));
        cluster.advance(T0 + WAITING + PROVISIONING + BOOTING);
        assert_eq!(status(&cluster), (vec!["ACTIVE", waiting], vec![("READY", 2)]));
        assert_eq!(alive(&cluster).len(), 3, "no host has joined yet");
        cluster.advance(T0 + 60_000);
        let hosts = cluster.by_hand.tpu_vms(cluster.now).next().unwrap().hosts;
        let mut joined = alive(&cluster).split_off(3);
        joined.reverse();
        assert_eq!(joined, hosts, "the host with the head resource joined last");
        assert!(cluster.by_hand.delete("w", cluster.now) && !cluster.by_hand.delete("w", cluster.now));
        assert_eq!(status(&cluster), (vec![waiting], vec![]));
        assert_eq!(alive(&cluster).len(), 5, "Ray has not noticed yet");
        cluster.advance(cluster.now + MISSED + 1000);
        assert_eq!(alive(&cluster).len(), 3);
        assert_eq!(cluster.by_hand.requests.len(), 1, "the deleted request is removed");
    }
}
