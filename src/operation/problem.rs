//! Problems of an operation.

use crate::gcp::GcpError;
use crate::model::{Hint, OperationKind, Problem, ProblemKind, Timestamp, Verb};

/// Something went wrong, as of now; `hint` says what to do.
pub(super) fn failure(what: impl AsRef<str>, hint: impl Into<Hint>) -> Problem {
    Problem::new(ProblemKind::Other, what, hint, Timestamp::now())
}

/// What Google answered, as a problem.
pub(super) fn problem(e: &GcpError) -> Problem {
    failure(e.to_string(), e.hint())
}

/// The hint, and to resume after that.
pub(super) fn then_resume(hint: impl Into<Hint>) -> Hint {
    hint.into().and(Verb::Resume.to("then resume"))
}

/// What can be done about an interrupted operation.
pub(super) fn resume_or_abandon(kind: OperationKind) -> Hint {
    let command = kind.command();
    Hint::from([Verb::Resume.on(command, "resume it"), Verb::Abandon.on(command, "or abandon it")])
}

/// That the operation has to be started again.
pub(super) fn begin_again() -> Hint {
    Hint::from(Verb::Abandon.to("abandon this operation")).and("then start it again")
}

/// What can be done about a head, which is no worker.
pub(super) fn of_head() -> Hint {
    Hint::from([Verb::Stop.to("stop the cluster"), Verb::Restart.to("or restart it")])
}
