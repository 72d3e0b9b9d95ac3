//! The machines of a cluster in Google Cloud. The head is deleted first, so that it starts no new TPUs in the meantime;
//! then its autoscaler's TPUs and plain VMs, all at once. Manually added machines remain: they join the new head by
//! themselves.

use super::facts::KnownHead;
use super::journal::Journal;
use super::listed::{is_listed, resolved};
use super::performer::{POLL_INTERVAL, Performer};
use super::{failure, then_resume, worker};
use crate::config::Launch;
use crate::gcp::{Change, ChosenTpu, GcpError, Google, Head, Instance, Role, TpuLocation};
use crate::model::cloud::TpuVm;
use crate::model::time::brief;
use crate::model::{Problem, ProblemKind, Progress, Provider, Snapshot, Target, Text, Timestamp, Verb};
use crate::supervisor;
use futures_util::stream::{self, StreamExt};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Maximum number of concurrent deletions.
const AT_ONCE: usize = 16;
/// Time limit for Google to remove a deleted machine from its lists.
const UNLIST_TIMEOUT: Duration = Duration::from_secs(120);

fn problem(e: &GcpError) -> Problem {
    failure(e.to_string(), then_resume(e.hint()))
}

/// Every machine in its zone with the label of this role in this cluster; an error if one might be missing.
async fn machines(google: &Google, location: &TpuLocation, role: Role) -> Result<Vec<Instance>, Problem> {
    let found = google.machines(&location.project, role, Some(&location.cluster)).await;
    let mut machines = found.map_err(|e| problem(&e))?;
    machines.keep_within(&location.zone);
    if machines.unreachable.is_empty() {
        return Ok(machines.found);
    }
    let zones: Vec<_> = machines.unreachable.iter().map(ToString::to_string).collect();
    let what = format!("Google could not list {}s in {}", role.label(), zones.join(", "));
    Err(failure(what, then_resume("wait; see status.cloud.google.com for known outages")))
}

/// A worker that the autoscaler started.
enum Worker {
    Tpu(TpuVm),
    /// A machine of Compute Engine.
    Vm(Instance),
}

impl Worker {
    fn name(&self) -> &str {
        match self {
            Self::Tpu(vm) => vm.name.raw(),
            Self::Vm(vm) => &vm.name,
        }
    }

    /// Its name, for a request that contains only its id.
    fn note(&self) -> Option<&str> {
        match self {
            Self::Tpu(_) => None,
            Self::Vm(vm) => Some(&vm.name),
        }
    }

    /// The request that deletes it, after reading it again; `None` if it is gone.
    async fn deletion(&self, google: &Google, location: &TpuLocation) -> Result<Option<Change>, GcpError> {
        let role = Role::Worker;
        match self {
            Self::Tpu(vm) => google.tpu_deletion_of(location, Some(role.label()), &ChosenTpu::from(vm)).await,
            Self::Vm(vm) => google.machine_deletion(location, role, vm).await,
        }
    }
}

impl Performer {
    pub(super) fn is_google(&self) -> bool {
        self.spec.provider == Provider::Gcp
    }

    /// Whether Google reports that there is no head of this cluster.
    pub(super) async fn has_no_head(&self) -> bool {
        self.heads().await.is_ok_and(|heads| heads.is_empty())
    }

    /// Whether a head of this cluster is running, as far as Google reports it.
    pub(super) async fn may_have_running_head(&self) -> bool {
        self.heads().await.map_or(true, |heads| heads.iter().any(Instance::is_running))
    }

    async fn heads(&self) -> Result<Vec<Head>, Problem> {
        let location = supervisor::tpu_location(&self.spec)?;
        machines(&self.options.google, &location, Role::Head).await
    }

    /// Which of these workers, whose nodes are in this snapshot, were added manually.
    pub(super) async fn manual(
        &self,
        workers: &[String],
        snapshot: &Snapshot,
    ) -> Result<Vec<String>, Problem> {
        if self.is_google() {
            let location = supervisor::tpu_location(&self.spec)?;
            let unmanaged =
                self.options.google.tpus_of_kind(&location, "unmanaged").await.map_err(|e| problem(&e))?;
            let hosts: Vec<String> =
                unmanaged.iter().flat_map(|vm| &vm.hosts).map(|host| host.raw().to_owned()).collect();
            return Ok(workers.iter().filter(|w| hosts.contains(w)).cloned().collect());
        }
        let launch = Launch::of(&self.spec).map_err(|e| failure(e.what(), &e.hint))?;
        let resolved = resolved(&launch.worker_ips).await;
        let listed = (launch.worker_ips.as_slice(), resolved.as_slice());
        Ok(workers.iter().filter(|w| !is_listed(w, listed, snapshot)).cloned().collect())
    }

    /// The current heads, as an operation records them when it starts; `None` on other providers.
    pub(super) async fn known_heads(&self) -> Result<Option<Vec<KnownHead>>, Problem> {
        if !self.is_google() {
            return Ok(None);
        }
        let location = supervisor::tpu_location(&self.spec)?;
        let found = machines(&self.options.google, &location, Role::Head).await?;
        Ok(Some(found.iter().map(KnownHead::from).collect()))
    }

    /// An error if one of these heads was not listed when the operation started, or was created later: then the head
    /// and its workers belong to another operator.
    fn only_known(&self, found: &[Head]) -> Result<(), Problem> {
        let known = self.facts.known_heads.as_deref();
        let begun = self.facts.begun.map(Timestamp::from_millis);
        let is_new = |head: &&Head| {
            let was_there = known.is_some_and(|known| known.contains(&KnownHead::from(*head)));
            !was_there || head.created.zip(begun).is_some_and(|(created, begun)| created > begun)
        };
        let Some(head) = found.iter().find(is_new) else { return Ok(()) };
        let age = head.created.map_or_else(
            || "at an unknown time".to_owned(),
            |at| format!("{} ago", brief(at.age(Timestamp::now()))),
        );
        let name = Text::from(head.name.as_str());
        let what = if known.is_some() {
            format!(
                "another head has been started since then ({name}, id {}, in {}, created {age}); it was not changed",
                head.id, head.zone
            )
        } else {
            format!("the journal does not record whether head {name} existed when this operation began")
        };
        Err(failure(what, self.start_again()))
    }

    /// Deletes the head, then the autoscaler's TPUs and plain VMs concurrently, and verifies that Google lists none of
    /// them.
    pub(super) async fn delete_machines(
        &mut self,
        journal: &Journal,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        let location = supervisor::tpu_location(&self.spec)?;
        self.delete_heads(&location, journal, progress).await?;
        // A head created in the meantime has workers with the same label.
        self.only_known(&machines(&self.options.google, &location, Role::Head).await?)?;
        self.delete_workers(&location, progress).await?;
        self.wait_until_deleted(&location).await
    }

    /// The address at which a head is reached.
    fn address(&self, head: &Head) -> Option<String> {
        if self.spec.google.internal_ips { head.internal.clone() } else { head.external.clone() }
    }

    /// Deletes the heads, which must all be known. The journal records their addresses first.
    async fn delete_heads(
        &mut self,
        location: &TpuLocation,
        journal: &Journal,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        let google = self.options.google.clone();
        let found = machines(&google, location, Role::Head).await?;
        self.only_known(&found)?;
        if !found.is_empty() {
            let addresses: Vec<String> = found.iter().filter_map(|head| self.address(head)).collect();
            self.facts.deleted_heads.extend(addresses);
            self.keep_facts(journal).await?;
        }
        for head in &found {
            let words = format!("deleting the head {} in {}", head.name, head.zone);
            // The receiver may have been dropped.
            drop(progress.send(Progress::Output(words)));
            let deletion = google.machine_deletion(location, Role::Head, head).await;
            let Some(deletion) = deletion.map_err(|e| problem(&e))? else { continue };
            match self.executor.google(&google, &deletion, Some(&head.name)).await {
                Ok(()) | Err(GcpError::NotFound { .. }) => {}
                Err(e) => return Err(problem(&e)),
            }
        }
        if !found.is_empty() {
            // The connection leads to a machine that is gone, which would otherwise be noticed only much later.
            self.connection.leave().await;
        }
        Ok(())
    }

    /// Deletes the autoscaler's TPUs and plain VMs concurrently. A failure does not affect the others.
    async fn delete_workers(
        &self,
        location: &TpuLocation,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        let google = &self.options.google;
        let report = |words: String| drop(progress.send(Progress::Output(words)));
        let tpus = google.tpus_of_kind(location, Role::Worker.label()).await.map_err(|e| problem(&e))?;
        let mut vms = machines(google, location, Role::Worker).await?;
        // An instance with TPUs is deleted as a TPU, because its group would recreate it.
        vms.retain(|vm| {
            !tpus.iter().any(|tpu| tpu.compute.as_ref().is_some_and(|c| c.instances.contains(&vm.id)))
        });
        report(format!("deleting {} TPU VMs launched by the autoscaler", tpus.len()));
        if !vms.is_empty() {
            report(format!("deleting {} Compute Engine VMs launched by the autoscaler", vms.len()));
        }
        let workers = tpus.into_iter().map(Worker::Tpu).chain(vms.into_iter().map(Worker::Vm));
        let one = |worker: Worker| async move {
            match self.delete_worker(&worker, location).await {
                Ok(()) | Err(GcpError::NotFound { .. }) => None,
                Err(e) => Some((worker.name().to_owned(), e)),
            }
        };
        let failed: Vec<_> =
            stream::iter(workers).map(one).buffer_unordered(AT_ONCE).filter_map(async |f| f).collect().await;
        if let Some((name, e)) = failed.first() {
            let what =
                format!("cannot delete {} VMs, including {}: {e}", failed.len(), Text::from(name.as_str()));
            return Err(failure(what, then_resume(e.hint())));
        }
        Ok(())
    }

    /// Deletes one of the autoscaler's workers, unless it is gone.
    async fn delete_worker(&self, worker: &Worker, location: &TpuLocation) -> Result<(), GcpError> {
        let google = &self.options.google;
        match worker.deletion(google, location).await? {
            Some(deletion) => self.executor.google(google, &deletion, worker.note()).await,
            None => Ok(()),
        }
    }

    async fn wait_until_deleted(&self, location: &TpuLocation) -> Result<(), Problem> {
        if self.executor.is_recording() {
            return Ok(());
        }
        let google = &self.options.google;
        let deadline = Instant::now() + UNLIST_TIMEOUT;
        loop {
            let heads = machines(google, location, Role::Head).await?;
            self.only_known(&heads)?;
            let vms = machines(google, location, Role::Worker).await?;
            let tpus = google.tpus_of_kind(location, Role::Worker.label()).await.map_err(|e| problem(&e))?;
            let tpu = || tpus.first().map(|vm| vm.name.raw().to_owned());
            let first = heads.iter().chain(&vms).next().map(|vm| vm.name.clone()).or_else(tpu);
            match first {
                None => return Ok(()),
                Some(name) if Instant::now() > deadline => {
                    let what =
                        format!("Google reports {} as deleted but still lists it", Text::from(name.as_str()));
                    return Err(failure(what, Verb::Resume.to("resume in a few minutes")));
                }
                Some(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Accepts the new host key of a head that this operation deleted and recreated at the same address. Any other
    /// change of a host key remains an error.
    pub(super) async fn renew_key(&self, problem: &Problem) {
        let ProblemKind::HostKeyChanged { offered, .. } = &problem.kind else { return };
        if self.facts.deleted_heads.is_empty() {
            return;
        }
        let Ok(location) = supervisor::tpu_location(&self.spec) else { return };
        let Ok(heads) = machines(&self.options.google, &location, Role::Head).await else { return };
        let is_reused =
            |h: &Head| self.address(h).is_some_and(|address| self.facts.deleted_heads.contains(&address));
        if heads.iter().any(|h| h.is_running() && is_reused(h))
            && let Err(e) = supervisor::trust(&self.spec, &self.options, offered).await
        {
            tracing::warn!("cannot save the new head's host key: {}", e.what);
        }
    }

    /// Restarts Ray on manually added workers. TPU VMs do that by themselves unless their startup script has stopped. A
    /// failure on one worker is reported and does not affect the others.
    pub(super) async fn rejoin(&self, missing: &[String], progress: &mpsc::UnboundedSender<Progress>) {
        let report = |words: String| drop(progress.send(Progress::Output(words)));
        let session = match self.connect().await {
            Ok(session) => session,
            Err(p) => return report(p.what),
        };
        let head = worker::head_address(&session.client).await;
        match (head, self.launcher().await) {
            (Ok(head), Ok(launcher)) => {
                for host in missing {
                    match self.is_down(host).await {
                        Ok(true) => {
                            report(format!("starting Ray on {}", Text::from(host.as_str())));
                            if let Err(p) = launcher.start(host, &head, session.token.as_ref()).await {
                                report(p.in_commands(Target::of(&self.spec.name)));
                            }
                        }
                        Ok(false) => report(format!("{} has rejoined", Text::from(host.as_str()))),
                        Err(p) => report(p.in_commands(Target::of(&self.spec.name))),
                    }
                }
            }
            (Err(p), _) | (_, Err(p)) => report(p.in_commands(Target::of(&self.spec.name))),
        }
    }

    /// Whether this worker has no live node now: one that has rejoined in the meantime may run restored jobs. In a dry
    /// run, every worker would be down.
    async fn is_down(&self, worker: &str) -> Result<bool, Problem> {
        if self.executor.is_recording() {
            return Ok(true);
        }
        Ok(!self.down(&[worker.to_owned()]).await?.is_empty())
    }
}
