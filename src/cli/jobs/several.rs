//! Several jobs at once, named or read from stdin; and `delete-job`. Stopping them is in [`super::stop`].

use super::super::reach::{Progress, Reach, confirm};
use super::follow::id;
use crate::cli::{candidates, columns, output};
use crate::model::text::printable;
use crate::model::{Job, SubmissionId};
use crate::ray::RayError;
use crate::supervisor::{NOT_ENDED, Session, delete_job};
use anyhow::Context;
use clap::Args;
use futures_util::stream::{self, StreamExt};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Read};
use std::process::ExitCode;

/// Maximum number of concurrent requests to the head, however many jobs there are.
pub(super) const AT_ONCE: usize = 32;
/// Maximum number of bytes of ids read from stdin.
const INPUT_MAX: u64 = 16 << 20;

/// Options of `delete-job`, which `stop-job` has, too.
#[derive(Debug, Args)]
pub struct SeveralArguments {
    /// Submission ids of the jobs, as `list-jobs` prints them; `-` reads them from stdin, one per line
    #[arg(required = true, value_name = "ID", add = candidates::jobs())]
    pub(super) ids: Vec<String>,
    /// Skip confirmation
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Show what would be done; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl SeveralArguments {
    /// Whether this is a dry run.
    pub(super) fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// The selected jobs, each once, in the order in which they are named.
    pub(super) fn jobs(&self) -> anyhow::Result<Vec<String>> {
        let mut all = Vec::new();
        for id in &self.ids {
            if id != "-" {
                all.push(id.clone());
                continue;
            }
            let mut text = String::new();
            let read = std::io::stdin().lock().take(INPUT_MAX).read_to_string(&mut text);
            let read = read.context("cannot read job ids from stdin")?;
            anyhow::ensure!(
                (read as u64) < INPUT_MAX,
                "more than {} MiB of job ids on stdin",
                INPUT_MAX >> 20
            );
            all.extend(text.lines().map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned));
        }
        let mut seen = BTreeSet::new();
        all.retain(|id| seen.insert(id.clone()));
        Ok(all)
    }
}

/// The names of the jobs; of many jobs only the first three.
pub(super) fn named(ids: &[String]) -> String {
    match ids {
        [a, b, c, rest @ ..] if rest.len() > 7 => format!("{a}, {b}, {c} and {} more jobs", rest.len()),
        few => few.join(", "),
    }
}

/// Deletes Ray's records of ended jobs.
pub(super) async fn delete(
    arguments: &SeveralArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let ids = arguments.jobs()?;
    if ids.is_empty() {
        return nothing_to_do(arguments);
    }
    if arguments.dry_run {
        return would_delete(arguments, &ids, reach, progress).await;
    }
    let what = format!("{} on {}", named(&ids), reach.spec.name);
    let question = format!("Delete the records of {what}? Log files are kept.");
    let session = confirmed(arguments, &ids, &question, reach, progress).await?;
    progress.show("deleting");
    reach.note("delete-job", &format!("started: {}", ids.join(", ")));
    let deletions = ids.iter().map(|name| {
        let client = &session.client;
        async move {
            match delete_job(client, &id(name)).await {
                Ok(()) => (name, true, "deleted".to_owned()),
                Err(why) => (name, false, why),
            }
        }
    });
    let rows: Vec<_> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
    session.close().await;
    for (id, _, outcome) in &rows {
        reach.note(&format!("delete-job {id}"), outcome);
    }
    report(&rows, arguments.json)
}

/// The jobs as Ray has them now, in the order of their ids.
pub(super) async fn read(session: &Session, ids: &[String]) -> Vec<Result<Job, RayError>> {
    let named: Vec<SubmissionId> = ids.iter().map(|name| id(name)).collect();
    let client = &session.client;
    let details = named.iter().map(|id| async move { client.job(id).await.map(|detail| detail.job) });
    stream::iter(details).buffered(AT_ONCE).collect().await
}

/// Prints the jobs with their owners and states before a question.
pub(super) fn show(
    ids: &[String],
    jobs: &[Result<Job, RayError>],
    progress: &Progress,
) -> anyhow::Result<()> {
    let row = |(id, job): (&String, &Result<Job, RayError>)| match job {
        Ok(job) => vec![id.clone(), job.owner_label(), job.status.label().to_owned()],
        Err(error) => vec![id.clone(), "?".to_owned(), error.to_string()],
    };
    let rows: Vec<_> = ids.iter().zip(jobs).map(row).collect();
    progress.discard();
    columns::print(&mut output::stderr(), &["JOB", "OWNER", "STATUS"], &rows)?;
    Ok(())
}

/// Asks for confirmation with a list of the jobs, their owners and their states; returns the session if confirmed.
async fn confirmed(
    arguments: &SeveralArguments,
    ids: &[String],
    question: &str,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<Session> {
    // Without a terminal there is no answer, and no login is needed to find that out.
    if arguments.yes || !std::io::stdin().is_terminal() {
        confirm(question, arguments.yes)?;
        return reach.connect(progress).await;
    }
    let session = reach.connect(progress).await?;
    progress.show("reading the jobs");
    let jobs = read(&session, ids).await;
    show(ids, &jobs, progress)?;
    match confirm(question, false) {
        Ok(()) => Ok(session),
        Err(no) => {
            session.close().await;
            Err(no)
        }
    }
}

/// Prints that there are no job ids on stdin.
pub(super) fn nothing_to_do(arguments: &SeveralArguments) -> anyhow::Result<ExitCode> {
    if arguments.json {
        return report(&[], true);
    }
    eprintln!("no job ids on stdin");
    Ok(ExitCode::SUCCESS)
}

/// Prints what a deletion would do with each job.
async fn would_delete(
    arguments: &SeveralArguments,
    ids: &[String],
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    progress.show("reading the jobs");
    let jobs = read(&session, ids).await;
    session.close().await;
    let row = |(id, job): (_, Result<Job, RayError>)| match job {
        Ok(Job { status, .. }) if !status.is_ended() => (id, false, NOT_ENDED.to_owned()),
        Ok(_) => (id, true, "would be deleted".to_owned()),
        Err(error) => (id, false, error.to_string()),
    };
    let rows: Vec<_> = ids.iter().zip(jobs).map(row).collect();
    would(arguments, &rows, |ids| {
        format!("would delete the records of {} on {}; log files are kept", named(ids), reach.spec.name)
    })
}

/// Prints the result of a dry run: a sentence for the jobs that would be changed, and why others would not; or with
/// `--json` a row for each. The exit code is a failure if the real run would fail.
pub(super) fn would(
    arguments: &SeveralArguments,
    rows: &[(&String, bool, String)],
    sentence: impl Fn(&[String]) -> String,
) -> anyhow::Result<ExitCode> {
    if arguments.json {
        return report(rows, true);
    }
    let changed: Vec<String> = rows.iter().filter(|row| row.1).map(|(id, ..)| (*id).clone()).collect();
    if !changed.is_empty() {
        println!("{}", printable(&sentence(&changed)));
    }
    for (id, _, why) in rows.iter().filter(|row| !row.1) {
        println!("{}: {}", printable(id), printable(why));
    }
    Ok(if changed.len() == rows.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the result for each job; the exit code is a failure if one of them failed.
pub(super) fn report(rows: &[(&String, bool, String)], as_json: bool) -> anyhow::Result<ExitCode> {
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(id, ok, what)| json!({"submission_id": id, "done": ok, "outcome": what}))
            .collect();
        output::json(&rows)?;
    } else {
        let lines: Vec<_> = rows.iter().map(|(id, _, what)| vec![(*id).clone(), what.clone()]).collect();
        columns::print(&mut output::stdout(), &["JOB", "OUTCOME"], &lines)?;
    }
    let all = rows.iter().all(|(_, ok, _)| *ok);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
