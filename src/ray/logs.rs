//! Logs as streams of whole lines: a job's driver log, live, and any file of a node.
//!
//! A stream reconnects automatically and neither loses nor repeats a line; its memory is bounded. The caller decides
//! what to do with the lines.

mod files;
mod job;
mod poll;
mod polled;
mod seen;
mod socket;
mod stream;
mod whole;

pub use files::{LogFiles, cleaned};
pub use job::follow_whole;
pub use poll::poll;
pub use polled::Polled;
pub use stream::{Clients, Closed, EndWatch, LogEvent, LogStream, Outlet, ends, has_ended};
pub use whole::WholeLog;
