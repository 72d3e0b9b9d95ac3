//! `image push`: pushes to the registry of each region, and creates missing registries.

use super::engine::{self, Engine, Private};
use super::options::{ImageOptions, planned};
use super::tag::{self, Tag};
use crate::cli::google::google;
use crate::cli::reach::{Progress, confirm};
use crate::cli::signals::until_interrupted;
use crate::cli::targets::{Targets, repositories};
use crate::cli::{audit, configs, output};
use crate::gcp::{Change, GcpError, Google};
use crate::model::{ImageName, Registry};
use crate::operation::{Audit, Call};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use serde_json::json;

/// Options of `image push`.
#[derive(Debug, Args)]
pub struct PushArguments {
    #[command(flatten)]
    pub options: ImageOptions,
    /// Region to push to; may be repeated [default: every region of the image in clusters.yaml]
    #[arg(long = "region", value_name = "REGION")]
    regions: Vec<String>,
    /// Write the tag into clusters.yaml for the clusters with this image, and update their files
    #[arg(long, conflicts_with = "json")]
    set_image: bool,
    /// Skip confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Pushes the image to every registry. A failure for one does not affect the others.
pub(super) async fn run(
    arguments: &PushArguments,
    engine: &Engine,
    targets: &Targets,
    audit: &Audit,
) -> Result<()> {
    let PushArguments { options, set_image, yes, .. } = arguments;
    let google = google(&targets.settings);
    let plan = Plan::new(arguments, engine, targets, &google).await?;
    if options.dry_run {
        return planned(&plan.calls(engine), options.json);
    }
    confirm(&plan.question(), *yes)?;
    until_interrupted(plan.carry_out(engine, audit, options.json)).await?;
    if *set_image {
        return plan.write_tag(targets, *yes).context("the image was pushed, but its tag was not written");
    }
    let line = configs::set_image_line(&plan.tag.tag, &plan.clusters(targets));
    eprintln!("to use it: `{line}`");
    Ok(())
}

/// What is pushed where.
struct Plan<'a> {
    google: &'a Google,
    name: &'a str,
    tag: Tag,
    registries: Vec<Registry>,
    /// The registries that do not exist yet.
    missing: Vec<Registry>,
}

impl<'a> Plan<'a> {
    async fn new(
        arguments: &'a PushArguments,
        engine: &Engine,
        targets: &'a Targets,
        google: &'a Google,
    ) -> Result<Self> {
        let PushArguments { options, regions, .. } = arguments;
        let name = targets.image(options.image.as_deref())?;
        let registries = targets.registries(Some(name), regions)?;
        let tag = tag::for_push(options, &targets.folder, engine, name).await?;
        let progress = Progress::new();
        let mut missing = Vec::new();
        for registry in &registries {
            progress.show(format!("checking {registry}"));
            if is_missing(google, registry).await? {
                missing.push(registry.clone());
            }
        }
        progress.discard();
        Ok(Self { google, name, tag, registries, missing })
    }

    /// The image on this machine.
    fn local(&self) -> String {
        format!("{}:{}", self.name, self.tag.tag)
    }

    /// The clusters to set the tag for: none if all have this image, so that it is set for all without their own tag,
    /// otherwise those that have it.
    fn clusters(&self, targets: &Targets) -> Vec<String> {
        let chosen = targets.clusters(self.name, &self.registries);
        let all = chosen.len() == targets.table.rows.len();
        chosen.into_iter().filter(|_| !all).map(str::to_owned).collect()
    }

    /// Writes the tag into the table, which is read again: it may have been edited during the push.
    fn write_tag(&self, targets: &Targets, yes: bool) -> Result<()> {
        let targets = targets.read_again()?;
        if targets.clusters(self.name, &self.registries).is_empty() {
            let (table, image) = (targets.table.file.display(), self.name);
            bail!("{table} was edited during the push, and no cluster has the image `{image}` any more");
        }
        let mode = configs::Mode { check: false, diff: false, yes, json: false };
        configs::set_image(&targets.folder, &targets.table, &self.tag.tag, &self.clusters(&targets), mode)
    }

    fn creation(&self, registry: &Registry) -> Change {
        self.google.repository_creation(registry, "Container images of Ray clusters")
    }

    /// The requests and commands, for a dry run.
    fn calls(&self, engine: &Engine) -> Vec<Call> {
        let mut calls: Vec<Call> =
            self.missing.iter().map(|registry| Call::from(&self.creation(registry))).collect();
        for registry in &self.registries {
            let login = engine::line(&engine.command(&engine::login_args(&registry.host())));
            calls.push(Call::run(login).noted("reads an access token of your Google login"));
            for tag in self.tag.tags() {
                let remote = remote(registry, self.name, tag);
                calls.push(Call::run(engine::line(&engine.command(&["tag", &self.local(), &remote]))));
                calls.push(Call::run(engine::line(&engine.command(&["push", &remote]))));
            }
        }
        calls
    }

    fn question(&self) -> String {
        let names = |registries: &[Registry]| {
            registries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let question = format!(
            "Push {} as {} to {}?",
            self.local(),
            self.tag.tags().join(" and "),
            names(&self.registries)
        );
        match &self.missing[..] {
            [] => question,
            missing => format!("Create {} in Artifact Registry? {question}", names(missing)),
        }
    }

    /// Creates the missing registries and pushes to all.
    async fn carry_out(&self, engine: &Engine, audit: &Audit, as_json: bool) -> Result<()> {
        let progress = Progress::new();
        for registry in &self.missing {
            progress.show(format!("creating {registry}"));
            let made = self.google.execute(&self.creation(registry)).await;
            audit::of_registry(audit, registry, "create repository", made.as_ref().map(|()| "created"));
            made.map_err(|e| failed(&format!("cannot create {registry}"), &e))?;
            eprintln!("created {registry}");
        }
        drop(progress);
        let engine = engine.private().await?;
        let (mut failures, mut rows, local) = (0, Vec::new(), self.local());
        for registry in &self.registries {
            let mut images = Vec::new();
            let pushed = self.push_to(registry, &engine, &mut images, as_json).await;
            let pushed = pushed.map_err(|e| format!("{e:#}"));
            let action = format!("image push {local}");
            audit::of_registry(audit, registry, &action, pushed.as_ref().map(|()| "pushed"));
            rows.push(json!({"registry": registry.to_string(), "outcome": if pushed.is_ok() { "pushed" } else { "failed" },
                "created": self.missing.contains(registry), "images": images, "error": pushed.as_ref().err()}));
            if let Err(why) = pushed {
                failures += 1;
                eprintln!("marin-tui: {registry}: {why}");
            }
        }
        if as_json {
            output::json(&rows)?;
        }
        if failures > 0 {
            let all = repositories(self.registries.len());
            bail!(
                "{local} was not pushed to {failures} of {all}; push again: layers already there are not uploaded again"
            );
        }
        Ok(())
    }

    /// Pushes all tags to a registry; `images` receives the names that were pushed.
    async fn push_to(
        &self,
        registry: &Registry,
        engine: &Private<'_>,
        images: &mut Vec<String>,
        as_json: bool,
    ) -> Result<()> {
        let token = self.google.access_token().await.map_err(|e| failed("cannot log in to Google", &e))?;
        engine.log_in(&registry.host(), &token).await?;
        for tag in self.tag.tags() {
            let remote = remote(registry, self.name, tag);
            engine.shown(&["tag", &self.local(), &remote]).await?;
            engine.shown(&["push", &remote]).await?;
            if !as_json {
                println!("{remote}");
            }
            images.push(remote);
        }
        Ok(())
    }
}

/// Whether the repository does not exist; an error if it exists in another format, or cannot be read.
async fn is_missing(google: &Google, registry: &Registry) -> Result<bool> {
    match google.repository(registry).await {
        Ok(found) if found.format == "DOCKER" => Ok(false),
        Ok(found) => bail!("{registry} is a repository for {}, not for container images", found.format),
        Err(GcpError::NotFound { .. }) => Ok(true),
        Err(e) => Err(failed(&format!("cannot read {registry}"), &e)),
    }
}

fn remote(registry: &Registry, name: &str, tag: &str) -> String {
    let Registry { project, location, repository } = registry.clone();
    ImageName { location, project, repository, name: name.into(), tag: tag.into() }.to_string()
}

fn failed(what: &str, e: &GcpError) -> anyhow::Error {
    anyhow!("{what}: {e}; {}", e.hint())
}
