//! Cloud TPU v2 and v2alpha1: nodes and queued resources with their long-running operations.

use super::{Answer, ApiRequest, State, not_found, ok, refusal};
use crc32c::crc32c;
use http::Method;
use serde_json::{Value, json};

/// The API version and location of a request.
pub(super) struct TpuParent<'a> {
    /// API version, `v2` or `v2alpha1`.
    pub version: &'a str,
    pub project: &'a str,
    /// The zone; `-` for all zones.
    pub zone: &'a str,
}

impl TpuParent<'_> {
    fn holds(&self, resource: &Value) -> bool {
        let name = resource["name"].as_str().unwrap_or_default();
        let zone = name.split('/').nth(3).unwrap_or_default();
        name.split('/').nth(1) == Some(self.project) && (self.zone == "-" || zone == self.zone)
    }

    fn name(&self, kind: &str, id: &str) -> String {
        format!("projects/{}/locations/{}/{kind}/{id}", self.project, self.zone)
    }
}

/// A node as Cloud TPU returns it.
pub fn node(zone: &str, id: &str, accelerator: &str, state: &str, labels: &Value, ips: &[&str]) -> Value {
    let endpoints: Vec<_> = ips.iter().map(|ip| json!({"ipAddress": ip, "port": 8470})).collect();
    let number = 9_000_000_000_000_000_000_u64 + u64::from(crc32c(format!("{zone}/{id}").as_bytes()));
    json!({"name": format!("projects/{}/locations/{zone}/nodes/{id}", super::PROJECT), "acceleratorType": accelerator,
        "id": number.to_string(),
        "state": state, "health": "HEALTHY", "runtimeVersion": "tpu-ubuntu2204-base", "labels": labels,
        "networkEndpoints": endpoints, "schedulingConfig": {"preemptible": true},
        "createTime": "2026-11-20T08:00:00.000000000Z"})
}

/// Routes requests below `/v2*/projects/P/locations/Z/`.
pub(super) fn answer(
    request: &ApiRequest,
    state: &mut State,
    parent: &TpuParent<'_>,
    rest: &[&str],
) -> Answer {
    let (get, delete) = (request.method == Method::GET, request.method == Method::DELETE);
    match rest {
        ["nodes"] if get => list(request, parent, &state.nodes, "nodes", state.page),
        ["queuedResources"] if get => list(request, parent, &state.queued, "queuedResources", state.page),
        ["nodes", id] if get => one(parent, &state.nodes, "nodes", id),
        ["queuedResources", id] if get => one(parent, &state.queued, "queuedResources", id),
        ["queuedResources"] if request.method == Method::POST => create(request, state, parent),
        ["nodes", id] if request.method == Method::PATCH => patch(request, state, parent, id),
        ["nodes", id] if delete => {
            let name = parent.name("nodes", id);
            match state.nodes.iter().position(|n| n["name"] == *name) {
                Some(at) => {
                    if state.failing_operations.is_none() && !state.idle_deletions {
                        state.nodes.remove(at);
                    }
                    begin(
                        state,
                        parent,
                        "delete",
                        &name,
                        &json!({"@type": "type.googleapis.com/google.protobuf.Empty"}),
                    )
                }
                None => not_found(&format!("Resource '{name}'")),
            }
        }
        ["queuedResources", id] if delete => delete_queued(request, state, parent, id),
        ["operations", id] if get => {
            let name = parent.name("operations", id);
            let pending = |finished: &Value| json!({"name": finished["name"], "metadata": finished["metadata"], "done": false});
            state.operation(&name, pending).map_or_else(|| not_found(&format!("Resource '{name}'")), ok)
        }
        _ => not_found(&request.path),
    }
}

fn list(request: &ApiRequest, parent: &TpuParent<'_>, all: &[Value], key: &str, page: usize) -> Answer {
    let here: Vec<&Value> = all.iter().filter(|r| parent.holds(r)).collect();
    let (page, next) = request.page(&here, page);
    let mut body = json!({ key: page });
    if let Some(next) = next {
        body["nextPageToken"] = json!(next);
    }
    ok(body)
}

fn one(parent: &TpuParent<'_>, all: &[Value], kind: &str, id: &str) -> Answer {
    let name = parent.name(kind, id);
    let found = all.iter().find(|r| r["name"] == *name).cloned();
    found.map_or_else(|| not_found(&format!("Resource '{name}'")), ok)
}

/// Fields that v2 does not have (discovery documents `tpu` v2 and v2alpha1).
const ONLY_ALPHA: [&str; 3] = ["bestEffort", "provisioningModel", "runDuration"];

/// Creates a queued resource; v2 rejects the fields that only v2alpha1 has.
fn create(request: &ApiRequest, state: &mut State, parent: &TpuParent<'_>) -> Answer {
    let invalid = |what: &str| refusal(400, "INVALID_ARGUMENT", None, what);
    let Some(id) = request.parameter("queuedResourceId") else {
        return invalid("queuedResourceId must be set.");
    };
    let body = &request.body;
    if body["tpu"]["nodeSpec"].as_array().is_none_or(Vec::is_empty) {
        return invalid("tpu.nodeSpec must be set.");
    }
    let unknown = ONLY_ALPHA.iter().find(|field| parent.version == "v2" && !body[**field].is_null());
    if let Some(field) = unknown {
        let message = format!("Invalid JSON payload received. Unknown name \"{field}\": Cannot find field.");
        return invalid(&message);
    }
    let name = parent.name("queuedResources", id);
    if state.queued.iter().any(|q| q["name"] == *name) {
        return refusal(409, "ALREADY_EXISTS", None, &format!("Resource '{name}' already exists"));
    }
    let mut queued = body.clone();
    queued["name"] = json!(name);
    queued["state"] = json!({"state": "WAITING_FOR_RESOURCES", "stateInitiator": "USER"});
    queued["createTime"] = json!("2026-11-21T08:00:00.000000000Z");
    state.queued.push(queued.clone());
    queued["@type"] =
        json!(format!("type.googleapis.com/google.cloud.tpu.{}.QueuedResource", parent.version));
    begin(state, parent, "create", &name, &queued)
}

/// Replaces the metadata of a node; no other mask is supported here.
fn patch(request: &ApiRequest, state: &mut State, parent: &TpuParent<'_>, id: &str) -> Answer {
    if request.parameter("updateMask") != Some("metadata") {
        return refusal(400, "INVALID_ARGUMENT", None, "updateMask must be metadata.");
    }
    let name = parent.name("nodes", id);
    let Some(node) = state.nodes.iter_mut().find(|n| n["name"] == *name) else {
        return not_found(&format!("Resource '{name}'"));
    };
    node["metadata"] = request.body["metadata"].clone();
    let node = node.clone();
    begin(state, parent, "update", &name, &node)
}

fn delete_queued(request: &ApiRequest, state: &mut State, parent: &TpuParent<'_>, id: &str) -> Answer {
    let name = parent.name("queuedResources", id);
    let Some(at) = state.queued.iter().position(|q| q["name"] == *name) else {
        return not_found(&format!("Resource '{name}'"));
    };
    // A queued resource whose nodes were deleted can also be deleted.
    let idle = ["ACCEPTED", "FAILED", "SUSPENDED"]
        .contains(&state.queued[at]["state"]["state"].as_str().unwrap_or(""))
        || !state.nodes.iter().any(|n| n["queuedResource"] == *name);
    if !idle && request.parameter("force") != Some("true") {
        let message = "queued resource cannot be deleted in its state unless force is set";
        return refusal(400, "FAILED_PRECONDITION", None, message);
    }
    if state.failing_operations.is_none() {
        state.queued.remove(at);
        state.nodes.retain(|n| n["queuedResource"] != *name);
    }
    begin(state, parent, "delete", &name, &json!({"@type": "type.googleapis.com/google.protobuf.Empty"}))
}

fn begin(state: &mut State, parent: &TpuParent<'_>, verb: &str, target: &str, response: &Value) -> Answer {
    let zone = target.split('/').nth(3).unwrap_or_default();
    let name = format!("projects/{}/locations/{zone}/operations/operation-{}", parent.project, state.next());
    let metadata = json!({"@type": format!("type.googleapis.com/google.cloud.tpu.{}.OperationMetadata", parent.version),
        "createTime": "2026-11-21T08:00:00.000000000Z", "target": target, "verb": verb, "cancelRequested": false,
        "apiVersion": parent.version});
    let finished = match &state.failing_operations {
        Some(message) => {
            json!({"name": name, "metadata": metadata, "done": true, "error": {"code": 8, "message": message}})
        }
        None => json!({"name": name, "metadata": metadata, "done": true, "response": response}),
    };
    state.begin(name.clone(), finished);
    ok(json!({"name": name, "metadata": metadata, "done": false}))
}
