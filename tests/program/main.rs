//! Tests that run the real program as a process or in a pseudo-terminal, against simulated heads behind SSH and a
//! simulated Google; and library tests that need the system's own `ssh`.

#![allow(clippy::unwrap_used, reason = "a test stops at the first unexpected value")]

mod chips;
mod cleanup;
#[path = "../support/cloud_fixture.rs"]
mod cloud_fixture;
mod completions;
mod console;
mod demo_command;
mod demo_fleet;
mod demo_google;
mod demo_restart;
mod demo_ssh;
mod endurance;
mod exec;
mod followed_logs;
#[path = "../support/google.rs"]
mod google;
#[path = "../support/head_fixture.rs"]
mod head_fixture;
mod host_key;
mod hostile;
mod images;
mod infra;
mod job_logs;
mod job_workers;
mod jobs;
mod leaks;
#[path = "../support/left.rs"]
mod left;
mod listing;
mod log_search;
mod man;
mod old_script;
mod operate;
mod packaging;
mod picture;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/program.rs"]
mod program;
mod proofs;
#[path = "../support/pty.rs"]
mod pty;
mod record;
mod recovery;
mod registry;
mod restart_faults;
#[path = "../support/running.rs"]
mod running;
mod scenarios;
mod scripts;
mod setup;
#[path = "../support/shell.rs"]
mod shell;
#[path = "../support/simulated.rs"]
mod simulated;
#[path = "../support/soon.rs"]
mod soon;
mod ssh;
#[path = "../support/sshd.rs"]
mod sshd;
mod submit_checks;
mod suggestions;
#[path = "../support/svg.rs"]
mod svg;
mod terminal;
mod token_commands;
mod tpus;
#[path = "../support/transcript.rs"]
mod transcript;
mod trust;
mod two_operators;
#[path = "../support/until.rs"]
mod until;
mod update;
mod visit;
mod vitals;
mod workers;
