//! From a command's arguments to a cluster that answers, with progress on stderr for what takes longer than a second.

use super::Arguments;
use super::console::{make_folders, places};
use crate::config::{self, Config, Entry, Env, Folders};
use crate::model::{ClusterSpec, Phase, Problem, ProblemKind};
use crate::operation::Environment;
use crate::supervisor::{self, Connection, Note, Options, Session};
use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Silence that a person bears.
const SILENCE: Duration = Duration::from_secs(1);

/// The one cluster that a command means, and how to get there.
pub(super) struct Reach {
    /// The cluster.
    pub spec: ClusterSpec,
    /// How to connect.
    pub options: Options,
    /// Our folders.
    pub folders: Folders,
    /// Where the command was given.
    pub env: Env,
    /// Its place in the list.
    pub place: usize,
    /// Nothing may be changed on it.
    pub read_only: bool,
    /// The fingerprint that the head's changed host key must have to be accepted.
    accept_host_key: Option<String>,
}

impl Reach {
    /// The cluster of `--cluster`, or the only one there is.
    pub fn new(arguments: &Arguments, config: &Config, env: Env) -> anyhow::Result<Self> {
        let name = arguments.sources.cluster.as_deref();
        let clusters = || config.entries.iter().filter_map(Entry::cluster);
        let spec = match (name, &clusters().collect::<Vec<_>>()[..]) {
            (Some(name), _) => config::resolve(name, &config.entries)?.clone(),
            (None, [only]) => (*only).clone(),
            (None, all) => {
                let names: Vec<_> = all.iter().map(|c| c.name.to_string()).collect();
                anyhow::bail!("which cluster? name it with --cluster: {}", names.join(", "))
            }
        };
        let place = clusters().position(|c| c.name == spec.name).unwrap_or(0);
        let folders = Folders::new(&env);
        let places = places(&env, &folders);
        make_folders(&folders, &places)?;
        let mut options = Options::new(&config.settings, &folders, places);
        options.who = super::audit::who(&env);
        // What a connection does by itself is said as well: a host key that it accepted.
        options.note = Note::by({
            let audit = super::audit::log(&env, &folders);
            move |cluster, what, outcome| {
                eprintln!("{cluster}: {what}: {outcome}");
                super::audit::write(&audit, cluster, what, outcome);
            }
        });
        let read_only = config.settings.read_only;
        let accept_host_key = arguments.sources.accept_host_key.clone();
        Ok(Self { spec, options, folders, env, place, read_only, accept_host_key })
    }

    /// Runs a command's work to its end.
    pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let done = runtime.block_on(work);
        // Threads that still wait for a network must not keep the shell waiting.
        runtime.shutdown_background();
        done
    }

    /// The cluster, once it answers.
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

    /// The same; a problem is the caller's to tell.
    pub async fn open(&self, progress: &Progress) -> Result<Session, Problem> {
        self.accept_host_key().await?;
        let tell = |phase| progress.phase(phase);
        supervisor::connect(self.spec.clone(), self.place, self.options.clone(), tell).await
    }

    /// What operations on this one cluster need to know of the world.
    pub fn environment(&self, connection: Connection) -> Environment {
        Environment {
            clusters: vec![self.spec.clone()],
            connections: BTreeMap::from([(self.spec.name.clone(), connection)]),
            options: self.options.clone(),
            state: self.folders.state.clone(),
            env: self.env.clone(),
            me: self.env.user().unwrap_or_default().to_owned(),
            audit: super::audit::log(&self.env, &self.folders),
            read_only: self.read_only,
        }
    }

    /// Writes the audit log. That it cannot be written must not undo what was done: it is said.
    pub fn note(&self, what: &str, outcome: &str) {
        super::audit::write(&super::audit::log(&self.env, &self.folders), &self.spec.name, what, outcome);
    }

    /// A problem as the error of a command.
    pub fn error(&self, problem: &Problem) -> anyhow::Error {
        let Problem { what, mend, .. } = problem;
        let mend = match &problem.kind {
            ProblemKind::HostKeyChanged { offered, .. } => format!("; {mend}: --accept-host-key {offered}"),
            _ if mend.is_empty() => String::new(),
            _ => format!("; {mend}"),
        };
        anyhow::anyhow!("{}: {what}{mend}", self.spec.name)
    }
}

/// What is being done, on stderr, once that has taken a second.
pub(super) struct Progress {
    state: Arc<Mutex<State>>,
    timer: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    speaks: bool,
    words: String,
}

impl Progress {
    /// Silent at first. Called in a runtime.
    pub fn new() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let later = Arc::clone(&state);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(SILENCE).await;
            let mut state = locked(&later);
            state.speaks = true;
            if !state.words.is_empty() {
                eprintln!("{}", state.words);
            }
        });
        Self { state, timer }
    }

    /// Says what a connection is at.
    pub fn phase(&self, phase: Phase) {
        self.tell(match phase {
            Phase::Address => "looking for the head's address",
            Phase::Tunnel => "opening the tunnel",
            Phase::Dashboard => "waiting for the dashboard",
        });
    }

    /// Says what is being done now.
    pub fn tell(&self, words: impl Into<String>) {
        let mut state = locked(&self.state);
        let words = words.into();
        if state.words == words {
            return;
        }
        if state.speaks {
            eprintln!("{words}");
        }
        state.words = words;
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

/// Asks on the terminal before something that cannot be undone. `--yes` answers; without a terminal it is needed.
pub(super) fn confirm(consequence: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    let consequence = crate::model::text::printable(consequence).into_owned();
    if !io::stdin().is_terminal() {
        anyhow::bail!("{consequence}: say --yes to do so without being asked");
    }
    eprint!("{consequence}. go on? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { anyhow::bail!("nothing was done") }
}
