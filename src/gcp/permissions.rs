//! What a login may do in a project: the permissions that the calls of this room need, and those that it lacks.
//!
//! From the reference pages of IAM (roles and permissions of Compute Engine, Cloud TPU and Artifact Registry) and of the
//! methods. Queued resources are guarded by the permissions of TPU VMs. Google refuses a question about a permission
//! that does not exist, so each of these has to be one.

use super::rest::Call;
use super::{GcpError, Google};
use reqwest::Method;
use serde_json::json;

/// Permissions that are needed for one thing, and the smallest predefined role that has them all.
#[derive(Debug, PartialEq, Eq)]
pub struct Need {
    /// What they are needed for, as the end of "needed to".
    pub aim: &'static str,
    pub role: &'static str,
    pub permissions: &'static [&'static str],
}

/// What is asked of a project, the most ordinary thing first. Secrets are left out: their permissions are mostly granted
/// on the secret itself, which reading it shows.
pub const NEEDS: &[Need] = &[
    Need {
        aim: "find heads and TPUs of Compute Engine",
        role: "roles/compute.viewer",
        permissions: &[
            "compute.instances.get",
            "compute.instances.list",
            "compute.instanceGroups.get",
            "compute.instanceGroupManagers.get",
            "compute.instanceGroupManagers.list",
            "compute.instanceTemplates.get",
        ],
    },
    Need {
        aim: "show TPUs",
        role: "roles/tpu.viewer",
        permissions: &["tpu.nodes.get", "tpu.nodes.list", "tpu.operations.get"],
    },
    Need {
        aim: "show image tags",
        role: "roles/artifactregistry.reader",
        permissions: &["artifactregistry.dockerimages.list", "artifactregistry.repositories.get"],
    },
    Need {
        aim: "restart clusters, and to mark operations for other operators",
        role: "roles/compute.instanceAdmin.v1",
        permissions: &[
            "compute.instances.delete",
            "compute.instanceGroups.create",
            "compute.instanceGroups.delete",
            "compute.instanceGroups.update",
            "compute.instanceGroupManagers.delete",
            "compute.instanceGroupManagers.update",
            "compute.zoneOperations.get",
            "compute.regionOperations.get",
        ],
    },
    Need {
        aim: "add and delete TPUs",
        role: "roles/tpu.admin",
        permissions: &["tpu.nodes.create", "tpu.nodes.delete", "tpu.nodes.update"],
    },
    Need {
        aim: "push images, and to set clean-up policies",
        role: "roles/artifactregistry.admin",
        permissions: &[
            "artifactregistry.repositories.create",
            "artifactregistry.repositories.update",
            "artifactregistry.repositories.uploadArtifacts",
        ],
    },
];

/// A need, and those of its permissions that the login does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct Lack {
    pub need: &'static Need,
    /// In the order of the need's; empty when nothing is missing.
    pub missing: Vec<&'static str>,
}

impl Google {
    /// Asks which of all [`NEEDS`] the login has in the project itself or above it, in one call.
    pub async fn lacks(&self, project: &str) -> Result<Vec<Lack>, GcpError> {
        let base = &self.inner.endpoints.resource_manager;
        let all: Vec<_> = NEEDS.iter().flat_map(|need| need.permissions).collect();
        let answer = self
            .inner
            .call(&Call {
                method: Method::POST,
                url: format!("{base}/v3/projects/{project}:testIamPermissions"),
                query: &[],
                body: Some(&json!({ "permissions": all })),
            })
            .await?;
        // Without any there is no list.
        let has = |permission: &&&'static str| {
            let granted = answer["permissions"].as_array();
            granted.is_some_and(|granted| granted.iter().any(|one| one == **permission))
        };
        let lack = |need: &'static Need| Lack {
            need,
            missing: need.permissions.iter().filter(|one| !has(one)).copied().collect(),
        };
        Ok(NEEDS.iter().map(lack).collect())
    }
}
