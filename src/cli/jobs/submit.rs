//! `submit-job`: what is on this machine packed and uploaded as Ray's own client does, then the job submitted once.

use super::super::reach::{Progress, Reach};
use super::{end_of, failed, logs, verdict};
use crate::model::Timestamp;
use crate::model::text::printable;
use crate::ray::{self, Client, DEFAULT_EXCLUDES, Folder, Submission};
use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A job as the command line says it.
#[derive(Debug, Args)]
pub struct SubmitArguments {
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    entrypoint: Vec<String>,
    /// Folder (or .zip, or URI) that the job runs in; .gitignore and .rayignore are respected
    #[arg(long, value_name = "DIR")]
    working_dir: Option<String>,
    /// Leave out of the working dir what matches this pattern (as in .gitignore); several may be given
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Set a variable; without a value it is taken from here or from .marin.yaml, so that it stands in no command line
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Install this package, or the packages of this requirements file; several may be given
    #[arg(long, value_name = "PACKAGE|FILE")]
    pip: Vec<String>,
    /// Runtime environment: a YAML or JSON file, or JSON
    #[arg(long, value_name = "FILE|JSON", alias = "runtime-env-json")]
    runtime_env: Option<String>,
    /// CPUs for the command itself, apart from its tasks
    #[arg(long, value_name = "N")]
    entrypoint_num_cpus: Option<f64>,
    /// GPUs for the command itself
    #[arg(long, value_name = "N")]
    entrypoint_num_gpus: Option<f64>,
    /// Bytes of memory for the command itself
    #[arg(long, value_name = "BYTES")]
    entrypoint_memory: Option<u64>,
    /// Other resources for the command itself, as JSON
    #[arg(long, value_name = "JSON")]
    entrypoint_resources: Option<String>,
    /// A pair of your own, or several as JSON
    #[arg(long, value_name = "KEY=VALUE|JSON", alias = "metadata-json")]
    metadata: Vec<String>,
    /// Its id [default: one that is made up]
    #[arg(long, value_name = "ID")]
    submission_id: Option<String>,
    /// Do not follow its log
    #[arg(long)]
    no_wait: bool,
    /// Say what would be uploaded and sent; values of variables are not shown
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Something to upload unless it is there.
enum Upload {
    Folder { folder: Folder, parent: bool },
    Archive { uri: String, content: Bytes },
}

impl Upload {
    fn uri(&self) -> &str {
        match self {
            Self::Folder { folder, .. } => &folder.uri,
            Self::Archive { uri, .. } => uri,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Folder { folder, .. } => folder.bytes,
            Self::Archive { content, .. } => content.len() as u64,
        }
    }

    fn content(&self) -> anyhow::Result<Bytes> {
        Ok(match self {
            Self::Folder { folder, parent } => folder.zip(*parent)?,
            Self::Archive { content, .. } => content.clone(),
        })
    }
}

/// Packs, uploads, submits, and follows the log to the end.
pub(super) async fn run(
    arguments: &SubmitArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let (job, uploads) = prepared(arguments, reach)?;
    if arguments.dry_run {
        return dry_run(job, &uploads, reach);
    }
    let session = reach.connect(progress).await?;
    upload(&session.client, &uploads, reach, progress).await?;
    progress.tell("submitting");
    session.client.submit_job(&job).await.map_err(failed(reach))?;
    reach.note(&format!("submit-job {}", job.submission_id), "submitted");
    let name = printable(&job.submission_id);
    if arguments.json {
        println!("{}", json!({"submission_id": job.submission_id}));
    } else if arguments.no_wait {
        println!("{name}");
    } else {
        eprintln!("submitted {name}; ^c leaves it running");
    }
    if arguments.no_wait {
        session.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.json {
        logs::follow(&session.client, &job.id(), usize::MAX, None).await?;
    }
    let status = end_of(&session.client, &job.id()).await.map_err(failed(reach))?;
    session.close().await;
    eprintln!("{name} {}", status.word());
    Ok(verdict(Some(status)))
}

async fn upload(
    client: &Client,
    uploads: &[Upload],
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<()> {
    for upload in uploads {
        if !client.has_package(upload.uri()).await.map_err(failed(reach))? {
            let content = upload.content()?;
            progress.tell(format!("uploading {:.1} MiB", content.len() as f64 / f64::from(1 << 20)));
            client.upload_package(upload.uri(), content).await.map_err(failed(reach))?;
        }
    }
    Ok(())
}

fn dry_run(mut job: Submission, uploads: &[Upload], reach: &Reach) -> anyhow::Result<ExitCode> {
    if let Some(Value::Object(variables)) = job.runtime_env.get_mut("env_vars") {
        variables.values_mut().for_each(|v| *v = "***".into());
    }
    for upload in uploads {
        let files = match upload {
            Upload::Folder { folder, .. } => format!("{} files, ", folder.files()),
            Upload::Archive { .. } => String::new(),
        };
        let mib = upload.bytes() as f64 / f64::from(1 << 20);
        eprintln!("uploads {} unless it is there ({files}{mib:.1} MiB)", printable(upload.uri()));
    }
    eprintln!("POST /api/jobs/ on {}:", reach.spec.name);
    println!("{}", serde_json::to_string_pretty(&job)?);
    Ok(ExitCode::SUCCESS)
}

/// The job as it will be sent, and what must be there before. Reads this machine only.
fn prepared(arguments: &SubmitArguments, reach: &Reach) -> anyhow::Result<(Submission, Vec<Upload>)> {
    let mut env = match &arguments.runtime_env {
        Some(said) => runtime_env(said, reach)?,
        None => Map::new(),
    };
    add_variables(&mut env, &arguments.env, reach)?;
    if !arguments.pip.is_empty() {
        let mut packages = Vec::new();
        for said in &arguments.pip {
            packages.extend(requirements(said, reach)?);
        }
        env.insert("pip".into(), packages.into());
    } else if let Some(Value::String(file)) = env.get("pip") {
        let packages = requirements(&file.clone(), reach)?;
        env.insert("pip".into(), packages.into());
    }
    if let Some(dir) = &arguments.working_dir {
        env.insert("working_dir".into(), dir.as_str().into());
    }
    let uploads = pack(&mut env, &arguments.exclude, reach)?;
    let mut metadata = BTreeMap::new();
    for said in &arguments.metadata {
        metadata.extend(pairs(said)?);
    }
    let resources = arguments.entrypoint_resources.as_deref().map(serde_json::from_str).transpose();
    let id = arguments.submission_id.clone();
    let job = Submission {
        entrypoint: entrypoint(&arguments.entrypoint),
        submission_id: id.unwrap_or_else(made_up_id),
        runtime_env: env,
        metadata,
        entrypoint_num_cpus: arguments.entrypoint_num_cpus,
        entrypoint_num_gpus: arguments.entrypoint_num_gpus,
        entrypoint_memory: arguments.entrypoint_memory,
        entrypoint_resources: resources
            .context("--entrypoint-resources is not JSON like {\"TPU\": 4}")?
            .unwrap_or_default(),
    };
    anyhow::ensure!(!job.submission_id.is_empty(), "the submission id is empty");
    Ok((job, uploads))
}

/// One word is a shell command as it stands; several are quoted each, as `ray job submit` does.
fn entrypoint(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\"'\"'"))
        }
    };
    match words {
        [one] => one.clone(),
        several => several.iter().map(quoted).collect::<Vec<_>>().join(" "),
    }
}

/// Sixteen characters without the ones that are mistaken for others, as Ray makes ids up.
fn made_up_id() -> String {
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

fn runtime_env(said: &str, reach: &Reach) -> anyhow::Result<Map<String, Value>> {
    let text = if said.trim_start().starts_with('{') {
        said.to_owned()
    } else {
        let path = reach.env.expand(Path::new(said));
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?
    };
    // JSON is YAML. The parser's words may quote a secret: only the place is told.
    let parsed: Result<Map<String, Value>, _> = serde_yaml::from_str(&text);
    parsed.map_err(|e| {
        let place = e.location().map(|l| format!(" (line {}, column {})", l.line(), l.column()));
        anyhow::anyhow!("the runtime environment is not a table of YAML or JSON{}", place.unwrap_or_default())
    })
}

fn add_variables(env: &mut Map<String, Value>, said: &[String], reach: &Reach) -> anyhow::Result<()> {
    if said.is_empty() {
        return Ok(());
    }
    let variables = env.entry("env_vars").or_insert_with(|| json!({}));
    let Value::Object(variables) = variables else { anyhow::bail!("env_vars is not a table") };
    for said in said {
        let (name, value) = if let Some((name, value)) = said.split_once('=') {
            (name, value.to_owned())
        } else {
            let value = reach.env.for_job(said).map(str::to_owned);
            (said.as_str(), value.with_context(|| format!("{} is not set here", printable(said)))?)
        };
        anyhow::ensure!(!name.is_empty(), "--env takes NAME=VALUE or NAME");
        variables.insert(name.to_owned(), value.into());
    }
    Ok(())
}

/// A requirements file's lines, or the package itself.
fn requirements(said: &str, reach: &Reach) -> anyhow::Result<Vec<String>> {
    let path = reach.env.expand(Path::new(said));
    if !path.is_file() {
        anyhow::ensure!(
            path.extension().is_none_or(|e| e != "txt"),
            "there is no requirements file {}",
            path.display()
        );
        return Ok(vec![said.to_owned()]);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

fn pairs(said: &str) -> anyhow::Result<BTreeMap<String, String>> {
    if said.trim_start().starts_with('{') {
        return serde_json::from_str(said).context("--metadata is not JSON like {\"owner\": \"alice\"}");
    }
    let (key, value) = said.split_once('=').context("--metadata takes KEY=VALUE or JSON")?;
    Ok(BTreeMap::from([(key.to_owned(), value.to_owned())]))
}

/// Replaces folders and files of this machine by the URIs of their packages.
fn pack(env: &mut Map<String, Value>, more: &[String], reach: &Reach) -> anyhow::Result<Vec<Upload>> {
    let mut excludes: Vec<String> = match env.get("excludes") {
        None | Some(Value::Null) => Vec::new(),
        Some(list) => serde_json::from_value(list.clone()).context("excludes is not a list of patterns")?,
    };
    excludes.extend_from_slice(more);
    let mut uploads = Vec::new();
    if let Some(Value::String(dir)) = env.get("working_dir").cloned()
        && !is_uri(&dir)
    {
        let all: Vec<String> =
            DEFAULT_EXCLUDES.iter().map(ToString::to_string).chain(excludes.iter().cloned()).collect();
        let packed = local(&reach.env.expand(&PathBuf::from(&dir)), &all, false)?;
        env.insert("working_dir".into(), packed.uri().into());
        uploads.push(packed);
    }
    if let Some(Value::Array(modules)) = env.get_mut("py_modules") {
        for module in modules {
            if let Value::String(path) = module
                && !is_uri(path)
            {
                let packed = local(&reach.env.expand(&PathBuf::from(&*path)), &excludes, true)?;
                packed.uri().clone_into(path);
                uploads.push(packed);
            }
        }
    }
    Ok(uploads)
}

fn is_uri(path: &str) -> bool {
    path.split_once("://").is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn local(path: &Path, excludes: &[String], parent: bool) -> anyhow::Result<Upload> {
    if path.is_file() {
        let known = path.extension().is_some_and(|e| e == "zip" || e == "whl");
        anyhow::ensure!(known, "{} is neither a folder nor a .zip nor a .whl", path.display());
        let (uri, content) = ray::archive(path)?;
        return Ok(Upload::Archive { uri, content });
    }
    Ok(Upload::Folder { folder: Folder::survey(path, excludes)?, parent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        let words = |w: &[&str]| entrypoint(&w.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words(&["python a.py | tee b"]), "python a.py | tee b");
        assert_eq!(words(&["python", "a.py", "--x=1", "it's", ""]), r#"python a.py --x=1 'it'"'"'s' ''"#);
    }

    #[test]
    fn made_up_ids_differ() {
        let (a, b) = (made_up_id(), made_up_id());
        assert_ne!(a, b);
        assert_eq!(a.len(), "raysubmit_".len() + 16);
    }

    #[test]
    fn metadata_is_a_pair_or_json() {
        assert_eq!(pairs("owner=a=b").unwrap()["owner"], "a=b");
        assert_eq!(pairs(r#"{"owner": "a"}"#).unwrap()["owner"], "a");
        assert!(pairs("owner").is_err() && pairs("{owner}").is_err());
    }
}
