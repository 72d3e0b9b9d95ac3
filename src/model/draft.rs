//! A job to be submitted, as entered by the user.

use super::SubmissionId;
use std::fmt;

/// Placeholder for the recorded value of a variable, which is kept unchanged.
pub const KEPT_VALUE: &str = "***";

/// A job as entered in the form. Empty fields are not set.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// The job that the form was copied from; it provides the values shown as [`KEPT_VALUE`].
    pub like: Option<SubmissionId>,
    /// Shell command of the job.
    pub entrypoint: String,
    /// A local directory or `.zip` file, or a URI.
    pub working_dir: String,
    /// `NAME=VALUE`, or `NAME` to copy the variable from the local environment. Values are secrets.
    pub variables: Vec<String>,
    /// The rest of the runtime environment: JSON or YAML, or a file that contains it.
    pub runtime_env: String,
    /// CPUs of the entrypoint itself.
    pub cpus: String,
    /// GPUs of the entrypoint itself.
    pub gpus: String,
    /// Memory of the entrypoint itself: bytes, or with a unit (`2 GB`).
    pub memory: String,
    /// Other resources of the entrypoint itself, as JSON.
    pub resources: String,
    /// The labels that the node of the entrypoint must have, as JSON.
    pub label_selector: String,
    /// Type of the TPU slice to request for the entrypoint, e.g. `v4-128`.
    pub tpu: String,
    /// Its submission id; generated if empty.
    pub id: String,
    /// The submitter's own metadata, `KEY=VALUE`.
    pub metadata: Vec<String>,
    /// The warnings that the user has seen.
    pub seen: Vec<String>,
}

/// Omits fields that may contain secrets.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("entrypoint", &self.entrypoint)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Identifies a form. Requests of a closed form continue, and their events must not reach another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormId(pub u64);

/// An event of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormEvent {
    /// The form, filled with the values of an earlier job.
    Filled(Box<Draft>),
    /// Progress: the current action.
    InProgress(String),
    /// Ray has accepted the job.
    Submitted(SubmissionId),
    /// The job was not submitted because of these warnings, one sentence each. It is submitted once they were seen.
    Warned(Vec<String>),
    /// The job could not be submitted or read; why, and what to do.
    Failed(String),
}
