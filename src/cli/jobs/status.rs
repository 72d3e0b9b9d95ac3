//! `marin-tui job-status`: prints a job once, as its page in the console shows it.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, output, seen};
use super::table;
use crate::app::Cluster;
use crate::app::text::describe;
use crate::config::nearest;
use crate::model::{
    ClusterEvent, Fix, Hint, Job, JobKey, JobStatus, Problem, ProblemKind, SnapshotPart, Target, Timestamp,
};
use crate::state::ClusterState;
use crate::supervisor::{self, Session};
use clap::Args;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 job-status eval-7
  marin-tui -c us-central2 job-status eval-7 --json | jq -r .status

Exit codes: 0 the status was read, whatever it is (use `wait-job` for an exit code that depends on it); 1 it could not be read, or there is no such \
job.";

/// Options of `job-status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Submission id of the job, or the job id of a manually started driver
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the details of the job.
pub(super) async fn run(
    arguments: &StatusArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let cluster = read(arguments, reach, &session, progress).await;
    session.close().await;
    let cluster = cluster?;
    seen::require(SnapshotPart::Jobs, reach, cluster.state())?;
    let job = find(&cluster, &arguments.id).map_err(|problem| reach.error(&problem))?;
    if arguments.json {
        let mut value = table::row_for_scripts(job, cluster.state());
        // Vitals are read of a running or pending job only.
        if value.get("vitals").is_none() {
            value["vitals"] = serde_json::Value::Null;
        }
        value["node_id"] = job.driver_node.map(|id| id.to_string()).into();
        value["node"] = job.driver_node.and_then(|id| cluster.node_label(&id)).into();
        output::json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = |hint: &Hint| hint.in_commands(Target::of(&reach.spec.name));
    let lines = describe::job(job, &cluster, words, Timestamp::now());
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let mut out = output::stdout();
    for (label, text) in &lines {
        writeln!(out, "{label:<width$}  {text}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The cluster, with the vitals of the job if it is running, and with what all jobs hold if it is running or pending.
/// If a head does not report these, the rest is still reported.
async fn read(
    arguments: &StatusArguments,
    reach: &Reach,
    session: &Session,
    progress: &Progress,
) -> anyhow::Result<Cluster> {
    let cluster = seen::read_open(reach, session).await?;
    let is_open = |job: &&Arc<Job>| matches!(job.status, JobStatus::Running | JobStatus::Pending);
    let Some(job) = find(&cluster, &arguments.id).ok().filter(is_open) else { return Ok(cluster) };
    let mut state = ClusterState::clone(cluster.state());
    progress.show("reading the activity of the job");
    let how = (reach.options.vitals, &reach.options.patterns);
    let from = (&session.client, session.log_host(&reach.spec));
    match supervisor::read_vitals_among(from, &cluster.snapshot, job, how).await {
        Ok(cluster_vitals) => {
            for part in &cluster_vitals.missing {
                eprintln!("incomplete: {part}");
            }
            state.apply(&ClusterEvent::Vitals(Arc::new(cluster_vitals)));
            Ok(Cluster::of(reach.spec.clone(), state))
        }
        Err(e) => {
            eprintln!("incomplete: cannot read its activity: {e}");
            Ok(cluster)
        }
    }
}

/// The job of this id. The error names the most similar id, and how to list all.
pub(super) fn find<'c>(cluster: &'c Cluster, id: &str) -> Result<&'c Arc<Job>, Problem> {
    let jobs = || cluster.snapshot.jobs.iter();
    let is_it = |job: &&Arc<Job>| match &job.key {
        JobKey::Submission(key) => key.0.raw() == id,
        JobKey::Driver(key) => key.0.raw() == id,
    };
    let driver = || jobs().find(|job| job.driver.as_ref().is_some_and(|driver| driver.0.raw() == id));
    if let Some(job) = jobs().find(is_it).or_else(driver) {
        return Ok(job);
    }
    let ids: Vec<String> = jobs().map(|job| job.key.to_string()).collect();
    let begins = || ids.iter().find(|known| known.starts_with(id)).map(String::as_str);
    let like = nearest(id, ids.iter().map(String::as_str)).or_else(begins);
    let list = Target::of(cluster.name()).line("list-jobs --all");
    let list = Hint::from(Fix::command("list the jobs", list));
    let hint = like.map_or(list.clone(), |like| Hint::from(format!("did you mean `{like}`?")).and(list));
    Err(Problem::new(ProblemKind::Other, format!("no job `{id}`"), hint, Timestamp::now()))
}
