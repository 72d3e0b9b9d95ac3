//! Compute Engine v1: aggregated lists of instances and groups, reading and deleting an instance by name or id,
//! operations.

use super::zonal::{begin, refusal, scope_of, without, zone_of};
use super::{Answer, ApiRequest, PROJECT, State, groups, making, managed, ok};
use crc32c::crc32c;
use http::Method;
use regex::Regex;
use serde_json::{Map, Value, json};

/// An instance as Compute returns it. `external` is `None` for a machine without an external address.
pub fn instance(zone: &str, name: &str, labels: &Value, internal: &str, external: Option<&str>) -> Value {
    let access = external.map_or_else(|| json!([{}]), |ip| json!([{"natIP": ip}]));
    // Ids are unique; derived from the name, so that a machine keeps its id.
    let id = 7_000_000_000_000_000_000_u64 + u64::from(crc32c(format!("{zone}/{name}").as_bytes()));
    json!({"kind": "compute#instance", "id": id.to_string(), "name": name, "status": "RUNNING",
        "creationTimestamp": "2026-11-20T08:00:00.000-08:00",
        "zone": format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}"), "labels": labels,
        "networkInterfaces": [{"networkIP": internal, "accessConfigs": access}]})
}

/// An instance with TPUs, on spot capacity.
pub fn tpu_instance(zone: &str, name: &str, machine_type: &str, labels: &Value, internal: &str) -> Value {
    let mut instance = instance(zone, name, labels, internal, None);
    let zone = instance["zone"].as_str().unwrap_or_default();
    instance["machineType"] = json!(format!("{zone}/machineTypes/{machine_type}"));
    instance["scheduling"] = json!({"provisioningModel": "SPOT", "instanceTerminationAction": "STOP"});
    instance
}

/// Routes requests below `/compute/v1/projects/P/`.
pub(super) fn answer(request: &ApiRequest, state: &mut State, project: &str, rest: &[&str]) -> Answer {
    if project != state.project {
        let message = format!("Required 'compute.instances.list' permission for 'projects/{project}'");
        return refusal(403, "forbidden", &message);
    }
    match rest {
        ["aggregated", "instances"] if request.method == Method::GET => {
            aggregated(request, state, &state.instances, ("instances", "compute#instanceAggregatedList"))
        }
        ["aggregated", "instanceGroupManagers"] if request.method == Method::GET => {
            let kind = ("instanceGroupManagers", "compute#instanceGroupManagerAggregatedList");
            aggregated(request, state, &state.managers, kind)
        }
        ["zones", zone, kind @ ("instances" | "instanceGroupManagers")] if request.method == Method::POST => {
            making::insert(request, state, &format!("zones/{zone}"), kind)
        }
        ["regions", region, kind @ ("resourcePolicies" | "instanceTemplates"), rest @ ..] => {
            making::of_region(request, state, (&format!("regions/{region}"), kind), rest)
        }
        [scope @ ("zones" | "regions"), location, "instanceGroupManagers", rest @ ..] => {
            managed::answer(request, state, &format!("{scope}/{location}"), rest)
        }
        ["global", "instanceTemplates", which] if request.method == Method::GET => {
            managed::of_template(state, which)
        }
        ["zones", zone, "instances", which] if request.method == Method::GET => {
            match find(state, zone, which) {
                Some(at) => ok(state.instances[at].clone()),
                None => missing(state, zone, which),
            }
        }
        ["zones", zone, "instances", which] if request.method == Method::DELETE => {
            delete(request, state, zone, which)
        }
        ["zones", zone, "instanceGroups", rest @ ..] => groups::answer(request, state, zone, rest),
        ["zones" | "regions", _, "operations", name] if request.method == Method::GET => {
            let pending = |finished: &Value| {
                let mut pending = finished.clone();
                pending["status"] = json!("RUNNING");
                pending["progress"] = json!(0);
                without(pending, &["error", "httpErrorStatusCode", "httpErrorMessage"])
            };
            match state.operation(name, pending) {
                Some(operation) => ok(operation),
                None => refusal(404, "notFound", &format!("The resource 'operations/{name}' was not found")),
            }
        }
        _ => refusal(404, "notFound", "The requested URL was not found on this server."),
    }
}

/// The items of one page by zone or region; a zone without results has a warning, as in Compute.
fn aggregated(request: &ApiRequest, state: &State, all: &[Value], (key, kind): (&str, &str)) -> Answer {
    let clauses = match request.parameter("filter").map(clauses) {
        Some(Err(what)) => {
            let message =
                format!("Invalid value for field 'filter': '{what}'. Invalid list filter expression.");
            return refusal(400, "invalid", &message);
        }
        Some(Ok(clauses)) => clauses,
        None => Vec::new(),
    };
    let matches = |i: &&Value| clauses.iter().all(|c| c.matches(i));
    let all: Vec<Value> = all.iter().filter(matches).cloned().collect();
    let (page, next) = request.page(&all, state.page);
    let mut items = Map::new();
    let always = ["zones/us-central1-a".to_owned(), "zones/us-central2-b".to_owned()];
    for scope in always.into_iter().chain(page.iter().map(scope_of)) {
        let here: Vec<_> = page.iter().filter(|i| scope_of(i) == scope).cloned().collect();
        let list = if here.is_empty() {
            json!({"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope on this page.",
                "data": [{"key": "scope", "value": scope}]}})
        } else {
            json!({ key: here })
        };
        items.insert(scope, list);
    }
    let mut body = json!({"kind": kind, "items": items});
    if let Some(next) = next {
        body["nextPageToken"] = json!(next);
    }
    if !state.unreachable.is_empty() {
        if request.parameter("returnPartialSuccess") != Some("true") {
            return refusal(503, "backendError", "Some zones could not be reached.");
        }
        body["unreachables"] = state.unreachable.iter().map(|z| format!("zones/{z}")).collect();
    }
    ok(body)
}

/// One clause of a filter (the subset of AIP-160 used here), or a regular expression that matches a whole field.
enum Clause {
    Matches(String, Regex),
    Equals(String, String),
    HasLabel { key: String, not: bool },
}

impl Clause {
    fn matches(&self, instance: &Value) -> bool {
        match self {
            Self::Matches(key, pattern) => {
                instance[key.as_str()].as_str().is_some_and(|v| pattern.is_match(v))
            }
            Self::Equals(key, wanted) => match key.strip_prefix("labels.") {
                Some(label) => instance["labels"][label].as_str() == Some(wanted),
                None => instance[key.as_str()].as_str() == Some(wanted),
            },
            Self::HasLabel { key, not } => instance["labels"][key.as_str()].is_string() != *not,
        }
    }
}

/// Parses clauses in parentheses joined by AND, or `FIELD eq REGEX`.
fn clauses(filter: &str) -> Result<Vec<Clause>, String> {
    if let Some((key, pattern)) = filter.split_once(" eq ") {
        let pattern = Regex::new(&format!("^(?:{pattern})$")).map_err(|e| e.to_string())?;
        return Ok(vec![Clause::Matches(key.to_owned(), pattern)]);
    }
    let one = |clause: &str| {
        let wrong = || Err(clause.to_owned());
        let Some(inner) = clause.trim().strip_prefix('(').and_then(|c| c.strip_suffix(')')) else {
            return wrong();
        };
        if let Some((key, value)) = inner.split_once('=') {
            let Some(value) = value.trim().strip_prefix('"').and_then(|v| v.strip_suffix('"')) else {
                return wrong();
            };
            return Ok(Clause::Equals(key.trim().into(), value.into()));
        }
        let (inner, not) = inner.strip_prefix("NOT ").map_or((inner, false), |rest| (rest, true));
        match inner.strip_prefix("labels.").and_then(|k| k.strip_suffix(":*")) {
            Some(key) => Ok(Clause::HasLabel { key: key.into(), not }),
            None => wrong(),
        }
    };
    filter.split(" AND ").map(one).collect()
}

fn find(state: &State, zone: &str, which: &str) -> Option<usize> {
    state.instances.iter().position(|i| zone_of(i) == zone && (i["name"] == which || i["id"] == which))
}

fn missing(state: &State, zone: &str, which: &str) -> Answer {
    let message =
        format!("The resource 'projects/{}/zones/{zone}/instances/{which}' was not found", state.project);
    refusal(404, "notFound", &message)
}

fn delete(request: &ApiRequest, state: &mut State, zone: &str, which: &str) -> Answer {
    let Some(at) = find(state, zone, which) else { return missing(state, zone, which) };
    let name = state.instances[at]["name"].as_str().unwrap_or_default().to_owned();
    begin(request, state, "delete", (zone, "instances", &name), |state| {
        let gone = state.instances.remove(at);
        let replacement = managed::replacement(state, gone);
        state.instances.extend(replacement);
    })
}
