//! Cloud TPU: TPU VMs and queued resources of a zone.

use super::compute::{Role, is_address, last_part, time};
use super::{GcpError, Google, TpuLocation};
use crate::model::cloud::{Capacity, CloudView, QueuedResource, QueuedState, TpuVm, VmState};
use crate::model::{Text, Timestamp};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;

/// The version of the API: best effort exists in v2alpha1 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TpuApi {
    V2,
    V2Alpha1,
}

impl TpuApi {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V2Alpha1 => "v2alpha1",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default, deserialize_with = "vms")]
    nodes: Vec<TpuVm>,
    #[serde(default, deserialize_with = "requests")]
    queued_resources: Vec<QueuedResource>,
    #[serde(default)]
    unreachable: Vec<String>,
}

/// TPU VMs as raw JSON.
#[derive(Deserialize)]
struct RawPage {
    #[serde(default)]
    nodes: Vec<Value>,
    #[serde(default)]
    unreachable: Vec<String>,
}

fn vms<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<TpuVm>, D::Error> {
    list.deserialize_seq(Each(vm))
}

fn requests<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<QueuedResource>, D::Error> {
    list.deserialize_seq(Each(queued_resource))
}

/// Reads a list element by element: a zone of a thousand TPU VMs, each with its startup script, has many megabytes.
struct Each<T>(fn(&Value) -> T);

impl<'de, T> Visitor<'de> for Each<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element::<Value>()? {
            all.push((self.0)(&one));
        }
        Ok(all)
    }
}

impl Google {
    /// All TPU VMs and queued resources of one zone (`-` for all), the TPUs that were created with Compute Engine, and
    /// the running heads. Cloud TPU has no filter, so the caller selects its cluster's by label.
    pub async fn tpus(&self, project: &str, zone: &str, now: Timestamp) -> Result<CloudView, GcpError> {
        // v2alpha1 returns what v2 returns, and also the best-effort field.
        let base = self.tpu_base(TpuApi::V2Alpha1, project, zone);
        let (nodes, queued) = (format!("{base}/nodes"), format!("{base}/queuedResources"));
        let of_cloud_tpu = async {
            let nodes: Vec<Page> = self.inner.pages(&nodes, &[]).await?;
            Ok((nodes, self.inner.pages::<Page>(&queued, &[]).await?))
        };
        let heads = self.machines(project, Role::Head, None);
        let (of_cloud_tpu, compute, heads) =
            tokio::join!(of_cloud_tpu, self.compute_tpus(project, zone), heads);
        let (nodes, queued) = of_cloud_tpu?;
        let complete = nodes.iter().chain(&queued).all(|p| p.unreachable.is_empty());
        let queued = queued.into_iter().flat_map(|p| p.queued_resources).collect();
        let mut vms: Vec<TpuVm> = nodes.into_iter().flat_map(|p| p.nodes).collect();
        // A login that may list only Cloud TPU, or no resize requests, still gets that part.
        let (resizes, unlisted) = match compute {
            Ok(found) => {
                let (found, resizes, error) = self.with_resizes(project, found).await;
                vms.extend(found);
                (resizes, error)
            }
            Err(e) => (Vec::new(), Some(e)),
        };
        let unlisted = unlisted.map(|e| Text::new(format!("{e}; {}", e.hint())));
        // If heads cannot be listed, TPUs of Compute Engine cannot be either, and `unlisted` reports that.
        let mut heads = heads.unwrap_or_default();
        if zone != "-" {
            heads.keep_within(zone);
        }
        Ok(CloudView { vms, queued, resizes, heads: heads.running_heads(), complete, unlisted, queried: now })
    }

    /// TPU VMs of this cluster with this label `ray-node-type`: `worker` is managed by the autoscaler, `unmanaged` was
    /// added by a person.
    pub async fn tpus_of_kind(&self, location: &TpuLocation, kind: &str) -> Result<Vec<TpuVm>, GcpError> {
        let nodes = self.raw_nodes(location).await?;
        let is_ours = |node: &&Value| {
            let labels = &node["labels"];
            labels["ray-cluster-name"] == location.cluster.as_str() && labels["ray-node-type"] == kind
        };
        let mut all: Vec<TpuVm> = nodes.iter().filter(is_ours).map(vm).collect();
        let compute = self.compute_tpus(&location.project, &location.zone).await?.into_iter();
        let compute = compute.filter(|found| found.role.as_deref() == Some(kind)).map(|found| found.vm);
        all.extend(compute.filter(|vm| vm.ray_cluster.as_ref().is_some_and(|l| l.raw() == location.cluster)));
        Ok(all)
    }

    /// The raw JSON of every TPU VM of the zone; an error when the list may be incomplete.
    pub(super) async fn raw_nodes(&self, location: &TpuLocation) -> Result<Vec<Value>, GcpError> {
        let base = self.tpu_base(TpuApi::V2, &location.project, &location.zone);
        let pages: Vec<RawPage> = self.inner.pages(&format!("{base}/nodes"), &[]).await?;
        if let Some(zone) = pages.iter().flat_map(|p| &p.unreachable).next() {
            let message = format!("the list of TPU VMs is incomplete: {} was unreachable", last_part(zone));
            return Err(GcpError::Refused { code: 200, message });
        }
        Ok(pages.into_iter().flat_map(|p| p.nodes).collect())
    }

    /// Reads one TPU VM.
    pub(super) async fn tpu(&self, project: &str, zone: &str, name: &str) -> Result<TpuVm, GcpError> {
        let base = self.tpu_base(TpuApi::V2Alpha1, project, zone);
        self.inner.get(&format!("{base}/nodes/{name}"), &[]).await.map(|node| vm(&node))
    }

    /// Reads one queued resource.
    pub(super) async fn queued(
        &self,
        project: &str,
        zone: &str,
        name: &str,
    ) -> Result<QueuedResource, GcpError> {
        let base = self.tpu_base(TpuApi::V2Alpha1, project, zone);
        self.inner.get(&format!("{base}/queuedResources/{name}"), &[]).await.map(|q| queued_resource(&q))
    }

    pub(super) fn tpu_base(&self, api: TpuApi, project: &str, zone: &str) -> String {
        format!("{}/{}/projects/{project}/locations/{zone}", self.inner.endpoints.tpu, api.path())
    }
}

fn text(value: &Value) -> Option<Text> {
    value.as_str().filter(|s| !s.is_empty()).map(Text::new)
}

fn short(value: &Value) -> Option<Text> {
    value.as_str().map(last_part).filter(|s| !s.is_empty()).map(Text::new)
}

pub(super) fn vm(node: &Value) -> TpuVm {
    let endpoints = || node["networkEndpoints"].as_array().into_iter().flatten();
    // Addresses become arguments of ssh.
    let address = |v: &Value| v.as_str().filter(|a| is_address(a)).map(Text::new);
    let scheduling = &node["schedulingConfig"];
    let capacity = match () {
        () if scheduling["reserved"] == true => Capacity::Reserved,
        () if scheduling["spot"] == true => Capacity::Spot,
        () if scheduling["preemptible"] == true => Capacity::Preemptible,
        () => Capacity::OnDemand,
    };
    let health = node["health"].as_str().filter(|h| !matches!(*h, "HEALTHY" | "HEALTH_UNSPECIFIED"));
    TpuVm {
        id: text(&node["id"]),
        name: short(&node["name"]).unwrap_or_else(|| Text::new("")),
        accelerator_type: text(&node["acceleratorType"]).unwrap_or_else(|| Text::new("")),
        state: VmState::from_api(node["state"].as_str().unwrap_or_default()),
        api_state: text(&node["state"]).unwrap_or_default(),
        unhealthy: health.map(|h| text(&node["healthDescription"]).unwrap_or_else(|| Text::new(h))),
        // A host without an address keeps its position in the list.
        hosts: endpoints().map(|e| address(&e["ipAddress"]).unwrap_or_else(|| Text::new(""))).collect(),
        external: endpoints().map(|e| address(&e["accessConfig"]["externalIp"])).collect(),
        capacity,
        queued_resource: short(&node["queuedResource"]),
        created: node["createTime"].as_str().and_then(time),
        started: None,
        ray_cluster: text(&node["labels"]["ray-cluster-name"]),
        ray_type: text(&node["labels"]["ray-user-node-type"]),
        compute: None,
    }
}

/// Reads a queued resource as Google lists it, or from the body of a request for one.
pub fn queued_resource(queued: &Value) -> QueuedResource {
    let specs: Vec<&Value> = queued["tpu"]["nodeSpec"].as_array().into_iter().flatten().collect();
    let node = specs.first().map_or(&Value::Null, |s| &s["node"]);
    let capacity = match () {
        () if !queued["bestEffort"].is_null() => Capacity::BestEffort,
        () if !queued["spot"].is_null() => Capacity::Spot,
        () if queued["provisioningModel"] == "FLEX_START" => Capacity::FlexStart,
        () if queued["reservationName"].is_string() || queued["guaranteed"]["reserved"] == true => {
            Capacity::Reserved
        }
        () => Capacity::OnDemand,
    };
    let state = &queued["state"];
    QueuedResource {
        name: short(&queued["name"]).unwrap_or_else(|| Text::new("")),
        state: QueuedState::from_api(state["state"].as_str().unwrap_or_default()),
        api_state: text(&state["state"]).unwrap_or_default(),
        error: text(&state["failedData"]["error"]["message"]),
        accelerator_type: text(&node["acceleratorType"]).unwrap_or_else(|| Text::new("")),
        nodes: specs.iter().flat_map(|s| node_ids(s)).collect(),
        capacity,
        created: queued["createTime"].as_str().and_then(time),
        ray_cluster: text(&node["labels"]["ray-cluster-name"]),
    }
}

/// Names of the TPU VMs of one node spec: its own, or those of a multislice (v2 `multisliceParams`, v2alpha1
/// `multiNodeParams`), which are numbered from 0.
fn node_ids(spec: &Value) -> Vec<Text> {
    if let Some(id) = text(&spec["nodeId"]) {
        return vec![id];
    }
    let many = [&spec["multisliceParams"], &spec["multiNodeParams"]].into_iter().find(|m| m.is_object());
    let Some(many) = many else { return Vec::new() };
    let prefix = many["nodeIdPrefix"].as_str().unwrap_or_default();
    let count = many["nodeCount"].as_u64().unwrap_or(0).min(1024);
    (0..count).map(|i| Text::new(format!("{prefix}-{i}"))).collect()
}
