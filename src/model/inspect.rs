//! What is asked of Ray for the page of one job or one host: more than the tables of a cluster have of it.

use super::{ChipUse, JobId, JobIds, JobWorker, Line, NodeId, Text, Timestamp};

/// What a page is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A job, by its driver.
    Job {
        /// Its driver and its submission.
        ids: JobIds,
        /// A living node, through which Ray reads the job's log: that of its driver, where it is known.
        through: Option<NodeId>,
    },
    /// A node that is alive.
    Host(NodeId),
}

/// What Ray answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Inspection {
    /// Of a job.
    Job(JobInspection),
    /// Of a host.
    Host(HostInspection),
}

/// A job beside its row: what it was started with, where it runs, its last words. A part that could not be read says why.
#[derive(Clone, Debug, PartialEq)]
pub struct JobInspection {
    /// Its runtime environment: paths of its values (`pip.packages`) and the values, those of `env_vars` masked.
    pub environment: Result<Vec<(Text, Text)>, String>,
    /// Its placement groups.
    pub groups: Result<Vec<PlacementGroup>, String>,
    /// Its processes: those that run a task or an actor, and those that failed.
    pub workers: Result<Vec<JobWorker>, String>,
    /// The last lines of its driver's log; none of a driver that was started by hand.
    pub log: Result<Vec<Line>, String>,
}

/// Resources that were set aside together, as `ray.util.placement_group` does.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementGroup {
    /// Ray's id of the placement group, hexadecimal.
    pub id: Text,
    /// Its name; empty for most.
    pub name: Text,
    /// Ray's word: `CREATED`, `PENDING`, `RESCHEDULING`, `REMOVED`.
    pub state: Text,
    /// Why it has no place, in Ray's word: `NO_RESOURCES`, `INFEASIBLE`; empty when it has one.
    pub why: Text,
    /// Since when it is there.
    pub created: Option<Timestamp>,
    /// Its bundles: what each sets aside, and where; none for one that has no place.
    pub bundles: Vec<Bundle>,
}

/// A part of a placement group: what it sets aside on one node, and on which, once it has a place.
pub type Bundle = (Vec<(Text, f64)>, Option<NodeId>);

/// A host beside its row: its processes, chips and files.
#[derive(Clone, Debug, PartialEq)]
pub struct HostInspection {
    /// The chips that Ray's agent sees there.
    pub chips: Vec<ChipUse>,
    /// Ray's processes there: those that serve a job first, by memory.
    pub processes: Vec<HostProcess>,
    /// The files in its log folder, by Ray's categories, or why they cannot be listed.
    pub logs: Result<Vec<(Text, Vec<Text>)>, String>,
}

/// A process of Ray on a host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostProcess {
    /// Process id there.
    pub pid: u32,
    /// Its title: `ray::train_step`, `ray::IDLE`.
    pub title: Text,
    /// The driver that it serves; none for Ray's own.
    pub job: Option<JobId>,
    /// CPU use in percent of one core.
    pub cpu_percent: Option<f64>,
    /// Resident memory, bytes.
    pub memory: Option<u64>,
    /// When it was started.
    pub started: Option<Timestamp>,
}
