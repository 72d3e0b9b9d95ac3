//! Simulated Ray heads for tests, benchmarks and demonstrations: a dashboard (HTTP, WebSocket, Ray's token check)
//! and a GCS (gRPC) on loopback sockets, inside this process, optionally behind an SSH server.
//!
//! A head returns the same fields as Ray 2.60, including odd and missing ones; one contract suite
//! (`tests/support/contract`) compares it with the real Ray. It does not depend on the console.
//!
//! The modules:
//!
//! - `scenario`: the properties and faults of a head. Plain values.
//! - `cluster`: the state of a cluster at one moment: nodes, jobs, logs, the autoscaler.
//! - `life`: the activity of a cluster: slices that are created and preempted, users who submit jobs.
//! - `dashboard`, `gcs`, `ssh`: the three interfaces of a head; `connection` accepts connections for the first two, and
//!   `shared` is the state that all connections of a head share.
//! - [`libtpu`]: the runtime metrics of a TPU host.
//! - [`google`]: simulated Google services, standalone for a test or connected to a fleet.
//! - `fleet`: many heads with their SSH servers, the simulated Google and a directory, built from a plan.
//! - `json`, `meter`, `observer`, `random`, `entropy`: Ray's JSON format, counters of requests, a callback for changes,
//!   repeatable random numbers, and random bytes from the operating system.

#![allow(clippy::cast_possible_wrap, reason = "a simulation uses small numbers")]
#![allow(clippy::result_large_err, reason = "an error is a response, at most one per request")]

mod cluster;
mod connection;
mod dashboard;
mod entropy;
mod fleet;
mod gcs;
pub mod google;
mod head;
mod json;
pub mod libtpu;
mod life;
mod locked;
mod meter;
mod observer;
mod random;
mod scenario;
mod shared;
mod ssh;

pub use fleet::{Autoscaler, FaultKind, Fleet, Folder, Member, Plan, PlanError, Planned};
pub use head::Head;
pub use life::{Life, Refusal, TpuType};
pub use meter::Cost;
pub use observer::RequestObserver;
pub use scenario::{Clock, Fault, FaultRule, Scenario};
pub use ssh::{Keys, SshServer};

use locked::locked;
