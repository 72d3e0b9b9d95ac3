//! `job-logs`: a job's log on stdout, cleaned for a terminal.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, output};
use super::follow::{Following, GiveUp};
use super::merged::{self, Wanted, WorkersOptions};
use super::{conclude, failed, id};
use crate::logs::LineSplitter;
use crate::model::Line;
use crate::model::time::span;
use crate::supervisor::{LogFile, Session, Start, Unread};
use clap::Args;
use regex::Regex;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Bytes of a log that are split into lines at once.
const PIECE: usize = 64 << 10;

/// Options of `job-logs`.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// Submission id
    #[arg(value_name = "SUBMISSION_ID", add = candidates::jobs())]
    id: String,
    /// Follow the log until the job ends
    #[arg(long, short)]
    follow: bool,
    /// Print the last N lines [default: 1000; with --follow: all]
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<u32>,
    /// Only lines that match this regular expression
    #[arg(long, short, value_name = "PATTERN")]
    grep: Option<Regex>,
    /// With --workers: only lines of that time, as 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = span, requires = "workers")]
    since: Option<Duration>,
    /// The job's workers instead of its driver.
    #[command(flatten)]
    of_workers: WorkersOptions,
    /// Reconnection with `--follow`.
    #[command(flatten)]
    give_up: GiveUp,
}

/// Prints the log. With `--follow` the exit code tells how the job ended.
pub(super) async fn run(
    arguments: &LogArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    if arguments.of_workers.workers {
        let options = arguments.of_workers;
        let (lines, grep, since) = (arguments.lines, arguments.grep.as_ref(), arguments.since);
        return merged::run(&arguments.id, &Wanted { options, lines, grep, since }, reach, progress).await;
    }
    let session = reach.connect(progress).await?;
    let (client, id) = (&session.client, id(&arguments.id));
    progress.tell("reading the log");
    if arguments.follow {
        let start = arguments.lines.map_or(Start::Beginning, Start::Lines);
        let mut following = Following::new(reach, &session, arguments.give_up);
        let ended = following.log_and_end(&id, start, |lines| print(lines, arguments.grep.as_ref())).await?;
        session.close().await;
        return Ok(conclude(&following, &id, ended));
    }
    let lines = arguments.lines.unwrap_or(1000);
    if over_ssh(arguments, reach, &session, lines).await? {
        session.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    let job = client.job(&id).await.map_err(failed(reach))?.job;
    match job.driver_node {
        None => eprintln!("{id} is {}: no log yet", job.status.word()),
        Some(node) => {
            let log = client.read_job_log(&id, node, lines).await.map_err(failed(reach))?;
            let mut splitter = LineSplitter::new(LineSplitter::WHOLE);
            for piece in log.chunks(PIECE) {
                print(splitter.push(piece), arguments.grep.as_ref())?;
            }
            print(splitter.finish().into_iter().collect(), arguments.grep.as_ref())?;
        }
    }
    session.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Prints the last lines from the head's file; false when the log is not there: its driver runs on another node, there
/// is no ssh, or no such job.
async fn over_ssh(
    arguments: &LogArguments,
    reach: &Reach,
    session: &Session,
    lines: u32,
) -> anyhow::Result<bool> {
    let Some(remote) = session.connection().remote() else { return Ok(false) };
    let (over, mut file) = ((&remote, &reach.spec), LogFile::of_job(&id(&arguments.id)));
    let mut splitter = LineSplitter::new(LineSplitter::WHOLE);
    let mut stream = file.last(over, lines);
    let mut is_read = false;
    loop {
        let why = match &mut stream {
            Ok(open) => match open.chunk().await {
                Ok(Some(bytes)) => {
                    is_read = true;
                    print(splitter.push(&bytes), arguments.grep.as_ref())?;
                    continue;
                }
                Ok(None) => break,
                Err(error) => error.into(),
            },
            Err(why) => why.clone(),
        };
        match why {
            Unread::NoFolder if file.enter(&reach.spec) => stream = file.last(over, lines),
            why if is_read => anyhow::bail!("the log was cut off: {why}"),
            _ => return Ok(false),
        }
    }
    print(splitter.finish().into_iter().collect(), arguments.grep.as_ref())?;
    Ok(true)
}

/// Prints the lines that match, or all without a pattern.
pub(super) fn print(lines: Vec<Line>, grep: Option<&Regex>) -> io::Result<()> {
    let mut out = output::stdout();
    for line in lines.into_iter().filter(|l| grep.is_none_or(|g| g.is_match(l.text()))) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
