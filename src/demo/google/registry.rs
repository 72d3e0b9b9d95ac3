//! Artifact Registry v1: images and tags of a repository.

use super::{Answer, Asked, PROJECT, State, not_found, ok, refusal};
use http::Method;
use serde_json::{Value, json};

/// An image as Artifact Registry shows it; `place` is `LOCATION/REPOSITORY`.
pub fn image(place: &str, name: &str, digest: &str, tags: &[&str], uploaded: &str) -> Value {
    let (location, repository) = place.split_once('/').unwrap_or((place, ""));
    let build = format!("{name}@sha256:{digest}");
    json!({
        "name": format!("projects/{PROJECT}/locations/{location}/repositories/{repository}/dockerImages/{build}"),
        "uri": format!("{location}-docker.pkg.dev/{PROJECT}/{repository}/{build}"), "tags": tags,
        "imageSizeBytes": "5368709120", "uploadTime": uploaded, "buildTime": uploaded, "updateTime": uploaded,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json"})
}

/// Answers below `/v1/projects/P/locations/L/repositories/R/`.
pub(super) fn answer(asked: &Asked, state: &State, place: [&str; 3], rest: &[&str]) -> Answer {
    let [project, location, repository] = place;
    let name = format!("projects/{project}/locations/{location}/repositories/{repository}");
    if project != state.project {
        let message = format!(
            "Permission 'artifactregistry.repositories.list' denied on resource '//artifactregistry.googleapis.com/{name}'"
        );
        return refusal(403, "PERMISSION_DENIED", None, &message);
    }
    let here = format!("{name}/dockerImages/");
    let within = |i: &&Value| i["name"].as_str().unwrap_or_default().starts_with(&here);
    let images: Vec<Value> = state.images.iter().filter(within).cloned().collect();
    if asked.method != Method::GET || images.is_empty() {
        return not_found(&format!("Requested entity '{name}'"));
    }
    match rest {
        ["dockerImages"] => listed(asked, state, "dockerImages", &images),
        ["packages", package, "tags"] => {
            let tags = images.iter().flat_map(|i| tags_of(i, &name, package)).collect::<Vec<_>>();
            listed(asked, state, "tags", &tags)
        }
        _ => not_found(&asked.path),
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

fn listed(asked: &Asked, state: &State, key: &str, all: &[Value]) -> Answer {
    let (page, next) = asked.page(all, state.page);
    let mut body = json!({ key: page });
    if let Some(next) = next {
        body["nextPageToken"] = json!(next);
    }
    ok(body)
}
