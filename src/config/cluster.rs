//! Reads the parts of Ray cluster-launcher YAML that the console needs; other keys are ignored.

use super::settings::{Override, Settings};
use super::yaml::{self, FileError};
use super::{Env, google, line_of, nearest::nearest};
use crate::model::{
    ClusterName, ClusterSpec, GoogleNames, HeadAddress, HostName, NodeTypeLimits, Provider, SecretName,
    SshAuth,
};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Ray's node type for every node of a `local` cluster.
const LOCAL_TYPE: &str = "local.cluster.node";
/// Ray's default for `max_workers` of a cluster in Google Cloud (`autoscaler/gcp/defaults.yaml`).
const DEFAULT_MAX_WORKERS: u32 = 2;
/// The parts of Ray's `ray-schema.json` that are read.
#[derive(Deserialize)]
struct File {
    cluster_name: Option<String>,
    provider: Option<ProviderKeys>,
    #[serde(default)]
    auth: Auth,
    min_workers: Option<u32>,
    max_workers: Option<u32>,
    #[serde(default)]
    available_node_types: serde_yaml::Mapping,
    head_node_type: Option<String>,
    #[serde(default)]
    initialization_commands: serde_yaml::Value,
    #[serde(default)]
    setup_commands: serde_yaml::Value,
    #[serde(default)]
    head_setup_commands: serde_yaml::Value,
    #[serde(default)]
    head_start_ray_commands: serde_yaml::Value,
}

#[derive(Deserialize)]
struct ProviderKeys {
    #[serde(rename = "type")]
    kind: Option<String>,
    head_ip: Option<HostName>,
    #[serde(default)]
    worker_ips: Vec<HostName>,
    availability_zone: Option<String>,
    region: Option<String>,
    project_id: Option<String>,
    #[serde(default)]
    use_internal_ips: bool,
}

#[derive(Default, Deserialize)]
struct Auth {
    #[serde(rename = "ssh_user")]
    user: Option<String>,
    #[serde(rename = "ssh_private_key")]
    private_key: Option<PathBuf>,
    #[serde(rename = "ssh_proxy_command")]
    proxy_command: Option<serde_yaml::Value>,
}

#[derive(Default, Deserialize)]
struct NodeType {
    min_workers: Option<u32>,
    max_workers: Option<u32>,
    /// Anything but a mapping is ignored.
    #[serde(default)]
    resources: serde_yaml::Value,
    #[serde(default)]
    node_config: serde_yaml::Value,
}

impl NodeType {
    /// The resources of a node as whole numbers, and the resource of the first host of its slice, which Ray names after
    /// the TPU type (`get_current_node_additional_resources` in Ray's `_private/accelerators/tpu.py`).
    fn gives(&self) -> Vec<(String, u64)> {
        let declared = self.resources.as_mapping().into_iter().flatten();
        let whole = |n: &serde_yaml::Value| n.as_u64().or_else(|| n.as_f64().map(|n| n as u64));
        let declared = declared.filter_map(|(name, n)| Some((name.as_str()?.to_owned(), whole(n)?)));
        let kind = self.node_config["acceleratorType"].as_str();
        let head = kind.map(|kind| (format!("TPU-{kind}-head"), 1));
        declared.chain(head).collect()
    }
}

/// Reads one cluster from its file's text.
pub fn parse(text: &str, path: &Path, settings: &Settings, env: &Env) -> Result<ClusterSpec, FileError> {
    let file: File = yaml::parse(text, path)?;
    let missing = |what: &str, hint: &str| FileError::new(path, format!("has no `{what}`"), hint);
    let name = file.cluster_name.as_deref().filter(|n| !n.trim().is_empty());
    let name =
        name.ok_or_else(|| missing("cluster_name", "add it, or move the file if it is not a cluster file"))?;
    let name = &ClusterName::parse(name).map_err(|why| FileError {
        at: line_of(text, &["cluster_name"]).map(|line| (line, 1)),
        ..FileError::new(path, why, "use 1 to 63 letters, digits and hyphens")
    })?;
    let provider =
        file.provider.as_ref().ok_or_else(|| missing("provider", "add `provider: {type: ...}`"))?;
    let kind =
        provider.kind.as_deref().ok_or_else(|| missing("provider.type", "add `type:` under `provider`"))?;
    let kind = Provider::parse(kind).ok_or_else(|| {
        let hint =
            nearest(kind, Provider::NAMES).map(|n| format!(", did you mean `{n}`?")).unwrap_or_default();
        FileError::new(path, format!("unknown provider `{kind}`{hint}"), "use a provider that Ray supports")
    })?;
    if kind == Provider::Gcp {
        check_google(provider, path)?;
    }
    let chosen = settings.clusters.get(name.as_str()).cloned().unwrap_or_default();
    Ok(ClusterSpec {
        name: name.clone(),
        file: Some(path.into()),
        accepted: None,
        provider: kind,
        zone: provider.availability_zone.clone().or_else(|| provider.region.clone()),
        head: head(provider, kind, &chosen, path)?,
        auth: auth(&file.auth, &chosen, env, path)?,
        node_types: node_types(&file, kind, path)?,
        max_workers: max_workers(&file, kind),
        google: google(&file, provider, kind, &chosen, settings),
    })
}

fn google(
    file: &File,
    provider: &ProviderKeys,
    kind: Provider,
    chosen: &Override,
    settings: &Settings,
) -> GoogleNames {
    let declared = google::Declared {
        commands: [
            &file.initialization_commands,
            &file.setup_commands,
            &file.head_setup_commands,
            &file.head_start_ray_commands,
        ],
        provider: kind,
        project: provider.project_id.as_deref(),
        internal_ips: provider.use_internal_ips,
    };
    google::names(&declared, chosen, settings)
}

/// Checks the project and the zone, which become parts of URLs.
fn check_google(provider: &ProviderKeys, path: &Path) -> Result<(), FileError> {
    let refused = |what: &str, value: &str, hint: &str| {
        Err(FileError::new(path, format!("`{value}` is not a Google Cloud {what}"), hint))
    };
    if let Some(project) = provider.project_id.as_deref().filter(|p| !SecretName::is_project(p)) {
        return refused("project", project, "write the project's id as `provider.project_id`");
    }
    let is_location = |text: &&str| {
        (1..=63).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    match provider.availability_zone.as_deref().or(provider.region.as_deref()).filter(|z| !is_location(z)) {
        Some(zone) => refused("zone", zone, "write it as `us-central2-b`"),
        None => Ok(()),
    }
}

fn head(
    provider: &ProviderKeys,
    kind: Provider,
    chosen: &Override,
    path: &Path,
) -> Result<HeadAddress, FileError> {
    match chosen.address.as_ref().or(provider.head_ip.as_ref()) {
        Some(host) => Ok(HeadAddress::Ssh(host.clone())),
        None if kind == Provider::Local => {
            Err(FileError::new(path, "has no `provider.head_ip`", "add the head's address"))
        }
        None => Ok(HeadAddress::RayLookup),
    }
}

fn auth(auth: &Auth, chosen: &Override, env: &Env, path: &Path) -> Result<SshAuth, FileError> {
    let user = chosen.user.clone().or_else(|| auth.user.clone());
    // Ray passes it to ssh as `USER@HOST`: a user like `-oProxyCommand=...` would be read as an option.
    if user.as_deref().is_some_and(|user| !is_user(user)) {
        let what = "`auth.ssh_user` is not a valid user name";
        return Err(FileError::new(path, what, "use letters, digits, `.`, `_` and `-`, but no leading `-`"));
    }
    let key = chosen.key.as_ref().or(auth.private_key.as_ref());
    Ok(SshAuth {
        user,
        private_key: key.map(|k| env.expand(k)),
        // AWS allows a map by region here; only one command can be passed on.
        proxy_command: auth.proxy_command.as_ref().and_then(|v| v.as_str()).map(str::to_owned),
        port: chosen.port,
    })
}

/// Whether `useradd` would accept the name, or a directory service may have it (useradd(8), shadow-utils).
fn is_user(name: &str) -> bool {
    let name = name.strip_suffix('$').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+'))
}

/// `max_workers` of the cluster, else Ray's default, where it is known: a local cluster may have all of its workers.
fn max_workers(file: &File, kind: Provider) -> Option<u32> {
    let workers = || file.provider.as_ref().map_or(0, |p| p.worker_ips.len());
    let default = match kind {
        Provider::Local => Some(u32::try_from(workers()).unwrap_or(u32::MAX)),
        Provider::Gcp => Some(DEFAULT_MAX_WORKERS),
        Provider::None | Provider::Other(_) => None,
    };
    file.max_workers.or(default)
}

fn node_types(file: &File, kind: Provider, path: &Path) -> Result<Vec<NodeTypeLimits>, FileError> {
    let all = max_workers(file, kind).unwrap_or(DEFAULT_MAX_WORKERS);
    if kind == Provider::Local {
        let min = file.min_workers.unwrap_or(all);
        return Ok(vec![NodeTypeLimits {
            name: LOCAL_TYPE.into(),
            min,
            max: all,
            is_head: false,
            gives: Vec::new(),
        }]);
    }
    let limits = |(name, value): (&serde_yaml::Value, &serde_yaml::Value)| {
        let name = name.as_str().unwrap_or_default().to_owned();
        let limits: NodeType = serde_yaml::from_value(value.clone()).map_err(|e| {
            FileError::new(
                path,
                format!("available_node_types.{name}: {e}"),
                "min_workers and max_workers must be whole numbers",
            )
        })?;
        let is_head = file.head_node_type.as_deref() == Some(name.as_str());
        Ok(NodeTypeLimits {
            min: limits.min_workers.unwrap_or(0),
            // As in Ray (`fill_node_type_min_max_workers`), the head's type has no workers by default.
            max: limits.max_workers.unwrap_or(if is_head { 0 } else { all }),
            is_head,
            gives: limits.gives(),
            name,
        })
    };
    file.available_node_types.iter().map(limits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<ClusterSpec, FileError> {
        parse(text, Path::new("c.yaml"), &Settings::default(), &Env::new(&[("HOME", "/home/me")], "/w"))
    }

    #[test]
    fn a_local_cluster() {
        let spec = read(
            "cluster_name: tb\nmin_workers: 1\nmax_workers: 2\nprovider: {type: local, head_ip: 10.0.0.1, worker_ips: [a, b]}\n\
             auth: {ssh_user: ray, ssh_private_key: ~/.ssh/id}\nsetup_commands: [x]\n",
        )
        .unwrap();
        assert_eq!(spec.head, HeadAddress::Ssh(HostName::parse("10.0.0.1").unwrap()));
        assert_eq!(spec.auth.private_key.as_deref(), Some(Path::new("/home/me/.ssh/id")));
        let limits =
            NodeTypeLimits { name: LOCAL_TYPE.into(), min: 1, max: 2, is_head: false, gives: Vec::new() };
        assert_eq!((spec.node_types, spec.max_workers), (vec![limits], Some(2)));
    }

    #[test]
    fn a_cloud_cluster_with_anchors() {
        let spec = read(
            "cluster_name: m\nmax_workers: 1024\nprovider: {type: gcp, availability_zone: us-central2-b}\n\
             x: &base {max_workers: 8}\nhead_node_type: head\navailable_node_types:\n  head: {max_workers: 0}\n  w: {<<: *base, min_workers: 4}\n  v: *base\n",
        )
        .unwrap();
        assert_eq!((spec.head, spec.zone.as_deref()), (HeadAddress::RayLookup, Some("us-central2-b")));
        let types: Vec<_> = spec.node_types.iter().map(|t| (t.name.as_str(), t.min, t.is_head)).collect();
        assert_eq!(types, [("head", 0, true), ("w", 4, false), ("v", 0, false)]);
        assert_eq!((spec.node_types[1].max, spec.node_types[2].max), (8, 8));
        assert_eq!(spec.max_workers, Some(1024));
        let spec = read(
            "cluster_name: m\nprovider: {type: gcp, availability_zone: us-central2-b}\n\
             head_node_type: head\navailable_node_types:\n  head: {}\n  w: {}\n",
        )
        .unwrap();
        let max: Vec<_> = spec.node_types.iter().map(|t| t.max).collect();
        assert_eq!((max, spec.max_workers), (vec![0, 2], Some(2)), "Ray's defaults");
    }

    #[test]
    fn provider_and_login_can_come_from_merge_keys() {
        let spec = read(
            "cluster_name: m\ng: &gcp {type: gcp, project_id: p, availability_zone: a}\nl: &auth {ssh_user: ray, ssh_private_key: ~/k}\n\
             provider: {<<: *gcp, availability_zone: z}\nauth: {<<: *auth}\n",
        )
        .unwrap();
        assert_eq!((spec.provider, spec.zone.as_deref()), (Provider::Gcp, Some("z")));
        assert_eq!(spec.auth.user.as_deref(), Some("ray"));
        assert_eq!(spec.auth.private_key.as_deref(), Some(Path::new("/home/me/k")));
    }

    #[test]
    fn the_settings_override_address_and_login() {
        let text = "clusters: {m: {address: jump-alias, user: me, port: 2222}}";
        let settings: Settings = yaml::parse(text, Path::new("s")).unwrap();
        let text = "cluster_name: m\nprovider: {type: gcp}\nauth: {ssh_user: ray}\n";
        let spec = parse(text, Path::new("c"), &settings, &Env::default()).unwrap();
        assert_eq!(spec.head, HeadAddress::Ssh(HostName::parse("jump-alias").unwrap()));
        assert_eq!((spec.auth.user.as_deref(), spec.auth.port), (Some("me"), Some(2222)));
    }

    #[test]
    fn errors_have_a_place_and_a_hint() {
        let what = |text: &str| read(text).map(|_| ()).unwrap_err().what();
        assert_eq!(
            what("cluster_name: x\nprovider: {type: loca, head_ip: a}"),
            "c.yaml: unknown provider `loca`, did you mean `local`?"
        );
        assert_eq!(what("cluster_name: x\nprovider: {type: local}"), "c.yaml: has no `provider.head_ip`");
        assert_eq!(what("provider: {type: local}"), "c.yaml: has no `cluster_name`");
        assert!(
            what("cluster_name: x\nmax_workers: many\n").starts_with("c.yaml:2:"),
            "{}",
            what("cluster_name: x\nmax_workers: many\n")
        );
        assert!(what("cluster_name: x\nprovider:\n\ttype: local\n").starts_with("c.yaml:3:"));
        assert_eq!(what("# nothing\n\n"), "c.yaml: empty");
    }

    #[test]
    fn invalid_names_and_addresses_are_refused_with_their_line() {
        let what = |text: &str| read(text).map(|_| ()).unwrap_err().what();
        for (bad, why) in [
            ("-oProxyCommand=x", "read it as an option"),
            ("'ssh://u@evil'", "URL"),
            ("u@evil", "user"),
            ("host;rm", "letters"),
            ("'a b'", "letters"),
        ] {
            let head = what(&format!("cluster_name: x\nprovider:\n  type: local\n  head_ip: {bad}\n"));
            assert!(head.starts_with("c.yaml:4:") && head.contains(why), "{head}");
            let text = format!(
                "cluster_name: x\nprovider:\n  type: local\n  head_ip: h\n  worker_ips:\n  - a\n  - {bad}\n"
            );
            let worker = what(&text);
            assert!(worker.starts_with("c.yaml:7:") && worker.contains(why), "{worker}");
        }
        let escape = what("cluster_name: x\nprovider:\n  type: local\n  head_ip: \"a\\e[2J\"\n");
        assert!(escape.starts_with("c.yaml:3:") && !escape.contains('\u{1b}'), "{escape}");
        let long = "n".repeat(64);
        for (bad, why) in [
            ("\"a\\nb\"", "control characters"),
            ("\"a\\u202eb\"", "control characters"),
            ("../../etc", "path separator"),
            ("'a\\b'", "path separator"),
            ("..", "path separator"),
            (&long, "longer than 63"),
        ] {
            let name = what(&format!("# x\ncluster_name: {bad}\nprovider: {{type: gcp}}\n"));
            assert!(name.starts_with("c.yaml:2:") && name.contains(why), "{name}");
        }
        let name = format!("cluster_name: {}\nprovider: {{type: gcp}}\n", "n".repeat(63));
        assert!(read(&name).is_ok());
        let google = |key: &str| what(&format!("cluster_name: x\nprovider: {{type: gcp, {key}}}"));
        assert!(google("project_id: 'p/../q'").contains("is not a Google Cloud project"));
        assert!(google("availability_zone: 'a/../b'").contains("is not a Google Cloud zone"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z:{}\\[\\]&*<\\- \n\t\"']{0,200}") {
            let _ = read(&text);
            let _ = read(&format!("cluster_name: x\n{text}"));
        }
    }
}
