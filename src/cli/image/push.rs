//! `image push`: pushes to the registry of each region, and creates missing registries.

use super::engine::{self, Engine};
use super::options::{ImageOptions, planned};
use super::tag;
use crate::cli::google::google;
use crate::cli::reach::{Progress, confirm};
use crate::cli::targets::{Targets, repositories};
use crate::cli::{audit, configs, output};
use crate::gcp::{GcpError, Google};
use crate::model::command_line::shell_quote;
use crate::model::{ImageName, Registry, Target};
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
    let PushArguments { options, regions, set_image, yes } = arguments;
    let name = targets.image(options.image.as_deref())?;
    let registries = targets.registries(Some(name), regions)?;
    let tag = tag::for_push(options, &targets.folder, engine, name).await?;
    let google = google(&targets.settings);
    let progress = Progress::new();
    let mut missing = Vec::new();
    for registry in &registries {
        progress.show(format!("checking {registry}"));
        if is_missing(&google, registry).await? {
            missing.push(registry);
        }
    }
    progress.discard();
    let local = format!("{name}:{}", tag.tag);
    let tags = tag.tags();
    let creation = |registry| google.repository_creation(registry, "Container images of Ray clusters");
    if options.dry_run {
        let mut calls: Vec<Call> = missing.iter().map(|registry| Call::from(&creation(registry))).collect();
        for registry in &registries {
            let login = engine::line(&engine.command(&engine::login_args(&registry.host())));
            calls.push(Call::run(login).noted("reads an access token of your Google login"));
            for tag in &tags {
                let remote = remote(registry, name, tag);
                calls.push(Call::run(engine::line(&engine.command(&["tag", &local, &remote]))));
                calls.push(Call::run(engine::line(&engine.command(&["push", &remote]))));
            }
        }
        return planned(&calls, options.json);
    }
    let names: Vec<String> = registries.iter().map(ToString::to_string).collect();
    let mut question = format!("Push {local} as {} to {}?", tags.join(" and "), names.join(", "));
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
        question = format!("Create {} in Artifact Registry? {question}", names.join(", "));
    }
    confirm(&question, *yes)?;
    for registry in &missing {
        progress.show(format!("creating {registry}"));
        let made = google.execute(&creation(registry)).await;
        audit::of_registry(audit, registry, "create repository", made.as_ref().map(|()| "created"));
        made.map_err(|e| failed(&format!("cannot create {registry}"), &e))?;
        eprintln!("created {registry}");
    }
    drop(progress);
    let engine = engine.private().await?;
    let (mut failures, mut rows) = (0, Vec::new());
    for registry in &registries {
        let mut images = Vec::new();
        let pushed = async {
            let token = google.access_token().await.map_err(|e| failed("cannot log in to Google", &e))?;
            engine.log_in(&registry.host(), &token).await?;
            for tag in &tags {
                let remote = remote(registry, name, tag);
                engine.shown(&["tag", &local, &remote]).await?;
                engine.shown(&["push", &remote]).await?;
                if !options.json {
                    println!("{remote}");
                }
                images.push(remote);
            }
            anyhow::Ok(())
        };
        let pushed = pushed.await.map_err(|e| format!("{e:#}"));
        audit::of_registry(
            audit,
            registry,
            &format!("image push {local}"),
            pushed.as_ref().map(|()| "pushed"),
        );
        rows.push(json!({"registry": registry.to_string(), "outcome": if pushed.is_ok() { "pushed" } else { "failed" },
            "created": missing.contains(&registry), "images": images, "error": pushed.as_ref().err()}));
        if let Err(why) = pushed {
            failures += 1;
            eprintln!("marin-tui: {registry}: {why}");
        }
    }
    if options.json {
        output::json(&rows)?;
    }
    if failures > 0 {
        let all = repositories(registries.len());
        bail!(
            "{local} was not pushed to {failures} of {all}; push again: layers already there are not uploaded again"
        );
    }
    used(targets, name, &tag.tag, regions, (*set_image).then_some(*yes))
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

/// Prints how to use the tag in the clusters, or writes it into the table: for all clusters without their own tag if
/// all have this image, otherwise for those that have it.
fn used(targets: &Targets, image: &str, tag: &str, regions: &[String], writes: Option<bool>) -> Result<()> {
    let chosen = targets.clusters(image, regions);
    let all = chosen.len() == targets.table.rows.len();
    let stems: Vec<String> = chosen.iter().filter(|_| !all).map(|(stem, _)| stem.clone()).collect();
    if let Some(yes) = writes {
        let mode = configs::Mode { check: false, diff: false, yes, json: false };
        return configs::set_image(&targets.folder, &targets.table, tag, &stems, mode)
            .context("the image was pushed, but its tag was not written");
    }
    let words: Vec<String> = stems.iter().map(|stem| shell_quote(stem)).collect();
    let rest = format!("configs set-image {} {}", shell_quote(tag), words.join(" "));
    eprintln!("to use it: `{}`", Target::default().line(rest.trim_end()));
    Ok(())
}
