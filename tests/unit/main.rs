//! Tests without a cluster or a child process: the state of the screen, the event loop, configuration, and rules for
//! the code, its wording and the manual.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod app;
mod architecture;
mod config;
mod event_loop;
mod manual;
mod proto;
mod readme;
#[path = "../support/sample.rs"]
mod sample;
#[path = "../support/spec.rs"]
mod spec;
mod words;
#[path = "../support/workers_reading.rs"]
mod workers_reading;
