//! Parts shared by all zonal resources of Compute Engine: errors, zones, operations.

use super::{Answer, ApiRequest, State, ok, status_of};
use serde_json::{Value, json};

/// Compute's error body: no `status`, reasons in `errors`.
pub(super) fn refusal(code: u16, reason: &str, message: &str) -> Answer {
    let mut error = json!({"code": code, "message": message,
        "errors": [{"message": message, "domain": "global", "reason": reason}]});
    if reason == "SERVICE_DISABLED" {
        error["errors"][0]["reason"] = json!("accessNotConfigured");
        error["details"] = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
            "domain": "googleapis.com", "metadata": {"service": "compute.googleapis.com"}}]);
    }
    (status_of(code), json!({ "error": error }))
}

pub(super) fn without(mut operation: Value, keys: &[&str]) -> Value {
    if let Some(fields) = operation.as_object_mut() {
        fields.retain(|key, _| !keys.contains(&key.as_str()));
    }
    operation
}

pub(super) fn zone_of(instance: &Value) -> &str {
    instance["zone"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default()
}

/// The scope of a resource: `zones/Z` or `regions/R`.
pub(super) fn scope_of(resource: &Value) -> String {
    let last = |key: &str| resource[key].as_str().and_then(|url| url.rsplit('/').next());
    let region = || format!("regions/{}", last("region").unwrap_or_default());
    last("zone").map_or_else(region, |zone| format!("zones/{zone}"))
}

/// Starts an operation on the resource with this location (a zone, `zones/Z` or `regions/R`), kind and name. The change
/// takes effect at once, unless operations are set to fail.
pub(super) fn begin(
    request: &ApiRequest,
    state: &mut State,
    verb: &str,
    (location, kind, name): (&str, &str, &str),
    change: impl FnOnce(&mut State),
) -> Answer {
    let project = state.project.clone();
    let (scope, location) = location.split_once('/').unwrap_or(("zones", location));
    let target = format!("{}/compute/v1/projects/{project}/{scope}/{location}/{kind}/{name}", request.base);
    let operation = format!("operation-{}", state.next());
    let mut finished = json!({"kind": "compute#operation", "name": operation, "status": "DONE", "progress": 100,
        "operationType": verb, "targetLink": target});
    finished[scope.trim_end_matches('s')] =
        json!(format!("https://www.googleapis.com/compute/v1/projects/{project}/{scope}/{location}"));
    let (code, about) = state.failing_code.unwrap_or(("RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", ""));
    if let Some(message) = state.failing_operations.clone().filter(|_| target.contains(about)) {
        finished["error"] = json!({"errors": [{"code": code, "message": message}]});
        finished["httpErrorStatusCode"] = json!(400);
        finished["httpErrorMessage"] = json!("BAD REQUEST");
    } else {
        change(state);
    }
    let mut pending = finished.clone();
    pending["status"] = json!("PENDING");
    pending["progress"] = json!(0);
    state.begin(operation, finished);
    ok(without(pending, &["error"]))
}
