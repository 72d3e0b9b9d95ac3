//! What travels between the supervisor and a front end: news up, requests down.

use super::cloud::CloudView;
use super::{
    Autoscaler, Cleaned, ClusterVitals, Cost, FileSearch, FileSearchId, FileSearchNews, Inspection, Job,
    JobIds, JobStatus, Leftover, Link, LocalPorts, LogBatch, LogMatches, LogPart, LogSource, Node, NodeId,
    NotSearched, OperationLock, Physical, Problem, StreamId, Subject, SubmissionId, Text, Timestamp, Work,
};
use std::sync::Arc;

/// The state of one cluster at one time. Each part is replaced whole; parts are shared, never copied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken (our clock).
    pub taken: Timestamp,
    /// Value of `ray_version`, e.g. `2.60.0`.
    pub ray_version: Text,
    /// `session_name`: changes when the head restarts.
    pub session: Text,
    /// All nodes, including dead ones.
    pub nodes: Arc<Vec<Node>>,
    /// All jobs, newest first.
    pub jobs: Arc<Vec<Arc<Job>>>,
    /// Report of the autoscaler.
    pub autoscaler: Arc<Autoscaler>,
    /// What could not be read this time, in words: parts with the reason (`autoscaler: timed out`), jobs. The data
    /// shown for it, if any, is older.
    pub missing: Vec<String>,
}

/// News about one cluster.
#[derive(Clone, Debug)]
pub enum News {
    /// The connection state has changed.
    Link(Link),
    /// A new snapshot of the cluster.
    Snapshot(Arc<Snapshot>),
    /// Machine figures of some nodes.
    Physical(Vec<(NodeId, Physical)>),
    /// New log lines.
    Log(LogBatch),
    /// An older part of a log that was asked for, or why it cannot be read.
    OlderLog {
        /// Stream that it belongs to.
        stream: StreamId,
        /// The part that ends where it was asked to.
        part: Result<LogPart, String>,
    },
    /// What a search of a whole log found, or why it could not be searched.
    LogMatches {
        /// Stream of the log.
        stream: StreamId,
        /// What was searched for.
        pattern: String,
        /// The lines that match.
        found: Result<LogMatches, NotSearched>,
    },
    /// Seconds that the zone of the head's clock is east of UTC, for the times in an open log.
    LogZone {
        /// Stream of the log.
        stream: StreamId,
        /// Seconds east of UTC.
        utc_offset: i32,
    },
    /// What a search through the ends of log files found, or how it ended.
    FileSearchNews(FileSearchId, FileSearchNews),
    /// A log is being downloaded for a search.
    LogDownload {
        /// Stream of the log.
        stream: StreamId,
        /// Bytes that have come.
        bytes: u64,
    },
    /// How a stop-job request came out.
    JobStop {
        /// Submission id of the job.
        id: SubmissionId,
        /// What the job's status shows after the request.
        outcome: JobStopOutcome,
    },
    /// What Google Cloud has in the cluster's zone, or why it did not say.
    Cloud(Result<Arc<CloudView>, Problem>),
    /// What became of leftovers that were to be deleted, each verified.
    Cleaned(Result<Vec<(Leftover, Cleaned)>, Problem>),
    /// How a delete-job request came out: done, or why not.
    JobDelete {
        /// Submission id of the job.
        id: SubmissionId,
        /// Whether the record is gone; else why it is not.
        outcome: Result<(), String>,
    },
    /// What a job does in Ray, or why that could not be read.
    Work {
        /// The job that was queried.
        job: JobIds,
        /// Its work, or why it cannot be read.
        work: Result<Box<Work>, String>,
    },
    /// What Ray answered about a job or a host for its page, or why it did not.
    Inspected(Subject, Result<Box<Inspection>, String>),
    /// The vitals of its running jobs.
    Vitals(Arc<ClusterVitals>),
    /// What we cost the head.
    Cost(Cost),
    /// The mark of another operator's operation on the cluster, if any.
    Lock(Option<OperationLock>),
    /// The TCP ports of this machine that lead to the head's services now.
    Ports {
        /// The open ports.
        open: LocalPorts,
        /// What had to give way ("8265 is held by ssh (pid 4711), using 8266"), or why one could not be opened.
        notes: Vec<String>,
    },
    /// What a person should know about how the head was found.
    Note(String),
}

/// What became of a stop request. Ray's answer alone is not trusted: the status is read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStopOutcome {
    /// Asked; waiting for the effect.
    Asked,
    /// The job is seen ended, with that status word.
    Ended(String),
    /// Ray said "stopped", but the job is still in that state after a while.
    StillThere(JobStatus),
    /// The request may have reached Ray, but the outcome is unknown.
    Unknown {
        /// Cause of the uncertainty.
        why: String,
        /// The job is watched on, and another outcome follows.
        watching: bool,
    },
    /// Ray was not asked, or refused, and why.
    Failed(String),
}

impl JobStopOutcome {
    /// How it came out, for the audit log, where a later line corrects what was not known; none as long as nothing
    /// went wrong and it is watched. May hold words of the cluster.
    pub fn noted(&self) -> Option<String> {
        match self {
            Self::Asked => None,
            Self::Ended(word) => Some(format!("ended ({word})")),
            Self::StillThere(status) => Some(format!("still {}", status.word())),
            Self::Unknown { why, .. } => Some(format!("stop not confirmed: {why}")),
            Self::Failed(why) => Some(format!("not stopped: {why}")),
        }
    }
}

/// What a front end asks of a cluster's task.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Refresh all data now.
    Refresh,
    /// The cluster is (not) the one on the screen: decides how often it is read.
    Focus(bool),
    /// These nodes are on the screen: fetch their machine figures.
    Visible(Vec<NodeId>),
    /// Stop a job and watch the effect.
    StopJob(SubmissionId),
    /// Delete an ended job's record from Ray.
    DeleteJob(SubmissionId),
    /// Read what this job's entrypoint, tasks and actors do.
    Work(JobIds),
    /// Read what the page of a job or a host shows of it.
    Inspect(Subject),
    /// Follow a log as that stream.
    Follow(StreamId, LogSource),
    /// Follow several logs together, each as a stream, on the host with that address (none: the head).
    FollowSeveral(Vec<(StreamId, LogSource, Option<Text>)>),
    /// Read the part of a followed log that ends at this position.
    OlderLog(StreamId, u64),
    /// Search the whole file of a followed log, on its host, for this regular expression.
    SearchLog(StreamId, String),
    /// Search the ends of log files. An earlier search of them ends.
    SearchFiles(Box<FileSearch>),
    /// Download a followed log through the dashboard and search it for this regular expression.
    DownloadLog(StreamId, String),
    /// Close a log stream.
    Unfollow(StreamId),
    /// Forget the known host key and accept the one with this fingerprint.
    TrustHostKey(String),
    /// Query Google Cloud now.
    Cloud,
    /// Delete these leftovers, as far as they still are some.
    CleanPreempted(Vec<Leftover>),
    /// Open TCP ports of this machine that lead to all of the head's services, or close them. They are opened again
    /// after each reconnection.
    Ports(bool),
    /// Close the connection, if there is one, and connect at once.
    Reconnect,
    /// An operation of this machine stops or starts the cluster from now on, or no longer does: Ray's restart is then no
    /// finding.
    Operated(bool),
}
