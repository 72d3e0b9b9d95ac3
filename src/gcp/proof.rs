//! Deletions that verify their target: it is read immediately before, compared with its state when it was selected, and
//! only then is the deletion request built.
//!
//! Code outside this module cannot build such a request without that check. Compute Engine machines are deleted by
//! their unique id; Cloud TPU only has names, so the id and the creation time are compared.

use super::change::Change;
use super::compute::{Instance, Role, instance};
use super::tpu::{queued_resource, vm};
use super::{GcpError, Google, TpuApi, TpuLocation};
use crate::model::cloud::{ComputeTpu, QueuedResource, TpuVm};
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{Text, Timestamp};
use serde_json::Value;
use std::collections::BTreeSet;

/// A TPU VM as it was when it was selected for deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenTpu {
    pub name: String,
    /// Its unique numeric id; empty when Google returned none.
    pub id: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its Compute Engine resources; none for a node of Cloud TPU.
    pub compute: Option<ComputeTpu>,
}

impl From<&TpuVm> for ChosenTpu {
    fn from(vm: &TpuVm) -> Self {
        let id = vm.id.as_ref().map_or_else(String::new, |id| id.raw().to_owned());
        Self { name: vm.name.raw().to_owned(), id, created: vm.created, compute: vm.compute.clone() }
    }
}

/// A queued resource as it was when it was selected for deletion, with every TPU VM that is deleted with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenQueued {
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    pub vms: Vec<ChosenTpu>,
}

/// The error for a target that has changed.
pub(super) fn changed(what: impl AsRef<str>) -> GcpError {
    GcpError::Changed { what: printable(what.as_ref()).into_owned() }
}

/// A message when the cluster label is not this cluster's.
pub(super) fn other_label(cluster: &str, label: Option<&str>) -> Option<String> {
    match label {
        Some(label) if label == cluster => None,
        Some(label) => Some(format!("its label ray-cluster-name is {label}")),
        None => Some("it has no label ray-cluster-name".to_owned()),
    }
}

impl Google {
    /// The deletion request of a machine, after reading it by its id: name, creation time and both labels must be those
    /// of the selected one. `None` when it is gone.
    pub async fn machine_deletion(
        &self,
        location: &TpuLocation,
        role: Role,
        chosen: &Instance,
    ) -> Result<Option<Change>, GcpError> {
        let what = |why: &str| changed(format!("machine {} in {}: {why}", chosen.name, chosen.zone));
        if chosen.id.is_empty() {
            return Err(what("Google returned no id for it"));
        }
        let base = format!("{}/compute/v1/projects/{}", self.inner.endpoints.compute, location.project);
        let url = format!("{base}/zones/{}/instances/{}", chosen.zone, chosen.id);
        let now = match self.inner.get(&url, &[]).await {
            Err(GcpError::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        let has_role = now["labels"]["ray-node-type"] == role.label();
        let Some(now) = instance(&now).filter(|_| has_role) else {
            return Err(what(&format!("its label ray-node-type is not {}", role.label())));
        };
        if let Some(why) = other_label(&location.cluster, now.cluster.as_deref()) {
            return Err(what(&why));
        }
        let same = (&now.id, &now.name, now.created) == (&chosen.id, &chosen.name, chosen.created);
        if !same {
            return Err(what("it is not the one that was selected"));
        }
        Ok(Some(self.instance_deletion(&location.project, &chosen.zone, &now.id)))
    }

    /// The deletion request of a TPU, after reading it and each of its instances again. `kind` is the value that its
    /// label `ray-node-type` must have. `None` when it is gone.
    pub async fn tpu_deletion_of(
        &self,
        location: &TpuLocation,
        kind: Option<&str>,
        chosen: &ChosenTpu,
    ) -> Result<Option<Change>, GcpError> {
        match &chosen.compute {
            Some(compute) if compute.whole => {
                return self.group_deletion_of(location, kind, chosen, compute).await;
            }
            Some(compute) => return self.instance_deletion_of(location, kind, chosen, compute).await,
            None => {}
        }
        let base = self.tpu_base(TpuApi::V2, &location.project, &location.zone);
        let node = match self.inner.get(&format!("{base}/nodes/{}", chosen.name), &[]).await {
            Err(GcpError::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        verify(&node, location, kind, chosen)?;
        Ok(Some(self.tpu_deletion(&location.project, &location.zone, &chosen.name)))
    }

    /// The deletion request of a queued resource with its TPU VMs, after reading it and every TPU VM of its zone again:
    /// all its TPU VMs must belong to this cluster and be among the selected ones. `None` when it is gone.
    pub async fn queued_deletion_of(
        &self,
        location: &TpuLocation,
        chosen: &ChosenQueued,
    ) -> Result<Option<Change>, GcpError> {
        let what = |why: String| changed(format!("queued resource {}: {why}", chosen.name));
        let base = self.tpu_base(TpuApi::V2Alpha1, &location.project, &location.zone);
        let now = match self.inner.get(&format!("{base}/queuedResources/{}", chosen.name), &[]).await {
            Err(GcpError::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        let specs = now["tpu"]["nodeSpec"].as_array().map_or(&[][..], Vec::as_slice);
        if specs.is_empty() {
            return Err(what("it has no cluster label".to_owned()));
        }
        for spec in specs {
            let label = spec["node"]["labels"]["ray-cluster-name"].as_str();
            if let Some(why) = other_label(&location.cluster, label) {
                return Err(what(why));
            }
        }
        let now = queued_resource(&now);
        if now.created.is_none() || now.created != chosen.created || now.name.raw() != chosen.name {
            return Err(what("it is not the one that was selected".to_owned()));
        }
        for node in self.nodes_of(location, &now).await? {
            let name = vm(&node).name.raw().to_owned();
            let Some(one) = chosen.vms.iter().find(|one| one.name == name) else {
                return Err(what(format!("it now holds {name}, which was not selected")));
            };
            verify(&node, location, None, one)?;
        }
        Ok(Some(self.queued_deletion(&location.project, &location.zone, &chosen.name)))
    }

    /// The TPU VMs of a queued resource, according to the queued resource or to the TPU VMs.
    async fn nodes_of(
        &self,
        location: &TpuLocation,
        queued: &QueuedResource,
    ) -> Result<Vec<Value>, GcpError> {
        let named: BTreeSet<&str> = sort::collected(queued.nodes.iter().map(Text::raw));
        let nodes = self.raw_nodes(location).await?;
        let is_in = |node: &Value| {
            let node = vm(node);
            node.queued_resource.as_ref() == Some(&queued.name) || named.contains(node.name.raw())
        };
        Ok(nodes.into_iter().filter(is_in).collect())
    }
}

/// Fails unless the TPU VM that was read is the selected one and belongs to this cluster.
fn verify(
    node: &Value,
    location: &TpuLocation,
    kind: Option<&str>,
    chosen: &ChosenTpu,
) -> Result<(), GcpError> {
    let what = |why: &str| changed(format!("TPU VM {}: {why}", chosen.name));
    if let Some(why) = other_label(&location.cluster, node["labels"]["ray-cluster-name"].as_str()) {
        return Err(what(&why));
    }
    if kind.is_some_and(|kind| node["labels"]["ray-node-type"] != kind) {
        return Err(what("its label ray-node-type has changed"));
    }
    if ChosenTpu::from(&vm(node)) == *chosen {
        Ok(())
    } else {
        Err(what("it was deleted and recreated since it was selected"))
    }
}
