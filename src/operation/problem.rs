//! Problems of an operation.

use crate::gcp::GcpError;
use crate::model::{Problem, ProblemKind, Timestamp};

/// Something went wrong, as of now; `hint` says what to do.
pub(super) fn trouble(what: impl AsRef<str>, hint: impl AsRef<str>) -> Problem {
    Problem::new(ProblemKind::Other, what, hint, Timestamp::now())
}

/// What Google answered, as a problem.
pub(super) fn problem(e: &GcpError) -> Problem {
    trouble(e.to_string(), e.hint())
}
