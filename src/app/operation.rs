//! Operations on a cluster and its workers: confirmation, progress, and what resumes or abandons them.

pub(super) mod actions;
pub mod confirmation;
pub mod progress;
pub mod worker_form;
pub(super) mod workers;
