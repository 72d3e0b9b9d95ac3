//! Checks for keys that Ray does not know, and suggests the nearest known key.

use super::Rules;
use crate::config::nearest;
use serde_yaml::Value;

// Ray's ray-schema.json, 2.53 and 2.60 together.
const TOP: [&str; 22] = [
    "auth",
    "available_node_types",
    "cluster_name",
    "cluster_synced_files",
    "docker",
    "file_mounts",
    "file_mounts_sync_continuously",
    "head_node_type",
    "head_setup_commands",
    "head_start_ray_commands",
    "idle_timeout_minutes",
    "initialization_commands",
    "max_workers",
    "metadata",
    "no_restart",
    "provider",
    "rsync_exclude",
    "rsync_filter",
    "setup_commands",
    "upscaling_speed",
    "worker_setup_commands",
    "worker_start_ray_commands",
];
const AUTH: [&str; 5] =
    ["ssh_private_key", "ssh_proxy_command", "ssh_proxy_use_node_id", "ssh_public_key", "ssh_user"];
const DOCKER: [&str; 11] = [
    "container_name",
    "disable_automatic_runtime_detection",
    "disable_shm_size_detection",
    "head_image",
    "head_run_options",
    "image",
    "pull_before_run",
    "run_options",
    "use_podman",
    "worker_image",
    "worker_run_options",
];
const NODE_TYPE: [&str; 10] = [
    "docker",
    "idle_timeout_s",
    "initialization_commands",
    "labels",
    "max_workers",
    "min_workers",
    "node_config",
    "priority",
    "resources",
    "worker_setup_commands",
];
const NODE_DOCKER: [&str; 3] = ["pull_before_run", "worker_image", "worker_run_options"];

impl Rules<'_> {
    /// Checks the keys: Ray's schema allows no other ones, except under `provider`.
    pub(super) fn known_keys(&mut self) {
        let root = Value::Mapping(self.root.clone());
        // Only Ray's local provider accepts a minimum for the whole cluster.
        let is_local = self.text_at(&["provider", "type"]) == Some("local");
        let top: Vec<&str> = TOP.into_iter().chain(is_local.then_some("min_workers")).collect();
        self.keys(&root, &[], &top);
        for (section, known) in [("auth", &AUTH[..]), ("docker", &DOCKER[..])] {
            if let Some(value) = root.get(section) {
                self.keys(value, &[section], known);
            }
        }
        for (name, value) in self.types() {
            let path = ["available_node_types", name.as_str()];
            self.keys(&value, &path, &NODE_TYPE);
            if let Some(docker) = value.get("docker") {
                self.keys(docker, &[path[0], path[1], "docker"], &NODE_DOCKER);
            }
            for needed in ["resources", "node_config"] {
                if value.get(needed).is_none() {
                    let what = format!("{name} has no `{needed}`, which Ray requires");
                    self.error("shape", &path, what, "add it, e.g. `{}`");
                }
            }
        }
    }

    fn keys(&mut self, value: &Value, path: &[&str], known: &[&str]) {
        let Some(map) = value.as_mapping() else { return };
        for key in map.keys().filter_map(Value::as_str).filter(|k| !known.contains(k)) {
            let near = nearest(key, known.iter().copied());
            let hint = near.map_or_else(
                || "remove it: Ray refuses the whole file".into(),
                |n| format!("did you mean `{n}`?"),
            );
            let within = if path.is_empty() { String::new() } else { format!(" in {}", path.join(".")) };
            self.error(
                "unknown-key",
                &[path, &[key]].concat(),
                format!("unknown key `{key}`{within}"),
                &hint,
            );
        }
    }
}
