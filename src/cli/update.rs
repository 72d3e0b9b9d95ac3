//! `marin-tui update-cluster`: shows what a changed cluster file would do to the running cluster, and applies it.

use super::reach::Reach;
use super::run::{OperateArguments, RunOptions, operate};
use crate::model::Task;
use clap::Args;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 update-cluster --dry-run       what differs, and how it would be applied
  marin-tui -c us-central2 update-cluster                 apply it; jobs keep running
  marin-tui -c us-central2 update-cluster --restart-ray   restart Ray if a change needs it

Compares the cluster file with ~/ray_bootstrap_config.yaml on the head. Limits of node types, new node types and \
commands of new workers are applied by `ray up --no-restart`. With autoscaler v2, new node types, and new commands, \
mounts, images and resources of workers, take effect only after the next restart of Ray. Changes to setup commands, \
the container or the head require a restart of Ray, and are refused without --restart-ray, which restarts Ray in both \
cases. The autoscaler terminates workers whose node type was removed or has a different node_config, and workers \
above a lowered max_workers. Autoscaler v1 also runs changed worker commands on running workers, and terminates those \
where they fail. Running work on all these workers is ended only with --now. The contents of file_mounts are not \
compared.

Exit codes: 0 applied, or nothing to update; 1 refused (the message names the option that allows it), a step failed or \
was interrupted.";

/// Options of `update-cluster`.
#[derive(Debug, Args)]
pub struct UpdateArguments {
    /// Restart Ray, and restore its jobs, if a change requires it or takes effect only then
    #[arg(long, conflicts_with_all = ["resume", "abandon"])]
    restart_ray: bool,
    /// Allow ending running work on workers that the autoscaler may end
    #[arg(long)]
    now: bool,
    /// Allow ending other people's jobs, and jobs without a known owner
    #[arg(long)]
    others: bool,
    /// Options of all operations.
    #[command(flatten)]
    common: OperateArguments,
}

/// Runs the command.
pub(super) fn run(arguments: &UpdateArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let UpdateArguments { restart_ray, now, others, common } = arguments;
    let task = RunOptions::of(Task::Update, common);
    let options = RunOptions { restart: *restart_ray, now: *now, others: *others, ..task };
    Reach::block_on(async { operate(&options, reach).await })
}
