//! Ray as a client sees it: the GCS by gRPC, the dashboard by HTTP, one [`crate::model::Snapshot`] out of either.
//!
//! The GCS answers for state in a millisecond and half a kilobyte a node; the dashboard answers for jobs, logs and
//! machine figures, and for all of it when the GCS cannot be had. Nothing here knows of SSH, of settings, or of
//! when to ask again.

mod api;
mod client;
mod convert;
mod drain;
mod error;
#[cfg(test)]
mod fuzz;
mod gcs;
mod json;
mod large;
mod logs;
mod packages;
mod poller;
mod submit;
mod weigh;
pub mod wire;

pub use api::JobDetail;
pub use client::{Client, Counter, Endpoint, Limits, Meter};
pub use drain::{Drain, Running};
pub use error::RayError;
pub use logs::{Clients, LineSplitter, LogEvent, LogFiles, Tail, WHOLE_LOG, cleaned, follow_job, follow_log};
pub use packages::{DEFAULT_EXCLUDES, Folder, PackError, UPLOAD_LIMIT, archive};
pub use poller::{Identity, Poller};
pub use submit::{JOBS_ROUTE, Recorded, Submission, package_route};
