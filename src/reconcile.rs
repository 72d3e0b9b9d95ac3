//! One table of a cluster's TPUs as Google Cloud and Ray report them, and Ray's nodes by slice (`hosts`). Pure.
//!
//! Ray alone does not show everything: preempted machines that still hold quota, slices with a missing host, workers
//! that are not in Ray. Ray's nodes and the cloud's machines are joined by internal address.

mod hosts;
mod row;
mod totals;

pub use hosts::{BySlice, Hosts, HostsKey, HostsKind};
use row::RESIZE_REQUEST;
pub use row::{JOIN_TIME, ManagedBy, Row, TpuStatus};
pub use totals::{Chips, TypeCount, chips_by_generation, types};

use crate::model::cloud::{CloudView, QueuedResource, QueuedState, TpuHost, TpuVm, VmState, chips};
use crate::model::sort;
use crate::model::{LeftoverKind, Node, ResizeRequest, Text, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Joins the TPUs of a cluster in Google Cloud and Ray; rows with issues come first. Without `nodes`, Ray did not
/// respond, and the rows show only the cloud's data.
pub fn reconcile(cluster: &str, cloud: &CloudView, nodes: Option<&[Node]>, now: Timestamp) -> Vec<Row> {
    let is_worker = |node: &&Node| node.state.is_alive() && !node.is_head;
    let alive: Alive = nodes.map(|all| sort::collected(all.iter().filter(is_worker).map(by_address)));
    let existing = cloud.vms.iter().filter(|vm| !vm.state.is_gone());
    let held: BTreeSet<&str> = sort::collected(existing.flat_map(|vm| vm.hosts.iter().map(Text::raw)));
    let ours: Vec<&TpuVm> = cloud
        .vms
        .iter()
        .filter(|vm| belongs(vm.ray_cluster.as_ref(), cluster) || in_ray(vm, &alive, &held))
        .collect();
    let mut rows: Vec<Row> = ours.iter().map(|vm| vm_row(vm, cluster, &alive, &held, now)).collect();
    let of_cloud_tpu = ours.iter().filter(|vm| vm.compute.is_none());
    let there: BTreeSet<&str> = sort::collected(of_cloud_tpu.map(|vm| vm.name.raw()));
    let requests = cloud.queued.iter().filter(|q| belongs(q.ray_cluster.as_ref(), cluster));
    rows.extend(requests.filter_map(|q| request_row(q, cluster, &there)));
    let resizes = cloud.resizes.iter().filter(|r| belongs(r.ray_cluster.as_ref(), cluster));
    rows.extend(resizes.map(resize_row));
    // If Google's response is incomplete, an address that it does not list proves nothing.
    if cloud.is_whole() {
        let hosts = cloud.vms.iter().flat_map(|vm| vm.hosts.iter().map(Text::raw));
        let known: BTreeSet<&str> = sort::collected(hosts);
        rows.extend(ghosts(&alive.unwrap_or_default(), &known, cloud.queried));
    }
    sort::by(&mut rows, |a, b| (a.status, a.name.raw()).cmp(&(b.status, b.name.raw())));
    rows
}

/// Ray's living workers by address; `None` if Ray did not respond.
type Alive<'a> = Option<BTreeMap<&'a str, &'a Node>>;

fn by_address(node: &Node) -> (&str, &Node) {
    (node.address.raw(), node)
}

/// The total number of chips of the machines with that status.
pub fn chips_of(rows: &[Row], status: TpuStatus) -> u32 {
    rows.iter().filter(|r| r.status == status).map(|r| r.chips).sum()
}

fn belongs(label: Option<&Text>, cluster: &str) -> bool {
    label.is_some_and(|l| l.raw() == cluster)
}

/// Whether a TPU without a cluster label is a worker of Ray: manually added workers may have no label.
fn in_ray(vm: &TpuVm, alive: &Alive, held: &BTreeSet<&str>) -> bool {
    vm.ray_cluster.is_none() && vm.hosts.iter().any(|host| has_joined(vm, host, alive, held))
}

/// Whether a host of a machine is alive in Ray. `held`: the addresses of machines that exist, one of which may have the
/// address of a machine that is gone.
fn has_joined(vm: &TpuVm, host: &Text, alive: &Alive, held: &BTreeSet<&str>) -> bool {
    let is_its_own = !vm.state.is_gone() || !held.contains(host.raw());
    is_its_own && alive.as_ref().is_some_and(|alive| alive.contains_key(host.raw()))
}

/// The manager of a machine, from its name: Ray's GCP provider names its workers `ray-CLUSTER-worker-ID-tpu`.
fn keeper(name: &Text, cluster: &str) -> ManagedBy {
    let own = name.raw().strip_prefix("ray-").and_then(|n| n.strip_prefix(cluster));
    if own.is_some_and(|n| n.starts_with("-worker-")) { ManagedBy::Autoscaler } else { ManagedBy::Manual }
}

fn vm_row(vm: &TpuVm, cluster: &str, alive: &Alive, held: &BTreeSet<&str>, now: Timestamp) -> Row {
    let is_missing = |host: &&Text| !has_joined(vm, host, alive, held);
    let missing: Vec<Text> = vm.hosts.iter().filter(is_missing).cloned().collect();
    let joined = vm.hosts.len() - missing.len();
    // It may have waited for capacity since it was requested.
    let is_late = vm.started.or(vm.created).is_none_or(|at| at.age(now) > JOIN_TIME);
    let status = match vm.state {
        // Ray has not noticed yet.
        VmState::Preempted | VmState::Terminated if joined > 0 => TpuStatus::Ghost,
        VmState::Preempted if vm.compute.is_some() => TpuStatus::Preempted,
        VmState::Preempted => TpuStatus::HoldsQuota,
        VmState::Terminated => TpuStatus::Terminated,
        VmState::Deleting => TpuStatus::Leaving,
        VmState::Stopped => TpuStatus::Stopped,
        VmState::Unknown => TpuStatus::Unknown,
        VmState::Waiting => TpuStatus::Waiting,
        VmState::Starting if vm.state_since().is_some_and(|since| vm.is_late(since, now)) => {
            TpuStatus::Delayed
        }
        VmState::Starting => TpuStatus::Joining,
        VmState::Ready if alive.is_none() => TpuStatus::Up,
        VmState::Ready if missing.is_empty() && joined > 0 => TpuStatus::Registered,
        VmState::Ready if !is_late => TpuStatus::Joining,
        VmState::Ready if joined > 0 => TpuStatus::Incomplete,
        VmState::Ready => TpuStatus::NotInRay,
    };
    Row {
        name: vm.name.clone(),
        accelerator_type: vm.accelerator_type.clone(),
        chips: vm.chips(),
        status,
        resource: Some(vm.kind().name()),
        state: Some(state_name(&vm.api_state, vm.state.label())),
        ray_type: vm.ray_type.clone(),
        hosts: (vm.hosts.len(), joined),
        logins: vm.logins().collect(),
        missing: if alive.is_some() { named(missing) } else { Vec::new() },
        capacity: Some(vm.capacity),
        keeper: keeper(&vm.name, cluster),
        created: vm.created,
        note: vm.unhealthy.clone().or_else(|| api_state_note(status, &vm.api_state)),
    }
}

/// Google's name for a state, or ours if it gave none.
fn state_name(api_state: &Text, word: &str) -> Text {
    if api_state.is_empty() { Text::new(word) } else { api_state.clone() }
}

/// A note with Google's name for a state that the status does not show: an unknown state, or a repair.
fn api_state_note(status: TpuStatus, api_state: &Text) -> Option<Text> {
    let is_shown = match status {
        TpuStatus::Unknown | TpuStatus::Delayed => false,
        TpuStatus::Joining => matches!(api_state.raw(), "CREATING" | "READY"),
        _ => true,
    };
    (!is_shown && !api_state.is_empty()).then(|| Text::new(format!("Google reports {}", api_state.raw())))
}

/// Removes hosts that have no address yet.
fn named(mut addresses: Vec<Text>) -> Vec<Text> {
    addresses.retain(|a| !a.is_empty());
    addresses
}

/// The row of a request whose TPU VMs do not exist; existing TPU VMs have their own rows.
fn request_row(request: &QueuedResource, cluster: &str, there: &BTreeSet<&str>) -> Option<Row> {
    let status = match request.state {
        QueuedState::Waiting | QueuedState::Provisioning => TpuStatus::Waiting,
        QueuedState::Suspended => TpuStatus::HoldsQuota,
        QueuedState::Failed => TpuStatus::Refused,
        QueuedState::Deleting => TpuStatus::Leaving,
        QueuedState::Unknown => TpuStatus::Unknown,
        QueuedState::Active => return None,
    };
    if request.nodes.iter().any(|n| there.contains(n.raw())) {
        return None;
    }
    Some(Row {
        name: request.name.clone(),
        accelerator_type: request.accelerator_type.clone(),
        // A suspended request no longer holds any chips; it counts as a request. Others may be for several slices.
        chips: if request.state == QueuedState::Suspended {
            0
        } else {
            let slices = u32::try_from(request.nodes.len().max(1)).unwrap_or(u32::MAX);
            chips(request.accelerator_type.raw()).unwrap_or(0).saturating_mul(slices)
        },
        status,
        resource: Some(LeftoverKind::QueuedResource.name()),
        state: Some(state_name(&request.api_state, request.state.label())),
        ray_type: None,
        hosts: (0, 0),
        logins: Vec::new(),
        missing: Vec::new(),
        capacity: Some(request.capacity),
        keeper: keeper(&request.name, cluster),
        created: request.created,
        note: request.error.clone().or_else(|| api_state_note(status, &request.api_state)),
    })
}

/// The row of a resize request for more instances of a group.
fn resize_row(request: &ResizeRequest) -> Row {
    Row {
        // No machine has such a name, so that removing a machine by name never affects it.
        name: Text::new(format!("{}/{}", request.group.raw(), request.name.raw())),
        accelerator_type: request.accelerator_type.clone(),
        chips: request.chips,
        status: match request.state {
            QueuedState::Failed => TpuStatus::Refused,
            QueuedState::Unknown => TpuStatus::Unknown,
            _ => TpuStatus::Waiting,
        },
        resource: Some(RESIZE_REQUEST),
        state: Some(state_name(&request.api_state, request.state.label())),
        ray_type: request.ray_type.clone(),
        hosts: (0, 0),
        logins: Vec::new(),
        missing: Vec::new(),
        capacity: Some(request.capacity),
        keeper: ManagedBy::Manual,
        created: request.created,
        note: Some(Text::new(request.text())),
    }
}

/// Nodes with TPUs that are alive in Ray, but belong to no machine at Google. The hosts of a slice share a resource
/// named after it. Nodes that registered after the request to Google are ignored.
fn ghosts(alive: &BTreeMap<&str, &Node>, known: &BTreeSet<&str>, queried: Timestamp) -> Vec<Row> {
    let mut slices: BTreeMap<Text, Vec<&Node>> = BTreeMap::new();
    for (address, node) in alive.iter().filter(|(address, _)| !known.contains(*address)) {
        let has_tpus = node.resources.get("TPU").is_some_and(|r| r.total > 0.0);
        if !has_tpus || node.started.is_none_or(|at| at >= queried) {
            continue;
        }
        let slice = node.resources.0.iter().map(|r| &r.name).find(|n| n.raw().ends_with("-tpu"));
        let name = slice.cloned().unwrap_or_else(|| Text::new(*address));
        slices.entry(name).or_default().push(node);
    }
    let row = |(name, nodes): (Text, Vec<&Node>)| {
        let tpus: f64 = nodes.iter().filter_map(|n| n.resources.get("TPU")).map(|r| r.total).sum();
        Row {
            name,
            accelerator_type: Text::new(""),
            chips: tpus as u32,
            status: TpuStatus::Ghost,
            resource: None,
            state: None,
            ray_type: nodes.iter().map(|n| &n.node_type).find(|t| !t.is_empty()).cloned(),
            hosts: (0, nodes.len()),
            logins: nodes.iter().map(|n| TpuHost::of(n)).collect(),
            missing: Vec::new(),
            capacity: None,
            keeper: ManagedBy::Autoscaler,
            created: nodes.iter().filter_map(|n| n.started).min(),
            note: Some(Text::new("alive in Ray, but no Google Cloud TPU in this zone has its address")),
        }
    };
    slices.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::{Capacity, ComputeTpu};
    use crate::model::{NodeId, NodeState, Resource, Resources};
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn ago(minutes: i64) -> Timestamp {
        Timestamp::from_millis(NOW.as_millis() - minutes * 60_000)
    }

    fn vm(name: &str, kind: &str, state: VmState, hosts: &[&str], minutes: i64) -> TpuVm {
        TpuVm {
            id: None,
            name: Text::new(name),
            accelerator_type: Text::new(kind),
            state,
            api_state: "".into(),
            unhealthy: None,
            hosts: hosts.iter().map(|h| Text::new(*h)).collect(),
            external: Vec::new(),
            capacity: Capacity::Preemptible,
            queued_resource: None,
            created: Some(ago(minutes)),
            started: None,
            ray_cluster: Some(Text::new("c")),
            ray_type: None,
            compute: None,
        }
    }

    fn request(name: &str, state: QueuedState, node: &str) -> QueuedResource {
        QueuedResource {
            name: Text::new(name),
            state,
            api_state: "".into(),
            error: None,
            accelerator_type: Text::new("v4-128"),
            nodes: vec![Text::new(node)],
            capacity: Capacity::Reserved,
            created: Some(ago(30)),
            ray_cluster: Some(Text::new("c")),
        }
    }

    fn node(number: u8, address: &str, resources: &[(&str, f64)]) -> Node {
        let resource =
            |(name, total): &(&str, f64)| Resource { name: Text::new(*name), total: *total, used: None };
        Node {
            id: NodeId::from_bytes(&[number; 28]).unwrap(),
            name: Text::new(address),
            address: Text::new(address),
            hostname: Text::new(""),
            node_type: Text::new(""),
            instance_id: Text::new(""),
            is_head: number == 0,
            state: NodeState::Alive,
            started: Some(ago(60)),
            ended: None,
            death: None,
            idle_ms: None,
            resources: Resources(resources.iter().map(resource).collect()),
            labels: Arc::default(),
        }
    }

    /// Name, status, existing and joined hosts of each row.
    fn table(
        vms: Vec<TpuVm>,
        queued: Vec<QueuedResource>,
        nodes: &[Node],
    ) -> Vec<(String, TpuStatus, (usize, usize))> {
        let cloud = CloudView {
            vms,
            queued,
            complete: true,
            unlisted: None,
            queried: NOW,
            heads: Vec::new(),
            resizes: Vec::new(),
        };
        let rows = reconcile("c", &cloud, Some(nodes), NOW);
        rows.into_iter().map(|r| (r.name.raw().to_owned(), r.status, r.hosts)).collect()
    }

    #[test]
    fn all_statuses_are_distinguished() {
        let tpu = [("TPU", 4.0)];
        let nodes = [
            node(0, "10.0.0.1", &[]),
            node(1, "10.0.0.2", &tpu),
            node(2, "10.0.0.3", &tpu),
            node(3, "10.0.0.5", &tpu),
            node(4, "10.0.0.9", &[("TPU", 4.0), ("ray-c-worker-x-tpu", 1.0)]),
            node(5, "10.0.0.10", &[("TPU", 4.0), ("ray-c-worker-x-tpu", 1.0)]),
            node(6, "10.0.0.11", &[("CPU", 8.0)]),
        ];
        let vms = vec![
            vm("whole", "v4-8", VmState::Ready, &["10.0.0.2"], 100),
            vm("half", "v4-16", VmState::Ready, &["10.0.0.3", "10.0.0.4"], 100),
            vm("young", "v4-16", VmState::Ready, &["10.0.0.30", "10.0.0.40"], 5),
            vm("lost", "v4-8", VmState::Ready, &["10.0.0.60"], 100),
            vm("coming", "v4-8", VmState::Starting, &[], 500),
            vm("unnoticed", "v4-8", VmState::Preempted, &["10.0.0.5"], 100),
            vm("leak", "v4-8", VmState::Preempted, &["10.0.0.70"], 100),
            vm("going", "v4-8", VmState::Deleting, &["10.0.0.71"], 100),
        ];
        let queued = vec![
            request("q-waits", QueuedState::Waiting, "n1"),
            request("q-active", QueuedState::Active, "whole"),
            request("q-suspended", QueuedState::Suspended, "n2"),
            request("q-failed", QueuedState::Failed, "n3"),
            // Its machine has more information than the request.
            request("q-leak", QueuedState::Suspended, "leak"),
        ];
        let wanted = [
            ("ray-c-worker-x-tpu", TpuStatus::Ghost, (0, 2)),
            ("unnoticed", TpuStatus::Ghost, (1, 1)),
            ("half", TpuStatus::Incomplete, (2, 1)),
            ("lost", TpuStatus::NotInRay, (1, 0)),
            ("leak", TpuStatus::HoldsQuota, (1, 0)),
            ("q-suspended", TpuStatus::HoldsQuota, (0, 0)),
            ("q-failed", TpuStatus::Refused, (0, 0)),
            ("coming", TpuStatus::Joining, (0, 0)),
            ("young", TpuStatus::Joining, (2, 0)),
            ("q-waits", TpuStatus::Waiting, (0, 0)),
            ("going", TpuStatus::Leaving, (1, 0)),
            ("whole", TpuStatus::Registered, (1, 1)),
        ];
        assert_eq!(table(vms, queued, &nodes), wanted.map(|(n, s, h)| (n.to_owned(), s, h)));
    }

    #[test]
    fn a_compute_engine_slice_is_treated_like_a_cloud_tpu_slice() {
        let made = |name: &str, state, hosts: &[&str]| TpuVm {
            compute: Some(ComputeTpu { whole: true, chips: 8, ..ComputeTpu::default() }),
            ..vm(name, "tpu7x-16", state, hosts, 100)
        };
        let alive = |number: u8| node(number, &format!("10.7.0.{number}"), &[("TPU", 4.0)]);
        let nodes = [alive(1), alive(2), alive(4)];
        let vms = vec![
            made("whole", VmState::Ready, &["10.7.0.1", "10.7.0.2"]),
            // Its second host was never created, or was removed.
            made("half", VmState::Ready, &["10.7.0.4", ""]),
            made("taken", VmState::Preempted, &["10.7.0.5", "10.7.0.6"]),
            made("queued", VmState::Waiting, &[]),
        ];
        let cloud = CloudView { vms, complete: true, queried: NOW, ..CloudView::default() };
        let rows = reconcile("c", &cloud, Some(&nodes), NOW);
        let actual: Vec<_> = rows.iter().map(|r| (r.name.raw(), r.status, r.hosts, r.chips)).collect();
        let expected = [
            ("half", TpuStatus::Incomplete, (2, 1), 8),
            ("taken", TpuStatus::Preempted, (2, 0), 8),
            ("queued", TpuStatus::Waiting, (0, 0), 8),
            ("whole", TpuStatus::Registered, (2, 2), 8),
        ];
        assert_eq!(actual, expected);
        let chips = chips_by_generation(&rows)["tpu7x"];
        assert_eq!(chips, Chips { held: 16, in_ray: 12, waiting: 8, ..Chips::default() });
        // An address that may belong to an instance is not a ghost.
        let unlisted = CloudView { vms: Vec::new(), unlisted: Some("refused".into()), ..cloud };
        assert!(reconcile("c", &unlisted, Some(&nodes), NOW).is_empty());
    }

    #[test]
    fn another_clusters_machines_are_not_ours_and_a_manual_worker_is() {
        let mut other = vm("ray-d-worker-1-tpu", "v4-8", VmState::Preempted, &["10.0.0.8"], 100);
        other.ray_cluster = Some(Text::new("d"));
        let mut manual = vm("ray-worker-manual-7", "v4-8", VmState::Ready, &["10.0.0.2"], 100);
        manual.ray_cluster = None;
        let own = vm("ray-c-worker-1-tpu", "v4-8", VmState::Ready, &["10.0.0.3"], 100);
        let nodes = [node(1, "10.0.0.2", &[("TPU", 4.0)]), node(2, "10.0.0.3", &[("TPU", 4.0)])];
        let cloud = CloudView { vms: vec![other, manual, own], complete: true, ..CloudView::default() };
        let rows = reconcile("c", &cloud, Some(&nodes), NOW);
        let kept: Vec<_> = rows.iter().map(|r| (r.name.raw(), r.keeper)).collect();
        assert_eq!(
            kept,
            [("ray-c-worker-1-tpu", ManagedBy::Autoscaler), ("ray-worker-manual-7", ManagedBy::Manual)]
        );
        assert_eq!(chips_of(&rows, TpuStatus::Registered), 8);
    }

    #[test]
    fn a_tpu_that_google_terminated_was_not_preempted() {
        let gone = |name: &str, state, word: &str| TpuVm {
            api_state: word.into(),
            ..vm(name, "v4-8", state, &["10.0.0.2"], 100)
        };
        let vms = vec![
            gone("ended", VmState::Terminated, "TERMINATED"),
            gone("taken", VmState::Preempted, "PREEMPTED"),
        ];
        let cloud = CloudView { vms, complete: true, ..CloudView::default() };
        let rows = reconcile("c", &cloud, Some(&[]), NOW);
        let notes: Vec<_> = rows.iter().map(|r| (r.status, r.note.as_ref().map(Text::raw))).collect();
        assert_eq!(notes, [(TpuStatus::HoldsQuota, None), (TpuStatus::Terminated, None)]);
        let chips = chips_by_generation(&rows)["v4"];
        assert_eq!((chips.holds_quota, chips.terminated), (8, 4));
        assert_eq!(chips.text("v4", true), "v4 8 chips, 0 in Ray, 4 preempted, 4 terminated");
    }

    #[test]
    fn a_tpu_that_waited_for_capacity_has_time_to_join() {
        let waited = |name: &str, started: i64| TpuVm {
            started: Some(ago(started)),
            ..vm(name, "v6e-8", VmState::Ready, &["10.0.0.2", "10.0.0.3"], 300)
        };
        let nodes = [node(1, "10.0.0.2", &[("TPU", 4.0)])];
        let status = |vm: TpuVm| table(vec![vm], Vec::new(), &nodes)[0].1;
        assert_eq!(status(waited("booted", 5)), TpuStatus::Joining);
        assert_eq!(status(waited("late", 16)), TpuStatus::Incomplete);
    }

    #[test]
    fn the_chips_of_a_request_for_several_slices_are_all_counted() {
        let mut many = request("q", QueuedState::Waiting, "n-0");
        many.nodes.push("n-1".into());
        let queued = vec![many, request("one", QueuedState::Waiting, "n")];
        let cloud = CloudView { queued, complete: true, ..CloudView::default() };
        let rows = reconcile("c", &cloud, Some(&[]), NOW);
        let chips: Vec<_> = rows.iter().map(|row| (row.name.raw(), row.chips)).collect();
        assert_eq!(chips, [("one", 64), ("q", 128)]);
    }

    #[test]
    fn a_preempted_tpu_without_a_label_is_ours_only_while_no_other_has_its_address() {
        let old = TpuVm { ray_cluster: None, ..vm("old", "v4-8", VmState::Preempted, &["10.0.0.2"], 100) };
        let new = vm("new", "v4-8", VmState::Ready, &["10.0.0.2"], 50);
        let nodes = [node(1, "10.0.0.2", &[("TPU", 4.0)])];
        let names = |vms| table(vms, Vec::new(), &nodes).into_iter().map(|(name, status, _)| (name, status));
        let both: Vec<_> = names(vec![old.clone(), new]).collect();
        assert_eq!(both, [("new".to_owned(), TpuStatus::Registered)]);
        let alone: Vec<_> = names(vec![old]).collect();
        assert_eq!(alone, [("old".to_owned(), TpuStatus::Ghost)]);
    }

    #[test]
    fn a_partial_response_creates_no_ghosts() {
        let nodes = [node(1, "10.0.0.2", &[("TPU", 4.0)])];
        let cloud = CloudView::default();
        assert!(reconcile("c", &cloud, Some(&nodes), NOW).is_empty());
        assert_eq!(
            reconcile(
                "c",
                &CloudView { complete: true, unlisted: None, queried: NOW, ..cloud },
                Some(&nodes),
                NOW
            )
            .len(),
            1
        );
    }
    #[test]
    fn a_node_that_registered_after_the_request_to_google_is_not_a_ghost() {
        let nodes = [node(1, "10.0.0.2", &[("TPU", 4.0)])];
        let cloud = CloudView { complete: true, unlisted: None, queried: ago(61), ..CloudView::default() };
        assert!(reconcile("c", &cloud, Some(&nodes), NOW).is_empty());
    }

    #[test]
    fn an_address_that_was_given_to_another_machine_creates_no_ghost() {
        let vms = vec![
            vm("old", "v4-8", VmState::Preempted, &["10.0.0.2"], 100),
            vm("new", "v4-8", VmState::Ready, &["10.0.0.2"], 50),
        ];
        let wanted = [("old", TpuStatus::HoldsQuota, (1, 0)), ("new", TpuStatus::Registered, (1, 1))];
        let nodes = [node(1, "10.0.0.2", &[("TPU", 4.0)])];
        assert_eq!(table(vms, Vec::new(), &nodes), wanted.map(|(n, s, h)| (n.to_owned(), s, h)));
    }

    #[test]
    fn a_node_on_another_clusters_machine_is_not_a_ghost() {
        let mut borrowed = vm("b", "v4-8", VmState::Ready, &["10.0.0.2"], 100);
        borrowed.ray_cluster = Some(Text::new("d"));
        assert!(table(vec![borrowed], Vec::new(), &[node(1, "10.0.0.2", &[("TPU", 4.0)])]).is_empty());
    }

    #[test]
    fn without_a_response_from_ray_only_googles_state_is_shown() {
        let vms = vec![
            vm("up", "v4-16", VmState::Ready, &["10.0.0.2", "10.0.0.3"], 100),
            vm("leak", "v4-8", VmState::Preempted, &["10.0.0.4"], 100),
        ];
        let cloud = CloudView { vms, complete: true, unlisted: None, queried: NOW, ..CloudView::default() };
        let rows = reconcile("c", &cloud, None, NOW);
        let actual: Vec<_> = rows.iter().map(|r| (r.name.raw(), r.status, r.missing.len())).collect();
        assert_eq!(actual, [("leak", TpuStatus::HoldsQuota, 0), ("up", TpuStatus::Up, 0)]);
    }
}
