//! The workers that can be added to a cluster, and the last one that was added.

use super::super::failure;
use super::super::folder;
use super::super::journal::file_of;
use super::compute;
use super::launch::{on_host, read};
use crate::config::NodeLaunch;
use crate::model::sort;
use crate::model::{ClusterName, ClusterSpec, NewWorker, Problem, Provider, WorkerOffer, WorkerType};
use crate::replace;
use crate::supervisor::{self, Options};
use std::path::{Path, PathBuf};

/// The capacity that is offered first, because it is available soonest.
const DEFAULT_CAPACITY: &str = "preemptible";

fn offer_path(state: &Path, cluster: &ClusterName) -> PathBuf {
    state.join("workers").join(format!("{}.json", file_of(cluster)))
}

/// Saves the last added worker as the default of the next form. A failure is only logged.
pub(super) fn remember(state: &Path, cluster: &ClusterName, wanted: &NewWorker) {
    let path = offer_path(state, cluster);
    let kept = path.parent().map_or(Ok(()), folder::make).and_then(|()| {
        let text = serde_json::to_vec(wanted)?;
        replace::write(&path, &text)
    });
    if let Err(e) = kept {
        tracing::warn!("cannot save the last added worker in {}: {e}", path.display());
    }
}

fn remembered(state: &Path, cluster: &ClusterName) -> Option<NewWorker> {
    let text = std::fs::read(offer_path(state, cluster)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The workers that can be added: the TPU types in the cluster file, the kinds of capacity, and what this operator last
/// added on this machine (`state` is the state directory).
pub fn offer(spec: &ClusterSpec, options: &Options, state: &Path) -> Result<WorkerOffer, Problem> {
    let last = remembered(state, &spec.name);
    match spec.provider {
        Provider::Local => {
            on_host(spec, &read(spec)?)?;
            return Ok(WorkerOffer { last, ..WorkerOffer::default() });
        }
        Provider::Gcp => supervisor::tpu_location(spec)?,
        provider => {
            let what = format!("cannot add workers for provider {provider}");
            return Err(failure(what, "supported providers: gcp and local"));
        }
    };
    let launch = read(spec)?;
    let tpu = |(name, node): (&String, &NodeLaunch)| {
        let accelerator = accelerator(node)?;
        Some(WorkerType { name: name.clone(), accelerator })
    };
    let types: Vec<WorkerType> = launch.types.iter().filter_map(tpu).collect();
    if types.is_empty() {
        let hint = "only TPUs can be added; for other machines set `min_workers`";
        return Err(failure("the cluster file has no node type with a TPU", hint));
    }
    let mut capacities: Vec<String> = options.tpu_capacity.keys().cloned().collect();
    sort::by_key(&mut capacities, |word| word != DEFAULT_CAPACITY);
    Ok(WorkerOffer { types, capacities, last })
}

/// The TPU of a type: `v4-128`, or by version and topology, `V4 2x2x4`.
fn accelerator(node: &NodeLaunch) -> Option<String> {
    let config = &node.config["acceleratorConfig"];
    let by_topology = || Some(format!("{} {}", config["type"].as_str()?, config["topology"].as_str()?));
    let named = node.config["acceleratorType"].as_str().map(str::to_owned);
    named.or_else(|| compute::accelerator(&node.config)).or_else(by_topology)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_last_added_worker_is_saved_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let name = ClusterName::new("a/../b");
        assert_eq!(remembered(dir.path(), &name), None);
        let wanted = NewWorker::Host { address: "10.0.0.7".into() };
        remember(dir.path(), &name, &wanted);
        assert_eq!(remembered(dir.path(), &name), Some(wanted));
        let mode = std::fs::metadata(offer_path(dir.path(), &name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
