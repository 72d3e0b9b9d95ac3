//! Runs operations on clusters and their workers beside the loop, each in a task of its own, and tells the app how they go on.

use super::submit;
use crate::app::Event;
use crate::config::Env;
use crate::model::{
    ClusterName, ClusterSpec, Draft, FormId, Operation, OperationEnd, OperationKind, OperationNews, Order,
    Others, Preview, Problem, ProblemKind, SubmissionId, Task, Timestamp,
};
use crate::operation::{
    Audit, Desk, Facts, Journal, Outcome, Performer, Scope, Unfinished, offer, others_mark, preflight,
    preview, remove_mark, standing,
};
use crate::supervisor::{self, Options, Session};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How often journals are looked into: another program's operation is seen so late at most.
const LOOK: Duration = Duration::from_secs(2);

/// What an operation needs to know of the world.
#[derive(Clone)]
pub struct Ground {
    /// The clusters, in the order of the list.
    pub clusters: Vec<ClusterSpec>,
    /// How to connect.
    pub options: Options,
    /// Our state folder: journals, backups.
    pub state: PathBuf,
    /// Variables and folder that paths and variables of jobs are read in.
    pub env: Env,
    /// Who we are, as jobs name their owners.
    pub me: String,
    /// Where it is written down who did what.
    pub audit: Audit,
    /// Nothing is changed on any cluster.
    pub read_only: bool,
}

/// Operations that work here: how to cancel them. News of them are sent while this is held, so that what a journal
/// tells never overtakes them.
type Works = Arc<Mutex<HashMap<ClusterName, mpsc::UnboundedSender<()>>>>;

/// Runs operations.
pub struct Operator {
    ground: Arc<Ground>,
    tell: mpsc::UnboundedSender<Event>,
    works: Works,
    desk: Arc<Desk>,
    tasks: JoinSet<()>,
}

impl Operator {
    /// Looks after the journals from now on. News go to `tell`.
    pub fn start(ground: Ground, tell: mpsc::UnboundedSender<Event>) -> Self {
        let mut operator = Self {
            ground: Arc::new(ground),
            tell,
            works: Works::default(),
            desk: Arc::default(),
            tasks: JoinSet::new(),
        };
        let (ground, tell, works) = operator.parts();
        operator.tasks.spawn(watch(ground, tell, works));
        operator
    }

    fn parts(&self) -> (Arc<Ground>, mpsc::UnboundedSender<Event>, Works) {
        (Arc::clone(&self.ground), self.tell.clone(), Arc::clone(&self.works))
    }

    /// Forgets what has ended.
    fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// Submits the job of a form, beside the loop.
    pub fn submit(&mut self, cluster: &ClusterName, form: FormId, draft: Draft) {
        self.reap();
        if let Some(errand) = self.errand(cluster) {
            self.tasks.spawn(submit::submit(errand, form, Arc::clone(&self.desk), draft));
        }
    }

    /// Reads what a job was submitted with for a form, beside the loop.
    pub fn fill(&mut self, cluster: &ClusterName, form: FormId, id: SubmissionId) {
        self.reap();
        if let Some(errand) = self.errand(cluster) {
            self.tasks.spawn(submit::fill(errand, form, Arc::clone(&self.desk), id));
        }
    }

    fn errand(&self, cluster: &ClusterName) -> Option<Errand> {
        let place = self.ground.clusters.iter().position(|c| c.name == *cluster)?;
        let (ground, tell, works) = self.parts();
        Some(Errand { spec: ground.clusters[place].clone(), place, ground, tell, works })
    }

    /// Writes the audit log, beside the loop: its disk may be slow.
    pub fn note(&mut self, cluster: ClusterName, what: String, outcome: String) {
        self.reap();
        let audit = self.ground.audit.clone();
        self.tasks.spawn_blocking(move || write(&audit, &cluster, &what, &outcome));
    }

    /// Carries an order out, beside the loop.
    pub fn order(&mut self, cluster: &ClusterName, order: Order) {
        self.reap();
        if order == Order::Cancel {
            if let Some(cancel) = locked(&self.works).get(cluster) {
                // It may have ended meanwhile.
                let _ = cancel.send(());
            }
            return;
        }
        if let Some(errand) = self.errand(cluster) {
            self.tasks.spawn(errand.run(order));
        }
    }
}

fn write(audit: &Audit, cluster: &ClusterName, what: &str, outcome: &str) {
    if let Err(e) = audit.note(cluster, what, outcome) {
        tracing::error!("the audit log cannot be written: {e}");
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells what stands half way on the clusters, whenever that changes.
async fn watch(ground: Arc<Ground>, tell: mpsc::UnboundedSender<Event>, works: Works) {
    let mut known: BTreeMap<ClusterName, Option<crate::model::Standing>> = BTreeMap::new();
    loop {
        for spec in &ground.clusters {
            let works = locked(&works);
            if works.contains_key(&spec.name) {
                known.remove(&spec.name);
                continue;
            }
            // A journal that cannot be read is told of when an operation is to begin.
            let Ok(seen) = standing(&ground.state, &spec.name) else { continue };
            if *known.get(&spec.name).unwrap_or(&None) != seen {
                known.insert(spec.name.clone(), seen.clone());
                let _ = tell.send(Event::Operation(spec.name.clone(), OperationNews::Standing(seen)));
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// One order on one cluster.
pub(super) struct Errand {
    /// The cluster.
    pub spec: ClusterSpec,
    place: usize,
    /// What it needs to know of the world.
    pub ground: Arc<Ground>,
    /// Where news go.
    pub tell: mpsc::UnboundedSender<Event>,
    works: Works,
}

impl Errand {
    async fn run(self, order: Order) {
        // The screen refuses it too; here nothing can get past.
        let changes = match &order {
            Order::Begin(task, _) | Order::TakeOver(task, ..) => Some(task.kind()),
            Order::Resume | Order::Forward => Some(self.kind()),
            Order::Offer | Order::Look(_) | Order::Abandon | Order::Cancel => None,
        };
        if let Some(kind) = changes.filter(|_| self.ground.read_only) {
            let what = format!("{} is refused: read-only", kind.command());
            let mend = "start the console without --read-only, and without `read_only` in the settings";
            let problem = Problem::new(ProblemKind::Other, what, mend, Timestamp::now());
            return self.say(OperationNews::Refused(kind, problem));
        }
        match order {
            Order::Offer => {
                let offered = offer(&self.spec, &self.ground.options, &self.ground.state);
                self.say(OperationNews::Offered(offered));
            }
            Order::Look(task) => self.look(task).await,
            Order::Begin(task, others) => self.begin(task, others, None).await,
            Order::TakeOver(task, others, mark) => self.begin(task, others, Some(mark)).await,
            Order::Resume => self.resume(false).await,
            Order::Forward => self.resume(true).await,
            Order::Abandon => self.abandon().await,
            Order::Cancel => {}
        }
    }

    fn say(&self, news: OperationNews) {
        // The console may be on its way out.
        let _ = self.tell.send(Event::Operation(self.spec.name.clone(), news));
    }

    pub(super) fn note(&self, title: &str, outcome: &str) {
        write(&self.ground.audit, &self.spec.name, title, outcome);
    }

    pub(super) async fn connect(&self) -> Result<Session, Problem> {
        let options = self.ground.options.clone();
        supervisor::connect(self.spec.clone(), self.place, options, |_| ()).await
    }

    /// An error when somebody else's operation is marked on the cluster, unless it is the one to be taken over.
    async fn is_unmarked(&self, ours: &Facts, take_over: Option<&str>) -> Result<(), Problem> {
        match others_mark(&self.spec, &self.ground.options, ours).await {
            Some(mark) if take_over != Some(mark.id.as_str()) => Err(mark.refusal(Timestamp::now())),
            _ => Ok(()),
        }
    }

    async fn look(&self, task: Task) {
        let kind = task.kind();
        if let Err(problem) = preflight(&self.spec, &self.ground.options, &task) {
            return self.say(OperationNews::Refused(kind, problem));
        }
        if let Err(problem) = self.is_free() {
            return self.say(OperationNews::Refused(kind, problem));
        }
        let mark = others_mark(&self.spec, &self.ground.options, &Facts::default()).await;
        self.say(OperationNews::Marked(mark));
        let me = self.ground.me.clone();
        if !kind.may_end_jobs() {
            return self.say(OperationNews::Previewed(task, Preview { me, ..Preview::default() }));
        }
        let seen = match self.connect().await {
            Ok(session) => {
                let seen = preview(&session.client, (&self.spec, &self.ground.options), &me, &task).await;
                session.close().await;
                seen
            }
            Err(problem) => Err(problem),
        };
        let seen = seen.unwrap_or_else(|trouble| Preview { me, trouble: Some(trouble), jobs: Vec::new() });
        self.say(OperationNews::Previewed(task, seen));
    }

    /// Whether nothing stands half way or is under way on the cluster.
    fn is_free(&self) -> Result<(), Problem> {
        match standing(&self.ground.state, &self.spec.name)? {
            None => Ok(()),
            Some(standing) => {
                let what = format!("{} stands half way", standing.operation.title);
                let step =
                    standing.operation.steps.iter().find(|s| !standing.done.iter().any(|(d, _)| d == *s));
                let may_wait = step.is_some_and(|s| standing.operation.is_harmless_at(*s));
                let mend = if standing.elsewhere && may_wait {
                    "it is at work, and may be cancelled where it runs"
                } else if standing.elsewhere {
                    "it is at work; wait for its end"
                } else {
                    "resume it or leave it as it is first"
                };
                self.say(OperationNews::Standing(Some(standing)));
                Err(Problem::new(ProblemKind::Other, what, mend, Timestamp::now()))
            }
        }
    }

    /// What stands half way, as far as that can be told.
    fn kind(&self) -> OperationKind {
        let standing = standing(&self.ground.state, &self.spec.name).ok().flatten();
        standing.map_or(OperationKind::Restart, |s| s.operation.kind())
    }

    fn journal(&self) -> Result<Journal, Problem> {
        Ok(Journal::open(&self.ground.state, &self.spec.name)?)
    }

    async fn begin(&self, task: Task, others: Others, take_over: Option<String>) {
        let kind = task.kind();
        // First what runs here: its mark would be told as somebody else's.
        let free = match self.is_free() {
            Ok(()) => self.is_unmarked(&Facts::default(), take_over.as_deref()).await,
            busy => busy,
        };
        if let Err(problem) = free {
            return self.say(OperationNews::Refused(kind, problem));
        }
        // What runs on a worker stood in the dialog.
        let scope = Scope { others, now: true, ..Scope::of(&self.spec) };
        let opened =
            preflight(&self.spec, &self.ground.options, &task).and_then(|()| self.is_free()).and_then(|()| {
                let mut journal = self.journal()?;
                if journal.unfinished().is_some() {
                    // It came in between; it is told of by the look at the journals.
                    return Err(Problem::new(
                        ProblemKind::Other,
                        "another operation stands half way",
                        "",
                        Timestamp::now(),
                    ));
                }
                journal.begin(&task, &scope)?;
                Ok(journal)
            });
        let operation = Operation::new(task, self.spec.name.clone());
        match opened {
            Ok(journal) => {
                if !kind.is_of_cluster() {
                    self.note(&operation.deed(), "begun");
                }
                self.work(operation, journal, None, take_over).await;
            }
            Err(problem) => self.say(OperationNews::Refused(kind, problem)),
        }
    }

    async fn resume(&self, forward: bool) {
        let kind = self.kind();
        let mut journal = match self.journal() {
            Ok(journal) => journal,
            Err(problem) => return self.say(OperationNews::Refused(kind, problem)),
        };
        let Some(mut unfinished) = journal.unfinished().cloned() else {
            return self.say(OperationNews::Standing(None));
        };
        let may = match unfinished.belongs_to(&self.spec) {
            Ok(()) => self.hits_no_stranger(&unfinished).await,
            refused => refused,
        };
        let passed = unfinished.next().filter(|s| forward && s.may_be_passed());
        let may = may.and_then(|()| match passed {
            Some(step) => Ok(unfinished.pass(step, &mut journal)?),
            None => Ok(()),
        });
        if let Err(problem) = may {
            return self.say(OperationNews::Refused(kind, problem));
        }
        if let Err(problem) = self.is_unmarked(&unfinished.facts, None).await {
            return self.say(OperationNews::Refused(kind, problem));
        }
        let operation = unfinished.operation(&self.spec.name);
        self.work(operation, journal, Some(unfinished), None).await;
    }

    /// As long as nothing was changed: people whose jobs it would end may have come since it was begun.
    async fn hits_no_stranger(&self, unfinished: &Unfinished) -> Result<(), Problem> {
        if !unfinished.asks_first() {
            return Ok(());
        }
        let (me, cluster) = (&self.ground.me, (&self.spec, &self.ground.options));
        // Without an answer its own look fails, or says that it goes on without one.
        let Ok(session) = self.connect().await else { return Ok(()) };
        let seen = preview(&session.client, cluster, me, &unfinished.task).await;
        session.close().await;
        let others = match seen {
            Ok(seen) => unfinished.scope.not_allowed(&seen),
            // The worker may be gone by now, which its own steps find out.
            Err(_) if !unfinished.task.kind().is_of_cluster() => Others::default(),
            Err(problem) => return Err(problem),
        };
        if others.is_empty() {
            return Ok(());
        }
        let what = format!("{others} run there now, of which nothing was known when it was begun");
        let mend = "ask their owners; leave this operation as it is (nothing was changed), and begin anew";
        Err(Problem::new(ProblemKind::Other, what, mend, Timestamp::now()))
    }

    async fn abandon(&self) {
        let mut journal = match self.journal() {
            Ok(journal) => journal,
            Err(problem) => return self.say(OperationNews::Refused(self.kind(), problem)),
        };
        if let Some(unfinished) = journal.unfinished().cloned() {
            let deed = unfinished.operation(&self.spec.name).deed();
            if let Err(e) = journal.end("abandoned") {
                return self.say(OperationNews::Refused(unfinished.task.kind(), e.into()));
            }
            if let Err(problem) = remove_mark(&self.spec, &self.ground.options, &unfinished.facts).await {
                tracing::warn!("{}; {}", problem.what, problem.mend);
            }
            self.note(&deed, "abandoned");
        }
        self.say(OperationNews::Ended(OperationEnd::Abandoned));
    }

    /// Does the steps. While it does, nothing of the journal is told but by us.
    async fn work(
        &self,
        operation: Operation,
        mut journal: Journal,
        unfinished: Option<Unfinished>,
        take_over: Option<String>,
    ) {
        let (cancel, mut cancels) = mpsc::unbounded_channel();
        {
            let mut works = locked(&self.works);
            works.insert(self.spec.name.clone(), cancel);
            self.say(OperationNews::Began(operation.clone()));
        }
        let end = self.steps(&operation, &mut journal, (unfinished, take_over), &mut cancels).await;
        drop(journal);
        let outcome = match &end {
            OperationEnd::Done => "done".to_owned(),
            OperationEnd::Cancelled(how) => (*how).to_owned(),
            OperationEnd::Abandoned => "abandoned".to_owned(),
            OperationEnd::Stopped(problem, _) => format!("stopped: {}", problem.what),
        };
        self.note(&operation.deed(), &outcome);
        let mut works = locked(&self.works);
        works.remove(&self.spec.name);
        self.say(OperationNews::Ended(end));
    }

    async fn steps(
        &self,
        operation: &Operation,
        journal: &mut Journal,
        (unfinished, take_over): (Option<Unfinished>, Option<String>),
        cancels: &mut mpsc::UnboundedReceiver<()>,
    ) -> OperationEnd {
        let done = unfinished.as_ref().map(|u| u.done.clone()).unwrap_or_default();
        let facts = unfinished.map(|u| u.facts).unwrap_or_default();
        let (cluster, options) = ((self.spec.clone(), self.place), self.ground.options.clone());
        let state = self.ground.state.clone();
        let mut performer = Performer::new(cluster, options, state, operation.task.clone(), facts);
        performer.take_over = take_over;
        let (tell, mut heard) = mpsc::unbounded_channel();
        let ended = {
            let running = performer.run(operation, journal, &done, &tell, cancels);
            tokio::pin!(running);
            loop {
                tokio::select! {
                    biased;
                    Some(progress) = heard.recv() => self.say(OperationNews::Progress(progress)),
                    ended = &mut running => break ended,
                }
            }
        };
        while let Ok(progress) = heard.try_recv() {
            self.say(OperationNews::Progress(progress));
        }
        match ended {
            Ok(Outcome::Done) => OperationEnd::Done,
            Ok(Outcome::Cancelled(how)) => OperationEnd::Cancelled(how),
            Err(problem) => {
                let saved = performer.facts.backup.filter(|b| b.join("jobs.json").exists());
                OperationEnd::Stopped(problem, saved.map(|b| b.display().to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Folders, Settings};
    use crate::token::Places;
    use std::time::Instant;

    #[tokio::test]
    async fn notes_that_are_written_are_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::new(&[("HOME", home.path().to_str().unwrap())], home.path());
        let ground = Ground {
            clusters: Vec::new(),
            options: Options::new(&Settings::default(), &Folders::new(&env), Places::default()),
            state: home.path().to_owned(),
            env,
            me: "me".into(),
            audit: Audit::new(home.path(), "me"),
            read_only: false,
        };
        let mut operator = Operator::start(ground, mpsc::unbounded_channel().0);
        let deadline = Instant::now() + Duration::from_secs(30);
        operator.note(ClusterName::new("a"), "stop-job x".into(), "ended".into());
        // The watch over the journals, and the note just made.
        while operator.tasks.len() > 2 || operator.ground.audit.read().unwrap().0.len() < 3 {
            assert!(Instant::now() < deadline, "{} tasks are kept", operator.tasks.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
            operator.note(ClusterName::new("a"), "stop-job x".into(), "ended".into());
        }
    }
}
