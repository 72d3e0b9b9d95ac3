//! The command `clean-preempted`: deletes preempted TPUs of a cluster.

use super::super::reach::{Progress, Reach, confirm};
use super::super::{columns, hints};
use crate::cli::output;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{Cleaned, Leftover, LeftoverKind, Target, Timestamp, leftovers};
use crate::supervisor;
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

pub(super) async fn run(arguments: &CleanArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let progress = Progress::new();
    progress.show("querying Google");
    let google = &reach.options.google;
    let view = supervisor::ask_cloud(&reach.spec, google).await.map_err(|p| reach.error(&p))?;
    drop(progress);
    if !view.complete {
        eprintln!("Google could not list everything, so more TPUs may remain; try again in a minute");
    }
    if let Some(why) = &view.unlisted {
        eprintln!("Compute Engine TPUs may be missing: {why}");
    }
    let target = Target::of(&reach.spec.name);
    let reported = |done: &[_]| {
        let code = report(arguments, done, target)?;
        Ok(if view.is_whole() { code } else { ExitCode::FAILURE })
    };
    let found = leftovers(reach.spec.name.as_str(), &view);
    if found.is_empty() {
        eprintln!("{}: no preempted TPUs to delete", reach.spec.name);
        return reported(&[]);
    }
    if arguments.dry_run {
        let planned: Vec<_> = found.into_iter().map(|leftover| (leftover, None)).collect();
        return reported(&planned);
    }
    if !arguments.yes {
        print(&mut output::stderr(), &found.iter().map(|l| (l.clone(), None)).collect::<Vec<_>>(), target)?;
    }
    confirm(&format!("Delete {} of {}?", counted(&found), reach.spec.name), arguments.yes)?;
    // Recorded before the first deletion, so that an interrupted command is in the audit log.
    reach.note("clean-preempted", &format!("started: {}", counted(&found)));
    eprintln!("deleting {}; a large slice takes several minutes", counted(&found));
    let record = |leftover: &Leftover, cleaned: &Cleaned| {
        eprintln!(
            "{} {}: {}",
            leftover.kind.label(),
            leftover.name,
            printable(&cleaned.text(|hint| hint.in_commands(target)))
        );
    };
    let done = supervisor::clean(&reach.spec, google, found, record).await.map_err(|p| reach.error(&p))?;
    for (leftover, cleaned) in &done {
        reach.note(&leftover.audit_label(), &cleaned.text(|hint| hint.in_commands(target)));
    }
    let done: Vec<_> = done.into_iter().map(|(leftover, cleaned)| (leftover, Some(cleaned))).collect();
    reported(&done)
}

/// `2 tpu vms (24 chips) and 1 queued resource`.
fn counted(all: &[Leftover]) -> String {
    let chips: u32 = all.iter().map(|l| l.chips).sum();
    let of = |kind: LeftoverKind| {
        let n = all.iter().filter(|l| l.kind == kind).count();
        (n > 0).then(|| format!("{n} {}{}", kind.label(), if n == 1 { "" } else { "s" }))
    };
    let kinds = [
        LeftoverKind::TpuVm,
        LeftoverKind::QueuedResource,
        LeftoverKind::Instance,
        LeftoverKind::InstanceGroup,
    ];
    let parts: Vec<_> = kinds.into_iter().filter_map(of).collect();
    format!("{} ({chips} chips)", parts.join(" and "))
}

/// A TPU or queued resource to delete, and the result once it is known.
type Row = (Leftover, Option<Cleaned>);

/// As JSON: a list of `kind`, `name`, `accelerator_type`, `chips`, `outcome` (`would be deleted`, `deleted`, `already
/// gone`, `skipped`, `failed`), `reason`, `hint`, `fixes`.
fn report(arguments: &CleanArguments, rows: &[Row], target: Target<'_>) -> anyhow::Result<ExitCode> {
    if arguments.json {
        output::json(&rows.iter().map(|row| for_scripts(row, target)).collect::<Vec<_>>())?;
    } else if !rows.is_empty() {
        print(&mut output::stdout(), rows, target)?;
    }
    let is_well = rows.iter().all(|(_, cleaned)| cleaned.as_ref().is_none_or(Cleaned::is_well));
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(out: &mut impl Write, rows: &[Row], target: Target<'_>) -> io::Result<()> {
    let now = Timestamp::now();
    let cells = |(leftover, cleaned): &Row| {
        vec![
            leftover.kind.label().to_owned(),
            leftover.name.raw().to_owned(),
            leftover.accelerator_type.raw().to_owned(),
            leftover.chips.to_string(),
            leftover.created.map_or_else(|| "-".into(), |at| brief(at.age(now))),
            cleaned
                .as_ref()
                .map_or_else(|| "would be deleted".into(), |c| c.text(|hint| hint.in_commands(target))),
        ]
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    columns::print(out, &["KIND", "NAME", "TYPE", "CHIPS", "AGE", "OUTCOME"], &cells)
}

fn for_scripts((leftover, cleaned): &Row, target: Target<'_>) -> Value {
    let (outcome, why, hint) = match cleaned {
        None => ("would be deleted", None, None),
        Some(Cleaned::Deleted) => ("deleted", None, None),
        Some(Cleaned::AlreadyGone) => ("already gone", None, None),
        Some(Cleaned::Skipped(why)) => ("skipped", Some(why), None),
        Some(Cleaned::Failed { what, hint }) => ("failed", Some(what), Some(hint)),
    };
    let mut value = json!({
        "kind": leftover.kind.name(), "name": leftover.name.raw(),
        "accelerator_type": leftover.accelerator_type.raw(), "chips": leftover.chips,
        "outcome": outcome, "reason": why,
    });
    hints::add(&mut value, hint, target);
    value
}

/// Options of `clean-preempted`.
#[derive(Debug, Args)]
pub struct CleanArguments {
    /// Skip confirmation
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Show what would be deleted; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
