//! Compute Engine's unmanaged instance groups of a zone, used to store a small note: created atomically, changed
//! against a fingerprint, deleted by id.
//!
//! An empty group is free, outlives every machine, and needs only `roles/compute.instanceAdmin.v1`, which launching
//! machines needs too (Compute Engine v1, `instanceGroups`).

use super::compute::last_part;
use super::rest::Call;
use super::{GcpError, Google};
use reqwest::Method;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceGroup {
    /// Its unique numeric id.
    pub id: String,
    /// Its description, set at creation; it cannot be changed.
    pub description: String,
    /// Its named ports; they are always set together.
    pub named_ports: Vec<(String, u16)>,
    /// Fingerprint of the named ports: setting them with an older fingerprint is refused.
    pub fingerprint: String,
}

impl InstanceGroup {
    /// Its id, or an error: a URL without an id would address all groups.
    fn known_id(&self) -> Result<&str, GcpError> {
        let message = || "Google returned no id for the instance group".to_owned();
        Some(self.id.as_str())
            .filter(|id| !id.is_empty())
            .ok_or_else(|| GcpError::Refused { code: 200, message: message() })
    }
}

impl Google {
    /// The group of that name; none when there is none.
    pub async fn instance_group(
        &self,
        (project, zone): (&str, &str),
        name: &str,
    ) -> Result<Option<InstanceGroup>, GcpError> {
        match self.inner.get(&self.groups(project, zone, name), &[]).await {
            Ok(body) => Ok(Some(group(&body))),
            Err(GcpError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Creates an empty group.
    ///
    /// # Errors
    ///
    /// [`GcpError::Exists`] when a group of that name exists; of two creators the second gets it.
    pub async fn create_instance_group(
        &self,
        (project, zone): (&str, &str),
        name: &str,
        description: &str,
        ports: &[(String, u16)],
    ) -> Result<(), GcpError> {
        let url = self.groups(project, zone, "");
        let body = json!({"name": name, "description": description, "namedPorts": named(ports)});
        self.change_groups((project, zone), Method::POST, url, Some(&body)).await
    }

    /// Sets the named ports of exactly that group as it was read.
    ///
    /// # Errors
    ///
    /// [`GcpError::NotFound`] when it is gone, [`GcpError::Refused`] with 412 when they were changed since.
    pub async fn set_named_ports(
        &self,
        (project, zone): (&str, &str),
        group: &InstanceGroup,
        ports: &[(String, u16)],
    ) -> Result<(), GcpError> {
        let url = format!("{}/setNamedPorts", self.groups(project, zone, group.known_id()?));
        let body = json!({"fingerprint": group.fingerprint, "namedPorts": named(ports)});
        self.change_groups((project, zone), Method::POST, url, Some(&body)).await
    }

    /// Deletes exactly that group: a recreated group of its name has another id.
    pub async fn delete_instance_group(
        &self,
        (project, zone): (&str, &str),
        group: &InstanceGroup,
    ) -> Result<(), GcpError> {
        let url = self.groups(project, zone, group.known_id()?);
        self.change_groups((project, zone), Method::DELETE, url, None).await
    }

    async fn change_groups(
        &self,
        (project, zone): (&str, &str),
        method: Method,
        url: String,
        body: Option<&Value>,
    ) -> Result<(), GcpError> {
        let operation = self.inner.call(&Call { method, url, query: &[], body }).await?;
        let base = format!("{}/compute/v1/projects/{project}/zones/{zone}", self.inner.endpoints.compute);
        let url = |name: &str| format!("{base}/operations/{}", last_part(name));
        self.inner.follow(operation, url).await.map(|_| ())
    }

    fn groups(&self, project: &str, zone: &str, which: &str) -> String {
        let base = &self.inner.endpoints.compute;
        let all = format!("{base}/compute/v1/projects/{project}/zones/{zone}/instanceGroups");
        if which.is_empty() { all } else { format!("{all}/{which}") }
    }
}

fn named(ports: &[(String, u16)]) -> Value {
    ports.iter().map(|(name, port)| json!({"name": name, "port": port})).collect()
}

fn group(body: &Value) -> InstanceGroup {
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    let ports = body["namedPorts"].as_array().into_iter().flatten();
    let port = |p: &Value| Some((p["name"].as_str()?.to_owned(), u16::try_from(p["port"].as_u64()?).ok()?));
    // The id becomes part of a URL.
    let id = text("id");
    let id = if id.bytes().all(|b| b.is_ascii_digit()) { id } else { String::new() };
    InstanceGroup {
        id,
        description: text("description"),
        named_ports: ports.filter_map(port).collect(),
        fingerprint: text("fingerprint"),
    }
}
