//! Deletes preempted TPU VMs and the queued resources that held them, and preempted instances and instance groups.
//!
//! Each is read again right before its deletion, because it may have changed since it was listed. No deletion is
//! forced: Google refuses to delete a queued resource that still holds a running TPU VM.

use super::compute::is_url_part;
use super::{ChosenTpu, GcpError, Google, TpuLocation};
use crate::model::cloud::{CloudView, QueuedState, TpuVm, VmState};
use crate::model::sort;
use crate::model::{Cleaned, Leftover, LeftoverKind, Text, Timestamp};
use futures_util::stream::{self, StreamExt};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum number of concurrent deletions.
const MAX_CONCURRENT_DELETIONS: usize = 16;
/// Timeout for a queued resource to reflect that its TPU VMs are gone: it passes through `SUSPENDING` first.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

impl Google {
    /// Deletes these leftovers of the cluster, then verifies that they are gone. `report` is called with each result as
    /// it arrives; the returned results are verified.
    pub async fn clean(
        &self,
        location: &TpuLocation,
        all: Vec<Leftover>,
        report: impl Fn(&Leftover, &Cleaned),
    ) -> Vec<(Leftover, Cleaned)> {
        let (valid, invalid): (Vec<_>, Vec<_>) = all.into_iter().partition(|l| is_url_part(l.name.raw()));
        let (machines, requests): (Vec<_>, Vec<_>) =
            valid.into_iter().partition(|l| l.kind != LeftoverKind::QueuedResource);
        let mut done = self.clean_machines(location, machines, &report).await;
        let requests = self.clean_requests(location, requests, &done, &report).await;
        done.extend(requests);
        self.verify(location, &mut done).await;
        done.extend(invalid.into_iter().map(|leftover| {
            let cleaned = Cleaned::Failed {
                what: "its name is not a valid Google Cloud name".into(),
                hint: "check it in the Google Cloud console".into(),
            };
            report(&leftover, &cleaned);
            (leftover, cleaned)
        }));
        sort::by(&mut done, |(a, _), (b, _)| (a.kind, a.name.raw()).cmp(&(b.kind, b.name.raw())));
        done
    }

    /// Deletes TPU VMs, instances and instance groups.
    async fn clean_machines(
        &self,
        location: &TpuLocation,
        machines: Vec<Leftover>,
        report: &impl Fn(&Leftover, &Cleaned),
    ) -> Vec<(Leftover, Cleaned)> {
        let one = |leftover: Leftover| async move {
            let cleaned = match leftover.kind {
                LeftoverKind::Instance | LeftoverKind::InstanceGroup => {
                    self.clean_compute(location, &leftover).await
                }
                LeftoverKind::TpuVm | LeftoverKind::QueuedResource => {
                    self.clean_vm(location, &leftover).await
                }
            };
            let cleaned = cleaned.unwrap_or_else(|e| failed(&e));
            report(&leftover, &cleaned);
            (leftover, cleaned)
        };
        stream::iter(machines).map(one).buffer_unordered(MAX_CONCURRENT_DELETIONS).collect().await
    }

    /// Deletes queued resources, except those with a TPU VM that is not gone according to the results in `machines`.
    async fn clean_requests(
        &self,
        location: &TpuLocation,
        requests: Vec<Leftover>,
        machines: &[(Leftover, Cleaned)],
        report: &impl Fn(&Leftover, &Cleaned),
    ) -> Vec<(Leftover, Cleaned)> {
        let is_gone = |cleaned: &Cleaned| matches!(cleaned, Cleaned::Deleted | Cleaned::AlreadyGone);
        let vms = machines.iter().filter(|(l, _)| l.kind == LeftoverKind::TpuVm);
        let gone: BTreeMap<&str, bool> = sort::collected(vms.map(|(l, c)| (l.name.raw(), is_gone(c))));
        let one = |leftover: Leftover| {
            let held =
                leftover.holds.iter().find(|vm| !gone.get(vm.raw()).copied().unwrap_or(false)).cloned();
            async move {
                let cleaned = match held {
                    Some(vm) => Cleaned::Skipped(format!("its TPU VM {vm} still exists")),
                    None => self.clean_queued(location, &leftover).await.unwrap_or_else(|e| failed(&e)),
                };
                report(&leftover, &cleaned);
                (leftover, cleaned)
            }
        };
        stream::iter(requests).map(one).buffer_unordered(MAX_CONCURRENT_DELETIONS).collect().await
    }

    async fn clean_vm(&self, location: &TpuLocation, leftover: &Leftover) -> Result<Cleaned, GcpError> {
        let name = leftover.name.raw();
        let vm = match self.tpu(&location.project, &location.zone, name).await {
            Err(GcpError::NotFound { .. }) => return Ok(Cleaned::AlreadyGone),
            answer => answer?,
        };
        if !vm.is_leftover_of(&location.cluster) {
            return Ok(left_alone(&vm.state_label(), vm.ray_cluster.as_ref(), location));
        }
        if vm.created != leftover.created {
            return Ok(recreated());
        }
        match self.execute(&self.tpu_deletion(&location.project, &location.zone, name)).await {
            Err(GcpError::NotFound { .. }) => Ok(Cleaned::AlreadyGone),
            answer => answer.map(|()| Cleaned::Deleted),
        }
    }

    /// Deletes an instance or a group of Compute Engine if it is still preempted as a whole and all its instances
    /// belong to this cluster.
    async fn clean_compute(&self, location: &TpuLocation, leftover: &Leftover) -> Result<Cleaned, GcpError> {
        let found = self.compute_tpus(&location.project, &location.zone).await?;
        let is_it = |vm: &&TpuVm| vm.name == leftover.name && vm.kind() == leftover.kind;
        let Some(vm) = found.iter().map(|found| &found.vm).find(is_it) else {
            return Ok(Cleaned::AlreadyGone);
        };
        if !vm.is_leftover_of(&location.cluster) {
            return Ok(left_alone(vm.state.label(), vm.ray_cluster.as_ref(), location));
        }
        if vm.created != leftover.created {
            return Ok(recreated());
        }
        let deletion = match self.tpu_deletion_of(location, None, &ChosenTpu::from(vm)).await {
            Err(GcpError::Changed { what }) => return Ok(Cleaned::Skipped(what)),
            deletion => deletion?,
        };
        let Some(deletion) = deletion else { return Ok(Cleaned::AlreadyGone) };
        let group = vm.compute.as_ref().filter(|compute| compute.whole).and_then(|c| c.group.as_deref());
        let made = match group {
            Some(group) => self.made_for_group(location, group, vm.name.raw()).await.unwrap_or_default(),
            None => Vec::new(),
        };
        match self.execute(&deletion).await {
            Err(GcpError::NotFound { .. }) => return Ok(Cleaned::AlreadyGone),
            answer => answer?,
        }
        // These resources cost nothing; any that remain are reused by the next worker of that name.
        for (_, deletion) in made {
            drop(self.execute(&deletion).await);
        }
        Ok(Cleaned::Deleted)
    }

    async fn clean_queued(&self, location: &TpuLocation, leftover: &Leftover) -> Result<Cleaned, GcpError> {
        let (began, name) = (Instant::now(), leftover.name.raw());
        loop {
            let request = match self.queued(&location.project, &location.zone, name).await {
                Err(GcpError::NotFound { .. }) => return Ok(Cleaned::AlreadyGone),
                answer => answer?,
            };
            if !request.is_leftover_of(&location.cluster) {
                return Ok(left_alone(&request.state_label(), request.ray_cluster.as_ref(), location));
            }
            if request.created != leftover.created {
                return Ok(recreated());
            }
            match self.execute(&self.idle_queued_deletion(&location.project, &location.zone, name)).await {
                Err(GcpError::NotFound { .. }) => return Ok(Cleaned::AlreadyGone),
                // The queued resource may not reflect yet that its TPU VMs are gone.
                Err(GcpError::State { .. }) if began.elapsed() < SETTLE_TIMEOUT => {
                    tokio::time::sleep(self.inner.poll_interval).await;
                }
                answer => return answer.map(|()| Cleaned::Deleted),
            }
        }
    }

    /// Verifies against the list, not the operations: a successful operation may have deleted nothing, and one without
    /// a response may have deleted everything.
    async fn verify(&self, location: &TpuLocation, done: &mut [(Leftover, Cleaned)]) {
        if done.iter().all(|(_, cleaned)| matches!(cleaned, Cleaned::Skipped(_))) {
            return;
        }
        // The time of the list is not used here.
        let listed = self.tpus(&location.project, &location.zone, Timestamp::default()).await;
        for (leftover, cleaned) in done {
            let is_compute = matches!(leftover.kind, LeftoverKind::Instance | LeftoverKind::InstanceGroup);
            // Why the list may lack a resource of this kind.
            let gap = |view: &CloudView| match (is_compute, view.complete) {
                (true, _) => view.unlisted.clone(),
                (false, true) => None,
                (false, false) => Some(Text::new("Google could not list everything")),
            };
            let seen = match (&*cleaned, &listed) {
                (Cleaned::Deleted | Cleaned::AlreadyGone, Ok(view)) if lists(view, leftover) => {
                    Cleaned::Failed {
                        what: "Google reports it as deleted but still lists it".into(),
                        hint: "run it again in a few minutes".into(),
                    }
                }
                (Cleaned::Deleted | Cleaned::AlreadyGone, Ok(view)) if gap(view).is_some() => {
                    let why = gap(view).unwrap_or_default();
                    Cleaned::Failed {
                        what: format!(
                            "Google reports it deleted, but the deletion could not be verified: {why}"
                        ),
                        hint: "run it again in a few minutes".into(),
                    }
                }
                (Cleaned::Deleted | Cleaned::AlreadyGone, Err(e)) => Cleaned::Failed {
                    what: format!("Google reports it deleted, but the deletion could not be verified: {e}"),
                    hint: e.hint(),
                },
                (Cleaned::Failed { .. }, Ok(view)) if gap(view).is_none() && !lists(view, leftover) => {
                    Cleaned::AlreadyGone
                }
                _ => continue,
            };
            *cleaned = seen;
        }
    }
}

fn failed(e: &GcpError) -> Cleaned {
    let hint = match e {
        GcpError::State { .. } => {
            "check it in the Google Cloud console, or run it again in a few minutes".into()
        }
        e => e.hint(),
    };
    Cleaned::Failed { what: e.to_string(), hint }
}

fn lists(view: &CloudView, leftover: &Leftover) -> bool {
    match leftover.kind {
        LeftoverKind::TpuVm => {
            let of_cloud_tpu = |vm: &&TpuVm| vm.compute.is_none() && vm.state != VmState::Deleting;
            view.vms.iter().filter(of_cloud_tpu).any(|vm| vm.name == leftover.name)
        }
        // A group may have created another instance of that name.
        LeftoverKind::Instance | LeftoverKind::InstanceGroup => {
            let is_it = |vm: &&TpuVm| vm.kind() == leftover.kind && vm.created == leftover.created;
            let mut found = view.vms.iter().filter(is_it).filter(|vm| vm.state != VmState::Deleting);
            found.any(|vm| vm.name == leftover.name)
        }
        LeftoverKind::QueuedResource => {
            view.queued.iter().any(|q| q.name == leftover.name && q.state != QueuedState::Deleting)
        }
    }
}

/// The result for a resource that was recreated under the same name since it was listed.
fn recreated() -> Cleaned {
    Cleaned::Skipped("it was deleted and recreated in the meantime".into())
}

fn left_alone(state: &str, label: Option<&Text>, location: &TpuLocation) -> Cleaned {
    let ours = label.is_some_and(|l| l.raw() == location.cluster);
    let why =
        if ours { format!("it is {state} now") } else { "it now belongs to a different cluster".into() };
    Cleaned::Skipped(why)
}
