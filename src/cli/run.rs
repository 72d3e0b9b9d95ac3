//! Runs an operation from a shell, whichever it is: says what it does and whom it hits, asks, does it, and goes on with
//! one that stopped.

use super::reach::{Progress as Telling, Reach, confirm};
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{
    Doomed, Fate, NewWorker, Operation, OperationKind, OperationMark, Preview, Problem, Progress, StepName,
    Task, Timestamp, runs_already,
};
use crate::operation::{
    Call, Facts, Journal, Outcome, Performer, Scope, Unfinished, gate, preflight, preview, remove_mark,
};
use crate::ray::Poller;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// What all operations take.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub struct OperateArguments {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print JSON: a list of the workers, or of the cluster; of a dry run one of the calls and commands
    #[arg(long)]
    json: bool,
    /// Say the steps, and the calls and commands as far as they are known beforehand; do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Go on with the operation that stopped
    #[arg(long, conflicts_with_all = ["abandon", "dry_run"])]
    resume: bool,
    /// Forget the operation that stopped
    #[arg(long, conflicts_with = "dry_run")]
    abandon: bool,
    /// Go on in the place of another operator's operation, whose program stops at its next step
    #[arg(long, conflicts_with_all = ["abandon", "dry_run"])]
    take_over: bool,
}

/// What a command wants.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub(super) struct Wish<'a> {
    /// What is to be done; none where only one that stopped is meant.
    pub task: Option<Task>,
    /// Of what kind.
    pub kind: OperationKind,
    /// Although other people's jobs run.
    pub others: bool,
    /// Whatever runs on the worker.
    pub now: bool,
    /// Past machines that could not be cleared.
    pub leave: bool,
    /// Without waiting for capacity.
    pub no_wait: bool,
    /// What all take.
    pub arguments: &'a OperateArguments,
}

impl<'a> Wish<'a> {
    /// With every switch off.
    pub fn of(task: Task, arguments: &'a OperateArguments) -> Self {
        Self { kind: task.kind(), task: Some(task), ..Self::standing(OperationKind::Start, arguments) }
    }

    /// Of one that stopped.
    pub fn standing(kind: OperationKind, arguments: &'a OperateArguments) -> Self {
        let (others, now, leave, no_wait) = (false, false, false, false);
        Self { task: None, kind, others, now, leave, no_wait, arguments }
    }
}

/// Does it.
pub(super) async fn operate(wish: &Wish<'_>, reach: &Reach) -> anyhow::Result<ExitCode> {
    let arguments = wish.arguments;
    if let Some(task) = &wish.task {
        preflight(&reach.spec, &reach.options, task).map_err(|p| reach.error(&p))?;
    }
    let mut journal = Journal::open(&reach.folders.state, &reach.spec.name)?;
    let unfinished = journal.unfinished().cloned();
    if let Some(u) = &unfinished {
        let operation = u.operation(&reach.spec.name);
        if arguments.abandon {
            journal.end("abandoned")?;
            if let Err(problem) = remove_mark(&reach.spec, &reach.options, &u.facts).await {
                eprintln!("{}; {}", problem.what, problem.mend);
            }
            reach.note(&operation.deed(), "abandoned");
            eprintln!("{} is forgotten{}", operation.title, what_stays(u));
            print_rows(wish, &[])?;
            return Ok(ExitCode::SUCCESS);
        }
        anyhow::ensure!(arguments.resume, "{}", stopped(u, &operation));
        let command = u.task.kind().command();
        anyhow::ensure!(u.task.kind() == wish.kind, "{}; resume it with {command}", stopped(u, &operation));
        u.belongs_to(&reach.spec).map_err(|p| reach.error(&p))?;
        if u.asks_first() {
            match who_is_hit(&operation, reach).await {
                Ok(seen) => stands_in_the_way(&seen, &operation, wish, &u.scope)?,
                // The worker may be gone by now, which its own steps find out.
                Err(_) if !wish.kind.is_of_cluster() => {}
                Err(e) => return Err(e),
            }
        }
        let marked = gate(&reach.spec, &reach.options, &u.facts, arguments.take_over).await;
        let marked = marked.map_err(|p| reach.error(&p))?;
        return perform((operation, unfinished), marked, &mut journal, wish, reach).await;
    }
    let task = wish.task.as_ref().filter(|_| !arguments.resume && !arguments.abandon);
    let Some(task) = task else { anyhow::bail!("no operation on {} stopped half way", reach.spec.name) };
    let operation = Operation::new(task.clone(), reach.spec.name.clone());
    let may_go_on = arguments.take_over || arguments.dry_run;
    let theirs = gate(&reach.spec, &reach.options, &Facts::default(), may_go_on).await;
    let theirs = theirs.map_err(|p| reach.error(&p))?;
    if let Some(mark) = theirs.as_ref().filter(|_| arguments.dry_run) {
        eprintln!("{}", mark.refusal(Timestamp::now()).what);
    }
    let Some(scope) = begins(&operation, wish, reach).await? else { return Ok(ExitCode::SUCCESS) };
    journal.begin(task, &scope)?;
    if !wish.kind.is_of_cluster() {
        reach.note(&operation.deed(), "begun");
    }
    perform((operation, None), theirs, &mut journal, wish, reach).await
}

/// Says what it does and whom it hits, and asks; what is meant, when it is to begin.
async fn begins(operation: &Operation, wish: &Wish<'_>, reach: &Reach) -> anyhow::Result<Option<Scope>> {
    let (kind, dry) = (operation.kind(), wish.arguments.dry_run);
    if kind == OperationKind::Start
        && let Some(jobs) = open_jobs(reach).await
    {
        eprintln!("{}: {}; there is nothing to start", operation.cluster, runs_already(jobs));
        print_rows(wish, &[])?;
        return Ok(None);
    }
    print_steps(operation);
    if kind.is_of_cluster() && kind != OperationKind::Start {
        eprintln!("for the team's channel: {}", operation.announcement());
    }
    let mut scope = Scope { now: wish.now, ..Scope::of(&reach.spec) };
    if kind.may_end_jobs() {
        let seen = who_is_hit(operation, reach).await?;
        if !dry {
            stands_in_the_way(&seen, operation, wish, &scope)?;
        } else if let Some(trouble) = &seen.trouble {
            eprintln!("whose jobs run cannot be told: {}; {}", trouble.what, trouble.mend);
        }
        scope.others = seen.others();
    }
    if dry {
        let calls = Box::pin(performer(operation, Facts::default(), reach).dry_run(operation)).await;
        print_calls(&calls.map_err(|p| reach.error(&p))?, wish.arguments.json)?;
        return Ok(None);
    }
    if !kind.is_of_cluster() {
        confirm(&format!("{}: {}", operation.title, operation.consequence), wish.arguments.yes)?;
    } else if operation.destructive {
        confirm_by_name(operation, wish.arguments.yes)?;
    }
    Ok(Some(scope))
}

/// What runs on a worker, and other people's jobs, unless that was said now or when it was begun.
fn stands_in_the_way(
    seen: &Preview,
    operation: &Operation,
    wish: &Wish<'_>,
    begun: &Scope,
) -> anyhow::Result<()> {
    if let Some(trouble) = seen.trouble.as_ref().filter(|_| operation.kind().is_of_cluster()) {
        anyhow::ensure!(
            wish.others,
            "whose jobs run on {} cannot be told: {}; {}; or go on without knowing: --others",
            operation.cluster,
            trouble.what,
            trouble.mend
        );
    }
    if let Task::RemoveWorker { drain: None, worker } = &operation.task {
        let worker = printable(worker);
        anyhow::ensure!(
            wish.now || begun.now || seen.jobs.is_empty(),
            "something runs on {worker}: --drain lets it end first, --now ends it"
        );
    }
    let others = begun.not_allowed(seen);
    anyhow::ensure!(
        wish.others || others.is_empty(),
        "{others} run {}: ask their owners, then say --others",
        if operation.kind().is_of_cluster() { format!("on {}", operation.cluster) } else { "there".into() }
    );
    Ok(())
}

fn performer(operation: &Operation, facts: Facts, reach: &Reach) -> Performer {
    let state = reach.folders.state.clone();
    let cluster = (reach.spec.clone(), reach.place);
    Performer::new(cluster, reach.options.clone(), state, operation.task.clone(), facts)
}

async fn perform(
    (mut operation, mut unfinished): (Operation, Option<Unfinished>),
    theirs: Option<OperationMark>,
    journal: &mut Journal,
    wish: &Wish<'_>,
    reach: &Reach,
) -> anyhow::Result<ExitCode> {
    if wish.no_wait {
        // Google goes on by itself.
        operation.steps.retain(|s| *s == StepName::Ask);
    }
    if let Some(u) = unfinished.as_mut().filter(|u| wish.leave && !u.is_done(StepName::Clear)) {
        u.pass(StepName::Clear, journal)?;
    }
    let done = unfinished.as_ref().map(|u| u.done.clone()).unwrap_or_default();
    let mut performer = performer(&operation, unfinished.map(|u| u.facts).unwrap_or_default(), reach);
    performer.take_over = theirs.map(|mark| mark.id);
    let (tell, heard) = mpsc::unbounded_channel();
    let showing = tokio::spawn(show_all(operation.clone(), heard));
    // An interrupt drops the work where it is, and what it runs here ends with it.
    let (_cancel, mut cancels) = mpsc::unbounded_channel();
    let interrupted = crate::tui::quit_signals()?;
    let ended = tokio::select! {
        ended = performer.run(&operation, journal, &done, &tell, &mut cancels) => Some(ended),
        () = interrupted => None,
    };
    drop(tell);
    let saved = performer.facts.saved().map_or_else(String::new, |b| format!("; the jobs are saved in {b}"));
    match ended {
        Some(Ok(Outcome::Done)) => {
            showing.await?;
            reach.note(&operation.deed(), "done");
            print_done(&operation, &performer.facts, wish)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Ok(Outcome::Cancelled(how))) => {
            showing.await?;
            reach.note(&operation.deed(), how);
            anyhow::bail!("{}: {how}", operation.title)
        }
        Some(Err(problem)) => {
            reach.note(&operation.deed(), &format!("stopped: {}", problem.what));
            showing.await?;
            let Problem { what, mend, .. } = problem;
            anyhow::bail!("{} stopped: {what}; {mend}{saved}", operation.title)
        }
        None => {
            // Without a terminal nothing can be shown any more.
            let at = showing.await.ok().flatten();
            performer.interrupted(&operation, at, &done).await;
            let said = interrupted_at(&operation, at, &done, journal, reach)?;
            anyhow::bail!("{said}{saved}")
        }
    }
}

/// Writes down that somebody wanted an end, and what that means. Where nothing was changed yet, or what was goes on
/// without us, there is nothing to resume.
fn interrupted_at(
    operation: &Operation,
    at: Option<StepName>,
    done: &[(StepName, String)],
    journal: &mut Journal,
    reach: &Reach,
) -> anyhow::Result<String> {
    let title = &operation.title;
    let step = at.or_else(|| operation.steps.first().copied()).unwrap_or(StepName::Check);
    if let Some(how) = operation.cancelled_again(step, done) {
        journal.end(how)?;
        reach.note(&operation.deed(), how);
        return Ok(format!("{title}: {how}"));
    }
    let place = format!("{} of {} ({})", operation.number(step), operation.steps.len(), step.word());
    journal.failed(step, &format!("interrupted at step {place}"))?;
    reach.note(&operation.deed(), &format!("stopped: interrupted at step {place}"));
    let command = operation.kind().command();
    Ok(format!(
        "{title} stopped: interrupted at step {place}; {command} --resume goes on, {command} --abandon forgets it"
    ))
}

/// Shows how it goes on; the step that began last.
async fn show_all(operation: Operation, mut heard: mpsc::UnboundedReceiver<Progress>) -> Option<StepName> {
    let mut at = None;
    while let Some(progress) = heard.recv().await {
        if let Progress::Began(step) = progress {
            at = Some(step);
        }
        show(&operation, &progress);
    }
    at
}

fn show(operation: &Operation, progress: &Progress) {
    let place = |step| format!("{}/{}", operation.number(step), operation.steps.len());
    match progress {
        Progress::Began(step) => eprintln!("[{}] {}", place(*step), step.what()),
        Progress::Output(line) => eprintln!("      {}", crate::model::text::log_line(line)),
        Progress::Done(step, said) => eprintln!("[{}] {}", place(*step), printable(said)),
        Progress::Skipped(step, said) => eprintln!("[{}] done before: {}", place(*step), printable(said)),
        Progress::Failed(step, problem) => eprintln!("[{}] failed: {}", place(*step), problem.what),
    }
}

/// A dry run, for people a line each.
fn print_calls(calls: &[Call], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        super::output::json(calls)?;
        return Ok(());
    }
    eprintln!("the calls and commands, in order:");
    for call in calls {
        println!("{}", printable(&call.to_string()));
    }
    Ok(())
}

/// What JSON is wanted of, when it is.
fn print_rows(wish: &Wish<'_>, rows: &[Value]) -> anyhow::Result<()> {
    if wish.arguments.json {
        super::output::json(rows)?;
    }
    Ok(())
}

/// The end, for people or as JSON: a list of the workers, one or many, or of the one cluster.
fn print_done(operation: &Operation, facts: &Facts, wish: &Wish<'_>) -> anyhow::Result<()> {
    if !wish.arguments.json {
        println!("{}: done", operation.title);
        return Ok(());
    }
    let workers = |deed: &str| {
        let machines = facts.worker.machines.iter();
        machines.map(|m| json!({"name": m.name(), "hosts": m.hosts, deed: true})).collect()
    };
    let cluster =
        |deed: &str| vec![json!({"name": operation.cluster.as_str(), deed: true, "backup": facts.saved()})];
    let rows: Vec<_> = match &operation.task {
        Task::AddWorker(NewWorker::Queued { names, .. }) if wish.no_wait => {
            names.iter().map(|n| json!({"name": n, "hosts": [], "joined": false})).collect()
        }
        Task::AddWorker(_) | Task::InitWorker { .. } => workers("joined"),
        Task::RemoveWorker { .. } => workers("removed"),
        Task::Restart { .. } => cluster("restarted"),
        Task::Start => cluster("started"),
        Task::Stop => cluster("stopped"),
    };
    print_rows(wish, &rows)
}

fn print_steps(operation: &Operation) {
    eprintln!("{}: {}", operation.title, operation.consequence);
    for (i, step) in operation.steps.iter().enumerate() {
        eprintln!("  {}. {}", i + 1, step.what());
    }
}

fn stopped(u: &Unfinished, operation: &Operation) -> String {
    let at = u.next().map_or_else(String::new, |s| {
        format!(" at step {} of {} ({})", operation.number(s), operation.steps.len(), s.what())
    });
    let why = if u.why.is_empty() { String::new() } else { format!(": {}", printable(&u.why)) };
    let command = operation.kind().command();
    format!(
        "{} stopped{at}{why}{}; {command} --resume goes on, {command} --abandon forgets it",
        operation.title,
        what_stays(u)
    )
}

fn what_stays(u: &Unfinished) -> String {
    match (u.facts.saved(), &u.task) {
        (Some(folder), _) => format!("; its jobs are saved in {folder}"),
        (None, Task::AddWorker(NewWorker::Queued { .. })) => {
            "; what google has of it stays, remove-worker deletes it".to_owned()
        }
        (None, _) => String::new(),
    }
}

/// How many jobs of a cluster that runs have not ended; none when no Ray of ours answers there.
async fn open_jobs(reach: &Reach) -> Option<usize> {
    let progress = Telling::new();
    let session = reach.open(&progress).await.ok()?;
    progress.tell("looking which jobs run");
    let seen = Poller::new(session.client.clone()).refresh().await;
    session.close().await;
    Some(seen.ok()?.jobs.iter().filter(|j| !j.status.is_ended()).count())
}

/// Lists the jobs that would end, or of which something runs on the worker.
async fn who_is_hit(operation: &Operation, reach: &Reach) -> anyhow::Result<Preview> {
    let progress = Telling::new();
    let session = match reach.open(&progress).await {
        Ok(session) => session,
        Err(trouble) => {
            return Ok(Preview { trouble: Some(trouble), ..Preview::default() });
        }
    };
    progress.tell("looking which jobs run");
    let me = reach.env.user().unwrap_or_default();
    let seen = preview(&session.client, (&reach.spec, &reach.options), me, &operation.task).await;
    session.close().await;
    let seen = seen.map_err(|p| reach.error(&p))?;
    let is_of_cluster = operation.kind().is_of_cluster();
    let now = crate::model::Timestamp::now();
    let row = |job: &Doomed| {
        let age = job.started.map_or_else(|| "?".to_owned(), |at| brief(at.age(now)));
        let fate = match &job.fate {
            Fate::Lost(what) if !is_of_cluster => printable(what).into_owned(),
            fate => fate.words(),
        };
        vec![job.key.to_string(), job.owner_words(), job.status.word().to_owned(), age, job.holding(), fate]
    };
    let rows: Vec<_> = seen.jobs.iter().map(row).collect();
    let last = if is_of_cluster { "COMES BACK" } else { "WHAT RUNS THERE" };
    if !rows.is_empty() {
        let titles = ["JOB", "OWNER", "STATE", "AGE", "HOLDS", last];
        super::columns::print(&mut super::output::stderr(), &titles, &rows)?;
    } else if !is_of_cluster {
        eprintln!("nothing runs there");
    }
    Ok(seen)
}

/// The name must be typed: `y` is typed too fast.
fn confirm_by_name(operation: &Operation, yes: bool) -> anyhow::Result<()> {
    use std::io::{self, BufRead, IsTerminal};
    if yes || !io::stdin().is_terminal() {
        return confirm(&format!("{}: {}", operation.title, operation.consequence), yes);
    }
    eprint!("type the cluster's name to go on: ");
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    anyhow::ensure!(typed.trim() == operation.cluster.as_str(), "nothing was done");
    Ok(())
}
