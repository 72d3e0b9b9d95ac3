//! Options that every command takes.

use super::candidates;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The heading of global options in help.
pub const GLOBAL: &str = "Global options";

/// Options that every command takes.
#[derive(Clone, Debug, Args)]
pub struct GlobalArguments {
    /// Options that select the clusters.
    #[command(flatten, next_help_heading = GLOBAL)]
    pub sources: SourceArguments,
    /// Display options of the console.
    #[command(flatten, next_help_heading = "Display options")]
    pub display: DisplayArguments,
    /// Refuse every command that changes a cluster [settings: `read_only`]
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub read_only: bool,
}

/// Options that select the clusters.
#[derive(Clone, Debug, Args)]
pub struct SourceArguments {
    /// Cluster: its name, with or without the first part (us-central2 for marin-us-central2), or an unambiguous prefix
    #[arg(long, short, global = true, value_name = "NAME", add = candidates::clusters())]
    pub cluster: Option<String>,
    /// Commands only: accept the head's changed host key if it has this fingerprint (SHA256:...)
    #[arg(long, global = true, value_name = "FINGERPRINT")]
    pub accept_host_key: Option<String>,
    /// Directory with cluster files (Ray cluster-launcher YAML), or one file [default: `infra` in the settings, else ./infra]
    #[arg(long, global = true, value_name = "PATH")]
    pub infra: Option<PathBuf>,
    /// Settings file [default: marin-tui/config.yaml in the user's config directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Connect to a dashboard directly, without SSH [env: `RAY_ADDRESS`, if it is an http URL and neither -c nor --infra is given]
    #[arg(long, global = true, value_name = "URL")]
    pub address: Option<String>,
    /// With --address: the GCS address, if reachable (puts less load on the head than the dashboard)
    #[arg(long, global = true, value_name = "HOST:PORT", requires = "address")]
    pub gcs: Option<String>,
}

/// Display options of the console.
#[derive(Clone, Debug, Args)]
pub struct DisplayArguments {
    /// Disable mouse support, so that the terminal can select text
    #[arg(long)]
    pub no_mouse: bool,
    /// Color depth [default: detected from the terminal; `NO_COLOR` is respected]
    #[arg(long, value_enum, value_name = "DEPTH")]
    pub colors: Option<Colors>,
    /// Do not open the console; print one line per change, for screen readers and pipes
    #[arg(long)]
    pub plain: bool,
    /// Theme: auto, dark, light, color-blind, high-contrast, mono, or a theme file [settings: `theme`]
    #[arg(long, value_name = "THEME")]
    pub theme: Option<String>,
}

impl DisplayArguments {
    /// These options, and those of `other` where they are not given.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            no_mouse: self.no_mouse || other.no_mouse,
            colors: self.colors.or(other.colors),
            plain: self.plain || other.plain,
            theme: self.theme.clone().or_else(|| other.theme.clone()),
        }
    }
}

/// How many colors to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colors {
    /// No colors: bold, reverse and dim only.
    None,
    /// The terminal's 16 colors.
    #[value(name = "16")]
    Sixteen,
    /// 24-bit colors.
    Full,
}
