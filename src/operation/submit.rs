//! Turns a requested job into a submission: local directories and files are packed as Ray's own client does, and
//! uploaded unless the cluster already has them.
//!
//! A job that is resubmitted starts from its record, which any user of the cluster may have written. Values that come
//! unchanged from the record are never read, expanded or uploaded.

use super::label_selectors;
use super::recorded;
use crate::config::Env;
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{Job, Problem, Timestamp};
use crate::ray::{self, Client, DEFAULT_EXCLUDES, Folder, PackError, Submission};
use crate::supervisor::git_commit;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Why a job cannot be submitted as requested, in one sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SubmitError(String);

impl SubmitError {
    pub(super) fn new(sentence: String) -> Self {
        Self(sentence)
    }
}

impl From<PackError> for SubmitError {
    fn from(e: PackError) -> Self {
        Self(e.to_string())
    }
}

/// Creates a `SubmitError` with this message.
macro_rules! unfit {
    ($($words:tt)*) => { $crate::operation::SubmitError::new(format!($($words)*)) };
}
pub(super) use unfit;

/// The variable that defaults to the commit of the working directory.
const COMMIT: &str = "GIT_COMMIT";

/// A job to submit, as given by command-line options or a form.
#[derive(Default)]
pub struct JobRequest {
    /// Shell command of the job.
    pub entrypoint: String,
    /// Directory, archive or URI of the working directory.
    pub working_dir: Option<String>,
    /// Patterns excluded from that directory.
    pub exclude: Vec<String>,
    /// `NAME=VALUE`, or `NAME` to take the value from the local environment; `GIT_COMMIT` defaults to the commit of the
    /// working directory.
    pub variables: Vec<String>,
    /// Packages, or files of requirements.
    pub pip: Vec<String>,
    /// The runtime environment: JSON, YAML, or a file.
    pub runtime_env: Option<String>,
    /// CPUs of the entrypoint itself.
    pub cpus: Option<f64>,
    /// GPUs of the entrypoint itself.
    pub gpus: Option<f64>,
    /// Bytes of memory of the entrypoint itself.
    pub memory: Option<u64>,
    /// Other resources of the entrypoint itself, as JSON.
    pub resources: Option<String>,
    /// Further resources of the entrypoint itself, which the JSON must not contain.
    pub more_resources: BTreeMap<String, f64>,
    /// The labels that the node of the entrypoint must have, as JSON.
    pub label_selector: Option<String>,
    /// The submitter's own pairs: `KEY=VALUE`, or several as JSON.
    pub metadata: Vec<String>,
    /// Its id; generated if missing.
    pub id: Option<String>,
    /// The runtime environment in the record of the original job: no local path in it is ever read.
    pub record: Option<Map<String, Value>>,
}

/// An upload that is needed unless the cluster has it.
pub enum Upload {
    /// A local directory.
    Folder {
        /// The packed directory.
        folder: Folder,
        /// Whether the archive contains the directory's own name.
        parent: bool,
    },
    /// An existing archive.
    Archive {
        /// Its URI in the cluster.
        uri: String,
        /// The archive's content.
        content: Bytes,
    },
}

impl Upload {
    /// Its URI in the cluster.
    pub fn uri(&self) -> &str {
        match self {
            Self::Folder { folder, .. } => &folder.uri,
            Self::Archive { uri, .. } => uri,
        }
    }

    /// Size of the upload in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Folder { folder, .. } => folder.bytes,
            Self::Archive { content, .. } => content.len() as u64,
        }
    }

    fn content(&self) -> Result<Bytes, SubmitError> {
        Ok(match self {
            Self::Folder { folder, parent } => folder.zip(*parent)?,
            Self::Archive { content, .. } => content.clone(),
        })
    }
}

/// The job as it will be sent, and the required uploads. Only reads this machine.
pub fn prepared(wanted: &JobRequest, here: &Env) -> Result<(Submission, Vec<Upload>), SubmitError> {
    let record = wanted.record.clone().unwrap_or_default();
    let mut env = requested_env(wanted, &record, here)?;
    let uploads = pack(&mut env, &wanted.exclude, &record, here)?;
    let metadata = metadata(&wanted.metadata, here)?;
    let resources = entrypoint_resources(wanted.resources.as_deref(), &wanted.more_resources)?;
    let label_selector = wanted.label_selector.as_deref().map(label_selectors::parse).transpose();
    let id = wanted.id.clone();
    let job = Submission {
        entrypoint: wanted.entrypoint.clone(),
        submission_id: id.unwrap_or_else(generated_id),
        runtime_env: env,
        metadata,
        entrypoint_num_cpus: wanted.cpus,
        entrypoint_num_gpus: wanted.gpus,
        entrypoint_memory: wanted.memory,
        entrypoint_resources: resources,
        entrypoint_label_selector: label_selector.map_err(SubmitError::new)?.unwrap_or_default(),
    };
    if job.submission_id.is_empty() || job.entrypoint.trim().is_empty() {
        return Err(unfit!("the submission id or the command is empty"));
    }
    Ok((job, uploads))
}

/// The runtime environment with the requested working directory, variables and packages. Nothing is packed yet.
fn requested_env(
    wanted: &JobRequest,
    record: &Map<String, Value>,
    here: &Env,
) -> Result<Map<String, Value>, SubmitError> {
    let mut env = match &wanted.runtime_env {
        Some(text) => runtime_env(text, here, wanted.record.as_ref())?,
        None => Map::new(),
    };
    if let Some(dir) = &wanted.working_dir {
        env.insert("working_dir".into(), dir.as_str().into());
    }
    if let Some((field, path)) = recorded::untyped(&env, record) {
        return Err(unfit!(
            "{field}: the job's record contains the local path {}, which is not used; remove it, or enter a path of \
             your own (to use this one, enter it as an absolute path)",
            printable(path)
        ));
    }
    // The content of an uploaded package is unknown; then the current directory is used.
    let dir = env.get("working_dir").and_then(Value::as_str).filter(|dir| !recorded::is_uri(dir));
    let dir = here.expand(Path::new(dir.unwrap_or(".")));
    add_variables(&mut env, &wanted.variables, &dir, here)?;
    add_packages(&mut env, &wanted.pip, here)?;
    Ok(env)
}

/// Sixteen characters without easily confused ones, like Ray's own ids.
fn generated_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    const LETTERS: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    let mut random = u128::from(RandomState::new().hash_one(Timestamp::now())) << 64
        | u128::from(RandomState::new().hash_one(std::process::id()));
    let mut id = String::from("raysubmit_");
    for _ in 0..16 {
        id.push(char::from(LETTERS[(random % LETTERS.len() as u128) as usize]));
        random /= LETTERS.len() as u128;
    }
    id
}

/// The typed runtime environment: JSON, YAML, or a file. With a `record`, parts of the text may come from the record.
fn runtime_env(
    given: &str,
    here: &Env,
    record: Option<&Map<String, Value>>,
) -> Result<Map<String, Value>, SubmitError> {
    let text = if given.trim_start().starts_with('{') {
        if let Ok(env) = serde_json::from_str(given) {
            return Ok(env);
        }
        // YAML reads some JSON strings differently, so that a path from the record would not be recognized.
        if record.is_some_and(|r| !recorded::local_paths(r).is_empty()) {
            return Err(unfit!(
                "the runtime environment is not JSON, and the job's record contains paths of another machine; remove \
                 them, or keep it as JSON"
            ));
        }
        given.to_owned()
    } else {
        let path = here.expand(Path::new(given));
        fs::read_to_string(&path).map_err(|e| unfit!("cannot read {}: {e}", path.display()))?
    };
    // JSON is valid YAML. The parser's message may quote a secret, so only the position is reported.
    let parsed: Result<Map<String, Value>, _> = serde_yaml::from_str(&text);
    parsed.map_err(|e| {
        let position = e.location().map(|l| format!(" (line {}, column {})", l.line(), l.column()));
        unfit!("the runtime environment is not a YAML or JSON mapping{}", position.unwrap_or_default())
    })
}

fn add_variables(
    env: &mut Map<String, Value>,
    given: &[String],
    dir: &Path,
    here: &Env,
) -> Result<(), SubmitError> {
    if given.is_empty() {
        return Ok(());
    }
    let variables = env.entry("env_vars").or_insert_with(|| json!({}));
    let Value::Object(variables) = variables else { return Err(unfit!("env_vars is not a mapping")) };
    for entry in given {
        let (name, value) = if let Some((name, value)) = entry.split_once('=') {
            (name, value.to_owned())
        } else {
            (entry.as_str(), value_of(entry, dir, here)?)
        };
        if name.is_empty() {
            return Err(unfit!("write a variable as NAME=VALUE or NAME"));
        }
        variables.insert(name.to_owned(), value.into());
    }
    Ok(())
}

/// The local value of a variable. Messages never contain values, which may be secrets.
fn value_of(name: &str, dir: &Path, here: &Env) -> Result<String, SubmitError> {
    match here.for_job(name) {
        Some(value) => Ok(value.to_owned()),
        None if name == COMMIT => {
            git_commit(dir).map_err(|why| unfit!("{COMMIT} is not set, and git cannot determine it: {why}"))
        }
        None => Err(unfit!("{} is not set in the local environment, nor in .marin.yaml", printable(name))),
    }
}

/// Sets the packages: those given by options, or those of the requirements file that the runtime environment names.
fn add_packages(env: &mut Map<String, Value>, given: &[String], here: &Env) -> Result<(), SubmitError> {
    let entries = match env.get("pip") {
        _ if !given.is_empty() => given.to_vec(),
        Some(Value::String(file)) => vec![file.clone()],
        _ => return Ok(()),
    };
    let mut packages: Vec<String> = Vec::new();
    for entry in &entries {
        packages.extend(requirements(entry, here)?);
    }
    env.insert("pip".into(), packages.into());
    Ok(())
}

/// The lines of a requirements file, or the package itself.
fn requirements(entry: &str, here: &Env) -> Result<Vec<String>, SubmitError> {
    let path = here.expand(Path::new(entry));
    if !path.is_file() {
        if path.extension().is_some_and(|e| e == "txt") {
            return Err(unfit!("no requirements file {}", path.display()));
        }
        return Ok(vec![entry.to_owned()]);
    }
    let text = fs::read_to_string(&path).map_err(|e| unfit!("cannot read {}: {e}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// The given pairs, and the operator as owner if they name no owner.
fn metadata(given: &[String], here: &Env) -> Result<BTreeMap<String, String>, SubmitError> {
    let mut metadata = BTreeMap::new();
    for entry in given {
        metadata.extend(pairs(entry)?);
    }
    let is_named = |key: &&str| metadata.get(*key).is_some_and(|name| !name.is_empty());
    if let Some(me) = here.user().filter(|_| !Job::OWNER_KEYS.iter().any(is_named)) {
        metadata.insert(Job::OWNER_KEYS[0].to_owned(), me.to_owned());
    }
    Ok(metadata)
}

fn pairs(text: &str) -> Result<BTreeMap<String, String>, SubmitError> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|_| unfit!("metadata is not JSON like {{\"owner\": \"alice\"}}"));
    }
    let (key, value) = text.split_once('=').ok_or_else(|| unfit!("write metadata as KEY=VALUE or JSON"))?;
    Ok(sort::collected([(key.to_owned(), value.to_owned())]))
}

/// The resources in the JSON text and the further ones, which it must not contain.
fn entrypoint_resources(
    text: Option<&str>,
    more: &BTreeMap<String, f64>,
) -> Result<BTreeMap<String, f64>, SubmitError> {
    let resources = text.map(serde_json::from_str).transpose();
    let mut resources: BTreeMap<String, f64> = resources
        .map_err(|_| unfit!("the entrypoint resources are not JSON like {{\"TPU\": 4}}"))?
        .unwrap_or_default();
    for (name, n) in more {
        if resources.insert(name.clone(), *n).is_some() {
            return Err(unfit!("{} is requested twice", printable(name)));
        }
    }
    Ok(resources)
}

/// Replaces local directories and files by the URIs of their packages.
fn pack(
    env: &mut Map<String, Value>,
    more: &[String],
    record: &Map<String, Value>,
    here: &Env,
) -> Result<Vec<Upload>, SubmitError> {
    let mut excludes: Vec<String> = match env.get("excludes") {
        None | Some(Value::Null) => Vec::new(),
        Some(list) => {
            serde_json::from_value(list.clone()).map_err(|_| unfit!("excludes is not a list of patterns"))?
        }
    };
    if let Some(pattern) = recorded::widening(env, record) {
        let pattern = printable(pattern);
        return Err(unfit!(
            "excludes: the job's record includes files that are always excluded ({pattern}); remove the pattern"
        ));
    }
    excludes.extend_from_slice(more);
    let mut uploads = Vec::new();
    if let Some(Value::String(dir)) = env.get("working_dir").cloned()
        && !recorded::is_uri(&dir)
    {
        let all: Vec<String> =
            DEFAULT_EXCLUDES.iter().map(ToString::to_string).chain(excludes.iter().cloned()).collect();
        let packed = local(&here.expand(&PathBuf::from(&dir)), &all, false)?;
        env.insert("working_dir".into(), packed.uri().into());
        uploads.push(packed);
    }
    if let Some(Value::Array(modules)) = env.get_mut("py_modules") {
        for module in modules {
            if let Value::String(path) = module
                && !recorded::is_uri(path)
            {
                let packed = local(&here.expand(&PathBuf::from(&*path)), &excludes, true)?;
                packed.uri().clone_into(path);
                uploads.push(packed);
            }
        }
    }
    if !more.is_empty() && !uploads.iter().any(|upload| matches!(upload, Upload::Folder { .. })) {
        return Err(unfit!("--exclude needs a local directory to pack: specify it with --working-dir"));
    }
    Ok(uploads)
}

fn local(path: &Path, excludes: &[String], parent: bool) -> Result<Upload, SubmitError> {
    if path.is_file() {
        let known = path.extension().is_some_and(|e| e == "zip" || e == "whl");
        if !known {
            return Err(unfit!("{} is not a directory, .zip or .whl file", path.display()));
        }
        let (uri, content) = ray::archive(path)?;
        return Ok(Upload::Archive { uri, content });
    }
    Ok(Upload::Folder { folder: Folder::survey(path, excludes)?, parent })
}

/// Uploads packages that the cluster does not have; `progress` receives progress messages.
pub async fn upload(
    client: &Client,
    uploads: &[Upload],
    mut progress: impl FnMut(String),
) -> Result<(), Problem> {
    let to_problem = |e: ray::RayError| e.problem(Timestamp::now());
    for upload in uploads {
        if !client.has_package(upload.uri()).await.map_err(to_problem)? {
            let content = upload.content().map_err(|e| {
                let kind = crate::model::ProblemKind::Other;
                Problem::new(kind, e.to_string(), "nothing was submitted", Timestamp::now())
            })?;
            progress(format!("uploading {:.1} MiB", content.len() as f64 / f64::from(1 << 20)));
            client.upload_package(upload.uri(), content).await.map_err(to_problem)?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
