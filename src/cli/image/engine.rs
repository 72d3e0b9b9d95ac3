//! The container engine: docker or podman.

use crate::cli::tool::{self, Ran};
use crate::config::{self, Env};
use crate::model::Secret;
use crate::model::command_line::shell_quote;
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The program that builds and pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Docker's command line.
    Docker,
    /// Podman, which takes the same arguments.
    Podman,
}

impl Kind {
    /// The name of its program, which is also the value of `--engine`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Docker => Self::Podman,
            Self::Podman => Self::Docker,
        }
    }

    /// URL of its installation instructions.
    const fn manual(self) -> &'static str {
        match self {
            Self::Docker => "https://docs.docker.com/engine/install",
            Self::Podman => "https://podman.io/docs/installation",
        }
    }
}

/// The program as found on this machine.
pub(super) struct Engine {
    kind: Kind,
    program: PathBuf,
    /// Whether the environment sets the daemon that docker connects to.
    has_host: bool,
}

impl Engine {
    /// Finds the program before anything starts.
    pub fn find(kind: Kind, env: &Env) -> Result<Self> {
        let find = |kind: Kind| tool::find(Path::new(kind.name()), env);
        if let Some(program) = find(kind) {
            return Ok(Self { kind, program, has_host: env.var("DOCKER_HOST").is_some() });
        }
        let (name, other) = (kind.name(), kind.other());
        match find(other) {
            Some(_) => bail!("{name} is not installed; use --engine {}", other.name()),
            None => bail!("{name} is not installed; install it: {}", kind.manual()),
        }
    }

    /// A command line of the program.
    pub fn command(&self, words: &[&str]) -> Vec<String> {
        let program = self.program.to_string_lossy().into_owned();
        [program].into_iter().chain(words.iter().map(ToString::to_string)).collect()
    }

    /// Runs a command line and prints its output.
    pub async fn shown(&self, command: &[String]) -> Result<()> {
        let ran = tool::run(command, |line| eprintln!("{line}")).await?;
        ran.require_success(&format!("`{}`", line(command))).map(drop)
    }

    /// Runs a command line without showing anything.
    pub async fn quiet(&self, words: &[&str]) -> Result<Ran> {
        tool::run(&self.command(words), |_| ()).await
    }

    /// A configuration without the user's logins, in a directory that only this user can access. It uses the same
    /// daemon.
    pub async fn private(&self) -> Result<Private<'_>> {
        let folder = tool::private_folder().context("cannot create a directory for the login")?;
        let dir = folder.path().display();
        let mut settings = match self.kind {
            Kind::Docker => vec![format!("DOCKER_CONFIG={dir}")],
            Kind::Podman => vec![format!("REGISTRY_AUTH_FILE={dir}/auth.json")],
        };
        // The current context, e.g. that of Docker Desktop, is in the user's configuration, which is left out.
        if self.kind == Kind::Docker && !self.has_host {
            let output =
                self.quiet(&["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]).await?;
            let host = output.lines.last().filter(|line| output.code == 0 && line.contains("://"));
            settings.extend(host.map(|host| format!("DOCKER_HOST={}", host.trim())));
        }
        Ok(Private { engine: self, folder, settings })
    }
}

/// The engine with a separate login, which is removed when this is dropped.
pub(super) struct Private<'a> {
    engine: &'a Engine,
    folder: TempDir,
    settings: Vec<String>,
}

impl Private<'_> {
    /// A command line with this configuration.
    pub fn command(&self, words: &[&str]) -> Vec<String> {
        let settings = ["env".to_owned()].into_iter().chain(self.settings.iter().cloned());
        settings.chain(self.engine.command(words)).collect()
    }

    /// Logs in to a registry. The program reads the token on its standard input from a temporary file, so that it is
    /// never on a command line or in the environment.
    pub async fn log_in(&self, host: &str, token: &Secret) -> Result<()> {
        let file = self.folder.path().join("token");
        config::write_first(&file, token).context("cannot write the token for the login")?;
        let login = self.command(&login_args(host));
        let shell = ["sh", "-c", "exec \"$@\" <\"$0\""].map(str::to_owned);
        let command: Vec<String> =
            shell.into_iter().chain([file.to_string_lossy().into_owned()]).chain(login).collect();
        let ran = tool::run(&command, |_| ()).await;
        fs::remove_file(&file).context("cannot remove the token of the login")?;
        ran?.require_success(&format!("the login of {} to {host}", self.engine.kind.name())).map(drop)
    }

    /// Runs a command line and prints its output.
    pub async fn shown(&self, words: &[&str]) -> Result<()> {
        let ran = tool::run(&self.command(words), |line| eprintln!("{line}")).await?;
        ran.require_success(&format!("`{}`", line(&self.engine.command(words)))).map(drop)
    }
}

/// The arguments of a login to a registry.
pub(super) fn login_args(host: &str) -> [&str; 5] {
    ["login", "--username", "oauth2accesstoken", "--password-stdin", host]
}

/// A command line quoted for a shell.
pub(super) fn line(command: &[String]) -> String {
    command.iter().map(|one| shell_quote(one)).collect::<Vec<_>>().join(" ")
}
