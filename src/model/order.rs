//! Orders from the operator to the operations service, refusals of orders, and events about a running operation.

use super::{
    CancelledState, ClusterName, Consent, Fix, Hint, Operation, OperationKind, OperationLock, Preview,
    Problem, ProblemKind, Progress, RefusalReason, StepName, Task, Timestamp, WorkerOffer,
};

/// An order of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// List the workers that can be added.
    ListOffers,
    /// Determine the jobs that the task would affect.
    Preview(Task),
    /// Begin the task, with the given permissions and confirmation.
    Begin(Task, Consent),
    /// Resume the interrupted operation.
    Resume(Consent),
    /// Resume the interrupted operation, and skip the step at which it failed.
    SkipStep(Consent),
    /// Abandon the interrupted operation.
    Abandon,
    /// Cancel the running operation, if the current step allows it.
    Cancel,
    /// End the running operation at once, at any step: the user interrupts the program.
    Interrupt,
}

/// An operation that was started and has not ended, according to its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournaledOperation {
    /// The operation with its steps.
    pub operation: Operation,
    /// When the operation began.
    pub since: Timestamp,
    /// Completed steps, each with its result.
    pub done: Vec<(StepName, String)>,
    /// Why it stopped; empty if it was killed.
    pub why: String,
    /// The directory in which its jobs are saved, if any.
    pub saved: Option<String>,
    /// Another process on this machine is running the operation now.
    pub elsewhere: bool,
}

/// An event of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationEvent {
    /// Workers that can be added.
    Offered(Result<WorkerOffer, Problem>),
    /// An order for this kind of operation is refused, and why; with the task if its preview is refused. Nothing was
    /// changed.
    Refused(OperationKind, Option<Task>, Refusal),
    /// The jobs that the task would affect. The task is included because the dialog may show a different one by now.
    Previewed(Task, Preview),
    /// The lock of another operator's operation on the cluster, read for a dialog; none if there is no lock.
    Locked(Option<OperationLock>),
    /// An interrupted operation, or one that runs in another process; none if there is none.
    Journaled(Option<JournaledOperation>),
    /// The operation begins or is resumed.
    Began(Operation),
    /// Progress of a step.
    Progress(Progress),
    /// The workers and files that it has changed, sent right before its end.
    Changed(Changed),
    /// The operation has ended.
    Ended(OperationEnd),
}

/// The workers and files that an operation has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Workers by name, each with the addresses of its hosts.
    pub workers: Vec<(String, Vec<String>)>,
    /// The directory in which jobs are saved.
    pub saved: Option<String>,
    /// Ids of the jobs that a restart could not submit again.
    pub not_restored: Vec<String>,
}

impl Changed {
    /// What an operation whose steps are all completed could not do; `None` if nothing is missing.
    pub fn shortfall(&self, cluster: &ClusterName, now: Timestamp) -> Option<Problem> {
        let ids = (!self.not_restored.is_empty()).then(|| self.not_restored.join(", "))?;
        let hint =
            |saved: &String| Fix::restore_jobs(cluster, saved, "restore them once Ray accepts them").into();
        let hint: Hint = self.saved.as_ref().map(hint).unwrap_or_default();
        Some(Problem::new(ProblemKind::Other, format!("not restored: {ids}"), hint, now))
    }
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationEnd {
    /// All steps are completed.
    Done,
    /// The operation was cancelled and leaves this state ([`Operation::cancelled_at`]).
    Cancelled(CancelledState),
    /// The operation was abandoned.
    Abandoned,
    /// It stopped and can be resumed. With the directory in which its jobs are saved, if any.
    Stopped(Problem, Option<String>),
}

/// Why an order was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Why it was refused.
    pub reason: RefusalReason,
    /// What is wrong, and what to do about it.
    pub problem: Problem,
    /// The same order with the permission that it lacks; none if no permission does.
    pub allow: Option<Box<Order>>,
}

impl Refusal {
    /// A refusal that no permission can override.
    pub const fn new(reason: RefusalReason, problem: Problem) -> Self {
        Self { reason, problem, allow: None }
    }
}
