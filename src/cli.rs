//! The command line: arguments, the console's start, and the subcommands for scripts.
//!
//! Output for people goes to stdout as a table, with `--json` as JSON; everything else goes to stderr. Exit codes:
//! 0 success, 1 failure (the message gives the cause and a hint), 2 wrong usage, 3 the job did not succeed, 4 the job
//! has not ended within the time limit; `ssh` exits with ssh's own code.

// Must come first: its macros replace the standard ones in the modules below.
#[macro_use]
mod output;

mod arguments;
mod audit;
mod auth;
mod backups;
mod cleanup;
mod columns;
mod configs;
mod console;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "demo")]
mod demo_ray;
mod feed;
mod forward;
mod hints;
mod jobs;
mod list;
mod looks;
mod man;
pub mod manual;
#[cfg(not(feature = "demo"))]
mod no_demo;
mod operate;
mod places;
mod reach;
mod run;
mod signals;
mod ssh;
mod status;
mod token;
mod tpus;
mod trust;
mod workers;

#[cfg(not(feature = "demo"))]
use no_demo as demo;

pub use arguments::{Colors, GlobalArguments, LookArguments, SourceArguments};
pub use output::error_line;

use crate::config::{self, Env, Sources};
use crate::model::Timestamp;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  marin-tui                                  all clusters in ./infra or in the settings
  marin-tui --cluster us-central2            one cluster: marin-us-central2
  marin-tui --infra ~/src/marin/infra        cluster files in another folder
  marin-tui --address http://127.0.0.1:8265  a dashboard reachable without SSH
  marin-tui clusters --json                  list clusters as JSON
  marin-tui --plain | tee events.txt         print what changes line by line
  marin-tui demo                             try it on simulated clusters

Press ? in the console to list the keys; `marin-tui help TOPIC` shows a page of the manual, `marin-tui help` lists them.";

const CONFIG_EXAMPLES: &str = "\
Examples:
  marin-tui config print > ~/.config/marin-tui/config.yaml    begin a settings file";

/// A terminal operations console for Ray clusters reached by SSH.
#[derive(Debug, Parser)]
#[command(name = "marin-tui", version, about, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: GlobalArguments,
    /// The command for scripts; without one the console opens.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Commands for scripts.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it, for as long as the program runs")]
pub enum Command {
    /// List clusters, and cluster files that cannot be read
    #[command(after_help = "\
Examples:
  marin-tui clusters                         clusters of ./infra, or of `infra` in the settings
  marin-tui clusters --json | jq -r '.[].name'")]
    Clusters {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List, generate and validate cluster files
    #[command(after_help = configs::EXAMPLES)]
    Configs {
        /// The subcommand to run.
        #[command(subcommand)]
        action: configs::Action,
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
    /// Show what is wrong with a cluster, since when and what to do, or with all clusters
    #[command(after_help = status::EXAMPLES)]
    Status(status::StatusArguments),
    /// Operations on whole clusters.
    #[command(flatten)]
    Operate(operate::OperateCommand),
    /// Commands on TPUs.
    #[command(flatten)]
    Tpus(tpus::TpuCommand),
    /// Open a shell on a cluster's head, a node or a TPU host, or run a command there
    #[command(after_help = ssh::EXAMPLES)]
    Ssh(ssh::SshArguments),
    /// Forward local ports to a cluster's dashboard, GCS and Ray client until ctrl-c
    #[command(after_help = forward::EXAMPLES)]
    Forward(forward::ForwardArguments),
    /// Find what is left over on a cluster and its workers, and clean it up
    #[command(after_help = cleanup::EXAMPLES)]
    RunCleanup(cleanup::CleanupArguments),
    /// Operations on workers outside the autoscaler.
    #[command(flatten)]
    Workers(workers::WorkerCommand),
    /// Show the audit log: changes made to clusters from this machine
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
  marin-tui backups --delete-older-than 30 --dry-run       show which backups would be deleted")]
    Backups(backups::BackupArguments),
    /// Review what the working folder's files do, and trust the folder
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
    /// Write the man pages of all commands and of the manual into a folder, for packages
    #[command(hide = true)]
    Man(man::ManArguments),
    /// Print the settings
    #[command(after_help = CONFIG_EXAMPLES)]
    Config {
        /// The subcommand to run.
        #[command(subcommand)]
        action: ConfigAction,
    },
}

impl Command {
    /// The command's name if it changes a cluster; a read-only session refuses it then.
    fn changes(&self) -> Option<&'static str> {
        match self {
            Self::Jobs(command) => command.changes(),
            Self::Operate(command) => command.changes(),
            Self::Token { action } => action.changes(),
            Self::Tpus(command) => command.changes(),
            Self::RunCleanup(arguments) => arguments.changes(),
            // The operations service has a gate of its own.
            Self::Workers(_)
            | Self::Clusters { .. }
            | Self::Status(_)
            | Self::Configs { .. }
            | Self::Auth(_)
            | Self::AuthEnv { .. }
            | Self::Ssh(_)
            | Self::Forward(_)
            | Self::Demo(_)
            | Self::Audit { .. }
            | Self::Backups(_)
            | Self::Trust(_)
            | Self::Help { .. }
            | Self::Man(_)
            | Self::Config { .. } => None,
            #[cfg(feature = "demo")]
            Self::DemoRay(_) => None,
        }
    }
}

/// Subcommands of `config`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ConfigAction {
    /// Print all settings with their defaults, in the format of the settings file
    #[command(after_help = CONFIG_EXAMPLES)]
    Print,
}

/// Runs the command of the arguments, or the console when there is none.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "demo")]
    if let Some(Command::DemoRay(asked)) = &arguments.command {
        return demo_ray::run(asked);
    }
    if let Some(Command::Help { words }) = &arguments.command {
        return manual::run(words, Arguments::command()).map(|()| ExitCode::SUCCESS);
    }
    if let Some(Command::Man(arguments)) = &arguments.command {
        return man::run(arguments, Arguments::command()).map(|()| ExitCode::SUCCESS);
    }
    let env = Env::current();
    if let Some(Command::Config { action: ConfigAction::Print }) = arguments.command {
        print!("{}", config::DEFAULTS);
        return Ok(ExitCode::SUCCESS);
    }
    let sources = Sources {
        infra: arguments.global.sources.infra.clone(),
        config: arguments.global.sources.config.clone(),
        address: arguments.global.sources.address.clone(),
        gcs: arguments.global.sources.gcs.clone(),
    };
    if let Some(Command::Demo(options)) = &arguments.command {
        return demo::run(options, &arguments.global, &env).map(|()| ExitCode::SUCCESS);
    }
    if let Some(Command::Audit { json }) = arguments.command {
        audit::print(&audit::log(&env, &config::Folders::new(&env)), json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(Command::Backups(arguments)) = &arguments.command {
        let settings = config::Settings::read(sources.config.as_deref(), &env)?;
        return backups::run(arguments, &config::Folders::new(&env), &settings, &env);
    }
    if let Some(Command::Configs { action }) = &arguments.command {
        return configs::run(action, &sources, &env).map(|()| ExitCode::SUCCESS);
    }
    if let Some(Command::Trust(arguments)) = &arguments.command {
        return trust::run(arguments, &sources, env).map(|()| ExitCode::SUCCESS);
    }
    if arguments.command.is_none() {
        if arguments.global.sources.accept_host_key.is_some() {
            anyhow::bail!(
                "--accept-host-key works with commands only; the console shows both fingerprints and asks"
            );
        }
        console::check_terminal(&arguments.global.look)?;
    }
    let loaded = config::read(&sources, &env, Timestamp::now())?;
    let chosen = arguments.global.sources.cluster.as_deref();
    if let Some(Command::Clusters { json }) = &arguments.command {
        // This command only prints, so it needs no trust.
        list::print(&loaded.look()?, chosen, *json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut config, env) = trust::admit(loaded, &env)?;
    config.settings.read_only |= arguments.global.read_only;
    if config.settings.read_only
        && let Some(what) = arguments.command.as_ref().and_then(Command::changes)
    {
        anyhow::bail!("{what} refused: read-only (--read-only, or `read_only` in the settings)");
    }
    match &arguments.command {
        Some(Command::Status(asked)) => return status::run(asked, &arguments.global, &config, &env),
        Some(Command::Workers(command)) => {
            return workers::run(command, &reach::Reach::new(&arguments.global, &config, env)?);
        }
        Some(Command::Operate(command)) => {
            return operate::run(command, &reach::Reach::new(&arguments.global, &config, env)?);
        }
        Some(Command::Jobs(command)) => {
            return jobs::run(command, &reach::Reach::new(&arguments.global, &config, env)?);
        }
        Some(Command::Forward(which)) => {
            return forward::run(which, &reach::Reach::new(&arguments.global, &config, env)?);
        }
        Some(Command::Ssh(host)) => {
            return ssh::run(host, &reach::Reach::new(&arguments.global, &config, env)?);
        }
        Some(Command::Tpus(command)) => {
            return tpus::run(command, &reach::Reach::new(&arguments.global, &config, env)?);
        }
        Some(Command::RunCleanup(asked)) => {
            return cleanup::run(asked, &reach::Reach::new(&arguments.global, &config, env)?);
        }
        Some(Command::Token { action }) => token::run(action, &config, &env, chosen)?,
        Some(Command::Auth(arguments)) => auth::run(arguments, &config, &env, chosen)?,
        Some(Command::AuthEnv { shell }) => token::auth_env(*shell, &config, &env, chosen)?,
        _ => console::run(&arguments.global, config, &env)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterName, OperationKind, Target, Verb};

    #[test]
    fn the_commands_of_hints_are_commands() {
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
        // Of several workers none is named, which the reader puts in.
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
