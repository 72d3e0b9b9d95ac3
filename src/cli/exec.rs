//! `marin-tui exec`: runs a command or a shell where Ray runs: in the cluster's container if its file names one.

use super::jobs::entrypoint;
use super::reach::Reach;
use super::ssh;
use crate::supervisor::inside;
use clap::Args;
use std::io::{IsTerminal, stdin};
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 exec                             a shell in the container of the head
  marin-tui -c us-central2 exec -- ray status               run a command there
  marin-tui -c us-central2 exec -- 'pip list | grep jax'    one argument is a shell command
  marin-tui -c us-central2 exec --host ray-worker-manual-7/2 -- printenv TPU_NAME

Runs in the container set by docker.container_name in the cluster file, with docker, or with podman if \
docker.use_podman is set; without a container, on the machine itself. `marin-tui ssh` always runs on the machine \
itself.

Exit codes: that of the command; 255 for a connection error; 1 if the host or its container is not found (the message \
says what to do).";

/// Options of `exec`.
#[derive(Debug, Args)]
pub struct ExecArguments {
    /// Node address or TPU VM name, with `/2` for its third host [default: the head]
    #[arg(long, visible_alias = "node", value_name = "HOST")]
    host: Option<String>,
    /// Command to run there [default: a shell]
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Replaces this process with ssh.
pub(super) fn run(arguments: &ExecArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let host = arguments.host.as_deref();
    let line = (!arguments.command.is_empty()).then(|| entrypoint(&arguments.command));
    let terminal = stdin().is_terminal() && super::output::is_terminal();
    let line = inside(&reach.spec, host, line.as_deref(), terminal).map_err(|p| reach.error(&p))?;
    ssh::replace(reach, host, Some(line), terminal)
}
