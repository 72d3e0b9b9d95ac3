//! Deletions that prove their target: what is to be deleted is read right before, compared with what it was when it was
//! chosen, and only then is there a request that deletes it.
//!
//! Outside this room nobody can make such a request without that look. Machines of Compute Engine are deleted by their
//! number, which Google never gives twice; Cloud TPU knows only names, so a number and a time of creation are compared.

use super::change::Change;
use super::compute::{Head, instance};
use super::tpu::{queued_resource, vm};
use super::{GcpError, Google, TpuApi, TpuPlace};
use crate::model::cloud::{QueuedResource, TpuVm};
use crate::model::text::printable;
use crate::model::{Text, Timestamp};
use serde_json::Value;
use std::collections::BTreeSet;

/// A TPU VM as it was when it was chosen for deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenTpu {
    /// Its name.
    pub name: String,
    /// The number that Google gave it; empty when Google named none.
    pub id: String,
    /// When it was created.
    pub created: Option<Timestamp>,
}

impl From<&TpuVm> for ChosenTpu {
    fn from(vm: &TpuVm) -> Self {
        let id = vm.id.as_ref().map_or_else(String::new, |id| id.raw().to_owned());
        Self { name: vm.name.raw().to_owned(), id, created: vm.created }
    }
}

/// A queued resource as it was when it was chosen for deletion, with every TPU VM that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenQueued {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its TPU VMs.
    pub vms: Vec<ChosenTpu>,
}

/// That something is not what it was.
fn changed(what: impl AsRef<str>) -> GcpError {
    GcpError::Changed { what: printable(what.as_ref()).into_owned() }
}

/// The label of the cluster, where it is not this one: in words.
fn other_label(cluster: &str, label: Option<&str>) -> Option<String> {
    match label {
        Some(label) if label == cluster => None,
        Some(label) => Some(format!("its label names cluster {label}")),
        None => Some("it has no label of a cluster".to_owned()),
    }
}

impl Google {
    /// The deletion of a head, after it was read once more by its number: name, time of creation and both labels must be
    /// those of the head that was chosen. None when it is gone.
    pub async fn head_deletion(&self, place: &TpuPlace, chosen: &Head) -> Result<Option<Change>, GcpError> {
        let what = |why: &str| changed(format!("machine {} in {}: {why}", chosen.name, chosen.zone));
        if chosen.id.is_empty() {
            return Err(what("google names no number of it"));
        }
        let base = format!("{}/compute/v1/projects/{}", self.inner.endpoints.compute, place.project);
        let url = format!("{base}/zones/{}/instances/{}", chosen.zone, chosen.id);
        let now = match self.inner.get(&url, &[]).await {
            Err(GcpError::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        let is_head = now["labels"]["ray-node-type"] == "head";
        let Some(now) = instance(&now).filter(|_| is_head) else {
            return Err(what("it is not labelled as a head"));
        };
        if let Some(why) = other_label(&place.cluster, now.cluster.as_deref()) {
            return Err(what(&why));
        }
        let same = (&now.id, &now.name, now.created) == (&chosen.id, &chosen.name, chosen.created);
        if !same {
            return Err(what("it is another one than the one that was chosen"));
        }
        Ok(Some(self.instance_deletion(&place.project, &chosen.zone, &now.id)))
    }

    /// The deletion of a TPU VM, after it was read once more. `kind` is the label `ray-node-type` that it must have.
    /// None when it is gone.
    pub async fn tpu_deletion_of(
        &self,
        place: &TpuPlace,
        kind: Option<&str>,
        chosen: &ChosenTpu,
    ) -> Result<Option<Change>, GcpError> {
        let base = self.tpu_base(TpuApi::V2, &place.project, &place.zone);
        let node = match self.inner.get(&format!("{base}/nodes/{}", chosen.name), &[]).await {
            Err(GcpError::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        proven(&node, place, kind, chosen)?;
        Ok(Some(self.tpu_deletion(&place.project, &place.zone, &chosen.name)))
    }

    /// The deletion of a queued resource with its TPU VMs, after it and every TPU VM of its zone were read once more: all
    /// of its TPU VMs must be this cluster's, and be among those that were chosen. None when it is gone.
    pub async fn queued_deletion_of(
        &self,
        place: &TpuPlace,
        chosen: &ChosenQueued,
    ) -> Result<Option<Change>, GcpError> {
        let what = |why: String| changed(format!("queued resource {}: {why}", chosen.name));
        let base = self.tpu_base(TpuApi::V2Alpha1, &place.project, &place.zone);
        let now = match self.inner.get(&format!("{base}/queuedResources/{}", chosen.name), &[]).await {
            Err(GcpError::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        let specs = now["tpu"]["nodeSpec"].as_array().map_or(&[][..], Vec::as_slice);
        if specs.is_empty() {
            return Err(what("it does not say which cluster it is of".to_owned()));
        }
        for spec in specs {
            let label = spec["node"]["labels"]["ray-cluster-name"].as_str();
            if let Some(why) = other_label(&place.cluster, label) {
                return Err(what(why));
            }
        }
        let now = queued_resource(&now);
        if now.created.is_none() || now.created != chosen.created || now.name.raw() != chosen.name {
            return Err(what("it is another one than the one that was chosen".to_owned()));
        }
        for node in self.nodes_of(place, &now).await? {
            let name = vm(&node).name.raw().to_owned();
            let Some(one) = chosen.vms.iter().find(|one| one.name == name) else {
                return Err(what(format!("it holds {name} now, which was not chosen")));
            };
            proven(&node, place, None, one)?;
        }
        Ok(Some(self.queued_deletion(&place.project, &place.zone, &chosen.name)))
    }

    /// The TPU VMs that are in a queued resource, by what either of them says.
    async fn nodes_of(&self, place: &TpuPlace, queued: &QueuedResource) -> Result<Vec<Value>, GcpError> {
        let named: BTreeSet<&str> = queued.nodes.iter().map(Text::raw).collect();
        let nodes = self.raw_nodes(place).await?;
        let is_in = |node: &Value| {
            let node = vm(node);
            node.queued_resource.as_ref() == Some(&queued.name) || named.contains(node.name.raw())
        };
        Ok(nodes.into_iter().filter(is_in).collect())
    }
}

/// An error unless the TPU VM that was read is the one that was chosen, and this cluster's.
fn proven(node: &Value, place: &TpuPlace, kind: Option<&str>, chosen: &ChosenTpu) -> Result<(), GcpError> {
    let what = |why: &str| changed(format!("TPU VM {}: {why}", chosen.name));
    if let Some(why) = other_label(&place.cluster, node["labels"]["ray-cluster-name"].as_str()) {
        return Err(what(&why));
    }
    if kind.is_some_and(|kind| node["labels"]["ray-node-type"] != kind) {
        return Err(what("its label ray-node-type is another one now"));
    }
    if ChosenTpu::from(&vm(node)) == *chosen {
        Ok(())
    } else {
        Err(what("it was deleted and made anew since it was chosen"))
    }
}
