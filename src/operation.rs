//! Operations: changes of a cluster or of one of its workers, carried out in steps so that they can be interrupted
//! anywhere and resumed.
//!
//! An exit code is never trusted: a step is done when its effect is seen. Facts that later steps need are written to
//! the journal first.

mod audit;
mod backup;
mod backups;
mod blocking;
mod call;
mod chips;
mod cleanup;
mod clock;
mod cluster;
mod draft;
mod drafts;
mod environment;
mod event;
mod executor;
mod facts;
mod folder;
mod forms;
mod gates;
mod google;
mod host;
mod job_workers;
mod journal;
mod journaled;
mod label_selectors;
mod listed;
mod lock;
mod performer;
mod preflight;
mod preview;
mod problem;
mod program;
mod recheck;
mod recorded;
mod remove_several;
mod request;
mod service;
mod slices;
mod stacks;
mod start;
mod startup;
mod stop;
mod submit;
mod update;
mod warnings;
mod worker;

pub use audit::{Audit, Entry};
pub use backup::{BackupContent, Kept, Restored, back_up, restore};
pub use backups::{Backup, backups, delete, remember};
pub use call::{Call, CallKind};
pub use chips::ChipReader;
pub use cleanup::{
    Cleanup, DEVICES, FullDisk, HostFound, HostLeftovers, LeftoverProcess, Outcome as Ended, Subject,
};
pub use environment::Environment;
pub use event::ServiceEvent;
pub use executor::Executor;
pub use facts::{Facts, KnownHead, Outcome};
pub use gates::{is_kind, nothing_to_resume};
pub use job_workers::WorkerReader;
pub use journal::{Journal, JournalError, Scope, Unfinished};
pub use performer::Performer;
pub use preflight::preflight;
pub use preview::would_back_up;
pub use service::{Journals, Operations};
pub use slices::slice_resources;
pub use stacks::Stacks;
pub use startup::{Services, startup_script};
pub use submit::{JobRequest, SubmitError, Upload, prepared, upload};
pub use warnings::warnings;
pub use worker::{Machine, Selection, WorkerFacts, select};

use problem::{begin_again, failure, of_head, resume_or_abandon, then_resume};
