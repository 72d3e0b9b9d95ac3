//! `job-logs --workers`: what all workers of a job wrote, in the order of time, or folded where many say the same.

use super::super::output;
use super::super::reach::{Progress, Reach};
use super::failed;
use super::reader::{Reader, clock_time, tell_incomplete, telling, too_old};
use crate::job_workers::{FOLDED, JobWorkers, NamedWorker, WorkerLine, first_few, fold, in_order};
use crate::logs::{Pattern, Repeated, Row};
use crate::model::Timestamp;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// The hosts of a row are named if there are so few of them.
const FEW: usize = 3;

/// Options of `job-logs` about a job's workers.
#[derive(Clone, Copy, Debug, Args)]
pub struct WorkersOptions {
    /// Print the last lines of the logs of all the job's workers, merged by time [default: 100 per file]
    #[arg(long, conflicts_with = "follow")]
    pub workers: bool,
    /// With --workers: print identical lines once, with the number of workers that wrote them and the hosts that did not
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

/// Prints the logs of the job's workers.
pub(super) async fn run(
    id: &str,
    wanted: &Wanted<'_>,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let tell = telling(progress);
    let Reader { mut gangs, mut job_workers, .. } = Reader::read(id, reach, &session, &tell).await?;
    let lines = wanted.lines.unwrap_or(FOLDED);
    let tails = gangs.tails(&mut job_workers, lines).await.map_err(failed(reach))?;
    session.close().await;
    tell_incomplete(&job_workers);
    if job_workers.workers.is_empty() {
        eprintln!("{}", job_workers.why_empty());
        return Ok(ExitCode::SUCCESS);
    }
    let since = wanted.since.map(|span| Timestamp::now().minus(span));
    let (mut timeless, mut newest) = (0, None);
    let lines = in_order(&job_workers, tails).filter(|said| {
        timeless += usize::from(since.is_some() && said.time.is_none());
        newest = newest.max(said.time);
        since.is_none_or(|since| said.time.is_some_and(|time| time >= since))
            && wanted.grep.is_none_or(|grep| grep.is_match(said.line.text()))
    });
    if wanted.options.fold {
        print_folded(lines, &job_workers, wanted.json)?;
    } else {
        print_merged(lines, &job_workers.workers, wanted.json)?;
    }
    if let (Some(newest), Some(since)) = (newest, since)
        && newest < since
    {
        eprintln!("{}", too_old(newest));
    }
    if timeless > 0 {
        eprintln!("--since omitted {timeless} lines without a timestamp");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints lines with who wrote them.
fn print_merged(
    lines: impl Iterator<Item = WorkerLine>,
    workers: &[NamedWorker],
    json: bool,
) -> anyhow::Result<()> {
    let width = workers.iter().map(|worker| worker.who().chars().count()).max().unwrap_or(0);
    let mut out = output::stdout();
    for said in lines {
        let worker = &workers[said.worker];
        if json {
            output::json_line(&for_scripts(&said, worker))?;
        } else {
            let time = said.time.map_or_else(|| "-".repeat(18), clock_time);
            writeln!(out, "{time}  {:<width$}  {}", worker.who(), said.line.text())?;
        }
    }
    Ok(out.flush()?)
}

/// As JSON: `time_ms`, `node_id`, `host`, `slice`, `pid`, `name`, `stream`, `text`.
fn for_scripts(said: &WorkerLine, worker: &NamedWorker) -> Value {
    let or_null = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "time_ms": said.time.map(Timestamp::as_millis), "node_id": worker.process.node.to_string(), "host": worker.host,
        "slice": or_null(&worker.slice), "pid": worker.process.pid, "name": or_null(worker.process.name.raw()),
        "stream": if said.is_err { "err" } else { "out" }, "text": said.line.text(),
    })
}

/// Prints a row for equal lines of many workers.
fn print_folded(
    lines: impl Iterator<Item = WorkerLine>,
    job_workers: &JobWorkers,
    json: bool,
) -> anyhow::Result<()> {
    let (folded, workers) = (fold(lines, job_workers), &job_workers.workers);
    if folded.left_out > 0 {
        eprintln!("the first {} rows are omitted: too many lines differ", folded.left_out);
    }
    let mut out = output::stdout();
    let digits = workers.len().to_string().len();
    for (row, among) in folded.rows.iter().zip(&folded.among) {
        let names = |of: &mut dyn Iterator<Item = u32>| -> Vec<String> {
            of.filter_map(|at| workers.get(at as usize)).map(NamedWorker::who).collect()
        };
        let said = names(&mut row.members().iter().map(|member| member.source));
        let missing = names(&mut among.missing.iter().copied());
        if json {
            output::json_line(&row_for_scripts(row, &said, (&missing, among.workers)))?;
            continue;
        }
        let time = row.time.map_or_else(|| "-".repeat(18), |(first, _)| clock_time(first));
        let who = if said.len() <= FEW && workers.len() > FEW {
            format!("[{}] ", said.join(", "))
        } else {
            String::new()
        };
        writeln!(out, "{time}  {:>digits$} of {}  {who}{}", said.len(), among.workers, row.text)?;
        let pad = " ".repeat(20 + 2 * digits + 6);
        if let Some(repeated) = row.repeated() {
            writeln!(out, "{pad}{}", stands_for(&repeated))?;
        }
        for line in row.trace.iter().filter(|line| **line != row.text) {
            writeln!(out, "{pad}{line}")?;
        }
        if !among.notable().is_empty() {
            let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
            writeln!(out, "{pad}missing: {}", first_few(&missing))?;
        }
    }
    Ok(out.flush()?)
}

/// What a line stands for that Ray repeated, and the options that find the lines.
fn stands_for(repeated: &Repeated) -> String {
    let Repeated { count, pattern, .. } = repeated;
    format!("represents {count} lines that Ray deduplicated; find them with --workers -g '{pattern}'")
}

/// As JSON: `first_ms`, `last_ms`, `workers`, `of`, `lines`, `level`, `step`, `text`, `trace`, `written_by`, `missing`, `repeated`.
fn row_for_scripts(row: &Row, said: &[String], (missing, of): (&[String], usize)) -> Value {
    json!({
        "first_ms": row.time.map(|(first, _)| first.as_millis()), "last_ms": row.time.map(|(_, last)| last.as_millis()),
        "workers": said.len(), "of": of, "lines": row.times(),
        "level": row.level.map(level_word), "step": row.step, "text": row.text, "trace": row.trace,
        "written_by": said, "missing": missing, "repeated": row.repeated().as_ref().map(repeated_for_scripts),
    })
}

/// As JSON: `count`, `pattern`.
pub(super) fn repeated_for_scripts(repeated: &Repeated) -> Value {
    json!({ "count": repeated.count, "pattern": repeated.pattern })
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
