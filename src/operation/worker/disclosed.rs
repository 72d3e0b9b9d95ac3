//! Finds secrets that a worker's startup script would disclose. The script is metadata of the machine, which more
//! people can read than the cluster file: everyone with the permission `tpu.nodes.get` (`roles/tpu.viewer`).

use super::launch::read;
use crate::config::NodeLaunch;
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{ClusterSpec, NewWorker, Provider, Task, named_secrets};
use std::collections::BTreeSet;

/// Warnings before an operation: values in the cluster file that look like secrets and are copied into metadata.
pub(in super::super) fn warnings(spec: &ClusterSpec, task: &Task) -> Vec<String> {
    if spec.provider != Provider::Gcp {
        return Vec::new();
    }
    // A file that cannot be read is an error of the task itself.
    let Ok(launch) = read(spec) else { return Vec::new() };
    let types: Vec<&NodeLaunch> = match task {
        Task::AddWorker(NewWorker::Queued { node_type, .. }) => {
            launch.find(node_type).into_iter().map(|(_, node)| node).collect()
        }
        // Its type is only known after querying Google.
        Task::InitWorker { .. } => launch.types.values().collect(),
        _ => return Vec::new(),
    };
    let names: BTreeSet<String> = sort::collected(types.into_iter().flat_map(disclosed));
    if names.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = names.into_iter().collect();
    let (looks, it) = if names.len() == 1 { ("looks", "it") } else { ("look", "them") };
    let project = printable(spec.google.project.as_deref().unwrap_or_default()).into_owned();
    vec![format!(
        "in the cluster file, {} {looks} like a secret; the startup script is stored in the TPU's metadata, so \
         everyone with tpu.nodes.get in {project} can read {it}; read secrets on the machine instead, e.g. with `gcloud secrets \
         versions access`",
        names.join(", ")
    )]
}

/// The names of values that look like secrets among everything that is copied into a worker's metadata.
fn disclosed(node: &NodeLaunch) -> Vec<String> {
    let commands = node.init.iter().chain(&node.setup).chain(&node.start);
    let mut names: Vec<String> = commands.flat_map(|command| named_secrets(command)).collect();
    names.extend(named_secrets(&node.run_options.join(" ")));
    for (key, value) in node.metadata() {
        names.extend(named_secrets(&value));
        if !value.contains('\n') {
            names.extend(named_secrets(&format!("{key}: {value}")));
        }
    }
    names
}
