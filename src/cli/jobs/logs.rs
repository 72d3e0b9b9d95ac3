//! `job-logs`: a job's log on stdout, cleaned for a terminal.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, output};
use super::follow::{Following, GiveUp};
use super::{conclude, failed, id};
use crate::logs::LineSplitter;
use crate::model::Line;
use crate::ray::WHOLE_LOG;
use clap::Args;
use regex::Regex;
use std::io::{self, Write};
use std::process::ExitCode;

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
    let session = reach.connect(progress).await?;
    let (client, id) = (&session.client, id(&arguments.id));
    progress.tell("reading the log");
    if arguments.follow {
        let keep = arguments.lines.map_or(WHOLE_LOG, |n| n as usize);
        let mut following = Following::new(reach, &session, arguments.give_up);
        let ended = following.log_and_end(&id, keep, |lines| print(lines, arguments.grep.as_ref())).await?;
        session.close().await;
        return Ok(conclude(&following, &id, ended));
    }
    let job = client.job(&id).await.map_err(failed(reach))?.job;
    match job.driver_node {
        None => eprintln!("{id} is {}: no log yet", job.status.word()),
        Some(node) => {
            let lines = arguments.lines.unwrap_or(1000);
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

/// Prints the lines that match, or all without a pattern.
pub(super) fn print(lines: Vec<Line>, grep: Option<&Regex>) -> io::Result<()> {
    let mut out = output::stdout();
    for line in lines.into_iter().filter(|l| grep.is_none_or(|g| g.is_match(l.text()))) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
