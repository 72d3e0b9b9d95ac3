//! TPUs that were created with Compute Engine: single instances, and managed instance groups. A group's instances are
//! the hosts of one slice if the group has a workload policy, which names the topology; otherwise each is a slice of
//! one host. `contributing.md` names the sources.

use super::compute::{Page, is_address, is_url_part, last_part, time};
use super::{GcpError, Google};
use crate::model::cloud::{Capacity, ComputeTpu, TpuVm, VmState};
use crate::model::machine_type::TpuMachine;
use crate::model::sort;
use crate::model::{Text, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// A regular expression over the machine type's URL, in the syntax of Compute Engine's filters (RE2, the whole field).
const TPU_MACHINES: &str = "machineType eq .*/machineTypes/(ct|tpu)[0-9].*";

/// A TPU of Compute Engine, and its label `ray-node-type`.
pub(super) struct Found {
    pub vm: TpuVm,
    pub role: Option<String>,
    /// The group that may have resize requests, as its path below the project, and its machine type; only with the
    /// first TPU of a group.
    pub queue: Option<(String, String)>,
}

/// An instance, or the template of a group's instances.
struct Machine {
    id: String,
    name: String,
    /// Its machine type.
    kind: String,
    state: VmState,
    /// The state as Compute Engine returned it; empty for an instance that does not exist yet.
    api_state: String,
    internal: Option<String>,
    external: Option<String>,
    capacity: Capacity,
    created: Option<Timestamp>,
    started: Option<Timestamp>,
    cluster: Option<String>,
    role: Option<String>,
    ray_type: Option<String>,
}

impl Google {
    /// Every TPU of a zone (`-` for all) that was created with Compute Engine; an error when the list may be
    /// incomplete.
    pub(super) async fn compute_tpus(&self, project: &str, zone: &str) -> Result<Vec<Found>, GcpError> {
        let base = format!("{}/compute/v1/projects/{project}", self.inner.endpoints.compute);
        let partial = ("returnPartialSuccess", "true");
        // Before the instances: a group that has created them meanwhile would look like one that creates none.
        let url = format!("{base}/aggregated/instanceGroupManagers");
        let groups = self.inner.pages::<Page>(&url, &[partial]).await?;
        let filter = [("filter", TPU_MACHINES), partial];
        let url = format!("{base}/aggregated/instances");
        let instances = match self.inner.pages::<Page>(&url, &filter).await {
            // The filter only saves reading the project's other machines.
            Err(GcpError::Refused { code: 400, .. }) => self.inner.pages::<Page>(&url, &[partial]).await?,
            instances => instances?,
        };
        let unreachable = instances.iter().chain(&groups).flat_map(|p| &p.unreachables);
        if let Some(location) = unreachable.map(|p| last_part(p)).find(|location| is_within(zone, location)) {
            let message = format!("the list of instances is incomplete: {location} was unreachable");
            return Err(GcpError::Refused { code: 200, message });
        }
        let mut members: BTreeMap<String, Vec<Machine>> = BTreeMap::new();
        let mut found = Vec::new();
        let in_zone = |i: &&Value| zone == "-" || last_part(text_of(&i["zone"])) == zone;
        for one in instances.iter().flat_map(|p| p.items.values()).flat_map(|s| &s.instances).filter(in_zone)
        {
            let Some(machine) = instance(one) else { continue };
            match group_of(one) {
                Some(group) => members.entry(group).or_default().push(machine),
                None => found.push(single(&machine, None)),
            }
        }
        let listed = groups.iter().flat_map(|p| p.items.values()).flat_map(|s| &s.instance_group_managers);
        for group in listed {
            let Some(path) = group_path(group) else { continue };
            let mut machines = members.remove(&path).unwrap_or_default();
            sort::by(&mut machines, |a, b| a.name.cmp(&b.name));
            let makes = group["targetSize"].as_u64().unwrap_or(0) > 0 && group["status"]["isStable"] == false;
            if machines.is_empty() {
                if makes && may_be_in(group, zone) {
                    found.extend(self.waiting(group, path).await?);
                }
            } else if is_slice(group) {
                let queue = queue(group, &path, &machines[0]);
                found.push(Found { queue, ..slice(group, path, &machines) });
            } else {
                let at = found.len();
                found.extend(machines.iter().map(|machine| single(machine, Some(path.clone()))));
                found[at].queue = queue(group, &path, &machines[0]);
            }
        }
        // Instances of a group that was not listed, because it was just created or deleted.
        for (path, machines) in members {
            found.extend(machines.iter().map(|machine| single(machine, Some(path.clone()))));
        }
        Ok(found)
    }

    /// A group that has no instance yet, as its template describes it; `None` when it creates no TPUs.
    async fn waiting(&self, group: &Value, path: String) -> Result<Option<Found>, GcpError> {
        let template = match self.template(group).await {
            Err(GcpError::NotFound { .. }) => return Ok(None),
            template => template?,
        };
        let Some(machine) = template.as_ref().and_then(|t| machine(t, &group["allInstancesConfig"])) else {
            return Ok(None);
        };
        let size = size(group);
        let hosts = if is_slice(group) { size } else { 1 };
        let Some(tpu) = TpuMachine::parse(&machine.kind) else { return Ok(None) };
        let kind = tpu.slice(hosts);
        let queue = queue(group, &path, &machine);
        let compute =
            ComputeTpu { group: Some(path), whole: true, instances: Vec::new(), chips: tpu.chips_of(size) };
        let name = text_of(&group["name"]).to_owned();
        let created = text_of(&group["creationTimestamp"]);
        let id = text_of(&group["id"]).to_owned();
        let machine = Machine { id, name, created: time(created), state: VmState::Waiting, ..machine };
        let mut found = tpu_vm(&machine, kind, compute);
        (found.vm.hosts, found.vm.external) = (Vec::new(), Vec::new());
        found.vm.unhealthy = group_error(group).map(Text::new);
        found.queue = queue;
        Ok(Some(found))
    }

    /// The properties of the machines that a group creates; none when it has no template.
    pub(super) async fn template(&self, group: &Value) -> Result<Option<Value>, GcpError> {
        let Some((_, path)) = text_of(&group["instanceTemplate"]).split_once("/projects/") else {
            return Ok(None);
        };
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'/' | b'.' | b':' | b'_');
        if !path.bytes().all(is_plain) || path.contains("..") {
            return Ok(None);
        }
        let url = format!("{}/compute/v1/projects/{path}", self.inner.endpoints.compute);
        self.inner.get(&url, &[]).await.map(|template| Some(template["properties"].clone()))
    }
}

/// Whether a group may have resize requests: a zonal group (v1 has none for regional ones) that does not create all of
/// its instances at once.
fn may_have_resize_requests(group: &Value) -> bool {
    !text_of(&group["zone"]).is_empty() && group["targetSizePolicy"]["mode"] != "BULK"
}

/// The path and the machine type of a group, if it may have resize requests.
fn queue(group: &Value, path: &str, machine: &Machine) -> Option<(String, String)> {
    may_have_resize_requests(group).then(|| (path.to_owned(), machine.kind.clone()))
}

pub(super) fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn named(value: &Value) -> Option<String> {
    value.as_str().filter(|s| !s.is_empty()).map(str::to_owned)
}

/// Whether something in `location`, a zone or region, may be in `zone` (`-` for any).
fn is_within(zone: &str, location: &str) -> bool {
    zone == "-" || zone == location || zone.rsplit_once('-').is_some_and(|(region, _)| region == location)
}

/// The path below the project of the managed instance group that created an instance, from the instance's metadata.
pub(super) fn group_of(instance: &Value) -> Option<String> {
    let items = instance["metadata"]["items"].as_array()?;
    let made_by = items.iter().find(|item| item["key"] == "created-by")?;
    let parts: Vec<&str> = text_of(&made_by["value"]).split('/').collect();
    let [.., scope @ ("zones" | "regions"), location, kind @ "instanceGroupManagers", name] =
        parts.as_slice()
    else {
        return None;
    };
    (is_url_part(location) && is_url_part(name)).then(|| format!("{scope}/{location}/{kind}/{name}"))
}

/// The same path for a group as it is listed.
fn group_path(group: &Value) -> Option<String> {
    let (zone, region) = (last_part(text_of(&group["zone"])), last_part(text_of(&group["region"])));
    let (scope, location) = if zone.is_empty() { ("regions", region) } else { ("zones", zone) };
    let name = text_of(&group["name"]);
    (is_url_part(location) && is_url_part(name))
        .then(|| format!("{scope}/{location}/instanceGroupManagers/{name}"))
}

/// A group with a TPU topology has a workload policy (and creates its instances all at once).
pub(super) fn is_slice(group: &Value) -> bool {
    !text_of(&group["resourcePolicies"]["workloadPolicy"]).is_empty()
}

fn size(group: &Value) -> usize {
    group["targetSize"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

/// Whether a group without instances may create them in this zone.
fn may_be_in(group: &Value, zone: &str) -> bool {
    let (own, region) = (last_part(text_of(&group["zone"])), last_part(text_of(&group["region"])));
    if !own.is_empty() {
        return zone == "-" || own == zone;
    }
    let zones = group["distributionPolicy"]["zones"].as_array().map_or(&[][..], Vec::as_slice);
    is_within(zone, region)
        && (zone == "-" || zones.is_empty() || zones.iter().any(|z| last_part(text_of(&z["zone"])) == zone))
}

fn capacity(properties: &Value) -> Capacity {
    let scheduling = &properties["scheduling"];
    match text_of(&scheduling["provisioningModel"]) {
        "SPOT" => Capacity::Spot,
        "FLEX_START" => Capacity::FlexStart,
        "RESERVATION_BOUND" => Capacity::Reserved,
        _ if scheduling["preemptible"] == true => Capacity::Preemptible,
        _ if properties["reservationAffinity"]["consumeReservationType"] == "SPECIFIC_RESERVATION" => {
            Capacity::Reserved
        }
        _ => Capacity::OnDemand,
    }
}

/// An instance with TPUs.
fn instance(value: &Value) -> Option<Machine> {
    let machine = machine(value, &Value::Null)?;
    let card = &value["networkInterfaces"][0];
    // Addresses become arguments of ssh, and the id becomes part of a URL.
    let address = |v: &Value| v.as_str().filter(|a| is_address(a)).map(str::to_owned);
    let id = text_of(&value["id"]);
    let is_spot = matches!(machine.capacity, Capacity::Spot | Capacity::Preemptible);
    Some(Machine {
        id: if id.bytes().all(|b| b.is_ascii_digit()) { id.to_owned() } else { String::new() },
        name: text_of(&value["name"]).to_owned(),
        state: VmState::from_instance(text_of(&value["status"]), is_spot),
        api_state: text_of(&value["status"]).to_owned(),
        internal: address(&card["networkIP"]),
        external: address(&card["accessConfigs"][0]["natIP"]),
        created: time(text_of(&value["creationTimestamp"])),
        started: time(text_of(&value["lastStartTimestamp"])),
        ..machine
    })
}

/// Reads what instances and templates have in common; a group's own properties take precedence over its template's.
fn machine(properties: &Value, config: &Value) -> Option<Machine> {
    let label =
        |key: &str| named(&config["properties"]["labels"][key]).or_else(|| named(&properties["labels"][key]));
    let machine_type = last_part(text_of(&properties["machineType"])).to_owned();
    TpuMachine::parse(&machine_type)?;
    Some(Machine {
        id: String::new(),
        name: String::new(),
        kind: machine_type,
        state: VmState::Unknown,
        api_state: String::new(),
        internal: None,
        external: None,
        capacity: capacity(properties),
        created: None,
        started: None,
        cluster: label("ray-cluster-name"),
        role: label("ray-node-type"),
        ray_type: label("ray-user-node-type"),
    })
}

/// The TPU with the properties of its first machine.
fn tpu_vm(machine: &Machine, accelerator_type: String, compute: ComputeTpu) -> Found {
    let text = |t: &Option<String>| t.as_deref().map(Text::new);
    let vm = TpuVm {
        id: Some(machine.id.as_str()).filter(|id| !id.is_empty()).map(Text::new),
        name: Text::new(machine.name.as_str()),
        accelerator_type: Text::new(accelerator_type),
        state: machine.state,
        api_state: Text::new(machine.api_state.as_str()),
        unhealthy: None,
        hosts: vec![Text::new(machine.internal.as_deref().unwrap_or_default())],
        external: vec![text(&machine.external)],
        capacity: machine.capacity,
        queued_resource: None,
        created: machine.created,
        started: machine.started,
        ray_cluster: text(&machine.cluster),
        ray_type: text(&machine.ray_type),
        compute: Some(compute),
    };
    Found { vm, role: machine.role.clone(), queue: None }
}

/// An instance that is a slice of its own.
fn single(machine: &Machine, group: Option<String>) -> Found {
    let tpu = TpuMachine::parse(&machine.kind);
    let (kind, chips) = tpu.map_or_else(Default::default, |tpu| (tpu.slice(1), tpu.chips));
    let compute = ComputeTpu { group, whole: false, instances: vec![machine.id.clone()], chips };
    tpu_vm(machine, kind, compute)
}

/// A group whose instances are the hosts of one slice.
fn slice(group: &Value, path: String, machines: &[Machine]) -> Found {
    // The caller has at least one.
    let first = &machines[0];
    let size = size(group).max(machines.len());
    let tpu = TpuMachine::parse(&first.kind);
    let (kind, chips) = tpu.map_or_else(Default::default, |tpu| (tpu.slice(size), tpu.chips_of(size)));
    let instances = machines.iter().map(|m| m.id.clone()).collect();
    let mut found = tpu_vm(first, kind, ComputeTpu { group: Some(path), whole: true, instances, chips });
    let vm = &mut found.vm;
    (vm.id, vm.name) = (named(&group["id"]).map(Text::new), Text::new(text_of(&group["name"])));
    vm.created = time(text_of(&group["creationTimestamp"]));
    vm.started = machines.iter().filter_map(|machine| machine.started).max();
    let states: Vec<VmState> = machines.iter().map(|m| m.state).collect();
    let is_deleting = group["currentActions"]["deleting"].as_u64().unwrap_or(0) > 0;
    vm.state = if is_deleting { VmState::Deleting } else { state(&states) };
    // A group has no state of its own: the state of an instance that determines it is shown.
    let deciding = machines.iter().find(|m| m.state == vm.state);
    vm.api_state = Text::new(deciding.map(|m| m.api_state.as_str()).unwrap_or_default());
    let address = |n: usize| machines.get(n).and_then(|m| m.internal.as_deref()).unwrap_or_default();
    vm.hosts = (0..size).map(|n| Text::new(address(n))).collect();
    let external = |n: usize| machines.get(n).and_then(|m| m.external.as_deref()).map(Text::new);
    vm.external = (0..size).map(external).collect();
    let up = states.iter().filter(|s| **s == VmState::Ready).count();
    let part = || (up > 0 && up < size).then(|| format!("{up} of {size} instances are up"));
    vm.unhealthy = group_error(group).or_else(part).map(Text::new);
    // A slice whose instances belong to several clusters belongs to none.
    if machines.iter().any(|m| m.cluster != first.cluster) {
        vm.ray_cluster = None;
        vm.unhealthy = Some("its instances have different ray-cluster-name labels".into());
    }
    if machines.iter().any(|m| m.role != first.role) {
        found.role = None;
    }
    found
}

/// The state of a slice from the states of its hosts: it is gone only when all its hosts are gone.
fn state(hosts: &[VmState]) -> VmState {
    let (any, all) = (|state| hosts.contains(&state), |state| hosts.iter().all(|host| *host == state));
    match () {
        () if all(VmState::Deleting) => VmState::Deleting,
        () if hosts.iter().all(|host| host.is_gone()) => VmState::Preempted,
        () if any(VmState::Starting) => VmState::Starting,
        () if any(VmState::Ready) => VmState::Ready,
        () if any(VmState::Waiting) => VmState::Waiting,
        () if any(VmState::Stopped) || any(VmState::Preempted) => VmState::Stopped,
        () => VmState::Unknown,
    }
}

/// Google's error for a group: it cannot create its instances, or cannot connect them.
fn group_error(group: &Value) -> Option<String> {
    let status = &group["status"];
    let first = |error: &Value| named(&error["errors"][0]["message"]);
    let topology = &status["appliedAcceleratorTopologies"][0];
    let broken = || {
        let state = text_of(&topology["state"]);
        let shape = text_of(&topology["acceleratorTopology"]);
        matches!(state, "FAILED" | "INCOMPLETE").then(|| format!("accelerator topology {shape} is {state}"))
    };
    first(&status["bulkInstanceOperation"]["lastProgressCheck"]["error"])
        .or_else(|| first(&topology["stateDetails"]["error"]))
        .or_else(broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_group_of_an_instance_is_read_from_its_metadata() {
        let made_by =
            |by: &str| group_of(&json!({"metadata": {"items": [{"key": "created-by", "value": by}]}}));
        let zonal = "zones/us-central1-c/instanceGroupManagers/slice";
        assert_eq!(made_by(&format!("projects/123/{zonal}")).as_deref(), Some(zonal));
        let regional = "regions/us-central1/instanceGroupManagers/slice";
        assert_eq!(made_by(&format!("projects/123/{regional}")).as_deref(), Some(regional));
        for other in ["", "a person", "projects/1/zones/../instanceGroupManagers/x", "zones/z/instances/i"] {
            assert_eq!(made_by(other), None, "{other}");
        }
    }

    #[test]
    fn a_slice_is_gone_only_when_all_its_hosts_are_gone() {
        use VmState::{Deleting, Preempted, Ready, Starting, Stopped, Waiting};
        for (hosts, whole) in [
            (vec![Ready, Ready], Ready),
            (vec![Preempted, Preempted], Preempted),
            (vec![Preempted, Ready], Ready),
            (vec![Preempted, Stopped], Stopped),
            (vec![Preempted, Starting], Starting),
            (vec![Waiting, Waiting], Waiting),
            (vec![Deleting, Deleting], Deleting),
        ] {
            assert_eq!(state(&hosts), whole, "{hosts:?}");
        }
    }

    #[test]
    fn a_regional_group_may_be_in_its_zones_only() {
        let regional =
            |zones: Value| json!({"region": "x/regions/us-central1", "distributionPolicy": {"zones": zones}});
        assert!(may_be_in(&regional(Value::Null), "us-central1-c"));
        assert!(may_be_in(&regional(json!([{"zone": "zones/us-central1-c"}])), "us-central1-c"));
        assert!(!may_be_in(&regional(json!([{"zone": "zones/us-central1-a"}])), "us-central1-c"));
        assert!(!may_be_in(&regional(Value::Null), "us-central2-b"));
        assert!(!may_be_in(&json!({"zone": "zones/us-central1-a"}), "us-central1-c"));
    }
}
