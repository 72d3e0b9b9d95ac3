//! Output of an operation in a shell: steps, progress, affected jobs, calls of a dry run.

use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{
    AffectedJob, Hint, JournaledOperation, NewWorker, Operation, Preview, Progress, Restoration, Target,
    Task, Verb,
};
use crate::operation::Call;
use serde_json::Value;

/// Prints the progress of a step on stderr, a line each.
pub(super) fn show(operation: &Operation, progress: &Progress) {
    let position = |step| format!("{}/{}", operation.number(step), operation.steps.len());
    let words = match progress {
        Progress::Began(step) => format!("[{}] {}", position(*step), step.what()),
        Progress::Output(line) => format!("      {}", crate::model::text::log_line(line)),
        Progress::Done(step, result) => format!("[{}] {}", position(*step), printable(result)),
        Progress::Skipped(step, result) => {
            format!("[{}] already done: {}", position(*step), printable(result))
        }
        Progress::Failed(step, problem) => format!("[{}] failed: {}", position(*step), problem.what),
    };
    eprintln!("{words}");
}

/// Prints the calls of a dry run, one per line or as JSON.
pub(super) fn print_calls(calls: &[Call], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        crate::cli::output::json(calls)?;
        return Ok(());
    }
    eprintln!("calls and commands in order:");
    for call in calls {
        println!("{}", printable(&call.to_string()));
    }
    Ok(())
}

/// Prints the rows if `--json` is given.
pub(super) fn print_rows(as_json: bool, rows: &[Value]) -> anyhow::Result<()> {
    if as_json {
        crate::cli::output::json(rows)?;
    }
    Ok(())
}

/// Prints what the operation does, step by step, on stderr.
pub(super) fn print_steps(operation: &Operation) {
    eprintln!("{}: {}", operation.title, operation.consequence);
    for (i, step) in operation.steps.iter().enumerate() {
        eprintln!("  {}. {}", i + 1, step.what());
    }
}

/// Where an operation was interrupted and why, and how to resume or abandon it.
pub(super) fn stopped(journaled: &JournaledOperation) -> String {
    let operation = &journaled.operation;
    let next = operation.next(&journaled.done);
    let at = next.map_or_else(String::new, |step| format!(" at {}", operation.position(step)));
    let why =
        if journaled.why.is_empty() { String::new() } else { format!(": {}", printable(&journaled.why)) };
    let target = Target::of(&operation.cluster).with(operation.kind().command());
    let next =
        Hint::from([Verb::Resume.to("resume it"), Verb::Abandon.to("or abandon it")]).in_commands(target);
    format!("{} was interrupted{at}{why}{}; {next}", operation.title, what_stays(journaled))
}

/// What an interrupted operation leaves behind: saved jobs, or a request at Google. Empty if there is nothing.
pub(super) fn what_stays(journaled: &JournaledOperation) -> String {
    match (&journaled.saved, &journaled.operation.task) {
        (Some(folder), _) => format!("; jobs saved in {folder}"),
        (None, task @ Task::AddWorker(NewWorker::Queued { .. })) => {
            let delete = Verb::RemoveNow.on(task.worker(), "delete it");
            let delete = delete.in_commands(Target::of(&journaled.operation.cluster));
            format!("; the request stays with Google; {delete}")
        }
        (None, _) => String::new(),
    }
}

/// Prints the affected jobs.
pub(super) fn print_affected(operation: &Operation, seen: &Preview) -> anyhow::Result<()> {
    // An update ends only work on workers.
    let is_of_cluster = operation.kind().takes_down();
    let now = crate::model::Timestamp::now();
    let row = |job: &AffectedJob| {
        let age = job.started.map_or_else(|| "?".to_owned(), |at| brief(at.age(now)));
        let restoration = match &job.restoration {
            Restoration::Lost(what) if !is_of_cluster => printable(what).into_owned(),
            restoration => restoration.text(),
        };
        vec![
            job.key.to_string(),
            job.owner_label(),
            job.status.label().to_owned(),
            age,
            job.holding(),
            restoration,
        ]
    };
    let rows: Vec<_> = seen.jobs.iter().map(row).collect();
    let last = if is_of_cluster { "RESTORED" } else { "RUNS ON WORKER" };
    if !rows.is_empty() {
        let titles = ["JOB", "OWNER", "STATUS", "AGE", "HOLDS", last];
        crate::cli::columns::print(&mut crate::cli::output::stderr(), &titles, &rows)?;
    } else if !is_of_cluster && seen.problem.is_none() {
        eprintln!("no affected jobs");
    }
    Ok(())
}
