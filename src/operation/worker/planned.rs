//! Prepares an operation on workers: checks whether it is possible, and looks up the workers.

use super::super::listed::{is_listed, resolved};
use super::super::{failure, of_head};
use super::launch::{on_host, read};
use super::machine::{self, Machine};
use super::request::{Request, plan};
use crate::model::cloud::CloudView;
use crate::model::command_line::shell_quote;
use crate::model::text::printable;
use crate::model::{
    ClusterSpec, Fix, HeadAddress, Hint, HostName, NewWorker, Node, Problem, Provider, Snapshot, Target,
    Task, Text, Verb,
};
use crate::supervisor::{self, Options};
use std::net::IpAddr;

/// Checks the task against the cluster file and the settings.
pub fn check(spec: &ClusterSpec, options: &Options, task: &Task) -> Result<(), Problem> {
    let is_local = spec.provider == Provider::Local;
    let workers = match task {
        Task::AddWorker(NewWorker::Queued { .. }) if is_local => {
            let what = format!("{} is not on Google Cloud, so it has no TPUs to request", spec.name);
            return Err(failure(what, "specify an existing host: --host ADDRESS"));
        }
        Task::AddWorker(wanted @ NewWorker::Queued { .. }) => {
            return requests(spec, options, wanted).map(|_| ());
        }
        Task::AddWorker(NewWorker::Host { .. }) if !is_local => {
            let what = "--host requires a cluster with provider local";
            return Err(failure(what, "use --type"));
        }
        Task::AddWorker(NewWorker::Host { address: worker }) => {
            let hint = "specify the host's IP address, by which Ray identifies it";
            HostName::parse(worker).map_err(|e| failure(e.to_string(), hint))?;
            if worker.parse::<IpAddr>().is_err() {
                return Err(failure(format!("{} is not an IP address", printable(worker)), hint));
            }
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

/// Checks that the worker of a local cluster on which Ray is to be restarted is named by the address that Ray uses. Any
/// other name of its host also leads there over SSH, and the jobs there would end without being listed.
pub(in super::super) async fn check_address(
    spec: &ClusterSpec,
    snapshot: &Snapshot,
    task: &Task,
) -> Result<(), Problem> {
    let Task::InitWorker { worker } = task else { return Ok(()) };
    if spec.provider == Provider::Gcp || snapshot.nodes.iter().any(|n| n.address.raw() == worker) {
        return Ok(());
    }
    let shown = printable(worker);
    let is_it = |name: &Text| name.raw().eq_ignore_ascii_case(worker);
    let is_named = |n: &&Node| !n.address.is_empty() && (is_it(&n.hostname) || is_it(&n.name));
    let named: Vec<&Node> = snapshot.nodes.iter().filter(is_named).collect();
    if let Some(head) = named.iter().find(|n| n.is_head) {
        return Err(failure(format!("{shown} is the head ({}), not a worker", head.address), of_head()));
    }
    if let Some(node) = named.iter().find(|n| n.state.is_alive()).or(named.first()) {
        let what = format!("{shown} is a host name; Ray's address of that node is {}", node.address);
        return Err(failure(what, Verb::InitWorker.on(node.address.raw(), "use the address")));
    }
    let hint = Hint::from(Verb::Nodes.to("see the addresses of the nodes"));
    let in_file = read(spec)?.worker_ips;
    let (of_file, own) = tokio::join!(resolved(&in_file), resolved(std::slice::from_ref(worker)));
    let is_listed = |address: &str| is_listed(address, (in_file.as_slice(), of_file.as_slice()), snapshot);
    if worker.parse::<IpAddr>().is_err() {
        let address = own.iter().map(ToString::to_string).find(|address| is_listed(address));
        let fix = address.map(|address| Verb::InitWorker.on(&address, "use the address"));
        let hint = fix.map_or(hint, Hint::from);
        return Err(failure(format!("Ray has no node with the address {shown}"), hint));
    }
    if is_listed(worker) {
        return Ok(());
    }
    let what = format!("Ray has no node at {shown}, and it is not in `provider.worker_ips`");
    let line = Target::of(&spec.name).line(&format!("add-worker --host {}", shell_quote(worker)));
    Err(failure(what, hint.and(Fix::command("or add it", line))))
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
            return Err(failure(what, "list it once"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeState;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_worker_of_a_local_cluster_is_restarted_by_the_address_that_ray_uses() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lab.yaml");
        // The only name that resolves on every machine.
        let text = "cluster_name: lab\n\
                    provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.7, localhost]}\n";
        std::fs::write(&file, text).unwrap();
        let spec = ClusterSpec { file: Some(file), ..ClusterSpec::sample("lab", Provider::Local) };
        let node = |n: u8, hostname: &str| Node { hostname: hostname.into(), ..Node::sample(n) };
        let nodes = vec![
            Node { is_head: true, ..node(1, "head") },
            node(2, "gpu2"),
            Node { state: NodeState::Dead, ..node(3, "gpu3") },
        ];
        let snapshot = Snapshot { nodes: Arc::new(nodes), ..Snapshot::default() };
        let check = async |spec: &ClusterSpec, worker: &str| {
            let task = Task::InitWorker { worker: worker.into() };
            let checked = check_address(spec, &snapshot, &task).await;
            checked.map_err(|problem| format!("{}; {}", problem.what, problem.hint))
        };
        let local = resolved(&["localhost".to_owned()]).await[0].to_string();
        // Alive, dead, listed in the file, and listed there by name.
        for known in ["10.0.0.2", "10.0.0.3", "10.0.0.7", local.as_str()] {
            assert_eq!(check(&spec, known).await, Ok(()), "{known}");
        }
        let by_address = format!(
            "Ray has no node with the address localhost; use the address: `marin-tui init-worker {}`",
            shell_quote(&local)
        );
        assert_eq!(check(&spec, "localhost").await, Err(by_address));
        for (worker, words) in [
            ("head", "is the head (10.0.0.1)"),
            ("GPU2", "init-worker 10.0.0.2`"),
            ("gpu3", "init-worker 10.0.0.3`"),
            ("gpu8.invalid", "Ray has no node with the address gpu8.invalid; see the addresses"),
            ("192.168.0.2", "add-worker --host 192.168.0.2`"),
        ] {
            let refused = check(&spec, worker).await.unwrap_err();
            assert!(refused.contains(words), "{worker}: {refused}");
        }
        // At Google, workers have names.
        assert_eq!(check(&ClusterSpec::sample("lab", Provider::Gcp), "gpu8").await, Ok(()));
    }
}
