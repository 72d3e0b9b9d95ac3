//! One connection for one command: the console's own way up, once, without retrying and without a screen.

use super::connect::{Opener, Session, renew_token, tunnel_spec};
use super::task::Out;
use super::{Options, Reach, TokenCare};
use crate::model::{ClusterName, ClusterSpec, Link, News, Phase, Problem, Timestamp};
use crate::ssh::{self, Output, PortPlan, SshError, Tunnel};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Other tokens that a command tries: a newer file on this machine, then the secret's latest version. After them it is
/// said which one was refused.
const RENEWALS: usize = 3;

/// Connects to a cluster, and has it answer a first question with the token in force. `place` is the cluster's in the
/// list; `tell` hears what is being done. The session ends when it is dropped or closed.
pub async fn connect(
    spec: ClusterSpec,
    place: usize,
    options: Options,
    mut tell: impl FnMut(Phase),
) -> Result<Session, Problem> {
    let (updates, mut news) = mpsc::channel(16);
    let out = Out { cluster: spec.name.clone(), updates };
    let (reach, _) = watch::channel(Reach::default());
    let ports = Arc::new(Mutex::new(PortPlan::new()));
    let (spec, options) = (Arc::new(spec), Arc::new(options));
    let care = Arc::new(TokenCare::new(options.token.clone(), options.google.clone()));
    let opener =
        Opener { before: None, spec: spec.clone(), place, options, ports, out, reach, care: care.clone() };
    let opening = opener.open();
    tokio::pin!(opening);
    let mut session = loop {
        tokio::select! {
            opened = &mut opening => break opened?,
            Some(update) = news.recv() => {
                if let News::Link(Link::Connecting { phase, .. }) = update.news {
                    tell(phase);
                }
            }
        }
    };
    match prove(&spec, &care, &mut session).await {
        Ok(()) => Ok(session),
        Err(problem) => {
            session.close().await;
            Err(problem)
        }
    }
}

/// Has the cluster answer with the token in force. A refused one is replaced by the latest; when that is refused too,
/// the second renewal says which version it was.
async fn prove(spec: &ClusterSpec, care: &Arc<TokenCare>, session: &mut Session) -> Result<(), Problem> {
    let mut renewals = 0;
    loop {
        match session.client.version().await {
            Ok(_) => return Ok(()),
            Err(e) if e.is_token() && renewals < RENEWALS => {
                renewals += 1;
                renew_token(spec, care, session).await?;
            }
            Err(e) => return Err(e.problem(Timestamp::now())),
        }
    }
}

/// Runs a command line on one of the cluster's machines, logging in as to its head; an exit code other than zero is no
/// error.
pub async fn run_on(
    spec: &ClusterSpec,
    options: &Options,
    host: &str,
    command: &str,
    limit: Duration,
) -> Result<Output, Problem> {
    let failed = |e: SshError| e.problem(Timestamp::now());
    let mut to = tunnel_spec(spec, options, host.to_owned(), Vec::new());
    // A socket of its own: the head's may be in use.
    to.name = ClusterName::new(format!("{}@{host}", spec.name));
    let tunnel = Tunnel::open(to).await.map_err(failed)?;
    let output = tunnel.remote().run(command, limit).await.map_err(failed);
    tunnel.close().await;
    output
}

/// Runs the ray command with these arguments and settings (`NAME=VALUE`) here; its lines go to `lines`, its exit code
/// comes back. Dropping the future kills it.
pub async fn run_ray(
    options: &Options,
    arguments: &[&OsStr],
    settings: &[&str],
    lines: mpsc::Sender<String>,
) -> Result<i32, Problem> {
    // Python keeps back what it writes into a pipe.
    let mut command: Vec<OsString> = vec!["env".into(), "PYTHONUNBUFFERED=1".into()];
    command.extend(settings.iter().map(OsString::from));
    command.extend(options.ray.iter().map(OsString::from));
    command.extend(arguments.iter().map(OsString::from));
    ssh::run_program(command, lines).await.map_err(|e| e.problem(Timestamp::now()))
}
