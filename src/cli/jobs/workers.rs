//! `marin-tui job-workers`: the overview of a job's workers, silent and lagging workers first.

use super::super::candidates;
use super::super::columns;
use super::super::output;
use super::super::reach::{Progress, Reach};
use super::reader::{JobReader, report_incomplete, reporting};
use crate::job_workers::{NamedWorker, OVERVIEW_LINES, age_text, worker_overview};
use crate::logs::Answer;
use crate::model::Timestamp;
use crate::model::amount::counted;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 job-workers eval-7            which are silent, which lag behind
  marin-tui -c us-central2 job-workers eval-7 --all      also workers that no longer run anything
  marin-tui -c us-central2 job-workers eval-7 --json | jq '.[] | select(.note == \"silent\")'

The age of a line is known only if the line has a timestamp. Each worker's last lines are read through the head, at \
most 8 files at a time.

Exit codes: 0 the workers were listed, 1 they could not be read, or there is no such job.";

/// Options of `job-workers`.
#[derive(Debug, Args)]
pub struct WorkersArguments {
    /// Submission id of the job, or the job id of a manually started driver
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Include workers that no longer run anything
    #[arg(long, short)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Maximum length of a line in the table, in characters.
const MAX_LINE_CHARS: usize = 120;

/// Prints the overview.
pub(super) async fn run(
    arguments: &WorkersArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let report = reporting(progress);
    let JobReader { mut worker_reader, mut job_workers, .. } =
        JobReader::read(&arguments.id, reach, &session, &report).await?;
    let idle = if arguments.all { 0 } else { job_workers.leave_out_idle() };
    let tails = worker_reader.tails(&mut job_workers, OVERVIEW_LINES).await.map_err(super::failed(reach))?;
    session.close().await;
    let answers = worker_overview(&job_workers, &tails, Timestamp::now());
    report_incomplete(&job_workers);
    if arguments.json {
        let rows = answers.iter().map(|a| for_scripts(a, &job_workers.workers[a.worker as usize]));
        output::json(&rows.collect::<Vec<_>>())?;
    } else if answers.is_empty() {
        eprintln!("{}", job_workers.why_empty());
    } else {
        let rows: Vec<_> = answers.iter().map(|a| row(a, &job_workers.workers[a.worker as usize])).collect();
        let header = ["HOST", "SLICE", "PID", "NAME", "STEP", "AGE", "NOTE", "LAST LINE"];
        columns::print(&mut output::stdout(), &header, &rows)?;
    }
    if idle > 0 {
        eprintln!("{} that no longer run anything are hidden; --all includes them", counted(idle, "worker"));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(answer: &Answer, worker: &NamedWorker) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let step = answer.step.map_or_else(|| "-".to_owned(), |step| step.to_string());
    let line: String = answer.line.trim().chars().take(MAX_LINE_CHARS).collect();
    vec![
        worker.host.clone(),
        or_dash(&worker.slice),
        worker.process.pid.to_string(),
        or_dash(&worker.process.name.shown()),
        step,
        age_text(answer.age),
        or_dash(&answer.reason),
        line,
    ]
}

/// As JSON: `node_id`, `host`, `slice`, `pid`, `name`, `state`, `step`, `time_ms`, `note`, `reason`, `line`, `files`.
fn for_scripts(answer: &Answer, worker: &NamedWorker) -> Value {
    let or_null = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "node_id": worker.process.node.to_string(), "host": worker.host, "slice": or_null(&worker.slice),
        "pid": worker.process.pid, "name": or_null(worker.process.name.raw()),
        "state": worker.state_label(), "step": answer.step,
        "time_ms": answer.time.map(Timestamp::as_millis), "note": answer.remark.label(),
        "reason": or_null(&answer.reason), "line": or_null(&answer.line),
        "files": worker.process.files.iter().map(crate::model::Text::raw).collect::<Vec<_>>(),
    })
}
