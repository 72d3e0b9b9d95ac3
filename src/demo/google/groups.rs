//! Compute Engine v1: unmanaged instance groups of a zone, by name or id. They contain no machines here.

use super::zonal::{begin, refusal, zone_of};
use super::{Answer, ApiRequest, State, base64, ok};
use http::Method;
use serde_json::{Value, json};

/// Maximum length of a description in characters (Compute Engine v1).
const MAX_DESCRIPTION: usize = 2048;

/// Routes requests below `/compute/v1/projects/P/zones/Z/instanceGroups`.
pub(super) fn answer(request: &ApiRequest, state: &mut State, zone: &str, rest: &[&str]) -> Answer {
    let post = request.method == Method::POST;
    match rest {
        [] if post => insert(request, state, zone),
        [] if request.method == Method::GET => list(request, state, zone),
        [which] if request.method == Method::GET => match find(state, zone, which) {
            Some(at) => ok(state.groups[at].clone()),
            None => missing(state, zone, which),
        },
        [which] if request.method == Method::DELETE => match find(state, zone, which) {
            Some(at) => {
                let name = name(&state.groups[at]).to_owned();
                begin(request, state, "delete", (zone, "instanceGroups", &name), |state| {
                    state.groups.remove(at);
                })
            }
            None => missing(state, zone, which),
        },
        [which, "setNamedPorts"] if post => set_ports(request, state, zone, which),
        _ => refusal(404, "notFound", "The requested URL was not found on this server."),
    }
}

fn name(group: &Value) -> &str {
    group["name"].as_str().unwrap_or_default()
}

fn find(state: &State, zone: &str, which: &str) -> Option<usize> {
    state.groups.iter().position(|g| zone_of(g) == zone && (name(g) == which || g["id"] == which))
}

fn missing(state: &State, zone: &str, which: &str) -> Answer {
    let message = format!(
        "The resource 'projects/{}/zones/{zone}/instanceGroups/{which}' was not found",
        state.project
    );
    refusal(404, "notFound", &message)
}

/// Whether Compute accepts this as a name (RFC 1035).
pub(super) fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(plain)
}

/// The error message for invalid named ports, if any.
fn wrong_ports(ports: &Value) -> Option<String> {
    ports.as_array().into_iter().flatten().find_map(|p| {
        let is_port = p["port"].as_u64().is_some_and(|n| (1..=65535).contains(&n));
        let is_good = p["name"].as_str().is_some_and(is_name) && is_port;
        (!is_good).then(|| format!("Invalid value for field 'resource.namedPorts': '{p}'."))
    })
}

fn insert(request: &ApiRequest, state: &mut State, zone: &str) -> Answer {
    let body = &request.body;
    let Some(name) = body["name"].as_str().filter(|n| is_name(n)).map(str::to_owned) else {
        return refusal(400, "invalid", "Invalid value for field 'resource.name'. Must be a match of regex.");
    };
    let description = body["description"].as_str().unwrap_or_default();
    if description.chars().count() > MAX_DESCRIPTION {
        return refusal(400, "invalid", "Invalid value for field 'resource.description': it is too long.");
    }
    if let Some(wrong) = wrong_ports(&body["namedPorts"]) {
        return refusal(400, "invalid", &wrong);
    }
    let project = state.project.clone();
    if find(state, zone, &name).is_some() {
        let message =
            format!("The resource 'projects/{project}/zones/{zone}/instanceGroups/{name}' already exists");
        return refusal(409, "alreadyExists", &message);
    }
    let base = format!("https://www.googleapis.com/compute/v1/projects/{project}/zones/{zone}");
    let number = state.next();
    let mut group = json!({"kind": "compute#instanceGroup", "id": format!("{}", 5_000_000_000_000_000_000_u64 + u64::from(number)),
        "creationTimestamp": "2026-11-20T08:00:00.000-08:00", "name": name, "description": description, "zone": base,
        "selfLink": format!("{base}/instanceGroups/{name}"), "size": 0, "fingerprint": base64(&number.to_be_bytes())});
    if body["namedPorts"].is_array() {
        group["namedPorts"] = body["namedPorts"].clone();
    }
    begin(request, state, "insert", (zone, "instanceGroups", &name), |state| state.groups.push(group))
}

fn set_ports(request: &ApiRequest, state: &mut State, zone: &str, which: &str) -> Answer {
    let Some(at) = find(state, zone, which) else { return missing(state, zone, which) };
    let (known, given) = (&state.groups[at]["fingerprint"], &request.body["fingerprint"]);
    if !given.is_null() && given != known {
        return refusal(412, "conditionNotMet", "Supplied fingerprint does not match current fingerprint.");
    }
    if let Some(wrong) = wrong_ports(&request.body["namedPorts"]) {
        return refusal(400, "invalid", &wrong);
    }
    let ports = request.body["namedPorts"].clone();
    let name = name(&state.groups[at]).to_owned();
    let fingerprint = base64(&state.next().to_be_bytes());
    begin(request, state, "compute.instanceGroups.setNamedPorts", (zone, "instanceGroups", &name), |state| {
        state.groups[at]["namedPorts"] = ports;
        state.groups[at]["fingerprint"] = json!(fingerprint);
    })
}

fn list(request: &ApiRequest, state: &State, zone: &str) -> Answer {
    let here: Vec<Value> = state.groups.iter().filter(|g| zone_of(g) == zone).cloned().collect();
    let (page, next) = request.page(&here, state.page);
    let mut body = json!({"kind": "compute#instanceGroupList", "items": page});
    if let Some(next) = next {
        body["nextPageToken"] = json!(next);
    }
    ok(body)
}
