//! A worker's machine: what a person's word for it means, and its end at Google.

use super::super::executor::Executor;
use super::super::trouble;
use super::{LOOK, problem};
use crate::gcp::{GcpError, Google, TpuPlace};
use crate::model::cloud::{CloudView, QueuedState, TpuVm, VmState};
use crate::model::{Problem, Text, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What Google may take until it no longer lists what is being deleted; a large slice takes minutes.
const GOING: Duration = Duration::from_secs(600);

/// A worker as it can be deleted: by the queued resource when there is one, for its TPU VM goes with it; a host that is
/// not Google's has neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Queued resource.
    pub queued: Option<String>,
    /// TPU VM.
    pub vm: Option<String>,
    /// Addresses of its hosts.
    pub hosts: Vec<String>,
}

impl Machine {
    /// A host that is reached by SSH and made by nobody of us.
    pub(super) fn host(address: &str) -> Self {
        Self { hosts: vec![address.to_owned()], ..Self::default() }
    }

    /// Whether Google made it.
    pub(super) fn is_google(&self) -> bool {
        self.queued.is_some() || self.vm.is_some()
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        let address = || self.hosts.first().map(String::as_str);
        self.vm.as_deref().or(self.queued.as_deref()).or_else(address).unwrap_or_default()
    }
}

/// Finds what that name or address means among this cluster's TPUs.
pub(super) fn find(view: &CloudView, place: &TpuPlace, wish: &str) -> Option<Machine> {
    let ours = |label: &Option<Text>| label.as_ref().is_some_and(|l| l.raw() == place.cluster);
    let is_it = |vm: &&TpuVm| {
        ours(&vm.ray_cluster) && (vm.name.raw() == wish || vm.hosts.iter().any(|h| h.raw() == wish))
    };
    let vm = view.vms.iter().find(is_it);
    let named = vm.and_then(|vm| vm.queued_resource.as_ref()).map_or(wish, |q| q.raw());
    let queued = view.queued.iter().find(|q| q.name.raw() == named && ours(&q.ray_cluster));
    // A queued resource's own name is not its TPU VM's when another program made it.
    let vm = vm.or_else(|| view.vms.iter().find(|vm| queued.is_some_and(|q| q.nodes.contains(&vm.name))));
    let found = queued.is_some() || vm.is_some();
    found.then(|| Machine {
        queued: queued.map(|q| q.name.raw().to_owned()),
        vm: vm.map(|vm| vm.name.raw().to_owned()),
        hosts: vm.into_iter().flat_map(|vm| &vm.hosts).map(|h| h.raw().to_owned()).collect(),
    })
}

/// Deletes it, and sees that Google no longer lists it.
pub(super) async fn delete(
    executor: &Executor,
    google: &Google,
    place: &TpuPlace,
    machine: &Machine,
) -> Result<(), Problem> {
    let (project, zone) = (place.project.as_str(), place.zone.as_str());
    let deletion = match (&machine.queued, &machine.vm) {
        (Some(queued), _) => google.queued_deletion(project, zone, queued),
        (None, Some(vm)) => google.tpu_deletion(project, zone, vm),
        (None, None) => return Ok(()),
    };
    match executor.google(google, &deletion, None).await {
        Ok(()) if executor.is_recording() => return Ok(()),
        Ok(()) | Err(GcpError::NotFound { .. }) => {}
        // An interrupted attempt's deletion may still be under way, and cannot be asked for twice.
        Err(e) => {
            let view = google.tpus(project, zone, Timestamp::now()).await.map_err(|e| problem(&e))?;
            if !goes(&view, machine) {
                return Err(problem(&e));
            }
        }
    }
    let deadline = Instant::now() + GOING;
    loop {
        let view = google.tpus(project, zone, Timestamp::now()).await.map_err(|e| problem(&e))?;
        let vm = view.vms.iter().any(|v| machine.vm.as_deref() == Some(v.name.raw()));
        let queued = view.queued.iter().any(|q| machine.queued.as_deref() == Some(q.name.raw()));
        if !vm && !queued {
            return Ok(());
        }
        if Instant::now() > deadline {
            let what = "google says that it is deleted, and still lists it";
            return Err(trouble(what, "`marin-tui tpus` shows it; resume in some minutes"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether Google is deleting it.
fn goes(view: &CloudView, machine: &Machine) -> bool {
    let vm = view.vms.iter().find(|v| machine.vm.as_deref() == Some(v.name.raw()));
    let queued = view.queued.iter().find(|q| machine.queued.as_deref() == Some(q.name.raw()));
    queued.is_some_and(|q| q.state == QueuedState::Deleting)
        || vm.is_some_and(|vm| vm.state == VmState::Deleting)
}
