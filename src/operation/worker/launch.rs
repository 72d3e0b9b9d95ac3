//! Starts Ray on a worker's hosts, as the cluster file describes.

use super::super::executor::Executor;
use super::super::failure;
use super::super::host::Host;
use super::super::performer::Performer;
use super::super::problem::problem;
use super::super::startup::{Services, startup_script};
use crate::config::{Launch, NodeLaunch};
use crate::model::cloud::{CloudView, TpuHost, TpuVm};
use crate::model::text::printable;
use crate::model::{ClusterSpec, Problem, Secret, Text};
use crate::supervisor::{self, Options};
use serde_json::{Map, Value};
use std::path::Path;

/// Everything needed to start Ray on hosts of a cluster.
pub(in super::super) struct Launcher<'a> {
    spec: &'a ClusterSpec,
    options: &'a Options,
    executor: &'a Executor,
    launch: Launch,
    /// Google's view; `None` for clusters that are not at Google.
    view: Option<CloudView>,
}

/// Reads how the cluster file starts workers.
pub(super) fn read(spec: &ClusterSpec) -> Result<Launch, Problem> {
    Launch::of(spec).map_err(|e| failure(e.what(), &e.hint))
}

/// How to start Ray on a host of a local cluster. An error if Ray's own launcher would start it in a container: outside
/// of the container, another Ray than in the rest of the cluster would run.
pub(super) fn on_host<'a>(spec: &ClusterSpec, launch: &'a Launch) -> Result<&'a NodeLaunch, Problem> {
    if launch.in_container {
        let (container, port) = (printable(&launch.container), launch.port);
        let what = format!(
            "{} runs Ray in the container {container}; adding workers manually does not support containers",
            spec.name
        );
        let file = spec.file.as_deref().unwrap_or(Path::new("")).display().to_string();
        let hint = format!(
            "list the host in `provider.worker_ips` and run `ray up --no-restart {}`; or run `ray start \
             --address=<the head's address>:{port}` on it, in the container",
            printable(&file)
        );
        return Err(failure(what, hint));
    }
    let node = launch.find("").map(|(_, node)| node);
    node.ok_or_else(|| {
        failure("the cluster file has no commands that start a worker", "add `worker_start_ray_commands`")
    })
}

/// The type of a TPU VM in the cluster file: by its label, or by its TPU.
pub(super) fn type_of<'a>(launch: &'a Launch, vm: &TpuVm) -> Result<(&'a str, &'a NodeLaunch), Problem> {
    let named = vm.ray_type.as_ref().and_then(|t| launch.find(t.raw()));
    named.or_else(|| launch.find(vm.accelerator_type.raw())).ok_or_else(|| {
        let what = format!("the cluster file has no node type for {} ({})", vm.name, vm.accelerator_type);
        failure(what, "add the type to the file")
    })
}

/// The labels of the `node_config`, and those by which a cluster identifies its workers.
pub(super) fn labels(spec: &ClusterSpec, kind: &str, config: &Value) -> Map<String, Value> {
    let mut labels = config["labels"].as_object().cloned().unwrap_or_default();
    // `unmanaged` (Ray, autoscaler/tags.py): the autoscaler neither counts it nor terminates it.
    for (key, value) in [
        ("ray-cluster-name", spec.name.as_str()),
        ("ray-node-type", "unmanaged"),
        ("ray-user-node-type", kind),
    ] {
        labels.insert(key.into(), value.into());
    }
    labels
}

impl Performer {
    /// Reads the file, and queries Google if needed.
    pub(in super::super) async fn launcher(&self) -> Result<Launcher<'_>, Problem> {
        let (spec, options) = (&self.spec, &self.options);
        let launch = read(spec)?;
        let view =
            if self.is_google() { Some(supervisor::ask_cloud(spec, &options.google).await?) } else { None };
        Ok(Launcher { spec, options, executor: &self.executor, launch, view })
    }
}

impl Launcher<'_> {
    /// Whether the cluster file has files to copy, which is not done on TPUs.
    pub(super) fn has_file_mounts(&self) -> bool {
        !self.launch.file_mounts.is_empty()
    }

    fn script(&self, vm: &TpuVm) -> Result<String, Problem> {
        let (_, node) = type_of(&self.launch, vm)?;
        startup_script(self.spec, &self.launch, node, &Services::at(self.options.google.endpoints()))
    }

    /// Puts the startup script into the TPU VM's metadata for its next boot; false for an instance of Compute Engine,
    /// whose group gives new instances the metadata of its template.
    pub(super) async fn prepare(&self, vm: &str) -> Result<bool, Problem> {
        let view = self.view.iter().flat_map(|v| &v.vms);
        let gone = || failure(format!("no TPU VM {}", Text::from(vm)), "add it again");
        let vm = view.into_iter().find(|v| v.name.raw() == vm).ok_or_else(gone)?;
        if vm.compute.is_some() {
            return Ok(false);
        }
        let script = self.script(vm)?;
        let location = supervisor::tpu_location(self.spec)?;
        let at = (location.project.as_str(), location.zone.as_str());
        let google = &self.options.google;
        let change = google.metadata_change(at, vm.name.raw(), "startup-script", &script).await;
        match change.map_err(|e| problem(&e))? {
            None => Ok(true),
            Some(change) => {
                let note = Some("the startup script, for the next boot");
                self.executor.google(google, &change, note).await.map(|()| true).map_err(|e| problem(&e))
            }
        }
    }

    /// Starts Ray as a worker of this head, replacing a running Ray.
    pub(in super::super) async fn start(
        &self,
        address: &str,
        head: &str,
        token: Option<&Secret>,
    ) -> Result<(), Problem> {
        let (spec, options, executor) = (self.spec, self.options, self.executor);
        let Some(view) = &self.view else {
            let node = on_host(spec, &self.launch)?;
            let to = supervisor::find_host(spec, options, address, |_| ()).await?;
            let host = Host { spec, options, executor, to };
            return host.start_ray((&self.launch, node), head, token).await;
        };
        let (vm, to) = self.host_in(view, address)?;
        Host { spec, options, executor, to }.install_script(&self.script(vm)?).await
    }

    /// The host of this cluster's TPUs at this address, with its TPU VM.
    fn host_in<'a>(&self, view: &'a CloudView, address: &str) -> Result<(&'a TpuVm, TpuHost), Problem> {
        let name = self.spec.name.as_str();
        let is_ours = |vm: &TpuVm| vm.ray_cluster.as_ref().is_some_and(|c| c.raw() == name);
        let found = view.at(address).into_iter().find(|(vm, _)| is_ours(vm));
        found.ok_or_else(|| failure(format!("no TPU VM at {}", Text::from(address)), "add it again"))
    }

    /// Stops the startup script on the host of a TPU at this address; returns whether it ran. Ray keeps running there.
    pub(super) async fn stop_script(&self, address: &str) -> Result<bool, Problem> {
        let (spec, options, executor) = (self.spec, self.options, self.executor);
        let Some(view) = &self.view else { return Ok(false) };
        let (_, to) = self.host_in(view, address)?;
        Host { spec, options, executor, to }.stop_script().await
    }
}
