//! The resources of a TPU of Compute Engine: one instance, or, for a slice of several hosts, a workload policy, an
//! instance template and the managed instance group that uses both. Each is created once under its name, and deleted
//! only if it is the one that was created. `contributing.md` names the sources of the request bodies.

use super::change::Change;
use super::compute::{Page, last_part};
use super::proof::other_label;
use super::{GcpError, Google, TpuLocation};
use crate::model::text::printable;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kind of resource that a worker consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// Names the topology of a slice (`resourcePolicies` of a region).
    WorkloadPolicy,
    /// The template of a slice's hosts (`instanceTemplates` of a region).
    InstanceTemplate,
    /// The hosts of a slice (`instanceGroupManagers` of a zone).
    InstanceGroup,
    /// A slice of one host (`instances` of a zone).
    Instance,
}

impl PartKind {
    /// The kind as Google's console names it, in lower case.
    pub const fn label(self) -> &'static str {
        match self {
            Self::WorkloadPolicy => "workload policy",
            Self::InstanceTemplate => "instance template",
            Self::InstanceGroup => "instance group",
            Self::Instance => "instance",
        }
    }

    /// The path of a cluster's resources of this kind, below the project.
    fn path(self, location: &TpuLocation) -> String {
        match self {
            Self::WorkloadPolicy => format!("regions/{}/resourcePolicies", location.region()),
            Self::InstanceTemplate => format!("regions/{}/instanceTemplates", location.region()),
            Self::InstanceGroup => format!("zones/{}/instanceGroupManagers", location.zone),
            Self::Instance => format!("zones/{}/instances", location.zone),
        }
    }

    /// The path of the resource of this name, from `projects` on, as other resources refer to it.
    pub fn address(self, location: &TpuLocation, name: &str) -> String {
        format!("projects/{}/{}/{name}", location.project, self.path(location))
    }
}

/// A resource to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub kind: PartKind,
    pub name: String,
    /// The body of the request.
    pub body: Value,
}

/// A created resource, with the id that Google returned immediately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedPart {
    pub kind: PartKind,
    pub name: String,
    /// Its unique numeric id.
    pub id: String,
}

/// The description of the resources that this program creates for a cluster. A workload policy has no labels.
pub fn created_for(cluster: &str) -> String {
    format!("Created by marin-tui for cluster {cluster}")
}

/// Whether a description is that of a resource created for the cluster. Earlier versions wrote `made` for `Created`.
fn is_made_for(description: &Value, cluster: &str) -> bool {
    let made = created_for(cluster);
    let rest = made.strip_prefix("Created ");
    description.as_str().is_some_and(|text| text == made || text.strip_prefix("made ") == rest)
}

impl Google {
    /// The request that creates it.
    pub fn insertion(&self, location: &TpuLocation, part: &Part) -> Change {
        let base = self.compute_base(location);
        let Part { kind, body, .. } = part;
        Self::part_change("POST", &base, &kind.path(location), "", body.clone())
    }

    /// Reads the resource of this name; none when it does not exist.
    pub async fn part(
        &self,
        location: &TpuLocation,
        kind: PartKind,
        name: &str,
    ) -> Result<Option<Value>, GcpError> {
        self.read(&format!("{}/{}/{name}", self.compute_base(location), kind.path(location))).await
    }

    /// The request that deletes a created resource; none when it is gone, or another resource has its name.
    pub async fn part_deletion(
        &self,
        location: &TpuLocation,
        made: &CreatedPart,
    ) -> Result<Option<Change>, GcpError> {
        let now = self.part(location, made.kind, &made.name).await?;
        let is_it = now.is_some_and(|now| now["id"] == made.id.as_str() && !made.id.is_empty());
        Ok(is_it.then(|| self.deletion(location, made.kind, &made.name)))
    }

    /// The requests that delete the instance template and the workload policy that this program created for the group
    /// of that name, with their kinds. A resource of another cluster or of none, or one that another group uses, is
    /// kept.
    pub async fn made_for_group(
        &self,
        location: &TpuLocation,
        group: &str,
        name: &str,
    ) -> Result<Vec<(PartKind, Change)>, GcpError> {
        let mut found = Vec::new();
        for kind in [PartKind::InstanceTemplate, PartKind::WorkloadPolicy] {
            let Some(now) = self.part(location, kind, name).await? else { continue };
            let label = now["properties"]["labels"]["ray-cluster-name"].as_str();
            let is_labelled =
                kind == PartKind::WorkloadPolicy || other_label(&location.cluster, label).is_none();
            if is_made_for(&now["description"], &location.cluster) && is_labelled {
                found.push(kind);
            }
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let url = format!("{}/aggregated/instanceGroupManagers", self.compute_base(location));
        let pages = self.inner.pages::<Page>(&url, &[("returnPartialSuccess", "true")]).await?;
        if let Some(out) = pages.iter().flat_map(|p| &p.unreachables).next() {
            let message = format!("the list of groups is incomplete: {} was unreachable", printable(out));
            return Err(GcpError::Refused { code: 200, message });
        }
        let scopes = pages.iter().flat_map(|p| &p.items);
        let others: Vec<&Value> = scopes
            .flat_map(|(scope, s)| s.instance_group_managers.iter().map(move |g| (scope, g)))
            .filter(|(scope, g)| format!("{scope}/instanceGroupManagers/{}", last_name(g)) != group)
            .map(|(_, g)| g)
            .collect();
        let is_used = |kind: &PartKind| others.iter().any(|g| uses(g, &kind.address(location, name)));
        found.retain(|kind| !is_used(kind));
        Ok(found.into_iter().map(|kind| (kind, self.deletion(location, kind, name))).collect())
    }

    fn deletion(&self, location: &TpuLocation, kind: PartKind, name: &str) -> Change {
        Self::part_change(
            "DELETE",
            &self.compute_base(location),
            &kind.path(location),
            &format!("/{name}"),
            Value::Null,
        )
    }
}

fn last_name(group: &Value) -> &str {
    group["name"].as_str().map_or("", last_part)
}

/// Whether a group refers to this resource anywhere: as its template, as the template of a version, or as its policy.
fn uses(group: &Value, address: &str) -> bool {
    match group {
        Value::String(text) => text == address || text.ends_with(&format!("/{address}")),
        Value::Array(items) => items.iter().any(|v| uses(v, address)),
        Value::Object(fields) => fields.values().any(|v| uses(v, address)),
        _ => false,
    }
}
