//! Job commands: list, submit, stop, delete, logs, wait. Named as in Marin's old script and Ray's own command line.

mod follow;
mod logs;
mod submit;
mod table;

pub(super) use submit::entrypoint;

use super::reach::{Progress, Reach, confirm};
use crate::model::{JobStatus, JobStopOutcome, SubmissionId, Text};
use crate::ray::{JobDetail, Poller, RayError};
use crate::supervisor::{Session, delete_job, stop_job};
use clap::{Args, Subcommand};
use follow::{Following, GiveUp, Unseen};
use futures_util::future::join_all;
use serde_json::json;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// The job ended otherwise than well.
const DID_NOT_SUCCEED: u8 = 3;
/// It has not ended in the time given.
const TIMED_OUT: u8 = 4;
/// Between two looks at a job that is waited for.
const LOOK: Duration = Duration::from_secs(1);

const SUBMIT_EXAMPLES: &str = "\
Examples:
  marin-tui submit-job -- python train.py --steps 10
  marin-tui -c us-central2 submit-job --working-dir . --env WANDB_API_KEY=... -- python train.py
  marin-tui submit-job --no-wait --submission-id eval-7 --entrypoint-resources '{\"TPU\": 4}' -- python eval.py
  marin-tui submit-job --dry-run --working-dir . -- true      what would be uploaded and sent

A lost connection comes back by itself, and the log goes on where it was.

Exit codes: 0 it succeeded (or was submitted, with --no-wait), 3 it did not, 4 given up (--give-up-after), 1 it could
not be submitted.";

const WAIT_EXAMPLES: &str = "\
Example:
  marin-tui wait-job eval-7 --timeout 600 && marin-tui job-logs eval-7

A lost connection comes back by itself.

Exit codes: 0 it succeeded, 3 it ended otherwise, 4 it has not ended within the time given, or the cluster has not
answered for --give-up-after, 1 it could not be asked.";

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List jobs: those that have not ended, or all
    ListJobs(ListArguments),
    /// Submit a job and follow its log; its command stands after `--`
    #[command(after_help = SUBMIT_EXAMPLES)]
    SubmitJob(submit::SubmitArguments),
    /// Stop jobs, and see them end
    StopJob(SeveralArguments),
    /// Forget ended jobs
    DeleteJob(SeveralArguments),
    /// Print a job's log
    JobLogs(logs::LogArguments),
    /// Wait until a job has ended
    #[command(after_help = WAIT_EXAMPLES)]
    WaitJob(WaitArguments),
}

/// Which jobs to list.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Ended jobs too
    #[arg(long, short)]
    all: bool,
    /// Only those in this state: pending, running, succeeded, stopped, failed
    #[arg(long, value_name = "STATE", value_parser = state)]
    status: Option<JobStatus>,
    /// Only those of this owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Several jobs.
#[derive(Debug, Args)]
pub struct SeveralArguments {
    /// Submission ids
    #[arg(required = true, value_name = "SUBMISSION_ID")]
    ids: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How to wait.
#[derive(Debug, Args)]
pub struct WaitArguments {
    /// Submission id
    #[arg(value_name = "SUBMISSION_ID")]
    id: String,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Print its log meanwhile
    #[arg(long)]
    show_logs: bool,
    /// Print JSON when it has ended
    #[arg(long, conflicts_with = "show_logs")]
    json: bool,
    /// When the connection is lost.
    #[command(flatten)]
    give_up: GiveUp,
}

impl JobCommand {
    /// The command's name, if it would change a cluster.
    pub(super) fn changes(&self) -> Option<&'static str> {
        let name = |name, dry_run: bool| (!dry_run).then_some(name);
        match self {
            Self::SubmitJob(a) => name("submit-job", a.is_dry()),
            Self::StopJob(a) => name("stop-job", a.dry_run),
            Self::DeleteJob(a) => name("delete-job", a.dry_run),
            Self::ListJobs(_) | Self::JobLogs(_) | Self::WaitJob(_) => None,
        }
    }
}

fn state(word: &str) -> Result<JobStatus, String> {
    match JobStatus::parse(&word.to_uppercase()) {
        JobStatus::Unknown => Err("one of pending, running, succeeded, stopped, failed".into()),
        status => Ok(status),
    }
}

fn id(id: &str) -> SubmissionId {
    SubmissionId(Text::from(id))
}

/// An error of Ray as a command's, with its mend.
fn failed(reach: &Reach) -> impl Fn(RayError) -> anyhow::Error + '_ {
    |e| reach.error(&e.problem(crate::model::Timestamp::now()))
}

/// Runs a job command.
pub(super) fn run(command: &JobCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        let progress = Progress::new();
        match command {
            JobCommand::ListJobs(arguments) => list(arguments, reach, &progress).await,
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
        eprintln!("not read: {part}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn stop(arguments: &SeveralArguments, reach: &Reach, progress: &Progress) -> anyhow::Result<ExitCode> {
    let what = format!("stops {} on {}", arguments.ids.join(", "), reach.spec.name);
    if arguments.dry_run {
        return would(arguments, &what, "would be stopped");
    }
    let session = confirmed(arguments, &what, reach, progress).await?;
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
            JobStopOutcome::StillThere(word) => (id, false, still_there(&word)),
            JobStopOutcome::Unknown { why, .. } => (id, false, not_known(&why)),
            JobStopOutcome::Failed(why) => (id, false, why),
            JobStopOutcome::Asked => (id, false, "ray was asked to stop it".into()),
        })
        .collect();
    report(&rows, arguments.json)
}

fn not_known(why: &str) -> String {
    format!("not known whether it was stopped: {why}; list-jobs tells once the head answers")
}

fn still_there(word: &str) -> String {
    let mend = match word {
        // ray-project/ray#58353
        "pending" => "ray ignores the stop of a job that waits; stop it once it runs",
        _ => "ask again",
    };
    format!("ray was asked to stop it, and it is still {word}; {mend}")
}

async fn delete(
    arguments: &SeveralArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let what = format!("makes {} forget {}; their log files stay", reach.spec.name, arguments.ids.join(", "));
    if arguments.dry_run {
        return would(arguments, &what, "would be deleted");
    }
    let session = confirmed(arguments, &what, reach, progress).await?;
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

/// Asks, with the jobs, their owners and their states listed above the question; the cluster once the answer is yes.
async fn confirmed(
    arguments: &SeveralArguments,
    what: &str,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<Session> {
    // Without a terminal nobody can be asked, and nobody has to log in to be told so.
    if arguments.yes || !std::io::stdin().is_terminal() {
        confirm(what, arguments.yes)?;
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
    super::columns::print(&mut super::output::stderr(), &["JOB", "OWNER", "STATE"], &rows)?;
    match confirm(what, false) {
        Ok(()) => Ok(session),
        Err(no) => {
            session.close().await;
            Err(no)
        }
    }
}

/// What a dry run says: a sentence, or the rows that the real one would print.
fn would(arguments: &SeveralArguments, what: &str, outcome: &str) -> anyhow::Result<ExitCode> {
    if arguments.json {
        let rows: Vec<_> = arguments.ids.iter().map(|id| (id, true, outcome.to_owned())).collect();
        return report(&rows, true);
    }
    println!("{}", crate::model::text::printable(what));
    Ok(ExitCode::SUCCESS)
}

/// One line a job: what became of it; failure when one failed.
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
                let state = status.map_or("in an unknown state", JobStatus::word);
                eprintln!("{id} is still {state} after {} s", arguments.timeout.unwrap_or(0));
            }
            Ok(ExitCode::from(TIMED_OUT))
        }
    }
}

/// Says how it ended, and with which code a command ends then.
fn conclude(following: &Following<'_>, id: &SubmissionId, ended: Result<JobStatus, Unseen>) -> ExitCode {
    match ended {
        Ok(status) => {
            eprintln!("{id} {}", status.word());
            verdict(status)
        }
        Err(Unseen::GaveUp) => {
            following.gave_up(id);
            ExitCode::from(TIMED_OUT)
        }
        Err(Unseen::Lost(why)) => {
            eprintln!("{why}");
            ExitCode::from(DID_NOT_SUCCEED)
        }
    }
}

fn verdict(ended: JobStatus) -> ExitCode {
    if ended == JobStatus::Succeeded { ExitCode::SUCCESS } else { ExitCode::from(DID_NOT_SUCCEED) }
}
