//! The control master of one head: how it connects, stays connected, and why it ended.
//!
//! A task reads its standard error as long as it runs. Only these messages show why a connection ended, and that the
//! head is up while nothing listens behind a forward.

use super::error::{KeyFault, SshError, port_in_use};
use super::files::{self, Sockets};
use super::guard::{self, Lifeline};
use super::lines::Lines;
use super::login::{self, Login};
use super::machine::inspect_key;
use super::remote::Remote;
use super::{Forward, Local, TunnelSpec, hostkey};
use crate::model::text::printable;
use crate::task;
use openssh_mux_client::{Connection, ForwardType, Socket};
use std::collections::VecDeque;
use std::net::{Ipv6Addr, TcpListener};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::timeout;

/// Lines of standard error that are kept; the warning about a changed host key has 17.
const KEPT_LINES: usize = 24;
/// Timeout for the master to respond over its socket, or to exit on request.
const LOCAL_ANSWER: Duration = Duration::from_secs(3);
/// Timeout for the rest of standard error after the process has exited.
const STDERR_TIMEOUT: Duration = Duration::from_millis(300);

/// Keeps the buffers of ssh's channels in its heap. A Unix socket buffers 208 kB where TCP buffers megabytes, so ssh
/// itself buffers data for a slow reader, and glibc would map and unmap that memory repeatedly: 20 ms of CPU time for
/// each megabyte (`mallopt(3)`; other C libraries ignore it).
const HEAP: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=8388608:glibc.malloc.trim_threshold=16777216");

/// Connections to a forward's remote port that failed on the head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Their number since the connection was opened.
    pub count: u64,
    /// The last reason in ssh's words, e.g. `connect failed: Connection refused` (nothing listens) or
    /// `administratively prohibited: open failed` (sshd's `AllowTcpForwarding no`).
    pub reason: String,
}

/// Output and exit code of the master's process.
#[derive(Debug, Default)]
struct MasterOutput {
    /// The last lines of its standard error, safe to print.
    lines: VecDeque<String>,
    /// Its exit code once it has ended.
    ended: Option<i32>,
}

impl MasterOutput {
    fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

/// One open connection. Dropping it kills ssh and whatever it started.
#[derive(Debug)]
pub struct Tunnel {
    spec: TunnelSpec,
    remote: Remote,
    sockets: Sockets,
    lifeline: Lifeline,
    output: watch::Receiver<MasterOutput>,
    refusals: watch::Receiver<Refusals>,
    first_contact: Option<String>,
}

impl Tunnel {
    /// Logs in and sets up the forwards; one attempt. Dropping the future kills ssh and removes its files.
    pub async fn open(spec: TunnelSpec) -> Result<Self, SshError> {
        files::prepare(&spec)?;
        if let Some(key) = &spec.auth.private_key {
            let unusable = |fault| SshError::KeyFile { path: key.clone(), fault };
            files::check_key(key).map_err(unusable)?;
        }
        if hostkey::is_listed(&spec) {
            match Self::log_in(spec.clone(), "yes", None).await {
                // No file has a key for the host: ssh's configuration files it under a name other than the listed one.
                Err(SshError::HostKeyChanged { known, .. }) if known.is_empty() => {}
                opened => return opened,
            }
        }
        let login = Login::resolve(&spec).await?;
        if hostkey::is_known(&spec, &login).await? {
            return Self::log_in(spec, "yes", Some(login)).await;
        }
        let mut tunnel = Self::log_in(spec, "accept-new", Some(login.clone())).await?;
        // A host that is in another known_hosts file of the user is not added to ours.
        tunnel.first_contact = hostkey::filed(&tunnel.spec, &login).await;
        Ok(tunnel)
    }

    async fn log_in(spec: TunnelSpec, checking: &str, login: Option<Login>) -> Result<Self, SshError> {
        let socket = files::own_path(&spec.run_dir, "")?;
        let of_sockets = spec.forwards.iter().filter(|f| f.local == Local::Socket).map(|f| f.remote);
        let sockets = Sockets::beside(&socket, of_sockets)?;
        let (mut child, lifeline) = guard::spawn_with(login::master(&spec, &socket, checking), &[HEAP])?;
        let stdout = child.stdout.take();
        let (output, refusals) = attend(child, &spec);
        let tunnel = Self {
            remote: Remote::new(spec.ssh.clone(), socket, spec.host.to_string()),
            sockets,
            spec,
            lifeline,
            output,
            refusals,
            first_contact: None,
        };
        let limit = tunnel.spec.connect_timeout.max(Duration::from_secs(1)) * 3;
        let ready = async { reports_ready(stdout).await || std::future::pending().await };
        tokio::select! {
            _ = ready => {}
            error = tunnel.refused(login) => return Err(error),
            () = tokio::time::sleep(limit) => {
                let why = format!("login timed out after {} s", limit.as_secs());
                return Err(SshError::Unreachable { host: tunnel.spec.host.to_string(), why });
            }
        }
        tunnel.forward().await?;
        Ok(tunnel)
    }

    /// Waits until the connection is lost, and returns the cause.
    pub async fn closed(&self) -> SshError {
        let (lines, code) = self.end().await;
        SshError::lost(self.spec.host.as_str(), &lines, code)
    }

    /// Closes the connection with ssh's own exit; the forwards' ports are free afterwards.
    pub async fn close(mut self) {
        self.lifeline.ask_to_end().await;
        if timeout(LOCAL_ANSWER, self.end()).await.is_err() {
            tracing::warn!(cluster = %self.spec.name, "ssh did not exit; killing it");
        }
    }

    /// The host as the spec names it.
    pub fn host(&self) -> &str {
        self.spec.host.as_str()
    }

    /// Fingerprint of the host's key (`SHA256:...`) where this login was the first to this host and accepted it.
    pub fn first_contact(&self) -> Option<&str> {
        self.first_contact.as_deref()
    }

    /// Runs commands over this connection. After the tunnel is closed its commands fail with [`SshError::Lost`].
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// The Unix socket that forwards to this port of the head; none when the spec has no such forward.
    pub fn socket(&self, remote: u16) -> Option<&Path> {
        self.sockets.to(remote)
    }

    /// Refused connections behind the forwards: they prove that the head is up and a service on it is down.
    pub fn refusals(&self) -> watch::Receiver<Refusals> {
        self.refusals.clone()
    }

    async fn end(&self) -> (Vec<String>, i32) {
        let mut output = self.output.clone();
        match output.wait_for(|s| s.ended.is_some()).await {
            Ok(output) => (output.lines(), output.ended.unwrap_or_default()),
            // The reading task has ended: the runtime is shutting down.
            Err(_) => (Vec::new(), 255),
        }
    }

    /// Waits until the login has failed, and returns the cause.
    async fn refused(&self, login: Option<Login>) -> SshError {
        let (lines, code) = self.end().await;
        let login = match login {
            Some(login) => login,
            None => match Login::resolve(&self.spec).await {
                Ok(login) => login,
                Err(error) => return error,
            },
        };
        match SshError::connecting(&self.spec, &login.user, &lines, code) {
            SshError::HostKeyChanged { elsewhere, .. } => {
                hostkey::changed(&self.spec, &login, elsewhere).await
            }
            SshError::KeyRefused { key: Some(path), .. }
                if inspect_key(&path).await == Err(KeyFault::Locked) =>
            {
                SshError::KeyFile { path, fault: KeyFault::Locked }
            }
            error => error,
        }
    }

    /// Starts listening on a TCP port of this machine, as described for [`Local::Port`].
    pub async fn listen(&self, port: u16, remote: u16) -> Result<(), SshError> {
        let forward = Forward { local: Local::Port(port), remote };
        let listening = self.ask_for(&[forward]).await;
        if listening.is_err() {
            // One of the two addresses may have been bound.
            self.unlisten(port, remote).await;
        }
        listening
    }

    /// Closes a port that [`Tunnel::listen`] opened. Open connections through it stay open.
    pub async fn unlisten(&self, port: u16, remote: u16) {
        let release = async {
            let mut master = Connection::connect(self.remote.socket()).await?;
            for here in listeners(Local::Port(port), None) {
                // The port may never have been open.
                let closed =
                    master.close_port_forward(ForwardType::Local, &here, &tcp("localhost", remote)).await;
                if let Err(e) = closed {
                    tracing::info!(cluster = %self.spec.name, "cannot release port {port}: {e}");
                }
            }
            Ok::<_, openssh_mux_client::Error>(())
        };
        if !matches!(timeout(LOCAL_ANSWER, release).await, Ok(Ok(()))) {
            tracing::warn!(cluster = %self.spec.name, "ssh does not respond; port {port} stays open until it exits");
        }
    }

    async fn forward(&self) -> Result<(), SshError> {
        if self.spec.forwards.is_empty() {
            return Ok(());
        }
        self.ask_for(&self.spec.forwards).await?;
        self.sockets.seal()
    }

    /// Asks the master for forwards, over its socket: `ssh -O forward` would be another process per login.
    async fn ask_for(&self, forwards: &[Forward]) -> Result<(), SshError> {
        let answer = ask_for(forwards, &self.sockets, self.remote.socket());
        let why = match timeout(LOCAL_ANSWER, answer).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(e)) => printable(&e.to_string()).into_owned(),
            Err(_) => "ssh's control master does not respond".into(),
        };
        // The response only reports the failure; standard error names the port.
        let asked_for = |port| forwards.iter().any(|f| f.local == Local::Port(port));
        let in_use = |output: &MasterOutput| port_in_use(&output.lines()).filter(|port| asked_for(*port));
        let mut output = self.output.clone();
        let named = output.wait_for(|s| s.ended.is_some() || in_use(s).is_some());
        if let Ok(Ok(output)) = timeout(LOCAL_ANSWER, named).await
            && let Some(port) = in_use(&output)
        {
            return Err(SshError::PortInUse { port });
        }
        Err(SshError::Other { host: self.spec.host.to_string(), why })
    }
}

/// Requests forwards from this machine to the head's `localhost` (OpenSSH, PROTOCOL.mux: `MUX_C_OPEN_FWD`).
async fn ask_for(
    forwards: &[Forward],
    sockets: &Sockets,
    control: &Path,
) -> Result<(), openssh_mux_client::Error> {
    let mut master = Connection::connect(control).await?;
    for Forward { local, remote } in forwards {
        let there = tcp("localhost", *remote);
        for here in listeners(*local, sockets.to(*remote)) {
            master.request_port_forward(ForwardType::Local, &here, &there).await?;
        }
    }
    Ok(())
}

/// The sockets on which ssh listens for a forward.
fn listeners(local: Local, socket: Option<&Path>) -> Vec<Socket<'_>> {
    match local {
        Local::Socket => socket.map(|path| Socket::UnixSocket { path: path.into() }).into_iter().collect(),
        Local::Port(port) if has_ipv6() => vec![tcp("127.0.0.1", port), tcp("::1", port)],
        Local::Port(port) => vec![tcp("127.0.0.1", port)],
    }
}

fn tcp(host: &'static str, port: u16) -> Socket<'static> {
    Socket::TcpSocket { port: port.into(), host: host.into() }
}

/// Whether this machine has `[::1]`, which a browser tries first for `NAME.localhost`.
fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Reads the master's standard output until it reports that the login is complete; false if it ends before that.
async fn reports_ready(stdout: Option<impl AsyncRead + Unpin>) -> bool {
    let Some(stdout) = stdout else { return false };
    // The user's shell runs the local command and may print a greeting first.
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line == login::READY {
            return true;
        }
    }
    false
}

/// Starts the task that reads the master's standard error until it exits.
fn attend(mut child: Child, spec: &TunnelSpec) -> (watch::Receiver<MasterOutput>, watch::Receiver<Refusals>) {
    let (output, output_receiver) = watch::channel(MasterOutput::default());
    let (refusals, refused) = watch::channel(Refusals::default());
    let cluster = spec.name.clone();
    task::spawn(async move {
        let stderr = child.stderr.take();
        let on_line = |line: String| {
            if let Some(reason) = refusal(&line) {
                refusals.send_modify(|r| *r = Refusals { count: r.count + 1, reason: reason.to_owned() });
            }
            output.send_modify(|s| {
                if s.lines.len() == KEPT_LINES {
                    s.lines.pop_front();
                }
                s.lines.push_back(line);
            });
        };
        let mut reading = std::pin::pin!(read_lines(stderr, on_line));
        let status = tokio::select! {
            () = &mut reading => child.wait().await,
            status = child.wait() => {
                // The last messages are still in the pipe. A hanging proxy command may hold it open for ever.
                if timeout(STDERR_TIMEOUT, &mut reading).await.is_err() {
                    tracing::info!(%cluster, "a child of ssh is still running");
                }
                status
            }
        };
        let code = status.map_or(255, guard::code);
        output.send_modify(|s| s.ended = Some(code));
    });
    (output_receiver, refused)
}

/// Passes each line, made safe to print, to `on_line` until the stream ends. A long line is cut.
async fn read_lines(from: Option<impl AsyncRead + Unpin>, mut on_line: impl FnMut(String)) {
    let Some(from) = from else { return };
    let mut lines = Lines::new(from);
    while let Some(line) = lines.next().await {
        on_line(printable(String::from_utf8_lossy(&line.bytes).trim()).into_owned());
    }
}

/// The reason in `channel 1: open failed: connect failed: Connection refused`. Too many sessions produce almost the
/// same message (`connect failed: open failed`), which is not a refusal behind a forward.
fn refusal(line: &str) -> Option<&str> {
    let (_, reason) = line.strip_prefix("channel ")?.split_once(": open failed: ")?;
    (reason != "connect failed: open failed").then_some(reason)
}
