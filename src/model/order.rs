//! Orders of the operator to the service of operations, why one is refused, and the news of a running operation.

use super::{
    CancelledState, Consent, Gate, Operation, OperationKind, OperationLock, Preview, Problem, Progress,
    StepName, Task, Timestamp, WorkerOffer,
};

/// An order of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// List the workers that can be added.
    ListOffers,
    /// Determine the jobs that the task would affect.
    Preview(Task),
    /// Begin it, with what the person has allowed and confirmed.
    Begin(Task, Consent),
    /// Resume the interrupted operation.
    Resume(Consent),
    /// Resume it, and skip the step at which it failed.
    SkipStep(Consent),
    /// Abandon the interrupted operation.
    Abandon,
    /// End it, where that may be.
    Cancel,
    /// End it at once, wherever it is: a person interrupts the program.
    Interrupt,
}

/// An operation that has begun and not ended, according to its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournaledOperation {
    /// The operation with its steps.
    pub operation: Operation,
    /// When the operation began.
    pub since: Timestamp,
    /// Steps that are done, with what was said.
    pub done: Vec<(StepName, String)>,
    /// Why it stopped; empty when it was killed.
    pub why: String,
    /// Where its jobs are saved.
    pub saved: Option<String>,
    /// Another process on this machine is running the operation now.
    pub elsewhere: bool,
}

/// News of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationNews {
    /// Workers that can be added.
    Offered(Result<WorkerOffer, Problem>),
    /// An order of that kind of operation is refused, and why. Nothing was changed.
    Refused(OperationKind, Refusal),
    /// The jobs that the task would affect. The task is included, because the dialog may show another one by now.
    Previewed(Task, Preview),
    /// The mark of another operator's operation on the cluster, read for a dialog; none when there is none.
    Locked(Option<OperationLock>),
    /// An operation is interrupted, here or in another program; none when there is none.
    Journaled(Option<JournaledOperation>),
    /// The operation begins or is resumed.
    Began(Operation),
    /// Progress of a step.
    Progress(Progress),
    /// What it has worked on, right before its end.
    Touched(Touched),
    /// The operation has ended.
    Ended(OperationEnd),
}

/// What an operation has worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Workers by name, each with the addresses of its hosts.
    pub workers: Vec<(String, Vec<String>)>,
    /// The folder in which jobs are saved.
    pub saved: Option<String>,
}

/// How an operation came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationEnd {
    /// All steps are done.
    Done,
    /// The operation was cancelled, and leaves this state ([`Operation::cancelled_at`]).
    Cancelled(CancelledState),
    /// The operation was abandoned.
    Abandoned,
    /// It stopped; it can be resumed. With where its jobs are saved.
    Stopped(Problem, Option<String>),
}

/// Why an order was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The gate that refused it.
    pub gate: Gate,
    /// What is wrong, and what to do about it.
    pub problem: Problem,
    /// The same order with what would have to be allowed for it to pass this gate; none where no person can.
    pub allow: Option<Box<Order>>,
}

impl Refusal {
    /// A refusal that no consent overcomes.
    pub const fn new(gate: Gate, problem: Problem) -> Self {
        Self { gate, problem, allow: None }
    }
}
