//! Cloud Resource Manager v3: which permissions the caller has in a project.

use super::{Answer, Asked, State, not_found, ok, refusal};
use http::Method;
use serde_json::{Value, json};

/// Answers `/v3/projects/P:testIamPermissions`. A project that is another's looks like one that does not exist.
pub(super) fn answer(asked: &Asked, state: &State, project: &str) -> Answer {
    let Some(project) = project.strip_suffix(":testIamPermissions").filter(|_| asked.method == Method::POST)
    else {
        return not_found(&asked.path);
    };
    if project != state.project {
        let message = format!(
            "Permission 'resourcemanager.projects.testIamPermissions' denied on resource \
             '//cloudresourcemanager.googleapis.com/projects/{project}' (or it may not exist)."
        );
        return refusal(403, "PERMISSION_DENIED", None, &message);
    }
    let asked: Vec<&str> =
        asked.body["permissions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // `service.resources.verb`: one that does not exist fails the whole question.
    if let Some(wrong) =
        asked.iter().find(|name| name.split('.').filter(|part| !part.is_empty()).count() != 3)
    {
        let message = format!("Permission {wrong} is not valid for this resource.");
        return refusal(400, "INVALID_ARGUMENT", None, &message);
    }
    let granted: Vec<&str> = asked.into_iter().filter(|name| !state.denied.contains(*name)).collect();
    ok(if granted.is_empty() { json!({}) } else { json!({ "permissions": granted }) })
}
