//! Compute Engine v1: managed instance groups of a zone or a region, and instance templates. A group that may repair its
//! instances recreates an instance that was deleted otherwise; a group with a topology does not.

use super::zonal::{begin, refusal, scope_of, without};
use super::{Answer, ApiRequest, State, ok};
use crc32c::crc32c;
use http::Method;
use serde_json::{Value, json};

/// A group of a zone as Compute returns it, with `size` instances of a template. `whole`: they form one TPU slice.
pub fn manager(zone: &str, name: &str, template: &str, size: usize, whole: bool) -> Value {
    let base = format!("https://www.googleapis.com/compute/v1/projects/{}", super::PROJECT);
    let region = zone.rsplit_once('-').map_or(zone, |(region, _)| region);
    let id = 4_000_000_000_000_000_000_u64 + u64::from(crc32c(format!("{zone}/{name}").as_bytes()));
    let mut group = json!({"kind": "compute#instanceGroupManager", "id": id.to_string(), "name": name,
        "creationTimestamp": "2026-11-20T08:00:00.000-08:00", "zone": format!("{base}/zones/{zone}"),
        "selfLink": format!("{base}/zones/{zone}/instanceGroupManagers/{name}"), "baseInstanceName": name,
        "instanceTemplate": format!("{base}/global/instanceTemplates/{template}"), "targetSize": size,
        "currentActions": {"none": size, "creating": 0, "deleting": 0}, "status": {"isStable": true}});
    if whole {
        group["resourcePolicies"] =
            json!({"workloadPolicy": format!("{base}/regions/{region}/resourcePolicies/{name}")});
        group["targetSizePolicy"] = json!({"mode": "BULK"});
        group["instanceLifecyclePolicy"] = json!({"defaultActionOnFailure": "DO_NOTHING"});
    }
    group
}

/// A resize request of a group of a zone for `size` instances; `why` is the error of its last attempt, or of its
/// failure.
pub fn resize(zone: &str, group: &str, name: &str, size: usize, (state, why): (&str, Option<&str>)) -> Value {
    let base = format!("https://www.googleapis.com/compute/v1/projects/{}/zones/{zone}", super::PROJECT);
    let id = 2_000_000_000_000_000_000_u64 + u64::from(crc32c(format!("{zone}/{group}/{name}").as_bytes()));
    let mut request = json!({"kind": "compute#instanceGroupManagerResizeRequest", "id": id.to_string(), "name": name,
        "creationTimestamp": "2026-11-20T09:00:00.000-08:00", "zone": base, "group": group, "resizeBy": size,
        "requestedRunDuration": {"seconds": "86400"}, "state": state,
        "selfLink": format!("{base}/instanceGroupManagers/{group}/resizeRequests/{name}")});
    if let Some(message) = why {
        let error = json!({"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": message}]});
        request["status"] = if state == "FAILED" {
            json!({ "error": error })
        } else {
            json!({"lastAttempt": {"error": error}})
        };
    }
    request
}

/// An instance template for machines of this type.
pub fn template(name: &str, machine_type: &str, labels: &Value) -> Value {
    let id = 3_000_000_000_000_000_000_u64 + u64::from(crc32c(name.as_bytes()));
    json!({"kind": "compute#instanceTemplate", "id": id.to_string(), "name": name,
        "creationTimestamp": "2026-11-20T08:00:00.000-08:00",
        "properties": {"machineType": machine_type, "labels": labels,
            "scheduling": {"provisioningModel": "SPOT", "instanceTerminationAction": "STOP"}}})
}

/// Marks the instance as created by this group.
pub fn made_by(mut instance: Value, group: &Value) -> Value {
    let value =
        format!("projects/{}/{}/instanceGroupManagers/{}", super::NUMBER, scope_of(group), name(group));
    instance["metadata"] = json!({"items": [{"key": "created-by", "value": value}]});
    instance
}

/// Routes requests below `/compute/v1/projects/P/SCOPE/instanceGroupManagers`; `scope` is `zones/Z` or `regions/R`.
pub(super) fn answer(request: &ApiRequest, state: &mut State, scope: &str, rest: &[&str]) -> Answer {
    let [which, what @ ..] = rest else { return unknown_url() };
    let Some(at) = state.managers.iter().position(|g| scope_of(g) == scope && name(g) == *which) else {
        let message = format!(
            "The resource 'projects/{}/{scope}/instanceGroupManagers/{which}' was not found",
            state.project
        );
        return refusal(404, "notFound", &message);
    };
    let group = state.managers[at].clone();
    match what {
        [] if request.method == Method::GET => ok(group),
        [] if request.method == Method::DELETE => {
            begin(request, state, "delete", (scope, "instanceGroupManagers", which), |state| {
                state.managers.remove(at);
                state.instances.retain(|i| !is_of(i, &group));
            })
        }
        // A bulk group has no resize requests and accepts none.
        ["resizeRequests"] if request.method == Method::GET && scope.starts_with("zones/") => {
            let of_group = |r: &&Value| scope_of(r) == scope && r["group"] == *which;
            let requests = state.resizes.iter().filter(of_group).map(|r| without(r.clone(), &["group"]));
            let requests: Vec<Value> = requests.collect();
            let (page, next) = request.page(&requests, state.page);
            let mut body = json!({"kind": "compute#instanceGroupManagerResizeRequestList", "items": page});
            if let Some(next) = next {
                body["nextPageToken"] = json!(next);
            }
            ok(body)
        }
        ["listManagedInstances"] if request.method == Method::POST => listed(state, &group),
        ["deleteInstances"] if request.method == Method::POST => {
            let urls: Vec<String> = request.body["instances"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let is_deleted = |i: &Value| urls.iter().any(|url| is_at(i, url));
            let known =
                urls.iter().all(|url| state.instances.iter().any(|i| is_at(i, url) && is_of(i, &group)));
            if urls.is_empty() || !known {
                return refusal(
                    400,
                    "invalid",
                    "Invalid value for field 'instances': not members of the group.",
                );
            }
            begin(
                request,
                state,
                "compute.instanceGroupManagers.deleteInstances",
                (scope, "instanceGroupManagers", which),
                |state| {
                    state.instances.retain(|i| !is_deleted(i));
                    let size = state.managers[at]["targetSize"].as_u64().unwrap_or(0);
                    state.managers[at]["targetSize"] = json!(size.saturating_sub(urls.len() as u64));
                },
            )
        }
        _ => unknown_url(),
    }
}

/// Handles `…/global/instanceTemplates/NAME`.
pub(super) fn of_template(state: &State, which: &str) -> Answer {
    match state.templates.iter().find(|t| t["name"] == which && t["region"].is_null()) {
        Some(template) => ok(template.clone()),
        None => refusal(404, "notFound", &format!("The resource 'instanceTemplates/{which}' was not found")),
    }
}

/// The replacement of a deleted instance: its group recreates it under the same name, unless repair is disabled.
pub(super) fn replacement(state: &State, mut instance: Value) -> Option<Value> {
    let group = state.managers.iter().find(|g| is_of(&instance, g))?;
    if group["instanceLifecyclePolicy"]["defaultActionOnFailure"] == "DO_NOTHING" {
        return None;
    }
    let id = instance["id"].as_str().and_then(|id| id.parse::<u64>().ok()).unwrap_or_default();
    instance["id"] = json!((id + 1).to_string());
    instance["status"] = json!("PROVISIONING");
    instance["creationTimestamp"] = json!("2026-11-21T08:00:00.000-08:00");
    Some(instance)
}

fn unknown_url() -> Answer {
    refusal(404, "notFound", "The requested URL was not found on this server.")
}

fn name(group: &Value) -> &str {
    group["name"].as_str().unwrap_or_default()
}

/// Whether this group created the instance.
fn is_of(instance: &Value, group: &Value) -> bool {
    let path = format!("/{}/instanceGroupManagers/{}", scope_of(group), name(group));
    let items = instance["metadata"]["items"].as_array().into_iter().flatten();
    let mut made_by = items.filter(|item| item["key"] == "created-by");
    made_by.any(|item| item["value"].as_str().is_some_and(|value| value.ends_with(&path)))
}

/// Whether a URL (complete, or starting at `zones`) is the instance's.
fn is_at(instance: &Value, url: &str) -> bool {
    let own = format!("{}/instances/{}", scope_of(instance), name(instance));
    url == own || url.ends_with(&format!("/{own}"))
}

/// Existing instances, and instances still to be created, which have no id yet. On one page, as by default.
fn listed(state: &State, group: &Value) -> Answer {
    let base = format!("https://www.googleapis.com/compute/v1/projects/{}", state.project);
    let members: Vec<&Value> = state.instances.iter().filter(|i| is_of(i, group)).collect();
    let existing = members.iter().map(|i| {
        json!({"instance": format!("{base}/{}/instances/{}", scope_of(i), name(i)), "id": i["id"], "name": name(i),
            "instanceStatus": i["status"], "currentAction": "NONE"})
    });
    let size = group["targetSize"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let creating = (members.len()..size).map(|n| {
        let name = format!("{}-{n:04}", name(group));
        json!({"instance": format!("{base}/{}/instances/{name}", scope_of(group)), "name": name, "currentAction": "CREATING"})
    });
    ok(json!({"managedInstances": existing.chain(creating).collect::<Vec<_>>()}))
}
