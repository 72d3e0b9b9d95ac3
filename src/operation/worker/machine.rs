//! A worker's machine: finds it by the name or address that the operator gave, and deletes it at Google.

use super::super::executor::Executor;
use super::super::problem::problem;
use super::super::{begin_again, failure};
use crate::gcp::{Change, ChosenQueued, ChosenTpu, GcpError, Google, PartKind, TpuLocation};
use crate::model::cloud::{CloudView, ComputeTpu, QueuedState, TpuVm, VmState};
use crate::model::text::printable;
use crate::model::{Problem, Text, Timestamp, Verb};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Time limit for Google to list a deleted worker no longer; a large slice takes minutes.
const DELETE_TIMEOUT: Duration = Duration::from_secs(600);

/// A worker as it can be deleted: by its queued resource if there is one, because its TPU VMs are deleted with it. A
/// host outside Google has neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Name of the queued resource, if the worker belongs to one.
    pub queued: Option<String>,
    /// TPU VM; the first of several that belong together.
    pub vm: Option<String>,
    /// Addresses of its hosts; of all hosts of TPU VMs that belong together.
    pub hosts: Vec<String>,
    /// When the queued resource was created, in milliseconds since the epoch.
    pub queued_created: Option<i64>,
    /// All TPU VMs that are deleted with it, as they were when it was found.
    pub vms: Vec<MachineVm>,
}

/// A TPU VM as it was found: right before its deletion it must still be the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineVm {
    /// Name of the TPU VM or of the host.
    pub name: String,
    /// The id that Google gave it.
    pub id: String,
    /// When it was created, in milliseconds since the epoch.
    pub created: Option<i64>,
    /// Its form at Compute Engine; `None` for a node of Cloud TPU.
    pub compute: Option<ComputeTpu>,
}

impl From<&TpuVm> for MachineVm {
    fn from(vm: &TpuVm) -> Self {
        let ChosenTpu { name, id, created, compute } = ChosenTpu::from(vm);
        Self { name, id, created: created.map(Timestamp::as_millis), compute }
    }
}

impl From<&MachineVm> for ChosenTpu {
    fn from(vm: &MachineVm) -> Self {
        let created = vm.created.map(Timestamp::from_millis);
        Self { name: vm.name.clone(), id: vm.id.clone(), created, compute: vm.compute.clone() }
    }
}

impl MachineVm {
    /// Whether it is still the same. The parts of `compute` are not compared, because an instance group loses its
    /// instances one after the other.
    fn is_still(&self, vm: &TpuVm) -> bool {
        let now = Self::from(vm);
        now.compute.is_some() == self.compute.is_some()
            && Self { compute: self.compute.clone(), ..now } == *self
    }
}

impl Machine {
    /// Whether it was created with Compute Engine.
    pub(super) fn is_compute(&self) -> bool {
        self.vms.iter().any(|vm| vm.compute.is_some())
    }

    /// The kind of its TPU at Google, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self.vms.first().and_then(|vm| vm.compute.as_ref()) {
            None => "TPU VM",
            Some(compute) if compute.whole => "instance group",
            Some(_) => "instance",
        }
    }

    /// A host of a local cluster, reached by SSH and not created by Google.
    pub(super) fn host(address: &str) -> Self {
        Self { hosts: vec![address.to_owned()], ..Self::default() }
    }

    /// Whether the worker is a machine at Google.
    pub(in super::super) fn is_google(&self) -> bool {
        self.queued.is_some() || self.vm.is_some()
    }

    /// Whether removing one of them would remove the other, or part of it.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let is_same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        is_same(&self.queued, &other.queued)
            || is_same(&self.vm, &other.vm)
            || self.hosts.iter().any(|host| other.hosts.contains(host))
    }

    /// Whether it is the worker that was found before: the same TPU VMs of the same queued resource, none of them
    /// recreated since. A preempted one has lost its addresses and is still the same.
    pub(in super::super) fn is_still_all_of(&self, before: &Self) -> bool {
        (&self.queued, self.queued_created, &self.vms) == (&before.queued, before.queued_created, &before.vms)
    }

    /// The name shown to operators.
    pub fn name(&self) -> &str {
        let address = || self.hosts.first().map(String::as_str);
        self.vm.as_deref().or(self.queued.as_deref()).or_else(address).unwrap_or_default()
    }
}

/// Finds the TPU of this cluster with that name or address.
pub(super) fn find(view: &CloudView, location: &TpuLocation, worker: &str) -> Option<Machine> {
    let named = view.vms.iter().filter(|vm| vm.name.raw() == worker);
    let mut candidates = named.chain(view.at(worker).into_iter().map(|(vm, _)| vm));
    let vm = candidates.find(|vm| is_ours(vm.ray_cluster.as_ref(), location));
    let named = vm.and_then(|vm| vm.queued_resource.as_ref()).map_or(worker, |q| q.raw());
    let queued =
        view.queued.iter().find(|q| q.name.raw() == named && is_ours(q.ray_cluster.as_ref(), location));
    // A queued resource created by another program may have another name than its TPU VM.
    let vm = vm.or_else(|| view.vms.iter().find(|vm| queued.is_some_and(|q| q.has(vm))));
    let found = queued.is_some() || vm.is_some();
    found.then(|| Machine {
        queued: queued.map(|q| q.name.raw().to_owned()),
        vm: vm.map(|vm| vm.name.raw().to_owned()),
        hosts: vm.into_iter().flat_map(|vm| &vm.hosts).map(|h| h.raw().to_owned()).collect(),
        queued_created: queued.and_then(|q| q.created).map(Timestamp::as_millis),
        vms: vm.into_iter().map(MachineVm::from).collect(),
    })
}

/// Like [`find`], with everything that Google deletes together: every TPU VM of the queued resource, and all their
/// hosts.
///
/// # Errors
///
/// One of them belongs to another cluster, or there are several and only one was named.
pub(super) fn find_whole(
    view: &CloudView,
    location: &TpuLocation,
    worker: &str,
) -> Result<Option<Machine>, Problem> {
    let Some(found) = find(view, location, worker) else { return Ok(None) };
    let first = found.vm.as_deref().and_then(|name| view.vms.iter().find(|vm| vm.name.raw() == name));
    let named = found.queued.as_deref().or_else(|| first?.queued_resource.as_ref().map(Text::raw));
    let queued = named.and_then(|name| view.queued.iter().find(|q| q.name.raw() == name));
    let Some(queued) = queued else { return Ok(Some(found)) };
    let all: Vec<&TpuVm> = view.vms.iter().filter(|vm| queued.has(vm)).collect();
    let label = |cluster: Option<&Text>| cluster.map_or_else(|| "no cluster".to_owned(), ToString::to_string);
    let together = "Google deletes a queued resource with all its TPU VMs";
    if !is_ours(queued.ray_cluster.as_ref(), location) {
        let what = format!(
            "{} belongs to queued resource {}, which is labeled with {}; {together}",
            printable(worker),
            queued.name,
            label(queued.ray_cluster.as_ref())
        );
        return Err(failure(what, "ask its owner; fix the label if it is wrong"));
    }
    if let Some(other) = all.iter().find(|vm| !is_ours(vm.ray_cluster.as_ref(), location)) {
        let what = format!(
            "queued resource {} also contains {}, which is labeled with {}; {together}",
            queued.name,
            other.name,
            label(other.ray_cluster.as_ref())
        );
        return Err(failure(what, "ask its owner; fix the label if it is wrong"));
    }
    let count = all.len().max(queued.nodes.len());
    if count > 1 && worker != queued.name.raw() {
        let names: Vec<_> = all.iter().map(|vm| vm.name.to_string()).collect();
        let what = format!(
            "{} is one of {} TPU VMs of queued resource {} ({}); {together}",
            printable(worker),
            count,
            queued.name,
            names.join(", ")
        );
        let hint = Verb::RemoveWorker.on(queued.name.raw(), "remove all of them");
        return Err(failure(what, hint));
    }
    Ok(Some(Machine {
        queued: Some(queued.name.raw().to_owned()),
        hosts: all.iter().flat_map(|vm| &vm.hosts).map(|h| h.raw().to_owned()).collect(),
        queued_created: queued.created.map(Timestamp::as_millis),
        vms: all.into_iter().map(MachineVm::from).collect(),
        ..found
    }))
}

fn is_ours(label: Option<&Text>, location: &TpuLocation) -> bool {
    label.is_some_and(|l| l.raw() == location.cluster)
}

/// The requests that delete the worker; empty if it is gone. It is read again first and must match what was found.
async fn deletions(
    google: &Google,
    location: &TpuLocation,
    machine: &Machine,
) -> Result<Vec<Change>, GcpError> {
    if let Some(name) = &machine.queued {
        let chosen = ChosenQueued {
            name: name.clone(),
            created: machine.queued_created.map(Timestamp::from_millis),
            vms: machine.vms.iter().map(ChosenTpu::from).collect(),
        };
        let deletion = google.queued_deletion_of(location, &chosen).await?;
        if let Some(deletion) = deletion {
            return Ok(vec![deletion]);
        }
    }
    let mut all = Vec::new();
    for vm in &machine.vms {
        let deletion = google.tpu_deletion_of(location, None, &ChosenTpu::from(vm)).await?;
        all.extend(deletion);
    }
    Ok(all)
}

/// The requests that delete the instance template and the workload policy that this program created for an instance
/// group.
pub(super) async fn created_for(
    google: &Google,
    location: &TpuLocation,
    machine: &Machine,
) -> Result<Vec<(PartKind, Change)>, GcpError> {
    let compute = machine.vms.first().and_then(|vm| vm.compute.as_ref()).filter(|compute| compute.whole);
    match (compute.and_then(|compute| compute.group.as_deref()), &machine.vm) {
        (Some(group), Some(name)) => google.made_for_group(location, group, name).await,
        _ => Ok(Vec::new()),
    }
}

/// Deletes it, and waits until Google no longer lists it.
pub(super) async fn delete(
    executor: &Executor,
    google: &Google,
    location: &TpuLocation,
    machine: &Machine,
) -> Result<(), Problem> {
    let (project, zone) = (location.project.as_str(), location.zone.as_str());
    if machine.vm.is_some() && machine.vms.is_empty() {
        let what = "the journal is from an older version and does not identify the TPU VM";
        return Err(failure(what, begin_again()));
    }
    let done = async {
        for deletion in deletions(google, location, machine).await? {
            match executor.google(google, &deletion, None).await {
                Ok(()) | Err(GcpError::NotFound { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    };
    match done.await {
        Ok(()) if executor.is_recording() => return Ok(()),
        Ok(()) => {}
        Err(e @ GcpError::Changed { .. }) => return Err(problem(&e)),
        // A deletion of an interrupted attempt may still be running, and cannot be requested twice.
        Err(e) => {
            let view = google.tpus(project, zone, Timestamp::now()).await.map_err(|e| problem(&e))?;
            if !is_deleting(&view, machine) {
                return Err(problem(&e));
            }
        }
    }
    let deadline = Instant::now() + DELETE_TIMEOUT;
    loop {
        let view = google.tpus(project, zone, Timestamp::now()).await.map_err(|e| problem(&e))?;
        if let Some(why) = view.unlisted.as_ref().filter(|_| machine.is_compute()) {
            let what = format!("Google reports it as deleted, which could not be verified: {why}");
            return Err(failure(what, Verb::Resume.to("resume in a few minutes")));
        }
        let vm = view.vms.iter().any(|v| machine.vms.iter().any(|m| m.is_still(v)));
        let queued = view.queued.iter().any(|q| machine.queued.as_deref() == Some(q.name.raw()));
        if !vm && !queued {
            return Ok(());
        }
        if Instant::now() > deadline {
            let what = "Google reports it as deleted but still lists it";
            return Err(failure(
                what,
                [Verb::Tpus.to("check what is listed"), Verb::Resume.to("resume in a few minutes")],
            ));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Whether Google is deleting it.
fn is_deleting(view: &CloudView, machine: &Machine) -> bool {
    let vm = view.vms.iter().find(|v| machine.vm.as_deref() == Some(v.name.raw()));
    let queued = view.queued.iter().find(|q| machine.queued.as_deref() == Some(q.name.raw()));
    queued.is_some_and(|q| q.state == QueuedState::Deleting)
        || vm.is_some_and(|vm| vm.state == VmState::Deleting)
}

/// Poll interval for Google and for Ray.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::Capacity;

    #[test]
    fn an_address_selects_the_live_tpu_vm_and_a_name_the_vm_of_that_name() {
        let vm = |name: &str, state| TpuVm {
            id: None,
            name: name.into(),
            accelerator_type: "v4-8".into(),
            state,
            api_state: "".into(),
            unhealthy: None,
            hosts: vec!["10.0.0.7".into()],
            external: vec![None],
            capacity: Capacity::Spot,
            queued_resource: None,
            created: None,
            started: None,
            ray_cluster: Some("marin".into()),
            ray_type: None,
            compute: None,
        };
        let vms = vec![
            vm("taken-away", VmState::Preempted),
            vm("leaving", VmState::Deleting),
            vm("living", VmState::Ready),
        ];
        let view = CloudView { vms, complete: true, ..CloudView::default() };
        let location = TpuLocation { project: "p".into(), zone: "z".into(), cluster: "marin".into() };
        let found = |worker| find(&view, &location, worker).and_then(|machine| machine.vm);
        assert_eq!(found("10.0.0.7").as_deref(), Some("living"));
        assert_eq!(found("taken-away").as_deref(), Some("taken-away"));
        assert_eq!(found("10.0.0.8"), None);
        let whole = find_whole(&view, &location, "10.0.0.7").unwrap().unwrap();
        assert_eq!((whole.vm.as_deref(), whole.vms.len()), (Some("living"), 1));
    }
}
