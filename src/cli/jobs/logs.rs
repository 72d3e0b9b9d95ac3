//! `job-logs`: a job's log on stdout, cleaned for a terminal.

use super::super::output;
use super::super::reach::{Progress, Reach};
use super::{failed, id};
use crate::model::SubmissionId;
use crate::ray::{Client, LineSplitter, LogEvent, WHOLE_LOG};
use clap::Args;
use regex::Regex;
use std::io::{self, Write};
use std::process::ExitCode;

/// Bytes of a log that are turned into lines at once.
const PIECE: usize = 64 << 10;

/// Which part of the log.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// Submission id
    #[arg(value_name = "SUBMISSION_ID")]
    id: String,
    /// Follow it until the job has ended
    #[arg(long, short)]
    follow: bool,
    /// The last N lines [default: 1000; with --follow all]
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<u32>,
    /// Only lines that match this regular expression
    #[arg(long, short, value_name = "PATTERN")]
    grep: Option<Regex>,
}

/// Prints it.
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
        follow(client, &id, keep, arguments.grep.as_ref()).await?;
    } else {
        let job = client.job(&id).await.map_err(failed(reach))?.job;
        match job.driver_node {
            None => eprintln!("{id} is {}: it has not begun to log", job.status.word()),
            Some(node) => {
                let lines = arguments.lines.unwrap_or(1000);
                let log = client.read_job_log(&id, node, lines).await.map_err(failed(reach))?;
                let mut splitter = LineSplitter::default();
                for piece in log.chunks(PIECE) {
                    print(splitter.push(piece), arguments.grep.as_ref())?;
                }
                print(splitter.finish().into_iter().collect(), arguments.grep.as_ref())?;
            }
        }
    }
    session.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Prints a job's log until the job has ended.
pub(super) async fn follow(
    client: &Client,
    id: &SubmissionId,
    keep: usize,
    grep: Option<&Regex>,
) -> anyhow::Result<()> {
    let mut tail = client.follow_job(id, keep);
    while let Some(event) = tail.next().await {
        match event {
            LogEvent::Lines(lines) => print(lines, grep)?,
            LogEvent::Interrupted(why) => eprintln!("the log is interrupted: {why}"),
            LogEvent::Complete => break,
            LogEvent::Failed(error) => anyhow::bail!("the log of {id} cannot be read: {error}"),
        }
    }
    Ok(())
}

fn print(lines: Vec<String>, grep: Option<&Regex>) -> io::Result<()> {
    let mut out = output::stdout();
    for line in lines.into_iter().filter(|l| grep.is_none_or(|g| g.is_match(l))) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
