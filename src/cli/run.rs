//! Runs any operation from a shell: shows its steps and the affected jobs, asks for confirmation, runs it, and resumes
//! an interrupted one.

mod print;

use super::changes;
use super::reach::{Progress as CommandProgress, Reach, confirm};
use crate::model::{
    Changed, Confirmation, Confirmed, Consent, Drift, Hint, JournaledOperation, NewWorker, Operation,
    OperationEnd, OperationEvent, OperationKind, OperationLock, Order, Preview, Problem, Progress, Refusal,
    RefusalReason, StepName, TakeOver, Target, Task, Timestamp, Verb,
};
use crate::operation::{Journals, Operations, ServiceEvent, is_kind, nothing_to_resume};
use crate::supervisor::{self, Connection, ConnectionState};
use crate::ui::capitalized;
use clap::Args;
use print::{
    awaiting_restart, print_affected, print_calls, print_rows, print_steps, show, stopped, what_stays,
};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// After an interrupt, how long to wait for an operation that has not started.
const START_TIMEOUT: Duration = Duration::from_secs(3);

/// Options of all operations.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a separate flag")]
pub struct OperateArguments {
    /// Skip confirmation
    #[arg(long, short)]
    yes: bool,
    /// Print JSON: a list of workers or the cluster; with --dry-run a list of calls and commands
    #[arg(long)]
    pub(super) json: bool,
    /// Show the steps, and the calls and commands known in advance; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Resume the interrupted operation
    #[arg(long, conflicts_with_all = ["abandon", "dry_run"])]
    resume: bool,
    /// Abandon the interrupted operation
    #[arg(long, conflicts_with = "dry_run")]
    abandon: bool,
    /// Take over another operator's operation; their program stops at its next step
    #[arg(long, conflicts_with_all = ["abandon", "dry_run"])]
    take_over: bool,
}

/// The request of a command.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a separate flag")]
pub(super) struct RunOptions<'a> {
    /// The task; `None` to resume or abandon an interrupted operation.
    pub task: Option<Task>,
    /// The kind of operation.
    pub kind: OperationKind,
    /// Allow ending other people's jobs.
    pub others: bool,
    /// Allow ending running work on the worker.
    pub now: bool,
    /// Skip machines that could not be cleaned up.
    pub skip_failed_step: bool,
    /// Do not wait for capacity.
    pub no_wait: bool,
    /// Restart Ray if a change of an update requires it, or takes effect only then.
    pub restart: bool,
    /// Options of all operations.
    pub arguments: &'a OperateArguments,
}

impl<'a> RunOptions<'a> {
    /// A request with all options off.
    pub fn of(task: Task, arguments: &'a OperateArguments) -> Self {
        Self { kind: task.kind(), task: Some(task), ..Self::journaled(OperationKind::Start, arguments) }
    }

    /// A request that only resumes or abandons an interrupted operation.
    pub fn journaled(kind: OperationKind, arguments: &'a OperateArguments) -> Self {
        let (others, now, skip_failed_step, no_wait, restart) = (false, false, false, false, false);
        Self { task: None, kind, others, now, skip_failed_step, no_wait, restart, arguments }
    }
}

/// Runs the request: drives the operations service, prints progress and asks for confirmation.
pub(super) async fn operate(options: &RunOptions<'_>, reach: &Reach) -> anyhow::Result<ExitCode> {
    reach.accept_host_key().await.map_err(|problem| reach.error(&problem))?;
    let attached = supervisor::attach(reach.spec.clone(), reach.cluster_index, reach.options.clone());
    let environment = reach.environment(attached.connection.clone());
    let (operations, receiver) = Operations::start(environment, Journals::OnRequest);
    let connection = attached.connection.clone();
    let kind = options.kind;
    let (journaled, lock, changes) = (None, None, Vec::new());
    let mut front =
        Front { options, reach, kind, operations, receiver, connection, journaled, lock, changes };
    let done = front.run().await;
    drop(front);
    attached.close().await;
    done
}

/// The command line's front end of the operations service.
struct Front<'a> {
    options: &'a RunOptions<'a>,
    reach: &'a Reach,
    /// The kind of the operation: that of the options, unless an update became a restart.
    kind: OperationKind,
    operations: Operations,
    receiver: mpsc::Receiver<ServiceEvent>,
    connection: Connection,
    /// The interrupted operation, as last reported.
    journaled: Option<JournaledOperation>,
    /// The lock of another operator's operation, as last reported.
    lock: Option<OperationLock>,
    /// The changes of an update.
    changes: Vec<Drift>,
}

/// The outcome of an order without steps.
enum Answer {
    /// The preview of affected jobs.
    Previewed(Preview),
    /// The operation was abandoned.
    Abandoned,
    /// The order was refused.
    Refused(Refusal),
}

impl Front<'_> {
    async fn run(&mut self) -> anyhow::Result<ExitCode> {
        let arguments = self.options.arguments;
        let name = &self.reach.spec.name;
        self.journaled = self.operations.journaled(name).await?;
        match &self.options.task {
            _ if arguments.abandon => self.abandon().await,
            _ if arguments.resume => {
                let is_done = |step| {
                    self.journaled.as_ref().is_some_and(|s| s.done.iter().any(|(done, _)| *done == step))
                };
                let consent = self.consent();
                // The same command line, typed again, does not ask for a step that cannot be skipped.
                let next =
                    self.journaled.as_ref().and_then(|journaled| journaled.operation.next(&journaled.done));
                let is_skippable = next.is_some_and(StepName::is_skippable) || !is_done(StepName::CleanUp);
                let skips = self.options.skip_failed_step && is_skippable;
                self.follow(if skips { Order::SkipStep(consent) } else { Order::Resume(consent) }).await
            }
            Some(task) => self.begin(task.clone()).await,
            None => self.refused(&nothing_to_resume(&self.reach.spec)),
        }
    }

    /// The permissions that the options give.
    fn consent(&self) -> Consent {
        Consent {
            any_owner: self.options.others,
            unknown: self.options.others,
            now: self.options.now,
            no_wait: self.options.no_wait,
            take_over: if self.options.arguments.take_over { TakeOver::Any } else { TakeOver::None },
            expected_kind: Some(self.options.kind),
            confirmed: if self.options.arguments.yes { Confirmed::InAdvance } else { Confirmed::Not },
            ..Consent::default()
        }
    }

    async fn abandon(&mut self) -> anyhow::Result<ExitCode> {
        let Some(journaled) = self.journaled.clone() else {
            return self.refused(&nothing_to_resume(&self.reach.spec));
        };
        let interrupted = &journaled.operation;
        if let Err(refusal) = is_kind(self.options.kind, interrupted, Verb::Abandon, "abandon it") {
            return self.refused(&refusal);
        }
        match self.ask(Order::Abandon).await? {
            Answer::Refused(refusal) => self.refused(&refusal),
            Answer::Abandoned | Answer::Previewed(_) => {
                eprintln!("{}: abandoned{}", journaled.operation.title, what_stays(&journaled));
                print_rows(self.options.arguments.json, &[])?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    /// Prints the steps and the affected jobs, asks for confirmation and runs the task.
    async fn begin(&mut self, task: Task) -> anyhow::Result<ExitCode> {
        let (kind, dry) = (task.kind(), self.options.arguments.dry_run);
        if !dry && let Err(refusal) = self.operations.read_only(kind) {
            return self.refused(&refusal);
        }
        let operation = Operation::new(task.clone(), self.reach.spec.name.clone());
        let seen = match self.ask(Order::Preview(task.clone())).await? {
            Answer::Previewed(seen) => seen,
            Answer::Refused(refusal) => return self.refused(&refusal),
            Answer::Abandoned => anyhow::bail!("nothing was done"),
        };
        self.kind = kind;
        if task == Task::Update {
            self.changes.clone_from(&seen.changes);
            self.print_changes()?;
            let applicable = self.operations.applicable(&operation, &seen);
            let needs_restart = match &applicable {
                Err(refusal) => refusal.reason == RefusalReason::NeedsRestart,
                Ok(()) => !Drift::awaiting_restart(&seen.changes).is_empty(),
            };
            if needs_restart && self.options.restart {
                return Box::pin(self.begin(Task::Restart { preserve: true })).await;
            }
            if let Err(refusal) = applicable {
                return self.refused(&refusal);
            }
        }
        print_preview(&operation, &seen)?;
        if dry {
            return self.dry_run(&task, &seen).await;
        }
        let mut consent = self.consent();
        // Check refusals before asking for confirmation. Until the work begins, ctrl-c ends the program as usual.
        if let Err(refusal) = self.operations.allowed(&operation, &consent, (self.lock.as_ref(), &seen)) {
            return self.refused(&refusal);
        }
        if !consent.confirms(&operation) {
            consent.confirmed = confirmed(&operation, self.reach.short.as_deref())?;
        }
        self.follow(Order::Begin(task, consent)).await
    }

    /// Prints the changes of an update; with `--json` on stderr, because a script reads the JSON on stdout.
    fn print_changes(&self) -> anyhow::Result<()> {
        if self.options.arguments.json {
            changes::print(&mut super::output::stderr(), &self.changes)?;
        } else {
            changes::print(&mut super::output::stdout(), &self.changes)?;
        }
        Ok(())
    }

    /// Prints the calls and commands of the task, and what would prevent it.
    async fn dry_run(&self, task: &Task, seen: &Preview) -> anyhow::Result<ExitCode> {
        if let Some(lock) = &self.lock {
            eprintln!("{}", lock.refusal(Timestamp::now()).what);
        }
        if let Some(problem) = &seen.problem {
            eprintln!("cannot determine affected jobs: {}", problem.in_commands(self.target()));
        }
        let calls = self.operations.dry_run(&self.reach.spec.name, task).await;
        print_calls(&calls.map_err(|p| self.reach.error(&p))?, self.options.arguments.json)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn next(&mut self) -> anyhow::Result<OperationEvent> {
        loop {
            match self.receiver.recv().await {
                Some(ServiceEvent::Operation(_, event)) => return Ok(*event),
                Some(
                    ServiceEvent::Form(..)
                    | ServiceEvent::Stacks(..)
                    | ServiceEvent::WorkerFiles(..)
                    | ServiceEvent::Chips(..)
                    | ServiceEvent::JobWorkers(..),
                ) => {}
                None => {
                    let resume = Verb::Resume.to("resume it").in_commands(self.target());
                    anyhow::bail!("the operation ended unexpectedly; {resume}")
                }
            }
        }
    }

    /// Sends an order without steps and shows progress until it is answered.
    async fn ask(&mut self, order: Order) -> anyhow::Result<Answer> {
        let progress = CommandProgress::new();
        let mut state = self.connection.watch();
        self.operations.order(&self.reach.spec.name, order);
        loop {
            let event = tokio::select! {
                event = self.next() => event?,
                Ok(()) = state.changed() => {
                    match &*state.borrow_and_update() {
                        ConnectionState::Connecting(phase) => progress.phase(*phase),
                        ConnectionState::Up(_) => progress.show("checking affected jobs"),
                        ConnectionState::Down { .. } => {}
                    }
                    continue;
                }
            };
            match event {
                OperationEvent::Journaled(journaled) => self.journaled = journaled,
                OperationEvent::Locked(lock) => self.lock = lock,
                OperationEvent::Previewed(_, seen) => return Ok(Answer::Previewed(seen)),
                OperationEvent::Refused(_, _, refusal) => return Ok(Answer::Refused(refusal)),
                OperationEvent::Ended(_) => return Ok(Answer::Abandoned),
                OperationEvent::Progress(Progress::Output(words)) => eprintln!("{words}"),
                _ => {}
            }
        }
    }

    /// Sends an order with steps and prints them. An interrupt stops the operation and its local programs at once.
    async fn follow(&mut self, order: Order) -> anyhow::Result<ExitCode> {
        let quit = crate::tui::quit_signals()?;
        tokio::pin!(quit);
        let (mut operation, mut changed) = (None, Changed::default());
        let mut interrupted: Option<Instant> = None;
        self.operations.order(&self.reach.spec.name, order);
        loop {
            let event = tokio::select! {
                event = self.next() => event?,
                () = &mut quit => {
                    let resume = Verb::Resume.to("resume it").in_commands(self.target());
                    anyhow::ensure!(interrupted.is_none(), "interrupted; {resume}");
                    interrupted = Some(Instant::now());
                    quit.set(crate::tui::quit_signals()?);
                    self.operations.order(&self.reach.spec.name, Order::Interrupt);
                    continue;
                }
                // An operation that has not started waits only for the network.
                () = after(interrupted, START_TIMEOUT), if operation.is_none() => {
                    anyhow::bail!("interrupted before the first step; nothing was changed");
                }
            };
            match event {
                OperationEvent::Began(begun) => operation = Some(begun),
                OperationEvent::Progress(progress) => {
                    if let Some(operation) = &operation {
                        show(operation, &progress);
                    }
                }
                OperationEvent::Changed(what) => changed = what,
                OperationEvent::Journaled(journaled) => self.journaled = journaled,
                OperationEvent::Refused(_, _, refusal) => return self.refused(&refusal),
                OperationEvent::Ended(end) => {
                    let Some(operation) = &operation else { anyhow::bail!("nothing was done") };
                    return self.ended(operation, end, &changed);
                }
                OperationEvent::Offered(_) | OperationEvent::Previewed(..) | OperationEvent::Locked(_) => {}
            }
        }
    }

    fn ended(&self, operation: &Operation, end: OperationEnd, changed: &Changed) -> anyhow::Result<ExitCode> {
        let title = &operation.title;
        match end {
            OperationEnd::Done => {
                let shortfall = changed.shortfall(&operation.cluster, Timestamp::now());
                if shortfall.is_none() || self.options.arguments.json {
                    self.print_done(operation, changed)?;
                }
                if operation.task == Task::Update
                    && let Some(later) = awaiting_restart(&self.changes, self.target())
                {
                    eprintln!("{later}");
                }
                if let Some(missing) = shortfall {
                    anyhow::bail!("{title}: done; {}", missing.in_commands(self.target()));
                }
                Ok(ExitCode::SUCCESS)
            }
            OperationEnd::Abandoned => Ok(ExitCode::SUCCESS),
            OperationEnd::Cancelled(left) => {
                let left = Hint::from(left.text()).and(left.hint(&operation.task)).in_commands(self.target());
                anyhow::bail!("{title}: cancelled; {left}")
            }
            OperationEnd::Stopped(problem, saved) => {
                let saved = saved.map_or_else(String::new, |b| format!("; jobs saved in {b}"));
                anyhow::bail!("{title}: not completed: {}{saved}", self.in_journal(&problem))
            }
        }
    }

    /// Prints the outcome: one line, or a JSON list of the workers or of the cluster.
    fn print_done(&self, operation: &Operation, changed: &Changed) -> anyhow::Result<()> {
        let options = self.options;
        if !options.arguments.json {
            println!("{}: done", operation.title);
            return Ok(());
        }
        let cluster_name = operation.cluster.as_str();
        let workers = |key: &str| {
            let workers = changed.workers.iter();
            workers.map(|(name, hosts)| json!({"cluster": cluster_name, "worker": name, "hosts": hosts, key: true})).collect()
        };
        let cluster = |key: &str| vec![json!({"cluster": cluster_name, key: true, "backup": changed.saved})];
        let restarted = || {
            json!({
                "cluster": cluster_name,
                "restarted": true,
                "backup": changed.saved,
                "not_restored": changed.not_restored,
            })
        };
        let rows: Vec<_> = match &operation.task {
            Task::AddWorker(NewWorker::Queued { names, .. }) if options.no_wait => {
                let requested =
                    |name| json!({"cluster": cluster_name, "worker": name, "hosts": [], "joined": false});
                names.iter().map(requested).collect()
            }
            Task::AddWorker(_) | Task::InitWorker { .. } => workers("joined"),
            Task::RemoveWorker { .. } | Task::RemoveWorkers { .. } => workers("removed"),
            Task::Restart { .. } => vec![restarted()],
            Task::Start => cluster("started"),
            Task::Stop => cluster("stopped"),
            Task::Update => {
                let changes = changes::for_scripts(&self.changes);
                vec![json!({"cluster": cluster_name, "updated": true, "changes": changes})]
            }
        };
        print_rows(options.arguments.json, &rows)
    }

    /// The target of the printed commands.
    fn target(&self) -> Target<'_> {
        Target::of(&self.reach.spec.name).with(self.kind.command())
    }

    /// A problem of an operation that is in the journal, and its hint. The journal also has whether workers are drained,
    /// so `--drain` is not an option of the command that resumes it.
    fn in_journal(&self, problem: &Problem) -> String {
        problem.joined(&problem.hint.advising(Verb::Drain).in_commands(self.target()))
    }

    /// Reports a refusal with the options that would allow the operation.
    fn refused(&self, refusal: &Refusal) -> anyhow::Result<ExitCode> {
        let Refusal { reason, problem, .. } = refusal;
        let is_fine = matches!(reason, RefusalReason::AlreadyRunning | RefusalReason::UpToDate);
        // Having nothing to do is not an error.
        let row = json!({"cluster": self.reach.spec.name.as_str(), "refused": reason.name()});
        print_rows(self.options.arguments.json, if is_fine { &[] } else { std::slice::from_ref(&row) })?;
        let words = match (reason, &self.journaled) {
            (RefusalReason::Interrupted, Some(journaled)) => stopped(journaled),
            _ if self.options.arguments.resume => self.in_journal(problem),
            _ => problem.in_commands(self.target()),
        };
        if is_fine {
            eprintln!("{words}");
            return Ok(ExitCode::SUCCESS);
        }
        anyhow::bail!(words)
    }
}

/// Prints what the operation does and affects, with its warnings.
fn print_preview(operation: &Operation, seen: &Preview) -> anyhow::Result<()> {
    let kind = operation.kind();
    print_steps(operation);
    if !seen.owned_resources.is_empty() {
        eprintln!("also deletes {}", seen.owned_resources.join(", "));
    }
    for warning in &seen.warnings {
        eprintln!("warning: {warning}");
    }
    if kind.takes_down() && kind != OperationKind::Start {
        eprintln!("announcement for your team: {}", operation.announcement());
    }
    if matches!(operation.task, Task::RemoveWorkers { .. }) && !seen.workers.is_empty() {
        let row = |(name, hosts): &(String, Vec<String>)| vec![name.clone(), hosts.join(" ")];
        let rows: Vec<_> = seen.workers.iter().map(row).collect();
        super::columns::print(&mut super::output::stderr(), &["WORKER", "HOSTS"], &rows)?;
    }
    if kind.may_end_jobs() {
        print_affected(operation, seen)?;
    }
    Ok(())
}

/// Resolves at `at` plus `time`; never if `at` is `None`.
async fn after(at: Option<Instant>, time: Duration) {
    match at {
        Some(at) => tokio::time::sleep_until(at + time).await,
        None => std::future::pending().await,
    }
}

/// Asks for the confirmation that the operation requires: `y`, or for a whole cluster its typed name.
fn confirmed(operation: &Operation, short: Option<&str>) -> anyhow::Result<Confirmed> {
    use std::io::{self, BufRead, IsTerminal};
    if operation.confirmation() != Confirmation::Name || !io::stdin().is_terminal() {
        let (title, consequence) = (capitalized(&operation.title), capitalized(&operation.consequence));
        confirm(&format!("{title}? {consequence}."), false)?;
        return Ok(Confirmed::Yes);
    }
    eprint!("Type the cluster name to confirm: ");
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    let confirmed = Confirmed::typed(&typed, &operation.cluster, short);
    let consent = Consent { confirmed: confirmed.clone(), ..Consent::default() };
    anyhow::ensure!(consent.confirms(operation), "nothing was done");
    Ok(confirmed)
}
