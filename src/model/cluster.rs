//! A cluster as described by its cluster launcher YAML and the settings.

use super::{Digest, HostName, Provider};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A common prefix of the names is omitted only if it is longer than this, in bytes.
const PREFIX_LIMIT: usize = 3;
/// Maximum length of a cluster name in characters.
const LONGEST_NAME: usize = 63;

/// The `cluster_name` of a Ray cluster YAML, or the host of `--address`: identifies a cluster throughout the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Wraps a name that is known to be valid. Names from files must go through [`Self::parse`].
    pub fn new(s: impl Into<Arc<str>>) -> Self {
        Self(s.into())
    }

    /// Checks the `cluster_name` of a file: it is used as a file name, as a label at Google (63 characters, Compute
    /// Engine, "requirements for labels") and on the screen.
    ///
    /// # Errors
    ///
    /// What is wrong with the name.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.trim().is_empty() {
            return Err("the cluster name is empty");
        }
        if super::text::printable(text) != text {
            return Err("the cluster name contains control characters");
        }
        if text.contains(['/', '\\']) || matches!(text, "." | "..") {
            return Err("the cluster name contains a path separator");
        }
        if text.chars().count() > LONGEST_NAME {
            return Err("the cluster name is longer than 63 characters");
        }
        Ok(Self::new(text))
    }

    /// The name as written in the YAML. It comes from a local file that the user chose, and is still shown
    /// through [`super::text::printable`].
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Length in bytes of the common prefix of all names, up to a hyphen; 0 if it is too short to omit.
    pub fn shared<'a>(mut names: impl Iterator<Item = &'a Self>) -> usize {
        let Some(first) = names.next() else { return 0 };
        let mut prefix = first.as_str();
        let mut others = 0;
        for name in names {
            others += 1;
            let same = prefix.bytes().zip(name.0.bytes()).take_while(|(a, b)| a == b).count();
            let hyphen = prefix.as_bytes()[..same].iter().rposition(|b| *b == b'-');
            prefix = &prefix[..hyphen.map_or(0, |at| at + 1)];
        }
        if others > 0 && prefix.len() > PREFIX_LIMIT { prefix.len() } else { 0 }
    }

    /// The name without the common prefix of all names, for narrow tables; none if nothing would be omitted, or if
    /// another cluster has that name.
    pub fn short_among<'a>(&self, all: impl Iterator<Item = &'a Self> + Clone) -> Option<&str> {
        let shared = Self::shared(all.clone());
        let short = self.0.get(shared..).filter(|short| shared > 0 && !short.is_empty())?;
        all.into_iter().all(|name| name.as_str() != short).then_some(short)
    }

    /// URL of the cluster's dashboard on this loopback port, for a browser on this machine. Each cluster has its own
    /// host name because cookies are scoped to the host name and not to the port: two clusters with different tokens on
    /// `localhost` would log each other out. Browsers resolve `*.localhost` to loopback (RFC 6761, section 6.3).
    pub fn browser_url(&self, port: u16) -> String {
        let label: String = self.0.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let label = label.trim_matches('-').to_ascii_lowercase();
        let label = label.get(..63.min(label.len())).unwrap_or_default();
        if label.is_empty() {
            format!("http://127.0.0.1:{port}")
        } else {
            format!("http://{label}.localhost:{port}")
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&super::text::printable(&self.0))
    }
}

/// How to reach a cluster's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadAddress {
    /// A host name, address or ssh alias for the system's ssh (`provider.head_ip`, or the settings' override).
    Ssh(HostName),
    /// Not in the file: read from `ray get-head-ip FILE` (any provider that Ray supports).
    RayLookup,
    /// A dashboard URL to attach to directly, without SSH (`--address`, `RAY_ADDRESS`), and the GCS address
    /// (`host:port`) if the user gave one.
    Direct {
        /// Base URL of the dashboard, e.g. `http://10.0.0.1:8265`.
        dashboard: String,
        /// `host:port` of the GCS, if it can also be reached directly.
        gcs: Option<String>,
    },
}

#[cfg(test)]
impl ClusterSpec {
    /// A cluster with this name and provider; all else is empty.
    pub(crate) fn sample(name: &str, provider: Provider) -> Self {
        Self {
            name: ClusterName::new(name),
            file: None,
            accepted: None,
            provider,
            zone: None,
            head: HeadAddress::RayLookup,
            auth: SshAuth::default(),
            node_types: Vec::new(),
            max_workers: None,
            google: GoogleNames::default(),
        }
    }
}

impl ClusterSpec {
    /// Why operations on the cluster and its workers are refused, and what would make them possible; `None` if they are
    /// supported.
    pub fn no_operations(&self) -> Option<String> {
        match (&self.file, self.provider) {
            (Some(_), Provider::Gcp | Provider::Local) => None,
            (Some(_), provider) => Some(format!("not supported for provider {provider}")),
            (None, _) => Some("needs the cluster file instead of --address".to_owned()),
        }
    }

    /// The head's address or its source, in words for a table.
    pub fn head_text(&self) -> String {
        match &self.head {
            HeadAddress::Ssh(host) => host.to_string(),
            HeadAddress::RayLookup if self.provider == Provider::Gcp => {
                "Google Cloud label, else ray get-head-ip".to_owned()
            }
            HeadAddress::RayLookup => "ray get-head-ip".to_owned(),
            HeadAddress::Direct { dashboard, .. } => dashboard.clone(),
        }
    }
}

/// The YAML's `auth` section (Ray cluster YAML reference, "auth").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshAuth {
    /// `ssh_user`; if absent, the default of the system's ssh.
    pub user: Option<String>,
    /// `auth.ssh_private_key`, with `~` expanded.
    pub private_key: Option<PathBuf>,
    /// `ssh_proxy_command`, passed to ssh as `ProxyCommand`.
    pub proxy_command: Option<String>,
    /// Port, from the settings file (the YAML has none).
    pub port: Option<u16>,
}

/// Limits of one node type (`available_node_types`, or the top level for provider `local`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTypeLimits {
    /// Name in `available_node_types`; `local.cluster.node` for provider `local`, as Ray names it.
    pub name: String,
    /// `min_workers` of the node type.
    pub min: u32,
    /// `max_workers` of the node type, else of the cluster; 0 for the head's type if it has none.
    pub max: u32,
    /// Whether this is the `head_node_type`.
    pub is_head: bool,
    /// Whole-number resources of one node, as far as the file specifies them (`resources`); for a TPU slice also the
    /// resource of its head, which Ray adds. Empty if the file specifies none.
    pub gives: Vec<(String, u64)>,
}

/// A configured cluster. Built by `config`, used by the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// `cluster_name` of the cluster file.
    pub name: ClusterName,
    /// Path of its YAML; none with `--address`.
    pub file: Option<PathBuf>,
    /// Digest of the file when its directory was trusted; none if the operator named it (`--infra`, settings). A
    /// file that has changed since then is not used.
    pub accepted: Option<Digest>,
    /// `provider.type`.
    pub provider: Provider,
    /// The provider's zone (`us-central2-b`), if the YAML contains it.
    pub zone: Option<String>,
    /// How to reach the head.
    pub head: HeadAddress,
    /// Login user and key for SSH.
    pub auth: SshAuth,
    /// Limits by node type, in the file's order.
    pub node_types: Vec<NodeTypeLimits>,
    /// `max_workers` of the cluster, the limit for all workers together; none if it is unknown.
    pub max_workers: Option<u32>,
    /// Its names and settings in Google Cloud.
    pub google: GoogleNames,
}

/// A cluster's names and settings in Google Cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoogleNames {
    /// `provider.project_id` of the cluster file.
    pub project: Option<String>,
    /// `provider.use_internal_ips`: heads are reached by their internal addresses.
    pub internal_ips: bool,
    /// The secret that holds its Ray token; none if the token is not read from Google.
    pub token_secret: Option<SecretName>,
}

/// A secret of Secret Manager.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretName {
    /// Its project, if known.
    pub project: Option<String>,
    /// Name of the secret, without its project.
    pub name: String,
}

impl SecretName {
    /// The secret whose token is also written to `~/.ray/auth_token`, for Ray's own commands.
    pub const DEFAULT: &str = "RAY_AUTH_TOKEN";

    /// Whether this is [`Self::DEFAULT`].
    pub fn is_default(&self) -> bool {
        self.name == Self::DEFAULT
    }

    /// Whether `text` is a valid secret name: at most 255 letters, digits, `-` and `_` (Secret Manager v1, `secretId`).
    /// Such a name is safe in URLs, file names and shells.
    pub fn is_name(text: &str) -> bool {
        (1..=255).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    }

    /// Whether `text` has the form of a project's id, optionally with a domain (`example.com:project`), or number.
    pub fn is_project(text: &str) -> bool {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= 128
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':'))
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.project {
            Some(project) => write!(f, "{} in project {}", self.name, super::text::printable(project)),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_prefix_of_all_names_can_be_omitted() {
        let shared = |names: &[&str]| {
            let names: Vec<ClusterName> = names.iter().map(|name| ClusterName::new(*name)).collect();
            ClusterName::shared(names.iter())
        };
        assert_eq!(shared(&["marin-us-east1", "marin-us-east5", "marin-eu-west4"]), "marin-".len());
        assert_eq!(shared(&["marin-a", "marin-a-vllm"]), "marin-".len());
        assert_eq!(shared(&["marin-a", "lab"]), 0);
        assert_eq!(shared(&["marin-a"]), 0, "a single name is not shortened");
        assert_eq!(shared(&["é-a", "ê-b"]), 0);
        assert_eq!(shared(&[]), 0);
    }

    #[test]
    fn a_short_name_is_unique() {
        let short = |names: &[&str]| {
            let names: Vec<ClusterName> = names.iter().map(|name| ClusterName::new(*name)).collect();
            names[0].short_among(names.iter()).map(str::to_owned)
        };
        assert_eq!(short(&["marin-us-central2", "marin-eu-west4"]).as_deref(), Some("us-central2"));
        assert_eq!(short(&["marin-us-central2"]), None, "nothing is shared");
        assert_eq!(short(&["marin-us-central2", "lab"]), None);
        assert_eq!(short(&["marin-marin-a", "marin-a"]), None, "another cluster has this name");
        assert_eq!(short(&["marin-", "marin-a"]), None);
    }
}
