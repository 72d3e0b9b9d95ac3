//! Whether an operation is supported on a cluster at all.

use super::failure;
use super::worker;
use crate::model::{ClusterSpec, Problem, Provider, Target, Task};
use crate::supervisor::{self, Options};

/// Checks whether the operation is supported: for `local` and `gcp` clusters with a cluster file.
pub fn preflight(spec: &ClusterSpec, options: &Options, task: &Task) -> Result<(), Problem> {
    let kind = task.kind();
    if spec.no_operations().is_none() {
        if spec.provider == Provider::Gcp {
            // Project and zone are needed to find its machines.
            supervisor::tpu_location(spec)?;
        }
        return worker::check(spec, options, task);
    }
    let what = if spec.file.is_some() {
        format!("{} is not supported for provider {}", kind.label(), spec.provider)
    } else if kind.is_of_cluster() {
        format!("{} has no cluster file, which `ray` needs to {} it", spec.name, kind.label())
    } else {
        format!("{} has no cluster file, which is needed to start a worker", spec.name)
    };
    let hint = if kind.is_of_cluster() {
        let backup = Target::of(&spec.name).line("backup-jobs");
        format!("use the ray command; `{backup}` and `restore-jobs` support all providers")
    } else {
        "adding and removing workers requires provider gcp or local and a cluster file".to_owned()
    };
    Err(failure(what, hint))
}
