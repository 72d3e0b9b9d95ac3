//! `job-logs`: prints a job's log on stdout, cleaned for a terminal.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, output};
use super::follow::{Following, GiveUp};
use super::log_source::LogSource;
use super::merged::{self, Wanted, WorkersOptions};
use super::merged_follow;
use super::reader::too_old;
use super::{conclude, id};
use crate::logs::{Clock, Grep, Pattern, Repeated, Times};
use crate::model::text::printable;
use crate::model::time::span;
use crate::model::{Line, Problem, ProblemKind, Timestamp};
use crate::supervisor::{HeadLogin, LogFile, Start, log_in_to_head};
use clap::Args;
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Default number of lines.
const LINES: u32 = 1000;

/// The number of lines of a log to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    All,
    Last(u32),
}

impl std::str::FromStr for Lines {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            n => n.parse().map(Self::Last).map_err(|_| "a number of lines, or `all`, is expected".to_owned()),
        }
    }
}

/// Options of `job-logs`.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// Submission id
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Follow the log until the job ends
    #[arg(long, short)]
    follow: bool,
    /// Print the last N lines, or `all` [default: on a terminal 1000, else all; with --follow, --grep or --since: all]
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<Lines>,
    /// Only lines that match this regular expression; case-insensitive if all in lower case
    #[arg(long, short, value_name = "PATTERN", allow_hyphen_values = true)]
    grep: Option<Pattern>,
    /// Only lines newer than this, e.g. 10m or 2h, by their own timestamps
    #[arg(long, value_name = "DURATION", value_parser = span)]
    since: Option<Duration>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// The job's workers instead of its driver.
    #[command(flatten)]
    of_workers: WorkersOptions,
    /// Reconnection with `--follow`.
    #[command(flatten)]
    give_up: GiveUp,
}

/// Prints lines.
pub(super) fn print(lines: Vec<Line>) -> io::Result<()> {
    let mut out = output::stdout();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// Selects and prints lines.
struct Printer<'a> {
    grep: Option<&'a Pattern>,
    since: Option<Timestamp>,
    /// Whether lines without a time count as being since then.
    all_since: bool,
    times: Times,
    json: bool,
    has_printed: bool,
}

impl Printer<'_> {
    fn print(&mut self, lines: Vec<Line>) -> io::Result<()> {
        let mut out = output::stdout();
        for line in lines {
            // Times are parsed only if they are needed.
            let time = if self.json || self.since.is_some() { self.times.next(line.text()) } else { None };
            let is_since = |since| time.map_or(self.all_since, |time| time >= since);
            let is_in_time = self.since.is_none_or(is_since);
            if !is_in_time || self.grep.is_some_and(|grep| !grep.is_match(line.text())) {
                continue;
            }
            self.has_printed = true;
            if self.json {
                let repeated = Repeated::of(line.text()).as_ref().map(merged::repeated_for_scripts);
                let time = time.map(Timestamp::as_millis);
                let object = json!({ "time_ms": time, "text": line.text(), "repeated": repeated });
                writeln!(out, "{}", output::on_one_line(&object)?)?;
            } else {
                writeln!(out, "{line}")?;
            }
        }
        out.flush()
    }

    /// Reports why `--since` matched no line.
    fn report_rest(&self) {
        let Some(since) = self.since.filter(|_| !self.all_since) else { return };
        match self.times.last() {
            None => eprintln!("no line has a timestamp, so --since matches none"),
            Some(last) if last < since => eprintln!("{}", too_old(last)),
            Some(_) => {}
        }
    }
}

/// Prints the log. With `--follow` the exit code depends on how the job ended.
pub(super) async fn run(
    arguments: &LogArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let grep = arguments.grep.as_ref();
    if arguments.of_workers.workers {
        let lines = match arguments.lines {
            Some(Lines::All) if arguments.follow => Some(u32::MAX),
            Some(Lines::All) => anyhow::bail!("--workers needs a number: -n N, the last lines of each file"),
            Some(Lines::Last(lines)) => Some(lines),
            None => None,
        };
        let (since, json) = (arguments.since, arguments.json);
        let wanted = Wanted { options: arguments.of_workers, lines, grep, since, json };
        if arguments.follow {
            return merged_follow::run(&arguments.id, &wanted, arguments.give_up, reach, progress).await;
        }
        return merged::run(&arguments.id, &wanted, reach, progress).await;
    }
    let id = id(&arguments.id);
    let session = match reach.open(progress).await {
        Ok(session) => session,
        Err(problem) => match head_alone(&problem, arguments.follow, reach, progress).await {
            Some(login) => {
                let source = LogSource::on_head(reach, login.remote(), LogFile::of_job(&id));
                let code = print_log(arguments, source, 0).await;
                login.close().await;
                return code;
            }
            None => return Err(reach.error(&problem)),
        },
    };
    progress.show("reading the log");

    let reads_times = arguments.json || arguments.since.is_some();
    // A head that does not report its time zone is assumed to use that of Google's images.
    let utc_offset = if reads_times { session.client.utc_offset().await.unwrap_or_default() } else { 0 };
    let mut source = LogSource::new(reach, &session, &id);
    if arguments.follow {
        let (mut printer, start, words) = prepare(arguments, &mut source, utc_offset).await?;
        let mut following = Following::new(reach, &session, arguments.give_up);
        if let Some(words) = words {
            following.search(words);
        }
        let ended = following.log_and_end(&id, start, |lines| printer.print(lines)).await?;
        session.close().await;
        return Ok(conclude(&following, &id, ended));
    }
    let code = print_log(arguments, source, utc_offset).await?;
    session.close().await;
    Ok(code)
}

/// Determines where to start in the log, what to print, and what its host searches for.
async fn prepare<'a>(
    arguments: &'a LogArguments,
    source: &mut LogSource<'_>,
    utc_offset: i32,
) -> anyhow::Result<(Printer<'a>, Start, Option<Grep>)> {
    let now = Timestamp::now();
    let (grep, clock) = (arguments.grep.as_ref(), Clock { near: now, utc_offset });
    let since = arguments.since.map(|span| now.minus(span));
    let is_all = arguments.follow || grep.is_some() || !output::is_terminal();
    let start = match (since, arguments.lines) {
        // The empty pattern matches nothing, as in the console.
        _ if grep.is_some_and(Pattern::is_empty) => Start::Lines(0),
        (_, Some(Lines::Last(lines))) => Start::Lines(lines),
        (_, Some(Lines::All)) => Start::Beginning,
        (Some(since), None) => source.since(since, clock).await?,
        (None, None) if is_all => Start::Beginning,
        (None, None) => Start::Lines(LINES),
    };
    let all_since = matches!(start, Start::At { .. });
    let (times, json) = (Times::new(clock), arguments.json);
    let printer = Printer { grep, since, all_since, times, json, has_printed: false };
    // Otherwise a line may have its time from a line above it that does not match.
    let words = grep.filter(|_| since.is_none() || all_since).and_then(for_its_host);
    Ok((printer, start, words))
}

/// Prints the selected lines of the current log. As with grep(1), finding none is a failure.
async fn print_log(
    arguments: &LogArguments,
    mut source: LogSource<'_>,
    utc_offset: i32,
) -> anyhow::Result<ExitCode> {
    let (mut printer, start, words) = prepare(arguments, &mut source, utc_offset).await?;
    if let Some(log) = source.open(start, words.as_ref()).await? {
        log.for_lines(|lines| Ok(printer.print(lines)?)).await?;
        printer.report_rest();
    }
    Ok(if arguments.grep.is_some() && !printer.has_printed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A separate login to the head, to read the file of a log there, if only the dashboard has failed.
pub(in crate::cli) async fn head_alone(
    problem: &Problem,
    follows: bool,
    reach: &Reach,
    progress: &Progress,
) -> Option<HeadLogin> {
    if problem.kind != ProblemKind::DashboardSilent || follows {
        return None;
    }
    progress.show("logging in to the head");
    // If this fails too, the earlier problem is the better explanation.
    let login = log_in_to_head(&reach.spec, &reach.options).await.ok()?;
    progress.discard();
    eprintln!("{}: {}; reading the file on the head over SSH", reach.spec.name, printable(&problem.what));
    Some(login)
}

/// The pattern that the log's host searches for; `None` if it has to send all lines.
fn for_its_host(pattern: &Pattern) -> Option<Grep> {
    Grep::of(pattern).unwrap_or_else(|why| {
        eprintln!("{why}; reading all lines instead");
        None
    })
}
