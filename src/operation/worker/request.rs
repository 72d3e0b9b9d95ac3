//! Requests for TPUs at Google, as they are sent: queued resources, or parts at Compute Engine.

use super::super::executor::Executor;
use super::super::failure;
use super::super::problem::problem;
use super::super::startup::{Services, startup_script};
use super::compute::{self, ComputeRequest};
use super::launch::labels;
use crate::config::{CapacityField, Launch, TpuVersion};
use crate::gcp::{GcpError, Google, TpuApi, TpuLocation, queued_resource};
use crate::model::cloud::{Capacity, QueuedResource, QueuedState};
use crate::model::json::object;
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{ClusterSpec, Hint, Problem, Text, Timestamp, Verb, is_worker_name};
use crate::supervisor::{self, Options};
use serde_json::{Map, Value, json};

/// A request for a queued resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueuedRequest {
    /// Name of the queued resource and of its TPU VM.
    pub name: String,
    /// API version that the request is sent to.
    pub api: TpuApi,
    /// Body of the request.
    pub body: Value,
}

/// A request for a worker.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// For Cloud TPU.
    Queued(QueuedRequest),
    /// For Compute Engine.
    Compute(ComputeRequest),
}

impl Request {
    /// Name of the worker.
    pub fn name(&self) -> &str {
        match self {
            Self::Queued(request) => &request.name,
            Self::Compute(request) => &request.name,
        }
    }
}

/// The requests for workers of this type, one for each name. Sends nothing.
pub(super) fn plan(
    spec: &ClusterSpec,
    options: &Options,
    launch: &Launch,
    (node_type, capacity, names): (&str, &str, &[String]),
) -> Result<Vec<Request>, Problem> {
    let location = supervisor::tpu_location(spec)?;
    let Some((kind, node)) = launch.find(node_type) else {
        let types: Vec<&str> = launch.types.keys().map(String::as_str).collect();
        let what = format!("{} has no node type {}", spec.name, printable(node_type));
        return Err(failure(what, format!("available types: {}", types.join(", "))));
    };
    let Some(capacity) = options.tpu_capacity.get(capacity) else {
        let words: Vec<&str> = options.tpu_capacity.keys().map(String::as_str).collect();
        let what = format!("unknown capacity `{}`", printable(capacity));
        return Err(failure(what, format!("known: {}", words.join(", "))));
    };
    let is_compute = compute::accelerator(&node.config).is_some();
    let is_tpu = !node.config["acceleratorType"].is_null() || !node.config["acceleratorConfig"].is_null();
    if !is_compute && !is_tpu {
        let hint = "only TPUs can be added; for other machines set `min_workers`";
        return Err(failure(format!("{kind} is not a TPU"), hint));
    }
    let script = startup_script(spec, launch, node, &Services::at(options.google.endpoints()))?;
    let fill = |text: &str| text.replace("{project}", &location.project).replace("{zone}", &location.zone);
    let field = capacity.field.iter().map(|(key, value)| (key.clone(), filled(value, &fill)));
    let field = sort::collected(field);
    let capacity = CapacityField { field, ..capacity.clone() };
    let one = |name: &String| {
        if !is_worker_name(name) {
            let hint = "use 1 to 63 lowercase letters, digits and hyphens, starting with a letter";
            return Err(failure(format!("`{}` is not a valid TPU VM name", printable(name)), hint));
        }
        if let Some(request) = compute::plan(&location, spec, (kind, node, &script), &capacity, name)? {
            return Ok(Request::Compute(request));
        }
        let parent = format!("projects/{}/locations/{}", location.project, location.zone);
        let node = tpu_node(spec, kind, &node.config, &script);
        let mut body = json!({"tpu": {"nodeSpec": [{"parent": parent, "nodeId": name, "node": node}]}});
        for (key, value) in &capacity.field {
            body[key] = value.clone();
        }
        let api = match capacity.api {
            TpuVersion::V2 => TpuApi::V2,
            TpuVersion::V2Alpha1 => TpuApi::V2Alpha1,
        };
        Ok(Request::Queued(QueuedRequest { name: name.clone(), api, body }))
    };
    names.iter().map(one).collect()
}

/// The TPU VM: the type's `node_config` without its scheduling, which is part of the queued resource.
fn tpu_node(spec: &ClusterSpec, kind: &str, config: &Value, script: &str) -> Value {
    let mut node = config.as_object().cloned().unwrap_or_default();
    node.remove("schedulingConfig");
    let external = !spec.google.internal_ips;
    node.entry("networkConfig").or_insert_with(|| json!({ "enableExternalIps": external }));
    let scope = "https://www.googleapis.com/auth/cloud-platform";
    node.entry("serviceAccount").or_insert_with(|| json!({"scope": [scope]}));
    let map = |node: &Map<String, Value>, key: &str| node.get(key).and_then(Value::as_object).cloned();
    node.insert("labels".into(), labels(spec, kind, config).into());
    let mut metadata = map(&node, "metadata").unwrap_or_default();
    metadata.insert("startup-script".into(), script.into());
    node.insert("metadata".into(), metadata.into());
    node.into()
}

fn filled(value: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => fill(text).into(),
        Value::Array(items) => items.iter().map(|v| filled(v, fill)).collect(),
        Value::Object(fields) => object(fields.iter().map(|(k, v)| (k.as_str(), filled(v, fill)))),
        other => other.clone(),
    }
}

/// Sends a request. Returns `false` if Google already has a matching one of this cluster with this name; then that one
/// is used.
pub(super) async fn ask(
    executor: &Executor,
    google: &Google,
    location: &TpuLocation,
    request: &QueuedRequest,
) -> Result<bool, Problem> {
    let at = (location.project.as_str(), location.zone.as_str());
    let change = google.queued_request(request.api, at, &request.name, request.body.clone());
    match executor.google(google, &change, None).await {
        Ok(()) => Ok(true),
        Err(e @ GcpError::Exists { .. }) => {
            let view = google
                .tpus(&location.project, &location.zone, Timestamp::now())
                .await
                .map_err(|e| problem(&e))?;
            let ours = |l: &Option<Text>| l.as_ref().is_some_and(|l| l.raw() == location.cluster);
            let there = view.queued.iter().find(|q| q.name.raw() == request.name && ours(&q.ray_cluster));
            let Some(there) = there else { return Err(problem(&e)) };
            follows(there, request).map(|()| false)
        }
        Err(e) => Err(problem(&e)),
    }
}

/// Checks that an existing queued resource can be used instead of the request: it requests the same, and can still
/// succeed.
fn follows(there: &QueuedResource, request: &QueuedRequest) -> Result<(), Problem> {
    let wanted = queued_resource(&request.body);
    let is_over = matches!(there.state, QueuedState::Suspended | QueuedState::Failed | QueuedState::Deleting);
    let why = || there.error.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    let over = is_over.then(|| format!("it is {}{}", there.state.label(), why()));
    check_existing(
        &request.name,
        (&there.accelerator_type, there.capacity, over),
        (&wanted.accelerator_type, wanted.capacity),
    )
}

/// An error unless the existing resource with this name (its type, its capacity, and why it will fail) is what is
/// requested.
pub(super) fn check_existing(
    name: &str,
    (kind, capacity, over): (&Text, Capacity, Option<String>),
    (wanted, by): (&Text, Capacity),
) -> Result<(), Problem> {
    let mut differs = Vec::new();
    // A type given as `acceleratorConfig` has no name to compare.
    if !wanted.raw().is_empty() && kind != wanted {
        differs.push(format!("type {kind}, not {wanted}"));
    }
    if capacity != by {
        differs.push(format!("capacity {}, not {}", capacity.label(), by.label()));
    }
    differs.extend(over);
    if differs.is_empty() {
        return Ok(());
    }
    let what = format!("{name} was already requested with other settings: {}", differs.join("; "));
    let hint = Hint::from(Verb::Abandon.to("abandon this operation"))
        .and("then choose another name")
        .and(Verb::RemoveWorker.on(name, "or delete it first"));
    Err(failure(what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_request_is_used_if_it_is_the_same_and_can_still_succeed() {
        let node = |kind: &str| json!({"nodeSpec": [{"nodeId": "w", "node": {"acceleratorType": kind}}]});
        let request = QueuedRequest {
            name: "w".into(),
            api: TpuApi::V2,
            body: json!({"tpu": node("v4-8"), "reservationName": "r"}),
        };
        let there = |kind: &str, capacity: &str, state: Value| {
            let listed = json!({"name": "projects/p/x/w", "tpu": node(kind), capacity: "r", "state": state});
            follows(&queued_resource(&listed), &request).map_err(|problem| problem.what)
        };
        let state = |word: &str| json!({ "state": word });
        for word in ["ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE", "A_NEW_ONE"] {
            assert_eq!(there("v4-8", "reservationName", state(word)), Ok(()), "{word}");
        }
        let refused = [
            (there("v4-16", "reservationName", state("ACTIVE")), "type v4-16, not v4-8"),
            (there("v4-8", "spot", state("ACTIVE")), "capacity spot, not reserved"),
            (there("v4-8", "reservationName", state("SUSPENDED")), "it is suspended"),
            (there("v4-8", "reservationName", state("DELETING")), "it is deleting"),
            (
                there(
                    "v4-8",
                    "reservationName",
                    json!({"state": "FAILED", "failedData": {"error": {"code": 8, "message": "no quota left"}}}),
                ),
                "it is refused (no quota left)",
            ),
        ];
        for (result, expected) in refused {
            let message = result.unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn texts_of_a_capacity_field_are_filled_in() {
        let fill = |text: &str| text.replace("{zone}", "z");
        let value = json!({"reservationName": "l/{zone}/-", "list": ["{zone}"], "n": 1});
        assert_eq!(filled(&value, &fill), json!({"reservationName": "l/z/-", "list": ["z"], "n": 1}));
    }
}
