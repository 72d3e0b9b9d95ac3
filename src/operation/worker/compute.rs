//! Requests for workers whose TPU is created with Compute Engine, because Google offers it only there or the cluster
//! file describes it as a machine. `contributing.md` names the sources of their format.

use super::super::failure;
use super::launch::labels;
use crate::config::{CapacityField, NodeLaunch};
use crate::gcp::{Part, PartKind, TpuLocation, created_for, queued_resource};
use crate::model::cloud::Capacity;
use crate::model::machine_type::TpuMachine;
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{ClusterSpec, Problem};
use serde_json::{Map, Value, json};

/// Google's images for TPUs on Compute Engine, by the prefix of the machine type.
const IMAGES: [(&str, &str); 3] = [
    ("ct5p-", "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"),
    ("ct6e-", "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"),
    ("tpu7x-", "ubuntu-accel-2404-amd64-tpu-tpu7x"),
];
/// The topologies of `TPU7x` slices of more than one host, by their chips.
const TPU7X: [(u32, &str); 6] =
    [(8, "2x2x2"), (16, "2x2x4"), (32, "2x4x4"), (64, "4x4x4"), (128, "4x4x8"), (256, "4x8x8")];
/// The boot disk in gigabytes: that of a Cloud TPU VM, which is large enough for the image of a worker.
const DISK: &str = "100";
/// Maximum length of `baseInstanceName`, after which a group adds a suffix.
const GROUP_NAME: usize = 58;
/// Seven days, the maximum run time of a flex-start machine.
const MAX_RUN_SECONDS: u64 = 604_800;
/// Keys of a `node_config` that belong to Cloud TPU, and those that are set here.
const OWN: [&str; 12] = [
    "acceleratorType",
    "acceleratorConfig",
    "runtimeVersion",
    "networkConfig",
    "serviceAccount",
    "schedulingConfig",
    "scheduling",
    "machineType",
    "metadata",
    "labels",
    "tags",
    "disks",
];

/// The request for one worker: its parts in the order of their creation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComputeRequest {
    /// Name of the worker, and of each part.
    pub name: String,
    /// Accelerator type of the slice.
    pub accelerator: String,
    pub capacity: Capacity,
    pub parts: Vec<Part>,
}

/// The machines of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape<'a> {
    machine: &'a str,
    hosts: usize,
    /// Used only for a slice of several hosts.
    topology: String,
}

/// The accelerator type of a node type whose TPU is created with Compute Engine; `None` for any other, and for an
/// unknown one.
pub(super) fn accelerator(config: &Value) -> Option<String> {
    let Shape { machine, hosts, .. } = shape(config).ok()??;
    Some(TpuMachine::parse(machine)?.slice(hosts))
}

/// The machines that a `node_config` describes; `None` if it is not for Compute Engine or has no TPU.
fn shape(config: &Value) -> Result<Option<Shape<'_>>, Problem> {
    let accelerator = config["acceleratorType"].as_str().unwrap_or_default();
    let topology = config["acceleratorConfig"]["topology"].as_str();
    let given = config["machineType"].as_str().and_then(|url| url.rsplit('/').next());
    let (machine, chips) = match (accelerator.strip_prefix("tpu7x-"), given) {
        (Some(cores), _) => ("tpu7x-standard-4t", cores.parse::<u32>().ok().map(|cores| cores / 2)),
        (None, Some(machine)) if accelerator.is_empty() => (machine, topology.map_or(Some(0), volume)),
        _ => return Ok(None),
    };
    let Some(tpu) = TpuMachine::parse(machine) else { return Ok(None) };
    let known = |chips: u32| TPU7X.iter().find(|(known, _)| machine.starts_with("tpu7x-") && *known == chips);
    let unknown = || {
        let what = format!(
            "no known slice of {} for {}",
            printable(machine),
            printable(topology.unwrap_or(accelerator))
        );
        failure(what, "set its topology in `node_config`: `acceleratorConfig: {topology: 2x2x4}`")
    };
    let chips = match chips {
        Some(0) if accelerator.is_empty() && topology.is_none() => tpu.chips,
        Some(chips) if chips > 0 && chips % tpu.chips == 0 => chips,
        _ => return Err(unknown()),
    };
    let hosts = (chips / tpu.chips) as usize;
    let topology = match topology {
        Some(topology) if volume(topology) == Some(chips) => topology.to_owned(),
        Some(_) => return Err(unknown()),
        None if hosts == 1 => String::new(),
        None => known(chips).ok_or_else(unknown)?.1.to_owned(),
    };
    Ok(Some(Shape { machine, hosts, topology }))
}

/// The chips of a topology such as `2x2x4`.
fn volume(topology: &str) -> Option<u32> {
    topology.split('x').try_fold(1u32, |all, side| all.checked_mul(side.parse().ok()?))
}

/// The request for a worker of this name; `None` if Cloud TPU creates its TPU. `field` requests the capacity; its
/// placeholders are filled in.
pub(super) fn plan(
    location: &TpuLocation,
    spec: &ClusterSpec,
    (kind, node, script): (&str, &NodeLaunch, &str),
    field: &CapacityField,
    name: &str,
) -> Result<Option<ComputeRequest>, Problem> {
    let Some(shape) = shape(&node.config)? else { return Ok(None) };
    let Some(tpu) = TpuMachine::parse(shape.machine) else { return Ok(None) };
    let (capacity, scheduled) = scheduling(&node.config, field)?;
    let mut properties = machine(location, spec, (kind, node, script));
    properties.extend(scheduled);
    let whole = shape.hosts > 1;
    properties.insert("disks".into(), disks(location, &node.config, shape.machine, whole)?);
    let made = created_for(&location.cluster);
    let part = |kind, body| Part { kind, name: name.to_owned(), body };
    let parts = if whole {
        if name.len() > GROUP_NAME {
            let what = format!("the name {name} is too long for an instance group");
            return Err(failure(what, format!("use at most {GROUP_NAME} characters")));
        }
        properties.insert("machineType".into(), shape.machine.into());
        let policy = json!({"type": "HIGH_THROUGHPUT", "acceleratorTopology": shape.topology});
        let group = json!({
            "name": name, "description": made, "baseInstanceName": name, "targetSize": shape.hosts,
            "instanceTemplate": PartKind::InstanceTemplate.address(location, name),
            "targetSizePolicy": {"mode": "BULK"},
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
            "resourcePolicies": {"workloadPolicy": PartKind::WorkloadPolicy.address(location, name)},
        });
        vec![
            part(
                PartKind::WorkloadPolicy,
                json!({"name": name, "description": made, "workloadPolicy": policy}),
            ),
            part(
                PartKind::InstanceTemplate,
                json!({"name": name, "description": made, "properties": properties}),
            ),
            part(PartKind::InstanceGroup, group),
        ]
    } else {
        let machine = format!("zones/{}/machineTypes/{}", location.zone, shape.machine);
        properties.insert("machineType".into(), machine.into());
        properties.insert("name".into(), name.into());
        properties.insert("description".into(), made.into());
        vec![part(PartKind::Instance, properties.into())]
    };
    let accelerator = tpu.slice(shape.hosts);
    Ok(Some(ComputeRequest { name: name.to_owned(), accelerator, capacity, parts }))
}

/// How the machines are scheduled: `scheduling` and `reservationAffinity`.
fn scheduling(config: &Value, field: &CapacityField) -> Result<(Capacity, Map<String, Value>), Problem> {
    let capacity = queued_resource(&json!(field.field)).capacity;
    let mut scheduling = json!({"onHostMaintenance": "TERMINATE", "automaticRestart": false});
    let mut affinity = config["reservationAffinity"].clone();
    match capacity {
        Capacity::Spot | Capacity::Preemptible => {
            scheduling["provisioningModel"] = "SPOT".into();
            scheduling["instanceTerminationAction"] = "STOP".into();
        }
        Capacity::Reserved => {
            scheduling["provisioningModel"] = "RESERVATION_BOUND".into();
            scheduling["instanceTerminationAction"] = "DELETE".into();
            let named = field.field.get("reservationName").and_then(Value::as_str).unwrap_or_default();
            let is_named = !named.is_empty() && !named.ends_with("/-");
            if affinity.is_null() && !is_named {
                let hint = "set it in `node_config`: `reservationAffinity: {consumeReservationType: \
                            SPECIFIC_RESERVATION, key: compute.googleapis.com/reservation-name, values: [NAME]}`; \
                            `gcloud compute reservations list` shows the names";
                return Err(failure("Compute Engine requires the name of the reservation", hint));
            }
            if affinity.is_null() {
                affinity = json!({"consumeReservationType": "SPECIFIC_RESERVATION",
                    "key": "compute.googleapis.com/reservation-name", "values": [reservation(named)]});
            }
        }
        Capacity::FlexStart => {
            scheduling["provisioningModel"] = "FLEX_START".into();
            scheduling["instanceTerminationAction"] = "DELETE".into();
            scheduling["maxRunDuration"] = json!({"seconds": seconds(field)?.to_string()});
            affinity = json!({"consumeReservationType": "NO_RESERVATION"});
        }
        Capacity::OnDemand => scheduling["provisioningModel"] = "STANDARD".into(),
        Capacity::BestEffort => {
            let what = "Compute Engine has no best-effort capacity";
            return Err(failure(what, "use another capacity type: `--capacity preemptible`"));
        }
    }
    let mut all = Map::new();
    all.insert("scheduling".to_owned(), scheduling);
    if !affinity.is_null() {
        all.insert("reservationAffinity".to_owned(), affinity);
    }
    Ok((capacity, all))
}

/// The name of a reservation at Compute Engine; Cloud TPU's name contains a location.
fn reservation(named: &str) -> String {
    let parts: Vec<&str> = named.split('/').collect();
    match parts.as_slice() {
        ["projects", project, .., name] => format!("projects/{project}/reservations/{name}"),
        _ => named.to_owned(),
    }
}

/// `runDuration.maxRunDuration` of the field in seconds, [`MAX_RUN_SECONDS`] without one. It is a `google-duration` of
/// whole seconds: `86400s`.
fn seconds(field: &CapacityField) -> Result<u64, Problem> {
    let Some(given) = field.field.get("runDuration").map(|run| &run["maxRunDuration"]) else {
        return Ok(MAX_RUN_SECONDS);
    };
    let seconds = given.as_str().and_then(|text| text.strip_suffix('s')?.parse().ok());
    seconds.ok_or_else(|| {
        let what = format!("`maxRunDuration: {}` is not a number of seconds", printable(&given.to_string()));
        failure(what, "write it in `tpu_capacity` of the settings as e.g. `86400s`")
    })
}

/// The properties that instances and templates have in common: the type's `node_config`, in the terms of either API.
fn machine(
    location: &TpuLocation,
    spec: &ClusterSpec,
    (kind, node, script): (&str, &NodeLaunch, &str),
) -> Map<String, Value> {
    let config = &node.config;
    let rest = config.as_object().into_iter().flatten().filter(|(key, _)| !OWN.contains(&key.as_str()));
    let mut all: Map<String, Value> = sort::collected(rest.map(|(key, value)| (key.clone(), value.clone())));
    all.insert("labels".into(), labels(spec, kind, config).into());
    let mut metadata = node.metadata();
    metadata.insert("startup-script".to_owned(), script.to_owned());
    let items: Vec<Value> = metadata.iter().map(|(k, v)| json!({"key": k, "value": v})).collect();
    all.insert("metadata".into(), json!({ "items": items }));
    all.entry("serviceAccounts").or_insert_with(|| {
        let account = &config["serviceAccount"];
        let scope = "https://www.googleapis.com/auth/cloud-platform";
        let scopes = if account["scope"].is_null() { json!([scope]) } else { account["scope"].clone() };
        json!([{"email": account["email"].as_str().unwrap_or("default"), "scopes": scopes}])
    });
    all.entry("networkInterfaces").or_insert_with(|| json!([interface(location, spec, config)]));
    match &config["tags"] {
        Value::Null => {}
        Value::Array(tags) => drop(all.insert("tags".into(), json!({ "items": tags }))),
        tags => drop(all.insert("tags".into(), tags.clone())),
    }
    all
}

/// The network interface, from Cloud TPU's `networkConfig` if there is one.
fn interface(location: &TpuLocation, spec: &ClusterSpec, config: &Value) -> Value {
    let given = &config["networkConfig"];
    let address = |key: &str, path: &str| {
        let name = given[key].as_str()?;
        let full = || format!("projects/{}/{path}/{name}", location.project);
        Some(if name.contains('/') { name.to_owned() } else { full() })
    };
    let subnetwork = address("subnetwork", &format!("regions/{}/subnetworks", location.region()));
    let network = address("network", "global/networks");
    let mut card = json!({});
    if let Some(subnetwork) = &subnetwork {
        card["subnetwork"] = subnetwork.as_str().into();
    }
    if network.is_some() || subnetwork.is_none() {
        let usual = || format!("projects/{}/global/networks/default", location.project);
        card["network"] = network.unwrap_or_else(usual).into();
    }
    if given["enableExternalIps"].as_bool().unwrap_or(!spec.google.internal_ips) {
        card["accessConfigs"] = json!([{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]);
    }
    card
}

/// The disks of the `node_config`, or Google's image for that machine. A template has the name of a disk's type, an
/// instance its URL.
fn disks(location: &TpuLocation, config: &Value, machine: &str, template: bool) -> Result<Value, Problem> {
    if let Some(own) = config["disks"].as_array() {
        let mut own = own.clone();
        for disk in &mut own {
            let given = disk["initializeParams"]["diskType"].as_str();
            let Some(bare) = given.and_then(|given| given.rsplit('/').next()) else { continue };
            let named = if template {
                bare.to_owned()
            } else {
                format!("projects/{}/zones/{}/diskTypes/{bare}", location.project, location.zone)
            };
            disk["initializeParams"]["diskType"] = named.into();
        }
        return Ok(own.into());
    }
    let Some((_, family)) = IMAGES.iter().find(|(family, _)| machine.starts_with(family)) else {
        let what = format!("no known image for {}", printable(machine));
        let hint = "set it in `node_config`: `disks: [{boot: true, autoDelete: true, initializeParams: \
                    {diskSizeGb: 100, sourceImage: ADDRESS}}]`";
        return Err(failure(what, hint));
    };
    let image = format!("projects/ubuntu-os-accelerator-images/global/images/family/{family}");
    Ok(json!([{"boot": true, "autoDelete": true,
        "initializeParams": {"sourceImage": image, "diskSizeGb": DISK}}]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(field: &Value) -> CapacityField {
        serde_json::from_value(json!({"api": "v2", "field": field})).unwrap()
    }

    #[test]
    fn a_slice_is_identified_by_its_type_or_by_machine_and_topology() {
        let tpu7x = |n: u32| json!({"acceleratorType": format!("tpu7x-{n}")});
        let machine = |machine: &str, topology: &str| {
            json!({"machineType": format!("zones/z/machineTypes/{machine}"),
                "acceleratorConfig": {"topology": topology}})
        };
        for (config, accelerator, topology) in [
            (tpu7x(8), "tpu7x-8", ""),
            (tpu7x(16), "tpu7x-16", "2x2x2"),
            (tpu7x(512), "tpu7x-512", "4x8x8"),
            (
                json!({"acceleratorType": "tpu7x-1024", "acceleratorConfig": {"topology": "8x8x8"}}),
                "tpu7x-1024",
                "8x8x8",
            ),
            (json!({"machineType": "ct6e-standard-8t"}), "v6e-8", ""),
            (machine("ct6e-standard-4t", "4x4"), "v6e-16", "4x4"),
            (machine("ct5p-hightpu-4t", "2x2x1"), "v5p-8", "2x2x1"),
            (machine("ct5p-hightpu-4t", "2x2x4"), "v5p-32", "2x2x4"),
        ] {
            assert_eq!(super::accelerator(&config).as_deref(), Some(accelerator), "{config}");
            assert_eq!(shape(&config).unwrap().unwrap().topology, topology, "{config}");
        }
        for cloud_tpu in [
            json!({"acceleratorType": "v5p-16"}),
            json!({"acceleratorType": "v6e-8", "machineType": "ct6e-standard-8t"}),
            json!({"acceleratorConfig": {"type": "V4", "topology": "2x2x4"}}),
            json!({"machineType": "n2-standard-8"}),
            Value::Null,
        ] {
            assert_eq!(shape(&cloud_tpu).unwrap(), None, "{cloud_tpu}");
        }
        for odd in [
            tpu7x(24),
            tpu7x(4),
            json!({"acceleratorType": "tpu7x-"}),
            json!({"acceleratorType": "tpu7x-99999999999"}),
            json!({"acceleratorType": "tpu7x-16", "acceleratorConfig": {"topology": "2x2x4"}}),
            machine("ct6e-standard-4t", "3x3"),
            machine("ct6e-standard-4t", "0x4"),
            machine("ct6e-standard-4t", "65536x65536x65536"),
            machine("ct6e-standard-4t", ""),
        ] {
            let problem = shape(&odd).unwrap_err();
            assert!(problem.hint.to_string().contains("acceleratorConfig"), "{odd}: {problem:?}");
            assert_eq!(super::accelerator(&odd), None);
        }
    }

    #[test]
    fn capacity_is_requested_as_configured() {
        let requested = |config: &Value, capacity: &Value| {
            let (capacity, all) = scheduling(config, &field(capacity)).map_err(|p| p.what)?;
            let affinity = all.get("reservationAffinity").cloned().unwrap_or_default();
            Ok::<_, String>((capacity, all["scheduling"].clone(), affinity))
        };
        let (capacity, spot, affinity) = requested(&Value::Null, &json!({"spot": {}})).unwrap();
        assert_eq!((capacity, &affinity), (Capacity::Spot, &Value::Null));
        assert_eq!(
            spot,
            json!({"onHostMaintenance": "TERMINATE", "automaticRestart": false,
            "provisioningModel": "SPOT", "instanceTerminationAction": "STOP"})
        );
        let named = json!({"reservationName": "projects/p/locations/z/reservations/mine"});
        let (_, reserved, affinity) = requested(&Value::Null, &named).unwrap();
        assert_eq!(reserved["provisioningModel"], "RESERVATION_BOUND");
        assert_eq!(affinity["values"], json!(["projects/p/reservations/mine"]));
        let any = json!({"reservationName": "projects/p/locations/z/reservations/-"});
        assert!(requested(&Value::Null, &any).unwrap_err().contains("name of the reservation"));
        let own = json!({"reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name", "values": ["theirs"]}});
        let (_, _, affinity) = requested(&own, &any).unwrap();
        assert_eq!(affinity, own["reservationAffinity"]);
        let flex = |run: Value| {
            let mut all = json!({"provisioningModel": "FLEX_START"});
            all["runDuration"] = run;
            requested(&own, &all)
        };
        let (capacity, limited, affinity) = flex(json!({"maxRunDuration": "3600s"})).unwrap();
        assert_eq!(
            (capacity, &limited["maxRunDuration"]),
            (Capacity::FlexStart, &json!({"seconds": "3600"}))
        );
        assert_eq!(affinity, json!({"consumeReservationType": "NO_RESERVATION"}));
        let (_, longest, _) = requested(&own, &json!({"provisioningModel": "FLEX_START"})).unwrap();
        assert_eq!(longest["maxRunDuration"], json!({"seconds": "604800"}));
        for odd in [json!("6h"), json!("3600"), json!(3600), Value::Null] {
            let why = flex(json!({ "maxRunDuration": odd })).unwrap_err();
            assert!(why.contains("is not a number of seconds"), "{why}");
        }
        let (capacity, usual, _) = requested(&Value::Null, &json!({"guaranteed": {}})).unwrap();
        assert_eq!((capacity, &usual["provisioningModel"]), (Capacity::OnDemand, &json!("STANDARD")));
        assert!(requested(&Value::Null, &json!({"bestEffort": {}})).unwrap_err().contains("no best-effort"));
    }
}
