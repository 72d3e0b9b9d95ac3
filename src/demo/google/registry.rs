//! Artifact Registry v1: repositories with their images and tags.

use super::{Answer, ApiRequest, PROJECT, State, not_found, ok, refusal};
use http::Method;
use serde_json::{Value, json};

/// An image as Artifact Registry returns it; `path` is `LOCATION/REPOSITORY`.
pub fn image(path: &str, name: &str, digest: &str, tags: &[&str], uploaded: &str) -> Value {
    let (location, repository) = path.split_once('/').unwrap_or((path, ""));
    let build = format!("{name}@sha256:{digest}");
    json!({
        "name": format!("projects/{PROJECT}/locations/{location}/repositories/{repository}/dockerImages/{build}"),
        "uri": format!("{location}-docker.pkg.dev/{PROJECT}/{repository}/{build}"), "tags": tags,
        "imageSizeBytes": "5368709120", "uploadTime": uploaded, "buildTime": uploaded, "updateTime": uploaded,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json"})
}

/// A repository for container images as Artifact Registry returns it; `path` is `LOCATION/REPOSITORY`.
pub fn repository(project: &str, path: &str) -> Value {
    let (location, repository) = path.split_once('/').unwrap_or((path, ""));
    json!({
        "name": format!("projects/{project}/locations/{location}/repositories/{repository}"), "format": "DOCKER",
        "mode": "STANDARD_REPOSITORY", "createTime": "2026-11-01T08:00:00.000000Z",
        "updateTime": "2026-11-01T08:00:00.000000Z"})
}

/// Routes requests below `/v1/projects/P/locations/L/`.
pub(super) fn answer(
    request: &ApiRequest,
    state: &mut State,
    [project, location]: [&str; 2],
    rest: &[&str],
) -> Answer {
    let parent = format!("projects/{project}/locations/{location}");
    let name = rest.get(1).map_or_else(String::new, |name| format!("{parent}/repositories/{name}"));
    if project != state.project {
        let message = format!(
            "Permission 'artifactregistry.repositories.list' denied on resource '//artifactregistry.googleapis.com/{name}'"
        );
        return refusal(403, "PERMISSION_DENIED", None, &message);
    }
    let get = request.method == Method::GET;
    match rest {
        ["operations", id] if get => {
            let name = format!("{parent}/operations/{id}");
            let pending = |finished: &Value| json!({"name": finished["name"], "metadata": finished["metadata"], "done": false});
            state
                .operation(&name, pending)
                .map_or_else(|| not_found(&format!("Requested entity '{name}'")), ok)
        }
        ["repositories"] if get => {
            let here = format!("{parent}/repositories/");
            let is_here = |r: &&Value| r["name"].as_str().is_some_and(|name| name.starts_with(&here));
            let all: Vec<Value> = state.repositories.iter().filter(is_here).cloned().collect();
            listed(request, state, "repositories", &all)
        }
        ["repositories"] if request.method == Method::POST => create(request, state, &parent),
        ["repositories", _] if request.method == Method::PATCH => patch(request, state, &name),
        ["repositories", _, rest @ ..] if get => read(request, state, &name, rest),
        _ => not_found(&request.path),
    }
}

/// Reads a repository, its images, or the tags of a package.
fn read(request: &ApiRequest, state: &State, name: &str, rest: &[&str]) -> Answer {
    let here = format!("{name}/dockerImages/");
    let within = |i: &&Value| i["name"].as_str().unwrap_or_default().starts_with(&here);
    let images: Vec<Value> = state.images.iter().filter(within).cloned().collect();
    let repository = state.repositories.iter().find(|r| r["name"] == *name);
    if repository.is_none() && images.is_empty() {
        return not_found(&format!("Requested entity '{name}'"));
    }
    match rest {
        [] => ok(repository.cloned().unwrap_or_else(|| json!({"name": name, "format": "DOCKER"}))),
        ["dockerImages"] => listed(request, state, "dockerImages", &images),
        ["packages", package, "tags"] => {
            let tags = images.iter().flat_map(|i| tags_of(i, name, package)).collect::<Vec<_>>();
            listed(request, state, "tags", &tags)
        }
        _ => not_found(&request.path),
    }
}

fn create(request: &ApiRequest, state: &mut State, parent: &str) -> Answer {
    let invalid = |what: &str| refusal(400, "INVALID_ARGUMENT", None, what);
    let Some(id) = request.parameter("repositoryId") else { return invalid("repository_id is required") };
    let is_id = id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_id {
        return invalid("repository_id must match [a-z]([a-z0-9-]*[a-z0-9])?");
    }
    // A client that requests enums as numbers also sends them as numbers.
    if request.body["format"] != "DOCKER" && request.body["format"] != 1 {
        return invalid("repository format must be specified");
    }
    let name = format!("{parent}/repositories/{id}");
    if state.repositories.iter().any(|r| r["name"] == *name) {
        return refusal(409, "ALREADY_EXISTS", None, "the repository already exists");
    }
    let path = format!("{}/{id}", parent.rsplit('/').next().unwrap_or_default());
    let mut made = repository(&state.project, &path);
    if let Some(description) = request.body["description"].as_str() {
        made["description"] = json!(description);
    }
    state.repositories.push(made.clone());
    made["@type"] = json!("type.googleapis.com/google.devtools.artifactregistry.v1.Repository");
    let name = format!("{parent}/operations/operation-{}", state.next());
    let metadata =
        json!({"@type": "type.googleapis.com/google.devtools.artifactregistry.v1.OperationMetadata"});
    let finished = match &state.failing_operations {
        Some(message) => {
            json!({"name": name, "metadata": metadata, "done": true, "error": {"code": 8, "message": message}})
        }
        None => json!({"name": name, "metadata": metadata, "done": true, "response": made}),
    };
    state.begin(name.clone(), finished);
    ok(json!({"name": name, "metadata": metadata, "done": false}))
}

/// Replaces the fields in the mask; only the cleanup fields are supported here.
fn patch(request: &ApiRequest, state: &mut State, name: &str) -> Answer {
    let invalid = |what: &str| refusal(400, "INVALID_ARGUMENT", None, what);
    let mask: Vec<&str> = request.parameter("updateMask").unwrap_or_default().split(',').collect();
    let fields = [("cleanupPolicies", "cleanup_policies"), ("cleanupPolicyDryRun", "cleanup_policy_dry_run")];
    let known = |field: &&str| fields.iter().any(|(json, proto)| field == json || field == proto);
    if !mask.iter().all(known) {
        return invalid("updateMask must name cleanupPolicies and cleanupPolicyDryRun only.");
    }
    let mut body = request.body.clone();
    let mut policies = request.body["cleanupPolicies"].as_object().cloned().unwrap_or_default();
    for policy in policies.values_mut() {
        enum_to_name(&mut policy["action"], &["ACTION_UNSPECIFIED", "DELETE", "KEEP"]);
        if let Some(condition) = policy.get_mut("condition") {
            enum_to_name(&mut condition["tagState"], &["TAG_STATE_UNSPECIFIED", "TAGGED", "UNTAGGED", "ANY"]);
        }
    }
    body["cleanupPolicies"] = json!(policies);
    if policies.len() > 10 {
        return invalid("a repository has at most 10 cleanup policies");
    }
    if let Some((id, _)) = policies.iter().find(|(id, policy)| policy["id"] != **id) {
        return invalid(&format!("cleanup policy {id} must have its key as id"));
    }
    let Some(repository) = state.repositories.iter_mut().find(|r| r["name"] == *name) else {
        return not_found(&format!("Requested entity '{name}'"));
    };
    for (json, proto) in fields {
        let value = body[json].clone();
        let is_default = value.is_null() || value == false || value == json!({});
        match repository.as_object_mut() {
            Some(fields) if mask.contains(&json) || mask.contains(&proto) => {
                // Google omits fields that have their default value.
                if is_default {
                    fields.remove(json)
                } else {
                    fields.insert(json.into(), value)
                };
            }
            _ => {}
        }
    }
    ok(repository.clone())
}

/// Replaces an enum number by its name.
fn enum_to_name(value: &mut Value, words: &[&str]) {
    if let Some(word) = value.as_u64().and_then(|n| words.get(n as usize)) {
        *value = json!(word);
    }
}

fn tags_of(image: &Value, repository: &str, package: &str) -> Vec<Value> {
    let build = image["name"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let Some((name, digest)) = build.split_once('@').filter(|(name, _)| *name == package) else {
        return Vec::new();
    };
    let tags = image["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let at = format!("{repository}/packages/{name}");
    tags.map(|t| json!({"name": format!("{at}/tags/{t}"), "version": format!("{at}/versions/{digest}")}))
        .collect()
}

fn listed(request: &ApiRequest, state: &State, key: &str, all: &[Value]) -> Answer {
    let (page, next) = request.page(all, state.page);
    let mut body = json!({ key: page });
    if let Some(next) = next {
        body["nextPageToken"] = json!(next);
    }
    ok(body)
}
