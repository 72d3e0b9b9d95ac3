//! `marin-tui ssh`: a login on any machine of a cluster, or one command there.

use super::jobs::entrypoint;
use super::reach::{Progress, Reach};
use crate::model::Problem;
use crate::supervisor;
use anyhow::Context;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 ssh                              the head
  marin-tui -c us-central2 ssh 10.128.0.7                   a node by its address, through the head if need be
  marin-tui -c us-central2 ssh ray-worker-manual-7/2        a TPU VM's third host; part of a name will do
  marin-tui -c us-central2 ssh -- 'df -h | tail -1'         a command; one word is a line for the shell there
  marin-tui -c us-central2 ssh ray-worker-manual-7 -- docker ps

Exit codes: ssh's own (the command's; 255 when there is no connection), 1 when the host is not found.";

/// Where to log in.
#[derive(Debug, Args)]
pub struct SshArguments {
    /// A node's address or a TPU VM's name, with `/2` for its third host [default: the head]
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// A command to run there
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Becomes ssh.
pub(super) fn run(arguments: &SshArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let mut ssh = Reach::block_on(async {
        let progress = Progress::new();
        progress.tell("looking for the host");
        let (spec, options) = (&reach.spec, &reach.options);
        let host = match &arguments.host {
            Some(wish) => {
                let note = |p: &Problem| eprintln!("{}: taken as it is", reach.error(p));
                let found = supervisor::find_host(spec, options, wish, note).await;
                Some(found.map_err(|p| reach.error(&p))?)
            }
            None => None,
        };
        let line = (!arguments.command.is_empty()).then(|| entrypoint(&arguments.command));
        let command = supervisor::visit(spec, options, host.as_ref(), None, line).await;
        command.map_err(|p| reach.error(&p))
    })?;
    Err(ssh.exec()).context("ssh cannot be started")
}
