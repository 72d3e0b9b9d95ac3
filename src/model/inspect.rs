//! Data queried from Ray for the page of one job or host, beyond the data in the tables of a cluster.

use super::{ChipUse, JobId, JobIds, JobWorker, Line, NodeId, Text, Timestamp};

/// Subject of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A job, by its ids.
    Job {
        /// Ids of its driver and its submission.
        ids: JobIds,
        /// A live node through which Ray reads the job's log: the driver's node, if known.
        through: Option<NodeId>,
    },
    /// A node that is alive.
    Host(NodeId),
}

/// Ray's data about a subject.
#[derive(Clone, Debug, PartialEq)]
pub enum Inspection {
    /// About a job.
    Job(JobInspection),
    /// About a host.
    Host(HostInspection),
}

/// Details of a job: its environment, where it runs, its last log lines. A part that could not be read has the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct JobInspection {
    /// Its runtime environment: paths (`pip.packages`) and values; the values of `env_vars` are masked.
    pub environment: Result<Vec<(Text, Text)>, String>,
    /// Its placement groups.
    pub groups: Result<Vec<PlacementGroup>, String>,
    /// Its processes: those that run a task or an actor, and those that failed.
    pub workers: Result<Vec<JobWorker>, String>,
    /// The last lines of its driver's log; empty for a manually started driver.
    pub log: Result<Vec<Line>, String>,
}

/// Resources that are reserved together (`ray.util.placement_group`).
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementGroup {
    /// Ray's id of the placement group, hexadecimal.
    pub id: Text,
    /// Its name; usually empty.
    pub name: Text,
    /// Its state as reported by Ray: `CREATED`, `PENDING`, `RESCHEDULING`, `REMOVED`.
    pub state: Text,
    /// Why it is not placed, as reported by Ray: `NO_RESOURCES`, `INFEASIBLE`; empty if it is placed.
    pub why: Text,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its bundles.
    pub bundles: Vec<Bundle>,
}

/// A bundle of a placement group: the resources that it reserves on one node, and that node, if it is placed.
pub type Bundle = (Vec<(Text, f64)>, Option<NodeId>);

/// Details of a host: its processes, chips and log files.
#[derive(Clone, Debug, PartialEq)]
pub struct HostInspection {
    /// The chips that Ray's agent reports.
    pub chips: Vec<ChipUse>,
    /// Ray's processes on the host: those that serve a job first, sorted by memory.
    pub processes: Vec<HostProcess>,
    /// The files in its log directory by Ray's categories, or why they cannot be listed.
    pub logs: Result<Vec<(Text, Vec<Text>)>, String>,
}

/// A process of Ray on a host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostProcess {
    /// Process id on the host.
    pub pid: u32,
    /// Its title: `ray::train_step`, `ray::IDLE`.
    pub title: Text,
    /// The job that it serves; none for Ray's own processes.
    pub job: Option<JobId>,
    /// CPU use in percent of one core.
    pub cpu_percent: Option<f64>,
    /// Resident memory, bytes.
    pub memory: Option<u64>,
    /// When it was started.
    pub started: Option<Timestamp>,
}
