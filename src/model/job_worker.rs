//! The worker processes of a job, and their log files.

use super::{JobId, NodeId, Text, Timestamp};

/// A worker process of a job. It writes `worker-WORKERID-JOBID-PID.out` and `.err` into the log directory of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobWorker {
    /// The node on which it runs or ran.
    pub node: NodeId,
    /// Process id on that node.
    pub pid: u32,
    /// What it runs: an actor's name or class, or a task; empty if Ray does not report it.
    pub name: Text,
    /// Class of the actor or function of the task, the same for workers that do the same work; empty if Ray does not
    /// report it.
    pub kind: Text,
    /// Its state as far as Ray reports it.
    pub state: WorkerState,
    /// The files of its standard output and standard error; empty for a dead node, whose files are gone.
    pub files: Vec<Text>,
}

/// State of a worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It runs a task or a live actor.
    Running,
    /// Its task failed or its actor died, and it was not ended intentionally.
    Failed {
        /// Ray's error message; often a traceback.
        why: Text,
        /// When its task ended; none if Ray does not report it.
        at: Option<Timestamp>,
    },
    /// It runs nothing: its tasks are finished, or Ray no longer reports them.
    Ended,
}

impl WorkerState {
    /// The state in a word, for display and scripts.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Failed { .. } => "failed",
            Self::Ended => "ended",
        }
    }
}

/// The workers of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerList {
    /// Workers, sorted by node and process id.
    pub workers: Vec<JobWorker>,
    /// Nodes whose files could not be listed, and why.
    pub unread: Vec<(NodeId, String)>,
    /// What Ray omitted from its lists, in a sentence each.
    pub cut: Vec<String>,
    /// Number of requests that were sent to read the list.
    pub requests: usize,
}

/// The parts of the name of a worker's file (`WORKER_LOG_PATTERN` in Ray's `log_manager.py`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerFile<'a> {
    /// Ray's id of the worker, hex digits.
    pub worker: &'a str,
    /// The job that it was started for; all `f` if it was started before a job needed it.
    pub job: &'a str,
    /// Process id on its host.
    pub pid: u32,
    /// Whether this is the file of standard error.
    pub is_err: bool,
}

impl<'a> WorkerFile<'a> {
    /// Parses a file name; `None` if it is not a worker's file.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (stem, suffix) = name.strip_prefix("worker-")?.rsplit_once('.')?;
        let is_err = match suffix {
            "out" => false,
            "err" => true,
            _ => return None,
        };
        let mut parts = stem.splitn(3, '-');
        let (worker, job, pid) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        (is_hex(worker) && is_hex(job)).then_some(())?;
        Some(Self { worker, job, pid: pid.parse().ok()?, is_err })
    }

    /// Whether the worker was started for this job.
    pub fn is_of(&self, job: &JobId) -> bool {
        self.job == job.0.raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_worker_files_are_parsed() {
        let id = "a06f00752eb0fabd6b4b37ad9e989c8424d704e38093b73016b48f8e";
        let name = format!("worker-{id}-04000000-1072.err");
        let file = WorkerFile::parse(&name).unwrap();
        assert_eq!(file, WorkerFile { worker: id, job: "04000000", pid: 1072, is_err: true });
        assert!(file.is_of(&JobId("04000000".into())) && !file.is_of(&JobId("05000000".into())));
        for other in [
            "worker-a0-04000000-1072.log",
            "worker-a0-04000000.out",
            "worker-xy-04000000-1.out",
            "worker-a0-04000000-x.out",
            "worker-a0-04000000-1-2.out",
            "raylet.out",
        ] {
            assert_eq!(WorkerFile::parse(other), None, "{other}");
        }
    }
}
