//! Options that every command takes.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options that every command takes.
#[derive(Clone, Debug, Args)]
pub struct GlobalArguments {
    /// Options that select the clusters.
    #[command(flatten)]
    pub sources: SourceArguments,
    /// Display options of the console.
    #[command(flatten)]
    pub look: LookArguments,
    /// Refuse every command that changes a cluster [settings: `read_only`]
    #[arg(long, global = true)]
    pub read_only: bool,
}

/// Options that select the clusters.
#[derive(Clone, Debug, Args)]
pub struct SourceArguments {
    /// Open this cluster: its name, with or without `marin-`, or an unambiguous prefix
    #[arg(long, short, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// For commands: accept the head's changed host key if its fingerprint is this one (SHA256:...)
    #[arg(long, global = true, value_name = "FINGERPRINT")]
    pub accept_host_key: Option<String>,
    /// Folder or file with Ray cluster launcher YAML [default: `infra` in the settings, else ./infra]
    #[arg(long, global = true, value_name = "DIR")]
    pub infra: Option<PathBuf>,
    /// Settings file [default: marin-tui/config.yaml in the user's config folder]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Connect to a dashboard directly, without SSH [env: `RAY_ADDRESS`, if it is an http URL]
    #[arg(long, global = true, value_name = "URL")]
    pub address: Option<String>,
    /// With --address: the GCS address, if reachable (costs the head less than the dashboard)
    #[arg(long, global = true, value_name = "HOST:PORT", requires = "address")]
    pub gcs: Option<String>,
}

/// Display options of the console.
#[derive(Clone, Debug, Args)]
pub struct LookArguments {
    /// Disable mouse support, so that the terminal can select text
    #[arg(long)]
    pub no_mouse: bool,
    /// Colours [default: detected from the terminal; `NO_COLOR` is respected]
    #[arg(long, value_enum, value_name = "DEPTH")]
    pub colors: Option<Colors>,
}

/// How many colours to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colors {
    /// No colours: bold, reverse and dim only.
    None,
    /// The terminal's 16 colours.
    #[value(name = "16")]
    Sixteen,
    /// 24-bit colours.
    Full,
}
