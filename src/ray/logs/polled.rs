//! A log that is read through Ray's state API.

use crate::model::{NodeId, SubmissionId, Text};

/// The file that is polled.
#[derive(Clone, Debug)]
pub enum Polled {
    /// The driver log of a job, on the node that its record names. It ends with the job.
    Job(SubmissionId),
    /// A file in a node's log directory, by its name there. It does not end on its own.
    File(NodeId, Text),
}
