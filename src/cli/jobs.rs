//! Job commands: list, submit, stop, delete, logs, wait. Named as in Marin's old script and Ray's own command line.

mod explain;
mod follow;
mod list;
mod log_source;
mod logs;
mod merged;
mod merged_follow;
mod reader;
mod row;
mod several;
mod stacks;
mod status;
mod stop;
mod submit;
mod table;
mod verdict;
mod vitals;
mod workers;

pub(super) use follow::{Following, GiveUp};
pub(super) use log_source::LogSource;
pub(super) use logs::head_alone;
pub(super) use reader::report_timeless;
pub(super) use submit::entrypoint;
pub(super) use verdict::TIMED_OUT;

use super::candidates;
use super::reach::{Progress, Reach};
use crate::model::JobStatus;
use crate::model::time::{brief, limit};
use clap::{Args, Subcommand};
use follow::{FollowError, failed, id};
use list::ListArguments;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use verdict::{conclude, verdict};

const SUBMIT_EXAMPLES: &str = "\
Examples:
  marin-tui submit-job -- python train.py --steps 10
  marin-tui -c us-central2 submit-job --working-dir . --env WANDB_API_KEY -- python train.py
  marin-tui submit-job --no-wait --submission-id eval-7 -- python eval.py
  marin-tui submit-job --entrypoint-resources '{\"TPU\": 4}' -- python train.py
  marin-tui submit-job --entrypoint-label-selector '{\"disk\": \"ssd\"}' -- python train.py
  marin-tui submit-job --tpu v4-128 --pass-env HF_TOKEN --pass-env GIT_COMMIT -- python train.py
  marin-tui submit-job --dry-run --working-dir . -- true      show what would be uploaded and sent

After a lost connection the command reconnects and continues the log.

Exit codes: 0 the job succeeded (with --no-wait: was submitted), 3 the job did not succeed, 4 timed out \
(--give-up-after), 1 the job could not be submitted.";

const WAIT_EXAMPLES: &str = "\
Examples:
  marin-tui wait-job eval-7 --timeout 600 && marin-tui job-logs eval-7

After a lost connection the command reconnects.

Exit codes: 0 the job succeeded, 3 the job did not succeed, 4 timed out (--timeout, or no response from the cluster for \
--give-up-after), 1 the status could not be read.";

/// Commands on jobs.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "only one value exists, for the lifetime of the program")]
pub enum JobCommand {
    /// List the jobs of all clusters or of one: those that have not ended, or all
    #[command(after_help = list::EXAMPLES)]
    ListJobs(ListArguments),
    /// Show a job's status, start time, message, exit code, node, owner and command
    #[command(after_help = status::EXAMPLES)]
    JobStatus(status::StatusArguments),
    /// Submit a job and follow its log; the job's command comes after `--`
    #[command(after_help = SUBMIT_EXAMPLES)]
    SubmitJob(submit::SubmitArguments),
    /// Stop jobs and wait until they end
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 stop-job eval-7               show the owner, confirm, stop, wait
  marin-tui -c us-central2 stop-job eval-7 eval-8 --dry-run
  marin-tui -c us-central2 stop-job eval-7 --others      also if it is not known to be yours
  marin-tui -c us-central2 stop-job - -y < ids.txt       ids from a file or a pipe, one in each line

If any of the jobs belongs to someone else or has no known owner, none is stopped without --others; --yes alone is not \
enough. Your own jobs are those whose owner is $USER (or $LOGNAME).

Exit codes: 0 all jobs have ended, 1 a job could not be stopped or is still running, or --others is missing.")]
    StopJob(stop::StopArguments),
    /// Delete records of ended jobs
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 delete-job eval-7             delete the record after confirmation
  marin-tui -c us-central2 delete-job eval-7 eval-8 --yes
  marin-tui -c us-central2 delete-job - --yes < ids      ids from stdin, one per line")]
    DeleteJob(several::SeveralArguments),
    /// Print a job's log
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 job-logs eval-7               the last 1000 lines
  marin-tui -c us-central2 job-logs eval-7 -f -n 100     the last 100 lines, then new lines
  marin-tui -c us-central2 job-logs eval-7 -f -g 'loss|Error'
  marin-tui -c us-central2 job-logs eval-7 -g RESOURCE_EXHAUSTED   search the whole log on the head
  marin-tui -c us-central2 job-logs eval-7 --since 10m   by the timestamps in the lines
  marin-tui job-logs eval-7 --workers --since 10m        the lines of all workers in time order
  marin-tui job-logs eval-7 --workers --fold             identical lines once
  marin-tui job-logs eval-7 --workers -f -n 20           the last 20 lines of each, then new lines

Exit codes: 0 the log was printed (with --follow: the job succeeded), 1 it could not be read, or with --grep and \
without --follow: no line matches, 3 the job did not succeed (with --follow), 4 no response from the cluster for \
--give-up-after.")]
    JobLogs(logs::LogArguments),
    /// List a job's workers with their last log line, its age and step; silent and lagging workers first
    #[command(after_help = workers::EXAMPLES)]
    JobWorkers(workers::WorkersArguments),
    /// Explain why a job failed, hangs or is pending: the earliest error across its workers, and what followed
    #[command(after_help = explain::EXAMPLES)]
    ExplainJob(explain::ExplainArguments),
    /// Show the Python stacks of a job's workers, with identical stacks grouped
    #[command(after_help = stacks::EXAMPLES)]
    Stacks(stacks::StacksArguments),
    /// Wait until a job ends
    #[command(after_help = WAIT_EXAMPLES)]
    WaitJob(WaitArguments),
}

/// Options of `wait-job`.
#[derive(Debug, Args)]
pub struct WaitArguments {
    /// Submission id of the job
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Exit with code 4 if the job has not ended after this long, e.g. 2h [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    timeout: Option<Duration>,
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
    /// The command's name if it changes a cluster, which a read-only session refuses.
    pub(super) fn changes(&self) -> Option<&'static str> {
        let name = |name, dry_run: bool| (!dry_run).then_some(name);
        match self {
            Self::SubmitJob(a) => name("submit-job", a.is_dry()),
            Self::StopJob(a) => name("stop-job", a.is_dry()),
            Self::DeleteJob(a) => name("delete-job", a.is_dry()),
            Self::ListJobs(_)
            | Self::JobStatus(_)
            | Self::JobLogs(_)
            | Self::JobWorkers(_)
            | Self::ExplainJob(_)
            | Self::Stacks(_)
            | Self::WaitJob(_) => None,
        }
    }
}

/// Runs a job command.
pub(super) fn run(command: &JobCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        let progress = Progress::new();
        match command {
            JobCommand::ListJobs(arguments) => list::run(arguments, reach, &progress).await,
            JobCommand::JobStatus(arguments) => status::run(arguments, reach, &progress).await,
            JobCommand::SubmitJob(arguments) => submit::run(arguments, reach, &progress).await,
            JobCommand::StopJob(arguments) => stop::stop(arguments, reach, &progress).await,
            JobCommand::DeleteJob(arguments) => several::delete(arguments, reach, &progress).await,
            JobCommand::JobLogs(arguments) => logs::run(arguments, reach, &progress).await,
            JobCommand::JobWorkers(arguments) => workers::run(arguments, reach, &progress).await,
            JobCommand::ExplainJob(arguments) => explain::run(arguments, reach, &progress).await,
            JobCommand::Stacks(arguments) => stacks::run(arguments, reach, &progress).await,
            JobCommand::WaitJob(arguments) => wait(arguments, reach, &progress).await,
        }
    })
}

/// Lists the jobs of several clusters.
pub(super) fn list_all(arguments: &ListArguments, clusters: &[Reach]) -> anyhow::Result<ExitCode> {
    Reach::block_on(list::run_all(arguments, clusters))
}

/// The result if it is ready in time.
async fn until<T>(deadline: Option<Instant>, result: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(result.await),
        Some(deadline) => timeout_at(deadline, result).await.ok(),
    }
}

/// As JSON: `submission_id`, `status`, `ended`, `lost`.
fn print_wait(id: &str, status: Option<JobStatus>, has_ended: bool, is_lost: bool) -> anyhow::Result<()> {
    let status = status.map(JobStatus::label);
    super::output::json_line(
        &json!({"submission_id": id, "status": status, "ended": has_ended, "lost": is_lost}),
    )
}

async fn wait(arguments: &WaitArguments, reach: &Reach, progress: &Progress) -> anyhow::Result<ExitCode> {
    let id = id(&arguments.id);
    let patience = arguments.timeout.unwrap_or_default();
    let deadline = arguments.timeout.and_then(|limit| Instant::now().checked_add(limit));
    // An id that Ray does not know is an error now; waiting for it would never end.
    let first = async {
        let session = reach.connect(progress).await?;
        match session.client.job(&id).await {
            Ok(first) => Ok((session, first)),
            Err(error) => {
                session.close().await;
                Err(failed(reach)(error))
            }
        }
    };
    let Some(first) = until(deadline, first).await else {
        progress.discard();
        if arguments.json {
            print_wait(&arguments.id, None, false, false)?;
        } else {
            eprintln!("{}: did not respond within {}", reach.spec.name, brief(patience));
        }
        return Ok(ExitCode::from(TIMED_OUT));
    };
    let (session, first) = first?;
    progress.show(format!("waiting for {id}"));
    let mut following = Following::new(reach, &session, arguments.give_up);
    following.seen = Some(first.job.status);
    let ended = async {
        if arguments.show_logs {
            following.log_and_end(&id, crate::supervisor::Start::Beginning, logs::print).await
        } else {
            following.end(&id).await
        }
    };
    let in_time = until(deadline, ended).await.transpose()?;
    session.close().await;
    let status = following.seen;
    let has_ended = matches!(in_time, Some(Ok(_)));
    if arguments.json {
        let is_lost = matches!(in_time, Some(Err(FollowError::Lost(_))));
        print_wait(&arguments.id, status, has_ended, is_lost)?;
    }
    match in_time {
        Some(Ok(ended)) if arguments.json => Ok(verdict(ended)),
        Some(ended) => Ok(conclude(&following, &id, ended)),
        None => {
            if !arguments.json {
                let state = status.map_or("of unknown status", JobStatus::label);
                eprintln!("{id} is still {state} after {}", brief(patience));
            }
            Ok(ExitCode::from(TIMED_OUT))
        }
    }
}
