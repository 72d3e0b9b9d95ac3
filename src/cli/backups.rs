//! `marin-tui backups`: lists the backups of jobs on this machine, and deletes old ones.

use super::{columns, output};
use crate::config::{Env, Folders, Settings};
use crate::model::amount::counted;
use crate::model::time::{brief, days};
use crate::model::{ClusterName, Target, Timestamp};
use crate::operation::{Backup, backups, delete};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Options of `backups`.
#[derive(Debug, Args)]
pub struct BackupArguments {
    /// Delete backups at least this old, in days; asks first
    #[arg(long, value_name = "AGE", value_parser = days)]
    delete_older_than: Option<u32>,
    /// Skip confirmation
    #[arg(long, short, requires = "delete_older_than")]
    yes: bool,
    /// Show what would be deleted; change nothing
    #[arg(long, requires = "delete_older_than")]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the backups, or deletes the old ones.
pub(super) fn run(
    arguments: &BackupArguments,
    folders: &Folders,
    settings: &Settings,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    let now = Timestamp::now();
    let all = backups(&folders.state).map_err(|p| anyhow::anyhow!("{}", p.what))?;
    let Some(age) = arguments.delete_older_than.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600))
    else {
        let due = |b: &Backup| settings.backup_age().is_some_and(|age| b.is_due(age, now));
        let rows: Vec<_> = all.iter().map(|b| (b, if due(b) { "old" } else { "" }.to_owned())).collect();
        return report(&rows, arguments.json, now).map(|()| ExitCode::SUCCESS);
    };
    let old: Vec<&Backup> = all.iter().filter(|b| b.is_due(age, now)).collect();
    if arguments.dry_run {
        let rows: Vec<_> = old.into_iter().map(|b| (b, "would be deleted".to_owned())).collect();
        return report(&rows, arguments.json, now).map(|()| ExitCode::SUCCESS);
    }
    if !old.is_empty() && !arguments.yes {
        print(&mut output::stderr(), &rows_of(old.iter().map(|b| (*b, String::new())), now))?;
        super::reach::confirm(&format!("Delete {} permanently?", counted(old.len(), "backup")), false)?;
    }
    let mut rows = Vec::new();
    let mut is_well = true;
    let audit = super::audit::log(env, folders);
    // An operation that started while the question was open may need one of them.
    let remaining = backups(&folders.state).map_err(|p| anyhow::anyhow!("{}", p.what))?;
    for backup in old {
        let Some(current) = remaining.iter().find(|b| b.folder == backup.folder) else { continue };
        let outcome = delete(current);
        is_well &= outcome.is_ok();
        let outcome = match outcome {
            Ok(()) => "deleted".to_owned(),
            Err(problem) => format!("failed: {}", problem.in_commands(Target::default())),
        };
        let cluster = ClusterName::new(backup.cluster.as_deref().unwrap_or("?"));
        super::audit::write(
            &audit,
            &cluster,
            &format!("delete backup {}", backup.folder.display()),
            &outcome,
        );
        rows.push((backup, outcome));
    }
    report(&rows, arguments.json, now)?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The message that the console shows at its start if there are old backups.
pub(super) fn reminder(folders: &Folders, settings: &Settings) -> Option<String> {
    let age = settings.backup_age()?;
    let now = Timestamp::now();
    let old = match backups(&folders.state) {
        Ok(all) => all.iter().filter(|b| b.is_due(age, now)).count(),
        Err(problem) => return Some(problem.what.clone()),
    };
    let days = settings.backup_days;
    (old > 0).then(|| {
        format!(
            "{} older than {days} days, containing job secrets; \
             delete: `{}`",
            counted(old, "backup"),
            Target::default().line(&format!("backups --delete-older-than {days}d"))
        )
    })
}

/// As JSON: `dir`, `cluster`, `jobs`, `created_ms`, `needed`, `outcome` (`old`, `would be deleted`, `deleted`, why
/// not, or empty).
fn report(rows: &[(&Backup, String)], as_json: bool, now: Timestamp) -> anyhow::Result<()> {
    if as_json {
        let row = |(b, outcome): &(&Backup, String)| {
            json!({"dir": output::path(&b.folder), "cluster": b.cluster, "jobs": b.jobs, "created_ms": b.made.as_millis(),
                "needed": b.is_needed, "outcome": outcome})
        };
        return output::json(&rows.iter().map(row).collect::<Vec<_>>());
    }
    Ok(print(&mut output::stdout(), &rows_of(rows.iter().cloned(), now))?)
}

fn rows_of<'a>(rows: impl Iterator<Item = (&'a Backup, String)>, now: Timestamp) -> Vec<Vec<String>> {
    let row = |(b, outcome): (&Backup, String)| {
        let cluster = b.cluster.clone().unwrap_or_else(|| "(interrupted)".to_owned());
        let note = if b.is_needed { "needed by an interrupted operation".to_owned() } else { outcome };
        vec![cluster, b.jobs.to_string(), brief(b.made.age(now)), b.folder.display().to_string(), note]
    };
    rows.map(row).collect()
}

fn print(out: &mut impl std::io::Write, rows: &[Vec<String>]) -> std::io::Result<()> {
    columns::print(out, &["CLUSTER", "JOBS", "AGE", "DIRECTORY", "NOTE"], rows)
}
