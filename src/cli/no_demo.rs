//! `marin-tui demo` in a build without the feature `demo`: an error.

use super::GlobalArguments;
use crate::config::Env;
use clap::Args;
use std::ffi::OsString;

pub(super) const EXAMPLES: &str = "\
Not available: this marin-tui was built without the simulated fleet. To include it, build with the default features, e.g.
`cargo install --locked --path .` without --no-default-features.";

/// Options of `demo`, ignored in this build.
#[derive(Debug, Args)]
pub struct Options {
    /// Options of a build that has it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Fails: the simulated fleet is not part of this build.
pub fn run(Options { words: _ }: &Options, _: &GlobalArguments, _: &Env) -> anyhow::Result<()> {
    anyhow::bail!(
        "this marin-tui was built without the simulated fleet; build it with the default features (no \
         --no-default-features)"
    )
}
