//! `marin-tui job-workers`: the roll call of a job's workers, the silent and the lagging first.

use super::super::candidates;
use super::super::columns;
use super::super::output;
use super::super::reach::{Progress, Reach};
use super::gang::{Gang, tell_incomplete, telling};
use crate::crew::{CALLED, Seat, age_words, call};
use crate::logs::Answer;
use crate::model::Timestamp;
use crate::model::amount::counted;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 job-workers eval-7            which are silent, which lag behind
  marin-tui -c us-central2 job-workers eval-7 --all      also workers that run nothing any more
  marin-tui -c us-central2 job-workers eval-7 --json | jq '.[] | select(.remark == \"silent\")'

The age of a line is known where the line says its time. Each worker's last lines are read through the head, at most 8 files \
at a time.

Exit codes: 0 the workers were listed, 1 they could not be read, or there is no such job.";

/// Options of `job-workers`.
#[derive(Debug, Args)]
pub struct WorkersArguments {
    /// Submission id of the job, or the job id of a driver that was started by hand
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Include workers that run nothing any more
    #[arg(long, short)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Characters of a line in the table.
const SHOWN: usize = 120;

/// Prints the roll call.
pub(super) async fn run(
    arguments: &WorkersArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let tell = telling(progress);
    let Gang { mut gangs, mut crew, .. } = Gang::read(&arguments.id, reach, &session, &tell).await?;
    let idle = if arguments.all { 0 } else { crew.leave_out_idle() };
    let tails = gangs.tails(&mut crew, CALLED).await.map_err(super::failed(reach))?;
    session.close().await;
    let answers = call(&crew, &tails, Timestamp::now());
    tell_incomplete(&crew);
    if arguments.json {
        let rows = answers.iter().map(|a| for_scripts(a, &crew.seats[a.worker as usize]));
        output::json(&rows.collect::<Vec<_>>())?;
    } else if answers.is_empty() {
        eprintln!("{}", crew.why_empty());
    } else {
        let rows: Vec<_> = answers.iter().map(|a| row(a, &crew.seats[a.worker as usize])).collect();
        let header = ["HOST", "SLICE", "PID", "NAME", "STEP", "AGE", "REMARK", "LAST LINE"];
        columns::print(&mut output::stdout(), &header, &rows)?;
    }
    if idle > 0 {
        eprintln!("{} that run nothing are left out; --all includes them", counted(idle, "worker"));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(answer: &Answer, seat: &Seat) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let step = answer.step.map_or_else(|| "-".to_owned(), |step| step.to_string());
    let line: String = answer.line.trim().chars().take(SHOWN).collect();
    vec![
        seat.host.clone(),
        or_dash(&seat.slice),
        seat.worker.pid.to_string(),
        or_dash(&seat.worker.name.shown()),
        step,
        age_words(answer.age),
        or_dash(&answer.reason),
        line,
    ]
}

/// As JSON: `node_id`, `host`, `slice`, `pid`, `name`, `state`, `step`, `time_ms`, `remark`, `reason`, `line`, `files`.
fn for_scripts(answer: &Answer, seat: &Seat) -> Value {
    let or_null = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "node_id": seat.worker.node.to_string(), "host": seat.host, "slice": or_null(&seat.slice),
        "pid": seat.worker.pid, "name": or_null(seat.worker.name.raw()),
        "state": seat.state_word(), "step": answer.step,
        "time_ms": answer.time.map(Timestamp::as_millis), "remark": answer.remark.word(),
        "reason": or_null(&answer.reason), "line": or_null(&answer.line),
        "files": seat.worker.files.iter().map(crate::model::Text::raw).collect::<Vec<_>>(),
    })
}
