//! The sources of clusters and settings: options of the command line, and `RAY_ADDRESS`.

use super::{Env, yaml};
use crate::model::shown_address;
use crate::model::text::printable;
use std::path::{Path, PathBuf};

/// The command line's options that select the sources of clusters.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--infra`.
    pub infra: Option<PathBuf>,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--address`.
    pub address: Option<String>,
    /// `--gcs`.
    pub gcs: Option<String>,
    /// `--cluster`.
    pub cluster: Option<String>,
}

impl Sources {
    /// The address of a dashboard: `--address`, else `RAY_ADDRESS`.
    pub(super) fn address<'a>(&'a self, env: &'a Env) -> Option<&'a str> {
        self.address.as_deref().or_else(|| self.of_env(env).filter(|address| !self.is_another(address)))
    }

    /// A message about a `RAY_ADDRESS` that is ignored, with a hint: `-c` overrides it, or it is not the address of a
    /// dashboard. Ray itself also accepts `HOST:PORT` (the GCS), `ray://` (the Ray client server) and `auto`.
    pub fn unused_address(&self, env: &Env) -> Option<String> {
        let address = env.var("RAY_ADDRESS").filter(|_| self.infra.is_none() && self.address.is_none())?;
        let shown = shown_address(address);
        match (&self.cluster, host_of(address)) {
            (Some(name), Some(_)) if self.is_another(address) => Some(format!(
                "RAY_ADDRESS ({shown}) is ignored because `-c {}` selects a cluster; omit -c to use that address",
                printable(name),
            )),
            (None, None) => {
                let kind = match address.trim() {
                    ray if ray.starts_with("ray://") => "the address of a Ray client server",
                    gcs if gcs.contains(':') && !gcs.contains('/') => "the address of a GCS",
                    _ => "not an http URL",
                };
                Some(format!(
                    "RAY_ADDRESS ({shown}) is ignored because it is {kind}; set it to the dashboard's URL \
                     (http://HOST:8265), or select a cluster file with -c or --infra"
                ))
            }
            _ => None,
        }
    }

    /// `RAY_ADDRESS` when it is an http URL and no other cluster is named.
    fn of_env<'a>(&self, env: &'a Env) -> Option<&'a str> {
        let address = env.var("RAY_ADDRESS").filter(|address| host_of(address).is_some());
        address.filter(|_| self.infra.is_none() && self.address.is_none())
    }

    /// Whether `--cluster` names something else than the dashboard at this address.
    fn is_another(&self, address: &str) -> bool {
        self.cluster.as_deref().is_some_and(|name| host_of(address) != Some(name))
    }
}

/// Host and port of an http URL: the name of a dashboard without a cluster file.
pub(super) fn host_of(url: &str) -> Option<&str> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| url.trim().strip_prefix(scheme))?;
    rest.split(['/', '?', '#']).next()
}

/// Whether a path has clusters rather than settings: a directory, or a file with a key that every cluster file has.
/// Only regular files are read.
pub fn has_clusters(path: &Path) -> bool {
    let is_key = |key: &str| matches!(key.trim_matches(['"', '\'']), "cluster_name" | "provider");
    let has = |text: &str| match serde_yaml::from_str::<serde_yaml::Mapping>(text) {
        Ok(keys) => keys.keys().any(|key| key.as_str().is_some_and(is_key)),
        // A broken file is classified by its lines, so that its error is that of a cluster file or of settings.
        Err(_) => text.lines().filter_map(|line| line.split_once(':')).any(|(key, _)| is_key(key)),
    };
    path.is_dir() || (path.is_file() && yaml::read(path).is_ok_and(|text| has(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_cluster_overrides_the_environment() {
        let env = |address| Env::new(&[("RAY_ADDRESS", address)], "/");
        let of =
            |cluster: Option<&str>| Sources { cluster: cluster.map(str::to_owned), ..Sources::default() };
        let url = env("http://127.0.0.1:8265/");
        assert_eq!(of(None).address(&url), Some("http://127.0.0.1:8265/"));
        assert_eq!(of(None).unused_address(&url), None);
        assert_eq!(of(Some("lab")).address(&url), None);
        let words = of(Some("lab")).unused_address(&url).unwrap();
        assert!(words.contains("http://127.0.0.1:8265") && words.contains("`-c lab`"), "{words}");
        // The name of the dashboard itself.
        assert!(of(Some("127.0.0.1:8265")).address(&url).is_some());
        assert_eq!(of(Some("127.0.0.1:8265")).unused_address(&url), None);
        // An address that is not used anyway needs no message.
        let infra = Sources { infra: Some("infra".into()), ..of(Some("lab")) };
        assert_eq!((infra.address(&url), infra.unused_address(&url)), (None, None));
        assert_eq!(of(Some("lab")).unused_address(&env("ray://h:10001")), None);
        let named = Sources { address: Some("http://h:1".into()), ..of(Some("lab")) };
        assert_eq!((named.address(&url), named.unused_address(&url)), (Some("http://h:1"), None));
        assert!(!of(Some("lab")).unused_address(&env("http://me:hunter2@h")).unwrap().contains("hunter2"));
    }

    #[test]
    fn an_address_of_something_else_is_ignored_with_a_message() {
        let of = |address: &str| Env::new(&[("RAY_ADDRESS", address)], "/");
        for (address, kind) in [
            ("ray://h:10001", "the address of a Ray client server"),
            ("10.0.0.1:6379", "the address of a GCS"),
            ("auto", "not an http URL"),
            ("ftp://me:hunter2@h:1", "not an http URL"),
        ] {
            let words = Sources::default().unused_address(&of(address)).unwrap();
            assert!(words.contains(&format!("is ignored because it is {kind}; ")), "{words}");
            assert!(words.contains("http://HOST:8265") && !words.contains("hunter2"), "{words}");
            let infra = Sources { infra: Some("infra".into()), ..Sources::default() };
            assert_eq!(infra.unused_address(&of(address)), None);
        }
        assert_eq!(Sources::default().unused_address(&of("")), None);
    }

    #[test]
    fn clusters_and_settings_are_distinguished_by_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let is_cluster = |text: &str| {
            let file = dir.path().join("a b.yaml");
            std::fs::write(&file, text).unwrap();
            has_clusters(&file)
        };
        for text in [
            "cluster_name: lab\nprovider: {type: local}\n",
            "# generated\nprovider:\n  type: gcp\n",
            "{\"cluster_name\": \"lab\"}",
            "cluster_name: lab\nprovider:\n\ttype: local\n",
            "cluster_name: {{NAME}}\n",
        ] {
            assert!(is_cluster(text), "{text}");
        }
        for text in [
            "",
            "infra: [x]\n",
            "clusters: {lab: {port: 22}}\n",
            "a text: cluster_name\n",
            "[",
            "- provider: x\n",
        ] {
            assert!(!is_cluster(text), "{text}");
        }
        assert!(has_clusters(dir.path()) && !has_clusters(&dir.path().join("none")));
    }
}
