//! A job that is about to be submitted, as a person writes it down.

use super::SubmissionId;
use std::fmt;

/// Placeholder for a recorded value of a variable that is kept unchanged.
pub const AS_IT_WAS: &str = "***";

/// A job as it is typed into the form. Empty means: not said.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// The job that the form was made from; it provides the values shown as [`AS_IT_WAS`].
    pub like: Option<SubmissionId>,
    /// Shell command of the job.
    pub entrypoint: String,
    /// A folder or `.zip` here, or a URI.
    pub working_dir: String,
    /// `NAME=VALUE`, or `NAME` to take it from here. Values are secrets.
    pub variables: Vec<String>,
    /// The rest of the runtime environment: JSON or YAML, or a file of it.
    pub runtime_env: String,
    /// CPUs of the entrypoint itself.
    pub cpus: String,
    /// GPUs of the entrypoint itself.
    pub gpus: String,
    /// Memory of the entrypoint itself: bytes, or with a unit (`2 GB`).
    pub memory: String,
    /// Other resources of the entrypoint itself, as JSON.
    pub resources: String,
    /// Type of the TPU slice that is requested for the entrypoint, e.g. `v4-128`.
    pub tpu: String,
    /// Its id; one is made up when it is empty.
    pub id: String,
    /// Pairs of the submitter's own, `KEY=VALUE`.
    pub metadata: Vec<String>,
    /// The warnings that its author has seen.
    pub seen: Vec<String>,
}

/// Without what may be secret.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("entrypoint", &self.entrypoint)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Identifies a form. Work for a closed form continues, and its news must not reach another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormId(pub u64);

/// News about a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormNews {
    /// What the job was submitted with.
    Filled(Box<Draft>),
    /// Progress: the current action.
    Doing(String),
    /// Ray has accepted the job.
    Submitted(SubmissionId),
    /// It was not submitted: what is unwise in it, one sentence each. It is once they are seen.
    Warned(Vec<String>),
    /// It was not submitted, or could not be read; why, and what to do.
    Failed(String),
}
