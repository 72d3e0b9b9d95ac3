//! Output of an operation in a shell: steps, progress, affected jobs, calls of a dry run.

use crate::model::command_line::shell_quote;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{
    AffectedJob, Fix, Hint, JournaledOperation, NewWorker, Operation, Preview, Progress, Restoration, Target,
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
    // The journal refuses every other operation on the cluster until this one is resumed or abandoned.
    let request = request_at_google(operation, "after abandoning it, delete");
    format!("{} was interrupted{at}{why}{}; {next}{request}", operation.title, saved_jobs(journaled))
}

/// What an abandoned operation leaves behind: saved jobs, or a request at Google. Empty if there is nothing.
pub(super) fn what_stays(journaled: &JournaledOperation) -> String {
    saved_jobs(journaled) + &request_at_google(&journaled.operation, "delete")
}

/// Where the jobs of an operation are saved. Empty if there are none.
fn saved_jobs(journaled: &JournaledOperation) -> String {
    journaled.saved.as_ref().map_or_else(String::new, |dir| format!("; jobs saved in {dir}"))
}

/// The request at Google of an operation, and the command that deletes it; `delete` says when. Empty if there is none.
fn request_at_google(operation: &Operation, delete: &str) -> String {
    let Task::AddWorker(NewWorker::Queued { names, .. }) = &operation.task else { return String::new() };
    let (stays, it) = if names.len() == 1 { ("request stays", "it") } else { ("requests stay", "them") };
    let words: Vec<String> = names.iter().map(|name| shell_quote(name)).collect();
    let target = Target::of(&operation.cluster);
    let line = target.line(&format!("remove-worker {} --now", words.join(" ")));
    let delete = Fix::command(format!("{delete} {it}"), line).in_commands(target);
    format!("; the {stays} with Google; {delete}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterName, Timestamp};

    /// An interrupted request of these workers.
    fn interrupted(names: &[&str]) -> JournaledOperation {
        let names = names.iter().map(ToString::to_string).collect();
        let worker = NewWorker::Queued { node_type: "v4-8".into(), capacity: "preemptible".into(), names };
        JournaledOperation {
            operation: Operation::new(Task::AddWorker(worker), ClusterName::new("lab")),
            since: Timestamp::from_millis(0),
            done: Vec::new(),
            why: "no quota".into(),
            saved: None,
            elsewhere: false,
        }
    }

    #[test]
    fn a_request_is_deleted_after_its_operation_is_abandoned() {
        let said = stopped(&interrupted(&["w-1"]));
        let end = "; resume it: `marin-tui -c lab add-worker --resume`; \
                   or abandon it: `marin-tui -c lab add-worker --abandon`; the request stays with Google; \
                   after abandoning it, delete it: `marin-tui -c lab remove-worker w-1 --now`";
        assert!(said.contains("no quota") && said.ends_with(end), "{said}");
        assert_eq!(
            what_stays(&interrupted(&["w-1"])),
            "; the request stays with Google; delete it: `marin-tui -c lab remove-worker w-1 --now`"
        );
        let several = what_stays(&interrupted(&["w-1", "w-2"]));
        let end = "; delete them: `marin-tui -c lab remove-worker w-1 w-2 --now`";
        assert!(several.ends_with(end), "{several}");
    }

    #[test]
    fn saved_jobs_are_named_before_the_next_command() {
        let mut restart = interrupted(&["w-1"]);
        restart.operation = Operation::new(Task::Restart { preserve: true }, ClusterName::new("lab"));
        restart.saved = Some("/backups/lab".into());
        assert_eq!(what_stays(&restart), "; jobs saved in /backups/lab");
        let said = stopped(&restart);
        assert!(said.contains("; jobs saved in /backups/lab; resume it: "), "{said}");
    }
}
