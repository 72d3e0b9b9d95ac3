//! Runs an order on one cluster: its checks in order, then the steps. The journal is opened and read on threads that
//! may block.

use super::blocking::blocking;
use super::environment::Environment;
use super::event::ServiceEvent;
use super::facts::{Facts, Outcome};
use super::gates;
use super::journal::{Journal, Scope, Unfinished};
use super::journaled::journaled;
use super::lock::{others_lock, remove_lock};
use super::performer::Performer;
use super::preview::{Detail, preview};
use super::update;
use super::worker::{is_gone, offer, owned_resources, warnings};
use crate::model::{
    Changed, ClusterSpec, Consent, JobStatus, NewWorker, Operation, OperationEnd, OperationEvent,
    OperationKind, Order, Preview, Problem, ProblemKind, Progress, Refusal, RefusalReason, StepName, Target,
    Task, Timestamp, Verb, runs_already,
};
use crate::ray::Poller;
use crate::supervisor::{Access, Connection};
use std::sync::Arc;
use tokio::sync::mpsc;

/// How an operator ends a running operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Cancel at a step where that is harmless; ignored at other steps.
    Cancel,
    /// Interrupt at once.
    Interrupt,
}

/// The context of an order on a cluster.
pub(super) struct Request {
    pub spec: ClusterSpec,
    pub connection: Connection,
    pub environment: Arc<Environment>,
    pub events: mpsc::Sender<ServiceEvent>,
}

/// A refusal of an operation of this kind.
type Refused = (OperationKind, Refusal);

impl Request {
    /// How to reach the cluster's machines.
    fn access(&self) -> Access<'_> {
        Access { spec: &self.spec, options: &self.environment.options, connection: &self.connection }
    }

    /// Runs an order and reports a refusal as an event.
    pub async fn run(&self, order: Order, stops: &mut mpsc::UnboundedReceiver<Stop>) {
        let previewed = match &order {
            Order::Preview(task) => Some(task.clone()),
            _ => None,
        };
        let done = match order {
            Order::ListOffers => {
                let (spec, environment) = (self.spec.clone(), Arc::clone(&self.environment));
                let offered = blocking(move || offer(&spec, &environment.options, &environment.state)).await;
                self.report(OperationEvent::Offered(offered)).await;
                Ok(())
            }
            Order::Preview(task) => self.show_preview(task).await,
            Order::Begin(task, consent) => self.begin(task, consent, stops).await,
            Order::Resume(consent) => self.resume(consent, false, stops).await,
            Order::SkipStep(consent) => self.resume(consent, true, stops).await,
            Order::Abandon => self.abandon().await,
            // The service handles these orders itself.
            Order::Cancel | Order::Interrupt => Ok(()),
        };
        if let Err((kind, refusal)) = done {
            self.report(OperationEvent::Refused(kind, previewed, refusal)).await;
        }
    }

    pub(super) async fn report(&self, event: OperationEvent) {
        // The front end may be shutting down.
        let _ = self.events.send(ServiceEvent::Operation(self.spec.name.clone(), Box::new(event))).await;
    }

    /// Writes the audit log. A failure does not undo the action, and is reported.
    pub(super) async fn note(&self, what: String, outcome: String) {
        let (audit, cluster) = (self.environment.audit.clone(), self.spec.name.clone());
        if let Err(e) = blocking(move || audit.note(&cluster, &what, &outcome)).await {
            tracing::error!("cannot write the audit log: {e}");
            let words = format!("cannot write the audit log: {e}");
            self.report(OperationEvent::Progress(Progress::Output(words))).await;
        }
    }

    /// Checks that only need the disk.
    async fn may_begin(&self, task: &Task) -> Result<(), Refused> {
        let kind = task.kind();
        let (environment, spec, task) = (Arc::clone(&self.environment), self.spec.clone(), task.clone());
        let gates = blocking(move || {
            gates::offered(&environment, &spec, &task).map_err(|refusal| Box::new((refusal, None)))?;
            gates::free(&environment, &spec)
        });
        let Err(refused) = gates.await else { return Ok(()) };
        let (refusal, journaled) = *refused;
        if let Some(journaled) = journaled {
            self.report(OperationEvent::Journaled(Some(journaled))).await;
        }
        Err((kind, refusal))
    }

    async fn show_preview(&self, task: Task) -> Result<(), Refused> {
        self.may_begin(&task).await?;
        if task == Task::Start {
            self.is_down().await.map_err(|refusal| (OperationKind::Start, refusal))?;
        }
        let lock = others_lock(self.access(), &Facts::default()).await;
        self.report(OperationEvent::Locked(lock)).await;
        let mut seen = self.seen_or_refused(&task, Detail::Whole).await?;
        let (spec, wanted) = (self.spec.clone(), task.clone());
        seen.warnings.extend(blocking(move || warnings(&spec, &wanted)).await);
        for worker in task.removal().map_or(&[][..], |(workers, _)| workers) {
            seen.owned_resources.extend(owned_resources(&self.spec, &self.environment.options, worker).await);
        }
        self.report(OperationEvent::Previewed(task, seen)).await;
        Ok(())
    }

    /// Refuses to start a cluster that responds.
    async fn is_down(&self) -> Result<(), Refusal> {
        let Ok(channel) = self.connection.channel().await else { return Ok(()) };
        let Ok(seen) = Poller::new(channel.client).refresh().await else { return Ok(()) };
        let open = seen.jobs.iter().filter(|j| !JobStatus::is_ended(j.status)).count();
        let what = format!("{}: {}", self.spec.name, runs_already(open));
        Err(Refusal::new(RefusalReason::AlreadyRunning, super::failure(what, "nothing to start")))
    }

    /// The preview of affected jobs. If the cluster does not respond, the preview says so; an error means that the
    /// check itself failed.
    async fn seen(&self, task: &Task, detail: Detail) -> Result<Preview, Problem> {
        let me = self.environment.me.clone();
        if !task.kind().may_end_jobs() {
            return Ok(Preview { me, ..Preview::default() });
        }
        match self.connection.channel().await {
            Ok(channel) if *task == Task::Update => {
                Box::pin(update::seen(self.access(), &channel.client, &me)).await
            }
            // The hint of a head that is not found suggests a start itself.
            Err(problem) if *task == Task::Update && problem.kind != ProblemKind::Address => {
                Err(Problem { hint: problem.hint.and(Verb::Start.to("if it is down, start it")), ..problem })
            }
            Err(problem) if *task == Task::Update => Err(problem),
            Ok(channel) => {
                let cluster = (&self.spec, &self.environment.options);
                Box::pin(preview(&channel.client, cluster, &me, task, detail)).await
            }
            Err(problem) => Ok(Preview::unknown(&self.environment.me, problem)),
        }
    }

    /// The preview right before an operation starts. An unknown worker is always refused. A Ray that does not respond
    /// is not, because it may be the reason for the restart.
    async fn seen_or_refused(&self, task: &Task, detail: Detail) -> Result<Preview, Refused> {
        match self.seen(task, detail).await {
            Err(problem) if !task.kind().takes_down() => {
                Err((task.kind(), Refusal::new(RefusalReason::NotChecked, problem)))
            }
            seen => Ok(seen.unwrap_or_else(|problem| Preview::unknown(&self.environment.me, problem))),
        }
    }

    async fn begin(
        &self,
        task: Task,
        consent: Consent,
        stops: &mut mpsc::UnboundedReceiver<Stop>,
    ) -> Result<(), Refused> {
        let kind = task.kind();
        let refused = |refusal: Refusal| (kind, refusal);
        let operation = Operation::new(task.clone(), self.spec.name.clone());
        gates::read_only(&self.environment, kind).map_err(refused)?;
        self.may_begin(&task).await?;
        // Jobs may have been submitted since the preview.
        let seen = self.seen_or_refused(&task, Detail::Owners).await?;
        let order = |consent| Order::Begin(task.clone(), consent);
        gates::applicable(&operation, &seen).map_err(refused)?;
        gates::jobs(&operation, &consent, &seen, order).map_err(refused)?;
        gates::confirmed(&operation, &consent).map_err(refused)?;
        // The last check, because the lock is placed right after it. The performer finds a lock that another operator
        // places in the meantime.
        let none = Facts::default();
        let order = |consent| Order::Begin(task.clone(), consent);
        let take_over = gates::unlocked(self.access(), &none, &consent, order).await;
        let take_over = take_over.map_err(refused)?;
        // The journal names the people whose jobs were allowed when the operation was started, individually or all at
        // once.
        let (spec, now) = (self.spec.clone(), consent.now);
        let (others, state) = (seen.others(), self.environment.state.clone());
        let mut consent = consent;
        consent.others.extend(others.clone());
        let journal = blocking(move || {
            let mut journal = Journal::open(&state, &spec.name)?;
            if journal.unfinished().is_some() {
                // An operation was started since the checks.
                return Ok::<_, Refusal>(Err(journaled(&state, &spec.name)?));
            }
            journal.begin(&task, &Scope { others, now, ..Scope::of(&spec) })?;
            Ok(Ok(journal))
        });
        let journal = match journal.await.map_err(refused)? {
            Ok(journal) => journal,
            Err(found) => {
                let refusal =
                    found.map_or_else(|| gates::nothing_to_resume(&self.spec), |s| gates::interrupted(&s));
                return Err((kind, refusal));
            }
        };
        // Recorded before the first change, so that an interrupted operation is in the audit log.
        self.note(operation.audit_label(), "begun".to_owned()).await;
        self.work(operation, journal, (None, take_over), &consent, stops).await;
        Ok(())
    }

    async fn resume(
        &self,
        consent: Consent,
        skips: bool,
        stops: &mut mpsc::UnboundedReceiver<Stop>,
    ) -> Result<(), Refused> {
        let expected_kind = consent.expected_kind.unwrap_or(OperationKind::Restart);
        gates::read_only(&self.environment, expected_kind).map_err(|refusal| (expected_kind, refusal))?;
        let (state, name) = (self.environment.state.clone(), self.spec.name.clone());
        let opened = blocking(move || Journal::open(&state, &name)).await;
        let journal = opened.map_err(|e| (expected_kind, e.into()))?;
        let Some(mut unfinished) = journal.unfinished().cloned() else {
            self.report(OperationEvent::Journaled(None)).await;
            return Err((expected_kind, gates::nothing_to_resume(&self.spec)));
        };
        let kind = unfinished.task.kind();
        let refused = |refusal: Refusal| (kind, refusal);
        gates::is_expected(&unfinished, &self.spec, &consent).map_err(refused)?;
        if skips {
            gates::skippable(&unfinished, &self.spec).map_err(refused)?;
        }
        let operation = unfinished.operation(&self.spec.name);
        if unfinished.asks_first() {
            self.still_allowed(&unfinished, &consent, skips).await.map_err(refused)?;
        }
        let order = if skips { Order::SkipStep } else { Order::Resume };
        let facts = &unfinished.facts;
        let take_over = gates::unlocked(self.access(), facts, &consent, order).await;
        let take_over = take_over.map_err(refused)?;
        if let Some(step) = unfinished.next().filter(|_| skips) {
            let passed = journal.write_with(move |j| j.skip(step)).await;
            passed.map_err(|e| refused(e.into()))?;
            unfinished.record_skipped(step);
        }
        self.work(operation, journal, (Some(unfinished), take_over), &consent, stops).await;
        Ok(())
    }

    /// Checks affected jobs again on a resume, if nothing was changed yet: other people may have submitted jobs since.
    async fn still_allowed(
        &self,
        unfinished: &Unfinished,
        consent: &Consent,
        skips: bool,
    ) -> Result<(), Refusal> {
        let operation = unfinished.operation(&self.spec.name);
        let stopping = unfinished.facts.stopping;
        let seen = match self.seen(&unfinished.task, Detail::Owners).await {
            // The stop has failed halfway, and Ray no longer responds.
            Ok(Preview { problem: Some(_), .. }) | Err(_) if stopping => return Ok(()),
            Ok(seen) => seen,
            Err(problem) => {
                let cluster = (&self.spec, &self.environment.options);
                // The steps of a worker detect that it is gone.
                if !unfinished.task.kind().is_of_cluster() && is_gone(cluster, &unfinished.task).await {
                    return Ok(());
                }
                Preview::unknown(&self.environment.me, problem)
            }
        };
        let allowed = unfinished.scope.allowed(consent);
        gates::jobs(&operation, &allowed, &seen, if skips { Order::SkipStep } else { Order::Resume })
    }

    async fn abandon(&self) -> Result<(), Refused> {
        let (state, name) = (self.environment.state.clone(), self.spec.name.clone());
        let opened = blocking(move || Journal::open(&state, &name)).await;
        let journal = opened.map_err(|e| (OperationKind::Restart, e.into()))?;
        match journal.unfinished() {
            Some(unfinished) => {
                let kind = unfinished.task.kind();
                gates::read_only(&self.environment, kind).map_err(|refusal| (kind, refusal))?;
                if let Err(p) = remove_lock(self.access(), &unfinished.facts).await {
                    let words = p.in_commands(Target::of(&self.spec.name));
                    self.report(OperationEvent::Progress(Progress::Output(words))).await;
                }
                journal.write_with(|j| j.end("abandoned")).await.map_err(|e| (kind, e.into()))?;
                let operation = unfinished.operation(&self.spec.name);
                drop(journal);
                self.note(operation.audit_label(), "abandoned".to_owned()).await;
            }
            None => self.report(OperationEvent::Journaled(None)).await,
        }
        self.report(OperationEvent::Ended(OperationEnd::Abandoned)).await;
        Ok(())
    }

    /// Runs the steps and reports their results.
    async fn work(
        &self,
        mut operation: Operation,
        journal: Journal,
        before: (Option<Unfinished>, Option<String>),
        consent: &Consent,
        stops: &mut mpsc::UnboundedReceiver<Stop>,
    ) {
        if consent.no_wait && matches!(operation.task, Task::AddWorker(NewWorker::Queued { .. })) {
            // Google processes the request without us.
            operation.steps.retain(|s| *s == StepName::RequestTpus);
        }
        self.report(OperationEvent::Began(operation.clone())).await;
        let (end, changed) = self.steps(&operation, &journal, before, consent, stops).await;
        // The receiver of the end may start the next operation at once, which needs the journal's lock.
        drop(journal);
        let outcome = match &end {
            OperationEnd::Done => {
                let shortfall = changed.shortfall(&self.spec.name, Timestamp::now());
                shortfall.map_or_else(|| "done".to_owned(), |missing| format!("done; {}", missing.what))
            }
            OperationEnd::Cancelled(left) => format!("cancelled; {}", left.text()),
            OperationEnd::Abandoned => "abandoned".to_owned(),
            OperationEnd::Stopped(problem, _) => format!("stopped: {}", problem.what),
        };
        self.note(operation.audit_label(), outcome).await;
        self.report(OperationEvent::Changed(changed)).await;
        self.report(OperationEvent::Ended(end)).await;
    }

    /// The performer of a task, over the cluster's own connection.
    pub fn performer(&self, task: &Task, facts: Facts) -> Performer {
        let cluster = (self.spec.clone(), self.connection.clone());
        let (options, state) = (self.environment.options.clone(), self.environment.state.clone());
        Performer::new(cluster, options, state, task.clone(), facts)
    }

    async fn steps(
        &self,
        operation: &Operation,
        journal: &Journal,
        (unfinished, take_over): (Option<Unfinished>, Option<String>),
        consent: &Consent,
        stops: &mut mpsc::UnboundedReceiver<Stop>,
    ) -> (OperationEnd, Changed) {
        let allowed = unfinished.as_ref().map_or_else(|| consent.clone(), |u| u.scope.allowed(consent));
        let done = unfinished.as_ref().map(|u| u.done.clone()).unwrap_or_default();
        let facts = unfinished.map(|u| u.facts).unwrap_or_default();
        let mut performer = self.performer(&operation.task, facts);
        performer.take_over = take_over;
        performer.consent = allowed;
        performer.operator.clone_from(&self.environment.me);
        let (cancel, mut cancels) = mpsc::unbounded_channel();
        // The performer and this loop run in the same task, so an order that is not received yet is not being processed
        // either.
        let (progress, mut received) = mpsc::unbounded_channel();
        let mut at = None;
        let ended = {
            // Boxed, because a future that queries Google and Ray at once is large.
            let mut running = Box::pin(performer.run(operation, journal, &done, &progress, &mut cancels));
            loop {
                tokio::select! {
                    biased;
                    Some(progress) = received.recv() => {
                        if let Progress::Began(step) = progress {
                            at = Some(step);
                        }
                        self.report(OperationEvent::Progress(progress)).await;
                    }
                    Some(stop) = stops.recv() => match stop {
                        // The performer is still running.
                        Stop::Cancel => drop(cancel.send(())),
                        Stop::Interrupt => break None,
                    },
                    ended = &mut running => break Some(ended),
                }
            }
        };
        while let Ok(progress) = received.try_recv() {
            self.report(OperationEvent::Progress(progress)).await;
        }
        let workers = performer.facts.worker.machines.iter();
        let workers = workers.map(|m| (m.name().to_owned(), m.hosts.clone())).collect();
        let not_restored = performer.facts.not_restored.clone();
        let changed = Changed { workers, saved: performer.facts.saved(), not_restored };
        let end = match ended {
            Some(Ok(Outcome::Done)) => OperationEnd::Done,
            Some(Ok(Outcome::Cancelled(left))) => OperationEnd::Cancelled(left),
            Some(Err(problem)) => OperationEnd::Stopped(problem, changed.saved.clone()),
            None => {
                performer.interrupted(operation, at, &done).await;
                interrupted_at(operation, at, &done, journal, changed.saved.clone()).await
            }
        };
        (end, changed)
    }
}

/// Records an interruption in the journal. If nothing was changed yet, or the change completes without us, the
/// operation counts as cancelled and cannot be resumed.
async fn interrupted_at(
    operation: &Operation,
    at: Option<StepName>,
    done: &[(StepName, String)],
    journal: &Journal,
    saved: Option<String>,
) -> OperationEnd {
    let step = at.or_else(|| operation.steps.first().copied()).unwrap_or(StepName::Check);
    if let Some(left) = operation.cancelled_again(step, done) {
        return match journal.write_with(move |j| j.cancelled(left)).await {
            Ok(()) => OperationEnd::Cancelled(left),
            Err(e) => OperationEnd::Stopped(e.into(), saved),
        };
    }
    let why = format!("interrupted at {}", operation.position(step));
    let hint = super::resume_or_abandon(operation.kind());
    let written = why.clone();
    let problem = match journal.write_with(move |j| j.failed(step, &written)).await {
        Ok(()) => super::failure(why, hint),
        Err(e) => e.into(),
    };
    OperationEnd::Stopped(Problem { since: Timestamp::now(), ..problem }, saved)
}
