//! `job-logs --workers`: what all workers of a job wrote, in the order of time, or folded where many say the same.

use super::super::output;
use super::super::reach::{Progress, Reach};
use super::failed;
use super::gang::{Crew, Seat, clock_time, first_few, tails, tell_lost};
use crate::logs::{Fold, Merge, Merged, Pattern, Patterns, Row, Times};
use crate::model::{Line, Timestamp, WorkerFile};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Lines of each file that are read unless the command says otherwise.
const LINES: u32 = 100;
/// Equal lines that are further apart are rows of their own.
const SAME_EVENT: Duration = Duration::from_secs(60);
/// Bytes that the rows may take in memory.
const ROWS: usize = 64 << 20;
/// The hosts of a row are named if there are so few of them.
const FEW: usize = 3;

/// Options of `job-logs` about a job's workers.
#[derive(Clone, Copy, Debug, Args)]
pub struct WorkersOptions {
    /// Print the logs of the job's workers in the order of time: the last lines of each file [default: 100]
    #[arg(long, conflicts_with = "follow")]
    pub workers: bool,
    /// With --workers: print what many of them say once, with their number and the hosts that do not say it
    #[arg(long, requires = "workers")]
    fold: bool,
}

/// What is printed of the lines.
pub(super) struct Wanted<'a> {
    pub options: WorkersOptions,
    pub lines: Option<u32>,
    pub grep: Option<&'a Pattern>,
    pub since: Option<Duration>,
    pub json: bool,
}

/// A line of a worker.
struct Said {
    seat: usize,
    is_err: bool,
    number: u64,
    line: Line,
}

/// Prints the logs of the job's workers.
pub(super) async fn run(
    id: &str,
    wanted: &Wanted<'_>,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let crew = Crew::read(id, reach, &session, progress).await?;
    let mut merge = Merge::new(Duration::ZERO);
    let take = |seat: usize, file: &WorkerFile<'_>, lines: Vec<Line>| {
        let source = seat as u32 * 2 + u32::from(file.is_err);
        let mut times = Times::new(crew.clock);
        for (number, line) in (0..).zip(lines) {
            let time = times.next(line.text());
            merge.push(source, time, Said { seat, is_err: file.is_err, number, line });
        }
    };
    let lines = wanted.lines.unwrap_or(LINES);
    tails(&session.client, &crew.seats, lines, progress, take).await.map_err(failed(reach))?;
    session.close().await;
    tell_lost(&crew.seats);
    if crew.seats.is_empty() {
        eprintln!("{}", crew.why_empty());
        return Ok(ExitCode::SUCCESS);
    }
    let since = wanted.since.map(|span| Timestamp::now().minus(span));
    let mut timeless = 0;
    let lines = std::iter::from_fn(|| merge.next_anyway()).filter(|merged| {
        timeless += usize::from(since.is_some() && merged.time.is_none());
        since.is_none_or(|since| merged.time.is_some_and(|time| time >= since))
            && wanted.grep.is_none_or(|grep| grep.is_match(merged.item.line.text()))
    });
    if wanted.options.fold {
        print_folded(lines, &crew.seats, wanted.json)?;
    } else {
        print_merged(lines, &crew.seats, wanted.json)?;
    }
    if timeless > 0 {
        eprintln!("{timeless} lines without a time are left out by --since");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints lines with who wrote them.
fn print_merged(lines: impl Iterator<Item = Merged<Said>>, seats: &[Seat], json: bool) -> anyhow::Result<()> {
    let width = seats.iter().map(|seat| seat.who().chars().count()).max().unwrap_or(0);
    let mut out = output::stdout();
    for Merged { time, item, .. } in lines {
        let seat = &seats[item.seat];
        if json {
            output::json_line(&for_scripts(time, &item, seat))?;
        } else {
            let time = time.map_or_else(|| "-".repeat(18), clock_time);
            writeln!(out, "{time}  {:<width$}  {}", seat.who(), item.line.text())?;
        }
    }
    Ok(out.flush()?)
}

/// As JSON: `time_ms`, `node_id`, `host`, `slice`, `pid`, `name`, `stream`, `text`.
fn for_scripts(time: Option<Timestamp>, said: &Said, seat: &Seat) -> Value {
    let or_null = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "time_ms": time.map(Timestamp::as_millis), "node_id": seat.worker.node.to_string(), "host": seat.host,
        "slice": or_null(&seat.slice), "pid": seat.worker.pid, "name": or_null(seat.worker.name.raw()),
        "stream": if said.is_err { "err" } else { "out" }, "text": said.line.text(),
    })
}

/// Prints a row for what many workers say alike.
fn print_folded(lines: impl Iterator<Item = Merged<Said>>, seats: &[Seat], json: bool) -> anyhow::Result<()> {
    let mut fold = Fold::new(SAME_EVENT, ROWS, Patterns::default());
    for Merged { time, item, .. } in lines {
        fold.push(item.seat as u32, item.number, time, item.line.text());
    }
    fold.flush();
    if fold.first() > 0 {
        eprintln!("the first {} rows are left out: too many lines differ", fold.first());
    }
    let mut out = output::stdout();
    let digits = seats.len().to_string().len();
    for row in fold.rows() {
        let names = |of: &mut dyn Iterator<Item = u32>| -> Vec<String> {
            of.filter_map(|at| seats.get(at as usize)).map(Seat::who).collect()
        };
        let said = names(&mut row.members().iter().map(|member| member.source));
        let missing = names(&mut row.missing(seats.len() as u32).into_iter());
        if json {
            output::json_line(&row_for_scripts(row, &said, &missing))?;
            continue;
        }
        let time = row.time.map_or_else(|| "-".repeat(18), |(first, _)| clock_time(first));
        let who = if said.len() <= FEW && seats.len() > FEW {
            format!("[{}] ", said.join(", "))
        } else {
            String::new()
        };
        writeln!(out, "{time}  {:>digits$} of {}  {who}{}", said.len(), seats.len(), row.text)?;
        let pad = " ".repeat(20 + 2 * digits + 6);
        for line in row.trace.iter().filter(|line| **line != row.text) {
            writeln!(out, "{pad}{line}")?;
        }
        if said.len() > missing.len() && !missing.is_empty() {
            let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
            writeln!(out, "{pad}missing: {}", first_few(&missing))?;
        }
    }
    Ok(out.flush()?)
}

/// As JSON: `first_ms`, `last_ms`, `workers`, `of`, `lines`, `level`, `step`, `text`, `trace`, `said_by`, `missing`.
fn row_for_scripts(row: &Row, said: &[String], missing: &[String]) -> Value {
    json!({
        "first_ms": row.time.map(|(first, _)| first.as_millis()), "last_ms": row.time.map(|(_, last)| last.as_millis()),
        "workers": said.len(), "of": said.len() + missing.len(), "lines": row.times(),
        "level": row.level.map(level_word), "step": row.step, "text": row.text, "trace": row.trace,
        "said_by": said, "missing": missing,
    })
}

const fn level_word(level: crate::logs::Level) -> &'static str {
    use crate::logs::Level;
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}
