//! `marin-tui --plain`: prints changes line by line with clock times. Uses no screen and reads no keys.

use super::output;
use super::reach::{block_on, runtime};
use super::signals::Signals;
use crate::app::{App, Event, Feed};
use crate::model::{ClusterEvent, ClusterName, ClusterSpec, Request, Timestamp};
use crate::state::Update;
use crate::supervisor::{Options, Supervisor};
use crate::task;
use std::io::{self, Write};
use std::time::Duration;
use tokio::sync::mpsc;

/// Capacity of the channel of events. If the reader of the lines is slower, the clusters' tasks wait.
const CHANNEL_CAPACITY: usize = 256;
/// Interval at which to check whether the reader has closed the output.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Prints the changes of all clusters, or of the chosen one, until a signal, or until the reader closes the output.
pub(super) fn run(
    mut app: App,
    mut specs: Vec<ClusterSpec>,
    options: Options,
    chosen: Option<&ClusterName>,
) -> anyhow::Result<()> {
    specs.retain(|spec| chosen.is_none_or(|name| spec.name == *name));
    let runtime = runtime()?;
    let ended = block_on(&runtime, async {
        let mut signals = Signals::listen()?;
        let (updates, mut receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let supervisor = Supervisor::start(specs, options, &updates);
        drop(updates);
        supervisor.on_wait(|wait| eprintln!("{}", wait.text(wait.left)));
        if let Some(name) = chosen {
            supervisor.ask(name, Request::Focus(true));
        }
        let printed = tokio::select! {
            printed = print(&mut app, chosen.is_none(), &mut receiver) => printed,
            () = signals.any() => Ok(()),
            () = gone() => Ok(()),
        };
        supervisor.shutdown().await;
        printed
    });
    // A blocked write must not keep the program running.
    runtime.shutdown_background();
    match ended {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => Ok(ended?),
    }
}

async fn print(app: &mut App, all: bool, receiver: &mut mpsc::Receiver<Update>) -> io::Result<()> {
    let mut feed = Feed::default();
    let broken = app.fleet().broken.iter().filter(|_| all);
    write(
        broken.map(|(file, problem)| format!("{file}: {}. Hint: {}", problem.what, problem.hint)).collect(),
    )
    .await?;
    while let Some(update) = receiver.recv().await {
        let (name, now) = (update.cluster.clone(), Timestamp::now());
        let note = match &update.event {
            ClusterEvent::Note(note) => Some(format!("{name}: {note}")),
            _ => None,
        };
        // The effects are for the screen and are not needed here.
        app.update(Event::Update(update), now);
        let cluster = app.clusters().iter().find(|cluster| *cluster.name() == name);
        let changes = cluster.map(|cluster| feed.changes(cluster, now)).unwrap_or_default();
        write(note.into_iter().chain(changes).collect()).await?;
    }
    Ok(())
}

/// Resolves when the reader has closed the output. While nothing changes, no write would detect that.
async fn gone() {
    while !output::is_gone() {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Writes lines with the clock time, on a separate thread: a full pipe blocks it, but not ctrl-c.
async fn write(lines: Vec<String>) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let written = task::spawn_blocking(move || {
        let clock = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
        let mut out = output::stdout();
        lines.iter().try_for_each(|line| writeln!(out, "{clock} {line}"))?;
        out.flush()
    });
    written.await.map_err(io::Error::other)?
}
