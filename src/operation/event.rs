//! Events of the operations service.

use crate::job_workers::{Part, WorkersReading};
use crate::model::{
    Chips, ClusterName, FormEvent, FormId, JobId, JobKey, JobStacks, NodeId, OperationEvent, Problem, Text,
};
use std::sync::Arc;

/// An event of the service, for the front end.
#[derive(Clone, Debug)]
pub enum ServiceEvent {
    /// About an operation on a cluster.
    Operation(ClusterName, Box<OperationEvent>),
    /// About the form of a job.
    Form(ClusterName, FormId, FormEvent),
    /// The stacks of a driver's workers, or why they could not be taken.
    Stacks(ClusterName, JobId, Arc<Result<JobStacks, Problem>>),
    /// The log files of a worker, by its node and its process id, the most likely one first; or why they are
    /// unknown.
    WorkerFiles(ClusterName, (NodeId, u32), Arc<Result<Vec<Text>, Problem>>),
    /// The utilization of these nodes' chips, or why it is not known.
    Chips(ClusterName, Vec<NodeId>, Arc<Result<Chips, Problem>>),
    /// A reading of the workers of a job, or why it failed.
    JobWorkers(ClusterName, JobKey, Part, Arc<Result<WorkersReading, Problem>>),
}
