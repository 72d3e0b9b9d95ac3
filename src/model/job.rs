//! A job: a submission, or a driver that was started manually.

use super::amount::{amount, is_chip};
use super::text::printable;
use super::{NodeId, Text, Timestamp};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The id that `ray job submit` returns, or that the submitter chose: any string.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SubmissionId(pub Text);

/// A driver's job id: eight hex digits, e.g. `04000000`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub Text);

impl SubmissionId {
    /// The file name of its driver's log (`JobSupervisor` in `ray/dashboard/modules/job/job_supervisor.py`).
    pub fn driver_log(&self) -> String {
        format!("job-driver-{}.log", self.0.raw())
    }

    /// The job whose driver log has this name; none for another file.
    pub fn of_driver_log(name: &str) -> Option<Self> {
        let id = name.strip_prefix("job-driver-")?.strip_suffix(".log")?;
        (!id.is_empty()).then(|| Self(id.into()))
    }

    /// Why the job no longer exists after a restart of Ray; `session` is the `session_name` before the restart.
    pub fn lost_with(&self, session: &Text) -> String {
        format!(
            "{self} was lost when Ray was restarted; its log on the head: \
             /tmp/ray/{session}/logs/job-driver-{self}.log"
        )
    }
}

impl fmt::Display for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What identifies a row in the jobs table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobKey {
    /// A submitted job: has logs, can be stopped.
    Submission(SubmissionId),
    /// A manually started driver (Ray's type `DRIVER`): Ray keeps no log of it and cannot stop it.
    Driver(JobId),
}

impl JobKey {
    /// The id verbatim: for requests and comparisons, never for a screen.
    pub fn raw(&self) -> &str {
        match self {
            Self::Submission(id) => id.0.raw(),
            Self::Driver(id) => id.0.raw(),
        }
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submission(id) => id.fmt(f),
            Self::Driver(id) => id.fmt(f),
        }
    }
}

/// The ids that Ray uses for the two parts of a job: its driver, and the submitted entrypoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobIds {
    /// Its driver, once the job has called `ray.init`.
    pub driver: Option<JobId>,
    /// Its submission; none for a manually started driver.
    pub submission: Option<SubmissionId>,
}

/// Status of a job, as in Ray's `ray.job_submission.JobStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobStatus {
    /// Accepted; the driver has not started yet.
    Pending,
    /// The driver is running.
    Running,
    /// Ended with exit code 0.
    Succeeded,
    /// Stopped by a user.
    Stopped,
    /// Ended with an error.
    Failed,
    /// A status that this version of the console does not know.
    Unknown,
}

impl JobStatus {
    /// Parses a status of the Jobs API.
    pub fn parse(s: &str) -> Self {
        match s {
            "PENDING" => Self::Pending,
            "RUNNING" => Self::Running,
            "SUCCEEDED" => Self::Succeeded,
            "STOPPED" => Self::Stopped,
            "FAILED" => Self::Failed,
            _ => Self::Unknown,
        }
    }

    /// Whether the job has ended. It does not change after that, unless it is deleted and another job is submitted with
    /// its id.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Stopped | Self::Failed)
    }

    /// The status as shown on the screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// A job. Its `runtime_env` is not kept because it may contain secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Key that identifies the job.
    pub key: JobKey,
    /// The driver's id, once the job has called `ray.init`.
    pub driver: Option<JobId>,
    /// Status reported by Ray.
    pub status: JobStatus,
    /// Shell command of the job.
    pub entrypoint: Text,
    /// Ray's message about the status. If longer than [`Job::MESSAGE_LIMIT`] bytes (a failed job's may contain 20 kB of
    /// log), only its first line and its end.
    pub message: Text,
    /// Ray's error class, e.g. `JOB_ENTRYPOINT_COMMAND_ERROR`; empty when none.
    pub error_type: Text,
    /// Time of submission or start.
    pub started: Option<Timestamp>,
    /// Time of the end.
    pub ended: Option<Timestamp>,
    /// The submitter's own key-value pairs, sorted by key.
    pub metadata: Vec<(Text, Text)>,
    /// Node that the driver runs on.
    pub driver_node: Option<NodeId>,
    /// The driver's exit code, once ended.
    pub exit_code: Option<i32>,
    /// Resources that the entrypoint requests on its node, by name; none when Ray did not report them: the GCS does,
    /// `GET /api/jobs/` does not.
    pub requested: Option<Vec<(Text, f64)>>,
}

impl Job {
    /// Maximum number of bytes of a message that a table row keeps.
    pub const MESSAGE_LIMIT: usize = 1024;
    /// Metadata keys that name a job's owner, in order of precedence; our own submissions set the first one.
    pub const OWNER_KEYS: [&str; 5] = ["owner", "user", "username", "submitter", "job_owner"];

    /// A message in one line: its first line. For a failed command, Ray appends the end of the log
    /// (`python/ray/dashboard/modules/job/job_supervisor.py`); then its last line, which names the error, is added.
    pub fn in_a_line(message: &str) -> Option<Cow<'_, str>> {
        let mut lines = message.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next()?;
        Some(match (first.split_once(", last available logs"), lines.next_back()) {
            (Some((what, _)), Some(error)) => format!("{what}: {}", error.trim()).into(),
            _ => first.into(),
        })
    }

    /// The error in a message: the last line of the log that Ray quotes, else the first line of the message.
    pub fn error(message: &str) -> Option<&str> {
        let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next()?;
        let quoted = if first.contains(", last available logs") { lines.next_back() } else { None };
        Some(quoted.unwrap_or(first))
    }

    /// Whether Ray can stop it: it was submitted, and has not ended.
    pub fn may_be_stopped(&self) -> bool {
        self.submission_id().is_some() && !self.status.is_ended()
    }

    /// Whether Ray can delete its record: it was submitted, and has ended.
    pub fn may_be_deleted(&self) -> bool {
        self.submission_id().is_some() && self.status.is_ended()
    }

    /// The submission id, if this is a submission.
    pub fn submission_id(&self) -> Option<&SubmissionId> {
        match &self.key {
            JobKey::Submission(id) => Some(id),
            JobKey::Driver(_) => None,
        }
    }

    /// The ids of its driver and its submission.
    pub fn ids(&self) -> JobIds {
        JobIds { driver: self.driver.clone(), submission: self.submission_id().cloned() }
    }

    /// The job's owner, taken from the metadata ([`Self::OWNER_KEYS`]) or from an id like `ray-run-<user>-...` (Marin's
    /// launcher). For a manually started driver, only the metadata of its `ray.init` is used.
    pub fn owner(&self) -> Option<&str> {
        let by_key = |k: &&str| self.metadata.iter().find(|(name, v)| name.raw() == *k && !v.is_empty());
        if let Some((_, v)) = Self::OWNER_KEYS.iter().find_map(by_key) {
            return Some(v.raw());
        }
        let id = self.submission_id()?.0.raw();
        id.strip_prefix("ray-run-")?.split_once('-').map(|(user, _)| user).filter(|u| !u.is_empty())
    }

    /// Its id without the owner's prefix, safe to print: `exp1395_qwen3-4f1c` for `ray-run-dara-exp1395_qwen3-4f1c`.
    /// None if its id has no such prefix.
    pub fn short_id(&self) -> Option<Cow<'_, str>> {
        let own = self.submission_id()?.0.raw().strip_prefix("ray-run-")?;
        let own = own.strip_prefix(self.owner()?)?.strip_prefix('-')?;
        (!own.is_empty()).then(|| printable(own))
    }

    /// The name shown next to its owner, safe to print: its short id if it has one, else its id.
    pub fn short_name(&self) -> Cow<'_, str> {
        self.short_id().unwrap_or_else(|| self.key.to_string().into())
    }

    /// The TPU type that it trains on, e.g. `v4-128`: from the resource `TPU-v4-128-head` that its entrypoint requests,
    /// else from the key `tpu` in the metadata. Otherwise the chips that the entrypoint requests, e.g. `TPU 4`.
    pub fn accelerator(&self) -> Option<Cow<'_, str>> {
        let requested = || self.requested.iter().flatten();
        let of_slice = |name: &'_ Text| -> Option<String> {
            name.raw().strip_prefix("TPU-")?.strip_suffix("-head").map(str::to_owned)
        };
        let declared = || self.metadata.iter().find(|(name, value)| name.raw() == "tpu" && !value.is_empty());
        let chips = || requested().find(|(name, _)| is_chip(name.raw()));
        (requested().find_map(|(name, _)| of_slice(name)).map(|kind| printable(&kind).into_owned().into()))
            .or_else(|| declared().map(|(_, kind)| kind.shown()))
            .or_else(|| chips().map(|(name, n)| format!("{name} {}", amount(name.raw(), *n)).into()))
    }

    /// The job's owner, or a note that it is unknown, safe to print.
    pub fn owner_label(&self) -> String {
        self.owner().map_or_else(|| OWNER_UNKNOWN.to_owned(), |o| Text::from(o).to_string())
    }
}

/// Shown if the owner of a job is unknown.
pub const OWNER_UNKNOWN: &str = "owner unknown";

#[cfg(test)]
impl Job {
    /// A job with this id and status; all else is empty.
    pub(crate) fn sample(id: &str, status: JobStatus) -> Self {
        Self {
            key: JobKey::Submission(SubmissionId(id.into())),
            driver: None,
            status,
            entrypoint: Text::default(),
            message: Text::default(),
            error_type: Text::default(),
            started: None,
            ended: None,
            metadata: Vec::new(),
            driver_node: None,
            exit_code: None,
            requested: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, metadata: &[(&str, &str)]) -> Job {
        Job {
            key: JobKey::Submission(SubmissionId(id.into())),
            driver: None,
            status: JobStatus::Running,
            entrypoint: "python x.py".into(),
            message: Text::default(),
            error_type: Text::default(),
            started: None,
            ended: None,
            metadata: metadata.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            driver_node: None,
            exit_code: None,
            requested: None,
        }
    }

    #[test]
    fn the_accelerator_comes_from_the_requested_slice_or_the_metadata() {
        let requests = |all: &[(&str, f64)], metadata| Job {
            requested: Some(all.iter().map(|(name, n)| ((*name).into(), *n)).collect()),
            ..job("x", metadata)
        };
        let of = |job: Job| job.accelerator().map(std::borrow::Cow::into_owned);
        assert_eq!(of(requests(&[("CPU", 1.0), ("TPU-v4-128-head", 1.0)], &[])).as_deref(), Some("v4-128"));
        assert_eq!(of(requests(&[("TPU", 4.0)], &[("tpu", "v6e-8")])).as_deref(), Some("v6e-8"));
        assert_eq!(of(requests(&[("TPU", 4.0)], &[])).as_deref(), Some("TPU 4"));
        assert_eq!(of(requests(&[("CPU", 4.0)], &[])), None);
    }

    #[test]
    fn the_owner_comes_from_metadata_or_the_id() {
        assert_eq!(job("x", &[("owner", "alice")]).owner(), Some("alice"));
        assert_eq!(job("ray-run-bob-exp1-77", &[]).owner(), Some("bob"));
        assert_eq!(job("ray-run-bob-exp1-77", &[("user", "carol")]).owner(), Some("carol"));
        assert_eq!(job("raysubmit_abc", &[]).owner(), None);
        assert_eq!(job("ray-run--x", &[("owner", "")]).owner(), None);
    }

    #[test]
    fn the_message_of_a_failed_command_ends_with_its_error() {
        let message = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n\
                       Traceback (most recent call last):\n  File \"x.py\", line 8\nValueError: no such bucket\n\n";
        let expected = "Job entrypoint command failed with exit code 1: ValueError: no such bucket";
        assert_eq!(Job::in_a_line(message).as_deref(), Some(expected));
        assert_eq!(
            Job::in_a_line("Job finished successfully.").as_deref(),
            Some("Job finished successfully.")
        );
        assert_eq!(
            Job::in_a_line("runtime_env setup failed: x\nCould not").as_deref(),
            Some("runtime_env setup failed: x")
        );
        assert_eq!(Job::in_a_line("\n"), None);
        assert_eq!(Job::error(message), expected.split_once(": ").map(|(_, error)| error));
        assert_eq!(Job::error("runtime_env setup failed: x\nCould not"), Some("runtime_env setup failed: x"));
    }
}
