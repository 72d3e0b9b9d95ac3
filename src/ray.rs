//! A client of Ray: the GCS over gRPC and the dashboard over HTTP; either yields a [`crate::model::Snapshot`].
//!
//! The GCS returns the state in about a millisecond and half a kilobyte per node; the dashboard is used for jobs, logs
//! and machine metrics, and for everything when the GCS is not reachable. This module knows nothing of SSH, settings
//! or poll intervals.

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
mod memory_estimate;
mod packages;
mod poller;
mod profile;
mod submit;

pub use api::{AT_ONCE, EMPTY_OR_FAILED, Holdings, JobDetail, Listed, NODE_ID_LABEL, SUPERVISOR};
pub use client::{Client, Counter, Endpoint, Limits, Meter};
pub use drain::{Drain, Running};
pub use error::RayError;
pub use logs::{
    Clients, Closed, EndWatch, LogEvent, LogFiles, LogStream, Outlet, Polled, WholeLog, cleaned, ends,
    follow_whole, has_ended, poll,
};
pub use packages::{DEFAULT_EXCLUDES, Folder, PackError, UPLOAD_LIMIT, archive};
pub use poller::{Identity, Poller};
pub use submit::{JOBS_ROUTE, Recorded, Submission, package_route};
