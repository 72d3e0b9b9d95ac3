//! `marin-tui tpus` and `clean-preempted`: a cluster's TPUs as Google Cloud and Ray each have them, and the end of
//! those that were taken away.

mod clean;
mod table;

use super::reach::{Progress, Reach};
use crate::model::{Node, Problem, Timestamp};
use crate::ray::Poller;
use crate::supervisor;
use clap::{Args, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 tpus
  marin-tui -c us-central2 tpus --json | jq '.rows[] | select(.standing == \"eats quota\")'

Exit codes: 0 shown (also without Ray's half, when Ray gives no answer: that is said), 1 Google could not be asked.";

const CLEAN_EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 clean-preempted --dry-run    what would be deleted
  marin-tui -c us-central2 clean-preempted              asks first

Only what carries the cluster's label (ray-cluster-name) and what Google says is preempted or terminated is deleted;
each is looked at once more right before.

Exit codes: 0 nothing is left, 1 something could not be deleted (it says what, why, and what to do).";

/// What to do with TPUs.
#[derive(Debug, Subcommand)]
pub enum TpuCommand {
    /// Show the cluster's TPUs as Google Cloud and Ray each have them
    #[command(after_help = EXAMPLES)]
    Tpus {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the cluster's TPUs that were preempted: they eat quota
    #[command(after_help = CLEAN_EXAMPLES)]
    CleanPreempted(CleanArguments),
}

/// How to clean.
#[derive(Debug, Args)]
pub struct CleanArguments {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Say what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl TpuCommand {
    /// The command's name, if it would change a cluster.
    pub(super) fn changes(&self) -> Option<&'static str> {
        match self {
            Self::Tpus { .. } => None,
            Self::CleanPreempted(a) => (!a.dry_run).then_some("clean-preempted"),
        }
    }
}

/// Runs a TPU command.
pub(super) fn run(command: &TpuCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    // Before anybody is asked anything.
    supervisor::tpu_place(&reach.spec).map_err(|p| reach.error(&p))?;
    Reach::block_on(async {
        match command {
            TpuCommand::Tpus { json } => show(*json, reach).await,
            TpuCommand::CleanPreempted(arguments) => clean::run(arguments, reach).await,
        }
    })
}

/// Asks both at the same time. Without Google there is nothing to show, so Ray is not waited for then.
async fn show(as_json: bool, reach: &Reach) -> anyhow::Result<ExitCode> {
    let progress = Progress::new();
    progress.tell("asking google and ray");
    let google = async { supervisor::ask_cloud(&reach.spec, &reach.options.google).await };
    let ray = async { Ok(ask_ray(reach, &progress).await) };
    let (cloud, nodes) = tokio::try_join!(google, ray).map_err(|p| reach.error(&p))?;
    drop(progress);
    let said = table::Said { spec: &reach.spec, cloud: &cloud, nodes: &nodes, now: Timestamp::now() };
    said.print(as_json)?;
    Ok(ExitCode::SUCCESS)
}

/// Ray's nodes, or why there are none to tell of.
async fn ask_ray(reach: &Reach, progress: &Progress) -> Result<Vec<Node>, Problem> {
    let session = reach.open(progress).await?;
    progress.tell("reading ray's nodes");
    let snapshot = Poller::new(session.client.clone()).refresh().await;
    session.close().await;
    let now = Timestamp::now();
    let snapshot = snapshot.map_err(|e| e.problem(now))?;
    // The first reading has nothing older to show in a part's place.
    match snapshot.missing.iter().find(|m| m.starts_with("nodes")) {
        Some(part) => Err(Problem::new(crate::model::ProblemKind::Other, part.clone(), "try again", now)),
        None => Ok(snapshot.nodes.to_vec()),
    }
}
