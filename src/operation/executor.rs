//! Executes the changes of an operation: every request to Google or Ray, every command and every copy that does more
//! than read goes through an [`Executor`]. The real one executes it; the one of a dry run only records it, as the same
//! [`Call`], and reports success. Reads do not go through it and are real in both.
//!
//! A change that bypasses it would be missing in a dry run: `tests/program/record.rs` compares the two.

use super::call::{Call, CallKind};
use crate::gcp::{Change, GcpError, Google, StartedOperation};
use crate::model::{Problem, Text};
use crate::ray::{self, Client, Drain, RayError, Submission};
use crate::ssh::Output;
use crate::supervisor::{self, Access};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The result of a step whose effect a dry run does not wait for.
pub(super) const NOT_AWAITED: &str = "not waited for (dry run)";

/// Executes changes, or records them.
#[derive(Clone, Debug, Default)]
pub enum Executor {
    /// Runs the calls.
    #[default]
    Real,
    /// Appends the calls to the list, and changes nothing.
    Recording(Recorded),
}

/// The calls of a dry run, in the order of its steps.
#[derive(Clone, Debug, Default)]
pub struct Recorded(Arc<Mutex<Vec<Call>>>);

impl Recorded {
    fn with<T>(&self, access: impl FnOnce(&mut Vec<Call>) -> T) -> T {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.with(|calls| calls.clone())
    }
}

impl Executor {
    /// An executor that records calls instead of running them, for a dry run.
    pub fn recording() -> Self {
        Self::Recording(Recorded::default())
    }

    /// Whether nothing is changed, so that there are no effects to wait for.
    pub fn is_recording(&self) -> bool {
        matches!(self, Self::Recording(_))
    }

    /// Records a call in a dry run; returns whether this is one.
    pub(super) fn records(&self, call: impl FnOnce() -> Call) -> bool {
        match self {
            Self::Real => false,
            Self::Recording(recorded) => {
                recorded.with(|calls| calls.push(call()));
                true
            }
        }
    }

    /// Whether this call has been recorded.
    fn has_recorded(&self, call: &Call) -> bool {
        match self {
            Self::Real => false,
            Self::Recording(recorded) => recorded.with(|calls| calls.contains(call)),
        }
    }

    /// Makes a change at Google and waits until Google has completed it.
    pub(super) async fn google(
        &self,
        google: &Google,
        change: &Change,
        note: Option<&str>,
    ) -> Result<(), GcpError> {
        let call = || Call { note: note.map(str::to_owned), ..Call::from(change) };
        if self.records(call) { Ok(()) } else { google.execute(change).await }
    }

    /// Makes a change at Google and waits until Google has started it; `None` in a dry run.
    pub(super) async fn google_begins(
        &self,
        google: &Google,
        change: &Change,
    ) -> Result<Option<StartedOperation>, GcpError> {
        if self.records(|| Call::from(change)) { Ok(None) } else { google.begin(change).await.map(Some) }
    }

    /// Runs a shell script on a machine that can be reached directly. Returns its output, which is empty in a dry run.
    pub(super) async fn run_on(
        &self,
        access: Access<'_>,
        host: &str,
        script: &str,
        limit: Duration,
        note: &str,
    ) -> Result<Output, Problem> {
        if self.records(|| Call::ssh(host, script).noted(note)) {
            return Ok(Output { status: 0, stdout: Vec::new(), cut: false, stderr: String::new() });
        }
        supervisor::run_on(access, host, script, limit).await
    }

    /// Whether this executor has uploaded this package.
    pub(super) fn has_uploaded(&self, uri: &str) -> Result<bool, RayError> {
        Ok(self.has_recorded(&Call::http("PUT", ray::package_route(uri)?)))
    }

    /// Uploads a package. A package of more than [`ray::UPLOAD_LIMIT`] bytes goes to the GCS in parts instead; the dry
    /// run of a restart does not know its size, because it fetches no packages. There `file` is `None`.
    pub(super) async fn upload(
        &self,
        client: &Client,
        uri: &str,
        file: Option<File>,
    ) -> Result<(), RayError> {
        let route = ray::package_route(uri)?;
        if self.records(|| Call::http("PUT", route)) {
            return Ok(());
        }
        let file =
            file.ok_or_else(|| RayError::Setup(format!("{} is not saved on this machine", Text::from(uri))))?;
        client.upload_package_file(uri, file).await
    }

    /// Submits a job. Variables are recorded without values, because those are secrets.
    pub(super) async fn submit(&self, client: &Client, job: &Submission) -> Result<(), RayError> {
        let call = || Call::post(ray::JOBS_ROUTE, job.without_secrets()).noted(&job.submission_id);
        if self.records(call) { Ok(()) } else { client.submit_job(job).await }
    }

    /// Asks Ray to drain a node. A refusal is returned with Ray's message.
    pub(super) async fn drain(&self, client: &Client, drain: &Drain) -> Result<Result<(), Text>, RayError> {
        let call = || Call::post(Drain::METHOD, drain.to_json()).noted("over gRPC, to the GCS");
        if self.records(call) { Ok(Ok(())) } else { client.drain(drain).await }
    }
}

impl From<&Change> for Call {
    fn from(change: &Change) -> Self {
        let Change { method, url, body, .. } = change;
        Self { kind: CallKind::Http { method, url: url.clone(), body: body.clone() }, note: None }
    }
}
