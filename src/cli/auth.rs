//! `marin-tui auth`: opens the tunnel, copies the token to the clipboard, and opens the browser at the cluster's own
//! host name.

use super::directories::make_folders;
use super::reach::{block_on, runtime};
use super::signals::Signals;
use super::token::{TokenContext, failed};
use super::{audit, google};
use crate::config::{Config, Entry, Env, Folders};
use crate::model::{ClusterEvent, ClusterSpec, Link, Problem, ProblemKind, Secret, SecretName};
use crate::state::Update;
use crate::supervisor::{AuditSink, Options, Supervisor};
use crate::task;
use crate::tui::{self, Copier, TerminalEnv};
use anyhow::{Context, bail};
use clap::Args;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui auth --cluster us-central2              copy the token, open the dashboard
  marin-tui auth --cluster us-central2 --no-open    copy the token, open only the tunnel

The dashboard opens at http://CLUSTER.localhost:PORT. Each cluster has its own origin, so clusters do not share \
cookies. The tunnel stays open until ctrl-c.";

/// Timeout for the first connection to the cluster.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(90);

/// Message when there is neither a desktop clipboard nor a terminal that can set one (OSC 52).
const NOT_COPIED: &str = "token not copied: no clipboard and no terminal found here; run this \
                          in a terminal, or use --no-copy to open only the tunnel and the dashboard";

/// Options of `auth`.
#[derive(Clone, Debug, Args)]
pub struct AuthArguments {
    /// Fetch the token from this secret instead of the cluster's
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
    /// Do not copy the token to the clipboard
    #[arg(long)]
    no_copy: bool,
    /// Do not open the browser
    #[arg(long)]
    no_open: bool,
}

/// Runs `auth` until ctrl-c.
pub fn run(
    arguments: &AuthArguments,
    config: &Config,
    env: &Env,
    chosen: Option<&str>,
) -> anyhow::Result<()> {
    let context = TokenContext::new(config, env, chosen);
    let spec = context.cluster()?.clone();
    let folders = Folders::new(env);
    make_folders(&folders, &context.token_sources)?;
    let mut options = Options::new(&config.settings, &folders, context.token_sources.clone());
    options.google = google::waiting(&options.google);
    // Actions are recorded in the audit log; the events report them.
    options.note = AuditSink::by({
        let audit = audit::log(env, &folders);
        move |cluster, what, outcome| audit::write(&audit, cluster, what, outcome)
    });
    let terminal_env = TerminalEnv::detect(|name| env.var(name).map(str::to_owned));
    let runtime = runtime()?;
    let done = block_on(&runtime, async {
        if let Some(name) = &arguments.secret {
            options.token.variable = Some(of_secret(&spec, name, &context).await?);
        }
        let (updates, mut receiver) = mpsc::channel(64);
        // The same port as in the console.
        let at = config.entries.iter().filter_map(Entry::cluster).position(|c| c.name == spec.name);
        let supervisor = Supervisor::start_one(spec.clone(), at.unwrap_or(0), options, &updates);
        drop(updates);
        let done = serve(arguments, &spec, &supervisor, &mut receiver, terminal_env).await;
        supervisor.shutdown().await;
        done
    });
    runtime.shutdown_background();
    done
}

/// The token of the secret given with `--secret`, which takes precedence over all other sources.
async fn of_secret(spec: &ClusterSpec, name: &str, context: &TokenContext<'_>) -> anyhow::Result<Secret> {
    if !SecretName::is_name(name) {
        bail!("`{name}` is not a secret name; use letters, digits, - and _");
    }
    let project = spec.google.token_secret.as_ref().and_then(|s| s.project.as_ref());
    let project = project.or(spec.google.project.as_ref()).cloned();
    let secret = SecretName { project, name: name.into() };
    Ok(context.manager.fetch(&secret).await.map_err(|p| failed(&p))?.token)
}

async fn serve(
    arguments: &AuthArguments,
    spec: &ClusterSpec,
    supervisor: &Supervisor,
    receiver: &mut mpsc::Receiver<Update>,
    terminal_env: TerminalEnv,
) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let token_auth = tokio::select! {
        up = until_up(spec, receiver) => up?,
        () = signals.any() => return Ok(()),
    };
    let url = supervisor.dashboard(&spec.name).await.map_err(|p| failed(&p))?;
    let mut copied = None;
    if !token_auth {
        eprintln!(
            "{} has no token authentication: any user of this machine can use its dashboard while the tunnel is open",
            spec.name
        );
    } else if !arguments.no_copy {
        let token = supervisor.token(&spec.name).map_err(|p| failed(&p))?;
        let mut copier = Copier::new(terminal_env);
        let how = copier.copy_secret(&token, tui::terminal).context(NOT_COPIED)?;
        eprintln!("copied the token of {} {how}", spec.name);
        copied = Some((copier, token));
    }
    // On a remote machine, a browser would open where the user cannot see it.
    if arguments.no_open || terminal_env.remote {
        eprintln!("dashboard: {url}");
    } else {
        let at = url.clone();
        match task::spawn_blocking(move || tui::start_browser(&at)).await? {
            Ok(()) => eprintln!("opened {url}"),
            Err(e) => eprintln!("cannot open a browser: {e}; open {url} yourself"),
        }
    }
    eprintln!("tunnel open; press ctrl-c to close it");
    let forget = Instant::now() + tui::ON_CLIPBOARD;
    loop {
        tokio::select! {
            () = signals.any() => break,
            () = sleep_until(forget), if copied.is_some() => clear(copied.take()),
            Some(update) = receiver.recv() => match update.event {
                ClusterEvent::Link(Link::Retrying { problem, .. } | Link::Stopped { problem }) => {
                    eprintln!("{}", message(&problem));
                }
                ClusterEvent::Ports { notes, .. } => notes.iter().for_each(|note| eprintln!("{}: {note}", spec.name)),
                _ => {}
            },
        }
    }
    clear(copied);
    Ok(())
}

/// Removes the token from the desktop clipboard if it is still there. A terminal's clipboard cannot be read, so it is
/// left unchanged.
fn clear(copied: Option<(Copier, Secret)>) {
    if copied.is_some_and(|(mut copier, token)| copier.clear(token.expose())) {
        eprintln!("removed the token from the clipboard");
    }
}

/// Waits until the cluster is connected and reports progress; returns whether it requires a token.
async fn until_up(spec: &ClusterSpec, receiver: &mut mpsc::Receiver<Update>) -> anyhow::Result<bool> {
    let deadline = sleep(CONNECT_TIMEOUT);
    tokio::pin!(deadline);
    let mut last: Option<Problem> = None;
    loop {
        let update = tokio::select! {
            () = &mut deadline => break,
            update = receiver.recv() => update,
        };
        let Some(update) = update else { break };
        match update.event {
            ClusterEvent::Link(Link::Up { token_auth, .. }) => return Ok(token_auth),
            ClusterEvent::Link(Link::Connecting { phase, .. }) => {
                eprintln!("{}: {}", spec.name, phase.label());
            }
            ClusterEvent::Link(Link::Stopped { problem }) => return Err(failed(&problem)),
            // A retry cannot succeed without action by the operator.
            ClusterEvent::Link(Link::Retrying { problem, .. })
                if matches!(problem.kind, ProblemKind::Login | ProblemKind::TokenMissing) =>
            {
                return Err(failed(&problem));
            }
            ClusterEvent::Link(Link::Retrying { problem, .. }) => {
                eprintln!("{}: {}", spec.name, message(&problem));
                last = Some(problem);
            }
            ClusterEvent::Note(note) => eprintln!("{}: {note}", spec.name),
            _ => {}
        }
    }
    match last {
        Some(problem) => Err(failed(&problem)),
        None => bail!("{}: not connected after {} s", spec.name, CONNECT_TIMEOUT.as_secs()),
    }
}

fn message(problem: &Problem) -> String {
    failed(problem).to_string()
}
