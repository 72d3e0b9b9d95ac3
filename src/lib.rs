//! marin-tui: a terminal operations console for Ray clusters reached by SSH.
//!
//! The modules, from the lowest layer up. A module imports only modules of lower layers
//! (`tests/unit/architecture.rs` has the table):
//!
//! - [`model`]: the plain data types that all modules share. No I/O.
//! - [`manual`]: the pages of the manual, which are part of the program.
//! - [`regular`]: opens regular files, and refuses pipes and devices.
//! - [`replace`]: atomically writes files that only their owner can read.
//! - `task`: starts tasks and blocking work on the runtime.
//! - `proto`: the messages of Ray's GCS and of libtpu, generated from `assets/ray/*.proto` and `assets/tpu/*.proto`.
//! - [`logs`]: log lines: buffers, searches, and the combined lines of many workers. Pure.
//! - [`job_workers`]: the workers of a job: overview, folded and merged lines, the first cause. Pure.
//! - [`stacks`]: Python stacks of many processes, grouped by equal stacks. Pure.
//! - [`vitals`]: the activity of running jobs, and signs of problems. Pure.
//! - [`config`], [`token`], [`ssh`], [`ray`], [`libtpu`], [`gcp`]: one external system each; they use the model and not
//!   each other.
//! - [`reconcile`]: compares the TPUs that Ray and Google Cloud report for a cluster. Pure.
//! - [`diagnose`]: derives findings from a cluster's last state and a little history. Pure.
//! - [`state`]: the finished state of a cluster: totals, TPUs and findings from what its sources report. Pure.
//! - [`infra`]: a directory of cluster files: the table, its templates, the generated files, and the validation rules.
//! - [`demo`]: simulated Ray heads behind SSH servers, for tests, measurements and demonstrations; one contract suite
//!   compares them with the real Ray. It uses only the model and the messages, and is built only with the feature
//!   `demo`.
//! - [`supervisor`]: one task per cluster that connects those modules: tunnel, token, poll, log streams, actions.
//! - [`operation`]: restart, start, stop, adding workers, backup and restore: steps with a journal that survives a
//!   crash, and the audit log.
//! - [`app`]: the state of the screen. Events in, effects out; no terminal, no network.
//! - [`ui`]: renders that state. Pure.
//! - [`tui`]: the only module that uses a terminal: loop, signals, clipboard, browser. Runs operations outside
//!   the loop.
//! - [`cli`]: the subcommands.

// `missing_docs` is enabled for modules whose API many other modules use; elsewhere, comments that would only repeat a
// name are omitted.
pub mod app;
pub mod cli;
pub mod config;
#[cfg(feature = "demo")]
pub mod demo;
#[warn(missing_docs)]
pub mod diagnose;
pub mod gcp;
pub mod infra;
#[warn(missing_docs)]
pub mod job_workers;
#[warn(missing_docs)]
pub mod libtpu;
#[warn(missing_docs)]
pub mod logs;
pub mod manual;
#[warn(missing_docs)]
pub mod model;
#[warn(missing_docs)]
pub mod operation;
mod proto;
pub mod ray;
#[warn(missing_docs)]
pub mod reconcile;
pub mod regular;
pub mod replace;
pub mod ssh;
#[warn(missing_docs)]
pub mod stacks;
#[warn(missing_docs)]
pub mod state;
#[warn(missing_docs)]
pub mod supervisor;
mod task;
pub mod token;
pub mod tui;
pub mod ui;
#[warn(missing_docs)]
pub mod vitals;
