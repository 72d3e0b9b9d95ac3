//! Connects a command to its cluster, with progress on stderr if that takes longer than a second.

use super::directories::{make_folders, token_sources};
use super::{GlobalArguments, google};
use crate::config::{self, Config, Entry, Env, Folders, Settings};
use crate::logs::Patterns;
use crate::model::sort;
use crate::model::{ClusterSpec, Phase, Problem, Target};
use crate::operation::Environment;
use crate::supervisor::{self, AuditSink, Connection, Options, Session};
use crate::task;
use std::io::{self, BufRead, IsTerminal};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Delay before the first progress message.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// The runtime of the tasks of a command or the console, which wait for networks rather than for a processor.
pub(super) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// Runs `work` to completion. It is boxed because the runtime's loops would otherwise be compiled, with the whole command
/// inside, for each command: more than a megabyte.
pub(super) fn block_on<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
    runtime.block_on(work)
}

/// The patterns of progress lines in the settings.
pub(super) fn progress_patterns(settings: &Settings) -> anyhow::Result<Patterns> {
    Patterns::new(settings.progress_patterns.iter().map(String::as_str))
        .map_err(|why| anyhow::anyhow!("{why}; see `progress_patterns` in the settings"))
}

/// The cluster of a command and what is needed to connect to it.
pub(super) struct Reach {
    /// The cluster of the command.
    pub spec: ClusterSpec,
    /// Connection options.
    pub options: Options,
    /// Directories of the program's own files.
    pub folders: Folders,
    /// The environment that the command was started in.
    pub env: Env,
    /// Its index in the list of clusters.
    pub cluster_index: usize,
    /// Its name without the common prefix of all clusters' names, if that is unambiguous.
    pub short: Option<String>,
    /// Whether changes to the cluster are refused.
    pub read_only: bool,
    /// The fingerprint that the head's changed host key must have to be accepted.
    accept_host_key: Option<String>,
}

impl Reach {
    /// The cluster of `--cluster`, or the only configured one.
    pub fn new(arguments: &GlobalArguments, config: &Config, env: Env) -> anyhow::Result<Self> {
        let name = arguments.sources.cluster.as_deref();
        let spec = config::chosen(name, &config.entries)?.clone();
        Self::of(spec, arguments, config, env)
    }

    /// The cluster of `--cluster`, or all of them.
    pub fn all(arguments: &GlobalArguments, config: &Config, env: &Env) -> anyhow::Result<Vec<Self>> {
        let mut clusters = config.entries.iter().filter_map(Entry::cluster);
        let Some(first) = clusters.next() else { return Ok(Vec::new()) };
        if arguments.sources.cluster.is_some() {
            return Ok(vec![Self::new(arguments, config, env.clone())?]);
        }
        if arguments.sources.accept_host_key.is_some() {
            anyhow::bail!("--accept-host-key is for one cluster; choose it with --cluster");
        }
        // The clusters share answers about Google's zones.
        let first = Self::of(first.clone(), arguments, config, env.clone())?;
        let others = clusters.zip(1..).map(|(spec, cluster_index)| Self {
            spec: spec.clone(),
            options: first.options.clone(),
            folders: first.folders.clone(),
            env: env.clone(),
            cluster_index,
            short: None,
            read_only: first.read_only,
            accept_host_key: None,
        });
        let others: Vec<Self> = others.collect();
        Ok(std::iter::once(first).chain(others).collect())
    }

    fn of(spec: ClusterSpec, arguments: &GlobalArguments, config: &Config, env: Env) -> anyhow::Result<Self> {
        let mut clusters = config.entries.iter().filter_map(Entry::cluster);
        let cluster_index = clusters.position(|c| c.name == spec.name).unwrap_or(0);
        let names: Vec<_> = config.entries.iter().filter_map(Entry::cluster).map(|c| &c.name).collect();
        let short = spec.name.short_among(names.iter().copied()).map(str::to_owned);
        let folders = Folders::new(&env);
        let token_sources = token_sources(&env, &folders);
        make_folders(&folders, &token_sources)?;
        let mut options = Options::new(&config.settings, &folders, token_sources);
        options.google = google::waiting(&options.google);
        options.patterns = progress_patterns(&config.settings)?;
        options.who = super::audit::who(&env);
        // Actions of the connection itself are reported as well, such as accepting a host key.
        options.note = AuditSink::by({
            let audit = super::audit::log(&env, &folders);
            move |cluster, what, outcome| {
                eprintln!("{cluster}: {what}: {outcome}");
                super::audit::write(&audit, cluster, what, outcome);
            }
        });
        let read_only = config.settings.read_only;
        let accept_host_key = arguments.sources.accept_host_key.clone();
        Ok(Self { spec, options, folders, env, cluster_index, short, read_only, accept_host_key })
    }

    /// Runs a command's future to completion.
    pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let runtime = runtime()?;
        let done = block_on(&runtime, work);
        // Threads that still wait for the network must not delay the exit.
        runtime.shutdown_background();
        done
    }

    /// Connects to the cluster and waits until it answers.
    pub async fn connect(&self, progress: &Progress) -> anyhow::Result<Session> {
        self.open(progress).await.map_err(|problem| self.error(&problem))
    }

    /// Accepts the head's changed host key if the command line names its fingerprint.
    pub async fn accept_host_key(&self) -> Result<(), Problem> {
        match &self.accept_host_key {
            Some(fingerprint) => supervisor::trust(&self.spec, &self.options, fingerprint).await,
            None => Ok(()),
        }
    }

    /// As [`Self::connect`], but returns the problem for the caller to report.
    pub async fn open(&self, progress: &Progress) -> Result<Session, Problem> {
        self.accept_host_key().await?;
        let on_phase = |phase| progress.phase(phase);
        supervisor::connect(self.spec.clone(), self.cluster_index, self.options.clone(), on_phase).await
    }

    /// The environment of operations on this cluster.
    pub fn environment(&self, connection: Connection) -> Environment {
        Environment {
            clusters: vec![self.spec.clone()],
            connections: sort::collected([(self.spec.name.clone(), connection)]),
            options: self.options.clone(),
            state: self.folders.state.clone(),
            env: self.env.clone(),
            me: self.env.user().unwrap_or_default().to_owned(),
            audit: super::audit::log(&self.env, &self.folders),
            read_only: self.read_only,
        }
    }

    /// Writes the audit log. A failure is reported on stderr and does not undo the action.
    pub fn note(&self, what: &str, outcome: &str) {
        super::audit::write(&super::audit::log(&self.env, &self.folders), &self.spec.name, what, outcome);
    }

    /// Converts a problem to the error of a command.
    pub fn error(&self, problem: &Problem) -> anyhow::Error {
        let problem = Problem { hint: problem.hint.for_cluster(&self.spec), ..problem.clone() };
        anyhow::anyhow!("{}: {}", self.spec.name, problem.in_commands(Target::of(&self.spec.name)))
    }
}

/// Prints progress to stderr once a command has taken a second.
pub(super) struct Progress {
    state: Arc<Mutex<State>>,
    timer: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    is_visible: bool,
    words: String,
}

impl Progress {
    /// Starts the delay before the first message. Must be called in a runtime.
    pub fn new() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let later = Arc::clone(&state);
        let timer = task::spawn(async move {
            tokio::time::sleep(PROGRESS_DELAY).await;
            let mut state = locked(&later);
            state.is_visible = true;
            if !state.words.is_empty() {
                eprintln!("{}", state.words);
            }
        });
        Self { state, timer }
    }

    /// Prints nothing, for one of several clusters that are read at the same time. Must be called in a runtime.
    pub fn silent() -> Self {
        Self { state: Arc::default(), timer: task::spawn(async {}) }
    }

    /// Shows the phase of a connection.
    pub fn phase(&self, phase: Phase) {
        self.show(phase.label());
    }

    /// Shows what the command is doing now.
    pub fn show(&self, words: impl Into<String>) {
        let mut state = locked(&self.state);
        let words = words.into();
        if state.words == words {
            return;
        }
        if state.is_visible {
            eprintln!("{words}");
        }
        state.words = words;
    }

    /// Discards a message that was not printed yet: none may follow a question that waits for its answer.
    pub fn discard(&self) {
        locked(&self.state).words.clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

fn locked(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for confirmation on the terminal. `--yes` skips it and is required without a terminal.
pub(super) fn confirm(question: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    let question = crate::model::text::printable(question).into_owned();
    if !io::stdin().is_terminal() {
        anyhow::bail!("{question} Cannot ask for confirmation: stdin is not a terminal; use --yes");
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { anyhow::bail!("nothing was done") }
}
