//! Output of an operation in a shell: steps, progress, affected jobs, calls of a dry run.

use crate::job_workers::first_few;
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{
    AffectedJob, Drift, Hint, JournaledOperation, Operation, Preview, Progress, Restoration, StepName,
    Target, Verb,
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
    let request = requests_at_google(journaled, "after abandoning it, ");
    format!("{}: interrupted{at}{why}{}; {next}{request}", operation.title, saved_jobs(journaled))
}

/// What an abandoned operation leaves behind: saved jobs, or a request at Google. Empty if there is nothing.
pub(super) fn what_stays(journaled: &JournaledOperation) -> String {
    saved_jobs(journaled) + &requests_at_google(journaled, "")
}

/// Where the jobs of an operation are saved. Empty if there are none.
fn saved_jobs(journaled: &JournaledOperation) -> String {
    journaled.saved.as_ref().map_or_else(String::new, |dir| format!("; jobs saved in {dir}"))
}

/// The requests at Google of an operation, and the commands that delete them; `when` precedes these. Empty if there are
/// none.
fn requests_at_google(journaled: &JournaledOperation, when: &str) -> String {
    let operation = &journaled.operation;
    let accepted = journaled.done.iter().any(|(step, _)| *step == StepName::RequestTpus);
    let left = operation.task.left_at_google(accepted, Verb::RemoveNow, when);
    if left.is_empty() {
        return String::new();
    }
    format!("; {}", left.in_commands(Target::of(&operation.cluster)))
}

/// The changes of an update that take effect only after the next restart of Ray, and the command that restarts it;
/// `None` if there are none.
pub(super) fn awaiting_restart(changes: &[Drift], target: Target<'_>) -> Option<String> {
    let later = Drift::awaiting_restart(changes);
    let keys: Vec<_> = later.iter().map(|drift| printable(&drift.key)).collect();
    let keys = first_few(&keys.iter().map(|key| &**key).collect::<Vec<_>>());
    let verb = if later.len() == 1 { "takes" } else { "take" };
    let restart = Verb::Restart.to("restart it").in_commands(target);
    let what = counted(later.len(), "change");
    let words = format!("{what} {verb} effect only after the next restart of Ray: {keys}; {restart}");
    (!later.is_empty()).then_some(words)
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
    use crate::model::{ClusterName, Effect, NewWorker, Task, Timestamp};

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
                   or abandon it: `marin-tui -c lab add-worker --abandon`; if Google has accepted the request, it \
                   remains; after abandoning it, delete it: `marin-tui -c lab remove-worker w-1 --now`";
        assert!(said.contains("no quota") && said.ends_with(end), "{said}");
        let mut accepted = interrupted(&["w-1"]);
        accepted.done.push((StepName::RequestTpus, String::new()));
        assert_eq!(
            what_stays(&accepted),
            "; the request remains in Google Cloud, and its TPU is billed once it exists; delete it: \
             `marin-tui -c lab remove-worker w-1 --now`"
        );
        // Google may have accepted only the first: each has a command.
        assert_eq!(
            what_stays(&interrupted(&["w-1", "w-2"])),
            "; requests already accepted by Google remain; delete w-1: `marin-tui -c lab remove-worker w-1 --now`; \
             delete w-2: `marin-tui -c lab remove-worker w-2 --now`"
        );
    }

    #[test]
    fn changes_that_await_a_restart_are_named() {
        let change = |key: &str, effect| {
            let (key, running, file) = (key.to_owned(), Value::Null, Value::Null);
            Drift { key, running, file, effect }
        };
        let cluster = ClusterName::new("lab");
        let said = |changes: &[Drift]| awaiting_restart(changes, Target::of(&cluster));
        let (now, later) =
            (change("max_workers", Effect::Now), change("docker.worker_image", Effect::NextRestart));
        assert_eq!(said(std::slice::from_ref(&now)), None);
        let end = "only after the next restart of Ray: docker.worker_image; \
                   restart it: `marin-tui -c lab restart-cluster`";
        assert_eq!(said(&[now, later]), Some(format!("1 change takes effect {end}")));
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
