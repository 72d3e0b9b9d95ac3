//! marin-tui: a terminal operations console for Ray clusters reached by SSH.
//!
//! The crate's map, from the ground up. A room imports only rooms below it (`tests/architecture.rs` holds the
//! table):
//!
//! - [`model`]: plain data that every room speaks in. No I/O.
//! - [`config`], [`token`], [`ssh`], [`ray`], [`gcp`]: one edge each; they know the model and never each other.
//! - [`reconcile`]: one table of what Ray and the cloud each say of a cluster's TPUs. Pure.
//! - [`infra`]: a folder of cluster files: the table, its templates, what is generated of them, and the rules.
//! - [`supervisor`]: one task per cluster that joins those edges: tunnel, token, poll, log streams, actions.
//! - [`app`]: the state of the screen. Events in, effects out; no terminal, no network.
//! - [`ui`]: draws that state. Pure.
//! - [`tui`]: the only place that owns a terminal: loop, signals, clipboard, browser.
//! - [`cli`]: the subcommands.
//! - [`demo`]: simulated Ray heads for tests and benchmarks, held to the real thing by one contract suite.

pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod gcp;
pub mod infra;
pub mod model;
pub mod ray;
pub mod reconcile;
pub mod ssh;
pub mod supervisor;
pub mod token;
pub mod tui;
pub mod ui;
