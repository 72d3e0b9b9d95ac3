//! Operations from a shell: restart, start and stop a cluster, back its jobs up and restore them, and the audit log.

use super::reach::{Progress as Telling, Reach, confirm};
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{Doomed, Operation, OperationKind, Problem, Progress, StepName, SubmissionId};
use crate::operation::{
    Journal, Performer, Restored, Restoring, Unfinished, back_up, calls, preflight, preview, restore,
};
use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::sync::mpsc;

const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 restart-cluster --dry-run     the steps, and whom they hit
  marin-tui -c us-central2 restart-cluster               asks first
  marin-tui -c us-central2 restart-cluster --resume      go on where it stopped, also after a crash
  marin-tui -c us-central2 restart-cluster --abandon     forget it; a backup that was made stays

Ctrl-C ends it at once, with what it runs here; it says where, and how to go on.

Exit codes: 0 done, 1 a step failed or was interrupted (it says which, and how to go on).";

/// What to do with a whole cluster.
#[derive(Debug, Subcommand)]
pub enum OperateCommand {
    /// Stop a cluster and start it again, with its jobs
    #[command(after_help = EXAMPLES)]
    RestartCluster(RestartArguments),
    /// Start a cluster
    StartCluster(OperateArguments),
    /// Stop a cluster; its jobs are lost (backup-jobs saves them)
    StopCluster(OperateArguments),
    /// Save the jobs that have not ended into a folder, with their packages
    BackupJobs(FolderArguments),
    /// Submit the jobs of a backup, each once
    RestoreJobs(FolderArguments),
}

/// How to restart.
#[derive(Debug, Args)]
pub struct RestartArguments {
    /// Save the jobs and submit them again
    #[arg(long, value_name = "1|0", default_value = "1", value_parser = yes_or_no, action = clap::ArgAction::Set)]
    preserve_jobs: bool,
    /// Restart although other people's jobs run
    #[arg(long)]
    others: bool,
    /// What all operations take.
    #[command(flatten)]
    common: OperateArguments,
}

/// What all operations take.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub struct OperateArguments {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Say the steps, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on with the operation that stopped
    #[arg(long, conflicts_with_all = ["abandon", "dry_run"])]
    resume: bool,
    /// With --resume: go on although a machine could not be cleared
    #[arg(long, requires = "resume")]
    leave: bool,
    /// Forget the operation that stopped
    #[arg(long, conflicts_with = "dry_run")]
    abandon: bool,
}

/// A backup's folder.
#[derive(Debug, Args)]
pub struct FolderArguments {
    /// The folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl OperateCommand {
    /// The command's name, if it would change a cluster.
    pub(super) fn changes(&self) -> Option<&'static str> {
        let name = |name, dry_run: bool| (!dry_run).then_some(name);
        match self {
            Self::RestartCluster(a) => name("restart-cluster", a.common.dry_run),
            Self::StartCluster(a) => name("start-cluster", a.dry_run),
            Self::StopCluster(a) => name("stop-cluster", a.dry_run),
            Self::BackupJobs(_) => None,
            Self::RestoreJobs(a) => name("restore-jobs", a.dry_run),
        }
    }
}

fn yes_or_no(word: &str) -> Result<bool, String> {
    match word {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err("1 or 0".into()),
    }
}

/// Runs an operation.
pub(super) fn run(command: &OperateCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        match command {
            OperateCommand::RestartCluster(a) => {
                operate(OperationKind::Restart, a.preserve_jobs, a.others, &a.common, reach).await
            }
            OperateCommand::StartCluster(a) => operate(OperationKind::Start, false, true, a, reach).await,
            OperateCommand::StopCluster(a) => operate(OperationKind::Stop, false, true, a, reach).await,
            OperateCommand::BackupJobs(a) => back_up_jobs(a, reach).await,
            OperateCommand::RestoreJobs(a) => restore_jobs(a, reach).await,
        }
    })
}

async fn operate(
    kind: OperationKind,
    preserve: bool,
    others: bool,
    arguments: &OperateArguments,
    reach: &Reach,
) -> anyhow::Result<ExitCode> {
    preflight(&reach.spec, kind).map_err(|p| reach.error(&p))?;
    let mut journal = Journal::open(&reach.folders.state, &reach.spec.name)?;
    let unfinished = journal.unfinished().cloned();
    let operation = match &unfinished {
        Some(u) => Operation::new(u.kind, reach.spec.name.clone(), u.preserve),
        None => Operation::new(kind, reach.spec.name.clone(), preserve),
    };
    if let Some(u) = &unfinished {
        if arguments.abandon {
            journal.end("abandoned")?;
            reach.note(&operation.title, "abandoned");
            eprintln!("{} is forgotten{}", operation.title, saved_where(u));
            return Ok(ExitCode::SUCCESS);
        }
        anyhow::ensure!(arguments.resume, "{}", stopped(u, &operation));
        anyhow::ensure!(
            u.kind == kind,
            "{}; resume it with {}-cluster",
            stopped(u, &operation),
            u.kind.word()
        );
    } else {
        anyhow::ensure!(
            !arguments.resume && !arguments.abandon,
            "no operation on {} stopped half way",
            reach.spec.name
        );
        print_steps(&operation);
        if kind != OperationKind::Start {
            eprintln!("for the team's channel: {}", operation.announcement());
            who_is_hit(&operation, reach, others || arguments.dry_run).await?;
        }
        if arguments.dry_run {
            let calls =
                Box::pin(calls(&reach.spec, &reach.options, kind)).await.map_err(|p| reach.error(&p))?;
            eprintln!("the calls and commands, in order:");
            for call in &calls {
                println!("{}", printable(call));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if operation.destructive {
            confirm_by_name(&operation, arguments.yes)?;
        }
        journal.begin(kind, preserve)?;
    }
    perform(&operation, unfinished, &mut journal, arguments.leave, reach).await
}

async fn perform(
    operation: &Operation,
    unfinished: Option<Unfinished>,
    journal: &mut Journal,
    leave: bool,
    reach: &Reach,
) -> anyhow::Result<ExitCode> {
    let mut done = unfinished.as_ref().map(|u| u.done.clone()).unwrap_or_default();
    if leave && !done.iter().any(|(s, _)| *s == StepName::Clear) {
        done.push((StepName::Clear, "left as they are".to_owned()));
    }
    let was_harmless = unfinished.as_ref().is_none_or(|u| u.is_harmless(operation));
    let preserve = operation.number(StepName::Backup) > 0;
    let facts = unfinished.map(|u| u.facts).unwrap_or_default();
    let mut performer = Performer {
        spec: reach.spec.clone(),
        place: reach.place,
        options: reach.options.clone(),
        state: reach.folders.state.clone(),
        preserve,
        facts,
    };
    let (tell, mut heard) = mpsc::unbounded_channel();
    let shown = operation.clone();
    let showing = tokio::spawn(async move {
        let mut at = None;
        while let Some(progress) = heard.recv().await {
            if let Progress::Began(step) = progress {
                at = Some(step);
            }
            show(&shown, &progress);
        }
        at
    });
    let interrupted = crate::tui::quit_signals()?;
    let ended = tokio::select! {
        ended = performer.run(operation, journal, &done, &tell) => Some(ended),
        () = interrupted => None,
    };
    drop(tell);
    let saved = performer.facts.backup.filter(|b| b.join("jobs.json").exists());
    let saved = saved.map_or_else(String::new, |b| format!("; the jobs are saved in {}", b.display()));
    match ended {
        Some(Ok(())) => {
            showing.await?;
            reach.note(&operation.title, "done");
            println!("{}: done", operation.title);
            Ok(ExitCode::SUCCESS)
        }
        Some(Err(problem)) => {
            reach.note(&operation.title, &format!("stopped: {}", problem.what));
            showing.await?;
            let Problem { what, mend, .. } = problem;
            anyhow::bail!("{} stopped: {what}; {mend}{saved}", operation.title)
        }
        None => {
            // Without a terminal nothing can be shown any more.
            let at = showing.await.ok().flatten();
            let said = interrupted_at(operation, at, was_harmless, journal, reach)?;
            anyhow::bail!("{said}{saved}")
        }
    }
}

/// Writes down that somebody wanted an end, and what that means. Where nothing was changed yet there is nothing to
/// resume.
fn interrupted_at(
    operation: &Operation,
    at: Option<StepName>,
    was_harmless: bool,
    journal: &mut Journal,
    reach: &Reach,
) -> anyhow::Result<String> {
    let title = &operation.title;
    if was_harmless && at.is_none_or(|step| operation.is_harmless_at(step)) {
        journal.end("cancelled")?;
        reach.note(title, "cancelled");
        return Ok(format!("{title} is cancelled; nothing was changed"));
    }
    let step = at.unwrap_or(StepName::Check);
    let place = format!("{} of {} ({})", operation.number(step), operation.steps.len(), step.word());
    journal.failed(step, &format!("interrupted at step {place}"))?;
    reach.note(title, &format!("stopped: interrupted at step {place}"));
    Ok(format!("{title} stopped: interrupted at step {place}; --resume goes on, --abandon forgets it"))
}

fn show(operation: &Operation, progress: &Progress) {
    let place = |step| format!("{}/{}", operation.number(step), operation.steps.len());
    match progress {
        Progress::Began(step) => eprintln!("[{}] {}", place(*step), step.what()),
        Progress::Output(line) => eprintln!("      {}", crate::model::text::log_line(line)),
        Progress::Done(step, said) => eprintln!("[{}] {}", place(*step), printable(said)),
        Progress::Skipped(step, said) => eprintln!("[{}] done before: {}", place(*step), printable(said)),
        Progress::Failed(step, problem) => eprintln!("[{}] failed: {}", place(*step), problem.what),
    }
}

fn print_steps(operation: &Operation) {
    eprintln!("{}: {}", operation.title, operation.consequence);
    for (i, step) in operation.steps.iter().enumerate() {
        eprintln!("  {}. {}", i + 1, step.what());
    }
}

fn stopped(u: &Unfinished, operation: &Operation) -> String {
    let at = u.next(operation).map_or_else(String::new, |s| {
        format!(" at step {} of {} ({})", operation.number(s), operation.steps.len(), s.what())
    });
    let why = if u.why.is_empty() { String::new() } else { format!(": {}", printable(&u.why)) };
    format!("{} stopped{at}{why}{}; --resume goes on, --abandon forgets it", operation.title, saved_where(u))
}

fn saved_where(u: &Unfinished) -> String {
    match u.facts.backup.as_ref().filter(|b| b.join("jobs.json").exists()) {
        Some(folder) => format!("; its jobs are saved in {}", folder.display()),
        None => String::new(),
    }
}

/// Lists the jobs that would end. Other people's stand in the way unless that was said.
async fn who_is_hit(operation: &Operation, reach: &Reach, others: bool) -> anyhow::Result<()> {
    let progress = Telling::new();
    let session = match reach.connect(&progress).await {
        Ok(session) => session,
        Err(e) => {
            eprintln!("whose jobs run cannot be told: {e}");
            return Ok(());
        }
    };
    progress.tell("looking which jobs run");
    let me = reach.env.var("USER").unwrap_or_default();
    let preserve = operation.number(StepName::Backup) > 0;
    let preview = preview(&session.client, me, operation.kind, preserve).await;
    session.close().await;
    let preview = preview.map_err(|p| reach.error(&p))?;
    let now = crate::model::Timestamp::now();
    let row = |job: &Doomed| {
        let age = job.started.map_or_else(|| "?".to_owned(), |at| brief(at.age(now)));
        let owner = job.owner.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        vec![job.key.to_string(), owner, job.status.word().to_owned(), age, job.holding(), job.fate.words()]
    };
    let rows: Vec<_> = preview.jobs.iter().map(row).collect();
    let titles = ["JOB", "OWNER", "STATE", "AGE", "HOLDS", "COMES BACK"];
    if !rows.is_empty() {
        super::columns::print(&mut std::io::stderr().lock(), &titles, &rows)?;
    }
    let strangers = preview.strangers();
    anyhow::ensure!(
        others || strangers.is_empty(),
        "jobs of {} run on {}: ask them, then say --others",
        strangers.join(", "),
        reach.spec.name
    );
    Ok(())
}

/// The name must be typed: `y` is typed too fast.
fn confirm_by_name(operation: &Operation, yes: bool) -> anyhow::Result<()> {
    use std::io::{self, BufRead, IsTerminal, Write};
    if yes || !io::stdin().is_terminal() {
        return confirm(&format!("{}: {}", operation.title, operation.consequence), yes);
    }
    eprint!("type the cluster's name to go on: ");
    io::stderr().flush()?;
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    anyhow::ensure!(typed.trim() == operation.cluster.as_str(), "nothing was done");
    Ok(())
}

async fn back_up_jobs(arguments: &FolderArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let progress = Telling::new();
    let session = reach.connect(&progress).await?;
    if arguments.dry_run {
        let open = session.client.open_submissions().await;
        session.close().await;
        let open = open.map_err(|e| reach.error(&e.problem(crate::model::Timestamp::now())))?;
        for job in &open {
            println!("{}", printable(&job.submission.submission_id));
        }
        return Ok(ExitCode::SUCCESS);
    }
    progress.tell("saving the jobs");
    let dir = std::path::absolute(&arguments.dir).context("no such folder")?;
    let backed = back_up(&session.client, reach.spec.name.as_str(), &dir).await;
    session.close().await;
    let backed = backed.map_err(|p| reach.error(&p))?;
    if arguments.json {
        let jobs: Vec<_> = backed
            .kept
            .iter()
            .map(|k| json!({"submission_id": k.submission.submission_id, "missing_packages": k.missing}))
            .collect();
        let left: Vec<_> = backed
            .left_out
            .iter()
            .map(|(id, why)| json!({"submission_id": id.0.raw(), "why": why}))
            .collect();
        println!("{}", serde_json::to_string_pretty(&json!({"dir": dir, "jobs": jobs, "left_out": left}))?);
    } else {
        println!("{} jobs in {}", backed.kept.len(), dir.display());
        for kept in backed.kept.iter().filter(|k| !k.missing.is_empty()) {
            let id = printable(&kept.submission.submission_id);
            println!(
                "{id} cannot be restored: its package is gone ({})",
                printable(&kept.missing.join(", "))
            );
        }
        backed.left_out.iter().for_each(|(id, why)| println!("{id} is left out: {why}"));
    }
    reach.note("backup-jobs", &format!("{} jobs in {}", backed.kept.len(), dir.display()));
    let whole = backed.kept.iter().all(|k| k.missing.is_empty());
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn restore_jobs(arguments: &FolderArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let how = if arguments.dry_run { Restoring::Dry } else { Restoring::ForReal };
    let progress = Telling::new();
    let session = reach.connect(&progress).await?;
    progress.tell("restoring the jobs");
    let restored = restore(&session.client, &arguments.dir, how).await;
    session.close().await;
    let restored = restored.map_err(|p| reach.error(&p))?;
    let word = |outcome: &Restored| match outcome {
        Restored::Submitted if how == Restoring::Dry => "would be submitted".to_owned(),
        Restored::Submitted => "submitted".to_owned(),
        Restored::AlreadyThere => "already there".to_owned(),
        Restored::Failed(why) => format!("not restored: {why}"),
    };
    if arguments.json {
        let row = |(id, outcome): &(SubmissionId, Restored)| {
            let done = !matches!(outcome, Restored::Failed(_));
            json!({"submission_id": id.0.raw(), "done": done, "outcome": word(outcome)})
        };
        let rows: Vec<_> = restored.iter().map(row).collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        let rows: Vec<_> =
            restored.iter().map(|(id, outcome)| vec![id.0.raw().to_owned(), word(outcome)]).collect();
        super::columns::print(&mut std::io::stdout().lock(), &["JOB", "OUTCOME"], &rows)?;
    }
    let submitted = restored.iter().filter(|(_, o)| *o == Restored::Submitted).count();
    if how == Restoring::ForReal {
        reach.note("restore-jobs", &format!("{submitted} submitted"));
    }
    let whole = !restored.iter().any(|(_, o)| matches!(o, Restored::Failed(_)));
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
