//! The options of `setup`, and the context of its checks.

use crate::cli::reach::Progress;
use crate::config::{Config, Env, Folders};
use crate::gcp::Google;
use crate::model::{ClusterSpec, Provider};
use clap::Args;

/// Options of `setup`.
#[derive(Clone, Debug, Args)]
pub struct SetupArguments {
    /// Change nothing, only check
    #[arg(long, conflicts_with = "write_settings")]
    pub(super) check: bool,
    /// Create a settings file with the directory given with --infra
    #[arg(long)]
    pub(super) write_settings: bool,
    /// Secret with the private key of the clusters [settings: `ssh_key_secret`]
    #[arg(long, value_name = "NAME")]
    pub(super) key_secret: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The context of the checks.
pub(super) struct Setup {
    pub(super) config: Config,
    pub(super) env: Env,
    pub(super) folders: Folders,
    pub(super) google: Google,
    /// The chosen cluster, or all of them.
    pub(super) clusters: Vec<ClusterSpec>,
    /// Whether anything may be changed.
    pub(super) fixes: bool,
    /// The command line that makes the changes which a check alone does not make.
    pub(super) again: String,
    pub(super) progress: Progress,
}

impl Setup {
    /// Whether Google is needed: for machines, or for a token.
    pub(super) fn needs_google(&self) -> bool {
        let is_named =
            |spec: &ClusterSpec| spec.provider == Provider::Gcp || spec.google.token_secret.is_some();
        self.clusters.iter().any(is_named)
    }
}
