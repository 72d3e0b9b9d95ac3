//! Resize requests of the managed instance groups that create TPUs.

use super::compute::time;
use super::compute_tpus::{Found, text_of};
use super::{GcpError, Google};
use crate::model::cloud::TpuVm;
use crate::model::machine_type::TpuMachine;
use crate::model::{ResizeRequest, Text};
use serde::Deserialize;
use serde_json::Value;

/// A page of `instanceGroupManagers.resizeRequests.list`.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    items: Vec<Value>,
}

impl Google {
    /// These TPUs, the resize requests of their groups, and why further requests are missing. A group without an
    /// instance takes over the state of its first request, which is then not listed.
    pub(super) async fn with_resizes(
        &self,
        project: &str,
        found: Vec<Found>,
    ) -> (Vec<TpuVm>, Vec<ResizeRequest>, Option<GcpError>) {
        let (mut vms, mut resizes, mut error) = (Vec::new(), Vec::new(), None);
        for Found { mut vm, queue, .. } in found {
            // After an error the other groups are not tried: each may take as long to fail.
            if let Some((path, machine_type)) = queue.filter(|_| error.is_none()) {
                let requests = self.resize_requests(project, &path, (&vm, &machine_type)).await;
                let mut requests = requests.unwrap_or_else(|e| {
                    error = Some(e);
                    Vec::new()
                });
                if vm.hosts.is_empty() && !requests.is_empty() {
                    let first = requests.remove(0);
                    (vm.unhealthy, vm.created) = (Some(Text::new(first.text())), first.created);
                    vm.api_state = first.api_state;
                }
                resizes.extend(requests);
            }
            vms.push(vm);
        }
        (vms, resizes, error)
    }

    /// The open and the failed resize requests of a group whose instances are like this TPU, of that machine type.
    async fn resize_requests(
        &self,
        project: &str,
        path: &str,
        (like, machine_type): (&TpuVm, &str),
    ) -> Result<Vec<ResizeRequest>, GcpError> {
        let url =
            format!("{}/compute/v1/projects/{project}/{path}/resizeRequests", self.inner.endpoints.compute);
        let pages: Vec<Page> = match self.inner.pages(&url, &[]).await {
            // Google refuses the list for some groups, and the group may have just been deleted.
            Err(GcpError::Refused { code: 400, .. } | GcpError::NotFound { .. }) => return Ok(Vec::new()),
            pages => pages?,
        };
        let [_, zone, _, group] = path.split('/').collect::<Vec<_>>()[..] else { return Ok(Vec::new()) };
        let tpu = TpuMachine::parse(machine_type);
        let read = |value: &Value| {
            let api_state = text_of(&value["state"]);
            let size = value["resizeBy"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            let status = &value["status"];
            Some(ResizeRequest {
                name: Text::new(text_of(&value["name"])),
                group: Text::new(group),
                zone: Text::new(zone),
                state: ResizeRequest::state_of(api_state)?,
                api_state: Text::new(api_state),
                error: first(&status["error"]).or_else(|| first(&status["lastAttempt"]["error"])),
                size,
                accelerator_type: Text::new(tpu.as_ref().map(|tpu| tpu.slice(1)).unwrap_or_default()),
                chips: tpu.as_ref().map_or(0, |tpu| tpu.chips_of(size)),
                capacity: like.capacity,
                created: time(text_of(&value["creationTimestamp"])),
                ray_cluster: like.ray_cluster.clone(),
                ray_type: like.ray_type.clone(),
            })
        };
        Ok(pages.iter().flat_map(|page| &page.items).filter_map(read).collect())
    }
}

/// The first message of a Compute Engine error.
fn first(error: &Value) -> Option<Text> {
    let message = text_of(&error["errors"][0]["message"]);
    (!message.is_empty()).then(|| Text::new(message))
}
