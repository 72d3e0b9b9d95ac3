//! The lock of an operation on its cluster, which keeps other operators from starting another one.
//!
//! It is placed before the first step, renewed at each step and during long steps, and removed at the end. If it cannot
//! be written, the operation continues with a warning and the operator decides.

use super::facts::Facts;
use super::journal::Journal;
use super::performer::Performer;
use super::{failure, then_resume};
use crate::gcp::random_token;
use crate::model::{
    ClusterName, ClusterSpec, Hint, LOCK_INTERVAL, Operation, OperationLock, Problem, Progress, StepName,
    Target, Timestamp, Verb,
};
use crate::supervisor::{self, Access, Connection, LockOwnership, Options};
use std::time::Duration;
use tokio::sync::mpsc;

/// Time limit for recording an interruption in the lock.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of digits of a lock's id.
const ID_DIGITS: usize = 16;

/// The lock of another operator's operation on the cluster, if it can be read; `facts` identify our own lock.
pub async fn others_lock(access: Access<'_>, facts: &Facts) -> Option<OperationLock> {
    if !supervisor::keeps_locks(access.spec) {
        return None;
    }
    match supervisor::read_lock(access).await {
        Ok(lock) => lock.filter(|lock| facts.lock.as_ref() != Some(&lock.id)),
        Err(problem) => {
            tracing::warn!(cluster = %access.spec.name, "{}", problem.in_commands(Target::default()));
            None
        }
    }
}

/// Removes the lock of an operation that was abandoned or cancelled. A failure to remove it is reported.
pub async fn remove_lock(access: Access<'_>, facts: &Facts) -> Result<(), Problem> {
    let Some(id) = facts.lock.as_ref().filter(|_| supervisor::keeps_locks(access.spec)) else {
        return Ok(());
    };
    supervisor::remove_lock(access, id).await.map_err(|p| {
        let what = format!(
            "could not remove this operation's lock; it remains visible to other operators: {}",
            p.what
        );
        Problem { what, ..p }
    })
}

/// The lock of an operation that runs in this process.
pub(super) struct HeldLock {
    lock: OperationLock,
    spec: ClusterSpec,
    options: Options,
    connection: Connection,
}

impl HeldLock {
    fn access(&self) -> Access<'_> {
        Access { spec: &self.spec, options: &self.options, connection: &self.connection }
    }

    fn at(&self, step: usize, stopped: bool) -> OperationLock {
        OperationLock { step, stopped, seen_ms: Timestamp::now().as_millis(), ..self.lock.clone() }
    }

    /// Renews the lock while it is awaited.
    pub(super) async fn keep_renewing(&self, step: usize) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(LOCK_INTERVAL).await;
            let renewed = supervisor::renew_lock(self.access(), &self.at(step, false)).await;
            if let Err(problem) = renewed {
                tracing::warn!(cluster = %self.spec.name, "{}", problem.what);
            }
        }
    }

    /// Updates the step in the lock. An error if another operator has taken over the operation: then it must stop.
    pub(super) async fn advance(
        &self,
        step: usize,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        let lock = self.at(step, false);
        match supervisor::renew_lock(self.access(), &lock).await {
            Ok(LockOwnership::Ours) => Ok(()),
            Ok(LockOwnership::Lost(Some(other))) => Err(taken_over(&other)),
            // The lock was removed manually.
            Ok(LockOwnership::Lost(None)) => match supervisor::acquire_lock(self.access(), &lock).await {
                Ok(LockOwnership::Lost(Some(other))) => Err(taken_over(&other)),
                Ok(LockOwnership::Ours | LockOwnership::Lost(None)) => Ok(()),
                Ok(LockOwnership::Unreadable(problem)) => Err(unreadable(*problem)),
                Err(problem) => {
                    report_unlocked(&self.spec.name, progress, &problem);
                    Ok(())
                }
            },
            Ok(LockOwnership::Unreadable(problem)) => Err(unreadable(*problem)),
            Err(problem) => {
                report_unlocked(&self.spec.name, progress, &problem);
                Ok(())
            }
        }
    }

    /// Records that the operation has stopped at this step.
    pub(super) async fn stop(&self, step: usize) {
        let stopped = supervisor::renew_lock(self.access(), &self.at(step, true)).await;
        if let Err(problem) = stopped {
            tracing::warn!(cluster = %self.spec.name, "{}", problem.what);
        }
    }

    /// Removes the lock, because the operation is over.
    pub(super) async fn remove(&self, progress: &mpsc::UnboundedSender<Progress>) {
        if let Err(p) = supervisor::remove_lock(self.access(), &self.lock.id).await {
            let why = p.in_commands(Target::of(&self.spec.name));
            let words = format!(
                "could not remove this operation's lock; it remains visible to other operators: {why}"
            );
            // The receiver may have been dropped.
            drop(progress.send(Progress::Output(words)));
        }
    }
}

fn report_unlocked(cluster: &ClusterName, progress: &mpsc::UnboundedSender<Progress>, problem: &Problem) {
    let why = problem.in_commands(Target::of(cluster));
    let words =
        format!("warning: could not lock the cluster; other operators cannot see this operation: {why}");
    // The receiver may have been dropped.
    drop(progress.send(Progress::Output(words)));
}

fn taken_over(other: &OperationLock) -> Problem {
    let what = format!("this operation was taken over: {}", other.refusal(Timestamp::now()).what);
    let hint = Hint::from(format!("ask {}", other.who)).and(Verb::Abandon.to("abandon this operation"));
    failure(what, hint)
}

/// Another operation may be running, perhaps by another version of this program.
fn unreadable(problem: Problem) -> Problem {
    let what = format!("the cluster has an operation lock that cannot be read: {}", problem.what);
    Problem { what, hint: then_resume(problem.hint), ..problem }
}

impl Performer {
    /// Records in the lock that the operation was interrupted at this step. A lock that is already removed stays
    /// removed.
    pub async fn interrupted(
        &self,
        operation: &Operation,
        at: Option<StepName>,
        done: &[(StepName, String)],
    ) {
        let Some(id) = self.facts.lock.clone().filter(|_| supervisor::keeps_locks(&self.spec)) else {
            return;
        };
        let step = at.or_else(|| operation.steps.first().copied()).unwrap_or(StepName::Check);
        let recorded = async {
            if operation.cancelled_again(step, done).is_some() {
                return supervisor::remove_lock(self.access(), &id).await;
            }
            let now = Timestamp::now();
            let lock = OperationLock::new(id.clone(), operation, &self.options.who, std::process::id(), now);
            let since_ms = self.facts.begun.unwrap_or(lock.since_ms);
            let lock = OperationLock { step: operation.number(step), stopped: true, since_ms, ..lock };
            supervisor::renew_lock(self.access(), &lock).await.map(|_| ())
        };
        // An interruption must not wait for a network: without an answer, others will see that the lock is stale.
        if let Ok(Err(problem)) = tokio::time::timeout(INTERRUPT_TIMEOUT, recorded).await {
            tracing::warn!(cluster = %self.spec.name, "{}", problem.what);
        }
    }

    /// Acquires the lock of an operation that starts or is resumed. Returns `None` if no lock can be written.
    ///
    /// # Errors
    ///
    /// The cluster has the lock of another operation, which is not the one to take over.
    pub(super) async fn acquire_lock(
        &mut self,
        operation: &Operation,
        step: Option<StepName>,
        journal: &Journal,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<Option<HeldLock>, Problem> {
        if !supervisor::keeps_locks(&self.spec) {
            return Ok(None);
        }
        let now = Timestamp::now();
        let before = self.facts.lock.clone();
        let id = match &before {
            Some(id) => id.clone(),
            None => match random_token() {
                Ok(token) => token.expose().chars().take(ID_DIGITS).collect(),
                Err(e) => return Err(failure(e.to_string(), e.hint())),
            },
        };
        self.facts.lock = Some(id.clone());
        let since = *self.facts.begun.get_or_insert(now.as_millis());
        self.keep_facts(journal).await?;
        let who = self.options.who.clone();
        let mut lock = OperationLock::new(id, operation, &who, std::process::id(), now);
        lock.since_ms = since;
        lock.step = step.map_or(1, |step| operation.number(step)).max(1);
        let Self { spec, options, connection, .. } = self;
        let held =
            HeldLock { lock, spec: spec.clone(), options: options.clone(), connection: connection.clone() };
        if before.is_some() {
            // The resuming process may differ from the one that started the operation, so the lock is written again.
            drop(supervisor::remove_lock(self.access(), &held.lock.id).await);
        }
        match self.acquire(&held.lock, progress).await {
            Ok(()) => Ok(Some(held)),
            Err(Refused::Taken(other)) => Err(other.refusal(now)),
            Err(Refused::Unreadable(problem)) => Err(unreadable(*problem)),
            Err(Refused::NotRemoved(other, problem)) => {
                let what =
                    format!("cannot take over from {}: cannot remove the lock: {}", other.who, problem.what);
                Err(Problem { what, hint: then_resume(problem.hint), ..problem })
            }
            Err(Refused::NotWritten(problem)) => {
                report_unlocked(&self.spec.name, progress, &problem);
                Ok(None)
            }
        }
    }

    /// Acquires the lock, replacing another one that is to be taken over.
    async fn acquire(
        &self,
        lock: &OperationLock,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Refused> {
        let acquire =
            async || supervisor::acquire_lock(self.access(), lock).await.map_err(Refused::NotWritten);
        let other = match acquire().await? {
            LockOwnership::Lost(Some(other)) => other,
            LockOwnership::Ours | LockOwnership::Lost(None) => return Ok(()),
            LockOwnership::Unreadable(problem) => return Err(Refused::Unreadable(problem)),
        };
        if self.take_over.as_ref() != Some(&other.id) {
            return Err(Refused::Taken(other));
        }
        // As long as its lock is there, the other operation goes on.
        if let Err(problem) = supervisor::remove_lock(self.access(), &other.id).await {
            return Err(Refused::NotRemoved(other, problem));
        }
        let words = format!("taken over from {}: {}", other.who, other.brief(Timestamp::now()));
        // The receiver may have been dropped.
        drop(progress.send(Progress::Output(words)));
        match acquire().await? {
            LockOwnership::Lost(Some(other)) => Err(Refused::Taken(other)),
            LockOwnership::Ours | LockOwnership::Lost(None) => Ok(()),
            LockOwnership::Unreadable(problem) => Err(Refused::Unreadable(problem)),
        }
    }
}

/// Reason why a lock was not placed.
enum Refused {
    /// Another operator's lock exists.
    Taken(Box<OperationLock>),
    /// A lock exists that cannot be read.
    Unreadable(Box<Problem>),
    /// The lock to take over cannot be removed.
    NotRemoved(Box<OperationLock>, Problem),
    /// The lock cannot be written.
    NotWritten(Problem),
}
