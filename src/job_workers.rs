//! The workers of a job, and what their files show together: the overview, equal lines, lines in time order, and the
//! first cause of a failure.
//!
//! No terminal and no network: [`crate::operation`] reads the files, and the console and the commands show the same
//! results.

mod causes;
mod explain;
mod known;
mod lines;
mod overview;
mod reading;
mod worker;

pub use causes::{Clocks, HostClock, causes, hosts_to_time};
pub use explain::{
    Findings, Quiet, Verdict, ahead, certainty_text, explained, failure, process_of, running, without_error,
    worker_of,
};
pub use known::{HealthIssue, Known, Pending};
pub use lines::{DEFAULT_LINES, Folded, Peers, WorkerLine, fold, found_in_order, in_order};
pub use overview::{OVERVIEW_LINES, last_files, remark_counts, steps_text, worker_overview};
pub use reading::{JobReadingCost, Part, WorkersAnswer, WorkersReading};
pub use worker::{
    JobWorkers, LastLines, NamedWorker, WorkerLog, age_text, file_to_open, first_few, lost_files,
    lost_workers_text,
};
