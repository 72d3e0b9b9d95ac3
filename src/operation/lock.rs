//! The mark of an operation on its cluster, which keeps other operators from starting another one.
//!
//! It is placed before the first step, renewed at each step and during long steps, and removed at the end. If it cannot
//! be written, the operation continues with a warning and the operator decides.

use super::facts::Facts;
use super::failure;
use super::journal::Journal;
use super::performer::Performer;
use crate::gcp::random_token;
use crate::model::{
    ClusterSpec, Hint, MARK_PULSE, Operation, OperationMark, Problem, Progress, StepName, Target, Timestamp,
    Verb,
};
use crate::supervisor::{self, Access, Connection, MarkOwnership, Options};
use std::time::Duration;
use tokio::sync::mpsc;

/// What telling of an interruption may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// Digits of a mark's id.
const ID: usize = 16;

/// The mark of another operator's operation on the cluster, if it can be read; `facts` identify our own mark.
pub async fn others_mark(access: Access<'_>, facts: &Facts) -> Option<OperationMark> {
    if !supervisor::keeps_marks(access.spec) {
        return None;
    }
    match supervisor::read_mark(access).await {
        Ok(mark) => mark.filter(|mark| facts.mark.as_ref() != Some(&mark.id)),
        Err(problem) => {
            tracing::warn!(cluster = %access.spec.name, "{}", problem.in_commands(Target::default()));
            None
        }
    }
}

/// Removes the mark of an operation that is over: abandoned or cancelled. What could not be removed is said.
pub async fn remove_mark(access: Access<'_>, facts: &Facts) -> Result<(), Problem> {
    let Some(id) = facts.mark.as_ref().filter(|_| supervisor::keeps_marks(access.spec)) else {
        return Ok(());
    };
    supervisor::remove_mark(access, id).await.map_err(|p| {
        let what = format!(
            "could not remove this operation's lock; it remains visible to other operators: {}",
            p.what
        );
        Problem { what, ..p }
    })
}

/// The mark of an operation that runs here.
pub(super) struct Marked {
    mark: OperationMark,
    spec: ClusterSpec,
    options: Options,
    connection: Connection,
}

impl Marked {
    fn access(&self) -> Access<'_> {
        Access { spec: &self.spec, options: &self.options, connection: &self.connection }
    }

    fn at(&self, step: usize, stopped: bool) -> OperationMark {
        OperationMark { step, stopped, seen_ms: Timestamp::now().as_millis(), ..self.mark.clone() }
    }

    /// Renews the mark for as long as it is awaited.
    pub(super) async fn beat(&self, step: usize) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(MARK_PULSE).await;
            let renewed = supervisor::renew_mark(self.access(), &self.at(step, false)).await;
            if let Err(problem) = renewed {
                tracing::warn!(cluster = %self.spec.name, "{}", problem.what);
            }
        }
    }

    /// Updates the step in the mark. An error if another operator has taken over the operation: then it must stop.
    pub(super) async fn reach(
        &self,
        step: usize,
        tell: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        let mark = self.at(step, false);
        match supervisor::renew_mark(self.access(), &mark).await {
            Ok(MarkOwnership::Ours) => Ok(()),
            Ok(MarkOwnership::Lost(Some(other))) => Err(taken_over(&other)),
            // The mark was removed manually.
            Ok(MarkOwnership::Lost(None)) => match supervisor::place_mark(self.access(), &mark).await {
                Ok(MarkOwnership::Lost(Some(other))) => Err(taken_over(&other)),
                Ok(_) => Ok(()),
                Err(problem) => {
                    say_unmarked(tell, &problem);
                    Ok(())
                }
            },
            Err(problem) => {
                say_unmarked(tell, &problem);
                Ok(())
            }
        }
    }

    /// Says that the operation has stopped at that step.
    pub(super) async fn stop(&self, step: usize) {
        let stopped = supervisor::renew_mark(self.access(), &self.at(step, true)).await;
        if let Err(problem) = stopped {
            tracing::warn!(cluster = %self.spec.name, "{}", problem.what);
        }
    }

    /// Removes it: the operation is over.
    pub(super) async fn remove(&self, tell: &mpsc::UnboundedSender<Progress>) {
        if let Err(p) = supervisor::remove_mark(self.access(), &self.mark.id).await {
            let why = p.in_commands(Target::of(&self.spec.name));
            let words = format!(
                "could not remove this operation's lock; it remains visible to other operators: {why}"
            );
            // The receiver may be gone.
            drop(tell.send(Progress::Output(words)));
        }
    }
}

fn say_unmarked(tell: &mpsc::UnboundedSender<Progress>, problem: &Problem) {
    let why = problem.in_commands(Target::default());
    let words =
        format!("warning: could not lock the cluster; other operators cannot see this operation: {why}");
    // The receiver may be gone.
    drop(tell.send(Progress::Output(words)));
}

fn taken_over(other: &OperationMark) -> Problem {
    let what = format!("this operation was taken over: {}", other.refusal(Timestamp::now()).what);
    let hint = Hint::from(format!("ask {}", other.who)).and(Verb::Abandon.to("abandon this operation"));
    failure(what, hint)
}

impl Performer {
    /// Records in the mark that the operation was interrupted at that step. A mark that is already removed stays
    /// removed.
    pub async fn interrupted(
        &self,
        operation: &Operation,
        at: Option<StepName>,
        done: &[(StepName, String)],
    ) {
        let Some(id) = self.facts.mark.clone().filter(|_| supervisor::keeps_marks(&self.spec)) else {
            return;
        };
        let step = at.or_else(|| operation.steps.first().copied()).unwrap_or(StepName::Check);
        let tell = async {
            if operation.cancelled_again(step, done).is_some() {
                return supervisor::remove_mark(self.access(), &id).await;
            }
            let now = Timestamp::now();
            let mark = OperationMark::new(id.clone(), operation, &self.options.who, std::process::id(), now);
            let since_ms = self.facts.begun.unwrap_or(mark.since_ms);
            let mark = OperationMark { step: operation.number(step), stopped: true, since_ms, ..mark };
            supervisor::renew_mark(self.access(), &mark).await.map(|_| ())
        };
        // Whoever interrupts does not wait for a network: without an answer the mark is seen to be stale.
        if let Ok(Err(problem)) = tokio::time::timeout(FAREWELL, tell).await {
            tracing::warn!(cluster = %self.spec.name, "{}", problem.what);
        }
    }

    /// Writes the mark of an operation that begins or is resumed. Returns none if no mark can be written.
    ///
    /// # Errors
    ///
    /// The cluster carries the mark of another operation, and it is not the one to take over.
    pub(super) async fn leave_mark(
        &mut self,
        operation: &Operation,
        step: Option<StepName>,
        journal: &Journal,
        tell: &mpsc::UnboundedSender<Progress>,
    ) -> Result<Option<Marked>, Problem> {
        if !supervisor::keeps_marks(&self.spec) {
            return Ok(None);
        }
        let now = Timestamp::now();
        let before = self.facts.mark.clone();
        let id = match &before {
            Some(id) => id.clone(),
            None => match random_token() {
                Ok(token) => token.expose().chars().take(ID).collect(),
                Err(e) => return Err(failure(e.to_string(), e.hint())),
            },
        };
        self.facts.mark = Some(id.clone());
        let since = *self.facts.begun.get_or_insert(now.as_millis());
        self.keep_facts(journal).await?;
        let who = self.options.who.clone();
        let mut mark = OperationMark::new(id, operation, &who, std::process::id(), now);
        mark.since_ms = since;
        mark.step = step.map_or(1, |step| operation.number(step)).max(1);
        let Self { spec, options, connection, .. } = self;
        let marked =
            Marked { mark, spec: spec.clone(), options: options.clone(), connection: connection.clone() };
        if before.is_some() {
            // The resuming process may differ from the one that began, so the mark is written again.
            drop(supervisor::remove_mark(self.access(), &marked.mark.id).await);
        }
        match self.place(&marked.mark, tell).await {
            Ok(()) => Ok(Some(marked)),
            Err(Refused::Taken(other)) => Err(other.refusal(now)),
            Err(Refused::NotKept(problem)) => {
                say_unmarked(tell, &problem);
                Ok(None)
            }
        }
    }

    /// Places the mark; in the place of another one where that is to be taken over.
    async fn place(
        &self,
        mark: &OperationMark,
        tell: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Refused> {
        let place = async || supervisor::place_mark(self.access(), mark).await.map_err(Refused::NotKept);
        let other = match place().await? {
            MarkOwnership::Lost(Some(other)) => other,
            MarkOwnership::Ours | MarkOwnership::Lost(None) => return Ok(()),
        };
        if self.take_over.as_ref() != Some(&other.id) {
            return Err(Refused::Taken(other));
        }
        supervisor::remove_mark(self.access(), &other.id).await.map_err(Refused::NotKept)?;
        let words = format!("taken over from {}: {}", other.who, other.brief(Timestamp::now()));
        // The receiver may be gone.
        drop(tell.send(Progress::Output(words)));
        match place().await? {
            MarkOwnership::Lost(Some(other)) => Err(Refused::Taken(other)),
            MarkOwnership::Ours | MarkOwnership::Lost(None) => Ok(()),
        }
    }
}

/// Why a mark was not placed.
enum Refused {
    /// Another operator's mark exists.
    Taken(Box<OperationMark>),
    /// There is no place for it.
    NotKept(Problem),
}
