//! Follows requested workers: the states of queued resources, instances and instance groups until they are up.

use super::super::failure;
use super::super::problem::problem;
use super::machine::{Machine, MachineVm, POLL_INTERVAL};
use crate::gcp::{GcpError, Google, TpuLocation};
use crate::model::cloud::{CloudView, QueuedState, TpuVm, VmState};
use crate::model::{Hint, Problem, Timestamp, Verb};
use std::time::{Duration, Instant};

/// How long Google may be unreachable before the wait fails: the wait may last for hours, and networks come and go.
const UNREACHABLE_LIMIT: Duration = Duration::from_secs(600);
/// Poll interval after the first minute, because capacity takes minutes or hours.
const SLOW_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Follows the requested workers until all are up, and returns them. `progress` receives each state. A failed one is
/// reported at once, and fails the wait once the others are up.
pub(super) async fn follow(
    google: &Google,
    location: &TpuLocation,
    names: &[String],
    progress: impl Fn(String),
) -> Result<Vec<Machine>, Problem> {
    let begun = Instant::now();
    let mut last_response = begun;
    let mut last: Vec<String> = vec![String::new(); names.len()];
    let mut last_error = String::new();
    loop {
        match google.tpus(&location.project, &location.zone, Timestamp::now()).await {
            Ok(view) => {
                last_response = Instant::now();
                last_error.clear();
                let all: Vec<_> = names.iter().map(|name| status(&view, location, name)).collect();
                for ((name, now), last) in names.iter().zip(&all).zip(&mut last) {
                    let word = match now {
                        Ok(seen) => format!("{name}: {}", seen.word),
                        Err(problem) => problem.what.clone(),
                    };
                    if word != *last {
                        progress(word.clone());
                        *last = word;
                    }
                }
                if !all.iter().any(|now| matches!(now, Ok(Seen { up: None, .. }))) {
                    return outcome(all);
                }
            }
            Err(e) if is_transient(&e) && last_response.elapsed() < UNREACHABLE_LIMIT => {
                if last_error != e.to_string() {
                    last_error = e.to_string();
                    progress(format!("{e}; retrying"));
                }
            }
            Err(e) => return Err(problem(&e)),
        }
        let is_new = begun.elapsed() < Duration::from_secs(60);
        tokio::time::sleep(if is_new { POLL_INTERVAL } else { SLOW_POLL_INTERVAL }).await;
    }
}

/// Whether the error is temporary, so that retrying without an operator is enough.
pub(super) fn is_transient(e: &GcpError) -> bool {
    matches!(
        e,
        GcpError::Unavailable { .. }
            | GcpError::NotJson { .. }
            | GcpError::Timeout { .. }
            | GcpError::Unreachable { .. }
            | GcpError::Quota { .. }
    )
}

/// All workers, or the reason why some will never be up.
fn outcome(all: Vec<Result<Seen, Problem>>) -> Result<Vec<Machine>, Problem> {
    let (mut up, mut failed) = (Vec::new(), Vec::new());
    for one in all {
        match one {
            Ok(seen) => up.push(seen.up.unwrap_or_default()),
            Err(problem) => failed.push(problem),
        }
    }
    let Some(first) = failed.first() else { return Ok(up) };
    let what: Vec<&str> = failed.iter().map(|p| p.what.as_str()).collect();
    Err(Problem { what: what.join("; "), ..first.clone() })
}

/// The state of one worker.
struct Seen {
    /// Its state as shown to operators.
    word: String,
    /// The worker, once it is up.
    up: Option<Machine>,
}

impl From<&str> for Seen {
    fn from(word: &str) -> Self {
        Self { word: word.into(), up: None }
    }
}

/// The state of a worker, or an error if it will never be up.
fn status(view: &CloudView, location: &TpuLocation, name: &str) -> Result<Seen, Problem> {
    let again = Hint::from([
        Verb::Abandon.to("abandon this operation"),
        Verb::RemoveNow.on(name, "delete it"),
        Verb::AddWorker.to("then add it again, or with another capacity"),
    ]);
    let Some(queued) = view.queued.iter().find(|q| q.name.raw() == name) else {
        let ours = |vm: &&TpuVm| vm.ray_cluster.as_ref().is_some_and(|label| label.raw() == location.cluster);
        let mut made =
            view.vms.iter().filter(|vm| vm.compute.is_some() && vm.name.raw() == name).filter(ours);
        if let Some(vm) = made.next() {
            return made_with_compute(vm, again);
        }
        if !view.is_whole() {
            return Ok("Google could not list everything".into());
        }
        return Err(failure(
            format!("{name} was deleted"),
            Hint::from("ask who deleted it").and(Verb::Resume.to("or resume to request it again")),
        ));
    };
    match queued.state {
        QueuedState::Failed => {
            let why =
                queued.error.as_ref().map_or_else(|| "Google gave no reason".into(), ToString::to_string);
            Err(failure(format!("{name} was refused: {why}"), again))
        }
        QueuedState::Suspended => {
            Err(failure(format!("{name} is suspended: its TPU VM was preempted and will not return"), again))
        }
        QueuedState::Deleting => Err(failure(format!("{name} is being deleted"), "ask who deleted it")),
        QueuedState::Active => {
            let vm = view.vms.iter().find(|vm| queued.has(vm));
            let Some(vm) = vm else { return Ok("active".into()) };
            if vm.state.is_gone() {
                return Err(failure(format!("{name} is already {}", vm.state_label()), again));
            }
            let hosts: Vec<String> = vm.hosts.iter().map(|h| h.raw().to_owned()).collect();
            let is_up = vm.state == VmState::Ready && !hosts.is_empty();
            let word = format!("active, its TPU VM is {}", vm.state_label());
            let name = Some(name.to_owned());
            let up = || Machine { queued: name.clone(), vm: name, hosts, ..Machine::default() };
            Ok(Seen { word, up: is_up.then(up) })
        }
        _ => Ok(queued.state_label().as_str().into()),
    }
}

/// Like [`status`], for an instance or an instance group.
fn made_with_compute(vm: &TpuVm, again: Hint) -> Result<Seen, Problem> {
    let note = vm.unhealthy.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
    if vm.state.is_gone() || matches!(vm.state, VmState::Stopped | VmState::Deleting) {
        return Err(failure(format!("{} is already {}{note}", vm.name, vm.state.label()), again));
    }
    let hosts: Vec<String> = vm.hosts.iter().map(|h| h.raw().to_owned()).collect();
    let is_up = vm.state == VmState::Ready
        && vm.unhealthy.is_none()
        && !hosts.is_empty()
        && hosts.iter().all(|host| !host.is_empty());
    let up = || Machine {
        vm: Some(vm.name.raw().to_owned()),
        hosts,
        vms: vec![MachineVm::from(vm)],
        ..Machine::default()
    };
    Ok(Seen { word: format!("{}{note}", vm.state.label()), up: is_up.then(up) })
}
