//! What the user and the cluster files say: the settings file, Ray cluster-launcher YAML, folders.
//!
//! A file that is broken never hides the others: it becomes an entry of its own that says where it is broken. An
//! error names file, line and the mend.

mod cluster;
mod env;
#[cfg(test)]
mod fuzz;
mod google;
mod launch;
mod locate;
mod nearest;
mod paths;
mod resolve;
mod settings;
mod shared;
pub mod yaml;

pub use env::Env;
pub use launch::{Launch, NodeLaunch};
pub use locate::{is_block, line_of};
pub use nearest::nearest;
pub use paths::{Folders, create_private};
pub use resolve::{Unresolved, resolve};
pub use settings::{CapacityField, DEFAULTS, Override, Settings, TpuVersion};

use crate::model::text::printable;
use crate::model::{
    ClusterName, ClusterSpec, GoogleNames, HeadAddress, Problem, ProblemKind, SshAuth, Timestamp, authority,
};
use std::fs;
use std::path::{Path, PathBuf};

/// Why the console cannot start at all.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that was named cannot be used.
    #[error("{0}")]
    File(#[from] yaml::FileError),
    /// A value makes no sense.
    #[error("{what}; {mend}")]
    Value {
        /// What is wrong.
        what: String,
        /// What to do.
        mend: String,
    },
    /// No cluster anywhere.
    #[error(
        "no cluster files: looked in {}; name a folder of Ray cluster YAML with --infra, list it as `infra` in the \
         settings, or attach to a dashboard with --address",
        .0.display()
    )]
    NoClusters(PathBuf),
}

/// What the command line says about where clusters come from.
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
}

/// A file that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// What is wrong, where, and the mend.
    pub problem: Problem,
}

/// One row of what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A cluster.
    Cluster(ClusterSpec),
    /// A broken file.
    Broken(Broken),
}

impl Entry {
    /// The cluster, unless the file is broken.
    pub fn cluster(&self) -> Option<&ClusterSpec> {
        match self {
            Self::Cluster(spec) => Some(spec),
            Self::Broken(_) => None,
        }
    }
}

/// Everything read.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings.
    pub settings: Settings,
    /// Clusters and broken files, by name of cluster or file.
    pub entries: Vec<Entry>,
    /// Templates that were passed over.
    pub skipped: Vec<PathBuf>,
}

/// The cluster that a file's text describes.
pub fn cluster_of(text: &str, file: &Path, settings: &Settings) -> Result<ClusterSpec, yaml::FileError> {
    cluster::parse(text, file, settings, &Env::default())
}

/// The folders and files that clusters come from: `--infra`, else the settings', else `./infra`.
pub fn places(sources: &Sources, settings: &Settings, env: &Env) -> Vec<PathBuf> {
    match &sources.infra {
        Some(place) => vec![env.expand(place)],
        None if !settings.infra.is_empty() => settings.infra.iter().map(|p| env.expand(p)).collect(),
        None => vec![env.cwd().join("infra")],
    }
}

/// Reads the settings and every cluster file.
pub fn load(sources: &Sources, env: &Env, now: Timestamp) -> Result<Config, ConfigError> {
    let settings = Settings::read(sources.config.as_deref(), env)?;
    if let Some(spec) = direct(sources, &settings, env)? {
        return Ok(Config { settings, entries: vec![Entry::Cluster(spec)], skipped: Vec::new() });
    }
    let places = places(sources, &settings, env);
    let mut config = Config { settings, entries: Vec::new(), skipped: Vec::new() };
    for place in &places {
        for file in cluster_files(place)? {
            config.add(&file, env, now);
        }
    }
    if config.entries.is_empty() {
        return Err(ConfigError::NoClusters(places.into_iter().next().unwrap_or_default()));
    }
    config.entries.sort_by_key(|e| match e {
        Entry::Cluster(spec) => (0, spec.name.as_str().to_owned()),
        Entry::Broken(broken) => (1, broken.file.display().to_string()),
    });
    Ok(config)
}

impl Config {
    fn add(&mut self, file: &Path, env: &Env, now: Timestamp) {
        if is_template_name(file) {
            return self.skipped.push(file.into());
        }
        let read = yaml::read(file).map(|text| {
            if is_template_text(&text) {
                None
            } else {
                Some(cluster::parse(&text, file, &self.settings, env))
            }
        });
        let spec = match read {
            Ok(None) => return self.skipped.push(file.into()),
            Ok(Some(Ok(spec))) => spec,
            Ok(Some(Err(e))) | Err(e) => return self.add_broken(file, &e.what(), &e.mend, now),
        };
        let twin = self.entries.iter().filter_map(Entry::cluster).find(|c| c.name == spec.name);
        match twin.and_then(|c| c.file.clone()) {
            Some(first) => {
                let what = format!(
                    "{}: cluster_name `{}` is already taken by {}",
                    file.display(),
                    spec.name,
                    first.display()
                );
                self.add_broken(
                    file,
                    &what,
                    "two clusters of one name would share tags and orphan nodes: rename one",
                    now,
                );
            }
            None => self.entries.push(Entry::Cluster(spec)),
        }
    }

    fn add_broken(&mut self, file: &Path, what: &str, mend: &str, now: Timestamp) {
        let problem = Problem::new(ProblemKind::Config, what, mend, now);
        self.entries.push(Entry::Broken(Broken { file: file.into(), problem }));
    }
}

/// Marin's templates are named so, and Jinja marks the rest.
pub fn is_template_name(file: &Path) -> bool {
    file.file_name().is_some_and(|n| n.to_string_lossy().contains("template"))
}

fn is_template_text(text: &str) -> bool {
    text.lines().filter(|l| !l.trim_start().starts_with('#')).any(|l| l.contains("{{") || l.contains("{%"))
}

/// A file itself, or the YAML files of a folder, sorted, templates included. A folder that does not exist is empty: the
/// caller says so.
pub fn cluster_files(place: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    if place.is_file() {
        return Ok(vec![place.into()]);
    }
    let listing = match fs::read_dir(place) {
        Ok(listing) => listing,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => {
            let mend = "check that it is a folder and that you may read it".into();
            return Err(ConfigError::Value {
                what: format!("{} cannot be read: {e}", place.display()),
                mend,
            });
        }
    };
    let yaml = |p: &PathBuf| p.extension().is_some_and(|e| e == "yaml" || e == "yml");
    let mut files: Vec<PathBuf> = listing.flatten().map(|e| e.path()).filter(yaml).collect();
    files.sort();
    // The table that the files are generated from is no cluster.
    files.retain(|f| f.file_name().is_some_and(|n| n != "clusters.yaml"));
    Ok(files)
}

/// `--address`, or `RAY_ADDRESS` when it is an http URL and no folder was named (Ray itself also accepts `ray://` and
/// `host:port` there, which lead to other services).
fn direct(sources: &Sources, settings: &Settings, env: &Env) -> Result<Option<ClusterSpec>, ConfigError> {
    let is_url = |s: &str| s.starts_with("http://") || s.starts_with("https://");
    let from_env = || env.var("RAY_ADDRESS").filter(|s| is_url(s) && sources.infra.is_none());
    let Some(address) = sources.address.as_deref().or_else(from_env) else { return Ok(None) };
    let dashboard = address.trim().trim_end_matches('/');
    let refused = |what: String, mend: &str| ConfigError::Value { what, mend: mend.into() };
    let host = dashboard.split_once("://").map(|(_, rest)| rest).filter(|_| is_url(dashboard));
    let Some(host) = host else {
        let what = format!("`{}` is no dashboard address", printable(address));
        return Err(refused(what, "write it as http://HOST:8265"));
    };
    let name = host.split(['/', '?', '#']).next().unwrap_or(host);
    authority(name).map_err(|e| refused(e.to_string(), "write it as http://HOST:8265"))?;
    if let Some(gcs) = &sources.gcs {
        let port = authority(gcs).map_err(|e| refused(e.to_string(), "write it as HOST:6379"))?.1;
        port.ok_or_else(|| refused(format!("`{gcs}` has no port"), "write it as HOST:6379"))?;
    }
    Ok(Some(ClusterSpec {
        name: ClusterName::new(name),
        file: None,
        provider: String::new(),
        zone: None,
        head: HeadAddress::Direct { dashboard: dashboard.into(), gcs: sources.gcs.clone() },
        auth: SshAuth::default(),
        node_types: Vec::new(),
        google: direct_names(name, settings),
    }))
}

/// Without a file only the settings can name a secret.
fn direct_names(name: &str, settings: &Settings) -> GoogleNames {
    let none = serde_yaml::Value::Null;
    let said = google::Said { commands: [&none; 4], provider: "", project: None, internal_ips: false };
    google::names(&said, &settings.clusters.get(name).cloned().unwrap_or_default(), settings)
}
