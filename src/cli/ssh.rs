//! `marin-tui ssh`: logs in to any machine of a cluster, or runs one command there.

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
  marin-tui -c us-central2 ssh                              log in to the head
  marin-tui -c us-central2 ssh 10.128.0.7                   a node, through the head if necessary
  marin-tui -c us-central2 ssh ray-worker-manual-7/2        the third host of a TPU VM
  marin-tui -c us-central2 ssh -- 'df -h | tail -1'         run a shell command on the head
  marin-tui -c us-central2 ssh ray-worker-manual-7 -- docker ps

Exit codes: that of ssh (the command's, or 255 for a connection error), 1 if the host is not found.";

/// Options of `ssh`.
#[derive(Debug, Args)]
pub struct SshArguments {
    /// Node address or TPU VM name, with `/2` for its third host [default: the head]
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// Command to run there
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Replaces this process with ssh.
pub(super) fn run(arguments: &SshArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let line = (!arguments.command.is_empty()).then(|| entrypoint(&arguments.command));
    replace(reach, arguments.host.as_deref(), line, false)
}

/// Replaces this process with ssh to this host (`None`: the head), which runs a command line there (`None`: a login
/// shell), in a terminal if `terminal` is set.
pub(super) fn replace(
    reach: &Reach,
    host: Option<&str>,
    line: Option<String>,
    terminal: bool,
) -> anyhow::Result<ExitCode> {
    let mut ssh = Reach::block_on(async {
        let progress = Progress::new();
        progress.show("looking up the host");
        let (spec, options) = (&reach.spec, &reach.options);
        let host = match host {
            Some(name) => {
                let note = |p: &Problem| eprintln!("{}: using the host name as given", reach.error(p));
                let found = supervisor::find_host(spec, options, name, note).await;
                Some(found.map_err(|p| reach.error(&p))?)
            }
            None => None,
        };
        let command = supervisor::visit(spec, options, host.as_ref(), None, line, terminal).await;
        command.map_err(|p| reach.error(&p))
    })?;
    Err(ssh.exec()).context("cannot start ssh")
}
