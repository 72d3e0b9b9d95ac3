//! Tests against real software: Ray on this machine, alone or as several hosts behind sshd (`tests/bed`), Google's own
//! clients, and a browser. `.config/nextest.toml` limits how many run at a time.

#![allow(clippy::unwrap_used, reason = "a test stops at the first unexpected value")]

#[path = "../support/bed.rs"]
mod bed;
mod browser;
mod channels;
mod cleanup;
mod client;
mod commands;
mod console;
mod container;
#[path = "../support/contract/mod.rs"]
mod contract;
mod faults;
mod google;
mod head;
mod infra;
mod job_workers;
mod jobs;
mod keeps_contract;
mod libtpu;
mod logs;
mod operations;
#[path = "../support/ports.rs"]
mod ports;
mod promises;
#[path = "../support/pty.rs"]
mod pty;
mod real_head;
mod restart;
mod rotation;
#[path = "../support/running.rs"]
mod running;
mod stacks;
mod startup;
#[path = "../support/until.rs"]
mod until;
mod update;
mod vitals;
