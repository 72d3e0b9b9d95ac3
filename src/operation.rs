//! Operations: what is done to a cluster or to one of its workers, step by step, so that it can be interrupted anywhere
//! and resumed.
//!
//! An exit code is never trusted: a step is done when its effect is seen. Facts that later steps need are written to
//! the journal first.

mod audit;
mod backup;
mod backups;
mod call;
mod cluster;
mod desk;
mod draft;
mod environment;
mod executor;
mod folder;
mod forms;
mod gates;
mod google;
mod host;
mod journal;
mod mark;
mod preview;
mod program;
mod recorded;
mod request;
mod second_look;
mod service;
mod standing;
mod start;
mod startup;
mod stop;
mod submit;
mod worker;

pub use audit::{Audit, Entry};
pub use backup::{Backed, Kept, Restored, back_up, restore};
pub use backups::{Backup, backups, delete, remember};
pub use call::{Call, Deed};
pub use cluster::{Facts, Outcome, Performer, preflight};
pub use environment::Environment;
pub use executor::Executor;
pub use google::KnownHead;
pub use journal::{Journal, JournalError, Scope, Unfinished};
pub use preview::would_back_up;
pub use service::{Journals, News, Operations};
pub use startup::{Services, startup_script};
pub use submit::{Unfit, Upload, Wanted, prepared, upload};
pub use worker::{Machine, WorkerFacts};

use crate::model::{Hint, OperationKind, Problem, ProblemKind, Timestamp, Verb};

fn trouble(what: impl AsRef<str>, hint: impl Into<Hint>) -> Problem {
    Problem::new(ProblemKind::Other, what, hint, Timestamp::now())
}

/// The hint, and to resume after that.
fn then_resume(hint: impl Into<Hint>) -> Hint {
    hint.into().and(Verb::Resume.to("then resume"))
}

/// What can be done about an interrupted operation.
fn resume_or_abandon(kind: OperationKind) -> Hint {
    let command = kind.command();
    Hint::from([Verb::Resume.on(command, "resume it"), Verb::Abandon.on(command, "or abandon it")])
}

/// That the operation has to be begun again.
fn begin_again() -> Hint {
    Hint::from(Verb::Abandon.to("abandon this operation")).and("then start it again")
}
