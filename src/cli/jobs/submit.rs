//! `submit-job`: packs and uploads local files as Ray's own client does, then submits the job once.

use super::super::reach::{Progress, Reach};
use super::follow::{Following, GiveUp};
use super::{conclude, failed, logs};
use crate::cli::output;
use crate::model::text::printable;
use crate::operation::{JobRequest, Upload, prepared, slice_resources, upload, warnings};
use crate::ray::RayError;
use crate::ray::Submission;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Options of `submit-job`.
#[derive(Debug, Args)]
pub struct SubmitArguments {
    /// Command of the job and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    entrypoint: Vec<String>,
    /// Working directory: a local directory (.gitignore and .rayignore apply), a .zip file or a URI
    #[arg(long, value_name = "DIR")]
    working_dir: Option<String>,
    /// Exclude files of the local working directory that match this .gitignore pattern; repeatable
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Set an environment variable; without a value it is read from the local environment or .marin.yaml
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Pass a variable from the local environment or .marin.yaml; `GIT_COMMIT` is the working directory's commit
    /// unless it is set; repeatable
    #[arg(long, value_name = "NAME", value_parser = variable)]
    pass_env: Vec<String>,
    /// Request a TPU slice of this type (v4-128) for the entrypoint
    #[arg(long, value_name = "TYPE")]
    tpu: Option<String>,
    /// Install this package or this requirements file with pip; repeatable
    #[arg(long, value_name = "PACKAGE|FILE")]
    pip: Vec<String>,
    /// Runtime environment: a YAML or JSON file, or JSON
    #[arg(long, value_name = "FILE|JSON", alias = "runtime-env-json")]
    runtime_env: Option<String>,
    /// CPUs for the entrypoint, not for its tasks
    #[arg(long, value_name = "N")]
    entrypoint_num_cpus: Option<f64>,
    /// GPUs for the entrypoint
    #[arg(long, value_name = "N")]
    entrypoint_num_gpus: Option<f64>,
    /// Memory for the entrypoint, in bytes
    #[arg(long, value_name = "BYTES")]
    entrypoint_memory: Option<u64>,
    /// Custom resources for the entrypoint, as JSON
    #[arg(long, value_name = "JSON")]
    entrypoint_resources: Option<String>,
    /// Labels that the node of the entrypoint must have, as JSON; needs Ray 2.54 or later
    #[arg(long, value_name = "JSON")]
    entrypoint_label_selector: Option<String>,
    /// Metadata: one pair, or several as JSON; repeatable
    #[arg(long, value_name = "KEY=VALUE|JSON", alias = "metadata-json")]
    metadata: Vec<String>,
    /// Submission id [default: generated]
    #[arg(long, value_name = "ID")]
    submission_id: Option<String>,
    /// Do not follow the log
    #[arg(long)]
    no_wait: bool,
    /// Show what would be uploaded and sent, without the values of environment variables
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Reconnection while following the log.
    #[command(flatten)]
    give_up: GiveUp,
}

impl SubmitArguments {
    /// Whether this is a dry run.
    pub(super) fn is_dry(&self) -> bool {
        self.dry_run
    }
}

/// Packs and uploads the working directory, submits the job and follows its log to the end.
pub(super) async fn run(
    arguments: &SubmitArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let (job, uploads) = prepared(&wanted(arguments, reach)?, &reach.env)?;
    for warning in warnings(&job, &reach.spec) {
        eprintln!("warning: {warning}");
    }
    if arguments.dry_run {
        return dry_run(job, &uploads, reach);
    }
    let session = reach.connect(progress).await?;
    let accepted = session.client.check_label_selector(&job.entrypoint_label_selector).await;
    accepted.map_err(failed(reach))?;
    let uploaded = upload(&session.client, &uploads, |words| progress.show(words)).await;
    uploaded.map_err(|p| reach.error(&p))?;
    progress.show("submitting");
    let submitted = session.client.submit_job(&job).await;
    let outcome = match &submitted {
        Ok(()) => Some("submitted"),
        Err(RayError::Unconfirmed { .. }) => Some("not confirmed"),
        Err(_) => None,
    };
    if let Some(outcome) = outcome {
        reach.note(&format!("submit-job {}", job.submission_id), outcome);
    }
    submitted.map_err(failed(reach))?;
    let name = printable(&job.submission_id);
    if arguments.json {
        output::json_line(&json!({"submission_id": job.submission_id}))?;
    } else if arguments.no_wait {
        println!("{name}");
    } else {
        eprintln!("submitted {name}; ctrl-c stops following, the job keeps running");
    }
    if arguments.no_wait {
        session.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    let (id, mut following) = (job.id(), Following::new(reach, &session, arguments.give_up));
    let ended = if arguments.json {
        following.end(&id).await?
    } else {
        following.log_and_end(&id, crate::supervisor::Start::Beginning, logs::print).await?
    };
    session.close().await;
    Ok(conclude(&following, &id, ended))
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
        eprintln!("would upload {} unless it exists ({files}{mib:.1} MiB)", printable(upload.uri()));
    }
    eprintln!("POST /api/jobs/ on {}:", reach.spec.name);
    output::json(&job)?;
    Ok(ExitCode::SUCCESS)
}

/// The name of a variable.
fn variable(name: &str) -> Result<String, String> {
    match name {
        "" => Err("specify the name of a variable".into()),
        name if name.contains('=') => Err("specify only a name; use --env NAME=VALUE to set a value".into()),
        name => Ok(name.to_owned()),
    }
}

/// The job that the options describe.
fn wanted(arguments: &SubmitArguments, reach: &Reach) -> anyhow::Result<JobRequest> {
    let slice = arguments.tpu.as_deref().map(|tpu| slice_resources(&reach.spec, tpu)).transpose()?;
    Ok(JobRequest {
        entrypoint: entrypoint(&arguments.entrypoint),
        working_dir: arguments.working_dir.clone(),
        exclude: arguments.exclude.clone(),
        variables: arguments.pass_env.iter().chain(&arguments.env).cloned().collect(),
        pip: arguments.pip.clone(),
        runtime_env: arguments.runtime_env.clone(),
        cpus: arguments.entrypoint_num_cpus,
        gpus: arguments.entrypoint_num_gpus,
        memory: arguments.entrypoint_memory,
        resources: arguments.entrypoint_resources.clone(),
        more_resources: slice.unwrap_or_default(),
        label_selector: arguments.entrypoint_label_selector.clone(),
        metadata: arguments.metadata.clone(),
        id: arguments.submission_id.clone(),
        ..JobRequest::default()
    })
}

/// A single argument is a shell command and stays as it is; several are quoted, as `ray job submit` does.
pub fn entrypoint(words: &[String]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        let words = |w: &[&str]| entrypoint(&w.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words(&["python a.py | tee b"]), "python a.py | tee b");
        assert_eq!(words(&["python", "a.py", "--x=1", "it's", ""]), r#"python a.py --x=1 'it'"'"'s' ''"#);
    }
}
