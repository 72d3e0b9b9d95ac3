//! `marin-tui auth`: tunnel up, token on the clipboard, browser on the cluster's own host name.

use super::audit;
use super::console::make_folders;
use super::token::{Desk, failed, runtime};
use crate::config::{Config, Entry, Env, Folders};
use crate::model::{ClusterSpec, Link, News, Phase, Problem, Secret, SecretName, Update};
use crate::supervisor::{Note, Options, Supervisor};
use crate::tui::{self, Copier, Place};
use anyhow::{Context, bail};
use clap::Args;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui auth --cluster us-central2              token to the clipboard, dashboard in the browser
  marin-tui auth --cluster us-central2 --no-open    only the tunnel and the token

The dashboard opens at http://CLUSTER.localhost:PORT: each cluster has an origin of its own, so the cookies of two
clusters never meet. The tunnel lasts until ctrl-c.";

/// Longest wait for the cluster.
const LONGEST: Duration = Duration::from_secs(90);

/// There is neither a desktop's clipboard nor a terminal that could carry the token to one.
const NOT_COPIED: &str = "the token was not copied: there is no clipboard here, and no terminal to pass it on; run this \
                          in a terminal, or with --no-copy for the tunnel and the dashboard alone";

/// What to leave out.
#[derive(Clone, Debug, Args)]
pub struct Wishes {
    /// Another secret than the cluster's, fetched anew
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
    /// Leave the clipboard alone
    #[arg(long)]
    no_copy: bool,
    /// Leave the browser closed
    #[arg(long)]
    no_open: bool,
}

/// Runs until ctrl-c.
pub fn run(wishes: &Wishes, config: &Config, env: &Env, chosen: Option<&str>) -> anyhow::Result<()> {
    let desk = Desk::new(config, env, chosen);
    let spec = desk.cluster()?.clone();
    let folders = Folders::new(env);
    make_folders(&folders, &desk.places)?;
    let mut options = Options::new(&config.settings, &folders, desk.places.clone());
    // It is said by the news.
    options.note = Note::by({
        let audit = audit::log(env, &folders);
        move |cluster, what, outcome| audit::write(&audit, cluster, what, outcome)
    });
    let place = Place::detect(|name| env.var(name).map(str::to_owned));
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        if let Some(name) = &wishes.secret {
            options.token.variable = Some(of_secret(&spec, name, &desk).await?);
        }
        let (updates, mut news) = mpsc::channel(64);
        // The same port as from the console.
        let at = config.entries.iter().filter_map(Entry::cluster).position(|c| c.name == spec.name);
        let supervisor = Supervisor::start_one(spec.clone(), at.unwrap_or(0), options, &updates);
        drop(updates);
        let done = serve(wishes, &spec, &supervisor, &mut news, place).await;
        supervisor.shutdown().await;
        done
    });
    runtime.shutdown_background();
    done
}

/// The token of a secret that was named: it counts before everything else.
async fn of_secret(spec: &ClusterSpec, name: &str, desk: &Desk<'_>) -> anyhow::Result<Secret> {
    if !SecretName::is_name(name) {
        bail!("`{name}` is no secret's name: letters, digits, - and _");
    }
    let project = spec.google.token_secret.as_ref().and_then(|s| s.project.as_ref());
    let project = project.or(spec.google.project.as_ref()).cloned();
    let secret = SecretName { project, name: name.into() };
    Ok(desk.care.fetch(&secret).await.map_err(|p| failed(&p))?.token)
}

async fn serve(
    wishes: &Wishes,
    spec: &ClusterSpec,
    supervisor: &Supervisor,
    news: &mut mpsc::Receiver<Update>,
    place: Place,
) -> anyhow::Result<()> {
    let (mut interrupt, mut end) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let token_auth = tokio::select! {
        up = until_up(spec, news) => up?,
        _ = interrupt.recv() => return Ok(()),
        _ = end.recv() => return Ok(()),
    };
    let url = supervisor.dashboard(&spec.name).await.map_err(|p| failed(&p))?;
    let mut copied = None;
    if !token_auth {
        eprintln!("{} wants no token: every user of this machine can use its dashboard meanwhile", spec.name);
    } else if !wishes.no_copy {
        let token = supervisor.token(&spec.name).map_err(|p| failed(&p))?;
        let mut copier = Copier::new(place);
        let how = copier.copy_secret(&token, tui::terminal).context(NOT_COPIED)?;
        eprintln!("copied the token of {} {how}", spec.name);
        copied = Some((copier, token));
    }
    // A browser started here would open where nobody sits.
    if wishes.no_open || place.remote {
        eprintln!("the dashboard is at {url}");
    } else {
        let at = url.clone();
        match tokio::task::spawn_blocking(move || tui::start_browser(&at)).await? {
            Ok(()) => eprintln!("opened {url}"),
            Err(e) => eprintln!("no browser could be started ({e}); the address is {url}"),
        }
    }
    eprintln!("the tunnel lasts until ctrl-c");
    let forget = Instant::now() + tui::ON_CLIPBOARD;
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = end.recv() => break,
            () = sleep_until(forget), if copied.is_some() => clear(copied.take()),
            Some(update) = news.recv() => match update.news {
                News::Link(Link::Retrying { problem, .. } | Link::Stopped { problem }) => {
                    eprintln!("{}", say(&problem));
                }
                News::Ports { notes, .. } => notes.iter().for_each(|note| eprintln!("{}: {note}", spec.name)),
                _ => {}
            },
        }
    }
    clear(copied);
    Ok(())
}

/// Takes the token off the desktop's clipboard, if it is still there. A terminal's cannot be read, so it is left.
fn clear(copied: Option<(Copier, Secret)>) {
    if copied.is_some_and(|(mut copier, token)| copier.clear(token.expose())) {
        eprintln!("took the token off the clipboard");
    }
}

/// Waits for the cluster and tells what it is at; whether it wants a token.
async fn until_up(spec: &ClusterSpec, news: &mut mpsc::Receiver<Update>) -> anyhow::Result<bool> {
    let deadline = sleep(LONGEST);
    tokio::pin!(deadline);
    let mut last: Option<Problem> = None;
    loop {
        let update = tokio::select! {
            () = &mut deadline => break,
            update = news.recv() => update,
        };
        let Some(update) = update else { break };
        match update.news {
            News::Link(Link::Up { token_auth, .. }) => return Ok(token_auth),
            News::Link(Link::Connecting { phase, .. }) => eprintln!("{}: {}", spec.name, words(phase)),
            News::Link(Link::Stopped { problem }) => return Err(failed(&problem)),
            News::Link(Link::Retrying { problem, .. }) => {
                eprintln!("{}: {}", spec.name, say(&problem));
                last = Some(problem);
            }
            News::Note(note) => eprintln!("{}: {note}", spec.name),
            _ => {}
        }
    }
    match last {
        Some(problem) => Err(failed(&problem)),
        None => bail!("{} did not come up within {} s", spec.name, LONGEST.as_secs()),
    }
}

fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Address => "looking for the head",
        Phase::Tunnel => "opening the tunnel",
        Phase::Dashboard => "waiting for the dashboard",
    }
}

fn say(problem: &Problem) -> String {
    failed(problem).to_string()
}
