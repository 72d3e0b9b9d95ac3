//! Prepares an operation on workers: checks whether it is possible, and looks up the workers.

use super::super::{failure, of_head};
use super::launch::{on_host, read};
use super::machine::{self, Machine};
use super::request::{Request, plan};
use crate::model::cloud::CloudView;
use crate::model::text::printable;
use crate::model::{ClusterSpec, HeadAddress, HostName, NewWorker, Problem, Provider, Task, Verb};
use crate::supervisor::{self, Options};

/// Checks the task against the cluster file and the settings.
pub fn check(spec: &ClusterSpec, options: &Options, task: &Task) -> Result<(), Problem> {
    let is_local = spec.provider == Provider::Local;
    let workers = match task {
        Task::AddWorker(NewWorker::Queued { .. }) if is_local => {
            let what = format!("{} is not on Google Cloud, so it has no TPUs to request", spec.name);
            return Err(failure(what, "give an existing host: --host ADDRESS"));
        }
        Task::AddWorker(wanted @ NewWorker::Queued { .. }) => {
            return requests(spec, options, wanted).map(|_| ());
        }
        Task::AddWorker(NewWorker::Host { .. }) if !is_local => {
            let what = "--host requires a cluster of provider local";
            return Err(failure(what, "use --type"));
        }
        Task::AddWorker(NewWorker::Host { address: worker }) => {
            let hint = "give the host's address in the form that Ray should use";
            HostName::parse(worker).map_err(|e| failure(e.to_string(), hint))?;
            std::slice::from_ref(worker)
        }
        Task::InitWorker { worker } | Task::RemoveWorker { worker, .. } => std::slice::from_ref(worker),
        Task::RemoveWorkers { workers, .. } => workers,
        Task::Restart { .. } | Task::Start | Task::Stop | Task::Update => return Ok(()),
    };
    let is_head = |worker: &&String| matches!(&spec.head, HeadAddress::Ssh(head) if head == worker.as_str());
    if let Some(head) = workers.iter().find(is_head) {
        let what = format!("{} is the head, not a worker", printable(head));
        return Err(failure(what, of_head()));
    }
    let launch = read(spec)?;
    let starts = matches!(task, Task::AddWorker(_) | Task::InitWorker { .. });
    if is_local && starts { on_host(spec, &launch).map(|_| ()) } else { Ok(()) }
}

/// The requests for TPUs; empty for a host.
pub(super) fn requests(
    spec: &ClusterSpec,
    options: &Options,
    wanted: &NewWorker,
) -> Result<Vec<Request>, Problem> {
    match wanted {
        NewWorker::Queued { node_type, capacity, names } => {
            plan(spec, options, &read(spec)?, (node_type, capacity, names))
        }
        NewWorker::Host { .. } => Ok(Vec::new()),
    }
}

/// Looks up the worker that the operator named: at Google, or a host of a local cluster. With `whole`, includes
/// everything that is deleted with it. `None` if Google has nothing with that name.
pub(super) async fn find(
    spec: &ClusterSpec,
    options: &Options,
    worker: &str,
    whole: bool,
) -> Result<Option<Machine>, Problem> {
    if spec.provider != Provider::Gcp {
        supervisor::find_host(spec, options, worker, |_| ()).await?;
        return Ok(Some(Machine::host(worker)));
    }
    let view = supervisor::ask_cloud(spec, &options.google).await?;
    find_in(&view, spec, worker, whole)
}

/// Looks up several workers, which must be different ones; Google is queried once.
pub(super) async fn find_all(
    spec: &ClusterSpec,
    options: &Options,
    workers: &[String],
    whole: bool,
) -> Result<Vec<Machine>, Problem> {
    let view = match spec.provider {
        Provider::Gcp => Some(supervisor::ask_cloud(spec, &options.google).await?),
        _ => None,
    };
    let mut all: Vec<Machine> = Vec::new();
    for worker in workers {
        let found = match &view {
            Some(view) => find_in(view, spec, worker, whole)?,
            None => find(spec, options, worker, whole).await?,
        };
        let machine = found.ok_or_else(|| unknown(spec, worker))?;
        if let Some(at) = all.iter().position(|other| other.overlaps(&machine)) {
            let what = format!("{} and {} are the same worker", printable(&workers[at]), printable(worker));
            return Err(failure(what, "give it once"));
        }
        all.push(machine);
    }
    Ok(all)
}

fn find_in(
    view: &CloudView,
    spec: &ClusterSpec,
    worker: &str,
    whole: bool,
) -> Result<Option<Machine>, Problem> {
    let location = supervisor::tpu_location(spec)?;
    let found = if whole {
        machine::find_whole(view, &location, worker)?
    } else {
        machine::find(view, &location, worker)
    };
    match found {
        // A TPU VM missing from the list would go unnoticed.
        Some(machine) if whole && machine.queued.is_some() && !view.complete => {
            let what = "Google could not list everything, so affected machines are unknown";
            Err(failure(what, "try again in a minute"))
        }
        None if !view.is_whole() => {
            let what = format!("Google could not list everything, and {} was not found", printable(worker));
            Err(failure(what, "try again in a minute"))
        }
        found => Ok(found),
    }
}

/// The resources that this program created for a worker and deletes with it, in words.
pub(in super::super) async fn owned_resources(
    spec: &ClusterSpec,
    options: &Options,
    worker: &str,
) -> Vec<String> {
    // If that is unknown, the operation itself reports why.
    let Ok(location) = supervisor::tpu_location(spec) else { return Vec::new() };
    let Ok(Some(machine)) = find(spec, options, worker, true).await else { return Vec::new() };
    match machine::created_for(&options.google, &location, &machine).await {
        Ok(made) => {
            made.iter().map(|(kind, _)| format!("{} {}", kind.label(), printable(machine.name()))).collect()
        }
        Err(e) => vec![format!("its instance template and workload policy, if they can be read: {e}")],
    }
}

/// The error for a worker that does not exist.
pub(super) fn unknown(spec: &ClusterSpec, worker: &str) -> Problem {
    let what = format!("{} has no TPU VM, host or queued resource named {}", spec.name, printable(worker));
    failure(what, Verb::Tpus.to("list them"))
}

/// The error that only a queued resource exists.
pub(super) fn no_vm(machine: &Machine) -> Problem {
    let what = format!("{} has no TPU VM yet", printable(machine.name()));
    failure(what, Verb::Tpus.to("wait until Google has created it, and check"))
}
