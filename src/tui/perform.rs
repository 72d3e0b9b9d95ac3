//! Carries out effects and reports their outcome.

use super::clipboard::{Copier, ON_CLIPBOARD, TerminalEnv};
use super::files::{self, Written};
use super::input::is_shell_job;
use super::layout::LayoutWriter;
use super::typed::LineWriter;
use crate::app::{Effect, Event, Outcome, Viewer};
use crate::config::TypedLines;
use crate::model::amount::counted;
use crate::model::cloud::TpuHost;
use crate::model::{ClusterName, Problem, ProblemKind, Secret, Target, Timestamp};
use crate::operation::{Audit, Environment, Journals, Operations, ServiceEvent};
use crate::supervisor::{Supervisor, clean_environment};
use crate::task;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempPath;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Work that takes longer than this is announced.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(300);
/// How long layout writes may take when the console quits.
const SAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A program that will use the terminal, and the file that it shows.
type Prepared = (Command, Option<TempPath>);

/// Why the loop returns.
pub enum Exit {
    /// A key or a signal asked to quit.
    Quit,
    /// The terminal is handed to this command until it exits.
    HandOver(Box<Command>),
    /// The process is stopped until a shell continues it.
    Stop,
}

/// The part of an effect that only the owner of the terminal can perform.
pub enum Turn {
    /// Redraw the whole screen.
    Redraw,
    /// Return from the loop.
    Exit(Exit),
}

/// Carries out effects. Slow work runs on separate threads.
pub struct Performer {
    supervisor: Supervisor,
    copier: Copier,
    /// The token copied last, and the time at which it is removed from the clipboard.
    copied: Option<(Secret, Instant)>,
    /// The address that was not copied because a token is on the clipboard; a second request copies it.
    held_back: Option<String>,
    remote: bool,
    operations: Option<(Operations, mpsc::Receiver<ServiceEvent>)>,
    lines: Option<LineWriter>,
    audit: Option<Audit>,
    /// Tokens that are being read, to be copied.
    tokens: JoinSet<(ClusterName, Result<Secret, Problem>)>,
    /// The login, or other program for the terminal, that is being prepared.
    logins: JoinSet<Result<Prepared, String>>,
    /// Dashboards that are being opened.
    dashboards: JoinSet<(ClusterName, Result<String, Problem>)>,
    layout: LayoutWriter,
    /// The prepared program.
    login: Option<Command>,
    /// The file that it shows, which is removed afterwards.
    lent: Option<TempPath>,
    /// Turns for the loop, in order.
    turns: VecDeque<Turn>,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
}

impl Performer {
    /// A performer for the clusters of `supervisor`, which copies from `terminal_env`.
    pub fn new(supervisor: Supervisor, terminal_env: TerminalEnv) -> Self {
        let events = mpsc::unbounded_channel();
        let waits: mpsc::UnboundedSender<Event> = events.0.clone();
        // The receiver is dropped with the console.
        supervisor.on_wait(move |wait| drop(waits.send(Event::GoogleWait(wait))));
        Self {
            supervisor,
            copier: Copier::new(terminal_env),
            copied: None,
            held_back: None,
            remote: terminal_env.remote,
            operations: None,
            lines: None,
            audit: None,
            tokens: JoinSet::new(),
            logins: JoinSet::new(),
            dashboards: JoinSet::new(),
            layout: LayoutWriter::default(),
            login: None,
            lent: None,
            turns: VecDeque::new(),
            events,
        }
    }

    /// The same performer, which also saves the layout to that file.
    #[must_use]
    pub fn keeping(self, layout: PathBuf) -> Self {
        Self { layout: LayoutWriter::of(layout), ..self }
    }

    /// The same performer, which also runs operations in that environment, over the connections of the supervisor's
    /// tasks. Must be called in a runtime.
    #[must_use]
    pub fn operating(mut self, environment: Environment) -> Self {
        let connections = self.supervisor.connections();
        let environment = Environment { connections, ..environment };
        self.audit = Some(environment.audit.clone());
        self.operations = Some(Operations::start(environment, Journals::Watched));
        self
    }

    /// The same performer, which also saves typed lines to that file, if there is one. Must be called in a runtime.
    #[must_use]
    pub fn saving(mut self, typed: Option<TypedLines>) -> Self {
        self.lines = typed.map(|file| LineWriter::start(file, self.events.0.clone()));
        self
    }

    /// The next event that effects cause; waits forever if there is none.
    pub async fn done(&mut self) -> Event {
        loop {
            tokio::select! {
                Some(event) = self.events.1.recv() => return event,
                Some(event) = of(&mut self.operations) => return event,
                Some(Ok((cluster, token))) = self.tokens.join_next() => self.copy_token(&cluster, token),
                Some(prepared) = self.logins.join_next() => match prepared {
                    Ok(Ok((command, lent))) => {
                        (self.login, self.lent) = (Some(command), lent);
                        return Event::Ignored;
                    }
                    Ok(Err(why)) => self.report(Outcome::Failed(why)),
                    Err(e) => self.report(Outcome::Failed(format!("not started: {e}"))),
                },
                Some(Ok((cluster, url))) = self.dashboards.join_next() => self.show_dashboard(&cluster, url),
                Some(failure) = self.layout.written() => {
                    if let Some(why) = failure {
                        self.report(Outcome::Failed(why));
                    }
                }
                () = long_enough(self.copied.as_ref()) => self.forget(),
            }
        }
    }

    /// The part of [`Performer::done`] that does not use the terminal: the next event of an operation, which would
    /// otherwise wait. It also removes the token from the clipboard when its time is up.
    pub async fn beside_a_program(&mut self) -> Event {
        loop {
            tokio::select! {
                Some(event) = of(&mut self.operations) => return event,
                () = long_enough(self.copied.as_ref()) => self.forget(),
            }
        }
    }

    fn forget(&mut self) {
        if self.clear_clipboard() {
            self.report(Outcome::Cleared("removed the token from the clipboard".into()));
        }
    }

    /// Removes the token from the desktop's clipboard if it is still there; returns whether it was. A terminal's
    /// clipboard cannot be read, so it is left alone.
    fn clear_clipboard(&mut self) -> bool {
        self.copied.take().is_some_and(|(token, _)| self.copier.clear(token.expose()))
    }

    /// Carries out these effects.
    pub fn perform_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.perform(effect);
        }
    }

    /// Carries out one effect; turns for the loop are queued ([`Performer::turn`]).
    pub fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Ask(cluster, request) => self.supervisor.ask(&cluster, request),
            Effect::Copy { what, text } => self.copy(&what, &text),
            Effect::CopyToken(cluster) => self.find_token(cluster),
            Effect::OpenDashboard(cluster) => self.open_dashboard(cluster),
            Effect::Note(cluster, what, outcome) => {
                if let Some((operations, _)) = &self.operations {
                    operations.note(cluster, what, outcome);
                }
            }
            Effect::ReadAudit => self.read_audit(),
            Effect::Submit(cluster, form, draft) => {
                if let Some((operations, _)) = &self.operations {
                    operations.submit(&cluster, form, *draft);
                }
            }
            Effect::Fill(cluster, form, id) => {
                if let Some((operations, _)) = &self.operations {
                    operations.fill(&cluster, form, id);
                }
            }
            Effect::Stacks(cluster, driver) => {
                if let Some((operations, _)) = &self.operations {
                    operations.stacks(&cluster, driver);
                }
            }
            Effect::WorkerFiles(cluster, driver, process) => {
                if let Some((operations, _)) = &self.operations {
                    operations.worker_files(&cluster, driver, process);
                }
            }
            Effect::Chips(cluster, nodes) => {
                if let Some((operations, _)) = &self.operations {
                    operations.chips(&cluster, nodes);
                }
            }
            Effect::JobWorkers(cluster, known, part) => {
                if let Some((operations, _)) = &self.operations {
                    operations.job_workers(&cluster, *known, part);
                }
            }
            Effect::Operate(cluster, order) => match &self.operations {
                Some((operations, _)) => operations.order(&cluster, order),
                None => self.report(Outcome::Failed("operations are not available here".into())),
            },
            Effect::Remember(change) => self.layout.keep(change),
            Effect::Save(kind, text) => {
                if let Some(lines) = &self.lines {
                    lines.add(kind, text);
                }
            }
            Effect::WriteFile { path, text, replace, loaded_lines } => {
                self.write_file(path, text, (replace, loaded_lines));
            }
            Effect::ShowText { viewer, text, line } => self.prepare_viewer(viewer, text, line),
            Effect::SshHost(cluster, host) => self.prepare_login(&cluster, &host),
            Effect::SshHead(cluster) => self.login(&cluster),
            Effect::Quit => self.turns.push_back(Turn::Exit(Exit::Quit)),
            Effect::Redraw => self.turns.push_back(Turn::Redraw),
            Effect::Suspend if is_shell_job() => self.turns.push_back(Turn::Exit(Exit::Stop)),
            Effect::Suspend => {
                let why = "cannot suspend: no shell with job control started the console";
                self.report(Outcome::Failed(why.into()));
            }
        }
    }

    /// The next turn for the loop.
    pub fn turn(&mut self) -> Option<Turn> {
        self.turns.pop_front()
    }

    /// Hands the terminal to a login on the head of a cluster; reports the reason if that is not possible.
    fn login(&mut self, cluster: &ClusterName) {
        self.logins = JoinSet::new();
        match self.supervisor.login(cluster) {
            Ok(command) => self.turns.push_back(Turn::Exit(Exit::HandOver(Box::new(command)))),
            Err(why) => self.report(Outcome::Failed(why)),
        }
    }

    /// Writes lines to a file on a separate thread: it may be on a network home directory.
    fn write_file(&self, path: String, text: String, (replace, loaded_lines): (bool, usize)) {
        let events = self.events.0.clone();
        task::spawn_blocking(move || {
            let event = match files::write(&path, &text, replace) {
                Written::Done(file) => {
                    let lines = text.lines().count();
                    let lines = match loaded_lines {
                        loaded_lines if loaded_lines > lines => {
                            format!("the {} of {loaded_lines} that are shown", counted(lines, "line"))
                        }
                        _ => counted(lines, "line"),
                    };
                    Event::Done(Outcome::Saved(format!("saved {lines} to {}", file.display())))
                }
                Written::Exists => Event::FileExists { path, text, loaded_lines },
                Written::Failed(why) => Event::Done(Outcome::Failed(why)),
            };
            // The console may have quit in the meantime.
            let _ = events.send(event);
        });
    }

    /// Reads the audit log in the background.
    fn read_audit(&self) {
        let Some(audit) = self.audit.clone() else { return };
        let events = self.events.0.clone();
        // The console may have quit in the meantime.
        task::spawn_blocking(move || drop(events.send(Event::Audit(files::entries(&audit)))));
    }

    /// Prepares a program that shows lines; cancels an earlier one that has not started.
    fn prepare_viewer(&mut self, viewer: Viewer, text: String, line: usize) {
        self.logins = JoinSet::new();
        let command = task::spawn_blocking(move || files::lend(viewer, &text, line));
        task::spawn_on(&mut self.logins, async move {
            let lent = command.await.map_err(|e| e.to_string())?;
            let (command, path) = lent.map_err(|e| format!("cannot write a temporary file: {e}"))?;
            Ok((command, Some(path)))
        });
    }

    /// Removes the file that a program has shown.
    pub fn take_back(&mut self) {
        self.lent = None;
    }

    /// The command that logs in to a TPU host, once it is prepared.
    pub fn take_login(&mut self) -> Option<Command> {
        self.login.take()
    }

    /// Prepares the login to a TPU host; cancels an earlier one that has not started.
    fn prepare_login(&mut self, cluster: &ClusterName, host: &TpuHost) {
        self.logins = JoinSet::new();
        let name = if host.vm.is_empty() { &host.internal } else { &host.vm };
        let words = format!("logging in to {name}");
        let command = self.supervisor.login_host(cluster, host);
        let command = async { Ok((command.await?, None)) };
        task::spawn_on(&mut self.logins, announcing(self.events.0.clone(), words, command));
    }

    /// Reads the token on a separate thread: its file may be on a network home directory.
    fn find_token(&mut self, cluster: ClusterName) {
        let words = format!("reading the token of {cluster}");
        let found = task::spawn_blocking(self.supervisor.token_finder(&cluster));
        let token = async move {
            let failed = |e: JoinError| Problem::new(ProblemKind::Other, e.to_string(), "", Timestamp::now());
            (cluster, found.await.unwrap_or_else(|e| Err(failed(e))))
        };
        task::spawn_on(&mut self.tokens, announcing(self.events.0.clone(), words, token));
    }

    fn copy_token(&mut self, cluster: &ClusterName, token: Result<Secret, Problem>) {
        match token {
            Ok(token) => {
                let how = self.copier.copy_secret(&token, || Ok(io::stdout()));
                self.report_copied(&format!("token of {cluster}"), how);
                self.copied = Some((token, Instant::now() + ON_CLIPBOARD));
                self.held_back = None;
            }
            Err(problem) => self.report(Outcome::Failed(problem.in_commands(Target::default()))),
        }
    }

    /// Ends the task of each cluster and waits until its ssh has exited; waits for a limited time until the layout is
    /// written.
    pub async fn shutdown(mut self) {
        self.clear_clipboard();
        let _ = tokio::time::timeout(SAVE_TIMEOUT, self.layout.finish()).await;
        if let Some(lines) = self.lines.take() {
            lines.finish().await;
        }
        self.supervisor.shutdown().await;
    }

    fn report(&self, outcome: Outcome) {
        // The receiver lives as long as `self`.
        let _ = self.events.0.send(Event::Done(outcome));
    }

    fn copy(&mut self, what: &str, text: &str) {
        let how = self.copier.copy(text, || Ok(io::stdout()));
        if how.is_ok() {
            (self.copied, self.held_back) = (None, None);
        }
        self.report_copied(what, how);
    }

    fn report_copied(&self, what: &str, how: io::Result<&'static str>) {
        let outcome = match how {
            Ok(how) => Outcome::Copied(format!("copied {what} {how}")),
            Err(e) => Outcome::Failed(format!("cannot copy {what}: {e}")),
        };
        self.report(outcome);
    }

    /// Copies the address of a dashboard. It replaces a copied token only after a second request.
    fn copy_address(&mut self, cluster: &ClusterName, url: String) {
        if self.copied.is_some() && self.held_back.as_ref() != Some(&url) {
            let text = format!(
                "dashboard of {cluster}: {url} (not copied: the clipboard holds a token; press the key again to replace it)"
            );
            self.held_back = Some(url);
            return self.report(Outcome::Returned(text));
        }
        let instead = if self.copied.is_some() { " instead of the token" } else { "" };
        self.copy(&format!("dashboard address {url}{instead}"), &url);
    }

    fn open_dashboard(&mut self, cluster: ClusterName) {
        let words = format!("opening the dashboard of {cluster}");
        let url = self.supervisor.dashboard(&cluster);
        let url = async move { (cluster, url.await) };
        task::spawn_on(&mut self.dashboards, announcing(self.events.0.clone(), words, url));
    }

    /// Starts a browser on the dashboard, or copies its address when the console runs remotely.
    fn show_dashboard(&mut self, cluster: &ClusterName, url: Result<String, Problem>) {
        let url = match url {
            Ok(url) => url,
            Err(problem) => {
                let why = format!("cannot open the dashboard of {cluster}: {}", problem.what);
                return self.report(Outcome::Failed(why));
            }
        };
        if self.remote {
            // A browser started here would open on the remote machine.
            return self.copy_address(cluster, url);
        }
        let events = self.events.0.clone();
        std::thread::spawn(move || {
            let outcome = match start_browser(&url) {
                Ok(()) => Outcome::Opened(format!("opened {url}")),
                Err(e) => Outcome::Failed(format!("cannot open a browser: {e}; open {url} yourself")),
            };
            // The console may have quit in the meantime.
            let _ = events.send(Event::Done(outcome));
        });
    }
}

/// The next event of the service; `None` if operations are not run.
async fn of(operations: &mut Option<(Operations, mpsc::Receiver<ServiceEvent>)>) -> Option<Event> {
    let (_, receiver) = operations.as_mut()?;
    Some(match receiver.recv().await? {
        ServiceEvent::Operation(cluster, event) => Event::Operation(cluster, *event),
        ServiceEvent::Form(cluster, form, event) => Event::Form(cluster, form, event),
        ServiceEvent::Stacks(cluster, driver, result) => Event::Stacks(cluster, driver, result),
        ServiceEvent::WorkerFiles(cluster, process, files) => Event::WorkerFiles(cluster, process, files),
        ServiceEvent::Chips(cluster, nodes, result) => Event::Chips(cluster, nodes, result),
        ServiceEvent::JobWorkers(cluster, job, part, reading) => {
            Event::JobWorkers(cluster, job, part, reading)
        }
    })
}

/// Waits until a copied token has been on the clipboard long enough; forever if there is none.
async fn long_enough(copied: Option<&(Secret, Instant)>) {
    match copied {
        Some((_, until)) => sleep_until(*until).await,
        None => std::future::pending().await,
    }
}

/// Does the work; announces it if it takes longer than [`ANNOUNCE_AFTER`].
async fn announcing<T>(
    events: mpsc::UnboundedSender<Event>,
    words: String,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(ANNOUNCE_AFTER, &mut work).await {
        return done;
    }
    // The console may be quitting.
    let _ = events.send(Event::Done(Outcome::Announced(words)));
    work.await
}

/// Starts the first browser command that works, without output and without our secrets in its environment.
pub fn start_browser(url: &str) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for mut command in open::commands(url) {
        clean_environment(&mut command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => last = io::Error::other(status.to_string()),
            Err(e) => last = e,
        }
    }
    Err(last)
}
