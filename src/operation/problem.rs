//! Problems of an operation.

use crate::gcp::GcpError;
use crate::model::{Hint, OperationKind, Problem, ProblemKind, Timestamp, Verb};

/// A failure that occurred now; `hint` is the suggested fix.
pub(super) fn failure(what: impl AsRef<str>, hint: impl Into<Hint>) -> Problem {
    Problem::new(ProblemKind::Other, what, hint, Timestamp::now())
}

/// Converts an error from Google.
pub(super) fn problem(e: &GcpError) -> Problem {
    failure(e.to_string(), e.hint())
}

/// The hint, followed by the hint to resume.
pub(super) fn then_resume(hint: impl Into<Hint>) -> Hint {
    hint.into().and(Verb::Resume.to("then resume"))
}

/// The hint for an interrupted operation.
pub(super) fn resume_or_abandon(kind: OperationKind) -> Hint {
    let command = kind.command();
    Hint::from([Verb::Resume.on(command, "resume it"), Verb::Abandon.on(command, "or abandon it")])
}

/// The hint to start the operation again.
pub(super) fn begin_again() -> Hint {
    Hint::from(Verb::Abandon.to("abandon this operation")).and("then start it again")
}

/// The hint for a head, which is not a worker.
pub(super) fn of_head() -> Hint {
    Hint::from([Verb::Stop.to("stop the cluster"), Verb::Restart.to("or restart it")])
}
