//! `job-logs`: a job's log on stdout, cleaned for a terminal.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, output};
use super::follow::{Following, GiveUp};
use super::gang::too_old;
use super::log_source::{LogSource, Part};
use super::merged::{self, Wanted, WorkersOptions};
use super::{conclude, id};
use crate::logs::{Clock, Grep, LineSplitter, Pattern, Repeated, Times};
use crate::model::time::span;
use crate::model::{Line, Timestamp};
use crate::supervisor::Start;
use clap::Args;
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Lines that are printed unless the command says otherwise.
const LINES: u32 = 1000;

/// Options of `job-logs`.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// Submission id
    #[arg(value_name = "SUBMISSION_ID", add = candidates::jobs())]
    id: String,
    /// Follow the log until the job ends
    #[arg(long, short)]
    follow: bool,
    /// Print the last N lines [default: 1000; with --follow or --grep: all]
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<u32>,
    /// Only lines that match this regular expression; all in lower case it matches in any case
    #[arg(long, short, value_name = "PATTERN", allow_hyphen_values = true)]
    grep: Option<Pattern>,
    /// Only lines of that time, as 10m or 2h, by the times that they say
    #[arg(long, value_name = "TIME", value_parser = span)]
    since: Option<Duration>,
    /// Print JSON, an object per line
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

/// Which lines are printed, and how.
struct Printer<'a> {
    grep: Option<&'a Pattern>,
    since: Option<Timestamp>,
    times: Times,
    json: bool,
}

impl Printer<'_> {
    fn print(&mut self, lines: Vec<Line>) -> io::Result<()> {
        let mut out = output::stdout();
        for line in lines {
            // Only who asks for times pays for reading them.
            let time = if self.json || self.since.is_some() { self.times.next(line.text()) } else { None };
            let is_then = self.since.is_none_or(|since| time.is_some_and(|time| time >= since));
            if !is_then || self.grep.is_some_and(|grep| !grep.is_match(line.text())) {
                continue;
            }
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

    /// What a search or a time leaves to say.
    fn told(&self) {
        let Some(since) = self.since else { return };
        match self.times.last() {
            None => eprintln!("no line has a time, so --since matches none"),
            Some(last) if last < since => eprintln!("{}", too_old(last)),
            Some(_) => {}
        }
    }
}

/// Prints the log. With `--follow` the exit code tells how the job ended.
pub(super) async fn run(
    arguments: &LogArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let grep = arguments.grep.as_ref();
    if arguments.of_workers.workers {
        let (lines, since, json) = (arguments.lines, arguments.since, arguments.json);
        let wanted = Wanted { options: arguments.of_workers, lines, grep, since, json };
        return merged::run(&arguments.id, &wanted, reach, progress).await;
    }
    let session = reach.connect(progress).await?;
    let id = id(&arguments.id);
    progress.tell("reading the log");
    let now = Timestamp::now();
    let reads_times = arguments.json || arguments.since.is_some();
    // A head that does not say its zone has that of Google's images.
    let east = if reads_times { session.client.zone().await.unwrap_or_default() } else { 0 };
    let clock = Clock { near: now, east };
    let since = arguments.since.map(|span| now.minus(span));
    let mut printer = Printer { grep, since, times: Times::new(clock), json: arguments.json };
    let mut source = LogSource::new(reach, &session, &id);
    let part = match (since, arguments.lines, grep) {
        (_, Some(lines), _) => Part::Last(lines),
        (Some(since), None, _) => source.since(since, clock).await?,
        (None, None, Some(pattern)) => whole(pattern),
        (None, None, _) if arguments.follow => Part::Whole,
        (None, None, _) => Part::Last(LINES),
    };
    if arguments.follow {
        let mut following = Following::new(reach, &session, arguments.give_up);
        let start = if let Part::Last(lines) = part { Start::Lines(lines) } else { Start::Beginning };
        // By `--since` a line may have its time from one above it that does not match.
        match (part, grep) {
            (Part::Matching(words), _) => following.search(words, None),
            (Part::Last(lines), Some(pattern)) if since.is_none() => {
                if let Part::Matching(words) = whole(pattern) {
                    following.search(words, Some(lines));
                }
            }
            _ => {}
        }
        let ended = following.log_and_end(&id, start, |lines| printer.print(lines)).await?;
        session.close().await;
        return Ok(conclude(&following, &id, ended));
    }
    if let Some(mut log) = source.open(&part).await? {
        let mut splitter = LineSplitter::new(LineSplitter::WHOLE);
        while let Some(bytes) = log.chunk().await? {
            printer.print(splitter.push(&bytes))?;
        }
        printer.print(splitter.finish().into_iter().collect())?;
        printer.told();
    }
    session.close().await;
    Ok(ExitCode::SUCCESS)
}

/// The part in which a pattern is looked for: the lines that the head's grep finds, or all where it cannot express the
/// pattern.
fn whole(pattern: &Pattern) -> Part {
    match Grep::of(pattern) {
        Ok(Some(words)) => Part::Matching(words),
        // The empty pattern matches nothing, as in the console.
        Ok(None) => Part::Last(0),
        Err(why) => {
            eprintln!("{why}; the whole log is read instead");
            Part::Whole
        }
    }
}
