//! The checks before anything is changed, each a separate function. The service runs them in order
//! ([`super::request`]); front ends have no checks of their own.
//!
//! They may read slow disks: callers run those that take an [`Environment`] on a blocking thread.

use super::environment::Environment;
use super::facts::Facts;
use super::journal::{Journal, JournalError, Unfinished};
use super::journaled::journaled;
use super::lock::others_lock;
use super::preflight::preflight;
use super::{failure, update};
use crate::model::{
    ClusterSpec, Consent, Hint, JournaledOperation, Operation, OperationKind, OperationLock, Order, Preview,
    Problem, Refusal, RefusalReason, TakeOver, Task, Timestamp, Verb,
};
use crate::supervisor::Access;

impl From<JournalError> for Refusal {
    fn from(e: JournalError) -> Self {
        let reason = if matches!(e, JournalError::Busy { .. }) {
            RefusalReason::OperationRunning
        } else {
            RefusalReason::Journal
        };
        Self::new(reason, Problem::from(e))
    }
}

/// Refuses changes if an option or the settings make the program read-only.
pub fn read_only(environment: &Environment, kind: OperationKind) -> Result<(), Refusal> {
    if !environment.read_only {
        return Ok(());
    }
    let what = format!("{} refused: read-only", kind.command());
    let hint = "remove --read-only, and `read_only` from the settings";
    Err(Refusal::new(RefusalReason::ReadOnly, failure(what, hint)))
}

/// Checks that the operation is available for this cluster. Reads the cluster file.
pub fn offered(environment: &Environment, spec: &ClusterSpec, task: &Task) -> Result<(), Refusal> {
    preflight(spec, &environment.options, task)
        .map_err(|problem| Refusal::new(RefusalReason::NotOffered, problem))
}

/// Checks that no operation is interrupted or running on the cluster; the error contains that operation. Reads the
/// journal.
pub fn free(
    environment: &Environment,
    spec: &ClusterSpec,
) -> Result<(), Box<(Refusal, Option<JournaledOperation>)>> {
    let found = journaled(&environment.state, &spec.name).map_err(|e| Box::new((e.into(), None)))?;
    let Some(journaled) = found else { return Ok(()) };
    if journaled.elsewhere {
        // The attempt to open the journal names the process that holds it.
        return match Journal::open(&environment.state, &spec.name) {
            Err(e) => Err(Box::new((e.into(), Some(journaled)))),
            Ok(journal) if journal.unfinished().is_none() => Ok(()),
            Ok(_) => Err(Box::new((interrupted(&journaled), Some(journaled)))),
        };
    }
    Err(Box::new((interrupted(&journaled), Some(journaled))))
}

/// The refusal because of an interrupted operation.
pub fn interrupted(journaled: &JournaledOperation) -> Refusal {
    let title = &journaled.operation.title;
    let next = journaled.operation.next(&journaled.done);
    let at = next.map_or_else(String::new, |step| format!(" at {}", journaled.operation.position(step)));
    let problem =
        failure(format!("{title}: interrupted{at}"), super::resume_or_abandon(journaled.operation.kind()));
    Refusal::new(RefusalReason::Interrupted, problem)
}

/// Checks that the confirmation that the operation requires was given.
pub fn confirmed(operation: &Operation, consent: &Consent) -> Result<(), Refusal> {
    if consent.confirms(operation) {
        return Ok(());
    }
    let what = format!("{}: {}", operation.title, operation.consequence);
    Err(Refusal::new(RefusalReason::NotConfirmed, failure(what, "confirm the operation")))
}

/// Checks that an update has something to apply, and that all of it can be applied while Ray runs.
pub fn applicable(operation: &Operation, seen: &Preview) -> Result<(), Refusal> {
    match operation.task {
        Task::Update => update::applicable(&operation.cluster, &seen.changes),
        _ => Ok(()),
    }
}

/// Checks affected jobs: they must be known; nothing may run on a worker that is removed immediately; and none may
/// belong to another person, unless that was allowed. `order` creates the order to send with more permissions.
pub fn jobs(
    operation: &Operation,
    consent: &Consent,
    seen: &Preview,
    order: impl FnOnce(Consent) -> Order,
) -> Result<(), Refusal> {
    let Some(reason) = consent.missing(operation, seen) else { return Ok(()) };
    let problem = match (reason, &seen.problem) {
        (RefusalReason::UnknownJobs, Some(why)) => failure(
            format!("cannot determine affected jobs on {}: {}", operation.cluster, why.what),
            why.hint
                .clone()
                .and(Verb::AllowUnknown.to("or continue without knowing which jobs are affected")),
        ),
        (RefusalReason::WorkerBusy, _) => {
            if operation.task == Task::Update {
                let what = "jobs are running on workers that the autoscaler may terminate";
                let hint = Hint::from("wait until they have ended").and(Verb::EndWork.to("or end them now"));
                return Err(Refusal { reason, problem: failure(what, hint), allow: None });
            }
            let what = format!("jobs are running on {}", operation.task.subject());
            let hint = [Verb::Drain.to("wait until they have ended"), Verb::EndWork.to("or end them now")];
            failure(what, hint)
        }
        _ => {
            let others = consent.not_allowed(seen);
            let at =
                if operation.kind().is_of_cluster() { operation.cluster.as_str() } else { "that worker" };
            let hint = Hint::from("ask their owners").and(Verb::AllowOthers.to("then allow it"));
            failure(format!("{others} run on {at}"), hint)
        }
    };
    let allow = consent.clone().passing(reason, seen).map(|consent| Box::new(order(consent)));
    Err(Refusal { reason, problem, allow })
}

/// Checks that the cluster does not have the lock of another operator's operation, unless the operator takes it over:
/// then its id is returned. A lock that cannot be read does not cause a refusal; the operation reports it once it
/// starts.
pub async fn unlocked(
    access: Access<'_>,
    facts: &Facts,
    consent: &Consent,
    order: impl FnOnce(Consent) -> Order,
) -> Result<Option<String>, Refusal> {
    let lock = others_lock(access, facts).await;
    taken_over(lock.as_ref(), consent, order)
}

/// Like [`unlocked`], for a lock that was read before.
pub fn taken_over(
    lock: Option<&OperationLock>,
    consent: &Consent,
    order: impl FnOnce(Consent) -> Order,
) -> Result<Option<String>, Refusal> {
    let Some(lock) = lock else { return Ok(None) };
    if consent.take_over.covers(&lock.id) {
        return Ok(Some(lock.id.clone()));
    }
    let allowed = Consent { take_over: TakeOver::Lock(lock.id.clone()), ..consent.clone() };
    let problem = lock.refusal(Timestamp::now());
    Err(Refusal { reason: RefusalReason::Locked, problem, allow: Some(Box::new(order(allowed))) })
}

/// Checks that the interrupted operation is of this kind. The hint names the command that applies `verb` to it.
pub fn is_kind(
    expected: OperationKind,
    interrupted: &Operation,
    verb: Verb,
    purpose: &str,
) -> Result<(), Refusal> {
    let kind = interrupted.kind();
    if kind == expected {
        return Ok(());
    }
    let what =
        format!("a different operation was interrupted on {}: {}", interrupted.cluster, interrupted.title);
    Err(Refusal::new(RefusalReason::OtherKind, failure(what, verb.on(kind.command(), purpose))))
}

/// Checks that the interrupted operation is the expected one and belongs to this cluster.
pub fn is_expected(unfinished: &Unfinished, spec: &ClusterSpec, consent: &Consent) -> Result<(), Refusal> {
    if let Some(expected_kind) = consent.expected_kind {
        is_kind(expected_kind, &unfinished.operation(&spec.name), Verb::Resume, "resume it")?;
    }
    unfinished.belongs_to(spec).map_err(|problem| Refusal::new(RefusalReason::OtherFile, problem))
}

/// Checks that the step at which the operation failed can be skipped.
pub fn skippable(unfinished: &Unfinished, spec: &ClusterSpec) -> Result<(), Refusal> {
    match unfinished.next() {
        Some(step) if step.is_skippable() => Ok(()),
        step => {
            let step = step.map_or("its last step", crate::model::StepName::label);
            let title = unfinished.operation(&spec.name).title;
            let what = format!("{title}: cannot skip `{step}`: later steps need it");
            Err(Refusal::new(
                RefusalReason::NotSkippable,
                failure(
                    what,
                    [Verb::Resume.to("resume without skipping"), Verb::Abandon.to("or abandon it")],
                ),
            ))
        }
    }
}

/// The refusal because there is nothing to resume.
pub fn nothing_to_resume(spec: &ClusterSpec) -> Refusal {
    let what = format!("no interrupted operation on {}", spec.name);
    Refusal::new(RefusalReason::NothingToResume, failure(what, ""))
}
