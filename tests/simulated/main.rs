//! Tests of the library in process, against simulated heads and simulated Google services.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cloud_watch;
mod compute_tpus;
mod connection;
#[path = "../support/contract/mod.rs"]
mod contract;
mod discovery;
mod file_search;
mod gcp;
#[path = "../support/google.rs"]
mod google;
mod hints;
mod keeps_contract;
mod logs;
mod ray_bad_input;
mod registry;
mod running_work;
#[path = "../support/shell.rs"]
mod shell;
#[path = "../support/soon.rs"]
mod soon;
#[path = "../support/spec.rs"]
mod spec;
mod stacks;
mod token_care;
