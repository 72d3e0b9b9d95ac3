//! Compute Engine v1: managed instance groups of a zone or a region, and instance templates. A group that may repair its
//! instances makes one again that somebody else deletes; one with a topology does not.

use super::zonal::{begin, refusal, scope_of, without};
use super::{Answer, Asked, State, ok};
use crc32c::crc32c;
use http::Method;
use serde_json::{Value, json};

/// A group of a zone as Compute shows it, that makes `size` instances of a template. `whole`: they are one slice of TPUs.
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

/// A resize request of a group of a zone for so many instances; `why` is what Google says of its last attempt, or of its
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

/// A template of that name for machines of that type.
pub fn template(name: &str, machine_type: &str, labels: &Value) -> Value {
    let id = 3_000_000_000_000_000_000_u64 + u64::from(crc32c(name.as_bytes()));
    json!({"kind": "compute#instanceTemplate", "id": id.to_string(), "name": name,
        "creationTimestamp": "2026-11-20T08:00:00.000-08:00",
        "properties": {"machineType": machine_type, "labels": labels,
            "scheduling": {"provisioningModel": "SPOT", "instanceTerminationAction": "STOP"}}})
}

/// The instance as one that this group made.
pub fn made_by(mut instance: Value, group: &Value) -> Value {
    let value =
        format!("projects/{}/{}/instanceGroupManagers/{}", super::NUMBER, scope_of(group), name(group));
    instance["metadata"] = json!({"items": [{"key": "created-by", "value": value}]});
    instance
}

/// Answers below `/compute/v1/projects/P/zones/Z/instanceGroupManagers` or that of a region; `scope` is `zones/Z`.
pub(super) fn answer(asked: &Asked, state: &mut State, scope: &str, rest: &[&str]) -> Answer {
    let [which, what @ ..] = rest else { return nothing() };
    let Some(at) = state.managers.iter().position(|g| scope_of(g) == scope && name(g) == *which) else {
        let message = format!(
            "The resource 'projects/{}/{scope}/instanceGroupManagers/{which}' was not found",
            state.project
        );
        return refusal(404, "notFound", &message);
    };
    let group = state.managers[at].clone();
    match what {
        [] if asked.method == Method::GET => ok(group),
        [] if asked.method == Method::DELETE => {
            begin(asked, state, "delete", (scope, "instanceGroupManagers", which), |state| {
                state.managers.remove(at);
                state.instances.retain(|i| !is_of(i, &group));
            })
        }
        // A group that makes all its instances at once has none, and takes none.
        ["resizeRequests"] if asked.method == Method::GET && scope.starts_with("zones/") => {
            let whose = |r: &&Value| scope_of(r) == scope && r["group"] == *which;
            let requests = state.resizes.iter().filter(whose).map(|r| without(r.clone(), &["group"]));
            let requests: Vec<Value> = requests.collect();
            let (page, next) = asked.page(&requests, state.page);
            let mut body = json!({"kind": "compute#instanceGroupManagerResizeRequestList", "items": page});
            if let Some(next) = next {
                body["nextPageToken"] = json!(next);
            }
            ok(body)
        }
        ["listManagedInstances"] if asked.method == Method::POST => listed(state, &group),
        ["deleteInstances"] if asked.method == Method::POST => {
            let urls: Vec<String> = asked.body["instances"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let goes = |i: &Value| urls.iter().any(|url| is_at(i, url));
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
                asked,
                state,
                "compute.instanceGroupManagers.deleteInstances",
                (scope, "instanceGroupManagers", which),
                |state| {
                    state.instances.retain(|i| !goes(i));
                    let size = state.managers[at]["targetSize"].as_u64().unwrap_or(0);
                    state.managers[at]["targetSize"] = json!(size.saturating_sub(urls.len() as u64));
                },
            )
        }
        _ => nothing(),
    }
}

/// Answers below `…/instanceTemplates/NAME`.
pub(super) fn of_template(state: &State, which: &str) -> Answer {
    match state.templates.iter().find(|t| t["name"] == which && t["region"].is_null()) {
        Some(template) => ok(template.clone()),
        None => refusal(404, "notFound", &format!("The resource 'instanceTemplates/{which}' was not found")),
    }
}

/// What becomes of a deleted instance: its group makes another one of that name, unless it is to leave it.
pub(super) fn again(state: &State, mut instance: Value) -> Option<Value> {
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

fn nothing() -> Answer {
    refusal(404, "notFound", "The requested URL was not found on this server.")
}

fn name(group: &Value) -> &str {
    group["name"].as_str().unwrap_or_default()
}

/// Whether this group made the instance.
fn is_of(instance: &Value, group: &Value) -> bool {
    let path = format!("/{}/instanceGroupManagers/{}", scope_of(group), name(group));
    let items = instance["metadata"]["items"].as_array().into_iter().flatten();
    let mut made_by = items.filter(|item| item["key"] == "created-by");
    made_by.any(|item| item["value"].as_str().is_some_and(|value| value.ends_with(&path)))
}

/// Whether an address (whole, or from `zones` on) is the instance's.
fn is_at(instance: &Value, url: &str) -> bool {
    let own = format!("{}/instances/{}", scope_of(instance), name(instance));
    url == own || url.ends_with(&format!("/{own}"))
}

/// Those that exist, and those that are still to be made, which have no number yet. On one page, as it is by default.
fn listed(state: &State, group: &Value) -> Answer {
    let base = format!("https://www.googleapis.com/compute/v1/projects/{}", state.project);
    let members: Vec<&Value> = state.instances.iter().filter(|i| is_of(i, group)).collect();
    let there = members.iter().map(|i| {
        json!({"instance": format!("{base}/{}/instances/{}", scope_of(i), name(i)), "id": i["id"], "name": name(i),
            "instanceStatus": i["status"], "currentAction": "NONE"})
    });
    let size = group["targetSize"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let coming = (members.len()..size).map(|n| {
        let name = format!("{}-{n:04}", name(group));
        json!({"instance": format!("{base}/{}/instances/{name}", scope_of(group)), "name": name, "currentAction": "CREATING"})
    });
    ok(json!({"managedInstances": there.chain(coming).collect::<Vec<_>>()}))
}
