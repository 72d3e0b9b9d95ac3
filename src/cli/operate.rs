//! Operations from a shell: restart, start and stop a cluster, save and restore its jobs; and the audit log.

use super::output;
use super::reach::{Progress as CommandProgress, Reach};
use super::run::{OperateArguments, RunOptions, operate};
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::{Job, SnapshotPart, SubmissionId, Target, Task};
use crate::operation::{BackupContent, Executor, Kept, Restored, back_up, remember, restore, would_back_up};
use crate::ray::Poller;
use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 restart-cluster --dry-run     show the steps and affected jobs
  marin-tui -c us-central2 restart-cluster               restart after confirmation
  marin-tui -c us-central2 restart-cluster --resume      resume at the failed or interrupted step
  marin-tui -c us-central2 restart-cluster --abandon     abandon the operation, keep its backup

ctrl-c stops the operation and its local programs at once: before the first change this cancels it, later it can be \
resumed.

Exit codes: 0 success, 1 a step failed or was interrupted (the message says which, and how to resume).";

/// Operations on a whole cluster.
#[derive(Debug, Subcommand)]
pub enum OperateCommand {
    /// Restart a cluster and its jobs
    #[command(after_help = EXAMPLES)]
    RestartCluster(RestartArguments),
    /// Start a cluster
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 start-cluster --dry-run       show the steps
  marin-tui -c us-central2 start-cluster                 run `ray up` and wait for Ray

Exit codes: 0 success, 1 a step failed or was interrupted (the message says which, and how to resume).")]
    StartCluster(OperateArguments),
    /// Stop a cluster; its jobs are lost (save them first with backup-jobs)
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 backup-jobs jobs-of-us-central2
  marin-tui -c us-central2 stop-cluster --dry-run        show the steps and affected jobs
  marin-tui -c us-central2 stop-cluster                  stop after confirmation

Exit codes: 0 success, 1 a step failed or was interrupted (the message says which, and how to resume).")]
    StopCluster(StopArguments),
    /// Save the jobs that have not ended, with their packages, to a directory
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 backup-jobs jobs-of-us-central2")]
    BackupJobs(FolderArguments),
    /// Resubmit the jobs in a backup, each job only once
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 restore-jobs jobs-of-us-central2 --dry-run
  marin-tui -c us-central2 restore-jobs jobs-of-us-central2")]
    RestoreJobs(FolderArguments),
}

/// Options of `restart-cluster`.
#[derive(Debug, Args)]
pub struct RestartArguments {
    /// Save the jobs and submit them again after the restart
    #[arg(long, value_name = "1|0", default_value = "1", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = yes_or_no, action = clap::ArgAction::Set, conflicts_with_all = ["resume", "abandon"])]
    preserve_jobs: bool,
    /// Options shared with `stop-cluster`.
    #[command(flatten)]
    stop: StopArguments,
}

/// Options of `stop-cluster`.
#[derive(Debug, Args)]
pub struct StopArguments {
    /// Allow ending other people's jobs, and jobs without a known owner
    #[arg(long)]
    others: bool,
    /// With --resume: skip the failed step if it is safe to skip (machines that could not be cleaned up, missing workers)
    #[arg(long, alias = "leave", requires = "resume")]
    skip_failed_step: bool,
    /// Options of all operations.
    #[command(flatten)]
    common: OperateArguments,
}

/// Options of `backup-jobs` and `restore-jobs`.
#[derive(Debug, Args)]
pub struct FolderArguments {
    /// Backup directory; `backup-jobs` creates it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Show what would be done; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl OperateCommand {
    /// The command's name if it changes a cluster, which a read-only session refuses.
    pub(super) fn changes(&self) -> Option<&'static str> {
        let name = |name, dry_run: bool| (!dry_run).then_some(name);
        match self {
            // The operations service has a separate gate.
            Self::RestartCluster(_) | Self::StartCluster(_) | Self::StopCluster(_) | Self::BackupJobs(_) => {
                None
            }
            Self::RestoreJobs(a) => name("restore-jobs", a.dry_run),
        }
    }
}

impl StopArguments {
    fn options(&self, task: Task) -> RunOptions<'_> {
        RunOptions {
            others: self.others,
            skip_failed_step: self.skip_failed_step,
            ..RunOptions::of(task, &self.common)
        }
    }
}

fn yes_or_no(word: &str) -> Result<bool, String> {
    match word.to_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "on" => Ok(true),
        "0" | "false" | "f" | "no" | "n" | "off" => Ok(false),
        _ => Err("1 or 0".into()),
    }
}

/// Runs the command.
pub(super) fn run(command: &OperateCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        match command {
            OperateCommand::RestartCluster(a) => {
                operate(&a.stop.options(Task::Restart { preserve: a.preserve_jobs }), reach).await
            }
            OperateCommand::StartCluster(a) => operate(&RunOptions::of(Task::Start, a), reach).await,
            OperateCommand::StopCluster(a) => operate(&a.options(Task::Stop), reach).await,
            OperateCommand::BackupJobs(a) => back_up_jobs(a, reach).await,
            OperateCommand::RestoreJobs(a) => restore_jobs(a, reach).await,
        }
    })
}

async fn back_up_jobs(arguments: &FolderArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let progress = CommandProgress::new();
    let session = reach.connect(&progress).await?;
    let dir = std::path::absolute(&arguments.dir).context("no such directory")?;
    let dry = arguments.dry_run;
    progress.show(if dry { "reading the jobs" } else { "saving the jobs" });
    let backed = if dry {
        would_back_up(&session.client).await
    } else {
        back_up(&session.client, reach.spec.name.as_str(), &dir).await
    };
    // They are lost when the cluster is stopped, so they are named.
    let snapshot = Poller::new(session.client.clone()).refresh_all(&[SnapshotPart::Jobs]).await;
    session.close().await;
    let backed = backed.map_err(|p| reach.error(&p))?;
    if let Some(warning) = &backed.warning {
        eprintln!("warning: {warning}");
    }
    // The backup is complete without the drivers, which cannot be saved.
    let jobs = match snapshot {
        Ok(snapshot) => snapshot.jobs,
        Err(e) => {
            eprintln!("{}: drivers that were started manually are not listed: {e}", reach.spec.name);
            Arc::default()
        }
    };
    let is_driver = |job: &&Arc<Job>| !job.status.is_ended() && job.submission_id().is_none();
    let drivers: Vec<String> = jobs.iter().filter(is_driver).map(|job| job.key.to_string()).collect();
    if arguments.json {
        super::output::json(&backed_json(&backed, &drivers, &dir, dry))?;
    } else {
        if dry {
            backed.kept.iter().for_each(|k| println!("{}", printable(&k.submission.submission_id)));
        } else {
            println!("{} in {}", counted(backed.kept.len(), "job"), dir.display());
        }
        for kept in backed.kept.iter().filter(|k| !k.missing.is_empty()) {
            let id = printable(&kept.submission.submission_id);
            println!(
                "cannot restore {id}: its package no longer exists ({})",
                printable(&kept.missing.join(", "))
            );
        }
        let left_out = if dry { "would be skipped" } else { "skipped" };
        backed.left_out.iter().for_each(|(id, why)| println!("{id} {left_out}: {why}"));
        for id in &drivers {
            println!("{id} {left_out}: {STARTED_MANUALLY}");
        }
    }
    if !dry {
        if let Err(problem) = remember(&reach.folders.state, &dir) {
            eprintln!("{}", problem.in_commands(Target::of(&reach.spec.name)));
        }
        reach.note("backup-jobs", &format!("{} in {}", counted(backed.kept.len(), "job"), dir.display()));
    }
    let whole = backed.kept.iter().all(|k| k.missing.is_empty());
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Why a driver is not saved.
const STARTED_MANUALLY: &str = "started manually, so it cannot be submitted again";

fn backed_json(backed: &BackupContent, drivers: &[String], dir: &Path, dry: bool) -> serde_json::Value {
    let outcome = if dry { "would be saved" } else { "saved" };
    let kept = |k: &Kept| json!({"submission_id": k.submission.submission_id, "missing_packages": k.missing, "outcome": outcome});
    let jobs: Vec<_> = backed.kept.iter().map(kept).collect();
    let left_out = backed.left_out.iter();
    let left_out =
        left_out.map(|(id, why)| json!({"submission_id": id.0.raw(), "job_id": null, "reason": why}));
    let drivers = drivers.iter();
    let drivers = drivers.map(|id| json!({"submission_id": null, "job_id": id, "reason": STARTED_MANUALLY}));
    let left: Vec<_> = left_out.chain(drivers).collect();
    json!({"dir": output::path(dir), "jobs": jobs, "skipped": left, "warnings": backed.warning.as_slice()})
}

async fn restore_jobs(arguments: &FolderArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let executor = if arguments.dry_run { Executor::recording() } else { Executor::Real };
    let progress = CommandProgress::new();
    let session = reach.connect(&progress).await?;
    progress.show("restoring the jobs");
    if !arguments.dry_run {
        reach.note("restore-jobs", &format!("started: {}", arguments.dir.display()));
    }
    let (restored, result) = restore(&session.client, &arguments.dir, &executor).await;
    session.close().await;
    if !arguments.dry_run {
        let submitted = restored.iter().filter(|(_, o)| *o == Restored::Submitted).count();
        let failed = result.as_ref().err().map_or_else(String::new, |p| format!("; failed: {}", p.what));
        reach.note("restore-jobs", &format!("{submitted} submitted{failed}"));
    }
    if let Err(problem) = &result
        && restored.is_empty()
        && !arguments.json
    {
        return Err(reach.error(problem));
    }
    let word = |outcome: &Restored| match outcome {
        Restored::Submitted if arguments.dry_run => "would be submitted".to_owned(),
        Restored::Submitted => "submitted".to_owned(),
        Restored::AlreadyThere => "already exists".to_owned(),
        Restored::Failed(why) => format!("not restored: {why}"),
        Restored::Later(why) => format!("not restored: {why}; run the same command to retry"),
    };
    if arguments.json {
        let row = |(id, outcome): &(SubmissionId, Restored)| {
            let done = outcome.is_there();
            json!({"submission_id": id.0.raw(), "done": done, "outcome": word(outcome)})
        };
        let rows: Vec<_> = restored.iter().map(row).collect();
        super::output::json(&rows)?;
    } else {
        let rows: Vec<_> =
            restored.iter().map(|(id, outcome)| vec![id.0.raw().to_owned(), word(outcome)]).collect();
        super::columns::print(&mut super::output::stdout(), &["JOB", "OUTCOME"], &rows)?;
    }
    result.map_err(|p| reach.error(&p))?;
    let whole = restored.iter().all(|(_, o)| o.is_there());
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Arguments;
    use clap::Parser as _;
    use clap::error::ErrorKind;

    #[test]
    fn a_switch_accepts_the_words_of_the_old_script() {
        for (word, is_on) in [("1", true), ("True", true), ("y", true), ("False", false), ("NO", false)] {
            assert_eq!(yes_or_no(word), Ok(is_on), "{word}");
        }
        assert!(yes_or_no("maybe").is_err());
    }

    #[test]
    fn options_that_the_journal_has_are_refused_on_a_resume() {
        let fault = |line: &str| {
            let words = std::iter::once("marin-tui").chain(line.split_whitespace());
            Arguments::try_parse_from(words).err().map(|e| e.kind())
        };
        for (command, recorded, allowed) in [
            ("restart-cluster", "--preserve-jobs, --preserve-jobs=1, --preserve-jobs=0", "--others"),
            ("update-cluster", "--restart-ray", "--now --others"),
            ("add-worker", "--type v4-8, --capacity preemptible, --count 1, --name w", "--no-wait"),
            ("init-worker", "w", "--others"),
            ("remove-worker", "w, --drain, --within 1h, --drain --within 1h, --parallel 1", "--now --others"),
        ] {
            for action in ["--resume", "--abandon"] {
                for option in recorded.split(", ") {
                    let line = format!("{command} {action} {option}");
                    assert_eq!(fault(&line), Some(ErrorKind::ArgumentConflict), "{line}");
                }
                assert_eq!(fault(&format!("{command} {action} --yes")), None, "{command}");
            }
            assert_eq!(fault(&format!("{command} --resume --take-over {allowed}")), None, "{command}");
        }
        assert_eq!(fault("restart-cluster --resume --skip-failed-step"), None);
    }
}
