//! `marin-tui update-cluster`: what a changed cluster file would do to the running cluster, and doing it.

use super::reach::Reach;
use super::run::{OperateArguments, RunOptions, operate};
use crate::model::Task;
use clap::Args;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 update-cluster --dry-run       what differs, and what applies it
  marin-tui -c us-central2 update-cluster                 apply it; jobs keep running
  marin-tui -c us-central2 update-cluster --restart-ray   with a restart, if one is needed

Compares the cluster file with ~/ray_bootstrap_config.yaml on the head. Limits of node types, new node types and commands \
of new workers are applied by `ray up --no-restart`. Setup commands, the container and the head need a restart of Ray, \
which is refused without --restart-ray. Workers whose node type was removed or has another node_config are ended by the \
autoscaler; what runs there ends only with --now. The contents of file_mounts are not compared.

Exit codes: 0 applied, or nothing to update; 1 refused (the message says by which option it is allowed), a step failed or \
was interrupted.";

/// Options of `update-cluster`.
#[derive(Debug, Args)]
pub struct UpdateArguments {
    /// Restart Ray, and restore its jobs, if a change needs it
    #[arg(long)]
    restart_ray: bool,
    /// Allow ending what runs on workers whose node type is gone or has changed
    #[arg(long)]
    now: bool,
    /// Allow ending jobs of other people or of unknown owner
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
