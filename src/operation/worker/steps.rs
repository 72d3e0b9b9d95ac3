//! The steps of operations on workers. Each checks for its effect first, so that repeating it changes nothing.

use super::super::executor::{Executor, NOT_AWAITED};
use super::super::facts::Facts;
use super::super::host::Host;
use super::super::journal::Journal;
use super::super::performer::Performer;
use super::super::{begin_again, failure, then_resume};
use super::joined::{Watch, alive, alive_at, head_of, missing};
use super::machine::{self, Machine, MachineVm};
use super::request::Request;
use super::{WorkerFacts, follow, offer, planned, request};
use crate::gcp::{Change, GcpError, PartKind};
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::{
    Death, Fix, Hint, NewWorker, Node, NodeId, Problem, Progress, Snapshot, StepName, Target, Task,
    Timestamp, Verb,
};
use crate::ray::Drain;
use crate::supervisor;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use std::time::Duration;
use tokio::sync::mpsc;

/// Time limit for Ray to report a node dead, which it does after several missed heartbeats.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of hosts on which the startup script is stopped at the same time.
const AT_ONCE: usize = 16;

/// The warning when the startup script of a TPU that is drained cannot be stopped.
const SCRIPT_KEPT: &str =
    "cannot stop the startup script, so Ray may be started again there once it is drained";

/// The warning for a TPU when the cluster file has `file_mounts`.
const NO_FILES: &str = "file_mounts of the cluster file are not copied to TPUs; only `ray up` copies them";

/// Sends lines of progress.
pub(in super::super) struct StepProgress<'a>(pub &'a mpsc::UnboundedSender<Progress>);

impl StepProgress<'_> {
    pub(super) fn report(&self, words: impl Into<String>) {
        // The receiver may have been dropped.
        drop(self.0.send(Progress::Output(words.into())));
    }
}

impl Performer {
    /// Runs one step of a worker operation. Boxed like every step (`Performer::step`).
    pub(in super::super) fn worker_step<'a>(
        &'a mut self,
        step: StepName,
        journal: &'a Journal,
        progress: &'a mpsc::UnboundedSender<Progress>,
    ) -> BoxFuture<'a, Result<String, Problem>> {
        self.run_worker_step(step, journal, progress).boxed()
    }

    async fn run_worker_step(
        &mut self,
        step: StepName,
        journal: &Journal,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<String, Problem> {
        let progress = StepProgress(progress);
        match step {
            StepName::Find => self.find(journal, &progress).await,
            StepName::RequestTpus => self.request_tpus(journal, &progress).await,
            StepName::Capacity => self.capacity(journal, &progress).await,
            StepName::StartRay => self.start_ray(&progress).await,
            StepName::Join => self.join(&progress).await,
            StepName::Drain => self.drain(async |facts| journal.keep(facts).await, &progress).await,
            StepName::Remove => self.remove(&progress).await,
            StepName::WaitUntilGone => self.wait_until_gone(&progress).await,
            _ => Err(failure(format!("`{}` is not a step of a worker operation", step.label()), "")),
        }
    }

    /// The existing worker, as the operator named it.
    fn named_worker(&self) -> Result<&str, Problem> {
        match &self.task {
            Task::AddWorker(NewWorker::Host { address: worker })
            | Task::InitWorker { worker }
            | Task::RemoveWorker { worker, .. } => Ok(worker),
            _ => Err(failure("no worker given", "start the operation again")),
        }
    }

    /// The worker recorded in the journal.
    fn machine(&self) -> Result<&Machine, Problem> {
        let first = self.facts.worker.machines.first();
        first.ok_or_else(|| failure("the journal does not identify the worker", begin_again()))
    }

    /// The name given by Google or the operator; empty if unknown.
    pub(super) fn first_name(&self) -> &str {
        self.facts.worker.machines.first().map_or("", Machine::name)
    }

    fn name(&self) -> String {
        printable(self.machine().map_or("it", Machine::name)).into_owned()
    }

    /// Saves the added worker as the default of the next form, except in a dry run.
    fn remember(&self, wanted: &NewWorker) {
        if !self.executor.is_recording() {
            offer::remember(&self.state, &self.spec.name, wanted);
        }
    }

    fn removes(&self) -> bool {
        matches!(self.task, Task::RemoveWorker { .. })
    }

    fn drains(&self) -> bool {
        matches!(self.task, Task::RemoveWorker { drain: Some(_), .. })
    }

    async fn find(&mut self, journal: &Journal, progress: &StepProgress<'_>) -> Result<String, Problem> {
        let named_worker = self.named_worker()?.to_owned();
        let is_known = !self.facts.worker.machines.is_empty();
        let Some(machine) = planned::find(&self.spec, &self.options, &named_worker, self.removes()).await?
        else {
            // An earlier attempt found it, and it is gone since.
            if self.removes() && is_known {
                return Ok(format!("{} is already gone", self.name()));
            }
            return Err(planned::unknown(&self.spec, &named_worker));
        };
        let starts_vm = matches!(self.task, Task::InitWorker { .. }) && self.is_google();
        if starts_vm && machine.vm.is_none() {
            return Err(planned::no_vm(&machine));
        }
        let before = self.nodes_of(&machine, progress).await?;
        let living = before.as_ref().map_or(0, Vec::len);
        let shown = printable(machine.name()).into_owned();
        if living == 0 && self.removes() && !machine.is_google() && !is_known {
            let what = format!("Ray has no live node at {shown}");
            return Err(failure(what, Verb::Nodes.to("see the live nodes")));
        }
        if living > 0 && matches!(self.task, Task::AddWorker(_)) {
            let what = format!("Ray already has a live node at {shown}");
            return Err(failure(
                what,
                abandon_then(Verb::InitWorker.on(machine.name(), "then restart Ray there")),
            ));
        }
        if let Task::AddWorker(wanted) = &self.task {
            self.remember(wanted);
        }
        let summary = match (&machine.queued, &machine.vm) {
            (Some(queued), None) => format!("queued resource {} without a TPU VM", printable(queued)),
            (_, Some(vm)) if machine.vms.len() < 2 => {
                format!(
                    "{} {}: {} hosts, {living} in Ray",
                    machine.kind(),
                    printable(vm),
                    machine.hosts.len()
                )
            }
            (queued, Some(_)) => {
                let (n, hosts) = (machine.vms.len(), machine.hosts.len());
                let name = printable(queued.as_deref().unwrap_or_default());
                format!("queued resource {name}: {n} TPU VMs with {hosts} hosts, {living} in Ray")
            }
            (None, None) => format!("{shown}: {living} in Ray"),
        };
        self.facts.worker = WorkerFacts { machines: vec![machine], before, ..WorkerFacts::default() };
        self.keep_facts(journal).await?;
        Ok(summary)
    }

    /// Ids of the alive nodes there. `None` if Ray does not respond and that does not matter: a preempted TPU is
    /// removed anyway.
    async fn nodes_of(
        &self,
        machine: &Machine,
        progress: &StepProgress<'_>,
    ) -> Result<Option<Vec<String>>, Problem> {
        let seen = async { Watch::open(self).await?.refresh().await };
        let seen = match seen.await {
            Ok(seen) => seen,
            Err(p) if machine.is_google() && self.removes() && !self.drains() => {
                progress.report(format!("cannot determine affected jobs: {}", p.what));
                return Ok(None);
            }
            Err(problem) => return Err(problem),
        };
        planned::check_address(&self.spec, &seen, &self.task).await.map_err(abandon_first)?;
        let nodes = alive(&seen, &machine.hosts)?;
        Ok(Some(nodes.iter().map(|n| n.id.to_string()).collect()))
    }

    async fn request_tpus(
        &mut self,
        journal: &Journal,
        progress: &StepProgress<'_>,
    ) -> Result<String, Problem> {
        let Task::AddWorker(wanted) = &self.task.clone() else {
            return Err(failure("nothing to request", "start the operation again"));
        };
        let requests = planned::requests(&self.spec, &self.options, wanted)?;
        self.remember(wanted);
        if !super::launch::read(&self.spec)?.file_mounts.is_empty() {
            progress.report(NO_FILES);
        }
        let location = supervisor::tpu_location(&self.spec)?;
        for request in &requests {
            let is_new = match request {
                Request::Queued(queued) => {
                    request::ask(&self.executor, &self.options.google, &location, queued).await?
                }
                Request::Compute(compute) => {
                    self.create_worker(compute, &location, journal, progress).await?
                }
            };
            let word = if is_new {
                "Google accepted the request"
            } else {
                "already requested from Google; waiting for it"
            };
            progress.report(format!("{}: {word}", request.name()));
        }
        Ok(match requests.len() {
            1 => "Google accepted the request".to_owned(),
            n => format!("Google accepted {n} requests"),
        })
    }

    async fn capacity(&mut self, journal: &Journal, progress: &StepProgress<'_>) -> Result<String, Problem> {
        let Task::AddWorker(NewWorker::Queued { names, .. }) = &self.task else {
            return Err(failure("nothing was requested", "start the operation again"));
        };
        let location = supervisor::tpu_location(&self.spec)?;
        if self.executor.is_recording() {
            return Ok(NOT_AWAITED.to_owned());
        }
        progress.report("this may take a long time; if cancelled, the request remains in Google Cloud");
        let google = &self.options.google;
        let machines = follow::follow(google, &location, names, |word| progress.report(word)).await?;
        let hosts: usize = machines.iter().map(|m| m.hosts.len()).sum();
        let summary = format!("{} with {} up", counted(machines.len(), "TPU VM"), counted(hosts, "host"));
        self.facts.worker.machines = machines;
        self.keep_facts(journal).await?;
        Ok(summary)
    }

    async fn start_ray(&self, progress: &StepProgress<'_>) -> Result<String, Problem> {
        let machine = self.machine()?;
        let mut watch = Watch::open(self).await?;
        self.launch_on(machine, &mut watch, progress).await
    }

    async fn launch_on(
        &self,
        machine: &Machine,
        watch: &mut Watch<'_>,
        progress: &StepProgress<'_>,
    ) -> Result<String, Problem> {
        let snapshot = watch.refresh().await?;
        let head = head_of(&snapshot)?;
        let launcher = self.launcher().await?;
        if let Some(vm) = &machine.vm {
            if launcher.has_file_mounts() {
                progress.report(NO_FILES);
            }
            progress.report(if launcher.prepare(vm).await? {
                "startup script saved in the metadata for the next boot"
            } else {
                "the startup script of an instance is not updated; run init-worker again after its next boot"
            });
        }
        // Nodes that an interrupted attempt started are in Ray by now.
        let before = self.before();
        let hosts = missing(&snapshot, &machine.hosts, &before);
        let token = watch.session().and_then(|s| s.token.clone());
        for host in &hosts {
            if !machine.is_google() {
                self.is_at_no_other_address(host, &snapshot).await?;
            }
            progress.report(format!("starting Ray on {}", printable(host)));
            launcher.start(host, &head, token.as_ref()).await?;
        }
        Ok(match (hosts.len(), machine.hosts.len()) {
            (0, _) => "already running".to_owned(),
            (1, 1) => format!("started on {}", printable(hosts[0])),
            (n, all) => format!("started on {n} of {all} hosts"),
        })
    }

    /// An error if a host of a local cluster is in Ray with another of its addresses, and is the head or another
    /// worker: starting Ray there would end work that was not checked.
    async fn is_at_no_other_address(&self, host: &str, snapshot: &Snapshot) -> Result<(), Problem> {
        if !alive(snapshot, &[host.to_owned()])?.is_empty() {
            return Ok(());
        }
        let to = supervisor::find_host(&self.spec, &self.options, host, |_| ()).await?;
        let (spec, options, executor) = (&self.spec, &self.options, &self.executor);
        let addresses = Host { spec, options, executor, to }.addresses().await?;
        let Some(node) = alive_at(snapshot, &addresses) else { return Ok(()) };
        let (shown, address) = (printable(host), &node.address);
        if node.is_head {
            let what = format!("{shown} is the head ({address}), not a worker");
            return Err(failure(what, Verb::Abandon.to("abandon this operation")));
        }
        let what = format!("{shown} is another address of {address}, where Ray already has a live node");
        Err(failure(what, abandon_then(Verb::InitWorker.on(address.raw(), "then restart Ray there"))))
    }

    fn before(&self) -> Vec<NodeId> {
        self.facts.worker.before.iter().flatten().filter_map(|id| NodeId::from_hex(id)).collect()
    }

    async fn join(&self, progress: &StepProgress<'_>) -> Result<String, Problem> {
        if self.executor.is_recording() {
            return Ok(NOT_AWAITED.to_owned());
        }
        let hosts = self.facts.worker.hosts();
        if hosts.is_empty() {
            return Err(failure("the journal does not name a host", begin_again()));
        }
        let mut watch = Watch::open(self).await?;
        let joined = watch.joined(&hosts, &self.before(), |words| progress.report(words)).await;
        joined?;
        Ok(match hosts.len() {
            1 => format!("{} has joined Ray", self.name()),
            n => format!("{n} hosts have joined Ray"),
        })
    }

    /// Drains the worker; `keep` stores the facts once Ray has accepted.
    pub(in super::super) async fn drain(
        &mut self,
        keep: impl AsyncFnOnce(&Facts) -> Result<(), Problem>,
        progress: &StepProgress<'_>,
    ) -> Result<String, Problem> {
        let Task::RemoveWorker { drain: Some(within), .. } = self.task else {
            return Err(failure("nothing to drain", "start the operation again"));
        };
        if let Draining::Over(summary) = self.begin_drain(within, progress).await? {
            return Ok(summary);
        }
        keep(&self.facts).await?;
        self.drained(progress).await
    }

    /// Asks Ray to drain the worker's nodes, and sets the deadline once Ray has accepted: a drain that was never
    /// requested has none. A resumed drain keeps its deadline.
    async fn begin_drain(&mut self, within: u64, progress: &StepProgress<'_>) -> Result<Draining, Problem> {
        let now = Timestamp::now().as_millis();
        let millis = i64::try_from(within.saturating_mul(1000)).unwrap_or(i64::MAX);
        let until = self.facts.worker.drained_by.unwrap_or(now.saturating_add(millis));
        let mut watch = Watch::open(self).await?;
        let mut nodes = alive(&watch.refresh().await?, &self.machine()?.hosts)?;
        // A node that has joined since then was not confirmed; the next step refuses to remove it.
        let before = self.before();
        nodes.retain(|node| before.contains(&node.id));
        if nodes.is_empty() {
            return Ok(Draining::Over("nothing is running there".to_owned()));
        }
        if until <= now {
            return Ok(Draining::Over(still_running(nodes.iter().map(|node| node.address.raw()))));
        }
        // Boxed, because a future that queries Google is large.
        Box::pin(self.stop_startup_scripts(progress)).await?;
        request_drain(&self.executor, &watch, &nodes, Timestamp::from_millis(until), progress).await?;
        self.facts.worker.drained_by = Some(until);
        if self.executor.is_recording() {
            return Ok(Draining::Over(NOT_AWAITED.to_owned()));
        }
        Ok(Draining::Accepted)
    }

    /// Stops the startup script on the hosts of a TPU, which would start Ray again where a drained node has ended. A
    /// failure is only reported.
    async fn stop_startup_scripts(&self, progress: &StepProgress<'_>) -> Result<(), Problem> {
        let machine = self.machine()?;
        if !machine.is_google() {
            return Ok(());
        }
        let launcher = match self.launcher().await {
            Ok(launcher) => launcher,
            Err(p) => {
                progress.report(format!("{SCRIPT_KEPT}: {}", p.what));
                return Ok(());
            }
        };
        let launcher = &launcher;
        let one = |host| async move { (host, launcher.stop_script(host).await) };
        let each: Vec<_> = machine.hosts.iter().map(String::as_str).map(one).collect();
        let done: Vec<(&str, Result<bool, Problem>)> = stream::iter(each).buffered(AT_ONCE).collect().await;
        let mut number = 0;
        for (host, stopped) in done {
            match stopped {
                Ok(ran) => number += usize::from(ran),
                Err(p) => progress.report(format!("{}: {SCRIPT_KEPT}: {}", printable(host), p.what)),
            }
        }
        if number > 0 {
            let target = Target::of(&self.spec.name);
            // `init-worker` restarts one TPU VM.
            let restart = |vm: &MachineVm| Verb::InitWorker.on(&vm.name, "").in_commands(target);
            let again: Vec<String> = machine.vms.iter().map(restart).collect();
            progress.report(format!(
                "startup script stopped on {}, so that Ray is not started there again once it is drained; to start \
                 both again, {}",
                counted(number, "host"),
                again.join("; ")
            ));
        }
        Ok(())
    }

    /// Waits until the drained nodes have ended, at most until the deadline. Nodes that have joined at their addresses
    /// since then do not count.
    async fn drained(&self, progress: &StepProgress<'_>) -> Result<String, Problem> {
        let until = self.facts.worker.drained_by.unwrap_or_default();
        let left = until.saturating_sub(Timestamp::now().as_millis());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        progress.report(format!("waiting up to {} s for running work to end", left.as_secs()));
        let mut watch = Watch::open(self).await?;
        let still = watch.wait_until_dead(&self.before(), left).await?;
        Ok(if still.is_empty() {
            "running work has ended".to_owned()
        } else {
            still_running(still.iter().map(String::as_str))
        })
    }

    async fn remove(&self, progress: &StepProgress<'_>) -> Result<String, Problem> {
        let machine = self.machine()?;
        self.still_the_same(machine, progress).await?;
        if machine.is_google() {
            progress.report("deleting in Google Cloud; a large slice takes several minutes");
            let location = supervisor::tpu_location(&self.spec)?;
            let google = &self.options.google;
            // The resources that the group names are only known while it exists.
            let made = machine::created_for(google, &location, machine).await;
            machine::delete(&self.executor, google, &location, machine).await?;
            match made {
                Ok(made) => self.remove_made(made, progress).await,
                Err(e) => {
                    progress.report(format!("its instance template and workload policy may remain: {e}"));
                }
            }
            return Ok(format!("{} was deleted from Google Cloud", self.name()));
        }
        for host in &machine.hosts {
            progress.report(format!("stopping Ray on {}", printable(host)));
            let to = supervisor::find_host(&self.spec, &self.options, host, |_| ()).await?;
            let (spec, options, executor) = (&self.spec, &self.options, &self.executor);
            let stopped = Host { spec, options, executor, to }.stop_ray().await;
            if let Err(problem) = stopped {
                // A host that is gone has no Ray to stop; Ray must list no live node there.
                if !self.still_there(std::slice::from_ref(host)).await?.is_empty() {
                    return Err(problem);
                }
                progress.report(format!("{}; Ray has no live node there", problem.what));
            }
        }
        Ok(format!("Ray stopped on {}", self.name()))
    }

    /// Deletes what was created for an instance group that is gone. A failure is only reported: these resources cost
    /// nothing, and the next worker of that name uses them.
    async fn remove_made(&self, made: Vec<(PartKind, Change)>, progress: &StepProgress<'_>) {
        for (kind, deletion) in made {
            match self.executor.google(&self.options.google, &deletion, None).await {
                Ok(()) => progress.report(format!("{} {} removed", kind.label(), self.name())),
                Err(GcpError::NotFound { .. }) => {}
                Err(e) => progress.report(format!("{} {} was not deleted: {e}", kind.label(), self.name())),
            }
        }
    }

    /// An error if these hosts have an alive node other than those found: Ray was restarted there since, for other
    /// work.
    async fn still_the_same(&self, machine: &Machine, progress: &StepProgress<'_>) -> Result<(), Problem> {
        // Ray did not respond when the worker was looked up.
        if machine.is_google() && self.facts.worker.before.is_none() {
            return Ok(());
        }
        let before = self.before();
        let mut watch = match Watch::open(self).await {
            Ok(watch) => watch,
            Err(problem) if machine.is_google() && !self.drains() => {
                progress.report(format!("cannot check what runs there: {}", problem.what));
                return Ok(());
            }
            Err(problem) => return Err(problem),
        };
        let seen = watch.refresh().await;
        let nodes = alive(&seen?, &machine.hosts)?;
        let Some(new) = nodes.iter().find(|node| !before.contains(&node.id)) else { return Ok(()) };
        let what = format!("another node has since joined Ray at {} ({})", new.address, new.id);
        Err(failure(what, Hint::from("ask who started it; to remove it too:").and(begin_again())))
    }

    async fn still_there(&self, hosts: &[String]) -> Result<Vec<String>, Problem> {
        let mut watch = Watch::open(self).await?;
        watch.wait_until_gone(hosts, Duration::ZERO).await
    }

    async fn wait_until_gone(&self, progress: &StepProgress<'_>) -> Result<String, Problem> {
        if self.executor.is_recording() {
            return Ok(NOT_AWAITED.to_owned());
        }
        let (machine, name) = (self.machine()?, self.name());
        if machine.hosts.is_empty() {
            return Ok(format!("{name} was deleted; it had no hosts"));
        }
        let mut watch = match Watch::open(self).await {
            Ok(watch) => watch,
            // Ray did not respond when the worker was looked up either.
            Err(problem) if self.facts.worker.before.is_none() => {
                return Ok(format!(
                    "{name} was deleted from Google Cloud; cannot query Ray: {}",
                    problem.what
                ));
            }
            Err(problem) => return Err(problem),
        };
        progress.report("waiting for Ray to report it dead");
        let still = watch.wait_until_gone(&machine.hosts, LEAVE_TIMEOUT).await;
        match still?.as_slice() {
            [] => Ok(format!("{name} is gone")),
            still => {
                let what = format!("removed, but Ray still has a live node at {}", still.join(", "));
                Err(failure(
                    what,
                    then_resume(Verb::Ssh.on(still.first().map_or("", String::as_str), "log in to check")),
                ))
            }
        }
    }
}

fn abandon_then(then: Fix) -> Hint {
    Hint::from([Verb::Abandon.to("abandon this operation"), then])
}

/// A problem that cannot be solved while this operation is interrupted.
fn abandon_first(problem: Problem) -> Problem {
    let hint = Hint::from(Verb::Abandon.to("abandon this operation")).and(problem.hint);
    Problem { hint, ..problem }
}

/// The result of a request to drain a worker.
enum Draining {
    /// Ray drains it, and ends its nodes once they are idle.
    Accepted,
    /// There is nothing to wait for, for this reason.
    Over(String),
}

fn still_running<'a>(addresses: impl Iterator<Item = &'a str>) -> String {
    format!("still running on {}; ending it now", addresses.collect::<Vec<_>>().join(", "))
}

/// Asks Ray to schedule no new work there; Ray ends a drained node once it is idle.
async fn request_drain(
    executor: &Executor,
    watch: &Watch<'_>,
    nodes: &[Node],
    deadline: Timestamp,
    progress: &StepProgress<'_>,
) -> Result<(), Problem> {
    let Some(session) = watch.session() else {
        return Err(failure("Ray was not queried", Verb::Resume.to("resume")));
    };
    for node in nodes {
        let drain = Drain { node: node.id, why: Death::REMOVED.to_owned(), deadline };
        let answer = executor.drain(&session.client, &drain).await;
        match answer.map_err(|e| e.problem(Timestamp::now()))? {
            Ok(()) => progress.report(format!("{}: draining", node.address)),
            Err(why) => {
                let what = format!("Ray refused to drain {}: {why}", node.address);
                return Err(failure(
                    what,
                    abandon_then(Verb::RemoveNow.on(node.address.raw(), "then remove it immediately")),
                ));
            }
        }
    }
    Ok(())
}
