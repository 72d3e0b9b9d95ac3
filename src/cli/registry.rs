//! `marin-tui registry`: the clean-up policies of the repositories in clusters.yaml.

use super::configs::print_diff;
use super::google::google;
use super::reach::{Progress, Reach, confirm};
use super::targets::{Targets, repositories};
use super::{audit, hints, output};
use crate::config::{Env, Folders, Sources};
use crate::gcp::{Change, Cleanup, GcpError, Google};
use crate::model::amount::counted;
use crate::model::time::days;
use crate::model::{Fix, Hint, ImageName, Registry, Target, Timestamp};
use crate::operation::Call;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui --infra ~/src/infra registry cleanup-policy --all --dry-run
  marin-tui --infra ~/src/infra registry cleanup-policy --all
  marin-tui registry cleanup-policy --region us-central2 --older-than 60d --keep 8

Google applies the policies within about a day; an image that one policy keeps is not deleted by another.";

/// Subcommands of `registry`.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Set how long images are kept in the registries in clusters.yaml; other policies are kept
    #[command(after_help = EXAMPLES)]
    CleanupPolicy(PolicyArguments),
}

impl Action {
    /// The command's name if it changes anything outside this machine.
    pub(super) fn changes(&self) -> Option<&'static str> {
        let Self::CleanupPolicy(arguments) = self;
        (!arguments.dry_run).then_some("registry cleanup-policy")
    }
}

/// Options of `registry cleanup-policy`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct PolicyArguments {
    /// Region; may be repeated
    #[arg(long = "region", value_name = "REGION")]
    regions: Vec<String>,
    /// All regions in clusters.yaml
    #[arg(long, conflicts_with = "regions")]
    all: bool,
    /// Delete images older than this, in days
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = days)]
    older_than: u32,
    /// Always keep this many of the newest builds of each image
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Turn off dry-run mode of a repository (`cleanupPolicyDryRun`), so that its policies delete images
    #[arg(long)]
    enforce: bool,
    /// Show the changes and calls; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Skip confirmation
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A repository with its current and its new policies.
struct Planned {
    registry: Registry,
    before: Map<String, Value>,
    after: Map<String, Value>,
    /// Whether its policies are only a dry run.
    is_trial: bool,
    outcome: &'static str,
    problem: Option<(String, Hint)>,
}

impl Planned {
    fn changes(&self, enforce: bool) -> bool {
        self.problem.is_none() && (self.before != self.after || enforce && self.is_trial)
    }

    fn fail(&mut self, what: String, hint: Hint) {
        self.outcome = "failed";
        self.problem = Some((what, hint));
    }

    fn as_json(&self) -> Value {
        let error = self.problem.as_ref().map(|(what, _)| what);
        let mut value = json!({"registry": self.registry.to_string(), "outcome": self.outcome,
            "before": self.before, "after": self.after, "dry_run": self.is_trial, "error": error});
        hints::add(&mut value, self.problem.as_ref().map(|(_, hint)| hint), Target::default());
        value
    }
}

/// Runs the subcommand.
pub fn run(action: &Action, sources: &Sources, env: &Env) -> Result<ExitCode> {
    let Action::CleanupPolicy(arguments) = action;
    let purpose = "change the cleanup policies of the registries in it, with your Google login";
    let targets = Targets::read(sources, env, purpose)?;
    let registries = targets.registries(None, &arguments.regions)?;
    if registries.len() > 1 && arguments.regions.is_empty() && !arguments.all {
        let regions: Vec<&str> = registries.iter().map(|r| r.location.as_str()).collect();
        bail!("several registries; choose with --region, or use --all: {}", regions.join(", "));
    }
    let google = google(&targets.settings);
    let audit = audit::log(env, &Folders::new(env));
    Reach::block_on(async {
        let progress = Progress::new();
        let cleanup = Cleanup { older_than_days: arguments.older_than, keep: arguments.keep };
        let mut plan = Vec::new();
        for registry in registries {
            progress.show(format!("reading {registry}"));
            plan.push(read(&google, registry, cleanup).await);
        }
        show(&plan, arguments)?;
        for planned in plan.iter().filter(|planned| planned.changes(arguments.enforce)) {
            progress.show(format!("checking which images are in use in {}", planned.registry));
            warn(&google, &targets, &planned.registry, cleanup).await;
        }
        progress.discard();
        let number = plan.iter().filter(|planned| planned.changes(arguments.enforce)).count();
        if number > 0 && !arguments.dry_run {
            let question = format!(
                "Set the policies of {}: delete images older than {}, but keep the newest {} of each?",
                repositories(number),
                counted(arguments.older_than as usize, "day"),
                arguments.keep
            );
            confirm(&question, arguments.yes)?;
        }
        for planned in plan.iter_mut().filter(|planned| planned.changes(arguments.enforce)) {
            let enforces = arguments.enforce && planned.is_trial;
            let change = google.policies_change(&planned.registry, &planned.after, enforces);
            if arguments.dry_run {
                planned.outcome = "would be set";
                if !arguments.json {
                    println!("{}", Call::from(&change));
                }
                continue;
            }
            progress.show(format!("setting the policies of {}", planned.registry));
            set(&google, planned, &change).await;
            let what = format!(
                "registry cleanup-policy: delete images older than {}, keep {}",
                counted(arguments.older_than as usize, "day"),
                arguments.keep
            );
            let outcome = planned.problem.as_ref().map_or(Ok(planned.outcome), |(why, _)| Err(why));
            audit::of_registry(&audit, &planned.registry, &what, outcome);
        }
        report(&plan, arguments)
    })
}

/// Reads a repository, and merges our policies into its own.
async fn read(google: &Google, registry: Registry, cleanup: Cleanup) -> Planned {
    let mut planned = Planned {
        registry,
        before: Map::new(),
        after: Map::new(),
        is_trial: false,
        outcome: "unchanged",
        problem: None,
    };
    match google.repository(&planned.registry).await {
        Ok(found) => {
            planned.after = cleanup.merged_into(&found.cleanup_policies);
            (planned.before, planned.is_trial) = (found.cleanup_policies, found.cleanup_policy_dry_run);
            if planned.after.len() > Cleanup::MAX_POLICIES {
                let what = format!(
                    "it would have {} policies; Google allows {}",
                    planned.after.len(),
                    Cleanup::MAX_POLICIES
                );
                planned.fail(what, "remove one in the Google Cloud console".into());
            }
        }
        Err(e @ GcpError::NotFound { .. }) => {
            let create = Fix::command("or create it", Target::default().line("image push"));
            let hint = Hint::from("check the name and the project in clusters.yaml").and(create);
            planned.fail(e.to_string(), hint);
        }
        Err(e) => planned.fail(e.to_string(), e.hint()),
    }
    planned
}

/// Shows what would change, and with which calls.
fn show(plan: &[Planned], arguments: &PolicyArguments) -> Result<()> {
    for planned in plan.iter().filter(|planned| !arguments.json && planned.changes(arguments.enforce)) {
        let text = |policies: &Map<String, Value>| format!("{:#}\n", Value::from(policies.clone()));
        let name = planned.registry.to_string();
        print_diff(&mut output::stdout(), Path::new(&name), &text(&planned.before), &text(&planned.after))?;
    }
    for planned in plan.iter().filter(|planned| planned.is_trial && !arguments.enforce) {
        eprintln!(
            "{}: its policies are in dry-run mode (cleanupPolicyDryRun), so nothing is deleted; --enforce turns it off",
            planned.registry
        );
    }
    Ok(())
}

/// Warns about tags in clusters.yaml that would be deleted: Ray could not start machines with such an image.
async fn warn(google: &Google, targets: &Targets, registry: &Registry, cleanup: Cleanup) {
    let limit = Duration::from_secs(u64::from(cleanup.older_than_days) * 24 * 3600);
    let mut seen: Vec<&ImageName> = Vec::new();
    for (stem, image) in targets.images.iter().filter(|(_, image)| image.registry() == *registry) {
        if seen.contains(&image) {
            continue;
        }
        seen.push(image);
        // Only a warning: a user who may set policies is not necessarily allowed to list images.
        let Ok(builds) = google.images(image).await else { continue };
        let at = builds.iter().position(|build| build.tags.iter().any(|tag| tag.raw() == image.tag));
        let Some(build) = at.filter(|at| *at >= cleanup.keep as usize).map(|at| &builds[at]) else {
            continue;
        };
        if build.uploaded.is_some_and(|at| at.age(Timestamp::now()) > limit) {
            eprintln!("warning: {image}, which {stem} uses, would be deleted; push it again, or keep more");
        }
    }
}

/// Sets the policies and reads them back.
async fn set(google: &Google, planned: &mut Planned, change: &Change) {
    if let Err(e) = google.execute(change).await {
        return planned.fail(e.to_string(), e.hint());
    }
    match google.repository(&planned.registry).await {
        Ok(now) if now.cleanup_policies == planned.after => {
            planned.is_trial = now.cleanup_policy_dry_run;
            planned.outcome = "set";
        }
        Ok(_) => {
            let what = "Google accepted the change, but the repository now has different policies".to_owned();
            planned.fail(what, "someone else may have changed them: run the same command again".into());
        }
        Err(e) => planned.fail(format!("set, but could not be read back: {e}"), e.hint()),
    }
}

fn report(plan: &[Planned], arguments: &PolicyArguments) -> Result<ExitCode> {
    if arguments.json {
        output::json(&plan.iter().map(Planned::as_json).collect::<Vec<_>>())?;
    } else {
        for planned in plan {
            match &planned.problem {
                None => println!("{}: {}", planned.registry, planned.outcome),
                Some((what, hint)) => eprintln!("marin-tui: {}: {what}; {hint}", planned.registry),
            }
        }
    }
    let failed = plan.iter().filter(|planned| planned.problem.is_some()).count();
    if failed > 0 {
        bail!("{failed} of {} failed", repositories(plan.len()));
    }
    Ok(ExitCode::SUCCESS)
}
