//! The library in process, against simulated heads and a simulated Google.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cloud_watch;
mod connection;
#[path = "../support/contract/mod.rs"]
mod contract;
mod discovery;
mod gcp;
mod keeps_contract;
mod ray_bad_input;
#[path = "../support/soon.rs"]
mod soon;
mod token_care;
