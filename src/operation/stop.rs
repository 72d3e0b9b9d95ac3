//! Stops a cluster's Ray, and removes what it leaves behind.

use super::executor::NOT_AWAITED;
use super::performer::{POLL_INTERVAL, Performer, WAIT_LIMIT};
use super::{failure, then_resume};
use crate::config::Launch;
use crate::model::amount::counted;
use crate::model::{ClusterSpec, HeadAddress, Hint, Problem, ProblemKind, Progress, StepName, Verb};
use crate::ssh::quote;
use futures_util::{StreamExt as _, stream};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long to wait for Ray to stop after a `ray down` that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// A `ray down` that stops Ray returns after Ray has stopped, so a Ray that still responds after this time was not
/// stopped.
const STOPPED_NOTHING: Duration = Duration::from_secs(10);
/// The note in a dry run.
const CLEAR_NOTE: &str = "stops leftover processes of Ray and its jobs";
/// Time limit for cleaning up one machine.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of machines that are cleaned up at the same time.
const AT_ONCE: usize = 16;

impl Performer {
    /// The session name of a Ray that responds, if any. An error means that this cannot be determined.
    pub(super) async fn responding_session(&self) -> Result<Option<String>, Problem> {
        match self.connect().await {
            Ok(channel) => Ok(Some(channel.ray_session.raw().to_owned())),
            Err(problem) if problem.kind == ProblemKind::DashboardSilent => Ok(None),
            // Google lists no head of this cluster, so there is none.
            Err(problem) if self.is_google() && self.has_no_head().await => {
                tracing::info!("{}", problem.what);
                Ok(None)
            }
            Err(problem) => Err(problem),
        }
    }

    pub(super) async fn stop(&self, progress: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let file = self.file()?;
        let down = ["down", "-y", "--log-style", "pretty", "--log-color", "false"].map(OsStr::new);
        let (code, _) = self.ray_changes(&[&down[..], &[file.as_os_str()]].concat(), progress).await?;
        if self.executor.is_recording() {
            return Ok(NOT_AWAITED.to_owned());
        }
        let ended = Instant::now();
        // A failed command may still have stopped Ray, which is rare.
        let mut deadline = ended + if code == 0 { WAIT_LIMIT } else { AFTER_FAILURE };
        let mut over_ssh = false;
        loop {
            match self.responding_session().await {
                Ok(None) if over_ssh => {
                    return Ok(
                        "`ray down` stopped nothing; Ray was stopped over SSH and the head no longer responds"
                            .to_owned(),
                    );
                }
                Ok(None) => return Ok("the head no longer responds".to_owned()),
                // `ray down` exits with 0 when it stopped nothing: it knows only the clusters in the state files of
                // its own machine (`/tmp/ray/cluster-NAME.state`, ray.autoscaler.local.coordinator_node_provider).
                Ok(Some(session))
                    if code == 0
                        && !over_ssh
                        && !self.is_google()
                        && session == self.facts.session
                        && ended.elapsed() > STOPPED_NOTHING =>
                {
                    let why = "`ray down` exited with 0 but stopped nothing: this machine has no Ray launcher state for the \
                               cluster (started elsewhere, or /tmp was cleared); stopping Ray over SSH";
                    // The receiver may have been dropped.
                    drop(progress.send(Progress::Output(why.to_owned())));
                    // The workers are cleaned up in a separate step, which may be skipped if one is gone.
                    self.clean_up_hosts(StepName::Stop, head(&self.spec), progress).await?;
                    (over_ssh, deadline) = (true, Instant::now() + WAIT_LIMIT);
                }
                Ok(Some(_)) if Instant::now() > deadline => {
                    let what = format!("`ray down` exited with {code}, but Ray still responds on the head");
                    return Err(failure(
                        what,
                        Hint::from("see its output; stop Ray there with `ray stop`")
                            .and(Verb::Resume.to("or resume to retry")),
                    ));
                }
                Err(problem) if Instant::now() > deadline => return Err(problem),
                Ok(Some(_)) | Err(_) => {}
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    pub(super) async fn clean_up(
        &self,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<String, Problem> {
        // Machines at Google are deleted with everything on them; manually added ones stop their Ray when its head is
        // gone.
        if self.is_google() {
            return Ok("machines deleted".to_owned());
        }
        let workers = self.facts.workers.iter().map(String::as_str);
        let workers = self.clean_up_hosts(StepName::CleanUp, workers, progress).await;
        // Also if a worker cannot be cleaned up: the step may be skipped then.
        let head = self.clean_up_hosts(StepName::CleanUp, head(&self.spec), progress).await;
        Ok(counted(workers? + head?, "machine"))
    }

    /// Ends remaining processes of Ray and its jobs on these machines, several at a time, continuing if one fails.
    /// Returns the number of machines. `step` is the step that needs this.
    async fn clean_up_hosts(
        &self,
        step: StepName,
        hosts: impl IntoIterator<Item = &str>,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<usize, Problem> {
        let launch = Launch::of(&self.spec).map_err(|e| failure(e.what(), &e.hint))?;
        let container = launch.in_container.then_some(launch.container.as_str());
        let script = clear_script(&self.facts.jobs, container);
        let each: Vec<_> =
            hosts.into_iter().map(|host| self.clean_up_host(step, host, &script, progress)).collect();
        let done: Vec<_> = stream::iter(each).buffered(AT_ONCE).collect().await;
        let cleared: Result<Vec<()>, Problem> = done.into_iter().collect();
        Ok(cleared?.len())
    }

    async fn clean_up_host(
        &self,
        step: StepName,
        host: &str,
        script: &str,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        // The receiver may have been dropped.
        drop(progress.send(Progress::Output(format!("stopping Ray processes on {host}"))));
        let output = self.executor.run_on(self.access(), host, script, CLEAR_TIMEOUT, CLEAR_NOTE).await;
        let output = output.map_err(|p| not_cleaned_up(step, host, &p))?;
        if output.status != 0 {
            let what = format!("{host} still runs Ray or job processes: {}", output.stderr);
            return Err(failure(what, then_resume("stop them there with `ray stop --force`")));
        }
        Ok(())
    }
}

/// The error for a machine that cannot be cleaned up in this step.
fn not_cleaned_up(step: StepName, host: &str, why: &Problem) -> Problem {
    let what = format!("cannot stop the Ray processes on {host}, so a job there may run twice: {}", why.what);
    if !step.is_skippable() {
        return failure(what, Verb::Resume.to("fix it and resume"));
    }
    let hint = [
        Verb::SkipStep.to("if the machine no longer exists, skip this step"),
        Verb::Resume.to("otherwise fix it and resume"),
    ];
    failure(what, hint)
}

/// The head of a local cluster.
fn head(spec: &ClusterSpec) -> Option<&str> {
    match &spec.head {
        HeadAddress::Ssh(host) => Some(host.as_str()),
        _ => None,
    }
}

/// The shell script that ends what a stopped Ray leaves on a machine: its daemons, and the processes of these jobs,
/// which have their submission id in the environment (`RAY_JOB_CONFIG_JSON_ENV_VAR`). Processes in Ray's container
/// belong to another user, and end with the container, as with `ray down`. Fails if something is left.
fn clear_script(jobs: &[String], container: Option<&str>) -> String {
    let mut script = String::new();
    if let Some(name) = container {
        let (name, only) = (quote(name), quote(&format!("name=^{name}$")));
        let _ = write!(
            script,
            "for d in docker podman; do command -v $d >/dev/null || continue; $d stop {name} >/dev/null 2>&1; \
             [ -z \"$($d ps -q -f {only})\" ] || {{ echo \"Ray's container is still running\" >&2; exit 1; }}; done; "
        );
    }
    script.push_str(
        // Finds ray like Ray's own command runner (python/ray/autoscaler/_private/command_runner.py). The backslash
        // keeps the pattern from matching this very script.
        "bash --login -c -i 'source ~/.bashrc; command -v ray >/dev/null && ray stop --force' >/dev/null 2>&1 </dev/null; \
         pkill -KILL -u \"$(id -u)\" -x 'raylet|gcs_server'; pkill -KILL -u \"$(id -u)\" -f '/ray/dashboard/dashboard\\.py'; ",
    );
    if !jobs.is_empty() {
        let ids: Vec<String> = jobs
            .iter()
            .map(|id| {
                format!(
                    "-e {}",
                    quote(&format!("\"job_submission_id\": {}", serde_json::Value::from(id.as_str())))
                )
            })
            .collect();
        let _ = write!(
            script,
            "for p in /proc/[0-9]*; do if grep -qzF {} \"$p/environ\" 2>/dev/null; then kill -KILL \"${{p#/proc/}}\" 2>/dev/null; fi; done; ",
            ids.join(" ")
        );
    }
    script.push_str(
        "command -v pgrep >/dev/null || { echo 'pgrep (procps) is not installed' >&2; exit 1; }; \
         for i in 1 2 3 4 5 6 7 8 9 10; do pgrep -u \"$(id -u)\" -x 'raylet|gcs_server' >/dev/null || exit 0; sleep 1; done; \
         echo 'a raylet or the GCS is still running' >&2; exit 1",
    );
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn hostile_ids_are_quoted_in_the_script() {
        for container in [None, Some("c'; rm -rf / #")] {
            let script = clear_script(&["a'; rm -rf / #".to_owned()], container);
            let shell = std::process::Command::new("sh").args(["-n", "-c", &script]).status().unwrap();
            assert!(shell.success());
            assert!(!script.contains("a'; rm") && !script.contains("c'; rm"), "{script}");
        }
        assert!(!clear_script(&[], None).contains("/proc"));
    }

    #[test]
    fn only_a_step_that_can_be_skipped_suggests_it() {
        let hint = |step| not_cleaned_up(step, "10.0.0.7", &failure("no route", "")).hint.to_string();
        assert!(hint(StepName::CleanUp).contains("--skip-failed-step"));
        let stop = hint(StepName::Stop);
        assert!(stop.contains("--resume") && !stop.contains("skip"), "{stop}");
    }

    /// A fake docker: `stop` with this name works unless the file `stuck` exists.
    #[test]
    fn the_container_is_stopped_and_the_stop_is_verified() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let program = |name: &str, text: &str| {
            std::fs::write(at(name), format!("#!/bin/sh\ncd {}\n{text}\n", dir.path().display())).unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        // Nothing on this machine may be found or ended.
        for name in ["pkill", "bash", "ray"] {
            program(name, "exit 0");
        }
        program("pgrep", "exit 1");
        program(
            "docker",
            "echo \"$@\" >>calls\ncase $1 in stop) [ -e stuck ] || : >stopped;; ps) [ -e stopped ] || echo 4f2a;; esac",
        );
        let clear = || {
            let mut shell = std::process::Command::new("/bin/sh");
            shell.env("PATH", dir.path()).args(["-c", &clear_script(&[], Some("ray_box"))]);
            shell.output().unwrap()
        };
        std::fs::write(at("stuck"), "").unwrap();
        let stuck = clear();
        let stderr = String::from_utf8_lossy(&stuck.stderr).into_owned();
        assert!(!stuck.status.success() && stderr.contains("Ray's container is still running"), "{stderr}");
        std::fs::remove_file(at("stuck")).unwrap();
        assert!(clear().status.success());
        let calls = std::fs::read_to_string(at("calls")).unwrap();
        assert_eq!(calls, "stop ray_box\nps -q -f name=^ray_box$\n".repeat(2));
    }
}
