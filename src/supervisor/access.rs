//! Runs programs for a cluster: on one of its machines, or on this one.

use super::Options;
use super::connection::Connection;
use super::discover::{head_address, host_name};
use super::here::run_program;
use super::login::{first_contact, tunnel_spec};
use crate::model::{ClusterName, ClusterSpec, HeadAddress, HostName, Problem, Timestamp};
use crate::ssh::{Output, Remote, SshError, Terminal, Tunnel};
use std::ffi::{OsStr, OsString};
use std::time::Duration;
use tokio::sync::mpsc;

/// A cluster, and how to reach its machines.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// The cluster of the connection.
    pub spec: &'a ClusterSpec,
    /// Connection options.
    pub options: &'a Options,
    /// The connection of the cluster's task; commands on the head use it while it is open.
    pub connection: &'a Connection,
}

/// Runs a command line on one of the cluster's machines: on the head over the open login, if there is one, otherwise
/// over a new login. A non-zero exit code is not an error.
pub async fn run_on(
    Access { spec, options, connection }: Access<'_>,
    host: &str,
    command: &str,
    limit: Duration,
) -> Result<Output, Problem> {
    let failed = |e: SshError| e.problem(Timestamp::now());
    let is_head = matches!(&spec.head, HeadAddress::Ssh(head) if head == host);
    if let Some(remote) = connection.remote().filter(|_| is_head) {
        match remote.run(command, limit).await {
            // The connection is being lost, or has no free session.
            Err(SshError::Lost { .. } | SshError::SessionsExhausted { .. }) => {}
            done => return done.map_err(failed),
        }
    }
    let tunnel = log_in(spec, options, host_name(host)?).await?;
    let output = tunnel.remote().run(command, limit).await.map_err(failed);
    tunnel.close().await;
    output
}

/// A separate login to the head for what does not need Ray, such as its log files while its dashboard does not respond.
pub async fn log_in_to_head(spec: &ClusterSpec, options: &Options) -> Result<HeadLogin, Problem> {
    log_in(spec, options, head_address(spec, options, None).await?.host).await.map(HeadLogin)
}

/// An open login to a head.
pub struct HeadLogin(Tunnel);

impl HeadLogin {
    /// The head's shell.
    pub fn remote(&self) -> Remote {
        self.0.remote()
    }

    /// Closes the login.
    pub async fn close(self) {
        self.0.close().await;
    }
}

async fn log_in(spec: &ClusterSpec, options: &Options, host: HostName) -> Result<Tunnel, Problem> {
    let name = format!("{}@{}", spec.name, host.as_str());
    let mut to = tunnel_spec(spec, options, host, Vec::new());
    // A separate socket, because the head's may be in use.
    to.name = ClusterName::new(name);
    let tunnel = Tunnel::open(to).await.map_err(|e| e.problem(Timestamp::now()))?;
    if let Some(words) = first_contact(&tunnel, spec, options) {
        tracing::info!(cluster = %spec.name, "{words}");
    }
    Ok(tunnel)
}

/// Runs the ray command on this machine with these arguments and settings (`NAME=VALUE`); sends its output to `lines`
/// and returns its exit code. With a terminal, it asks its questions there. Dropping the future kills it.
pub async fn run_ray(
    options: &Options,
    arguments: &[&OsStr],
    settings: &[&str],
    terminal: Option<&Terminal>,
    lines: mpsc::Sender<String>,
) -> Result<i32, Problem> {
    let mut command: Vec<OsString> = Vec::new();
    if let Some(terminal) = terminal {
        command.extend(["sh", "-c", r#"exec "$@" <"$0""#].map(OsString::from));
        command.push(terminal.path().into());
    }
    // Python buffers output to a pipe.
    command.extend(["env", "PYTHONUNBUFFERED=1"].map(OsString::from));
    command.extend(settings.iter().map(OsString::from));
    command.extend(options.ray.iter().map(OsString::from));
    command.extend(arguments.iter().map(OsString::from));
    run_program(command, lines).await
}
