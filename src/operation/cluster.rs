//! Restart, start and stop of a cluster of machines (provider `local`) by the `ray` command, step by step.

use super::backup::{self, Restored};
use super::journal::{Journal, JournalError};
use super::trouble;
use crate::model::{
    AutoscalerVersion, ClusterSpec, Job, JobStatus, NodeState, Operation, OperationKind, Problem,
    ProblemKind, Progress, StepName, SubmissionId, Text, Timestamp,
};
use crate::ray::{Poller, RayError};
use crate::ssh::quote;
use crate::supervisor::{self, Options, Session};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// What is waited for an effect: Ray's end, its first answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// What workers are given to come back before they are named as missing.
const WORKERS: Duration = Duration::from_secs(90);
/// What jobs are given to begin once the workers are back.
const SETTLING: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// `ray up` without a word for so long hangs.
const SILENCE: Duration = Duration::from_secs(300);
/// `ray up` asks a head that it cannot log in to every five seconds, for a quarter of an hour.
const DEAF: usize = 6;
/// What clearing one machine may take.
const CLEARING: Duration = Duration::from_secs(60);

/// What an operation knows and will need later; it stands in the journal before it is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// `session_name` of the Ray that is to be ended.
    pub session: String,
    /// Addresses of its workers.
    pub workers: Vec<String>,
    /// Submission ids of its jobs that had not ended.
    pub jobs: Vec<String>,
    /// Which autoscaler it has; `ray up` would start its own favourite.
    pub autoscaler: Option<u8>,
    /// Where they were saved.
    pub backup: Option<PathBuf>,
}

/// Does the steps of an operation on one cluster.
pub struct Performer {
    /// The cluster.
    pub spec: ClusterSpec,
    /// Its place in the list.
    pub place: usize,
    /// How to connect.
    pub options: Options,
    /// Our state folder; backups lie below it.
    pub state: PathBuf,
    /// Whether jobs are saved.
    pub preserve: bool,
    /// What is known so far.
    pub facts: Facts,
}

/// What stands in the way of beginning at all: an operation is offered for `local` clusters with a file.
pub fn preflight(spec: &ClusterSpec, kind: OperationKind) -> Result<(), Problem> {
    let what = match (&spec.file, spec.provider.as_str()) {
        (Some(_), "local") => return Ok(()),
        (None, _) => format!("{} has no cluster file; ray needs one to {} it", spec.name, kind.word()),
        (_, provider) => format!("{} is not offered yet for provider {provider}", kind.word()),
    };
    Err(trouble(what, "use the ray command by hand; backup-jobs and restore-jobs work with every provider"))
}

impl From<JournalError> for Problem {
    fn from(e: JournalError) -> Self {
        trouble(e.to_string(), "free some space there, then resume")
    }
}

impl Performer {
    /// Does what is left of an operation. `done` are the steps of an earlier attempt. Ends at the first step that
    /// fails; the journal knows where.
    pub async fn run(
        &mut self,
        operation: &Operation,
        journal: &mut Journal,
        done: &[(StepName, String)],
        tell: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        // Nobody has to listen.
        let say = |progress| drop(tell.send(progress));
        let answered = done.iter().any(|(s, _)| *s == StepName::Answer);
        for &step in &operation.steps {
            // What is here may have changed since, and a ray that was started counts when it answers. Both look first.
            let for_good = step != StepName::Check && (step != StepName::Start || answered);
            if let Some((_, said)) = done.iter().find(|(s, _)| *s == step && for_good) {
                say(Progress::Skipped(step, said.clone()));
                continue;
            }
            say(Progress::Began(step));
            match self.step(step, journal, tell).await {
                Ok(said) => {
                    journal.done(step, &said)?;
                    say(Progress::Done(step, said));
                }
                Err(problem) => {
                    journal.failed(step, &problem.what)?;
                    say(Progress::Failed(step, problem.clone()));
                    return Err(problem);
                }
            }
        }
        journal.end("done")?;
        Ok(())
    }

    async fn step(
        &mut self,
        step: StepName,
        journal: &mut Journal,
        tell: &mpsc::UnboundedSender<Progress>,
    ) -> Result<String, Problem> {
        match step {
            StepName::Check => self.check(tell).await,
            StepName::Look => {
                let said = self.look().await?;
                if self.preserve {
                    let name =
                        format!("{}-{}", file_name(self.spec.name.as_str()), Timestamp::now().as_millis());
                    self.facts.backup = Some(self.state.join("backups").join(name));
                }
                journal.facts(&self.facts)?;
                Ok(said)
            }
            StepName::Backup => self.back_up().await,
            StepName::Stop => self.stop(tell).await,
            StepName::Clear => self.clear(tell).await,
            StepName::Start => self.start(tell).await,
            StepName::Answer => self.answer().await,
            StepName::Restore => self.restore(tell).await,
            StepName::Workers => self.workers().await,
        }
    }

    async fn connect(&self) -> Result<Session, Problem> {
        supervisor::connect(self.spec.clone(), self.place, self.options.clone(), |_| ()).await
    }

    fn file(&self) -> Result<&Path, Problem> {
        self.spec.file.as_deref().ok_or_else(|| trouble("the cluster has no file", ""))
    }

    async fn check(&self, tell: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let file = self.file()?;
        std::fs::File::open(file)
            .map_err(|e| trouble(format!("cannot read {}: {e}", file.display()), "nothing was changed"))?;
        let words = self.options.ray.join(" ");
        let (code, lines) = self.ray(&[OsStr::new("--version")], tell).await?;
        if code != 0 {
            let said = lines.last().cloned().unwrap_or_default();
            let mend = "install ray here, or name the command as `ray` in the settings; nothing was changed";
            return Err(trouble(format!("`{words} --version` fails with {code}: {said}"), mend));
        }
        Ok(lines.last().cloned().unwrap_or_else(|| "ray is there".to_owned()))
    }

    async fn look(&mut self) -> Result<String, Problem> {
        let session = match self.connect().await {
            Ok(session) => session,
            Err(problem) if self.preserve => {
                let mend =
                    format!("{}; or go on without the jobs: --abandon, then --preserve-jobs=0", problem.mend);
                return Err(Problem { mend, ..problem });
            }
            Err(problem) => {
                return Ok(format!("it does not answer ({}): its workers are not known", problem.what));
            }
        };
        let asked = |e: RayError| e.problem(Timestamp::now());
        let found = async {
            let snapshot = Poller::new(session.client.clone()).refresh().await.map_err(asked)?;
            let alive = snapshot.nodes.iter().filter(|n| n.state != NodeState::Dead && !n.is_head);
            let workers: Vec<String> = alive.map(|n| n.address.raw().to_owned()).collect();
            let open = snapshot.jobs.iter().filter(|j| !j.status.is_ended());
            let jobs: Vec<String> =
                open.filter_map(|j| j.submission_id()).map(|id| id.0.raw().to_owned()).collect();
            let identity = session.client.version().await.map_err(asked)?;
            let autoscaler = match snapshot.autoscaler.version {
                AutoscalerVersion::V1 => Some(1),
                AutoscalerVersion::V2 => Some(2),
                AutoscalerVersion::None => None,
            };
            Ok::<_, Problem>((identity.session.raw().to_owned(), workers, jobs, autoscaler))
        }
        .await;
        session.close().await;
        let (name, workers, jobs, autoscaler) = found?;
        let said = format!("{} workers, {} jobs that have not ended", workers.len(), jobs.len());
        self.facts = Facts { session: name, workers, jobs, autoscaler, backup: None };
        Ok(said)
    }

    fn backup_folder(&self) -> Result<PathBuf, Problem> {
        let folder = self.facts.backup.clone();
        folder.ok_or_else(|| trouble("the journal names no backup", "restore-jobs takes its folder by name"))
    }

    async fn back_up(&self) -> Result<String, Problem> {
        let folder = self.backup_folder()?;
        if folder.join("jobs.json").exists() {
            return Ok(format!("saved already in {}", folder.display()));
        }
        let session = self.connect().await?;
        let backed = backup::back_up(&session.client, self.spec.name.as_str(), &folder).await;
        session.close().await;
        let backed = backed?;
        let lost = backed.kept.iter().filter(|k| !k.missing.is_empty()).count();
        let lost =
            if lost > 0 { format!(", {lost} of them without a package that is gone") } else { String::new() };
        let left = backed.left_out.len();
        Ok(format!("{} jobs in {}{lost}; {left} left out", backed.kept.len(), folder.display()))
    }

    /// Whether a Ray answers: its session's name. An error means that it cannot be told.
    async fn answering(&self) -> Result<Option<String>, Problem> {
        match self.connect().await {
            Ok(session) => {
                let identity = session.client.version().await;
                session.close().await;
                Ok(identity.ok().map(|i| i.session.raw().to_owned()))
            }
            Err(problem) if problem.kind == ProblemKind::DashboardSilent => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    async fn stop(&self, tell: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let file = self.file()?;
        let down = ["down", "-y", "--log-style", "pretty", "--log-color", "false"].map(OsStr::new);
        let (code, _) = self.ray(&[&down[..], &[file.as_os_str()]].concat(), tell).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            // `ray down` exits with 0 when it stopped nothing.
            match self.answering().await {
                Ok(None) => return Ok("the head no longer answers".to_owned()),
                Ok(Some(_)) if Instant::now() > deadline => {
                    let what = format!("`ray down` ended with {code}, and ray still answers on the head");
                    return Err(trouble(
                        what,
                        "its output says why; stop ray there by hand, or resume to try again",
                    ));
                }
                Err(problem) if Instant::now() > deadline => return Err(problem),
                Ok(Some(_)) | Err(_) => {}
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn clear(&self, tell: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let head = match &self.spec.head {
            crate::model::HeadAddress::Ssh(host) => Some(host.clone()),
            _ => None,
        };
        let hosts: Vec<String> = self.facts.workers.iter().cloned().chain(head).collect();
        let script = clearing(&self.facts.jobs);
        for host in &hosts {
            drop(tell.send(Progress::Output(format!("clearing {host}"))));
            let output = supervisor::run_on(&self.spec, &self.options, host, &script, CLEARING).await;
            let output = output.map_err(|p| {
                let what = format!("{host} cannot be cleared, a job there might run twice: {}", p.what);
                trouble(
                    what,
                    "if the machine is gone for good, resume with --leave; otherwise mend it and resume",
                )
            })?;
            if output.status != 0 {
                let what = format!("{host} still runs ray or a job's process: {}", output.stderr);
                return Err(trouble(what, "end them there by hand (`ray stop --force`), then resume"));
            }
        }
        Ok(format!("{} machines", hosts.len()))
    }

    async fn start(&self, tell: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        if let Ok(Some(session)) = self.answering().await
            && session != self.facts.session
        {
            return Ok("a ray answers already".to_owned());
        }
        let file = self.file()?;
        let up = ["up", "-y", "--no-config-cache", "--log-style", "pretty", "--log-color", "false"]
            .map(OsStr::new);
        let (code, lines) = self.ray(&[&up[..], &[file.as_os_str()]].concat(), tell).await?;
        if code != 0 {
            let said = lines.iter().rev().find(|l| !l.is_empty()).cloned().unwrap_or_default();
            let mend = "correct what it names, then resume; nothing runs on the cluster now";
            return Err(trouble(format!("`ray up` failed with {code}: {said}"), mend));
        }
        Ok("ray up is through".to_owned())
    }

    async fn answer(&self) -> Result<String, Problem> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let problem = match self.answering().await {
                Ok(Some(session)) if session != self.facts.session => return Ok(session),
                Ok(Some(_)) => trouble(
                    "the ray that answers is still the old one",
                    "stop it there by hand (`ray stop`), then resume",
                ),
                Ok(None) => {
                    trouble("no dashboard answers on the head", "look at `ray status` there, then resume")
                }
                Err(problem) => problem,
            };
            if Instant::now() > deadline {
                return Err(problem);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn restore(&self, tell: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let folder = self.backup_folder()?;
        let session = self.connect().await?;
        let restored = backup::restore(&session.client, &folder).await;
        session.close().await;
        let restored = restored?;
        let mut failed = Vec::new();
        for (id, outcome) in &restored {
            if let Restored::Failed(why) = outcome {
                drop(
                    tell.send(Progress::Output(format!(
                        "{id} is not restored: {}",
                        Text::from(why.as_str())
                    ))),
                );
                failed.push(id.to_string());
            }
        }
        let good = restored.len() - failed.len();
        Ok(match failed.as_slice() {
            [] => format!("{good} jobs are back"),
            names => {
                format!("{good} jobs are back; not {} (saved in {})", names.join(", "), folder.display())
            }
        })
    }

    async fn workers(&self) -> Result<String, Problem> {
        let session = self.connect().await?;
        let mut poller = Poller::new(session.client.clone());
        let deadline = Instant::now() + WORKERS;
        let mut settled = Instant::now() + SETTLING;
        let said = loop {
            let snapshot = poller.refresh().await.map_err(|e| e.problem(Timestamp::now()));
            if let Ok(snapshot) = &snapshot {
                let is_back = |address: &&String| {
                    let alive = |n: &&crate::model::Node| n.state != NodeState::Dead && !n.is_head;
                    !snapshot.nodes.iter().filter(alive).any(|n| n.address.raw() == address.as_str())
                };
                let missing: Vec<&String> = self.facts.workers.iter().filter(is_back).collect();
                let waiting = self.saved_jobs(&snapshot.jobs, JobStatus::Pending);
                if !missing.is_empty() {
                    settled = Instant::now() + SETTLING;
                }
                let over = Instant::now() > deadline || Instant::now() > settled;
                if (missing.is_empty() && waiting == 0) || over {
                    let names: Vec<_> = missing.iter().map(|a| Text::from(a.as_str()).to_string()).collect();
                    let missing = if names.is_empty() {
                        "all workers are back".into()
                    } else {
                        format!("missing: {}", names.join(", "))
                    };
                    let runs = self.saved_jobs(&snapshot.jobs, JobStatus::Running);
                    break Ok(format!("{missing}; {runs} jobs run, {waiting} wait"));
                }
            }
            match snapshot {
                Err(problem) if Instant::now() > deadline => break Err(problem),
                _ => tokio::time::sleep(LOOK).await,
            }
        };
        session.close().await;
        said
    }

    fn saved_jobs(&self, jobs: &[Arc<Job>], status: JobStatus) -> usize {
        let ours = |id: &SubmissionId| self.facts.jobs.iter().any(|j| j == id.0.raw());
        jobs.iter().filter(|j| j.status == status && j.submission_id().is_some_and(ours)).count()
    }

    /// The autoscaler stays what it was, unless the person says otherwise: v2, which `ray up` starts by itself, does
    /// not even run on a `local` cluster of Ray 2.53.
    fn autoscaler_setting(&self) -> &'static [&'static str] {
        let said = std::env::var_os("RAY_UP_enable_autoscaler_v2").is_some();
        match self.facts.autoscaler {
            Some(1) if !said => &["RAY_UP_enable_autoscaler_v2=0"],
            Some(2) if !said => &["RAY_UP_enable_autoscaler_v2=1"],
            _ => &[],
        }
    }

    /// Runs ray here; its code and lines. Gives up on one that hangs or cannot log in.
    async fn ray(
        &self,
        arguments: &[&OsStr],
        tell: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(i32, Vec<String>), Problem> {
        let (sender, mut lines) = mpsc::unbounded_channel();
        let running = supervisor::run_ray(&self.options, arguments, self.autoscaler_setting(), sender);
        tokio::pin!(running);
        let (mut all, mut deaf) = (Vec::new(), 0);
        let take = |line: String, all: &mut Vec<String>| {
            drop(tell.send(Progress::Output(line.clone())));
            all.push(line);
        };
        let code = loop {
            tokio::select! {
                code = &mut running => break code?,
                Some(line) = lines.recv() => {
                    deaf += usize::from(line.contains("SSH still not available"));
                    take(line, &mut all);
                    if deaf >= DEAF {
                        let why = all.iter().rev().find(|l| l.contains("ermission denied") || l.contains("onnect"));
                        let why = why.cloned().unwrap_or_default();
                        let mend = "see that the key, the user and the head's sshd are right, then resume";
                        return Err(trouble(format!("ray cannot log in to the head: {why}"), mend));
                    }
                }
                () = tokio::time::sleep(SILENCE) => {
                    let what = format!("ray has said nothing for {} s and was ended", SILENCE.as_secs());
                    return Err(trouble(what, "run the same by hand to see where it hangs, then resume"));
                }
            }
        };
        while let Ok(line) = lines.try_recv() {
            take(line, &mut all);
        }
        Ok((code, all))
    }
}

fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// The shell script that ends what a stopped Ray leaves on a machine: raylets, and the processes of these jobs, which
/// carry their submission id in the environment (`RAY_JOB_CONFIG_JSON_ENV_VAR`). Fails when something is left.
fn clearing(jobs: &[String]) -> String {
    let mut script = String::from(
        "bash --login -c -i 'command -v ray >/dev/null && ray stop --force' >/dev/null 2>&1 </dev/null; pkill -KILL -u \"$(id -u)\" -x raylet; ",
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
            "for p in /proc/[0-9]*; do if grep -qzF {} $p/environ 2>/dev/null; then kill -KILL ${{p#/proc/}} 2>/dev/null; fi; done; ",
            ids.join(" ")
        );
    }
    script.push_str("for i in 1 2 3 4 5 6 7 8 9 10; do pgrep -u \"$(id -u)\" -x raylet >/dev/null || exit 0; sleep 1; done; echo 'a raylet is still there' >&2; exit 1");
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterName, HeadAddress, SshAuth};

    #[test]
    fn other_providers_are_refused_in_words() {
        let spec = |provider: &str, file: Option<&str>| ClusterSpec {
            name: ClusterName::new("c"),
            file: file.map(PathBuf::from),
            provider: provider.into(),
            zone: None,
            head: HeadAddress::AskRay,
            auth: SshAuth::default(),
            node_types: Vec::new(),
            google: crate::model::GoogleNames::default(),
        };
        assert!(preflight(&spec("local", Some("c.yaml")), OperationKind::Restart).is_ok());
        let gcp = preflight(&spec("gcp", Some("c.yaml")), OperationKind::Restart).unwrap_err();
        assert!(gcp.what.contains("not offered yet for provider gcp") && gcp.mend.contains("backup-jobs"));
        assert!(preflight(&spec("", None), OperationKind::Stop).is_err());
    }

    #[test]
    fn hostile_ids_stay_words_of_the_script() {
        let script = clearing(&["a'; rm -rf / #".to_owned()]);
        let shell = std::process::Command::new("sh").args(["-n", "-c", &script]).status().unwrap();
        assert!(shell.success());
        assert!(!script.contains("a'; rm"), "{script}");
        assert!(!clearing(&[]).contains("/proc"));
    }
}
