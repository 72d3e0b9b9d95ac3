//! Cloud Resource Manager v3: the caller's permissions in a project.

use super::{Answer, ApiRequest, State, not_found, ok, refusal};
use http::Method;
use serde_json::{Value, json};

/// Handles `/v3/projects/P:testIamPermissions`. An inaccessible project returns the same error as one that does not
/// exist.
pub(super) fn answer(request: &ApiRequest, state: &State, project: &str) -> Answer {
    let Some(project) =
        project.strip_suffix(":testIamPermissions").filter(|_| request.method == Method::POST)
    else {
        return not_found(&request.path);
    };
    if project != state.project {
        let message = format!(
            "Permission 'resourcemanager.projects.testIamPermissions' denied on resource \
             '//cloudresourcemanager.googleapis.com/projects/{project}' (or it may not exist)."
        );
        return refusal(403, "PERMISSION_DENIED", None, &message);
    }
    let permissions: Vec<&str> =
        request.body["permissions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // `service.resources.verb`: one invalid name fails the whole request.
    if let Some(wrong) =
        permissions.iter().find(|name| name.split('.').filter(|part| !part.is_empty()).count() != 3)
    {
        let message = format!("Permission {wrong} is not valid for this resource.");
        return refusal(400, "INVALID_ARGUMENT", None, &message);
    }
    let granted: Vec<&str> = permissions.into_iter().filter(|name| !state.denied.contains(*name)).collect();
    ok(if granted.is_empty() { json!({}) } else { json!({ "permissions": granted }) })
}
