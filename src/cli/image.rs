//! `marin-tui image`: builds the container image of the clusters and pushes it to the registries of clusters.yaml.
//!
//! docker or podman is used. A push logs in with an access token of the Google login, which is never on a command line
//! or in the user's own docker configuration.

mod engine;
mod options;
mod push;
mod tag;

use super::reach::Reach;
use super::signals::until_interrupted;
use super::targets::Targets;
use super::{audit, output};
use crate::config::{Env, Folders, Sources};
use crate::operation::Call;
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use engine::Engine;
use options::{ImageOptions, planned};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui --infra ~/src/infra image build --dry-run      show the command
  marin-tui --infra ~/src/infra image build                build it, tagged with date and commit
  marin-tui --infra ~/src/infra image push                 push it to every region in clusters.yaml
  marin-tui --infra ~/src/infra image push --region us-central2 --region europe-west4
  marin-tui --infra ~/src/infra image push --set-image     push it, write its tag to clusters.yaml

The image is built from docker/Dockerfile in the directory of clusters.yaml. Requires docker or podman.";

/// Subcommands of `image`.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Build the clusters' image and tag it with date and commit
    #[command(after_help = EXAMPLES)]
    Build(BuildArguments),
    /// Push a built image to the registries in clusters.yaml, also as `latest`
    #[command(after_help = EXAMPLES)]
    Push(push::PushArguments),
}

impl Action {
    /// The command's name if it changes anything outside this machine.
    pub(super) fn changes(&self) -> Option<&'static str> {
        match self {
            Self::Push(arguments) if !arguments.options.dry_run => Some("image push"),
            _ => None,
        }
    }
}

/// Options of `image build`.
#[derive(Debug, Args)]
pub struct BuildArguments {
    #[command(flatten)]
    options: ImageOptions,
    /// Version of Ray [default: the one in the Dockerfile]
    #[arg(long, value_name = "VERSION")]
    ray_version: Option<String>,
}

/// Runs the subcommand.
pub fn run(action: &Action, sources: &Sources, env: &Env) -> Result<ExitCode> {
    let purpose = match action {
        Action::Build(_) => "build an image from its Dockerfile, whose commands then run in a container",
        Action::Push(_) => "push an image to the registries in it, with your Google login",
    };
    let (Action::Build(BuildArguments { options, .. }) | Action::Push(push::PushArguments { options, .. })) =
        action;
    if let Some(fault) = options.tag.as_deref().and_then(crate::model::tag_fault) {
        bail!(fault);
    }
    let engine = Engine::find(options.engine, env)?;
    let targets = Targets::read(sources, env, purpose)?;
    let audit = audit::log(env, &Folders::new(env));
    Reach::block_on(async {
        match action {
            Action::Build(arguments) => until_interrupted(build(arguments, &engine, &targets)).await?,
            Action::Push(arguments) => push::run(arguments, &engine, &targets, &audit).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn build(arguments: &BuildArguments, engine: &Engine, targets: &Targets) -> Result<()> {
    let BuildArguments { options, ray_version } = arguments;
    if let Some(version) = ray_version.as_deref().filter(|v| crate::model::tag_fault(v).is_some()) {
        bail!("`{version}` is not a version of Ray; write it as 2.53.0");
    }
    let name = targets.image(options.image.as_deref())?;
    let context: PathBuf = targets.folder.join("docker");
    let file = context.join("Dockerfile");
    file.metadata()
        .with_context(|| format!("cannot read {}, which the image is built from", file.display()))?;
    let tag = tag::for_build(options, &targets.folder).await?;
    let mut words = vec!["build", "--platform", "linux/amd64", "--file"];
    let (file, context) = (file.to_string_lossy(), context.to_string_lossy());
    let tags = tag.names(name);
    words.push(&file);
    words.extend(tags.iter().flat_map(|tag| ["--tag", tag]));
    let version = ray_version.as_ref().map(|version| format!("RAY_VERSION={version}"));
    words.extend(version.iter().flat_map(|version| ["--build-arg", version]));
    words.push(&context);
    let command = engine.command(&words);
    if options.dry_run {
        return planned(&[Call::run(engine::line(&command))], options.json);
    }
    eprintln!("building {}", tags.join(" and "));
    engine.shown(&command).await?;
    if options.json {
        return output::json(&json!({"images": tags}));
    }
    for tag in &tags {
        println!("{tag}");
    }
    Ok(())
}
