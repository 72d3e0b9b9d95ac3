//! `marin-tui job-workers`: the roll call of a job's workers, the silent and the lagging first.

use super::super::candidates;
use super::super::columns;
use super::super::output;
use super::super::reach::{Progress, Reach};
use super::gang::{Crew, Seat, age_words, many, tails, tell_lost};
use crate::logs::{Answer, Merge, Patterns, Remark, Roll, Times};
use crate::model::{Line, Timestamp};
use crate::ray::{Client, RayError};
use clap::Args;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 job-workers eval-7            who is silent, who lags behind
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

/// Lines of each file that are read: enough to find the last step, and the one before it.
const LINES: u32 = 40;
/// Characters of a line in the table.
const SHOWN: usize = 120;

/// Prints the roll call.
pub(super) async fn run(
    arguments: &WorkersArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let mut crew = Crew::read(&arguments.id, reach, &session, progress).await?;
    let idle = if arguments.all { 0 } else { crew.leave_out_idle() };
    let answers = call(&crew, &session.client, progress).await.map_err(super::failed(reach))?;
    session.close().await;
    tell_lost(&crew.seats);
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
        eprintln!("{} that run nothing are left out; --all includes them", many(idle, "worker"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls the workers by the last lines of their files, each kind by itself: what one actor does says nothing about
/// others. The remarkable ones first.
pub(super) async fn call(crew: &Crew, client: &Client, progress: &Progress) -> Result<Vec<Answer>, RayError> {
    let mut said: Vec<Merge<Line>> = crew.seats.iter().map(|_| Merge::new(Duration::ZERO)).collect();
    tails(client, &crew.seats, LINES, progress, |at, file, lines| {
        let mut times = Times::new(crew.clock);
        for line in lines {
            said[at].push(u32::from(file.is_err), times.next(line.text()), line);
        }
    })
    .await?;
    let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, seat) in crew.seats.iter().enumerate() {
        kinds.entry(seat.worker.kind.raw()).or_default().push(at);
    }
    let now = Timestamp::now();
    let mut answers = Vec::new();
    for seats in kinds.into_values() {
        let workers = seats.iter().map(|at| crew.seats[*at].called()).collect();
        let mut roll = Roll::new(workers, crew.clock, Patterns::default());
        for (number, at) in (0..).zip(&seats) {
            while let Some(merged) = said[*at].next_anyway() {
                roll.push(number, merged.item.text(), None);
            }
        }
        let of_all = |answer: Answer| Answer { worker: seats[answer.worker as usize] as u32, ..answer };
        answers.extend(roll.call(now).into_iter().map(of_all));
    }
    answers.sort_by_key(|a| (a.remark, Reverse(a.age), a.step, a.worker));
    Ok(answers)
}

/// The word of a remark for scripts; none if there is none.
pub(super) const fn word(remark: Remark) -> Option<&'static str> {
    match remark {
        Remark::Ended => Some("ended"),
        Remark::NoLine => Some("no-line"),
        Remark::Silent => Some("silent"),
        Remark::Lagging => Some("lagging"),
        Remark::Error => Some("error"),
        Remark::None => None,
    }
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
        "state": if seat.is_lost { "lost" } else { seat.worker.state.word() }, "step": answer.step,
        "time_ms": answer.time.map(Timestamp::as_millis), "remark": word(answer.remark),
        "reason": or_null(&answer.reason), "line": or_null(&answer.line),
        "files": seat.worker.files.iter().map(crate::model::Text::raw).collect::<Vec<_>>(),
    })
}
