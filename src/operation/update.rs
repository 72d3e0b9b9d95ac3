//! Applies changes of the cluster file to the running cluster, without a restart of Ray.
//!
//! `ray up --no-restart` writes the file to the head, whose autoscaler reads it at once, and runs the head's setup
//! commands. But it replaces a head machine that differs from the file, and starts a new Ray if it knows of no head:
//! `--no-restart` prevents neither, and `--yes` confirms both. So it is run without `--yes`, and its questions are
//! answered one by one (`get_or_create_head_node` in `ray/autoscaler/_private/commands.py`). The autoscaler in turn
//! terminates workers whose type was removed or has another `node_config` (`launch_config_ok` in `autoscaler.py`,
//! `_terminate_outdated_nodes` in `v2/scheduler.py`).

use super::performer::Performer;
use super::worker::running_on;
use super::{failure, then_resume};
use crate::config;
use crate::model::amount::counted;
use crate::model::{
    AffectedJob, Drift, Fix, Hint, Node, NodeId, Operation, Preview, Problem, Progress, Refusal,
    RefusalReason, SnapshotPart, Target, Task, Text, Timestamp, Verb,
};
use crate::ray::{Client, Poller, RayError};
use crate::supervisor::reading;
use crate::supervisor::{self, Access};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;
use tokio::sync::mpsc;

/// Time limit for reading the head's configuration: a login shell in a container.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The message of `ray up --no-restart` about a head that it knows, before it asks whether to continue.
const KEEPS_HEAD: &str = "will not be restarted due to";
/// The message that it prints instead of a question if it has no terminal.
const NEEDS_TERMINAL: &str = "requires user confirmation";
/// The message before it asks whether to replace the head's machine.
const REPLACES_HEAD: &str = "Currently running head node is out-of-date";
/// The answers to its questions, by the preceding line.
const ANSWERS: &[(&str, &str)] = &[(KEEPS_HEAD, "y"), (REPLACES_HEAD, "n")];

/// The current differences between the cluster file and the configuration of its head.
pub async fn changes(access: Access<'_>) -> Result<Vec<Drift>, Problem> {
    let line = reading(access.spec, "ray_bootstrap_config.yaml")?;
    let head = supervisor::head_address(access.spec, access.options, None).await?.host;
    let read = supervisor::run_on(access, head.as_str(), &line, READ_TIMEOUT).await?;
    if read.status != 0 || read.cut {
        let why = if read.cut { "it is larger than 4 MB".to_owned() } else { read.stderr };
        let what = format!("cannot read ~/ray_bootstrap_config.yaml on the head: {why}");
        let hint = Hint::from("it exists only on clusters started with `ray up`")
            .and(Verb::Ssh.to("check on the head"));
        return Err(failure(what, hint));
    }
    config::drift(access.spec, &read.stdout).map_err(|e| failure(e.what(), &e.hint))
}

/// The preview of an update: its changes, and the jobs on workers that they end.
pub async fn seen(access: Access<'_>, client: &Client, me: &str) -> Result<Preview, Problem> {
    let changes = changes(access).await?;
    let mut preview = Preview { me: me.to_owned(), ..Preview::default() };
    let types = Drift::ended_types(&changes);
    if !types.is_empty() {
        let to_problem = |e: RayError| e.problem(Timestamp::now());
        let snapshot = Poller::new(client.clone())
            .refresh_all(&super::preview::REQUIRED_PARTS)
            .await
            .map_err(to_problem)?;
        let is_ended = |n: &&Node| n.state.is_alive() && !n.is_head && types.contains(&n.node_type.raw());
        let ended: Vec<&Node> = snapshot.nodes.iter().filter(is_ended).collect();
        let ids: Vec<NodeId> = ended.iter().map(|node| node.id).collect();
        let jobs = running_on(client, &snapshot, &ids, false).await?;
        preview.jobs = jobs.into_iter().map(|(_, affected)| affected).collect::<Vec<AffectedJob>>();
        if !ended.is_empty() {
            let names: Vec<String> = ended.iter().map(|node| node.address.to_string()).collect();
            let what =
                format!("the autoscaler ends {}: {}", counted(names.len(), "worker"), names.join(", "));
            preview.warnings.push(what);
        }
    }
    preview.changes = changes;
    Ok(preview)
}

/// Checks that these changes can be applied by an update: there is at least one, and none requires more than an update.
pub fn applicable(cluster: &crate::model::ClusterName, changes: &[Drift]) -> Result<(), Refusal> {
    if changes.is_empty() {
        let what = format!("{cluster} matches its cluster file");
        return Err(Refusal::new(RefusalReason::UpToDate, failure(what, "nothing to update")));
    }
    let beyond = Drift::beyond_update(changes);
    let Some(worst) = beyond.iter().max_by_key(|drift| drift.effect.clone()) else { return Ok(()) };
    let keys = |effect| {
        let keys = beyond.iter().filter(|drift| drift.effect == effect).map(|drift| drift.key.as_str());
        Text::from(keys.collect::<Vec<_>>().join(", "))
    };
    if worst.effect == crate::model::Effect::OtherCluster {
        let what =
            format!("the file describes a different cluster than {cluster}: {}", keys(worst.effect.clone()));
        let hint = Hint::from("restore these keys")
            .and(Fix::from("or stop the cluster with the old file and start it with the new one"));
        return Err(Refusal::new(RefusalReason::NotOffered, failure(what, hint)));
    }
    let what = format!("cannot be applied without a restart of Ray: {}", keys(worst.effect.clone()));
    let again = Target::of(cluster).line("update-cluster --restart-ray");
    let hint = Fix::command("restart it, which saves and restores its jobs", again);
    Err(Refusal::new(RefusalReason::NeedsRestart, failure(what, Hint::from(hint))))
}

impl Performer {
    /// The remaining changes; an error if they cannot be applied by an update any more.
    pub(super) async fn changes_to_apply(&self) -> Result<Vec<Drift>, Problem> {
        let changes = changes(self.access()).await?;
        match applicable(&self.spec.name, &changes) {
            Err(refusal) if refusal.reason != RefusalReason::UpToDate => {
                let hint = Verb::Abandon.to("abandon this operation");
                Err(Problem { hint: Hint::from(hint).and(refusal.problem.hint), ..refusal.problem })
            }
            _ => Ok(changes),
        }
    }

    pub(super) async fn apply(&self, progress: &mpsc::UnboundedSender<Progress>) -> Result<String, Problem> {
        let changes = self.changes_to_apply().await?;
        if changes.is_empty() {
            return Ok("already applied".to_owned());
        }
        let file = self.file()?;
        let up = ["up", "--no-restart", "--no-config-cache", "--log-style", "pretty", "--log-color", "false"]
            .map(OsStr::new);
        let up = [&up[..], &[file.as_os_str()]].concat();
        if !self.executor.is_recording() {
            // Without a terminal it cannot ask, and changes nothing: its first output shows whether it knows the head.
            let (ignored, _) = mpsc::unbounded_channel();
            let (_, lines) = self.ray(&up, &ignored).await?;
            if !lines.iter().any(|line| line.contains(KEEPS_HEAD)) {
                return Err(self.no_head_for_ray(&lines));
            }
        }
        self.still_permitted().await?;
        let (code, lines) = self.ray_answered(&up, ANSWERS, progress).await?;
        if lines.iter().any(|line| line.contains(REPLACES_HEAD)) {
            let what = "the ray command would have replaced the head's machine and ended all jobs; marin-tui stopped it";
            let hint = Hint::from(Verb::Abandon.to("abandon this operation"))
                .and(Verb::Restart.to("then restart the cluster with its jobs"));
            return Err(failure(what, hint));
        }
        if code != 0 {
            let last = lines.iter().rev().find(|l| !l.is_empty()).cloned().unwrap_or_default();
            let hint = then_resume("fix the reported error; setup commands may have run on the head");
            return Err(failure(format!("`ray up` failed with exit code {code}: {last}"), hint));
        }
        Ok(format!("{} applied", counted(changes.len(), "change")))
    }

    /// Checks the jobs that the update would end now against the permission: other people may have submitted some since.
    async fn still_permitted(&self) -> Result<(), Problem> {
        if self.executor.is_recording() {
            return Ok(());
        }
        let operation = Operation::new(self.task.clone(), self.spec.name.clone());
        let seen = match self.connect().await {
            Ok(channel) => seen(self.access(), &channel.client, &self.operator).await?,
            Err(problem) => Preview::unknown(&self.operator, problem),
        };
        self.permitted(&operation, &seen)
    }

    /// The problem that `ray up` would start another Ray, or has refused the file.
    fn no_head_for_ray(&self, lines: &[String]) -> Problem {
        if !lines.iter().any(|line| line.contains(NEEDS_TERMINAL)) {
            let last = lines.iter().rev().find(|line| !line.is_empty()).cloned().unwrap_or_default();
            let what = format!("`ray up` refused the update; nothing was changed: {last}");
            return failure(what, then_resume("fix the reported error"));
        }
        let what = format!(
            "the ray command on this machine does not find the head of {}, and would start a new head",
            self.spec.name
        );
        let hint = if self.is_google() {
            Hint::from("check its login and the cluster file")
        } else {
            let state = format!("/tmp/ray/cluster-{}.state", self.spec.name);
            Hint::from(format!(
                "update it from the machine that started it: Ray's launcher keeps its state in {state}"
            ))
            .and(Verb::Restart.to("or restart it from here"))
        };
        failure(what, then_resume(hint))
    }

    /// Checks that Ray was not restarted and that no change remains, and compares jobs and workers with those before.
    pub(super) async fn verify(&self) -> Result<String, Problem> {
        if self.executor.is_recording() {
            return Ok(super::executor::NOT_AWAITED.to_owned());
        }
        let to_problem = |e: RayError| e.problem(Timestamp::now());
        let session = self.connect().await?;
        if session.ray_session.raw() != self.facts.session {
            let what = "Ray was restarted in the meantime: it has a new session, and its jobs were lost";
            let hint = Verb::Abandon.to("abandon this operation; resubmit the lost jobs");
            return Err(failure(what, hint));
        }
        let left = changes(self.access()).await?;
        if !left.is_empty() {
            let keys = left.iter().map(|drift| drift.key.as_str()).collect::<Vec<_>>().join(", ");
            let what =
                format!("`ray up` finished, but the head still differs from the file: {}", Text::from(keys));
            return Err(failure(what, Verb::Resume.to("apply it again")));
        }
        let snapshot = Poller::new(session.client.clone())
            .refresh_all(&[SnapshotPart::Nodes, SnapshotPart::Jobs])
            .await
            .map_err(to_problem)?;
        let jobs: BTreeMap<String, &str> =
            snapshot.jobs.iter().map(|job| (job.key.to_string(), job.status.label())).collect();
        let words = |(id, before): (&String, &String)| match jobs.get(id) {
            Some(now) if now == before => None,
            Some(now) => Some(format!("{id} {before} -> {now}")),
            None => Some(format!("{id} {before} -> no longer listed")),
        };
        let changed: Vec<String> = self.facts.running.iter().filter_map(words).collect();
        let same = self.facts.running.len() - changed.len();
        let workers = super::cluster::living_workers(&snapshot);
        let gone: Vec<String> = (self.facts.workers.iter())
            .filter(|worker| !workers.contains(worker))
            .map(|worker| Text::from(worker.as_str()).to_string())
            .collect();
        let there = self.facts.workers.len() - gone.len();
        let but = |what: &str, all: &[String]| {
            if all.is_empty() { String::new() } else { format!(", {what}: {}", all.join(", ")) }
        };
        Ok(format!(
            "Ray was not restarted; {} as before{}; {} as before{}",
            counted(same, "job"),
            but("changed", &changed),
            counted(there, "worker"),
            but("gone", &gone)
        ))
    }

    /// Whether this operation is an update.
    pub(super) fn updates(&self) -> bool {
        self.task == Task::Update
    }
}
