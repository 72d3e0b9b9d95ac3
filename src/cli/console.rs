//! Starts the console: directories, log file, clusters, supervisor, terminal.

use super::directories::{make_folders, token_sources};
use super::reach::{block_on, progress_patterns, runtime};
use super::{DisplayArguments, GlobalArguments, appearance, feed, output};
use crate::app::{App, Event, Keymap, Listed, Outcome, PollIntervals, actions};
use crate::config::{self, Config, Entry, Env, Folders, Settings, TypedLines};
use crate::model::{ClusterSpec, Layout, Timestamp};
use crate::operation::Environment;
use crate::supervisor::{AuditSink, Options, Supervisor};
use crate::token;
use crate::tui;
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// Capacity of the channel to the front end. When it is full, the clusters' tasks wait.
const CHANNEL_CAPACITY: usize = 256;

/// Fails if the console is requested and stdin or stdout is not a terminal.
pub fn check_terminal(display: &DisplayArguments) -> anyhow::Result<()> {
    if !display.plain && (!output::is_terminal() || !std::io::stdin().is_terminal()) {
        anyhow::bail!(
            "the console needs a terminal; use --plain to print changes line by line, or use a command (see --help)"
        );
    }
    Ok(())
}

/// Runs the console until the user quits.
pub fn run(arguments: &GlobalArguments, config: Config, env: &Env) -> anyhow::Result<()> {
    check_terminal(&arguments.display)?;
    let folders = Folders::new(env);
    let token_sources = token_sources(env, &folders);
    make_folders(&folders, &token_sources)?;
    let log = log_to(&folders)?;
    let chosen = match &arguments.sources.cluster {
        Some(name) => Some(config::resolve(name, &config.entries)?.name.clone()),
        None => None,
    };
    let looks = appearance::chosen(&arguments.display, &config.settings, env, &folders)?;
    let keymap = Keymap::with_changes(actions(), &config.settings.keys)?.spelled_out(config.settings.plain);
    let read_only = config.settings.read_only || arguments.read_only;
    let setup = Setup { settings: &config.settings, env, folders: &folders, read_only };
    let options = setup.options(token_sources)?;
    let specs: Vec<_> = config.entries.iter().filter_map(Entry::cluster).cloned().collect();
    let environment = setup.environment(specs.clone(), &options);
    let app = setup.app(config.entries, keymap, &options)?;
    if arguments.display.plain {
        return feed::run(app, specs, options, chosen.as_ref());
    }
    let (mut app, typed) = with_history(app, &folders);
    let runtime = runtime()?;
    block_on(&runtime, async {
        let (updates, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let supervisor = Supervisor::start(specs, options, &updates);
        drop(updates);
        let effects = app.start(chosen.as_ref());
        let parts = (supervisor, environment, typed);
        tui::run(&mut app, effects, &looks, parts, receiver, !arguments.display.no_mouse).await
    })?;
    // Threads that still wait for the network must not delay the exit.
    runtime.shutdown_background();
    if let Some(why) = log.failure() {
        eprintln!("marin-tui: the log file in {} is incomplete: {why}", folders.state.display());
    }
    Ok(())
}

/// What the parts of the console are created from.
struct Setup<'a> {
    settings: &'a Settings,
    env: &'a Env,
    folders: &'a Folders,
    /// Whether all changes are refused.
    read_only: bool,
}

impl Setup<'_> {
    /// The clusters' options; actions are recorded in the audit log.
    fn options(&self, token_sources: token::TokenSources) -> anyhow::Result<Options> {
        let mut options = Options::new(self.settings, self.folders, token_sources);
        options.who = super::audit::who(self.env);
        let audit = super::audit::log(self.env, self.folders);
        options.note = AuditSink::by(move |cluster, what, outcome| {
            if let Err(e) = audit.note(cluster, what, outcome) {
                tracing::error!("cannot write the audit log: {e}");
            }
        });
        options.patterns = progress_patterns(self.settings)?;
        Ok(options)
    }

    /// The environment of operations.
    fn environment(&self, clusters: Vec<ClusterSpec>, options: &Options) -> Environment {
        Environment {
            clusters,
            // Set when the tasks are started.
            connections: BTreeMap::new(),
            options: Options { google: options.google.with_waits(), ..options.clone() },
            state: self.folders.state.clone(),
            env: self.env.clone(),
            me: self.env.user().unwrap_or_default().to_owned(),
            audit: super::audit::log(self.env, self.folders),
            read_only: self.read_only,
        }
    }

    /// The console before any cluster has reported, with the layout of the last session. Reports old backups, and a
    /// layout that cannot be read.
    fn app(&self, entries: Vec<Entry>, keymap: Keymap, options: &Options) -> anyhow::Result<App> {
        let poll_intervals = PollIntervals {
            focused: options.focused,
            background: options.background,
            cloud: options.cloud_refresh.unwrap_or_default(),
        };
        let usual = appearance::columns(self.settings)?;
        let layout = config::read_layout(&config::layout_file(&self.folders.state));
        let mut app = App::new(entries.into_iter().map(listed).collect(), keymap)
            .with_read_only(self.read_only)
            .with_user(self.env.user().unwrap_or_default())
            .holding(self.settings.log_memory())
            .with_progress_patterns(&options.patterns)
            .with_poll_intervals(poll_intervals)
            .arranged(usual, layout.as_ref().unwrap_or(&Layout::default()));
        if let Err(e) = &layout {
            app.update(Event::Done(Outcome::Failed(e.to_string())), Timestamp::now());
        }
        if let Some(words) = super::backups::reminder(self.folders, self.settings) {
            app.update(Event::Done(Outcome::Announced(words)), Timestamp::now());
        }
        Ok(app)
    }
}

/// The console with the input history of earlier sessions, and where to save it. A history that cannot be read is
/// reported, and nothing is saved.
fn with_history(mut app: App, folders: &Folders) -> (App, Option<TypedLines>) {
    let typed = TypedLines::new(&folders.state);
    match typed.read() {
        Ok(lines) => {
            if lines.is_empty() {
                app.welcome(Timestamp::now());
            }
            (app.with_history(&lines), Some(typed))
        }
        Err(e) => {
            let path = typed.path().display();
            let why =
                format!("cannot read the input history: {path}: {e}; remove the file to start a new history");
            app.update(Event::Done(Outcome::Failed(why)), Timestamp::now());
            (app, None)
        }
    }
}

fn listed(entry: Entry) -> Listed {
    match entry {
        Entry::Cluster(spec) => Listed::Cluster(spec),
        Entry::Broken(broken) => {
            Listed::Broken { file: broken.file.display().to_string(), problem: broken.problem }
        }
    }
}

/// The log file. Write failures (for example a full disk) are recorded and reported at exit, because printing them
/// earlier would damage the screen.
#[derive(Clone, Debug)]
struct LogFile {
    file: Arc<File>,
    failure: Arc<OnceLock<String>>,
}

impl LogFile {
    /// The first write failure, if any.
    fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(e) = (&*self.file).write_all(bytes) {
            self.failure.get_or_init(|| e.to_string());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends the program's log to a file readable only by its owner, truncated at each start. A terminal UI must not print.
fn log_to(folders: &Folders) -> anyhow::Result<LogFile> {
    let path = folders.state.join("marin-tui.log");
    let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    let log = LogFile { file: Arc::new(file), failure: Arc::default() };
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .log_internal_errors(false)
        .with_ansi(false)
        .with_max_level(tracing::Level::INFO)
        .init();
    Ok(log)
}
