//! Starts a cluster's Ray: `ray up`, its first response, its workers.

use super::cluster::living_workers;
use super::executor::NOT_AWAITED;
use super::performer::{POLL_INTERVAL, Performer, WAIT_LIMIT};
use super::{failure, then_resume};
use crate::model::amount::counted;
use crate::model::{
    Job, JobStatus, Problem, ProblemKind, Progress, Snapshot, SnapshotPart, Task, Text, Timestamp,
};
use crate::ray::Poller;
use crate::supervisor;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Time limit for a check of the head's processes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long manually added TPU VMs may take to rejoin by themselves before Ray is started on them.
const REJOIN_DELAY: Duration = Duration::from_secs(45);
/// How long workers may take to rejoin before they are reported as missing: the autoscaler runs their setup commands.
const WORKERS_TIMEOUT: Duration = Duration::from_secs(300);
/// How long jobs that had been started before may take to start again once the workers are back.
const SETTLE_TIME: Duration = Duration::from_secs(20);

impl Performer {
    /// The result of the step that starts Ray if Ray runs already.
    ///
    /// # Errors
    ///
    /// A Ray that belongs to someone else runs there, or may run there.
    pub(super) async fn runs_already(&self) -> Result<Option<String>, Problem> {
        // In a dry run, the stop was only recorded and Ray still responds.
        let is_stopped = self.executor.is_recording() && self.facts.stopping;
        match if is_stopped { Ok(None) } else { self.responding_session().await } {
            // This operation has run no `ray up` yet: the saved jobs do not belong in this Ray.
            Ok(Some(session)) if self.is_of_others(&session) => return Err(self.other_ray()),
            Ok(Some(session)) if session != self.facts.session => {
                return Ok(Some("Ray is already running".to_owned()));
            }
            // Another Ray may be running there: `ray up` would end it with all its jobs.
            Err(refused) if refused.kind.is_of_token() => {
                return Err(Problem { hint: then_resume(refused.hint), ..refused });
            }
            Err(other) if self.may_be_of_others() && self.may_be_running(&other.kind).await => {
                return Err(Problem { hint: then_resume(other.hint), ..other });
            }
            Ok(None) if self.may_be_of_others() => self.no_ray_on_the_head().await?,
            Ok(_) | Err(_) => {}
        }
        Ok(None)
    }

    /// Whether a Ray that runs before `ray up` would belong to someone else: this operation has stopped nothing, or an
    /// earlier attempt has, and somebody has started Ray since.
    fn may_be_of_others(&self) -> bool {
        self.task == Task::Start || (!self.stopped && !self.facts.launched)
    }

    /// Whether the Ray with this `session_name` was started by somebody else after an earlier attempt stopped the
    /// cluster's Ray. A start accepts any Ray.
    fn is_of_others(&self, session: &str) -> bool {
        let is_new = self.facts.session.is_empty() || self.facts.is_other_session(session);
        is_new && self.task != Task::Start && self.may_be_of_others()
    }

    /// The problem that a Ray responds that this operation has neither stopped nor started.
    pub(super) fn other_ray(&self) -> Problem {
        let what = if self.facts.session.is_empty() {
            "Ray responds, but did not when this operation began; somebody may have started it since"
        } else {
            "Ray was restarted since this operation began"
        };
        failure(what, self.start_again())
    }

    /// An error if a Ray that someone else has started since an earlier attempt stopped it responds, or refuses our
    /// token: cleaning up would end it.
    pub(super) async fn no_other_ray(&self) -> Result<(), Problem> {
        if self.stopped || self.is_google() {
            return Ok(());
        }
        match self.responding_session().await {
            Ok(Some(session)) if self.is_of_others(&session) => Err(self.other_ray()),
            Err(refused) if refused.kind.is_of_token() => {
                Err(Problem { hint: then_resume(refused.hint), ..refused })
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether Ray may run on a head that cannot be queried. A head that cannot be reached may be overloaded: `ray up`
    /// tries to log in for up to 15 minutes (`AUTOSCALER_NODE_START_WAIT_S` in Ray's `constants.py`), and would end its
    /// jobs. On a `local` cluster it creates no machine, so it cannot do anything else there.
    async fn may_be_running(&self, kind: &ProblemKind) -> bool {
        if !matches!(kind, ProblemKind::Address | ProblemKind::Unreachable) {
            return true;
        }
        if !self.is_google() {
            // A dry run lists `ray up` without access to the head.
            return *kind == ProblemKind::Unreachable && !self.executor.is_recording();
        }
        // A head that this operation has started is not ready yet.
        !self.facts.launched && self.may_have_running_head().await
    }

    pub(super) async fn start(&self, progress: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let file = self.file()?;
        let up = ["up", "-y", "--no-config-cache", "--log-style", "pretty", "--log-color", "false"]
            .map(OsStr::new);
        let (code, lines) = self.ray_changes(&[&up[..], &[file.as_os_str()]].concat(), progress).await?;
        if code != 0 {
            let last = lines.iter().rev().find(|l| !l.is_empty()).cloned().unwrap_or_default();
            let hint = then_resume("fix the reported error; changes already made on the head may remain");
            return Err(failure(format!("`ray up` failed with exit code {code}: {last}"), hint));
        }
        Ok("ray up finished".to_owned())
    }

    /// An error if Ray runs on the head but its dashboard does not answer: its jobs keep running and `ray up` would end
    /// them.
    async fn no_ray_on_the_head(&self) -> Result<(), Problem> {
        if self.is_google() && self.has_no_head().await {
            return Ok(());
        }
        // Also finds Ray in a container: a machine sees the processes of its containers.
        let check = "pgrep -x gcs_server";
        let head = supervisor::head_address(&self.spec, &self.options, None).await?.host;
        let seen = supervisor::run_on(self.access(), head.as_str(), check, CHECK_TIMEOUT).await?;
        match seen.status {
            0 => {}
            // pgrep(1): no process matches.
            1 => return Ok(()),
            _ => {
                let what = format!("cannot check whether Ray runs on the head: {}", seen.stderr.trim());
                return Err(failure(what, then_resume("install pgrep (procps) there")));
            }
        }
        let what = "Ray runs on the head but its dashboard does not respond; `ray up` would end its jobs";
        let hint = then_resume("check dashboard.log on the head, or stop Ray there with `ray stop`");
        Err(failure(what, hint))
    }

    pub(super) async fn wait_for_ray(&self) -> Result<String, Problem> {
        if self.executor.is_recording() {
            return Ok(NOT_AWAITED.to_owned());
        }
        let deadline = Instant::now() + WAIT_LIMIT;
        loop {
            let problem = match self.responding_session().await {
                Ok(Some(session)) if session != self.facts.session => return Ok(session),
                Ok(Some(_)) => failure(
                    "the old Ray cluster still responds",
                    then_resume("stop it there with `ray stop`"),
                ),
                Ok(None) => {
                    failure("no dashboard responds on the head", then_resume("check `ray status` there"))
                }
                // At this point every source of a token has been tried.
                Err(refused) if refused.kind.is_of_token() => {
                    return Err(Problem { hint: then_resume(refused.hint), ..refused });
                }
                Err(problem) => {
                    self.renew_key(&problem).await;
                    problem
                }
            };
            if Instant::now() > deadline {
                return Err(problem);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    pub(super) async fn workers(
        &self,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<String, Problem> {
        // TPU VMs at Google rejoin on their own; workers on other machines must be started here.
        if !self.facts.manual.is_empty() && !self.is_google() {
            // An interrupted attempt may have started some of them, which run restored jobs by now.
            let manual = &self.facts.manual;
            let down = if self.executor.is_recording() { manual.clone() } else { self.down(manual).await? };
            self.rejoin(&down, progress).await;
        }
        if self.executor.is_recording() {
            return Ok(NOT_AWAITED.to_owned());
        }
        self.wait_for_workers(progress).await
    }

    /// Waits until the workers have rejoined and the jobs have started again. On timeout, the result names what is
    /// missing. Starts Ray on manually added TPU VMs that do not rejoin by themselves.
    async fn wait_for_workers(&self, progress: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        // Workers that the autoscaler starts at Google are new machines: only manually added ones can rejoin.
        let expected = if self.is_google() { &self.facts.manual } else { &self.facts.workers };
        let mut was_helped = !self.is_google();
        let session = self.connect().await?;
        let mut poller = Poller::new(session.client);
        let rejoin_at = Instant::now() + REJOIN_DELAY;
        let mut deadline = Instant::now() + WORKERS_TIMEOUT;
        let mut settled = Instant::now() + SETTLE_TIME;
        loop {
            let read = poller.refresh_all(&[SnapshotPart::Nodes, SnapshotPart::Jobs]).await;
            match read.map_err(|e| e.problem(Timestamp::now())) {
                Ok(snapshot) => {
                    let missing = without_node(expected, &snapshot);
                    if !missing.is_empty() {
                        settled = Instant::now() + SETTLE_TIME;
                    }
                    if !was_helped && !missing.is_empty() && Instant::now() > rejoin_at {
                        was_helped = true;
                        self.rejoin(&missing, progress).await;
                        deadline = Instant::now() + WORKERS_TIMEOUT;
                        continue;
                    }
                    let is_complete = missing.is_empty() && self.are_jobs_settled(&snapshot.jobs);
                    if is_complete || Instant::now() > deadline || Instant::now() > settled {
                        return Ok(self.workers_and_jobs(&missing, &snapshot.jobs));
                    }
                }
                Err(problem) if Instant::now() > deadline => return Err(problem),
                // The connection may be lost, and a new one will show the state.
                Err(_) => {
                    if let Ok(new) = self.connect().await {
                        poller = Poller::new(new.client);
                    }
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Those of these workers that have no live node now.
    pub(super) async fn down(&self, workers: &[String]) -> Result<Vec<String>, Problem> {
        let session = self.connect().await?;
        let snapshot = Poller::new(session.client)
            .refresh_all(&[SnapshotPart::Nodes])
            .await
            .map_err(|e| e.problem(Timestamp::now()))?;
        Ok(without_node(workers, &snapshot))
    }

    /// The result of waiting for the workers: which of them are missing, and the status of the saved jobs.
    fn workers_and_jobs(&self, missing: &[String], jobs: &[Arc<Job>]) -> String {
        let names: Vec<_> = missing.iter().map(|a| Text::from(a.as_str()).to_string()).collect();
        let workers =
            if names.is_empty() { self.all_back() } else { format!("missing: {}", names.join(", ")) };
        let number = |status| self.saved_jobs(jobs, status).len();
        let (running, pending) = (number(JobStatus::Running), number(JobStatus::Pending));
        format!("{workers}; {} running, {pending} pending", counted(running, "job"))
    }

    fn all_back(&self) -> String {
        if self.is_google() {
            let manual = match self.facts.manual.len() {
                1 => "1 manually added worker has rejoined".to_owned(),
                n => format!("{n} manually added workers have rejoined"),
            };
            return format!("{manual}; the autoscaler starts its own workers, which takes about 10 minutes");
        }
        "all workers have rejoined".into()
    }

    /// Whether the saved jobs that Ray had started have been started again.
    fn are_jobs_settled(&self, jobs: &[Arc<Job>]) -> bool {
        let pending = self.saved_jobs(jobs, JobStatus::Pending);
        pending.iter().all(|id| self.facts.pending.contains(id))
    }

    /// The submission ids of the saved jobs that have this status now.
    fn saved_jobs(&self, jobs: &[Arc<Job>], status: JobStatus) -> Vec<String> {
        let with_status = jobs.iter().filter(|job| job.status == status);
        let ids = with_status.filter_map(|job| Some(job.submission_id()?.0.raw().to_owned()));
        ids.filter(|id| self.facts.jobs.contains(id)).collect()
    }

    /// The autoscaler version stays the same unless the operator chooses another: v2, the default of `ray up`, does not
    /// even run on a `local` cluster of Ray 2.53.
    pub(super) fn autoscaler_setting(&self) -> &'static [&'static str] {
        let is_set = std::env::var_os("RAY_UP_enable_autoscaler_v2").is_some();
        match self.facts.autoscaler {
            Some(1) if !is_set => &["RAY_UP_enable_autoscaler_v2=0"],
            Some(2) if !is_set => &["RAY_UP_enable_autoscaler_v2=1"],
            _ => &[],
        }
    }
}

/// Those of these workers that have no live node.
fn without_node(workers: &[String], snapshot: &Snapshot) -> Vec<String> {
    let living = living_workers(snapshot);
    workers.iter().filter(|worker| !living.contains(worker)).cloned().collect()
}
