//! A Google Cloud client: Secret Manager through Google's own crate, Compute Engine, Cloud TPU, Artifact Registry and
//! Cloud Resource Manager as REST calls. It knows nothing of Ray except the labels of its machines.
//!
//! A call without a response fails after [`ATTEMPT_TIMEOUT`] (no retry starts after that), with an error that has an
//! exact hint.
//! Base URLs are a plain value, so that private endpoints and tests can replace Google's.

mod change;
mod clean;
mod cleanup;
mod client;
mod compute;
mod compute_proof;
mod compute_tpus;
mod convert;
mod error;
mod groups;
mod identity;
mod limits;
mod location;
mod login;
mod needs;
mod operation;
mod parts;
mod permissions;
mod proof;
mod registry;
mod resizes;
mod rest;
mod secrets;
mod tpu;
mod waits;

pub use change::{Change, StartedOperation};
pub use cleanup::Cleanup;
pub use client::{Endpoints, Google};
pub use compute::{Head, Instance, Machines, Role};
pub use error::GcpError;
pub use groups::InstanceGroup;
pub use identity::Identity;
pub use limits::{ATTEMPT_TIMEOUT, WAIT_LIMIT};
pub use location::TpuLocation;
pub use login::{Login, credentials};
pub use needs::{NEEDS, Need};
pub use parts::{CreatedPart, Part, PartKind, created_for};
pub use permissions::Lack;
pub use proof::{ChosenQueued, ChosenTpu};
pub use registry::{Image, Repository};
pub use secrets::{SecretVersion, random_token};
pub use tpu::{TpuApi, queued_resource};
