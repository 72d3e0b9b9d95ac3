//! Options of `image build` and `image push`.

use super::engine::Kind;
use crate::cli::output;
use crate::operation::Call;
use anyhow::Result;
use clap::Args;

/// Options of both commands.
#[derive(Debug, Args)]
pub struct ImageOptions {
    /// Image name [default: the `image` of `defaults` in clusters.yaml]
    #[arg(long, value_name = "NAME")]
    pub(super) image: Option<String>,
    /// Image tag [default: date and commit, e.g. 20261120-0a1b2c3]
    #[arg(long, value_name = "TAG")]
    pub(super) tag: Option<String>,
    /// Allow uncommitted files; the default tag then ends in -dirty, and `latest` is not moved
    #[arg(long)]
    pub(super) allow_dirty: bool,
    /// Program to build and push with
    #[arg(long, value_enum, default_value = "docker")]
    pub(super) engine: Kind,
    /// Show the commands and calls; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints what a dry run would do.
pub fn planned(calls: &[Call], as_json: bool) -> Result<()> {
    if as_json {
        return output::json(calls);
    }
    for call in calls {
        println!("{call}");
    }
    Ok(())
}
