//! The permissions that the calls of this module need in a project, by purpose.
//!
//! From the reference pages of IAM (roles and permissions of Compute Engine, Cloud TPU and Artifact Registry) and of
//! the methods. Queued resources are protected by the permissions of TPU VMs. Google rejects a request that tests a
//! permission that does not exist, so all of these must exist.

/// The permissions for one purpose, and the smallest predefined role that includes them all.
#[derive(Debug, PartialEq, Eq)]
pub struct Need {
    /// The purpose, as the end of a sentence with "needed to".
    pub purpose: &'static str,
    pub role: &'static str,
    pub permissions: &'static [&'static str],
}

/// The permissions that are tested in a project, the most common purpose first. Secrets are omitted: their permissions
/// are mostly granted on the secret itself, and reading the secret shows whether they are.
pub const NEEDS: &[Need] = &[
    Need {
        purpose: "find heads and Compute Engine TPUs",
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
        purpose: "show TPUs",
        role: "roles/tpu.viewer",
        permissions: &["tpu.nodes.get", "tpu.nodes.list", "tpu.operations.get"],
    },
    Need {
        purpose: "show image tags",
        role: "roles/artifactregistry.reader",
        permissions: &["artifactregistry.dockerimages.list", "artifactregistry.repositories.get"],
    },
    Need {
        purpose: "restart clusters, and to lock clusters during operations",
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
        purpose: "add and delete TPUs",
        role: "roles/tpu.admin",
        permissions: &["tpu.nodes.create", "tpu.nodes.delete", "tpu.nodes.update"],
    },
    Need {
        purpose: "push images, and to set cleanup policies",
        role: "roles/artifactregistry.admin",
        permissions: &[
            "artifactregistry.repositories.create",
            "artifactregistry.repositories.update",
            "artifactregistry.repositories.uploadArtifacts",
        ],
    },
];
