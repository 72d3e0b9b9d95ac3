//! What `setup` is given: its options, and what its checks share.

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

/// What the checks share.
pub(super) struct Setup {
    pub(super) config: Config,
    pub(super) env: Env,
    pub(super) folders: Folders,
    pub(super) google: Google,
    /// The chosen cluster, or all of them.
    pub(super) clusters: Vec<ClusterSpec>,
    /// Whether anything may be changed.
    pub(super) fixes: bool,
    /// The command line that sets up what a check alone leaves as it is.
    pub(super) again: String,
    pub(super) progress: Progress,
}

impl Setup {
    /// Whether Google is asked for anything: machines, or a token.
    pub(super) fn needs_google(&self) -> bool {
        let is_asked =
            |spec: &ClusterSpec| spec.provider == Provider::Gcp || spec.google.token_secret.is_some();
        self.clusters.iter().any(is_asked)
    }
}
