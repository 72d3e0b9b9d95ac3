//! Logs as streams of whole lines: a job's driver log, live, and any file of a node.
//!
//! A stream reconnects by itself and neither loses nor repeats a line; its memory is bounded. The caller decides what
//! to do with the lines.

mod files;
mod job;
mod socket;
mod tail;

pub use files::{LogFiles, cleaned, follow_log};
pub use job::follow_job;
pub use tail::{Clients, LogEvent, Tail, WHOLE_LOG};
