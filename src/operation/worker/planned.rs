//! What an operation on workers comes to, before it begins: whether it can be done at all, and its exact calls.

use super::super::call::Call;
use super::super::host::start_calls;
use super::super::trouble;
use super::launch::{on_host, read, type_of};
use super::machine::{self, Machine};
use super::request::{QueuedRequest, plan};
use crate::config::Launch;
use crate::model::text::printable;
use crate::model::{ClusterSpec, HeadAddress, NewWorker, Problem, Task};
use crate::supervisor::{self, Options};

/// What stands in the way, as far as the cluster's file and the settings tell.
pub fn check(spec: &ClusterSpec, options: &Options, task: &Task) -> Result<(), Problem> {
    let is_local = spec.provider == "local";
    let worker = match task {
        Task::AddWorker(NewWorker::Queued { .. }) if is_local => {
            let what = format!("{} has no google to ask for TPUs", spec.name);
            return Err(trouble(what, "name a host that is there: --host ADDRESS"));
        }
        Task::AddWorker(wanted @ NewWorker::Queued { .. }) => {
            return requests(spec, options, wanted).map(|_| ());
        }
        Task::AddWorker(NewWorker::Host { .. }) if !is_local => {
            let what = "a host is added by its address to clusters of provider local";
            return Err(trouble(what, "name a --type"));
        }
        Task::AddWorker(NewWorker::Host { address: worker })
        | Task::InitWorker { worker }
        | Task::RemoveWorker { worker, .. } => worker,
        Task::Restart { .. } | Task::Start | Task::Stop => return Ok(()),
    };
    if matches!(&spec.head, HeadAddress::Ssh(head) if head == worker) {
        let what = format!("{} is the head, no worker", printable(worker));
        return Err(trouble(what, "stop-cluster stops it, restart-cluster starts it again"));
    }
    let launch = read(spec)?;
    let starts = matches!(task, Task::AddWorker(_) | Task::InitWorker { .. });
    if is_local && starts { on_host(spec, &launch).map(|_| ()) } else { Ok(()) }
}

/// The requests for TPUs; none for a host.
pub(super) fn requests(
    spec: &ClusterSpec,
    options: &Options,
    wanted: &NewWorker,
) -> Result<Vec<QueuedRequest>, Problem> {
    match wanted {
        NewWorker::Queued { node_type, capacity, names } => {
            plan(spec, options, &read(spec)?, (node_type, capacity, names))
        }
        NewWorker::Host { .. } => Ok(Vec::new()),
    }
}

/// What a person's word for a worker means: at Google, or a host of a local cluster. None when Google has nothing of
/// that name.
pub(super) async fn find(
    spec: &ClusterSpec,
    options: &Options,
    worker: &str,
) -> Result<Option<Machine>, Problem> {
    if spec.provider != "gcp" {
        supervisor::find_host(spec, options, worker, |_| ()).await?;
        return Ok(Some(Machine::host(worker)));
    }
    let place = supervisor::tpu_place(spec)?;
    let view = supervisor::ask_cloud(spec, &options.google).await?;
    match machine::find(&view, &place, worker) {
        None if !view.complete => {
            let what = format!("google could not list everything, and {} is not in it", printable(worker));
            Err(trouble(what, "wait a little and try again"))
        }
        found => Ok(found),
    }
}

/// That there is none.
pub(super) fn unknown(spec: &ClusterSpec, worker: &str) -> Problem {
    let what = format!("no TPU VM, host or queued resource of {} is called {}", spec.name, printable(worker));
    trouble(what, "`marin-tui tpus` lists them")
}

/// The calls of Google's and the commands that it comes to now, in their order.
pub async fn calls(spec: &ClusterSpec, options: &Options, task: &Task) -> Result<Vec<Call>, Problem> {
    let worker = match task {
        Task::AddWorker(wanted @ NewWorker::Queued { .. }) => {
            let place = supervisor::tpu_place(spec)?;
            let at = (place.project.as_str(), place.zone.as_str());
            let call = |r: QueuedRequest| Call::post(options.google.queued_url(r.api, at, &r.name), r.body);
            return Ok(requests(spec, options, wanted)?.into_iter().map(call).collect());
        }
        Task::AddWorker(NewWorker::Host { address: worker })
        | Task::InitWorker { worker }
        | Task::RemoveWorker { worker, .. } => worker,
        Task::Restart { .. } | Task::Start | Task::Stop => return Ok(Vec::new()),
    };
    let machine = find(spec, options, worker).await?.ok_or_else(|| unknown(spec, worker))?;
    if matches!(task, Task::RemoveWorker { .. }) {
        removing(spec, options, &machine)
    } else {
        starting(spec, options, &machine).await
    }
}

fn removing(spec: &ClusterSpec, options: &Options, machine: &Machine) -> Result<Vec<Call>, Problem> {
    if !machine.is_google() {
        return Ok(machine.hosts.iter().map(|h| Call::ssh(h, "ray stop --force")).collect());
    }
    let place = supervisor::tpu_place(spec)?;
    let base = &options.google.endpoints().tpu;
    let of = format!("{base}/v2/projects/{}/locations/{}", place.project, place.zone);
    let url = match (&machine.queued, &machine.vm) {
        (Some(queued), _) => format!("{of}/queuedResources/{queued}?force=true"),
        (None, vm) => format!("{of}/nodes/{}", vm.as_deref().unwrap_or_default()),
    };
    Ok(vec![Call::http("DELETE", url)])
}

/// What starts Ray on a host of a local cluster.
pub(in super::super) fn start_on(
    spec: &ClusterSpec,
    launch: &Launch,
    host: &str,
) -> Result<Vec<Call>, Problem> {
    Ok(start_calls(host, launch, on_host(spec, launch)?))
}

async fn starting(spec: &ClusterSpec, options: &Options, machine: &Machine) -> Result<Vec<Call>, Problem> {
    let launch = read(spec)?;
    if !machine.is_google() {
        return start_on(spec, &launch, machine.name());
    }
    let place = supervisor::tpu_place(spec)?;
    let view = supervisor::ask_cloud(spec, &options.google).await?;
    let vm = view.vms.iter().find(|vm| machine.vm.as_deref() == Some(vm.name.raw()));
    let vm = vm.ok_or_else(|| no_vm(machine))?;
    type_of(&launch, vm)?;
    let base = &options.google.endpoints().tpu;
    let of = format!("{base}/v2/projects/{}/locations/{}", place.project, place.zone);
    let url = format!("{of}/nodes/{}?updateMask=metadata", vm.name);
    let mut all = vec![Call::http("PATCH", url).noted("its startup script")];
    all.extend(machine.hosts.iter().map(|h| Call::ssh(h, "sudo bash").noted("the same script")));
    Ok(all)
}

/// That a queued resource is all there is.
pub(super) fn no_vm(machine: &Machine) -> Problem {
    let what = format!("{} has no TPU VM yet", printable(machine.name()));
    trouble(what, "wait until google has made it; `marin-tui tpus` shows it")
}
