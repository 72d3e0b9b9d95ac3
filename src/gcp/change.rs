//! Requests that change something at Google. Each is built as a value before it is sent, so that a dry run can print
//! the exact request.

use super::compute::last_part;
use super::rest::Call;
use super::{GcpError, Google, TpuApi};
use crate::model::Registry;
use reqwest::Method;
use serde_json::{Map, Value, json};

/// One request that changes something: `method url` with a JSON body.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// `DELETE`, `PATCH` or `POST`.
    pub method: &'static str,
    /// The full URL, with its query.
    pub url: String,
    /// The JSON body; null when there is none.
    pub body: Value,
    /// Where the state of the resulting long-running operation is read.
    operations: Operations,
}

/// A change that Google has accepted and started.
#[derive(Clone, Debug)]
pub struct StartedOperation {
    operation: Value,
    operations: Operations,
}

impl StartedOperation {
    /// The numeric id of the created or changed resource (Compute Engine, `Operation.targetId`); empty when Google
    /// returned none.
    pub fn target(&self) -> &str {
        self.operation["targetId"].as_str().unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Operations {
    /// A zone or region of Compute Engine: this prefix and the last part of the operation's name.
    OfZone(String),
    /// A service with google.longrunning: this prefix and the operation's whole name.
    OfService(String),
    /// No operation: the response is the changed resource.
    None,
}

impl Google {
    /// Sends a change and waits until its operation is done (for a request for capacity: until it is accepted).
    ///
    /// # Errors
    ///
    /// Google's refusal, or the error of the long-running operation. The request is sent once: after a timeout only
    /// Google's lists show whether it arrived.
    pub async fn execute(&self, change: &Change) -> Result<(), GcpError> {
        self.end(self.begin(change).await?).await
    }

    /// Sends a change and returns as soon as Google has started it.
    pub async fn begin(&self, change: &Change) -> Result<StartedOperation, GcpError> {
        let method = match change.method {
            "DELETE" => Method::DELETE,
            "PATCH" => Method::PATCH,
            _ => Method::POST,
        };
        let body = (!change.body.is_null()).then_some(&change.body);
        let operation = self.inner.call(&Call { method, url: change.url.clone(), query: &[], body }).await?;
        Ok(StartedOperation { operation, operations: change.operations.clone() })
    }

    /// Waits until the operation of a change is done.
    pub async fn end(&self, begun: StartedOperation) -> Result<(), GcpError> {
        let (prefix, is_of_zone) = match &begun.operations {
            Operations::OfZone(prefix) => (prefix, true),
            Operations::OfService(prefix) => (prefix, false),
            Operations::None => return Ok(()),
        };
        let state = |name: &str| format!("{prefix}/{}", if is_of_zone { last_part(name) } else { name });
        self.inner.follow(begun.operation, state).await.map(|_| ())
    }

    /// Deletes a machine of Compute Engine.
    pub(super) fn instance_deletion(&self, project: &str, zone: &str, name: &str) -> Change {
        let base = format!("{}/compute/v1/projects/{project}/zones/{zone}", self.inner.endpoints.compute);
        Change {
            method: "DELETE",
            url: format!("{base}/instances/{name}"),
            body: Value::Null,
            operations: Operations::OfZone(format!("{base}/operations")),
        }
    }

    /// Deletes a managed instance group with its instances; `base` is the project's URL, `path` the group's path below
    /// it.
    pub(super) fn group_deletion(base: &str, path: &str) -> Change {
        Self::part_change("DELETE", base, path, "", Value::Null)
    }

    /// Deletes one instance of a group and reduces the group's size by one.
    pub(super) fn member_deletion(base: &str, path: &str, instance: &str) -> Change {
        Self::part_change("POST", base, path, "/deleteInstances", json!({ "instances": [instance] }))
    }

    /// A change to a resource below `path`, which begins with a zone or region; that zone or region has the operation.
    pub(super) fn part_change(
        method: &'static str,
        base: &str,
        path: &str,
        what: &str,
        body: Value,
    ) -> Change {
        let scope: Vec<&str> = path.split('/').take(2).collect();
        let operations = Operations::OfZone(format!("{base}/{}/operations", scope.join("/")));
        Change { method, url: format!("{base}/{path}{what}"), body, operations }
    }

    /// Deletes a TPU VM.
    pub(super) fn tpu_deletion(&self, project: &str, zone: &str, name: &str) -> Change {
        self.tpu_change(TpuApi::V2, "DELETE", (project, zone), &format!("nodes/{name}"), Value::Null)
    }

    /// Deletes a queued resource, its TPU VMs included.
    pub(super) fn queued_deletion(&self, project: &str, zone: &str, name: &str) -> Change {
        let what = format!("queuedResources/{name}?force=true");
        self.tpu_change(TpuApi::V2, "DELETE", (project, zone), &what, Value::Null)
    }

    /// Deletes a queued resource; fails with [`GcpError::State`] while it still holds a TPU VM.
    pub(super) fn idle_queued_deletion(&self, project: &str, zone: &str, name: &str) -> Change {
        let what = format!("queuedResources/{name}");
        self.tpu_change(TpuApi::V2, "DELETE", (project, zone), &what, Value::Null)
    }

    /// Requests TPU VMs; `body` is the queued resource in the format of that API version.
    pub fn queued_request(&self, api: TpuApi, location: (&str, &str), name: &str, body: Value) -> Change {
        self.tpu_change(api, "POST", location, &format!("queuedResources?queuedResourceId={name}"), body)
    }

    /// Sets one value of a TPU VM's metadata and keeps the others; `None` when it has that value already. Reads the TPU
    /// VM first, because Google replaces the whole map.
    pub async fn metadata_change(
        &self,
        location: (&str, &str),
        name: &str,
        key: &str,
        value: &str,
    ) -> Result<Option<Change>, GcpError> {
        let url = format!("{}/nodes/{name}", self.tpu_base(TpuApi::V2, location.0, location.1));
        let node = self.inner.get(&url, &[]).await?;
        let mut metadata = node["metadata"].as_object().cloned().unwrap_or_default();
        if metadata.get(key).is_some_and(|old| old == value) {
            return Ok(None);
        }
        metadata.insert(key.to_owned(), value.into());
        let what = format!("nodes/{name}?updateMask=metadata");
        let body = json!({ "metadata": metadata });
        Ok(Some(self.tpu_change(TpuApi::V2, "PATCH", location, &what, body)))
    }

    /// Creates a repository for container images.
    pub fn repository_creation(&self, registry: &Registry, description: &str) -> Change {
        let base = &self.inner.endpoints.artifact_registry;
        let Registry { project, location, repository } = registry;
        Change {
            method: "POST",
            url: format!(
                "{base}/v1/projects/{project}/locations/{location}/repositories?repositoryId={repository}"
            ),
            body: json!({ "format": "DOCKER", "description": description }),
            operations: Operations::OfService(format!("{base}/v1")),
        }
    }

    /// Replaces all clean-up policies of a repository: by the rules of field masks, an update replaces the whole map
    /// (AIP-134). `enforce` turns off the repository's dry-run mode.
    pub fn policies_change(
        &self,
        registry: &Registry,
        policies: &Map<String, Value>,
        enforce: bool,
    ) -> Change {
        let mut body = json!({ "cleanupPolicies": policies });
        let mut mask = "cleanupPolicies".to_owned();
        if enforce {
            body["cleanupPolicyDryRun"] = false.into();
            mask += ",cleanupPolicyDryRun";
        }
        let url = format!("{}?updateMask={mask}", self.repository_url(registry));
        Change { method: "PATCH", url, body, operations: Operations::None }
    }

    fn tpu_change(
        &self,
        api: TpuApi,
        method: &'static str,
        (project, zone): (&str, &str),
        what: &str,
        body: Value,
    ) -> Change {
        Change {
            method,
            url: format!("{}/{what}", self.tpu_base(api, project, zone)),
            body,
            operations: Operations::OfService(format!("{}/{}", self.inner.endpoints.tpu, api.path())),
        }
    }
}
