//! Job commands: list, submit, stop, delete, logs, wait. Named as in Marin's old script and Ray's own command line.

mod follow;
mod logs;
mod status;
mod submit;
mod table;
mod verdict;

pub(super) use submit::entrypoint;

use super::completions;
use super::reach::{Progress, Reach, confirm};
use crate::model::{JobStatus, JobStopOutcome, SubmissionId};
use crate::ray::{JobDetail, Poller};
use crate::supervisor::{Session, delete_job, stop_job};
use clap::{Args, Subcommand};
use follow::{Following, GiveUp, Unseen, failed, id};
use futures_util::future::join_all;
use serde_json::json;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use verdict::{TIMED_OUT, conclude, verdict};

const SUBMIT_EXAMPLES: &str = "\
Examples:
  marin-tui submit-job -- python train.py --steps 10
  marin-tui -c us-central2 submit-job --working-dir . --env WANDB_API_KEY=... -- python train.py
  marin-tui submit-job --no-wait --submission-id eval-7 -- python eval.py
  marin-tui submit-job --entrypoint-resources '{\"TPU\": 4}' -- python train.py
  marin-tui submit-job --dry-run --working-dir . -- true      show what would be uploaded and sent

After a lost connection the command reconnects and continues the log.

Exit codes: 0 the job succeeded (with --no-wait: was submitted), 3 the job did not succeed, 4 timed out \
(--give-up-after), 1 the job could not be submitted.";

const WAIT_EXAMPLES: &str = "\
Examples:
  marin-tui wait-job eval-7 --timeout 600 && marin-tui job-logs eval-7

After a lost connection the command reconnects.

Exit codes: 0 the job succeeded, 3 the job ended otherwise, 4 timed out (--timeout, or no answer from the cluster for \
--give-up-after), 1 the status could not be read.";

/// Commands on jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List jobs that have not ended, or all jobs
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 list-jobs                     jobs that have not ended
  marin-tui -c us-central2 list-jobs --all --status failed --owner hana")]
    ListJobs(ListArguments),
    /// Show a job: status, since when, message, exit code, node, owner, command
    #[command(after_help = status::EXAMPLES)]
    JobStatus(status::StatusArguments),
    /// Submit a job and follow its log; the job's command comes after `--`
    #[command(after_help = SUBMIT_EXAMPLES)]
    SubmitJob(submit::SubmitArguments),
    /// Stop jobs and wait until they end
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 stop-job eval-7               name the owner, confirm, stop, wait
  marin-tui -c us-central2 stop-job eval-7 eval-8 --dry-run

Exit codes: 0 all jobs have ended, 1 a job could not be stopped or is still running.")]
    StopJob(SeveralArguments),
    /// Delete records of ended jobs
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 delete-job eval-7             delete the record after confirmation
  marin-tui -c us-central2 delete-job eval-7 eval-8 --yes")]
    DeleteJob(SeveralArguments),
    /// Print a job's log
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 job-logs eval-7               the last 1000 lines
  marin-tui -c us-central2 job-logs eval-7 -f -g 'loss|Error'

Exit codes: 0 the log was printed (with --follow: the job succeeded), 3 the job did not succeed \
(with --follow), 4 no answer from the cluster for --give-up-after, 1 the log could not be read.")]
    JobLogs(logs::LogArguments),
    /// Wait until a job ends
    #[command(after_help = WAIT_EXAMPLES)]
    WaitJob(WaitArguments),
}

/// Options of `list-jobs`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Include ended jobs
    #[arg(long, short)]
    all: bool,
    /// Only jobs with this status: pending, running, succeeded, stopped, failed
    #[arg(long, value_name = "STATE", value_parser = state)]
    status: Option<JobStatus>,
    /// Only jobs of this owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `stop-job` and `delete-job`.
#[derive(Debug, Args)]
pub struct SeveralArguments {
    /// Submission ids of the jobs, as `list-jobs` prints them
    #[arg(required = true, value_name = "SUBMISSION_ID", add = completions::jobs())]
    ids: Vec<String>,
    /// Skip confirmation
    #[arg(long, short)]
    yes: bool,
    /// Show what would be done; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `wait-job`.
#[derive(Debug, Args)]
pub struct WaitArguments {
    /// Submission id of the job
    #[arg(value_name = "SUBMISSION_ID", add = completions::jobs())]
    id: String,
    /// Exit with code 4 if the job has not ended after this many seconds [default: no limit]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Print the log while waiting
    #[arg(long)]
    show_logs: bool,
    /// Print JSON when the job has ended
    #[arg(long, conflicts_with = "show_logs")]
    json: bool,
    /// How long to reconnect after a lost connection.
    #[command(flatten)]
    give_up: GiveUp,
}

impl JobCommand {
    /// The command's name if it changes a cluster; a read-only session refuses it then.
    pub(super) fn changes(&self) -> Option<&'static str> {
        let name = |name, dry_run: bool| (!dry_run).then_some(name);
        match self {
            Self::SubmitJob(a) => name("submit-job", a.is_dry()),
            Self::StopJob(a) => name("stop-job", a.dry_run),
            Self::DeleteJob(a) => name("delete-job", a.dry_run),
            Self::ListJobs(_) | Self::JobStatus(_) | Self::JobLogs(_) | Self::WaitJob(_) => None,
        }
    }
}

fn state(word: &str) -> Result<JobStatus, String> {
    match JobStatus::parse(&word.to_uppercase()) {
        JobStatus::Unknown => Err("one of pending, running, succeeded, stopped, failed".into()),
        status => Ok(status),
    }
}

/// Runs a job command.
pub(super) fn run(command: &JobCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        let progress = Progress::new();
        match command {
            JobCommand::ListJobs(arguments) => list(arguments, reach, &progress).await,
            JobCommand::JobStatus(arguments) => status::run(arguments, reach, &progress).await,
            JobCommand::SubmitJob(arguments) => submit::run(arguments, reach, &progress).await,
            JobCommand::StopJob(arguments) => stop(arguments, reach, &progress).await,
            JobCommand::DeleteJob(arguments) => delete(arguments, reach, &progress).await,
            JobCommand::JobLogs(arguments) => logs::run(arguments, reach, &progress).await,
            JobCommand::WaitJob(arguments) => wait(arguments, reach, &progress).await,
        }
    })
}

async fn list(arguments: &ListArguments, reach: &Reach, progress: &Progress) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    progress.tell("reading the jobs");
    let snapshot = Poller::new(session.client.clone()).refresh().await.map_err(failed(reach))?;
    session.close().await;
    let wanted = |job: &crate::model::Job| {
        let open = arguments.all || arguments.status.is_some() || !job.status.is_ended();
        let status = arguments.status.is_none_or(|s| s == job.status);
        open && status && arguments.owner.as_deref().is_none_or(|o| job.owner() == Some(o))
    };
    let jobs: Vec<_> = snapshot.jobs.iter().filter(|job| wanted(job)).cloned().collect();
    table::print(&jobs, arguments.json)?;
    for part in &snapshot.missing {
        eprintln!("incomplete: {part}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn stop(arguments: &SeveralArguments, reach: &Reach, progress: &Progress) -> anyhow::Result<ExitCode> {
    let what = format!("{} on {}", arguments.ids.join(", "), reach.spec.name);
    if arguments.dry_run {
        return would(arguments, &format!("would stop {what}"), "would be stopped");
    }
    let session = confirmed(arguments, &format!("Stop {what}?"), reach, progress).await?;
    progress.tell("waiting for the jobs to end");
    let stops = arguments.ids.iter().map(async |name| stop_job(&session, &id(name)).await);
    let outcomes = join_all(stops).await;
    session.close().await;
    for (id, outcome) in arguments.ids.iter().zip(&outcomes) {
        reach.note(&format!("stop-job {id}"), &outcome.noted().unwrap_or_else(|| "asked".to_owned()));
    }
    let rows: Vec<_> = arguments
        .ids
        .iter()
        .zip(outcomes)
        .map(|(id, outcome)| match outcome {
            JobStopOutcome::Ended(word) => (id, true, word),
            JobStopOutcome::StillThere(status) => (id, false, still_there(status)),
            JobStopOutcome::Unknown { why, .. } => (id, false, not_known(&why)),
            JobStopOutcome::Failed(why) => (id, false, why),
            JobStopOutcome::Asked => (id, false, "stop requested".into()),
        })
        .collect();
    report(&rows, arguments.json)
}

fn not_known(why: &str) -> String {
    format!("stop not confirmed: {why}; check with list-jobs once the head answers")
}

fn still_there(status: JobStatus) -> String {
    let hint = match status {
        // See ray-project/ray#58353.
        JobStatus::Pending => "Ray ignores stop requests for pending jobs; stop it once it is running",
        _ => "try again",
    };
    format!("stop requested, but the job is still {}; {hint}", status.word())
}

async fn delete(
    arguments: &SeveralArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let what = format!("{} on {}", arguments.ids.join(", "), reach.spec.name);
    if arguments.dry_run {
        let sentence = format!("would delete the records of {what}; log files are kept");
        return would(arguments, &sentence, "would be deleted");
    }
    let session =
        confirmed(arguments, &format!("Delete the records of {what}? Log files are kept."), reach, progress)
            .await?;
    progress.tell("deleting");
    let mut rows = Vec::new();
    for name in &arguments.ids {
        rows.push(match delete_job(&session.client, &id(name)).await {
            Ok(()) => (name, true, "deleted".to_owned()),
            Err(why) => (name, false, why),
        });
    }
    session.close().await;
    for (id, _, outcome) in &rows {
        reach.note(&format!("delete-job {id}"), outcome);
    }
    report(&rows, arguments.json)
}

/// Asks with a list of the jobs, their owners and their states; returns the cluster when the answer is yes.
async fn confirmed(
    arguments: &SeveralArguments,
    question: &str,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<Session> {
    // Without a terminal there is no one to ask, and no login is needed to find that out.
    if arguments.yes || !std::io::stdin().is_terminal() {
        confirm(question, arguments.yes)?;
        return reach.connect(progress).await;
    }
    let session = reach.connect(progress).await?;
    progress.tell("reading the jobs");
    let named: Vec<SubmissionId> = arguments.ids.iter().map(|name| id(name)).collect();
    let details = join_all(named.iter().map(|id| session.client.job(id))).await;
    let rows: Vec<_> = arguments
        .ids
        .iter()
        .zip(details)
        .map(|(id, detail)| match detail {
            Ok(JobDetail { job, .. }) => vec![id.clone(), job.owner_words(), job.status.word().to_owned()],
            Err(error) => vec![id.clone(), "?".to_owned(), error.to_string()],
        })
        .collect();
    progress.hush();
    super::columns::print(&mut super::output::stderr(), &["JOB", "OWNER", "STATUS"], &rows)?;
    match confirm(question, false) {
        Ok(()) => Ok(session),
        Err(no) => {
            session.close().await;
            Err(no)
        }
    }
}

/// Prints the result of a dry run: a sentence, or with `--json` the rows that the real run would print.
fn would(arguments: &SeveralArguments, what: &str, outcome: &str) -> anyhow::Result<ExitCode> {
    if arguments.json {
        let rows: Vec<_> = arguments.ids.iter().map(|id| (id, true, outcome.to_owned())).collect();
        return report(&rows, true);
    }
    println!("{}", crate::model::text::printable(what));
    Ok(ExitCode::SUCCESS)
}

/// Prints the outcome of each job; the exit code is a failure when one failed.
fn report(rows: &[(&String, bool, String)], as_json: bool) -> anyhow::Result<ExitCode> {
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(id, ok, what)| json!({"submission_id": id, "done": ok, "outcome": what}))
            .collect();
        super::output::json(&rows)?;
    } else {
        let lines: Vec<_> = rows.iter().map(|(id, _, what)| vec![(*id).clone(), what.clone()]).collect();
        super::columns::print(&mut super::output::stdout(), &["JOB", "OUTCOME"], &lines)?;
    }
    let all = rows.iter().all(|(_, ok, _)| *ok);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn wait(arguments: &WaitArguments, reach: &Reach, progress: &Progress) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let id = id(&arguments.id);
    let limit = arguments.timeout.map(Duration::from_secs);
    // An id that ray does not know is an error now, not a wait.
    let first = session.client.job(&id).await.map_err(failed(reach))?;
    progress.tell(format!("waiting for {id}"));
    let mut following = Following::new(reach, &session, arguments.give_up);
    following.seen = Some(first.job.status);
    let ended = async {
        if arguments.show_logs {
            following.log_and_end(&id, crate::ray::WHOLE_LOG, |lines| logs::print(lines, None)).await
        } else {
            following.end(&id).await
        }
    };
    let in_time = match limit {
        None => Some(ended.await?),
        Some(limit) => tokio::time::timeout(limit, ended).await.ok().transpose()?,
    };
    session.close().await;
    let status = following.seen;
    let has_ended = matches!(in_time, Some(Ok(_)));
    if arguments.json {
        let word = status.map(JobStatus::word);
        let is_lost = matches!(in_time, Some(Err(Unseen::Lost(_))));
        super::output::json_line(
            &json!({"submission_id": arguments.id, "status": word, "ended": has_ended, "lost": is_lost}),
        )?;
    }
    match in_time {
        Some(Ok(ended)) if arguments.json => Ok(verdict(ended)),
        Some(ended) => Ok(conclude(&following, &id, ended)),
        None => {
            if !arguments.json {
                let state = status.map_or("of unknown status", JobStatus::word);
                eprintln!("{id} is still {state} after {} s", arguments.timeout.unwrap_or(0));
            }
            Ok(ExitCode::from(TIMED_OUT))
        }
    }
}
