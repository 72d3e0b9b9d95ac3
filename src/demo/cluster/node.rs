//! A simulated node: its resources, their usage, and its death. Its JSON is in `dashboard/nodes`.

use super::super::life::TpuType;
use super::super::random::Random;
use crate::model::{DeathReason, NodeId};
use std::borrow::Cow;
use std::sync::Arc;

/// A kind of TPU slice: the node type of its hosts.
#[derive(Clone, Debug)]
pub(in crate::demo) struct SliceKind {
    /// The autoscaler's node type.
    pub node_type: Cow<'static, str>,
    /// Ray's pod type label.
    pub pod_type: Cow<'static, str>,
    /// Ray's accelerator label.
    pub accelerator: Cow<'static, str>,
    /// Ray's topology label.
    pub topology: Cow<'static, str>,
    pub zone: Cow<'static, str>,
    /// Number of hosts, each with four chips.
    pub hosts: usize,
    /// CPUs of each host.
    pub cpus: f64,
}

/// Chips of each host of a slice.
const CHIPS: f64 = 4.0;

/// The zone of slices without simulated activity.
const ZONE: &str = "us-central2-b";

impl SliceKind {
    /// The slices of a node type of Marin's YAML: four chips and 120 offered CPUs per host.
    pub fn of(tpu: &TpuType, zone: &str) -> Self {
        let (generation, size) =
            tpu.accelerator_type.rsplit_once('-').unwrap_or((&tpu.accelerator_type, "4"));
        let size: usize = size.parse().unwrap_or(4);
        // The number counts TensorCores, two on a chip, up to v5p, and chips in v5e and v6e.
        let flat = matches!(generation, "v5litepod" | "v6e");
        let chips = if flat { size } else { size / 2 }.max(1);
        Self {
            node_type: tpu.name.clone().into(),
            pod_type: tpu.accelerator_type.clone().into(),
            accelerator: format!("TPU-{}", generation.to_uppercase()).into(),
            topology: topology(chips, if flat { 2 } else { 3 }).into(),
            zone: zone.to_owned().into(),
            hosts: chips.div_ceil(4),
            cpus: 120.0,
        }
    }

    /// Whether a host of such a slice, the first one if necessary, has these resources.
    pub fn fits(&self, shape: &[(String, f64)]) -> bool {
        shape.iter().all(|(name, n)| self.amount(name) >= *n)
    }

    /// The amount of a resource on the first host of a slice.
    fn amount(&self, name: &str) -> f64 {
        let is_own = |prefix: &str, suffix: &str, own: &str| {
            name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)) == Some(own)
        };
        match name {
            "CPU" => self.cpus,
            "TPU" => CHIPS,
            "memory" => memory(self.cpus),
            _ if is_own("TPU-", HEAD, &self.pod_type) => 1.0,
            _ if is_own("accelerator_type:", "", &self.accelerator) => 1.0,
            _ => 0.0,
        }
    }
}

/// The end of the name of the resource of a slice's first host, such as `TPU-v4-32-head`.
const HEAD: &str = "-head";

/// Bytes of memory that a host with so many CPUs offers.
fn memory(cpus: f64) -> f64 {
    (cpus * 1.75 * 1024.0 * 1024.0 * 1024.0).round()
}

/// The topology of so many chips in a mesh of two or three dimensions, the smaller ones first: `2x2x4`, `4x8`.
fn topology(chips: usize, sides: usize) -> String {
    let mut mesh = vec![1; sides];
    let mut product = 1;
    for side in [1, 0].into_iter().chain((0..sides).rev().cycle()) {
        if product >= chips {
            break;
        }
        mesh[side] *= 2;
        product *= 2;
    }
    mesh.sort_unstable();
    // A single board has the size 1 last: 2x2x1.
    if mesh[0] == 1 {
        mesh.rotate_left(1);
    }
    mesh.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// The kinds of slices in a simulated cluster, repeated in this order.
pub(in crate::demo) const SLICES: [SliceKind; 4] = [
    SliceKind {
        node_type: Cow::Borrowed("tpu_slice_v5e_16"),
        pod_type: Cow::Borrowed("v5litepod-16"),
        accelerator: Cow::Borrowed("TPU-V5LITEPOD"),
        topology: Cow::Borrowed("4x4"),
        zone: Cow::Borrowed(ZONE),
        hosts: 4,
        cpus: 112.0,
    },
    SliceKind {
        node_type: Cow::Borrowed("tpu_slice_v5p_8"),
        pod_type: Cow::Borrowed("v5p-8"),
        accelerator: Cow::Borrowed("TPU-V5P"),
        topology: Cow::Borrowed("2x2x1"),
        zone: Cow::Borrowed(ZONE),
        hosts: 1,
        cpus: 208.0,
    },
    SliceKind {
        node_type: Cow::Borrowed("tpu_slice_v6e_32"),
        pod_type: Cow::Borrowed("v6e-32"),
        accelerator: Cow::Borrowed("TPU-V6E"),
        topology: Cow::Borrowed("4x8"),
        zone: Cow::Borrowed(ZONE),
        hosts: 8,
        cpus: 180.0,
    },
    SliceKind {
        node_type: Cow::Borrowed("tpu_slice_v4_8"),
        pod_type: Cow::Borrowed("v4-8"),
        accelerator: Cow::Borrowed("TPU-V4"),
        topology: Cow::Borrowed("2x2x1"),
        zone: Cow::Borrowed(ZONE),
        hosts: 1,
        cpus: 240.0,
    },
];

/// Host numbers of one network; those of the next network follow.
const NETWORK: usize = 64_000;
/// The first number of hosts that were added manually, which are in a network of their own, and the numbers per
/// cluster.
const BY_HAND: usize = 125 * NETWORK;
const BY_HAND_EACH: usize = 1000;

/// The number of a cluster's first worker host.
pub(in crate::demo) fn first_host(network: usize) -> usize {
    network % 124 * NETWORK + 1
}

/// The number of a cluster's first host that was added manually.
pub(super) fn first_by_hand(network: usize) -> usize {
    BY_HAND + network % (NETWORK / BY_HAND_EACH) * BY_HAND_EACH
}

/// The address of the host with this number; 0 is the head.
pub(in crate::demo) fn address(number: usize) -> String {
    format!("10.{}.{}.{}", 128 + number / NETWORK % 128, number / 250 % 256, number % 250 + 1)
}

/// How a node ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::demo) struct End {
    /// Milliseconds since the epoch.
    pub at: i64,
    /// Ray's reason.
    pub reason: DeathReason,
    /// Ray's message.
    pub message: &'static str,
}

/// Death reasons with Ray's messages.
pub(in crate::demo) const ENDS: [(DeathReason, &str); 3] = [
    (DeathReason::Unexpected, "health check failed due to missing too many heartbeats"),
    (DeathReason::Expected, "Terminated by autoscaler."),
    (DeathReason::Preempted, "Node was preempted."),
];

/// Time from the end of a machine until the GCS marks its node as dead, in milliseconds; 13 to 14 s in Ray.
pub(in crate::demo) const MISSED: i64 = 13_500;

#[derive(Clone, Debug)]
pub(in crate::demo) struct SimNode {
    /// Ray's id.
    pub id: NodeId,
    /// Address and name.
    pub ip: String,
    pub hostname: String,
    /// The autoscaler's node type.
    pub node_type: Arc<str>,
    /// The provider's id.
    pub instance_id: String,
    /// Whether this is the head.
    pub is_head: bool,
    /// When it registered, in milliseconds since the epoch.
    pub started: i64,
    /// When it became idle, in milliseconds since the epoch; `None` while it is busy.
    pub idle_since: Option<i64>,
    /// How it ended; `None` while it is alive.
    pub end: Option<End>,
    /// Logical resources: name, total, used.
    pub resources: Vec<(String, f64, f64)>,
    /// What tasks use of each of them, in the same order.
    by_tasks: Vec<f64>,
    /// What the entrypoints of jobs hold, by name.
    held: Vec<(String, f64)>,
    pub labels: Vec<(String, String)>,
    /// When the agent last measured, in milliseconds since the epoch; `None` before its first measurement.
    pub sampled: Option<i64>,
    /// Measured CPU usage in percent.
    pub cpu_percent: f64,
    /// Measured memory usage, 0 to 1.
    pub memory_share: f64,
    /// The text of `/nodes?view=summary`, until the next change.
    pub written: Option<String>,
}

impl SimNode {
    /// A head with 32 CPUs.
    pub fn head(random: &mut Random, now: i64) -> Self {
        let mut node = Self::host(random, now, 0, "head", 32.0);
        node.is_head = true;
        node.resources.push(("node:__internal_head__".into(), 1.0, 0.0));
        node
    }

    /// A head as in Marin's clusters: it offers no CPU, but jobs can request its `head_node` resource.
    pub fn head_default(random: &mut Random, now: i64) -> Self {
        let mut node = Self::host(random, now, 0, "head_default", 12.0);
        node.is_head = true;
        node.resources.retain(|r| r.0 != "CPU");
        let own = [("node:__internal_head__".to_owned(), 1.0, 0.0), ("head_node".to_owned(), 1.0, 0.0)];
        node.resources.extend(own);
        node.rest(now);
        node
    }

    /// Host `worker` of the slice `slice`.
    pub fn of_slice(
        random: &mut Random,
        now: i64,
        number: usize,
        kind: &SliceKind,
        slice: &str,
        worker: usize,
    ) -> Self {
        let mut node = Self::host(random, now, number, &kind.node_type, kind.cpus);
        node.instance_id = format!("{slice}-w-{worker}");
        node.hostname = format!("t1v-n-{slice}-w-{worker}");
        node.resources.push(("TPU".into(), CHIPS, 0.0));
        node.resources.push((slice.into(), 1.0, 0.0));
        node.resources.push((format!("accelerator_type:{}", kind.accelerator), 1.0, 0.0));
        if worker == 0 {
            node.resources.push((format!("TPU-{}{HEAD}", kind.pod_type), 1.0, 0.0));
        }
        let labels = [
            ("ray.io/accelerator-type", kind.accelerator.to_string()),
            ("ray.io/availability-zone", kind.zone.to_string()),
            ("ray.io/market-type", "spot".to_owned()),
            ("ray.io/node-group", kind.node_type.to_string()),
            ("ray.io/tpu-pod-type", kind.pod_type.to_string()),
            ("ray.io/tpu-slice-name", slice.to_owned()),
            ("ray.io/tpu-topology", kind.topology.to_string()),
            ("ray.io/tpu-worker-id", worker.to_string()),
        ];
        node.labels.extend(labels.map(|(k, v)| (k.to_owned(), v)));
        node
    }

    fn host(random: &mut Random, now: i64, number: usize, node_type: &str, cpus: f64) -> Self {
        let id = NodeId::from_bytes(&random.bytes::<28>());
        let id = id.unwrap_or_else(|| unreachable!("an array of 28 bytes has 28 bytes"));
        let ip = address(number);
        let memory = memory(cpus);
        Self {
            id,
            hostname: format!("ray-{node_type}-{number}"),
            node_type: node_type.into(),
            instance_id: format!("ray-{node_type}-{number}"),
            is_head: false,
            started: now - (3_600_000 + random.below(86_400_000) as i64),
            idle_since: Some(now - random.below(600_000) as i64),
            end: None,
            resources: vec![
                ("CPU".into(), cpus, 0.0),
                ("memory".into(), memory, 0.0),
                ("object_store_memory".into(), (memory * 0.3).round(), 0.0),
                (format!("node:{ip}"), 1.0, 0.0),
            ],
            by_tasks: Vec::new(),
            held: Vec::new(),
            labels: vec![("ray.io/node-id".into(), id.to_string())],
            sampled: Some(now),
            cpu_percent: cpu(random, false),
            memory_share: 0.25 + 0.3 * random.unit(),
            ip,
            written: None,
        }
    }

    /// Whether it is alive.
    pub fn is_alive(&self) -> bool {
        self.end.is_none()
    }

    /// Whether it has these resources, used or not.
    pub fn has(&self, shape: &[(String, f64)]) -> bool {
        self.offers(shape, |total, _| total)
    }

    /// Whether it has these resources free.
    pub fn has_free(&self, shape: &[(String, f64)]) -> bool {
        self.offers(shape, |total, used| total - used)
    }

    fn offers(&self, shape: &[(String, f64)], left: impl Fn(f64, f64) -> f64) -> bool {
        let amount = |wanted: &str| {
            self.resources
                .iter()
                .find(|(name, ..)| name == wanted)
                .map_or(0.0, |(_, total, used)| left(*total, *used))
        };
        shape.iter().all(|(name, n)| in_units(amount(name)) >= *n)
    }

    /// The resource of the first host of a slice; none on any other node.
    pub fn slice_head(&self) -> Option<&(String, f64, f64)> {
        self.resources.iter().find(|(name, ..)| is_slice_head(name))
    }

    /// Makes the node busy or idle at random: all chips or none, and some CPUs.
    pub fn work(&mut self, random: &mut Random, now: i64) {
        let busy = random.below(4) > 0;
        let share = random.unit();
        self.use_by_tasks(|name, total| match name {
            _ if !busy => 0.0,
            "TPU" => total,
            "CPU" => (total * share).round().max(1.0),
            "memory" => (total * share * 0.5).round(),
            _ => 0.0,
        });
        self.idle_since = if busy { None } else { self.idle_since.or(Some(now)) };
        self.add_up();
    }

    /// Assigns all chips and this many CPUs to a task.
    pub fn train(&mut self, cpus: f64) {
        self.use_by_tasks(|name, total| match name {
            "CPU" => cpus.min(total),
            "memory" => (total * 0.3).round(),
            name if name == "TPU" || is_slice_head(name) => total,
            _ => 0.0,
        });
        self.idle_since = None;
        self.add_up();
    }

    /// Ends all tasks.
    pub fn rest(&mut self, now: i64) {
        self.use_by_tasks(|_, _| 0.0);
        self.idle_since = Some(now);
        self.add_up();
    }

    /// Ends all tasks. Another host of its slice has died, so that no run can use this one: it offers no head resource,
    /// for which runs would wait although it is free.
    pub fn leave_slice(&mut self, now: i64) {
        self.resources.retain(|(name, ..)| !is_slice_head(name));
        self.rest(now);
    }

    fn use_by_tasks(&mut self, part: impl Fn(&str, f64) -> f64) {
        self.by_tasks = self.resources.iter().map(|(name, total, _)| part(name, *total)).collect();
    }

    /// Sets what the entrypoints of jobs hold; of each resource at most what the node offers.
    pub fn hold(&mut self, held: Vec<(String, f64)>, now: i64) {
        if held == self.held {
            return;
        }
        self.held = held;
        self.add_up();
        let is_busy = self.resources.iter().any(|(.., used)| *used > 0.0);
        self.idle_since = if is_busy { None } else { self.idle_since.or(Some(now)) };
    }

    /// Adds to what the entrypoints of jobs hold.
    pub fn hold_also(&mut self, more: Vec<(String, f64)>, now: i64) {
        let mut held = self.held.clone();
        add_amounts(&mut held, more);
        self.hold(held, now);
    }

    /// Adds up what tasks use and entrypoints hold. A node on which an entrypoint holds something is not idle.
    fn add_up(&mut self) {
        self.written = None;
        for (i, (name, total, used)) in self.resources.iter_mut().enumerate() {
            let held: f64 = self.held.iter().filter(|(known, _)| known == name).map(|(_, n)| n).sum();
            *used = in_units(self.by_tasks.get(i).copied().unwrap_or_default() + held).min(*total);
            if held > 0.0 {
                self.idle_since = None;
            }
        }
    }

    /// Measures the machine, as its agent does every five seconds; `is_silent` if its worker hangs.
    pub fn sample(&mut self, random: &mut Random, now: i64, is_silent: bool) {
        self.sampled = Some(now);
        self.cpu_percent = cpu(random, self.idle_since.is_none() && !is_silent);
        self.memory_share = (self.memory_share + random.unit() * 0.02 - 0.01).clamp(0.2, 0.7);
        self.written = None;
    }

    /// Used share of its disk, 0 to 1.
    pub fn disk_share(&self) -> f64 {
        0.15 + 0.7 * self.memory_share
    }

    /// Ends the node.
    pub fn die(&mut self, at: i64, reason: DeathReason, message: &'static str) {
        self.end = Some(End { at, reason, message });
        self.written = None;
    }

    /// Ray's `stateMessage`: the reason and the message.
    pub fn state_message(&self) -> Option<String> {
        let end = self.end?;
        let kind = match end.reason {
            DeathReason::Expected => "Expected termination",
            DeathReason::Unexpected => "Unexpected termination",
            DeathReason::Preempted => "Terminated due to preemption",
            DeathReason::Unspecified => "Terminated",
        };
        Some(format!("{kind}: {}", end.message))
    }
}

/// Adds amounts of resources to others, by name.
pub(super) fn add_amounts(amounts: &mut Vec<(String, f64)>, more: Vec<(String, f64)>) {
    for (name, n) in more {
        match amounts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += n,
            None => amounts.push((name, n)),
        }
    }
}

/// The amount of a resource, rounded to the unit of 0.0001 in which Ray counts.
fn in_units(amount: f64) -> f64 {
    (amount * 1e4).round() / 1e4
}

/// Whether it is the resource of the first host of a slice.
fn is_slice_head(name: &str) -> bool {
    name.starts_with("TPU-") && name.ends_with(HEAD)
}

/// CPU usage of a machine in percent. Busy hosts run the same program, so that their values are similar.
fn cpu(random: &mut Random, is_busy: bool) -> f64 {
    let (least, range) = if is_busy { (58.0, 12.0) } else { (1.0, 2.0) };
    ((least + range * random.unit()) * 10.0).round() / 10.0
}
