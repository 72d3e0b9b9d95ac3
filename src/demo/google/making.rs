//! Compute Engine v1: creation of the resources of a TPU slice: instances, workload policies and instance templates of
//! a region, and managed instance groups. Names are unique, inconsistent resources are rejected, and a resource in use
//! cannot be deleted.

use super::groups::is_name;
use super::zonal::{begin, refusal, scope_of};
use super::{Answer, ApiRequest, State, ok};
use crate::model::machine_type::TpuMachine;
use http::Method;
use serde_json::{Value, json};

/// The images that exist.
const IMAGES: [&str; 3] = [
    "ubuntu-os-accelerator-images/global/images/family/ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e",
    "ubuntu-os-accelerator-images/global/images/family/ubuntu-accel-2404-amd64-tpu-tpu7x",
    "debian-cloud/global/images/family/debian-12",
];

fn list<'a>(state: &'a mut State, kind: &str) -> &'a mut Vec<Value> {
    match kind {
        "resourcePolicies" => &mut state.policies,
        "instanceTemplates" => &mut state.templates,
        "instanceGroupManagers" => &mut state.managers,
        _ => &mut state.instances,
    }
}

fn find(state: &mut State, scope: &str, kind: &str, which: &str) -> Option<usize> {
    list(state, kind).iter().position(|r| scope_of(r) == scope && (r["name"] == which || r["id"] == which))
}

/// Routes requests below `…/regions/R/resourcePolicies` or `…/regions/R/instanceTemplates`; `scope` is `regions/R`.
pub(super) fn of_region(
    request: &ApiRequest,
    state: &mut State,
    (scope, kind): (&str, &str),
    rest: &[&str],
) -> Answer {
    let which = match rest {
        [] if request.method == Method::POST => return insert(request, state, scope, kind),
        [which] => *which,
        _ => return refusal(404, "notFound", "The requested URL was not found on this server."),
    };
    let path = format!("projects/{}/{scope}/{kind}/{which}", state.project);
    let Some(at) = find(state, scope, kind, which) else {
        return refusal(404, "notFound", &format!("The resource '{path}' was not found"));
    };
    match request.method {
        Method::GET => ok(list(state, kind)[at].clone()),
        Method::DELETE => {
            let resource = list(state, kind)[at].clone();
            if let Some(group) = state.managers.iter().find(|g| uses(g, &resource)) {
                let by = group["name"].as_str().unwrap_or_default();
                let message = format!(
                    "The {kind} resource '{path}' is already being used by 'projects/{}/{}/instanceGroupManagers/{by}'",
                    state.project,
                    scope_of(group)
                );
                return refusal(400, "resourceInUseByAnotherResource", &message);
            }
            begin(request, state, "delete", (scope, kind, which), |state| drop(list(state, kind).remove(at)))
        }
        _ => refusal(404, "notFound", "The requested URL was not found on this server."),
    }
}

/// Whether a group uses this template or policy.
fn uses(group: &Value, resource: &Value) -> bool {
    let link = resource["selfLink"].as_str().unwrap_or("none");
    group["instanceTemplate"] == link || group["resourcePolicies"]["workloadPolicy"] == link
}

/// Creates a resource of this kind in a scope (`zones/Z` or `regions/R`) from the request body.
pub(super) fn insert(request: &ApiRequest, state: &mut State, scope: &str, kind: &str) -> Answer {
    let mut body = request.body.clone();
    let Some(name) = body["name"].as_str().filter(|n| is_name(n)).map(str::to_owned) else {
        return refusal(400, "invalid", "Invalid value for field 'resource.name'. Must be a match of regex.");
    };
    let project = state.project.clone();
    if find(state, scope, kind, &name).is_some() {
        let message = format!("The resource 'projects/{project}/{scope}/{kind}/{name}' already exists");
        return refusal(409, "alreadyExists", &message);
    }
    let base = "https://www.googleapis.com/compute/v1";
    let rejection = match kind {
        "resourcePolicies" => policy(&body),
        "instanceTemplates" => machine(&body["properties"], true),
        "instanceGroupManagers" => group(&mut body, state),
        _ => machine(&body, false),
    };
    if let Some(rejection) = rejection {
        return rejection;
    }
    let id = 2_000_000_000_000_000_000_u64 + u64::from(state.next());
    let singular = kind.trim_end_matches('s').replace("Policie", "Policy");
    body["kind"] = json!(format!("compute#{singular}"));
    body["id"] = json!(id.to_string());
    body["creationTimestamp"] = json!("2026-11-21T08:00:00.000-08:00");
    body["selfLink"] = json!(format!("{base}/projects/{project}/{scope}/{kind}/{name}"));
    let scope_key = scope.split('/').next().unwrap_or_default().trim_end_matches('s');
    body[scope_key] = json!(format!("{base}/projects/{project}/{scope}"));
    if kind == "instances" {
        body["status"] = json!("PROVISIONING");
        let machine = body["machineType"].as_str().unwrap_or_default().to_owned();
        body["machineType"] = json!(format!("{base}/projects/{project}/{machine}"));
    }
    let answer = begin(request, state, "insert", (scope, kind, &name), |state| list(state, kind).push(body));
    (answer.0, with_target(answer.1, id, state))
}

/// Adds the id of the new resource to the operation, pending and finished.
fn with_target(mut operation: Value, id: u64, state: &mut State) -> Value {
    operation["targetId"] = json!(id.to_string());
    if let Some((_, finished)) = operation["name"].as_str().and_then(|name| state.operations.get_mut(name)) {
        finished["targetId"] = json!(id.to_string());
    }
    operation
}

fn invalid(field: &str, why: &str) -> Answer {
    refusal(400, "invalid", &format!("Invalid value for field 'resource.{field}': {why}"))
}

fn policy(body: &Value) -> Option<Answer> {
    let policy = &body["workloadPolicy"];
    if policy["type"] != "HIGH_THROUGHPUT" {
        return Some(invalid("workloadPolicy.type", "only HIGH_THROUGHPUT has a topology."));
    }
    chips_of(body).is_none().then(|| invalid("workloadPolicy.acceleratorTopology", "unknown."))
}

/// The number of chips in a policy's topology.
fn chips_of(policy: &Value) -> Option<u64> {
    let topology = policy["workloadPolicy"]["acceleratorTopology"].as_str()?;
    topology.split('x').try_fold(1, |all: u64, side| Some(all * side.parse::<u64>().ok()?))
}

/// The error for an invalid instance, or for invalid properties of a template.
fn machine(body: &Value, is_template: bool) -> Option<Answer> {
    let given = body["machineType"].as_str().unwrap_or_default();
    if given.contains('/') == is_template {
        return Some(invalid("machineType", "The URL is malformed."));
    }
    let Some(disk) = body["disks"].as_array().and_then(|disks| disks.iter().find(|d| d["boot"] == true))
    else {
        return Some(invalid("disks", "A boot disk must be specified."));
    };
    let image = disk["initializeParams"]["sourceImage"].as_str().unwrap_or_default();
    if !IMAGES.iter().any(|known| image.ends_with(&format!("projects/{known}"))) {
        return Some(refusal(404, "notFound", &format!("The resource '{image}' was not found")));
    }
    if !body["networkInterfaces"].is_array() {
        return Some(invalid("networkInterfaces", "At least one network interface is required."));
    }
    let machine = given.rsplit('/').next().unwrap_or_default();
    let scheduling = &body["scheduling"];
    if TpuMachine::parse(machine).is_some() && scheduling["onHostMaintenance"] != "TERMINATE" {
        return Some(invalid("scheduling.onHostMaintenance", "TPUs require TERMINATE."));
    }
    match scheduling["provisioningModel"].as_str() {
        Some("RESERVATION_BOUND")
            if body["reservationAffinity"]["consumeReservationType"] != "SPECIFIC_RESERVATION" =>
        {
            Some(invalid("reservationAffinity", "a reservation must be named."))
        }
        Some("FLEX_START") if scheduling["maxRunDuration"].is_null() => {
            Some(invalid("scheduling.maxRunDuration", "must be set for flex-start."))
        }
        _ => None,
    }
}

/// The error for an invalid group. Expands links to full URLs, as Google does.
fn group(body: &mut Value, state: &State) -> Option<Answer> {
    let whole = |value: &Value| {
        let given = value.as_str().unwrap_or_default();
        let path = given.split_once("projects/").map_or(given, |(_, path)| path);
        json!(format!("https://www.googleapis.com/compute/v1/projects/{path}"))
    };
    let named = |all: &[Value], link: &Value| all.iter().find(|r| r["selfLink"] == *link).cloned();
    let missing =
        |what: &Value| Some(refusal(404, "notFound", &format!("The resource {what} was not found")));
    body["instanceTemplate"] = whole(&body["instanceTemplate"]);
    let Some(template) = named(&state.templates, &body["instanceTemplate"]) else {
        return missing(&body["instanceTemplate"]);
    };
    let size = body["targetSize"].as_u64().unwrap_or(0);
    if !body["resourcePolicies"]["workloadPolicy"].is_null() {
        let link = whole(&body["resourcePolicies"]["workloadPolicy"]);
        body["resourcePolicies"]["workloadPolicy"] = link.clone();
        let Some(policy) = named(&state.policies, &link) else { return missing(&link) };
        let machine = template["properties"]["machineType"].as_str().unwrap_or_default();
        let chips = TpuMachine::parse(machine).map_or(0, |tpu| u64::from(tpu.chips));
        if body["targetSizePolicy"]["mode"] != "BULK" {
            return Some(invalid("targetSizePolicy.mode", "a topology requires BULK."));
        }
        if chips_of(&policy) != Some(size * chips) {
            return Some(invalid("targetSize", "it does not have the chips of the topology."));
        }
    }
    body["currentActions"] = json!({"none": 0, "creating": size, "deleting": 0});
    body["status"] = json!({"isStable": size == 0});
    None
}
