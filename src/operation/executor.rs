//! Where the steps of an operation change something: every request to Google or Ray, every command and every copy that
//! does more than look goes through an [`Executor`]. The real one executes it; the one of a dry run only records it, as
//! the same [`Call`], and states that it succeeded. What looks is not its business and really runs in both.
//!
//! A step that changes something past it would be missing in the dry run: `tests/program/record.rs` compares the two.

use super::call::{Call, CallKind};
use crate::gcp::{Begun, Change, GcpError, Google};
use crate::model::{Problem, Text};
use crate::ray::{self, Client, Drain, RayError, Submission};
use crate::ssh::Output;
use crate::supervisor::{self, Access};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a step says of an effect that a dry run does not wait for.
pub(super) const NOT_AWAITED: &str = "not waited for (dry run)";

/// Executes what changes something, or records it.
#[derive(Clone, Debug, Default)]
pub enum Executor {
    /// Runs the calls.
    #[default]
    Real,
    /// Appends it to the list, and changes nothing.
    Recording(Recorded),
}

/// The calls of a dry run, in the order in which its steps came to them.
#[derive(Clone, Debug, Default)]
pub struct Recorded(Arc<Mutex<Vec<Call>>>);

impl Recorded {
    fn with<T>(&self, look: impl FnOnce(&mut Vec<Call>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All of them so far.
    pub fn calls(&self) -> Vec<Call> {
        self.with(|calls| calls.clone())
    }
}

impl Executor {
    /// An executor that records calls instead of running them, for a dry run.
    pub fn recording() -> Self {
        Self::Recording(Recorded::default())
    }

    /// Whether nothing is changed. Then no effect can be waited for either.
    pub fn is_recording(&self) -> bool {
        matches!(self, Self::Recording(_))
    }

    /// Records a call, where that is all that is done with it; whether it was.
    pub(super) fn records(&self, call: impl FnOnce() -> Call) -> bool {
        match self {
            Self::Real => false,
            Self::Recording(recorded) => {
                recorded.with(|calls| calls.push(call()));
                true
            }
        }
    }

    /// Whether this call is on record already.
    fn has_recorded(&self, call: &Call) -> bool {
        match self {
            Self::Real => false,
            Self::Recording(recorded) => recorded.with(|calls| calls.contains(call)),
        }
    }

    /// A change at Google, until Google calls it done.
    pub(super) async fn google(
        &self,
        google: &Google,
        change: &Change,
        note: Option<&str>,
    ) -> Result<(), GcpError> {
        let call = || Call { note: note.map(str::to_owned), ..Call::from(change) };
        if self.records(call) { Ok(()) } else { google.execute(change).await }
    }

    /// A change at Google, until Google has begun with it; none in a dry run.
    pub(super) async fn google_begins(
        &self,
        google: &Google,
        change: &Change,
    ) -> Result<Option<Begun>, GcpError> {
        if self.records(|| Call::from(change)) { Ok(None) } else { google.begin(change).await.map(Some) }
    }

    /// A shell script on a machine that is reached directly; its output, which is empty in a dry run.
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

    /// Whether this executor has put that package on a Ray.
    pub(super) fn has_uploaded(&self, uri: &str) -> Result<bool, RayError> {
        Ok(self.has_recorded(&Call::http("PUT", ray::package_route(uri)?)))
    }

    /// Uploads a package. One of more than [`ray::UPLOAD_LIMIT`] bytes goes to the GCS instead, in pieces, which a dry
    /// run of a restart cannot know: it fetches no package. There `file` is none.
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

    /// Submits a job. On record its variables have no values: they are secrets.
    pub(super) async fn submit(&self, client: &Client, job: &Submission) -> Result<(), RayError> {
        let call = || Call::post(ray::JOBS_ROUTE, job.without_secrets()).noted(&job.submission_id);
        if self.records(call) { Ok(()) } else { client.submit_job(job).await }
    }

    /// Asks Ray to drain a node. Ray's refusal comes back in its own words.
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
