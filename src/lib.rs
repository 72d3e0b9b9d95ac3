//! marin-tui: a terminal operations console for Ray clusters reached by SSH.
//!
//! The crate's map, from the ground up. A room imports only rooms below it (`tests/architecture.rs` holds the
//! table):
//!
//! - [`model`]: plain data that every room speaks in. No I/O.
//! - [`regular`]: opens files that may turn out to be pipes or devices.
//! - [`config`], [`token`], [`ssh`], [`ray`], [`gcp`]: one edge each; they know the model and never each other.
//! - [`reconcile`]: one table of what Ray and the cloud each say of a cluster's TPUs. Pure.
//! - [`diagnose`]: a cluster's last state and a little memory become findings in words. Pure.
//! - [`infra`]: a folder of cluster files: the table, its templates, what is generated of them, and the rules.
//! - [`demo`]: simulated Ray heads behind SSH servers, a fleet of them if wanted: for tests, measurements and looking
//!   around; one contract suite holds them to the real thing. They know the model alone.
//! - [`supervisor`]: one task per cluster that joins those edges: tunnel, token, poll, log streams, actions.
//! - [`operation`]: restart, start, stop, workers by hand, backup and restore: steps with a journal that survives a
//!   crash, and the audit log.
//! - [`app`]: the state of the screen. Events in, effects out; no terminal, no network.
//! - [`ui`]: draws that state. Pure.
//! - [`tui`]: the only place that owns a terminal: loop, signals, clipboard, browser. Runs operations beside the loop.
//! - [`cli`]: the subcommands.

pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod diagnose;
pub mod gcp;
pub mod infra;
pub mod model;
pub mod operation;
pub mod ray;
pub mod reconcile;
pub mod regular;
pub mod ssh;
pub mod supervisor;
pub mod token;
pub mod tui;
pub mod ui;
