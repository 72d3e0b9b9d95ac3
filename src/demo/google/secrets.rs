//! Secret Manager v1: access, create, add version, list secrets and versions.

use super::{Answer, ApiRequest, Fault, NUMBER, State, Stored, base64, not_found, ok, refusal};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crc32c::crc32c;
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// Routes requests below `/v1/projects/P/`.
pub(super) fn answer(
    request: &ApiRequest,
    state: &mut State,
    project: &str,
    rest: &[&str],
    fault: Option<&Fault>,
) -> Answer {
    if project != state.project && project != NUMBER {
        return refusal(
            403,
            "PERMISSION_DENIED",
            Some("IAM_PERMISSION_DENIED"),
            &format!("Permission 'secretmanager.versions.access' denied for resource 'projects/{project}'."),
        );
    }
    let get = request.method == Method::GET;
    match rest {
        ["secrets"] if request.method == Method::POST => create(request, state),
        ["secrets"] if get => {
            let named = |name: &String| json!({"name": format!("projects/{NUMBER}/secrets/{name}"), "replication": {"automatic": {}}});
            let all: Vec<Value> = state.secrets.keys().map(named).collect();
            listed(request, state, "secrets", &all)
        }
        ["secrets", name] if request.method == Method::POST => match name.strip_suffix(":addVersion") {
            Some(name) => add_version(request, state, name),
            None => not_found(&request.path),
        },
        ["secrets", name, "versions"] if get => list(request, state, name),
        ["secrets", name, "versions", version] if get => match version.strip_suffix(":access") {
            Some(version) => access(state, name, version, fault),
            None => not_found(&request.path),
        },
        _ => not_found(&request.path),
    }
}

fn secret_not_found(name: &str) -> Answer {
    not_found(&format!("Secret [projects/{NUMBER}/secrets/{name}]"))
}

fn access(state: &State, name: &str, version: &str, fault: Option<&Fault>) -> Answer {
    let Some(versions) = state.secrets.get(name) else { return secret_not_found(name) };
    let number = if version == "latest" {
        // The newest version, regardless of its state.
        versions.len()
    } else {
        version.parse().unwrap_or(0)
    };
    let full = format!("projects/{NUMBER}/secrets/{name}/versions/{number}");
    let Some(stored) = number.checked_sub(1).and_then(|i| versions.get(i)) else {
        return not_found(&format!("Secret Version [projects/{NUMBER}/secrets/{name}/versions/{version}]"));
    };
    if stored.state != "ENABLED" {
        let message = format!("Secret Version [{full}] is in {} state.", stored.state);
        return refusal(400, "FAILED_PRECONDITION", None, &message);
    }
    let mut payload = json!({"data": base64(&stored.payload)});
    if !matches!(fault, Some(Fault::NoChecksum)) {
        let is_bad = matches!(fault, Some(Fault::BadChecksum));
        payload["dataCrc32c"] = json!((crc32c(&stored.payload) ^ u32::from(is_bad)).to_string());
    }
    ok(json!({"name": full, "payload": payload}))
}

fn create(request: &ApiRequest, state: &mut State) -> Answer {
    let Some(name) = request.parameter("secretId") else {
        return refusal(400, "INVALID_ARGUMENT", None, "secretId must be set.");
    };
    if request.body["replication"].is_null() {
        return refusal(400, "INVALID_ARGUMENT", None, "Secret.replication must be provided.");
    }
    if state.secrets.contains_key(name) {
        let message = format!("Secret [projects/{NUMBER}/secrets/{name}] already exists.");
        return refusal(409, "ALREADY_EXISTS", None, &message);
    }
    state.secrets.insert(name.into(), Vec::new());
    ok(
        json!({"name": format!("projects/{NUMBER}/secrets/{name}"), "replication": request.body["replication"],
        "createTime": "2026-11-21T08:00:00.000000Z", "etag": "\"16211a9b\""}),
    )
}

fn add_version(request: &ApiRequest, state: &mut State, name: &str) -> Answer {
    let Some(versions) = state.secrets.get_mut(name) else { return secret_not_found(name) };
    let payload = &request.body["payload"];
    let data = payload["data"].as_str().and_then(|d| BASE64_STANDARD.decode(d).ok());
    let Some(data) = data.filter(|d| !d.is_empty()) else {
        return refusal(400, "INVALID_ARGUMENT", None, "Secret Payload cannot be empty.");
    };
    let sum = match &payload["dataCrc32c"] {
        Value::String(s) => s.parse().ok(),
        other => other.as_u64(),
    };
    if sum.is_some_and(|sum| sum != u64::from(crc32c(&data))) {
        return refusal(400, "INVALID_ARGUMENT", None, "The checksum does not match the payload.");
    }
    versions.push(Stored::enabled(&data));
    let number = versions.len();
    let mut body = shown(name, number, "ENABLED");
    body["clientSpecifiedPayloadChecksum"] = json!(sum.is_some());
    (StatusCode::OK, body)
}

fn list(request: &ApiRequest, state: &State, name: &str) -> Answer {
    let Some(versions) = state.secrets.get(name) else { return secret_not_found(name) };
    // Newest first.
    let all: Vec<Value> =
        versions.iter().enumerate().rev().map(|(i, v)| shown(name, i + 1, v.state)).collect();
    listed(request, state, "versions", &all)
}

fn listed(request: &ApiRequest, state: &State, key: &str, all: &[Value]) -> Answer {
    let (page, next) = request.page(all, state.page);
    let mut body = json!({key: page, "totalSize": all.len()});
    if let Some(next) = next {
        body["nextPageToken"] = json!(next);
    }
    ok(body)
}

fn shown(name: &str, number: usize, state: &str) -> Value {
    json!({"name": format!("projects/{NUMBER}/secrets/{name}/versions/{number}"),
        "createTime": format!("2026-11-21T08:{:02}:00.000000Z", number % 60), "state": state, "etag": "\"16\""})
}
