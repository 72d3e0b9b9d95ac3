//! The command line: arguments, the console's start, and the subcommands for scripts.
//!
//! Output for people goes to stdout as a table, with `--json` as JSON; everything else goes to stderr. Exit codes:
//! 0 done, 1 failed (the message says what and what to do), 2 wrong usage, 3 the job did not succeed, 4 it has not
//! ended within the time given; `ssh` has ssh's own.

// First: its macros take the place of the standard ones in all that follows.
#[macro_use]
mod output;

mod audit;
mod auth;
mod backups;
mod columns;
mod configs;
mod console;
mod demo;
mod demo_ray;
mod forward;
mod jobs;
mod list;
mod operate;
mod reach;
mod run;
mod ssh;
mod token;
mod tpus;
mod trust;
mod workers;

pub use output::error_line;

use crate::config::{self, Env, Sources};
use crate::model::Timestamp;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  marin-tui                                  every cluster in ./infra or in the settings
  marin-tui --cluster us-central2            one of them (the name with or without `marin-`, or a prefix)
  marin-tui --infra ~/src/marin/infra        cluster files elsewhere
  marin-tui --address http://127.0.0.1:8265  a dashboard that can be reached without SSH
  marin-tui clusters --json                  what is known, for scripts
  marin-tui demo                             look around without a cluster

Press ? inside for the keys.";

/// A terminal operations console for Ray clusters reached by SSH.
#[derive(Debug, Parser)]
#[command(name = "marin-tui", version, about, after_help = EXAMPLES)]
pub struct Arguments {
    /// Where the clusters come from.
    #[command(flatten)]
    pub sources: SourceArguments,
    /// How the console looks.
    #[command(flatten)]
    pub look: LookArguments,
    /// Refuse everything that would change a cluster [settings: `read_only`]
    #[arg(long, global = true)]
    pub read_only: bool,
    /// A command for scripts; none opens the console.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Where the clusters come from.
#[derive(Clone, Debug, Args)]
pub struct SourceArguments {
    /// Open this cluster: its name, with or without `marin-`, or an unambiguous prefix
    #[arg(long, short, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// For commands: accept the head's changed host key if it has this fingerprint (SHA256:...)
    #[arg(long, global = true, value_name = "FINGERPRINT")]
    pub accept_host_key: Option<String>,
    /// Folder (or file) with Ray cluster-launcher YAML [default: the settings' `infra`, else ./infra]
    #[arg(long, global = true, value_name = "DIR")]
    pub infra: Option<PathBuf>,
    /// Settings file [default: marin-tui/config.yaml in the platform's config folder]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Attach to a dashboard directly, without SSH [env: `RAY_ADDRESS`, when it is an http URL]
    #[arg(long, global = true, value_name = "URL")]
    pub address: Option<String>,
    /// With --address: the GCS, if it can be reached too (lighter on the head than the dashboard)
    #[arg(long, global = true, value_name = "HOST:PORT", requires = "address")]
    pub gcs: Option<String>,
}

/// How the console looks.
#[derive(Clone, Debug, Args)]
pub struct LookArguments {
    /// Leave the mouse to the terminal, for selecting text
    #[arg(long)]
    pub no_mouse: bool,
    /// Colours [default: what the terminal tells; `NO_COLOR` is respected]
    #[arg(long, value_enum, value_name = "DEPTH")]
    pub colors: Option<Colors>,
}

/// How many colours to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colors {
    /// None: bold, reverse and dim only.
    None,
    /// The terminal's own sixteen.
    #[value(name = "16")]
    Sixteen,
    /// 24 bit.
    Full,
}

/// Commands for scripts.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it, for as long as the program runs")]
pub enum Command {
    /// List the clusters that are known, and the files that could not be read
    Clusters {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The cluster files: list, generate, check
    #[command(after_help = configs::EXAMPLES)]
    Configs {
        /// What to do with them.
        #[command(subcommand)]
        action: configs::Action,
    },
    /// Tokens: where they are, fetch the latest, make a secret
    #[command(after_help = token::EXAMPLES)]
    Token {
        /// What to do with them.
        #[command(subcommand)]
        action: token::Action,
    },
    /// Open a cluster's dashboard in the browser, its token on the clipboard
    #[command(after_help = auth::EXAMPLES)]
    Auth(auth::Wishes),
    /// Print shell commands that let Ray's own commands use the cluster's token
    #[command(after_help = token::ENV_EXAMPLES)]
    AuthEnv {
        /// The shell that reads them
        #[arg(long, value_enum, default_value = "sh")]
        shell: token::Shell,
    },
    /// Open the console on a simulated fleet
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Options),
    /// What a demo runs in place of ray
    #[command(hide = true)]
    DemoRay(demo_ray::Words),
    /// Jobs.
    #[command(flatten)]
    Jobs(jobs::JobCommand),
    /// Whole clusters.
    #[command(flatten)]
    Operate(operate::OperateCommand),
    /// TPUs.
    #[command(flatten)]
    Tpus(tpus::TpuCommand),
    /// Log in to a cluster's head, a node or a TPU host, or run a command there
    #[command(after_help = ssh::EXAMPLES)]
    Ssh(ssh::SshArguments),
    /// Open local ports to a cluster's dashboard, GCS and Ray client, until ctrl-c
    #[command(after_help = forward::EXAMPLES)]
    Forward(forward::ForwardArguments),
    /// Workers by hand.
    #[command(flatten)]
    Workers(workers::WorkerCommand),
    /// Show who did what to which cluster when, from this machine
    Audit {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the backups of jobs on this machine, and delete old ones
    Backups(backups::BackupArguments),
    /// Show what the working folder's files would do, and trust them or not
    #[command(after_help = trust::EXAMPLES)]
    Trust(trust::TrustArguments),
    /// Show the settings
    Config {
        /// What to do with them.
        #[command(subcommand)]
        action: ConfigAction,
    },
}

impl Command {
    /// The command's name, if it would change a cluster.
    fn changes(&self) -> Option<&'static str> {
        match self {
            Self::Jobs(command) => command.changes(),
            Self::Operate(command) => command.changes(),
            Self::Token { action } => action.changes(),
            Self::Tpus(command) => command.changes(),
            // The operations service has a gate of its own.
            Self::Workers(_)
            | Self::Clusters { .. }
            | Self::Configs { .. }
            | Self::Auth(_)
            | Self::AuthEnv { .. }
            | Self::Ssh(_)
            | Self::Forward(_)
            | Self::Demo(_)
            | Self::DemoRay(_)
            | Self::Audit { .. }
            | Self::Backups(_)
            | Self::Trust(_)
            | Self::Config { .. } => None,
        }
    }
}

/// What to do with the settings.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ConfigAction {
    /// Print every setting with its default, ready to be saved as the settings file
    Print,
}

/// Runs what the arguments say.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let Some(Command::DemoRay(asked)) = &arguments.command {
        return demo_ray::run(asked);
    }
    let env = Env::current();
    if let Some(Command::Config { action: ConfigAction::Print }) = arguments.command {
        print!("{}", config::DEFAULTS);
        return Ok(ExitCode::SUCCESS);
    }
    let sources = Sources {
        infra: arguments.sources.infra.clone(),
        config: arguments.sources.config.clone(),
        address: arguments.sources.address.clone(),
        gcs: arguments.sources.gcs.clone(),
    };
    if let Some(Command::Demo(options)) = &arguments.command {
        return demo::run(options, arguments, &env).map(|()| ExitCode::SUCCESS);
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
        if arguments.sources.accept_host_key.is_some() {
            anyhow::bail!("--accept-host-key is for commands; the console shows both fingerprints and asks");
        }
        console::check_terminal()?;
    }
    let loaded = config::read(&sources, &env, Timestamp::now())?;
    let chosen = arguments.sources.cluster.as_deref();
    if let Some(Command::Clusters { json }) = &arguments.command {
        // It only prints: what the files lead to stays where it is.
        list::print(&loaded.look()?, chosen, *json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut config, env) = trust::admit(loaded, &env)?;
    config.settings.read_only |= arguments.read_only;
    if config.settings.read_only
        && let Some(what) = arguments.command.as_ref().and_then(Command::changes)
    {
        anyhow::bail!("{what} is refused: read-only (--read-only, or `read_only` in the settings)");
    }
    match &arguments.command {
        Some(Command::Workers(command)) => {
            return workers::run(command, &reach::Reach::new(arguments, &config, env)?);
        }
        Some(Command::Operate(command)) => {
            return operate::run(command, &reach::Reach::new(arguments, &config, env)?);
        }
        Some(Command::Jobs(command)) => {
            return jobs::run(command, &reach::Reach::new(arguments, &config, env)?);
        }
        Some(Command::Forward(which)) => {
            return forward::run(which, &reach::Reach::new(arguments, &config, env)?);
        }
        Some(Command::Ssh(host)) => return ssh::run(host, &reach::Reach::new(arguments, &config, env)?),
        Some(Command::Tpus(command)) => {
            return tpus::run(command, &reach::Reach::new(arguments, &config, env)?);
        }
        Some(Command::Token { action }) => token::run(action, &config, &env, chosen)?,
        Some(Command::Auth(wishes)) => auth::run(wishes, &config, &env, chosen)?,
        Some(Command::AuthEnv { shell }) => token::auth_env(*shell, &config, &env, chosen)?,
        _ => console::run(arguments, config, &env)?,
    }
    Ok(ExitCode::SUCCESS)
}
