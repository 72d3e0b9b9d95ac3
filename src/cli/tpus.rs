//! `marin-tui tpus` and `clean-preempted`: a cluster's TPUs according to Google Cloud and to Ray, and the deletion of
//! preempted ones.

mod clean;
mod table;

use super::reach::{Progress, Reach};
use crate::model::{Node, Problem, SnapshotPart, Timestamp};
use crate::ray::Poller;
use crate::supervisor;
use clap::Subcommand;
use clean::CleanArguments;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 tpus
  marin-tui -c us-central2 tpus --json | jq '.rows[] | select(.status | endswith(\"holds quota\"))'

Exit codes: 0 success (also without Ray's data if Ray does not respond; a warning says so), 1 the Google Cloud request \
failed.";

const CLEAN_EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 clean-preempted --dry-run    show what would be deleted
  marin-tui -c us-central2 clean-preempted              delete after confirmation

Deletes only TPUs with the cluster's label (ray-cluster-name) that Google reports as preempted or terminated. Each is \
checked again right before it is deleted.

Exit codes: 0 all were deleted, 1 a deletion failed (the message gives the cause and a hint).";

/// Commands on TPUs.
#[derive(Debug, Subcommand)]
pub enum TpuCommand {
    /// List the cluster's TPUs as reported by Google Cloud and by Ray
    #[command(after_help = EXAMPLES)]
    Tpus {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the cluster's preempted TPUs, which hold quota
    #[command(after_help = CLEAN_EXAMPLES)]
    CleanPreempted(CleanArguments),
}

impl TpuCommand {
    /// The command's name if it changes a cluster, which a read-only session refuses.
    pub(super) fn changes(&self) -> Option<&'static str> {
        match self {
            Self::Tpus { .. } => None,
            Self::CleanPreempted(a) => (!a.dry_run).then_some("clean-preempted"),
        }
    }
}

/// Runs a TPU command.
pub(super) fn run(command: &TpuCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    // Checked before any request.
    supervisor::tpu_location(&reach.spec).map_err(|p| reach.error(&p))?;
    Reach::block_on(async {
        match command {
            TpuCommand::Tpus { json } => show(*json, reach).await,
            TpuCommand::CleanPreempted(arguments) => clean::run(arguments, reach).await,
        }
    })
}

/// Queries Google and Ray at the same time. Fails without waiting for Ray when Google fails.
async fn show(as_json: bool, reach: &Reach) -> anyhow::Result<ExitCode> {
    let progress = Progress::new();
    progress.show("querying Google and Ray");
    let google = async { supervisor::ask_cloud(&reach.spec, &reach.options.google).await };
    let ray = async { Ok(ask_ray(reach, &progress).await) };
    let (cloud, nodes) = tokio::try_join!(google, ray).map_err(|p| reach.error(&p))?;
    drop(progress);
    let answers = table::Answers { spec: &reach.spec, cloud: &cloud, nodes: &nodes, now: Timestamp::now() };
    answers.print(as_json)?;
    Ok(ExitCode::SUCCESS)
}

/// Ray's nodes, or why they cannot be read.
async fn ask_ray(reach: &Reach, progress: &Progress) -> Result<Vec<Node>, Problem> {
    let session = reach.open(progress).await?;
    progress.show("reading Ray's nodes");
    let snapshot = Poller::new(session.client.clone()).refresh_all(&[SnapshotPart::Nodes]).await;
    session.close().await;
    Ok(snapshot.map_err(|e| e.problem(Timestamp::now()))?.nodes.to_vec())
}
