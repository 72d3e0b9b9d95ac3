//! Applies changes of the cluster file to the running cluster, without a restart of Ray.
//!
//! `ray up --no-restart` writes the file to the head, whose autoscaler reads it at once, and runs the head's setup
//! commands. But it replaces a head machine that differs from the file, and starts a new Ray if it knows of no head:
//! `--no-restart` prevents neither, and `--yes` confirms both. So it is run without `--yes`, and its questions are
//! answered one by one (`get_or_create_head_node` in `ray/autoscaler/_private/commands.py`). The autoscaler in turn
//! terminates workers whose type was removed or has another `node_config` (`launch_config_ok` in `autoscaler.py`,
//! `_terminate_outdated_nodes` in `v2/scheduler.py`), and workers above a limit, busy ones last
//! (`terminate_nodes_to_enforce_config_constraints`, `_enforce_max_workers_per_type`, `_enforce_max_workers_global`).
//! Autoscaler v1 also sets up running workers again after some changes (`should_update`), and terminates those where
//! this fails (`process_completed_updates`).

use super::performer::Performer;
use super::preview::{RECORDED_PARTS, REQUIRED_PARTS};
use super::worker::running_on;
use super::{failure, then_resume};
use crate::config;
use crate::job_workers::first_few;
use crate::model::amount::counted;
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{
    AutoscalerVersion, ClusterName, Drift, Effect, Fix, Hint, Node, NodeId, Operation, Preview, Problem,
    Progress, Refusal, RefusalReason, Snapshot, Target, Task, Text, Timestamp, Verb,
};
use crate::ray::{Client, Poller, RayError};
use crate::supervisor::reading;
use crate::supervisor::{self, Access};
use std::collections::{BTreeMap, BTreeSet};
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

/// The preview of an update: its changes, and the jobs on workers that they may end.
pub async fn seen(access: Access<'_>, client: &Client, me: &str) -> Result<Preview, Problem> {
    let mut changes = changes(access).await?;
    let preview = Preview { me: me.to_owned(), ..Preview::default() };
    if changes.is_empty() {
        return Ok(preview);
    }
    let read = Poller::new(client.clone()).refresh().await;
    if read.as_ref().is_ok_and(|snapshot| snapshot.autoscaler.version == AutoscalerVersion::V2) {
        config::with_autoscaler_v2(&mut changes);
    }
    // Changes that need more than an update are refused anyway; a restart may be what this Ray needs.
    if !Drift::beyond_update(&changes).is_empty() {
        return Ok(Preview { changes, ..preview });
    }
    let ends_workers = changes.iter().any(Drift::may_end_workers);
    // If nothing ends, it does not matter if some jobs cannot be read.
    let parts = if ends_workers { &REQUIRED_PARTS[..] } else { &RECORDED_PARTS };
    let snapshot = read.and_then(|snapshot| match snapshot.lacks(parts) {
        Some(missing) => Err(RayError::Partial(missing.clone())),
        None => Ok(snapshot),
    });
    let snapshot = snapshot.map_err(|e| e.problem(Timestamp::now()))?;
    if !ends_workers {
        return Ok(Preview { changes, ..preview });
    }
    let endangered = Endangered::by(&changes, &snapshot);
    let ids: Vec<NodeId> = endangered.ids.into_iter().collect();
    let (jobs, problem) = running_on(client, &snapshot, &ids, false).await?;
    let jobs = jobs.into_iter().map(|(_, affected)| affected).collect();
    Ok(Preview { jobs, problem, warnings: endangered.warnings, changes, ..preview })
}

/// The workers that the autoscaler may end because of changes of the cluster file.
#[derive(Debug, Default)]
struct Endangered {
    ids: BTreeSet<NodeId>,
    warnings: Vec<String>,
}

impl Endangered {
    fn by(changes: &[Drift], snapshot: &Snapshot) -> Self {
        let version = snapshot.autoscaler.version;
        // A worker without a node type was added manually, unless the autoscaler's report is missing.
        let is_known = version != AutoscalerVersion::None;
        let is_worker = |node: &&Node| {
            let is_manual = is_known && node.node_type.is_empty();
            node.state.is_alive() && !node.is_head && !is_manual
        };
        let workers: Vec<&Node> = snapshot.nodes.iter().filter(is_worker).collect();
        let mut found = Self::default();
        let types = Drift::ended_types(changes);
        let is_ended = |node: &&Node| types.iter().any(|kind| may_be_of(node, kind));
        let ended: Vec<&Node> = workers.iter().copied().filter(is_ended).collect();
        if !ended.is_empty() {
            let names = addresses(&ended);
            found.add(
                &ended,
                format!("the autoscaler terminates {}: {names}", counted(ended.len(), "worker")),
            );
        }
        // Autoscaler v2 ends workers of another `node_config` only if `disable_launch_config_check` is false.
        let mut gone = if version == AutoscalerVersion::V1 { ended.len() } else { 0 };
        let limits = || changes.iter().filter_map(Drift::limit);
        for (kind, limit) in limits().filter_map(|(kind, limit)| Some((kind?, limit))) {
            let is_limited = |node: &&Node| may_be_of(node, kind) && !is_ended(node);
            let limited: Vec<&Node> = workers.iter().copied().filter(is_limited).collect();
            let over = limited.len().saturating_sub(limit);
            if over > 0 {
                let of_type = format!(" of type {}", printable(kind));
                found.add(&limited, above_limit(over, limited.len(), &of_type));
                gone += if is_known { over } else { 0 };
            }
        }
        for (_, limit) in limits().filter(|(kind, _)| kind.is_none()) {
            let over = workers.len().saturating_sub(gone).saturating_sub(limit);
            if over > 0 {
                found.add(&workers, above_limit(over, workers.len(), ""));
            }
        }
        if !workers.is_empty() && changes.iter().any(|drift| drift.effect == Effect::UpdatesWorkers) {
            let autoscaler = if is_known { "the autoscaler" } else { "the autoscaler, if it is v1," };
            let (all, names) = (counted(workers.len(), "running worker"), addresses(&workers));
            let what = format!(
                "{autoscaler} updates {all}, may restart Ray there, and terminates workers where this fails: {names}"
            );
            found.add(&workers, what);
        }
        found
    }

    fn add(&mut self, workers: &[&Node], warning: String) {
        self.ids.extend(workers.iter().map(|node| node.id));
        self.warnings.push(warning);
    }
}

/// The warning that `over` of `all` workers are above a limit. `of_type` may be empty.
fn above_limit(over: usize, all: usize, of_type: &str) -> String {
    let workers = counted(all, "worker");
    let choice = if over < all {
        "; which ones is not known in advance, so the jobs on all of them are listed"
    } else {
        ""
    };
    format!("the autoscaler terminates {over} of {workers}{of_type}, idle ones first{choice}")
}

/// Whether the node may be of this type; its type may be unknown.
fn may_be_of(node: &Node, kind: &str) -> bool {
    node.node_type.is_empty() || node.node_type.raw() == kind
}

fn addresses(nodes: &[&Node]) -> String {
    let all: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
    first_few(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Checks that these changes can be applied by an update: there is at least one, and none requires more than an update.
pub fn applicable(cluster: &ClusterName, changes: &[Drift]) -> Result<(), Refusal> {
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
    if worst.effect == Effect::OtherCluster {
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

/// The problem that the ray command on this machine does not know the head of a running cluster.
fn unknown_head(cluster: &ClusterName, is_google: bool) -> Problem {
    let what = format!(
        "the ray command on this machine does not find the head of {cluster}, and would start a new head"
    );
    if is_google {
        return failure(what, then_resume("check its Google Cloud credentials and the cluster file"));
    }
    // Otherwise this operation would block both, as an interrupted operation.
    let hint = Hint::from(Verb::Abandon.to("abandon this operation"))
        .and(format!(
            "then update it from the machine that started it: Ray's launcher keeps its state in \
             /tmp/ray/cluster-{cluster}.state"
        ))
        .and(Verb::Restart.to("or restart it from here"));
    failure(what, hint)
}

impl Performer {
    /// The remaining changes; an error if they cannot be applied by an update any more.
    pub(super) async fn changes_to_apply(&self) -> Result<Vec<Drift>, Problem> {
        let changes = changes(self.access()).await?;
        self.still_applicable(&changes)?;
        Ok(changes)
    }

    /// An error if one of these changes requires more than an update.
    fn still_applicable(&self, changes: &[Drift]) -> Result<(), Problem> {
        match applicable(&self.spec.name, changes) {
            Err(refusal) if refusal.reason != RefusalReason::UpToDate => {
                let hint = Verb::Abandon.to("abandon this operation");
                Err(Problem { hint: Hint::from(hint).and(refusal.problem.hint), ..refusal.problem })
            }
            _ => Ok(()),
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
        // The file may have been edited since, and jobs are not read for changes that are refused.
        self.still_applicable(&seen.changes)?;
        self.permitted(&operation, &seen)
    }

    /// The problem that `ray up` would start another Ray, or has refused the file.
    fn no_head_for_ray(&self, lines: &[String]) -> Problem {
        if !lines.iter().any(|line| line.contains(NEEDS_TERMINAL)) {
            let last = lines.iter().rev().find(|line| !line.is_empty()).cloned().unwrap_or_default();
            let what = format!("`ray up` refused the update; nothing was changed: {last}");
            return failure(what, then_resume("fix the reported error"));
        }
        unknown_head(&self.spec.name, self.is_google())
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
        let snapshot =
            Poller::new(session.client.clone()).refresh_all(&RECORDED_PARTS).await.map_err(to_problem)?;
        let jobs: BTreeMap<String, &str> =
            sort::collected(snapshot.jobs.iter().map(|job| (job.key.to_string(), job.status.label())));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Autoscaler, NodeState};
    use serde_json::{Value, json};
    use std::sync::Arc;

    const VERSIONS: [AutoscalerVersion; 2] = [AutoscalerVersion::V1, AutoscalerVersion::V2];

    /// A head, a dead worker of type `w`, and live workers of these types.
    fn snapshot(version: AutoscalerVersion, types: &[&str]) -> Snapshot {
        let head = Node { is_head: true, ..Node::sample(1) };
        let dead = Node { node_type: "w".into(), state: NodeState::Dead, ..Node::sample(2) };
        let worker = |(n, kind): (u8, &&str)| Node { node_type: (*kind).into(), ..Node::sample(n) };
        let nodes = [head, dead].into_iter().chain((3..).zip(types).map(worker)).collect();
        let autoscaler = Autoscaler { version, ..Autoscaler::default() };
        Snapshot { nodes: Arc::new(nodes), autoscaler: Arc::new(autoscaler), ..Snapshot::default() }
    }

    fn changed(key: &str, file: Value, effect: Effect) -> Drift {
        Drift { key: key.to_owned(), running: Value::Null, file, effect }
    }

    fn most(limit: usize) -> Drift {
        changed("max_workers", json!(limit), Effect::Now)
    }

    fn most_of_w(limit: usize) -> Drift {
        changed("available_node_types.w.max_workers", json!(limit), Effect::Now)
    }

    /// The number of workers that may end, and the warnings.
    fn endangered(changes: &[Drift], snapshot: &Snapshot) -> (usize, Vec<String>) {
        let Endangered { ids, warnings } = Endangered::by(changes, snapshot);
        (ids.len(), warnings)
    }

    #[test]
    fn workers_above_a_limit_may_end() {
        let none = (0, Vec::new());
        for version in VERSIONS {
            let eight = snapshot(version, &["w", "w", "w", "w", "w", "w", "w", "w", "manual", ""]);
            assert_eq!(endangered(&[most(9), most_of_w(8)], &eight), none, "none above the limits");
            let of_w = |over, all| above_limit(over, all, " of type w");
            assert_eq!(endangered(&[most_of_w(4)], &eight), (8, vec![of_w(4, 8)]));

            let two_types = snapshot(version, &["w", "w", "w", "v", "v", "v", ""]);
            assert_eq!(endangered(&[most(4)], &two_types), (6, vec![above_limit(2, 6, "")]));
            let both = [most(5), most_of_w(2)];
            assert_eq!(
                endangered(&both, &two_types),
                (3, vec![of_w(1, 3)]),
                "then the cluster has as many as allowed"
            );
        }
        // Without the autoscaler's report, v1's workers have no type.
        let unknown = snapshot(AutoscalerVersion::None, &["", "", ""]);
        assert_eq!(endangered(&[most(3), most_of_w(3)], &unknown), none);
        assert_eq!(endangered(&[most_of_w(2)], &unknown).0, 3);
    }

    #[test]
    fn a_warning_says_that_not_all_listed_jobs_end() {
        let some = "the autoscaler terminates 4 of 8 workers of type w, idle ones first; which ones is not known in \
                    advance, so the jobs on all of them are listed";
        assert_eq!(above_limit(4, 8, " of type w"), some);
        assert_eq!(above_limit(1, 1, ""), "the autoscaler terminates 1 of 1 worker, idle ones first");
    }

    #[test]
    fn a_raised_limit_ends_no_worker() {
        // Their types are unknown, and any of them may be of this one.
        let unknown = snapshot(AutoscalerVersion::None, &[""; 8]);
        let from = |running: usize| [Drift { running: json!(running), ..most_of_w(2) }];
        assert_eq!(endangered(&from(0), &unknown), (0, Vec::new()));
        assert_eq!(endangered(&from(3), &unknown).0, 8);
    }

    #[test]
    fn few_addresses_are_listed() {
        let changes = [changed("worker_setup_commands", json!(["x"]), Effect::UpdatesWorkers)];
        let (all, warnings) = endangered(&changes, &snapshot(AutoscalerVersion::V1, &["w"; 10]));
        assert_eq!(all, 10);
        assert!(warnings[0].ends_with("10.0.0.9, 10.0.0.10 and 2 more"), "{warnings:?}");
    }

    #[test]
    fn a_limit_counts_the_workers_that_autoscaler_v1_ends_anyway() {
        let removed = changed("available_node_types.v", Value::Null, Effect::EndsWorkers("v".into()));
        let changes = [most(2), removed];
        let ended = "the autoscaler terminates 1 worker: 10.0.0.5".to_owned();
        let v1 = snapshot(AutoscalerVersion::V1, &["w", "w", "v"]);
        assert_eq!(endangered(&changes, &v1), (1, vec![ended.clone()]));
        let v2 = snapshot(AutoscalerVersion::V2, &["w", "w", "v"]);
        assert_eq!(endangered(&changes, &v2), (3, vec![ended, above_limit(1, 3, "")]));
    }

    #[test]
    fn an_update_of_running_workers_may_end_all_of_the_autoscaler() {
        let changes = [changed("worker_setup_commands", json!(["x"]), Effect::UpdatesWorkers)];
        let updates = "updates 2 running workers, may restart Ray there, and terminates workers where this fails: \
                       10.0.0.3, 10.0.0.4";
        let v1 = snapshot(AutoscalerVersion::V1, &["w", "v", ""]);
        assert_eq!(endangered(&changes, &v1), (2, vec![format!("the autoscaler {updates}")]));
        let unknown = snapshot(AutoscalerVersion::None, &["w", ""]);
        assert_eq!(
            endangered(&changes, &unknown),
            (2, vec![format!("the autoscaler, if it is v1, {updates}")])
        );
        let timeout = [changed("idle_timeout_minutes", json!(1), Effect::Now)];
        assert_eq!(endangered(&timeout, &v1), (0, Vec::new()));
    }

    #[test]
    fn an_update_without_a_known_head_is_abandoned_before_a_restart() {
        let verbs = |is_google| {
            let problem = unknown_head(&ClusterName::new("lab"), is_google);
            let verb = |fix: &Fix| if let Fix::Action { verb, .. } = fix { Some(*verb) } else { None };
            problem.hint.fixes().iter().map(verb).collect::<Vec<_>>()
        };
        assert_eq!(verbs(false), [Some(Verb::Abandon), None, Some(Verb::Restart)]);
        assert_eq!(verbs(true), [None, Some(Verb::Resume)]);
    }
}
