//! How a cluster file defines and starts its workers (Ray cluster YAML reference: `docker`, `available_node_types`,
//! the commands). Read when a worker is added, not at every start.

use super::checked_file;
use super::yaml::{self, FileError};
use crate::model::ClusterSpec;
use crate::model::sort;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Ray's default commands to start a worker, for a file without any (Ray, `autoscaler/gcp/defaults.yaml`).
const START: [&str; 2] =
    ["ray stop", "ulimit -n 65536; ray start --address=$RAY_HEAD_IP:6379 --object-manager-port=8076"];
/// Port of the GCS, unless a command names another.
const PORT: u16 = 6379;

/// How workers of a cluster are started.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// `docker.image`, or `docker.worker_image`.
    pub image: Option<String>,
    /// `docker.container_name`.
    pub container: String,
    /// Whether the file sets that name: then Ray's launcher runs all its commands in the container, for every provider
    /// (`get_command_runner` in `ray/autoscaler/node_provider.py`).
    pub in_container: bool,
    /// `docker.use_podman`: the container runs under podman.
    pub use_podman: bool,
    /// Port of the GCS, as the workers' start commands name it.
    pub port: u16,
    /// `file_mounts`: local path as written, by the path on the nodes.
    pub file_mounts: BTreeMap<String, String>,
    /// `provider.worker_ips`: hosts that the autoscaler of a `local` cluster starts on its own.
    pub worker_ips: Vec<String>,
    /// Types of workers, by name; the only one of provider `local` has an empty name.
    pub types: BTreeMap<String, NodeLaunch>,
}

/// The definition of one node type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeLaunch {
    /// `docker.worker_image` of the type.
    pub image: Option<String>,
    /// Options of `docker run`, as shell words.
    pub run_options: Vec<String>,
    /// `initialization_commands`: run on the machine itself, before the container starts.
    pub init: Vec<String>,
    /// `setup_commands` and `worker_setup_commands`.
    pub setup: Vec<String>,
    /// `worker_start_ray_commands`.
    pub start: Vec<String>,
    /// `resources`, as a JSON object.
    pub resources: Value,
    /// `node_config`, as JSON.
    pub config: Value,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    docker: Docker,
    #[serde(default)]
    available_node_types: BTreeMap<String, Type>,
    head_node_type: Option<String>,
    #[serde(default)]
    setup_commands: Vec<String>,
    #[serde(default)]
    worker_setup_commands: Vec<String>,
    #[serde(default)]
    worker_start_ray_commands: Vec<String>,
    #[serde(default)]
    initialization_commands: Vec<String>,
    #[serde(default, rename = "file_mounts")]
    mounts: BTreeMap<String, String>,
    #[serde(default)]
    provider: Provider,
}

#[derive(Default, Deserialize)]
struct Provider {
    #[serde(default)]
    worker_ips: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Docker {
    image: Option<String>,
    worker_image: Option<String>,
    container_name: Option<String>,
    #[serde(default)]
    use_podman: bool,
    #[serde(default)]
    run_options: Vec<String>,
    #[serde(default)]
    worker_run_options: Vec<String>,
}

#[derive(Deserialize)]
struct Type {
    #[serde(default)]
    resources: Option<Value>,
    #[serde(default)]
    node_config: Value,
    #[serde(default)]
    docker: Docker,
    worker_setup_commands: Option<Vec<String>>,
    initialization_commands: Option<Vec<String>>,
}

impl NodeLaunch {
    /// The metadata of the `node_config`: a map with Cloud TPU, `items` with Compute Engine.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        let given = &self.config["metadata"];
        let text = |v: &Value| v.as_str().map(str::to_owned);
        if let Some(items) = given["items"].as_array() {
            let pair = |item: &Value| Some((text(&item["key"])?, text(&item["value"])?));
            return sort::collected(items.iter().filter_map(pair));
        }
        let map = given.as_object().into_iter().flatten();
        sort::collected(map.filter_map(|(key, value)| Some((key.clone(), text(value)?))))
    }
}

impl Launch {
    /// Reads the file of a cluster. A trusted file must not have changed since it was trusted.
    pub fn of(spec: &ClusterSpec) -> Result<Self, FileError> {
        match (&spec.file, &spec.accepted) {
            (Some(file), Some(accepted)) => Self::parse(&checked_file::unchanged(file, accepted)?, file),
            (Some(file), None) => Self::read(file),
            (None, _) => Err(FileError::new(
                Path::new("-"),
                "the cluster has no file",
                "pass its directory with --infra",
            )),
        }
    }

    /// Reads a cluster's file.
    pub fn read(file: &Path) -> Result<Self, FileError> {
        Self::parse(&yaml::read(file)?, file)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let file: File = yaml::parse(text, path)?;
        let own = |start: &[String]| match start {
            [] => START.map(str::to_owned).to_vec(),
            own => own.to_vec(),
        };
        let start = own(&file.worker_start_ray_commands);
        let of = |one: Option<&Type>| {
            let docker = one.map_or(&file.docker, |t| &t.docker);
            let mut run_options = file.docker.run_options.clone();
            let mine = &docker.worker_run_options;
            run_options.extend(if mine.is_empty() { &file.docker.worker_run_options } else { mine }.clone());
            let worker = one.and_then(|t| t.worker_setup_commands.as_ref());
            let worker = worker.unwrap_or(&file.worker_setup_commands);
            let init = one.and_then(|t| t.initialization_commands.as_ref());
            NodeLaunch {
                image: docker.worker_image.clone(),
                run_options,
                init: init.unwrap_or(&file.initialization_commands).clone(),
                setup: file.setup_commands.iter().chain(worker).cloned().collect(),
                start: start.clone(),
                resources: one
                    .and_then(|t| t.resources.clone())
                    .unwrap_or_else(|| Value::Object(serde_json::Map::new())),
                config: one.map_or(Value::Null, |t| t.node_config.clone()),
            }
        };
        let head = file.head_node_type.as_deref();
        let workers = file.available_node_types.iter().filter(|(name, _)| head != Some(name));
        let mut types: BTreeMap<String, NodeLaunch> =
            sort::collected(workers.map(|(name, one)| (name.clone(), of(Some(one)))));
        if file.available_node_types.is_empty() {
            types.insert(String::new(), of(None));
        }
        let container = file.docker.container_name.clone().filter(|name| !name.is_empty());
        Ok(Self {
            image: file.docker.worker_image.clone().or_else(|| file.docker.image.clone()),
            in_container: container.is_some(),
            use_podman: file.docker.use_podman,
            container: container.unwrap_or_else(|| "ray_container".into()),
            port: port(&start),
            worker_ips: file.provider.worker_ips.clone(),
            file_mounts: file.mounts.clone(),
            types,
        })
    }

    /// The node type of that name, or the one whose TPU has that name (`v4-128`).
    pub fn find(&self, wanted: &str) -> Option<(&str, &NodeLaunch)> {
        let named = self.types.get_key_value(wanted);
        let by_tpu = || self.types.iter().find(|(_, t)| t.config["acceleratorType"] == wanted);
        named.or_else(by_tpu).map(|(name, node)| (name.as_str(), node))
    }
}

/// The port after `$RAY_HEAD_IP:`, whatever the quoting of the variable.
fn port(start: &[String]) -> u16 {
    let after = |rest: &str| {
        let quotes = ['"', '\'', '\\'];
        let rest = rest.trim_start_matches('}').trim_start_matches(quotes).strip_prefix(':')?;
        let digits: String =
            rest.trim_start_matches(quotes).chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    start.iter().find_map(|command| command.split("RAY_HEAD_IP").skip(1).find_map(after)).unwrap_or(PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Launch {
        Launch::parse(text, Path::new("c.yaml")).unwrap()
    }

    #[test]
    fn a_type_is_found_by_its_name_or_its_tpu() {
        let launch = parse(
            "docker: {image: i, container_name: c, run_options: [-a], worker_run_options: [-b]}\n\
             setup_commands: [s]\nworker_setup_commands: [w]\nhead_node_type: head\n\
             initialization_commands: [i]\nfile_mounts: {/there: ~/here}\navailable_node_types:\n  \
             head: {node_config: {machineType: n2}}\n  other: {initialization_commands: [own]}\n  big: {resources: {TPU: 4}, node_config: {acceleratorType: v4-128}}\n",
        );
        let (name, node) = launch.find("v4-128").unwrap();
        assert_eq!((name, launch.find("big").unwrap().1), ("big", node));
        assert_eq!(
            (&node.run_options[..], &node.setup[..]),
            (&["-a".into(), "-b".into()][..], &["s".into(), "w".into()][..])
        );
        assert_eq!(
            (&node.init[..], &launch.find("other").unwrap().1.init[..]),
            (&["i".into()][..], &["own".into()][..])
        );
        assert_eq!(launch.file_mounts["/there"], "~/here");
        assert_eq!(node.resources["TPU"], 4);
        assert!(launch.find("head").is_none() && node.start[1].contains("ray start"));
        assert_eq!((launch.port, launch.container.as_str()), (6379, "c"));
    }

    #[test]
    fn a_type_can_come_from_merge_keys() {
        let launch = parse(
            "x: &base {node_config: &config {acceleratorType: v4-8, runtimeVersion: r}, resources: {TPU: 4}}\n\
             available_node_types:\n  a: {<<: *base}\n  b: {<<: *base, node_config: {<<: *config, acceleratorType: v4-16}}\n",
        );
        let (name, node) = launch.find("v4-8").unwrap();
        assert_eq!(
            (name, &node.config["runtimeVersion"], &node.resources["TPU"]),
            ("a", &"r".into(), &4.into())
        );
        let (name, node) = launch.find("v4-16").unwrap();
        assert_eq!((name, &node.config["runtimeVersion"]), ("b", &"r".into()));
    }

    #[test]
    fn a_local_cluster_has_one_type_and_its_own_port() {
        let launch = parse("worker_start_ray_commands: ['ray start --address=${RAY_HEAD_IP}:7001']\n");
        assert_eq!((launch.port, launch.find("").unwrap().1.start.len()), (7001, 1));
    }

    #[test]
    fn only_a_named_container_is_used() {
        for (docker, named) in
            [("{image: i, container_name: c}", true), ("{container_name: ''}", false), ("{}", false)]
        {
            assert_eq!(parse(&format!("docker: {docker}\n")).in_container, named, "{docker}");
        }
    }

    #[test]
    fn the_port_is_found_with_any_quoting() {
        let of = |address: &str| port(&["ulimit -n 1".to_owned(), format!("ray start --address={address}")]);
        let ways = [
            "$RAY_HEAD_IP:7001",
            "${RAY_HEAD_IP}:7001",
            "\"$RAY_HEAD_IP\":7001",
            "\"${RAY_HEAD_IP}\":7001",
            "\"$RAY_HEAD_IP:7001\"",
            "'$RAY_HEAD_IP:7001'",
            "'$RAY_HEAD_IP':7001",
            "\\\"$RAY_HEAD_IP\\\":7001",
            "\"$RAY_HEAD_IP\":'7001'",
            "$OTHER && test \"$RAY_HEAD_IP\" && ray start --address=$RAY_HEAD_IP:7001",
        ];
        for way in ways {
            assert_eq!(of(way), 7001, "{way}");
        }
        for none in ["$RAY_HEAD_IP", "\"$RAY_HEAD_IP\" --object-manager-port=8076", "$RAY_HEAD_IP:$PORT"] {
            assert_eq!(of(none), PORT, "{none}");
        }
    }
}
