//! Compares a cluster's file with the configuration that its head runs with.
//!
//! `ray up` writes the file to the head as `~/ray_bootstrap_config.yaml`, with Ray's defaults filled in (`prepare_config`
//! in `ray/autoscaler/_private/util.py`, `prepare_local` in `local/config.py`) and with the additions of the provider
//! (`bootstrap_gcp`). Both sides are converted to that form here. Keys that the file omits and whose default differs
//! between Ray's releases are not compared: the commands that start Ray, and on Google those that set it up.

use super::checked_file;
use super::yaml::{self, FileError};
use crate::model::sort;
use crate::model::{ClusterSpec, Drift, Effect};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The only node type of a `local` cluster (`LOCAL_CLUSTER_NODE_TYPE`).
const LOCAL: &str = "local.cluster.node";
/// Keys that `bootstrap_gcp` adds to a `node_config` without them.
const KEYS_OF_BOOTSTRAP: [&str; 2] = ["networkInterfaces", "networkConfig"];
/// Keys of `auth` that are different or missing on the head (`_set_up_config_for_head_node`).
const OF_LAUNCHER: [&str; 3] = ["ssh_private_key", "ssh_proxy_command", "ssh_proxy_use_node_id"];

/// The keys of the cluster file whose values differ from `running`, the configuration on its head.
pub fn drift(spec: &ClusterSpec, running: &[u8]) -> Result<Vec<Drift>, FileError> {
    let path = spec.file.clone().unwrap_or_default();
    let text = match &spec.accepted {
        Some(accepted) => checked_file::unchanged(&path, accepted)?,
        None => yaml::read(&path)?,
    };
    let file: Value = yaml::parse(&text, &path)?;
    let hint = "start the cluster again with `ray up`, which writes it";
    let unread =
        |why: String| FileError::new("~/ray_bootstrap_config.yaml (on the head)".as_ref(), why, hint);
    let running: Value = serde_json::from_slice(running).map_err(|e| unread(e.to_string()))?;
    if !file.is_object() || !running.is_object() {
        return Err(unread("not a cluster configuration".to_owned()));
    }
    Ok(compare(&file, &running))
}

fn compare(file: &Value, running: &Value) -> Vec<Drift> {
    let (file, running) = (prepared(file), prepared(&unmerged(running)));
    let mut found = Found { file: &file, running: &running, all: Vec::new() };
    found.at("cluster_name", Effect::OtherCluster);
    found.provider();
    for key in keys(&file["auth"], &running["auth"]).iter().filter(|key| !OF_LAUNCHER.contains(&key.as_str()))
    {
        // The launcher replaces a head whose login differs.
        found.at(&format!("auth.{key}"), Effect::Restart);
    }
    found.at("head_node_type", Effect::Restart);
    for key in ["max_workers", "idle_timeout_minutes", "upscaling_speed"] {
        found.at(key, Effect::Now);
    }
    found.node_types();
    for key in ["worker_image", "worker_run_options"] {
        found.at(&format!("docker.{key}"), Effect::NewWorkers);
    }
    for key in keys(&file["docker"], &running["docker"]).iter().filter(|key| !key.starts_with("worker_")) {
        found.at(&format!("docker.{key}"), Effect::Restart);
    }
    found.mounts();
    for key in ["initialization_commands", "setup_commands", "head_setup_commands", "head_start_ray_commands"]
    {
        found.at(key, Effect::Restart);
    }
    for key in ["worker_setup_commands", "worker_start_ray_commands"] {
        found.at(key, Effect::UpdatesWorkers);
    }
    // The autoscaler compares contents only with this setting.
    let is_synced = file["file_mounts_sync_continuously"] == true;
    for key in ["cluster_synced_files", "file_mounts_sync_continuously"] {
        found.at(key, if is_synced { Effect::UpdatesWorkers } else { Effect::NewWorkers });
    }
    for key in ["rsync_exclude", "rsync_filter"] {
        found.at(key, Effect::NewWorkers);
    }
    found.all
}

/// Corrects the effects for autoscaler v2, which sets up each worker once, with the configuration that it read when it
/// was started (`RayInstaller` in `v2/instance_manager/ray_installer.py`). Autoscaler v1 reads the file again, and sets
/// up a worker again when the hash of mounts and worker commands has changed (`reset` and `should_update` in
/// `_private/autoscaler.py`).
pub fn with_autoscaler_v2(changes: &mut [Drift]) {
    for drift in changes {
        let is_type = drift.key.starts_with("available_node_types.") && drift.file.is_object();
        let needs_restart = match drift.effect {
            Effect::Now => is_type && drift.running.is_null(),
            ref effect => matches!(effect, Effect::NewWorkers | Effect::UpdatesWorkers),
        };
        if needs_restart {
            drift.effect = Effect::NextRestart;
        }
    }
}

/// Both sides, and the differences found so far.
struct Found<'a> {
    file: &'a Value,
    running: &'a Value,
    all: Vec<Drift>,
}

impl Found<'_> {
    /// Compares the values at a path of keys, unless the file leaves the key to Ray's default.
    fn at(&mut self, path: &str, effect: Effect) {
        let of = |value: &Value| path.split('.').fold(value.clone(), |value, key| value[key].clone());
        let is_left_to_ray = !path.contains('.') && self.file.get(path).is_none();
        if !is_left_to_ray {
            self.pair(path.to_owned(), (of(self.file), of(self.running)), effect);
        }
    }

    fn pair(&mut self, key: String, (file, running): (Value, Value), effect: Effect) {
        if !same(&file, &running) {
            self.all.push(Drift { key, running, file, effect });
        }
    }

    fn provider(&mut self) {
        const LOCATION_KEYS: [&str; 5] = ["type", "region", "availability_zone", "project_id", "head_ip"];
        for key in keys(&self.file["provider"], &self.running["provider"]) {
            // Keys with this prefix are internal to the launcher.
            if key.starts_with('_') {
                continue;
            }
            // The autoscaler creates its provider only once.
            let effect =
                if LOCATION_KEYS.contains(&key.as_str()) { Effect::OtherCluster } else { Effect::Restart };
            self.at(&format!("provider.{key}"), effect);
        }
    }

    fn node_types(&mut self) {
        let (ours, theirs) = (&self.file["available_node_types"], &self.running["available_node_types"]);
        let head = self.running["head_node_type"].as_str().unwrap_or_default();
        for name in keys(ours, theirs) {
            let key = |rest: &str| format!("available_node_types.{name}{rest}");
            let (file, running) = (&ours[&name], &theirs[&name]);
            let ends = if name == head { Effect::Restart } else { Effect::EndsWorkers(name.clone()) };
            if file.is_null() || running.is_null() {
                let effect = if running.is_null() { Effect::Now } else { ends };
                self.pair(key(""), (file.clone(), running.clone()), effect);
                continue;
            }
            for field in keys(file, running) {
                let (mine, other) = (file[&field].clone(), running[&field].clone());
                let (other, effect) = match field.as_str() {
                    "node_config" => {
                        (without(&other, &mine, |k| KEYS_OF_BOOTSTRAP.contains(&k)), ends.clone())
                    }
                    // `fillout_available_node_types_resources` of the provider adds the resources of TPU slices.
                    "resources" => {
                        let effect = if name == head { Effect::Restart } else { Effect::NewWorkers };
                        (without(&other, &mine, |k| k.starts_with("TPU-") && k.ends_with("-head")), effect)
                    }
                    "min_workers" | "max_workers" | "idle_timeout_s" | "priority" => (other, Effect::Now),
                    _ if name == head => (other, Effect::Restart),
                    _ => (other, Effect::NewWorkers),
                };
                self.pair(key(&format!(".{field}")), (mine, other), effect);
            }
        }
    }

    /// Compares the paths of mounts; the head's configuration has nothing else of them. A container gets a new mount
    /// only when it is restarted (`run_init` in `command_runner.py`).
    fn mounts(&mut self) {
        let paths = |value: &Value| keys(&value["file_mounts"], &Value::Null);
        let (ours, theirs) = (paths(self.file), paths(self.running));
        let in_container =
            self.file["docker"]["container_name"].as_str().is_some_and(|name| !name.is_empty());
        for path in ours.symmetric_difference(&theirs) {
            let is_new = ours.contains(path);
            let effect = if is_new && in_container { Effect::Restart } else { Effect::UpdatesWorkers };
            let side = |has: bool| if has { json!(path) } else { Value::Null };
            self.pair(format!("file_mounts.{path}"), (side(is_new), side(!is_new)), effect);
        }
    }
}

/// The keys of both objects, sorted.
fn keys(a: &Value, b: &Value) -> BTreeSet<String> {
    sort::collected([a, b].into_iter().filter_map(Value::as_object).flatten().map(|(key, _)| key.clone()))
}

/// The object without the added keys that `mine` lacks.
fn without(object: &Value, mine: &Value, added: impl Fn(&str) -> bool) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.retain(|key, _| !added(key) || mine.get(key).is_some());
    }
    object
}

/// Equality by value: 5 equals 5.0, and an empty value equals a missing one.
fn same(a: &Value, b: &Value) -> bool {
    let is_empty = |v: &Value| match v {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b || (is_empty(a) && is_empty(b)),
    }
}

/// A head's configuration without the common setup commands, which Ray prepends to those of the head and of workers.
fn unmerged(running: &Value) -> Value {
    let mut config = running.clone();
    let common = config["setup_commands"].as_array().cloned().unwrap_or_default();
    for key in ["head_setup_commands", "worker_setup_commands"] {
        if let Some(own) = config.get_mut(key).and_then(Value::as_array_mut)
            && own.starts_with(&common)
        {
            own.drain(..common.len());
        }
    }
    config
}

/// The configuration as Ray prepares it. Idempotent.
fn prepared(config: &Value) -> Value {
    let mut config = config.clone();
    let Some(map) = config.as_object_mut() else { return config };
    if map.get("provider").is_some_and(|provider| provider["type"] == "local") {
        prepare_local(map);
    }
    for (key, value) in [
        ("max_workers", json!(2)),
        ("upscaling_speed", json!(1)),
        ("idle_timeout_minutes", json!(5)),
        ("initialization_commands", json!([])),
        ("worker_setup_commands", json!([])),
        ("cluster_synced_files", json!([])),
        ("file_mounts_sync_continuously", json!(false)),
        ("rsync_exclude", json!([])),
        ("rsync_filter", json!([])),
    ] {
        map.entry(key).or_insert(value);
    }
    map.remove("min_workers");
    let (all, head) = (map["max_workers"].clone(), map.get("head_node_type").cloned().unwrap_or_default());
    let types = map.get_mut("available_node_types").and_then(Value::as_object_mut);
    for (name, kind) in types.into_iter().flatten() {
        let Some(kind) = kind.as_object_mut() else { continue };
        kind.entry("min_workers").or_insert(json!(0));
        let most = if head == name.as_str() { json!(0) } else { all.clone() };
        kind.entry("max_workers").or_insert(most);
    }
    config
}

/// One node type for all hosts, with the limits of the file, and at most one worker per host.
fn prepare_local(map: &mut Map<String, Value>) {
    for key in ["setup_commands", "head_setup_commands"] {
        map.entry(key).or_insert(json!([]));
    }
    if map.get("available_node_types").is_some_and(|types| types.get(LOCAL).is_some()) {
        return;
    }
    let provider = &map["provider"];
    let hosts = provider["worker_ips"].as_array().map(Vec::len);
    let limit = |wanted: Option<&Value>, none: usize| {
        let wanted = wanted.and_then(Value::as_u64).unwrap_or(none as u64);
        hosts.map_or(wanted, |hosts| wanted.min(hosts as u64))
    };
    let most = limit(map.get("max_workers"), hosts.unwrap_or_default());
    let least = limit(map.get("min_workers"), hosts.unwrap_or_default());
    map.insert("max_workers".into(), most.into());
    let kind = json!({"node_config": {}, "resources": {}, "min_workers": least, "max_workers": most});
    map.insert("available_node_types".into(), json!({ LOCAL: kind }));
    map.insert("head_node_type".into(), LOCAL.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn yaml(text: &str) -> Value {
        yaml::parse(text, "c.yaml".as_ref()).unwrap()
    }

    const GCP: &str = "{cluster_name: a, max_workers: 4, provider: {type: gcp, region: r}, auth: {ssh_user: ray}, \
        head_node_type: h, docker: {image: i, container_name: c}, file_mounts: {/a: ~/a}, \
        setup_commands: [s], worker_setup_commands: [w], available_node_types: {\
        h: {resources: {CPU: 0}, node_config: {machineType: n2}}, w: {resources: {TPU: 4}, node_config: {acceleratorType: v4-8}}}}";

    /// The key and the effect of each difference after a change of the file.
    fn changed(change: impl FnOnce(&mut Value)) -> Vec<(String, Effect)> {
        let (mut running, mut file) = (yaml(GCP), yaml(GCP));
        running["head_setup_commands"] = json!(["s"]);
        running["worker_setup_commands"] = json!(["s", "w"]);
        change(&mut file);
        compare(&file, &running).into_iter().map(|drift| (drift.key, drift.effect)).collect()
    }

    fn one(key: &str, effect: Effect) -> Vec<(String, Effect)> {
        vec![(key.to_owned(), effect)]
    }

    #[test]
    fn each_key_has_its_effect() {
        assert_eq!(changed(|_| ()), []);
        let raised = changed(|file| file["max_workers"] = json!(5));
        assert!(raised.contains(&("max_workers".to_owned(), Effect::Now)));
        assert!(raised.iter().all(|(_, effect)| *effect == Effect::Now), "{raised:?}");
        let types = "available_node_types";
        for (kind, effect) in [("w", Effect::EndsWorkers("w".into())), ("h", Effect::Restart)] {
            let other = changed(|file| file[types][kind]["node_config"]["x"] = json!(1));
            assert_eq!(other, one(&format!("{types}.{kind}.node_config"), effect));
        }
        let gone = changed(|file| drop(file[types].as_object_mut().unwrap().remove("w")));
        assert_eq!(gone, one(&format!("{types}.w"), Effect::EndsWorkers("w".into())));
        let new = changed(|file| file[types]["x"] = json!({"node_config": {}, "resources": {}}));
        assert_eq!(new, one(&format!("{types}.x"), Effect::Now));
        let least = changed(|file| file[types]["w"]["min_workers"] = json!(2));
        assert_eq!(least, one(&format!("{types}.w.min_workers"), Effect::Now));
        for (key, effect) in [
            ("setup_commands", Effect::Restart),
            ("head_setup_commands", Effect::Restart),
            ("worker_setup_commands", Effect::UpdatesWorkers),
            ("worker_start_ray_commands", Effect::UpdatesWorkers),
            ("rsync_exclude", Effect::NewWorkers),
        ] {
            assert_eq!(changed(|file| file[key] = json!(["x"])), one(key, effect));
        }
        assert_eq!(changed(|f| f["docker"]["image"] = json!("j")), one("docker.image", Effect::Restart));
        let image = changed(|file| file["docker"]["worker_image"] = json!("j"));
        assert_eq!(image, one("docker.worker_image", Effect::NewWorkers));
        let mounted = changed(|file| file["file_mounts"]["/b"] = json!("~/b"));
        assert_eq!(mounted, one("file_mounts./b", Effect::Restart), "the container is restarted for it");
        assert_eq!(
            changed(|f| f["provider"]["region"] = json!("x")),
            one("provider.region", Effect::OtherCluster)
        );
        assert_eq!(changed(|f| f["auth"]["ssh_user"] = json!("x")), one("auth.ssh_user", Effect::Restart));
        assert_eq!(changed(|f| f["auth"]["ssh_private_key"] = json!("x")), []);
        // Keys that are left to Ray's default are not compared.
        assert_eq!(changed(|f| drop(f.as_object_mut().unwrap().remove("setup_commands"))), []);
    }

    /// Autoscaler v1 hashes these keys (`hash_runtime_conf` in `util.py`).
    #[test]
    fn only_autoscaler_v1_updates_running_workers() {
        let change = |file: &mut Value, key: &str, value: Value| file[key] = value;
        let all = |file: &mut Value| {
            change(file, "worker_setup_commands", json!(["x"]));
            change(file, "file_mounts", json!({}));
        };
        let unmounted = "file_mounts./a".to_owned();
        let commands = "worker_setup_commands".to_owned();
        let updates = |key: &String| (key.clone(), Effect::UpdatesWorkers);
        assert_eq!(changed(all), [updates(&unmounted), updates(&commands)]);
        let (running, mut file) = (yaml(GCP), yaml(GCP));
        all(&mut file);
        file["available_node_types"]["new"] = json!({"node_config": {}});
        file["max_workers"] = json!(1);
        let mut drifts = compare(&file, &running);
        with_autoscaler_v2(&mut drifts);
        let kept: Vec<_> = drifts.into_iter().map(|drift| (drift.key, drift.effect)).collect();
        let of_new_type = "available_node_types.new".to_owned();
        let next = |key: String| (key, Effect::NextRestart);
        let now = |key: &str| (key.to_owned(), Effect::Now);
        let [limit, limit_of_type] = ["max_workers", "available_node_types.w.max_workers"].map(now);
        assert_eq!(kept, [limit, next(of_new_type), limit_of_type, next(unmounted), next(commands)]);

        let synced = |is_synced: bool| {
            changed(|file| {
                change(file, "cluster_synced_files", json!(["/s"]));
                change(file, "file_mounts_sync_continuously", json!(is_synced));
            })
        };
        assert_eq!(synced(false), one("cluster_synced_files", Effect::NewWorkers));
        let both = ["cluster_synced_files", "file_mounts_sync_continuously"].map(str::to_owned);
        assert_eq!(synced(true), [updates(&both[0]), updates(&both[1])]);
    }

    #[test]
    fn a_local_cluster_is_compared_by_its_limits_and_hosts() {
        let file = |most: usize| {
            yaml(&format!(
                "{{cluster_name: l, provider: {{type: local, head_ip: h, worker_ips: [a, b, c]}}, min_workers: 1, max_workers: {most}}}"
            ))
        };
        let running = prepared(&file(2));
        assert_eq!(compare(&file(2), &running), []);
        let raised = compare(&file(9), &running);
        let most: Vec<_> =
            raised.iter().map(|d| (d.running.clone(), d.file.clone(), d.effect.clone())).collect();
        assert_eq!(most, vec![(json!(2), json!(3), Effect::Now); 2], "one worker per host: {raised:?}");
        let mut other = file(2);
        other["provider"]["worker_ips"] = json!(["a", "b"]);
        assert_eq!(compare(&other, &running)[0].effect, Effect::Restart);
    }

    fn tree() -> impl Strategy<Value = Value> {
        let keys = [
            "provider",
            "type",
            "available_node_types",
            "w",
            "head_node_type",
            "setup_commands",
            "head_setup_commands",
            "docker",
            "file_mounts",
            "auth",
            "node_config",
            "max_workers",
            "worker_ips",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            prop::sample::select(vec!["local", "gcp", "w", ""]).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(prop::sample::select(keys.to_vec()), inner, 0..6)
                    .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            ]
        })
    }

    proptest! {
        /// A head may report anything.
        #[test]
        fn no_configuration_of_a_head_panics(file in tree(), running in tree()) {
            compare(&file, &running);
            let once = prepared(&file);
            prop_assert_eq!(prepared(&once), once);
        }
    }
}
