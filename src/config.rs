//! Configuration: the settings file, Ray cluster-launcher YAML, directories.
//!
//! A broken file never hides the others: it becomes an entry of its own with its error. An error names the file, the
//! line and a hint.

mod checked_file;
mod claims;
mod cluster;
mod drift;
mod entry;
mod env;
mod first;
#[cfg(test)]
mod fuzz;
mod google;
mod launch;
mod layout;
mod locate;
mod nearest;
mod paths;
mod resolve;
mod safe;
mod settings;
mod shared;
mod sources;
mod theme;
mod trust;
mod typed;
mod vitals;
pub mod yaml;

pub use drift::{drift, with_autoscaler_v2};
pub use entry::{Broken, Entry};
pub use env::Env;
pub use first::{first_settings, write_first};
pub use launch::{Launch, NodeLaunch};
pub use layout::{keep_layout, layout_file, read_layout};
pub use locate::{is_block, line_of};
pub use nearest::nearest;
pub use paths::{Folders, create_private};
pub use resolve::{Unresolved, chosen, resolve};
pub use safe::Unsafe;
pub use settings::{AUTO_THEME, CapacityField, DEFAULTS, Override, Settings, TpuVersion};
pub use sources::{Sources, has_clusters};
pub use theme::{read_theme, theme_file};
pub use trust::{Records, Review, TrustState, Trusted};
pub use typed::{TypedLine, TypedLines};

use crate::model::sort;
use crate::model::text::printable;
use crate::model::{
    ClusterName, ClusterSpec, GoogleNames, HeadAddress, Problem, ProblemKind, Provider, SshAuth, Timestamp,
    authority, shown_address,
};
use checked_file::CheckedFile;
use claims::RequestedAction;
use safe::CurrentUser;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The actions that a directory's content would cause, each with the files that request it.
type Claims = BTreeMap<RequestedAction, Vec<String>>;

/// Why the configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] yaml::FileError),
    /// A value is not valid.
    #[error("{what}; {hint}")]
    Value {
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
    /// There are no cluster files.
    #[error(
        "no cluster files found in {}; pass a directory with Ray cluster YAML with --infra, set `infra` in the settings, or \
         connect to a dashboard with --address",
        .0.display()
    )]
    NoClusters(PathBuf),
    /// The working directory has files that are not trusted yet.
    #[error("{} is not trusted; run `marin-tui trust` there", printable(&.0.display().to_string()))]
    Untrusted(PathBuf),
}

/// The settings and all entries.
#[derive(Clone, Debug)]
pub struct Config {
    pub settings: Settings,
    /// Clusters and broken files, by name of cluster or file.
    pub entries: Vec<Entry>,
    /// Templates that were skipped.
    pub skipped: Vec<PathBuf>,
}

/// A cluster's file, to be passed to the ray command.
///
/// # Errors
///
/// The cluster has no file, or the file has changed since its directory was trusted.
pub fn file_of(spec: &ClusterSpec) -> Result<&Path, yaml::FileError> {
    let file = spec.file.as_deref();
    let file = file.ok_or_else(|| {
        yaml::FileError::new(Path::new("-"), "the cluster has no file", "pass its directory with --infra")
    })?;
    if let Some(accepted) = &spec.accepted {
        checked_file::unchanged(file, accepted)?;
    }
    Ok(file)
}

/// The cluster that a file's text describes.
pub fn cluster_of(text: &str, file: &Path, settings: &Settings) -> Result<ClusterSpec, yaml::FileError> {
    cluster::parse(text, file, settings, &Env::default())
}

/// The directories and files that clusters are read from: `--infra`, else those in the settings, else `./infra`.
pub fn infra_paths(sources: &Sources, settings: &Settings, env: &Env) -> Vec<PathBuf> {
    infra_paths_and_owners(sources, settings, env).into_iter().map(|(path, _)| path).collect()
}

/// The same, each with whether it depends on the working directory without being given on the command line.
fn infra_paths_and_owners(sources: &Sources, settings: &Settings, env: &Env) -> Vec<(PathBuf, bool)> {
    // A relative path in the settings depends on the working directory.
    let is_here = |p: &Path| p.is_relative() && !p.starts_with("~");
    match &sources.infra {
        Some(path) => vec![(env.expand(path), false)],
        None if !settings.infra.is_empty() => {
            settings.infra.iter().map(|p| (env.expand(p), is_here(p))).collect()
        }
        None => vec![(env.cwd().join("infra"), true)],
    }
}

/// Whether a directory of cluster files is used only because it is in the working directory: neither the command line
/// nor the settings name it.
pub fn is_unnamed(path: &Path, sources: &Sources, settings: &Settings, env: &Env) -> bool {
    let mut all = infra_paths_and_owners(sources, settings, env).into_iter();
    all.any(|(known, is_here)| is_here && known == path)
}

/// The configuration before the check whether the working directory is trusted.
#[derive(Clone, Debug)]
pub struct Loaded {
    config: Config,
    env: Env,
    /// The environment without the variables of `.marin.yaml`.
    plain: Env,
    searched_paths: PathBuf,
    review: Option<Review>,
    is_named: bool,
}

impl Loaded {
    /// The files to be trusted; `None` when no file of the working directory is used.
    pub fn review(&self) -> Option<&Review> {
        self.review.as_ref()
    }

    /// Whether the command line names the clusters, so that the working directory's variables can be left out.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// Settings, clusters and variables for use. Fails when the directory is not trusted, unless the command line names
    /// the clusters; in that case the variables of `.marin.yaml` are left out.
    pub fn admit(self, records: &Records) -> Result<(Config, Env), ConfigError> {
        let state = self.review.as_ref().map(|review| (review.folder.clone(), review.state(records)));
        let env = match state {
            None | Some((_, TrustState::Trusted)) => self.env.clone(),
            Some(_) if self.is_named => self.plain.clone(),
            Some((folder, _)) => return Err(ConfigError::Untrusted(folder)),
        };
        Ok((self.into_displayed()?, env))
    }

    /// Settings and clusters for display only: nothing that they name may be run, sent or read.
    pub fn into_displayed(self) -> Result<Config, ConfigError> {
        if self.config.entries.is_empty() {
            return Err(ConfigError::NoClusters(self.searched_paths));
        }
        Ok(self.config)
    }
}

/// Reads the settings and every cluster file, for display only, or when all paths were named.
pub fn load(sources: &Sources, env: &Env, now: Timestamp) -> Result<Config, ConfigError> {
    read(sources, env, now)?.into_displayed()
}

/// Reads the settings, `.marin.yaml` and every cluster file, each once.
pub fn read(sources: &Sources, env: &Env, now: Timestamp) -> Result<Loaded, ConfigError> {
    let settings = Settings::read(sources.config.as_deref(), env)?;
    let us = CurrentUser::here();
    let plain = env.clone();
    let (env, mut files, mut claims) = with_variables(env, &us)?;
    let is_named = sources.infra.is_some() || sources.address.is_some();
    let mut config = Config { settings, entries: Vec::new(), skipped: Vec::new() };
    let mut searched_paths = PathBuf::new();
    if let Some(spec) = direct(sources, &config.settings, &env)? {
        config.entries.push(Entry::Cluster(spec));
    } else {
        for (path, is_here) in infra_paths_and_owners(sources, &config.settings, &env) {
            for file in cluster_files(&path)? {
                let Some((held, text)) = config.add(&file, is_here.then_some(&us), &env, now) else {
                    continue;
                };
                if let Some(spec) = config.entries.last().and_then(Entry::cluster) {
                    for claim in claims::of_cluster(spec, &text, &config.settings) {
                        claims.entry(claim).or_default().push(spec.name.to_string());
                    }
                }
                files.push(held);
            }
            if searched_paths.as_os_str().is_empty() {
                searched_paths = path;
            }
        }
    }
    sort::by_key(&mut config.entries, |e| match e {
        Entry::Cluster(spec) => (0, spec.name.as_str().to_owned()),
        Entry::Broken(broken) => (1, broken.file.display().to_string()),
    });
    let folder = env.cwd().canonicalize().unwrap_or_else(|_| env.cwd().into());
    let review = (!files.is_empty()).then_some(Review { folder, files, claims });
    Ok(Loaded { config, env, plain, searched_paths, review, is_named })
}

/// The environment with the variables of the directory's `.marin.yaml`, the files that contain these variables or are
/// named by them, and the actions that they would cause.
fn with_variables(env: &Env, us: &CurrentUser) -> Result<(Env, Vec<CheckedFile>, Claims), ConfigError> {
    let file = env.cwd().join(shared::FILE);
    if file.symlink_metadata().is_err() {
        return Ok((env.clone(), Vec::new(), Claims::new()));
    }
    let held = CheckedFile::read(&file, us);
    let variables = shared::parse(&held.text.clone()?, &file)?;
    let env = env.clone().with_shared(variables.clone());
    if variables.is_empty() {
        return Ok((env, Vec::new(), Claims::new()));
    }
    let mut files = vec![held];
    // Every variable is reviewed, even one that the environment overrides now: next time it may be unset.
    let path = variables.get("RAY_AUTH_TOKEN_PATH").filter(|path| !path.is_empty());
    let token_file = path.map(|path| {
        let (held, path) = CheckedFile::unread(&env.expand(Path::new(path)), us);
        files.push(held);
        path
    });
    let claims = claims::of_variables(&variables, token_file.as_deref());
    let claims = sort::collected(claims.into_iter().map(|claim| (claim, vec![shared::FILE.to_owned()])));
    Ok((env, files, claims))
}

impl Config {
    /// Adds the entry of a file. For a file of the working directory (`us` is the user who may have written it),
    /// returns the file as it was read and its text, if it describes a cluster.
    fn add(
        &mut self,
        file: &Path,
        us: Option<&CurrentUser>,
        env: &Env,
        now: Timestamp,
    ) -> Option<(CheckedFile, String)> {
        if is_template_name(file) {
            self.skipped.push(file.into());
            return None;
        }
        let held = us.map(|us| CheckedFile::read(file, us));
        let text = held.as_ref().map_or_else(|| yaml::read(file), |held| held.text.clone());
        let read = text.and_then(|text| {
            let spec = (!is_template_text(&text)).then(|| cluster::parse(&text, file, &self.settings, env));
            let spec = spec.transpose()?;
            if us.is_some() && spec.is_some() {
                // The review covers the whole file: a duplicate key, which Ray accepts, would hide the rest.
                yaml::parse::<serde_yaml::Value>(&text, file)?;
            }
            Ok((spec, text))
        });
        let (spec, text) = match read {
            Ok((None, _)) => {
                self.skipped.push(file.into());
                return None;
            }
            Ok((Some(spec), text)) => (spec, text),
            Err(e) => {
                self.add_broken(file, &e.what(), &e.hint, now);
                return None;
            }
        };
        let twin = self.entries.iter().filter_map(Entry::cluster).find(|c| c.name == spec.name);
        if let Some(first) = twin.and_then(|c| c.file.clone()) {
            let what = format!(
                "{}: cluster_name `{}` is already used by {}",
                file.display(),
                spec.name,
                first.display()
            );
            let hint = "rename one: two clusters with the same name share tags and orphan each other's nodes";
            self.add_broken(file, &what, hint, now);
            return None;
        }
        let accepted = held.as_ref().map(|held| held.digest.clone());
        self.entries.push(Entry::Cluster(ClusterSpec { accepted, ..spec }));
        held.map(|held| (held, text))
    }

    fn add_broken(&mut self, file: &Path, what: &str, hint: &str, now: Timestamp) {
        let problem = Problem::new(ProblemKind::Config, what, hint, now);
        self.entries.push(Entry::Broken(Broken { file: file.into(), problem }));
    }
}

/// Whether the file name marks a template, as Marin's do; others are recognized by their Jinja tags.
pub fn is_template_name(file: &Path) -> bool {
    file.file_name().is_some_and(|n| n.to_string_lossy().contains("template"))
}

fn is_template_text(text: &str) -> bool {
    text.lines().filter(|l| !l.trim_start().starts_with('#')).any(|l| l.contains("{{") || l.contains("{%"))
}

/// The file itself, or the YAML files of a directory, sorted, including templates. A directory that does not exist
/// counts as empty; the caller reports that.
pub fn cluster_files(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    if path.is_file() {
        return Ok(vec![path.into()]);
    }
    let listing = match fs::read_dir(path) {
        Ok(listing) => listing,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => {
            let hint = "check that it is a directory and that you have read permission".into();
            return Err(ConfigError::Value { what: format!("cannot read {}: {e}", path.display()), hint });
        }
    };
    let yaml = |p: &PathBuf| p.extension().is_some_and(|e| e == "yaml" || e == "yml");
    let mut files: Vec<PathBuf> = listing.flatten().map(|e| e.path()).filter(yaml).collect();
    files.sort();
    // The table that the files are generated from is not a cluster file.
    files.retain(|f| f.file_name().is_some_and(|n| n != "clusters.yaml"));
    Ok(files)
}

/// The only cluster, if an address is given: `--address`, else `RAY_ADDRESS`.
fn direct(sources: &Sources, settings: &Settings, env: &Env) -> Result<Option<ClusterSpec>, ConfigError> {
    let Some(address) = sources.address(env) else { return Ok(None) };
    let dashboard = address.trim().trim_end_matches('/');
    let refused = |what: String, hint: &str| ConfigError::Value { what, hint: hint.into() };
    let Some(name) = sources::host_of(dashboard) else {
        let what = format!("`{}` is not a dashboard address", shown_address(address));
        return Err(refused(what, "write it as http://HOST:8265"));
    };
    authority(name).map_err(|e| refused(e.to_string(), "write it as http://HOST:8265"))?;
    if let Some(gcs) = &sources.gcs {
        let port = authority(gcs).map_err(|e| refused(e.to_string(), "write it as HOST:6379"))?.1;
        port.ok_or_else(|| refused(format!("`{gcs}` has no port"), "write it as HOST:6379"))?;
    }
    Ok(Some(ClusterSpec {
        name: ClusterName::new(name),
        file: None,
        accepted: None,
        provider: Provider::None,
        zone: None,
        head: HeadAddress::Direct { dashboard: dashboard.into(), gcs: sources.gcs.clone() },
        auth: SshAuth::default(),
        node_types: Vec::new(),
        max_workers: None,
        google: direct_names(name, settings),
    }))
}

/// The names for a cluster without a file: only the settings can name a secret.
fn direct_names(name: &str, settings: &Settings) -> GoogleNames {
    let none = serde_yaml::Value::Null;
    let declared = google::Declared {
        commands: [&none; 4],
        provider: Provider::None,
        project: None,
        internal_ips: false,
    };
    google::names(&declared, &settings.clusters.get(name).cloned().unwrap_or_default(), settings)
}
