//! Starts the console: folders, log file, clusters, supervisor, terminal.

use super::places::{make_folders, places};
use super::reach::runtime;
use super::{Colors, GlobalArguments, output};
use crate::app::{App, Event, Keymap, Listed, Outcome, Paces};
use crate::config::{self, Config, Entry, Env, Folders};
use crate::model::Timestamp;
use crate::operation::Environment;
use crate::supervisor::{Note, Options, Supervisor};
use crate::tui;
use crate::ui::{self, Theme};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// Capacity of the channel to the front end; a cluster task that is faster waits.
const NEWS: usize = 256;

/// Fails when stdin or stdout is not a terminal.
pub fn check_terminal() -> anyhow::Result<()> {
    if !output::is_terminal() || !std::io::stdin().is_terminal() {
        anyhow::bail!("the console needs a terminal; for scripts, use a command (see --help)");
    }
    Ok(())
}

/// Runs the console until the user quits.
pub fn run(arguments: &GlobalArguments, config: Config, env: &Env) -> anyhow::Result<()> {
    check_terminal()?;
    let folders = Folders::new(env);
    let places = places(env, &folders);
    make_folders(&folders, &places)?;
    let log = log_to(&folders)?;
    let chosen = match &arguments.sources.cluster {
        Some(name) => Some(config::resolve(name, &config.entries)?.name.clone()),
        None => None,
    };
    let keymap = Keymap::with_changes(&config.settings.keys)?;
    let mut options = Options::new(&config.settings, &folders, places);
    options.who = super::audit::who(env);
    let audit = super::audit::log(env, &folders);
    options.note = Note::by(move |cluster, what, outcome| {
        if let Err(e) = audit.note(cluster, what, outcome) {
            tracing::error!("cannot write the audit log: {e}");
        }
    });
    let specs: Vec<_> = config.entries.iter().filter_map(Entry::cluster).cloned().collect();
    let environment = Environment {
        clusters: specs.clone(),
        // Those of the tasks that are started below.
        connections: BTreeMap::new(),
        options: options.clone(),
        state: folders.state.clone(),
        env: env.clone(),
        me: env.user().unwrap_or_default().to_owned(),
        audit: super::audit::log(env, &folders),
        read_only: config.settings.read_only || arguments.read_only,
    };
    let paces = Paces {
        focused: options.focused,
        background: options.background,
        cloud: options.cloud_refresh.unwrap_or_default(),
    };
    let mut app = App::new(config.entries.into_iter().map(listed).collect(), keymap)
        .reading_only(config.settings.read_only || arguments.read_only)
        .reading_every(paces);
    if let Some(words) = super::backups::reminder(&folders, &config.settings) {
        app.update(Event::Done(Outcome::Doing(words)), Timestamp::now());
    }
    let theme = Theme::new(colors(arguments.look.colors, env));
    let runtime = runtime()?;
    runtime.block_on(async {
        let (updates, news) = mpsc::channel(NEWS);
        let supervisor = Supervisor::start(specs, options, &updates);
        drop(updates);
        let effects = app.start(chosen.as_ref());
        tui::run(&mut app, effects, &theme, (supervisor, environment), news, !arguments.look.no_mouse).await
    })?;
    // Threads that still wait for a network must not keep the shell waiting.
    runtime.shutdown_background();
    if let Some(why) = log.failure() {
        eprintln!("marin-tui: the log file in {} is incomplete: {why}", folders.state.display());
    }
    Ok(())
}

fn listed(entry: Entry) -> Listed {
    match entry {
        Entry::Cluster(spec) => Listed::Cluster(spec),
        Entry::Broken(broken) => {
            Listed::Broken { file: broken.file.display().to_string(), problem: broken.problem }
        }
    }
}

/// The colours to use: the option, else what `NO_COLOR` (no-color.org), `COLORTERM` and `TERM` say.
fn colors(asked: Option<Colors>, env: &Env) -> ui::Colors {
    let term = env.var("TERM").unwrap_or_default();
    match asked {
        Some(Colors::None) => ui::Colors::None,
        Some(Colors::Full) => ui::Colors::Full,
        None if env.var("NO_COLOR").is_some() || term == "dumb" => ui::Colors::None,
        None if matches!(env.var("COLORTERM"), Some("truecolor" | "24bit")) => ui::Colors::Full,
        Some(Colors::Sixteen) | None => ui::Colors::Sixteen,
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
