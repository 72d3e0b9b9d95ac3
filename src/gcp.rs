//! Google Cloud as a client sees it: Secret Manager through Google's own crate, Compute Engine, Cloud TPU and
//! Artifact Registry as REST calls. It knows nothing of Ray except the labels of its machines.
//!
//! A call without an answer fails after [`CALL`] (no retry starts after that), with an error that has an exact hint.
//! Base URLs are a plain value, so that private endpoints and tests can replace Google's.

mod change;
mod clean;
mod client;
mod compute;
mod compute_proof;
mod compute_tpus;
mod convert;
mod error;
mod groups;
mod identity;
mod limits;
mod login;
mod operation;
mod parts;
mod place;
mod proof;
mod registry;
mod rest;
mod secrets;
mod tpu;

pub use change::{Begun, Change};
pub use client::{Endpoints, Google};
pub use compute::{Head, Instance, Machines, Role};
pub use error::GcpError;
pub use groups::InstanceGroup;
pub use identity::Identity;
pub use limits::CALL;
pub use login::{Login, credentials};
pub use parts::{MadePart, Part, PartKind, made_for};
pub use place::TpuPlace;
pub use proof::{ChosenQueued, ChosenTpu};
pub use registry::Image;
pub use secrets::{SecretVersion, random_token};
pub use tpu::{TpuApi, queued_resource};
