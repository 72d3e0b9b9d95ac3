//! Deletions of TPUs that were created with Compute Engine. As with Cloud TPU, everything that would be deleted is read
//! immediately before the request is built: an instance by its id; a group by its name, and its id and creation time
//! are compared.

use super::change::Change;
use super::compute::{instance, last_part};
use super::compute_tpus::group_of;
use super::proof::{ChosenTpu, changed, other_label};
use super::rest::Call;
use super::{GcpError, Google, TpuLocation};
use crate::model::cloud::ComputeTpu;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::Method;
use serde_json::Value;

/// Maximum number of instances that are read concurrently.
const MAX_CONCURRENT_READS: usize = 16;

impl Google {
    /// The deletion request of an instance that is a slice of its own. An instance of a group is deleted through the
    /// group, which would otherwise recreate it.
    pub(super) async fn instance_deletion_of(
        &self,
        location: &TpuLocation,
        kind: Option<&str>,
        chosen: &ChosenTpu,
        compute: &ComputeTpu,
    ) -> Result<Option<Change>, GcpError> {
        let what = |why: &str| changed(format!("instance {}: {why}", chosen.name));
        if chosen.id.is_empty() {
            return Err(what("Google returned no id for it"));
        }
        let base = self.compute_base(location);
        let Some(now) = self.read(&format!("{base}/zones/{}/instances/{}", location.zone, chosen.id)).await?
        else {
            return Ok(None);
        };
        belongs(&now, location, kind).map_err(|why| what(&why))?;
        if group_of(&now) != compute.group {
            return Err(what("it now belongs to a different managed instance group"));
        }
        let Some(now) = instance(&now)
            .filter(|now| (&now.id, &now.name, now.created) == (&chosen.id, &chosen.name, chosen.created))
        else {
            return Err(what("it is not the one that was selected"));
        };
        Ok(Some(match &compute.group {
            None => self.instance_deletion(&location.project, &location.zone, &now.id),
            Some(group) => {
                Self::member_deletion(&base, group, &format!("zones/{}/instances/{}", now.zone, now.name))
            }
        }))
    }

    /// The deletion request of a managed instance group with all its instances: each must belong to this cluster and be
    /// among the selected ones.
    pub(super) async fn group_deletion_of(
        &self,
        location: &TpuLocation,
        kind: Option<&str>,
        chosen: &ChosenTpu,
        compute: &ComputeTpu,
    ) -> Result<Option<Change>, GcpError> {
        let what = |why: &str| changed(format!("instance group {}: {why}", chosen.name));
        let Some(path) = compute.group.as_deref().filter(|path| last_part(path) == chosen.name) else {
            return Err(what("its location is unknown"));
        };
        let base = self.compute_base(location);
        let url = format!("{base}/{path}");
        let Some(group) = self.read(&url).await? else { return Ok(None) };
        let created = group["creationTimestamp"].as_str().and_then(super::compute::time);
        let same = group["id"].as_str() == Some(&chosen.id) && created.is_some() && created == chosen.created;
        if !same {
            return Err(what("it was deleted and recreated since it was selected"));
        }
        let managed = self.managed_instances(&url).await?;
        let there: Vec<&Value> = managed.iter().filter(|m| m["id"].is_string()).collect();
        if there.is_empty() {
            // The labels of the instances that it would create show which cluster it belongs to.
            let mut template = self.template(&group).await?.unwrap_or_default();
            if let Some(own) = group["allInstancesConfig"]["properties"]["labels"].as_object() {
                for (key, value) in own {
                    template["labels"][key] = value.clone();
                }
            }
            belongs(&template, location, kind).map_err(|why| what(&why))?;
        }
        let one = |managed: &Value| {
            let (id, at) = (text(&managed["id"]), text(&managed["instance"]));
            let (base, is_chosen) = (&base, compute.instances.contains(&id));
            async move {
                let name = last_part(&at).to_owned();
                if !is_chosen {
                    return Err(what(&format!("it now has {name}, which was not selected")));
                }
                let Some((_, path)) = at.split_once("/zones/").filter(|_| is_number(&id)) else {
                    return Err(what(&format!("the location of {name} is unknown")));
                };
                let zone = path.split('/').next().unwrap_or_default();
                let now = self.read(&format!("{base}/zones/{zone}/instances/{id}")).await?;
                let now = now.map(|now| belongs(&now, location, kind));
                now.unwrap_or(Ok(())).map_err(|why| what(&format!("{name}: {why}")))
            }
        };
        let checks = stream::iter(there.into_iter().map(one)).buffer_unordered(MAX_CONCURRENT_READS);
        checks.try_collect::<()>().await?;
        Ok(Some(Self::group_deletion(&base, path)))
    }

    /// The instances that the group manages: those that exist, which have an id, and those that it is about to create.
    async fn managed_instances(&self, group: &str) -> Result<Vec<Value>, GcpError> {
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let query: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("pageToken", &token)] };
            let url = format!("{group}/listManagedInstances");
            let page = self.inner.call(&Call { method: Method::POST, url, query, body: None }).await?;
            all.extend(page["managedInstances"].as_array().into_iter().flatten().cloned());
            let next = text(&page["nextPageToken"]);
            if next.is_empty() || next == token {
                return Ok(all);
            }
            token = next;
        }
    }

    /// Reads a resource; none when it does not exist.
    pub(super) async fn read(&self, url: &str) -> Result<Option<Value>, GcpError> {
        match self.inner.get(url, &[]).await {
            Err(GcpError::NotFound { .. }) => Ok(None),
            answer => answer.map(Some),
        }
    }

    pub(super) fn compute_base(&self, location: &TpuLocation) -> String {
        format!("{}/compute/v1/projects/{}", self.inner.endpoints.compute, location.project)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_number(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit())
}

/// Checks that an instance, or a group's template, belongs to this cluster and has this label `ray-node-type`.
fn belongs(now: &Value, location: &TpuLocation, kind: Option<&str>) -> Result<(), String> {
    if let Some(why) = other_label(&location.cluster, now["labels"]["ray-cluster-name"].as_str()) {
        return Err(why);
    }
    if kind.is_some_and(|kind| now["labels"]["ray-node-type"] != kind) {
        return Err("its label ray-node-type has changed".to_owned());
    }
    Ok(())
}
