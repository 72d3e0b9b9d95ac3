//! Checks Google: the login, and its permissions in the clusters' projects.

use super::given::Setup;
use super::report::{Check, Status};
use crate::gcp::{GcpError, Lack, NEEDS};
use crate::model::sort;
use crate::model::{ClusterSpec, Provider};
use std::collections::BTreeSet;

const LOGIN: &str = "google-login";
const PERMISSIONS: &str = "google-permissions";

/// Checks the login, then the permissions in each project.
pub(super) async fn checks(setup: &Setup) -> Vec<Check> {
    if !setup.needs_google() {
        let why =
            if setup.clusters.is_empty() { "no clusters configured" } else { "no clusters on Google Cloud" };
        return [LOGIN, PERMISSIONS].map(|name| Check::new(name, "", Status::NotNeeded, why)).into();
    }
    setup.progress.show("logging in to Google");
    let mut checks = match setup.google.log_in().await {
        Ok(login) => {
            let login = login.to_string();
            let what = match login.trim_start_matches("; ") {
                "" => "logged in",
                login => login,
            };
            vec![Check::new(LOGIN, "", Status::Ok, what)]
        }
        Err(e) => return vec![Check::needs(LOGIN, "", e.to_string(), e.hint())],
    };
    let is_google = |spec: &&ClusterSpec| spec.provider == Provider::Gcp;
    for spec in setup.clusters.iter().filter(is_google).filter(|spec| spec.google.project.is_none()) {
        let hint = "set `provider.project_id` in its file, or its `project` in the settings";
        checks.push(Check::needs(PERMISSIONS, spec.name.as_str(), "its project is unknown", hint));
    }
    let projects = setup.clusters.iter().filter(is_google);
    let projects: BTreeSet<&str> =
        sort::collected(projects.filter_map(|spec| spec.google.project.as_deref()));
    for project in projects {
        setup.progress.show(format!("checking your permissions in {project}"));
        match setup.google.lacks(project).await {
            Ok(lacks) => checks.extend(of_project(project, &lacks)),
            // Only this check needs that API.
            Err(e @ GcpError::ApiOff { .. }) => {
                checks.push(Check::new(PERMISSIONS, project, Status::NotChecked, e.to_string()));
            }
            Err(e) => checks.push(Check::needs(PERMISSIONS, project, e.to_string(), e.hint())),
        }
    }
    checks
}

/// A row for each missing permission, or one for all.
fn of_project(project: &str, lacks: &[Lack]) -> Vec<Check> {
    let row = |lack: &Lack| {
        let what =
            format!("missing permissions, needed to {}: {}", lack.need.purpose, lack.missing.join(", "));
        let hint = format!(
            "ask the owner of {project} for {}, or for a role with these permissions",
            lack.need.role
        );
        Check::needs(PERMISSIONS, project, what, hint)
    };
    let missing: Vec<_> = lacks.iter().filter(|lack| !lack.missing.is_empty()).map(row).collect();
    if missing.is_empty() {
        let all: usize = NEEDS.iter().map(|need| need.permissions.len()).sum();
        return vec![Check::new(PERMISSIONS, project, Status::Ok, format!("all {all}"))];
    }
    missing
}
