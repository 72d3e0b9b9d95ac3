//! The command line: arguments, the console's start, and the subcommands for scripts.
//!
//! Output for people goes to stdout as a table, with `--json` as JSON; everything else goes to stderr. Exit codes:
//! 0 success, 1 failure (the message gives the cause and a hint), 2 wrong usage, 3 the job did not succeed, 4 the job
//! has not ended within the time limit; `ssh` exits with ssh's own code.

// Must come first: its macros replace the standard ones in the modules below.
#[macro_use]
mod output;

mod appearance;
mod arguments;
mod audit;
mod auth;
mod backups;
mod candidates;
mod changes;
mod chips;
mod cleanup;
mod cluster_logs;
mod columns;
mod completions;
mod configs;
mod console;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "demo")]
mod demo_ray;
mod directories;
pub mod dispatch;
mod exec;
mod feed;
mod forward;
mod google;
mod guess;
mod hints;
mod image;
mod jobs;
mod list;
mod man;
pub mod manual;
#[cfg(not(feature = "demo"))]
mod no_demo;
mod nodes;
pub mod old;
mod operate;
pub mod overview;
mod reach;
mod registry;
mod run;
mod seen;
mod setup;
mod signals;
mod slices;
mod ssh;
mod status;
mod targets;
mod token;
mod tool;
mod tpus;
mod trust;
mod update;
mod workers;

#[cfg(not(feature = "demo"))]
use no_demo as demo;

pub use arguments::{Colors, DisplayArguments, GlobalArguments, SourceArguments};
pub use output::{error_line, is_closed};

use crate::config::Env;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  marin-tui                                  all clusters in ./infra or in the settings
  marin-tui --cluster us-central2            one cluster: marin-us-central2
  marin-tui --infra ~/src/marin/infra        cluster files in another directory
  marin-tui --address http://127.0.0.1:8265  a dashboard reachable without SSH
  marin-tui clusters --json                  list clusters as JSON
  marin-tui --plain | tee events.txt         print changes, one per line
  marin-tui demo                             try it on simulated clusters

Press ? in the console to list the keys; `marin-tui help TOPIC` shows a page of the manual, `marin-tui help` lists them.";

const PRINT_SETTINGS_EXAMPLES: &str = "\
Examples:
  marin-tui print-settings > ~/.config/marin-tui/config.yaml    create a settings file";

/// A terminal console for operating Ray clusters over SSH.
#[derive(Debug, Parser)]
#[command(name = "marin-tui", version, about, after_help = EXAMPLES, disable_help_subcommand = true)]
#[command(override_help = overview::help(&Command::augment_subcommands(clap::Command::default()), EXAMPLES))]
pub struct Arguments {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: GlobalArguments,
    /// The command for scripts; without one the console opens.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The rewritten command line, if the original was for a retired script or for Ray's own command.
    #[arg(skip)]
    pub renewed: Option<String>,
}

/// Commands for scripts.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "only one value exists, for the lifetime of the program")]
pub enum Command {
    /// List clusters, and cluster files that cannot be read
    #[command(after_help = list::EXAMPLES)]
    Clusters(list::ListArguments),
    /// List, generate and validate cluster files
    #[command(after_help = configs::EXAMPLES)]
    Configs {
        /// The subcommand to run.
        #[command(subcommand)]
        action: configs::Action,
    },
    /// Build the clusters' container image, and push it to their registries
    #[command(after_help = image::EXAMPLES)]
    Image {
        /// The subcommand to run.
        #[command(subcommand)]
        action: image::Action,
    },
    /// Set how long images are kept in the clusters' registries
    #[command(after_help = registry::EXAMPLES)]
    Registry {
        /// The subcommand to run.
        #[command(subcommand)]
        action: registry::Action,
    },
    /// Show, fetch and create tokens
    #[command(after_help = token::EXAMPLES)]
    Token {
        /// The subcommand to run.
        #[command(subcommand)]
        action: token::Action,
    },
    /// Open a cluster's dashboard in the browser and copy its token to the clipboard
    #[command(after_help = auth::EXAMPLES)]
    Auth(auth::AuthArguments),
    /// Print shell commands that make the ray command use the cluster's token
    #[command(after_help = token::ENV_EXAMPLES)]
    AuthEnv {
        /// Shell to print commands for
        #[arg(long, value_enum, default_value = "sh")]
        shell: token::Shell,
    },
    /// Open the console on a simulated fleet
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Options),
    /// Stand-in for the ray command in a demo
    #[cfg(feature = "demo")]
    #[command(hide = true)]
    DemoRay(demo_ray::RayArguments),
    /// Commands on jobs.
    #[command(flatten)]
    Jobs(jobs::JobCommand),
    /// Show the issues of all clusters or of one: what is wrong, since when, and how to fix it
    #[command(after_help = status::EXAMPLES)]
    Status(status::StatusArguments),
    /// Operations on whole clusters.
    #[command(flatten)]
    Operate(operate::OperateCommand),
    /// Apply the changes in a cluster file to the running cluster without ending its jobs
    #[command(after_help = update::EXAMPLES)]
    UpdateCluster(update::UpdateArguments),
    /// Commands on TPUs.
    #[command(flatten)]
    Tpus(tpus::TpuCommand),
    /// List a cluster's live nodes, or all nodes that Ray still lists
    #[command(after_help = nodes::EXAMPLES)]
    ListNodes(nodes::NodeArguments),
    /// Show the duty cycle and memory of each TPU chip and GPU, and which are outliers
    #[command(after_help = chips::EXAMPLES)]
    Chips(chips::ChipArguments),
    /// Print a node's log file (default: the autoscaler's), or search the log files of all nodes
    #[command(after_help = cluster_logs::EXAMPLES)]
    ClusterLogs(cluster_logs::ClusterLogArguments),
    /// Open a shell on a cluster's head, a node or a TPU host, or run a command there
    #[command(after_help = ssh::EXAMPLES)]
    Ssh(ssh::SshArguments),
    /// Run a command on a cluster's head, inside the cluster's container if there is one, or open a shell there
    #[command(after_help = exec::EXAMPLES)]
    Exec(exec::ExecArguments),
    /// Forward local ports to a cluster's dashboard, GCS and Ray client until ctrl-c
    #[command(after_help = forward::EXAMPLES)]
    Forward(forward::ForwardArguments),
    /// Find and clean up leftover TPUs, processes and lock files of a cluster
    #[command(after_help = cleanup::EXAMPLES)]
    RunCleanup(cleanup::CleanupArguments),
    /// Operations on workers outside the autoscaler.
    #[command(flatten)]
    Workers(workers::WorkerCommand),
    /// Show the audit log: changes that you made to clusters from this machine
    #[command(after_help = "\
Examples:
  marin-tui audit                            oldest first
  marin-tui audit --json | jq '.[] | select(.cluster == \"marin-us-central2\")'")]
    Audit {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the job backups on this machine, or delete old ones
    #[command(after_help = "\
Examples:
  marin-tui backups                                        list backups
  marin-tui backups --delete-older-than 30d --dry-run      show which backups would be deleted")]
    Backups(backups::BackupArguments),
    /// Check what this machine needs to reach the clusters, and set up what is missing
    #[command(after_help = setup::EXAMPLES)]
    Setup(setup::SetupArguments),
    /// Review what the files in the current directory do, and trust the directory
    #[command(after_help = trust::EXAMPLES)]
    Trust(trust::TrustArguments),
    /// Show the help of a command, or a page of the manual
    #[command(after_help = "\
Examples:
  marin-tui help                             list commands and topics
  marin-tui help restart-cluster             the help of a command
  marin-tui help troubleshooting             a page of the manual")]
    Help {
        /// A command (with its subcommand), or a topic [default: list commands and topics]
        #[arg(value_name = "COMMAND or TOPIC")]
        words: Vec<String>,
    },
    /// Print the shell completion script for commands, options, cluster names and job ids
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArguments),
    /// Write the man pages of all commands and of the manual to a directory
    #[command(after_help = man::EXAMPLES)]
    Man(man::ManArguments),
    /// Print all settings with their defaults, in the format of the settings file
    #[command(after_help = PRINT_SETTINGS_EXAMPLES)]
    PrintSettings,
}

impl Command {
    /// The command's name if it changes a cluster, which a read-only session refuses.
    fn changes(&self) -> Option<&'static str> {
        match self {
            Self::Jobs(command) => command.changes(),
            Self::Operate(command) => command.changes(),
            Self::Token { action } => action.changes(),
            Self::Image { action } => action.changes(),
            Self::Registry { action } => action.changes(),
            Self::Tpus(command) => command.changes(),
            Self::RunCleanup(arguments) => arguments.changes(),
            // The operations service has a separate gate.
            Self::Workers(_)
            | Self::UpdateCluster(_)
            | Self::Clusters(_)
            | Self::Status(_)
            | Self::Configs { .. }
            | Self::Auth(_)
            | Self::AuthEnv { .. }
            | Self::Ssh(_)
            | Self::Exec(_)
            | Self::ListNodes(_)
            | Self::Chips(_)
            | Self::ClusterLogs(_)
            | Self::Forward(_)
            | Self::Demo(_)
            | Self::Audit { .. }
            | Self::Backups(_)
            | Self::Setup(_)
            | Self::Trust(_)
            | Self::Help { .. }
            | Self::Completions(_)
            | Self::Man(_)
            | Self::PrintSettings => None,
            #[cfg(feature = "demo")]
            Self::DemoRay(_) => None,
        }
    }

    /// An error if it would change something in a read-only session.
    fn allowed(&self, read_only: bool) -> anyhow::Result<()> {
        match self.changes().filter(|_| read_only) {
            Some(what) => {
                anyhow::bail!("{what} refused: read-only (--read-only, or `read_only` in the settings)")
            }
            None => Ok(()),
        }
    }
}

/// Prints completion candidates if a shell asks for them; otherwise nothing.
pub fn answer_shell() -> Option<std::process::ExitCode> {
    completions::answer(Arguments::command)
}

/// Parses the arguments of a command line, which begins with the program's name. A line of one of the retired scripts
/// or of Ray's own command is rewritten first, and the user is shown the new form.
///
/// # Errors
///
/// The line is not valid, or has another meaning now. `--help` and `--version` are errors as well.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let command = Arguments::command();
    // An argument that is not UTF-8 is a file name, so the line already has the new form.
    let typed: Option<Vec<String>> = words.iter().skip(1).map(|w| w.to_str().map(str::to_owned)).collect();
    let Some(typed) = typed else { return Arguments::try_parse_from(words) };
    let renewed = old::renew(&typed, &command, &Env::current());
    let renewed = renewed.map_err(|why| clap::Error::raw(ErrorKind::InvalidSubcommand, why))?;
    if let Some(renewed) = renewed.as_ref().filter(|_| output::can_ask()) {
        eprintln!("marin-tui: this command is now `{}`", renewed.line);
        if let Some(note) = renewed.note {
            eprintln!("marin-tui: {note}");
        }
    }
    let (line, renewed) = renewed.map_or((typed, None), |renewed| (renewed.words, Some(renewed.line)));
    let program = words.into_iter().take(1).chain(line.iter().map(OsString::from));
    let arguments = Arguments::try_parse_from(program).map_err(|e| guess::instead(e, &line, &command))?;
    Ok(Arguments { renewed, ..arguments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterName, OperationKind, Target, Verb};

    #[test]
    fn commands_in_hints_can_be_parsed() {
        let cluster = ClusterName::new("lab");
        let read = |line: &str| {
            let words = line.split_whitespace();
            Arguments::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"))
        };
        for kind in [OperationKind::Restart, OperationKind::Stop] {
            let target = Target::of(&cluster).with(kind.command());
            for verb in Verb::ALL.iter().filter(|verb| !verb.is_permission()) {
                let of =
                    if matches!(verb, Verb::Resume | Verb::SkipStep | Verb::Abandon) { "" } else { "w-1" };
                let Some(line) = verb.command(of, target) else { continue };
                let arguments = read(&line);
                assert_eq!(arguments.global.sources.cluster.as_deref(), Some("lab"), "{line}");
                assert!(arguments.command.is_some(), "{line}");
            }
        }
        // For several workers the hint names none; the user fills in the name.
        read(&Verb::RemoveWorker.command("", Target::of(&cluster)).unwrap());
        for (verb, command) in [
            (Verb::TakeOver, "restart-cluster"),
            (Verb::AllowOthers, "stop-cluster"),
            (Verb::AllowUnknown, "restart-cluster"),
            (Verb::Drain, "remove-worker w-1"),
            (Verb::EndWork, "remove-worker w-1"),
        ] {
            let option = verb.command("", Target::default()).unwrap();
            assert!(verb.is_permission());
            read(&format!("marin-tui {command} {option}"));
        }
    }
}
