//! Messages between the supervisor and a front end: events up, requests down.

use super::cloud::{CloudView, TpuHost};
use super::{
    Autoscaler, Cleaned, ClusterVitals, Cost, FileSearch, FileSearchEvent, FileSearchId, Inspection, Job,
    JobIds, JobStatus, Leftover, Link, LocalPorts, LogBatch, LogMatches, LogPart, LogSource, Node, NodeId,
    NotSearched, OperationLock, Physical, Problem, StreamId, Subject, SubmissionId, Text, Timestamp, Work,
};
use std::sync::Arc;

/// The state of one cluster at one time. Each part is replaced as a whole; parts are shared, never copied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken (our clock).
    pub taken: Timestamp,
    /// Value of `ray_version`, e.g. `2.60.0`.
    pub ray_version: Text,
    /// Value of `session_name`, which changes when the head restarts.
    pub session: Text,
    /// All nodes, including dead ones.
    pub nodes: Arc<Vec<Node>>,
    /// All jobs, newest first.
    pub jobs: Arc<Vec<Arc<Job>>>,
    /// Report of the autoscaler.
    pub autoscaler: Arc<Autoscaler>,
    /// Parts that could not be read this time. Any data shown for them is older.
    pub missing: Vec<MissingPart>,
}

impl Snapshot {
    /// The first of these parts that could not be read.
    pub fn lacks(&self, parts: &[SnapshotPart]) -> Option<&MissingPart> {
        self.missing.iter().find(|missing| parts.contains(&missing.part))
    }

    /// Why the nodes are unknown: they could not be read, and there are no earlier ones. The list is empty then,
    /// although the cluster has some.
    pub fn unread_nodes(&self) -> Option<&MissingPart> {
        self.lacks(&[SnapshotPart::Nodes]).filter(|_| self.nodes.is_empty())
    }

    /// The number of unmet requests of each demand of the autoscaler's report. A call of `request_resources()` is met
    /// as far as its bundles fit onto the living nodes; it is not counted if the nodes were never read.
    pub fn unmet(&self) -> Vec<u64> {
        self.autoscaler.unmet(self.unread_nodes().is_none().then_some(&self.nodes[..]))
    }
}

/// A part of a [`Snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotPart {
    /// The list of nodes.
    Nodes,
    /// The list of jobs.
    Jobs,
    /// Some jobs of the list.
    SomeJobs,
    /// The autoscaler's report.
    Autoscaler,
    /// What the nodes' machines measure.
    LiveUse,
}

/// A part that could not be read, and why: `autoscaler: timed out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPart {
    /// The part that could not be read.
    pub part: SnapshotPart,
    /// The reason. It may be text from the cluster.
    pub why: String,
}

impl std::fmt::Display for MissingPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = match self.part {
            SnapshotPart::Nodes => "nodes",
            SnapshotPart::Jobs => "jobs",
            SnapshotPart::SomeJobs => "some jobs",
            SnapshotPart::Autoscaler => "autoscaler",
            SnapshotPart::LiveUse => "live use",
        };
        write!(f, "{part}: {}", self.why)
    }
}

/// An event of one cluster.
#[derive(Clone, Debug)]
pub enum ClusterEvent {
    /// The connection state has changed.
    Link(Link),
    /// A new snapshot of the cluster.
    Snapshot(Arc<Snapshot>),
    /// Machine metrics of some nodes.
    Physical(Vec<(NodeId, Physical)>),
    /// New log lines.
    Log(LogBatch),
    /// A requested older part of a log, or why it cannot be read.
    OlderLog {
        /// Stream that the part belongs to.
        stream: StreamId,
        /// The part that ends at the requested position.
        part: Result<LogPart, String>,
    },
    /// The matches of a search of a whole log, or why it could not be searched.
    LogMatches {
        /// Stream of the log.
        stream: StreamId,
        /// The regular expression.
        pattern: String,
        /// The matching lines.
        found: Result<LogMatches, NotSearched>,
    },
    /// UTC offset of the head's time zone, for the timestamps in an open log.
    LogZone {
        /// Stream of the log.
        stream: StreamId,
        /// Seconds east of UTC.
        utc_offset: i32,
    },
    /// Matches of a search through log files, or how the search ended.
    FileSearch(FileSearchId, FileSearchEvent),
    /// A log is being downloaded for a search.
    LogDownload {
        /// Stream of the log.
        stream: StreamId,
        /// Bytes received so far.
        bytes: u64,
    },
    /// Outcome of a stop-job request.
    JobStop {
        /// Submission id of the job.
        id: SubmissionId,
        /// The outcome, according to the job's status after the request.
        outcome: JobStopOutcome,
    },
    /// Google Cloud's TPUs in the cluster's zone, or why they could not be listed.
    Cloud(Result<Arc<CloudView>, Problem>),
    /// Outcome of the requested deletion of leftovers, each verified.
    Cleaned(Result<Vec<(Leftover, Cleaned)>, Problem>),
    /// Outcome of a delete-job request.
    JobDelete {
        /// Submission id of the job.
        id: SubmissionId,
        /// Whether the record was deleted, or why not.
        outcome: Result<(), String>,
    },
    /// The work of a job in Ray, or why it could not be read.
    Work {
        /// The job that was queried.
        job: JobIds,
        /// Its work, or why it cannot be read.
        work: Result<Box<Work>, String>,
    },
    /// Ray's data about a job or a host for its page, or why it could not be read.
    Inspected(Subject, Result<Box<Inspection>, String>),
    /// The vitals of the cluster's running jobs.
    Vitals(Arc<ClusterVitals>),
    /// The load that this program causes on the head.
    Cost(Cost),
    /// The lock of another operator's operation on the cluster, if any.
    Lock(Option<OperationLock>),
    /// The local TCP ports that are forwarded to the head's services.
    Ports {
        /// The open ports.
        open: LocalPorts,
        /// Ports that were replaced ("8265 is in use by ssh (pid 4711), using 8266") or could not be opened, and why.
        notes: Vec<String>,
    },
    /// A note for the operator about how the head was found.
    Note(String),
}

/// Outcome of a stop-job request. Ray's response alone is not trusted: the status is read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStopOutcome {
    /// Requested; waiting for the effect.
    Requested,
    /// The job has ended, with this status.
    Ended(String),
    /// Ray reported the job as stopped, but after a while it still has this status.
    StillThere(JobStatus),
    /// The request may have reached Ray, but the outcome is unknown.
    Unknown {
        /// Cause of the uncertainty.
        why: String,
        /// Whether the job is still being watched, so that another outcome follows.
        watching: bool,
    },
    /// The request was not sent, or Ray refused it, and why.
    Failed(String),
}

impl JobStopOutcome {
    /// The outcome for the audit log, where a later line corrects an unknown outcome; none while a request is pending.
    /// May contain text from the cluster.
    pub fn noted(&self) -> Option<String> {
        match self {
            Self::Requested => None,
            Self::Ended(word) => Some(format!("ended ({word})")),
            Self::StillThere(status) => Some(format!("still {}", status.label())),
            Self::Unknown { why, .. } => Some(format!("stop not confirmed: {why}")),
            Self::Failed(why) => Some(format!("not stopped: {why}")),
        }
    }
}

/// A request of a front end to a cluster's task.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Refresh all data now.
    Refresh,
    /// Whether the cluster is the one on the screen, which determines its poll interval.
    Focus(bool),
    /// These nodes are on the screen: fetch their machine metrics.
    Visible(Vec<NodeId>),
    /// Stop a job and watch the effect.
    StopJob(SubmissionId),
    /// Delete an ended job's record from Ray.
    DeleteJob(SubmissionId),
    /// Read the work of this job's entrypoint, tasks and actors.
    Work(JobIds),
    /// Read the data for the page of a job or a host.
    Inspect(Subject),
    /// Follow a log as that stream.
    Follow(StreamId, LogSource),
    /// Follow several logs together, each as a stream, on that host (none: the head).
    FollowSeveral(Vec<(StreamId, LogSource, Option<TpuHost>)>),
    /// Read the part of a followed log that ends at this position.
    OlderLog(StreamId, u64),
    /// Search the whole file of a followed log, on its host, for this regular expression.
    SearchLog(StreamId, String),
    /// Search log files. This ends an earlier such search.
    SearchFiles(Box<FileSearch>),
    /// Download a followed log through the dashboard and search it for this regular expression.
    DownloadLog(StreamId, String),
    /// Close a log stream.
    Unfollow(StreamId),
    /// Forget the known host key and accept the one with this fingerprint.
    TrustHostKey(String),
    /// Query Google Cloud now.
    Cloud,
    /// Delete these resources, if they are still leftovers.
    CleanPreempted(Vec<Leftover>),
    /// Open local TCP ports that are forwarded to all of the head's services, or close them. They are opened again
    /// after each reconnect.
    Ports(bool),
    /// Close the connection, if any, and reconnect at once.
    Reconnect,
    /// Whether an operation on this machine is stopping or starting the cluster; in the meantime, a restart of Ray is
    /// not a finding.
    Operated(bool),
}
