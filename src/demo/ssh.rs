//! An SSH server in front of a simulated head, inside this process, for the console's own `ssh`.
//!
//! It listens on a free loopback port, has one host key and one client key, both generated when it starts, and provides
//! what the console needs on a head: connections to Ray's ports, commands, a small shell.
//!
//! In a fleet it also forwards to the workers' hosts, as a head does (`worker`).
//!
//! `door` is its port, `distance` adds network latency, `session` is one login, `words` splits a command line, and
//! `commands` runs it.

mod answer;
mod commands;
mod distance;
pub(super) mod door;
mod log_file;
mod session;
mod words;
mod worker;

use super::{Head, entropy};
use crate::task;
use answer::Files;
use distance::with_latency;
use door::{Door, Doorway};
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::{PrivateKey, PublicKey};
use russh::server::{self, Auth, ChannelOpenHandle, Config, Msg, Session};
use russh::{
    Channel, ChannelId, ChannelOpenFailure, MethodKind, MethodSet, Preferred, Pty, cipher, compression,
};
use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use worker::{WorkerLogin, Workers};

/// Ray's ports on a head: the dashboard and the GCS.
const DASHBOARD: u32 = 8265;
const GCS: u32 = 6379;
/// Cheap for both sides, since one process may serve twenty heads: ring uses the processor's AES instructions.
const CIPHERS: &[cipher::Name] = &[cipher::AES_256_GCM];

/// Size in bytes of the buffer between a delayed connection and its session.
const BUFFER: usize = 64 << 10;

/// The keys of a fleet, generated for each run.
pub struct Keys {
    host: PrivateKey,
    client: PrivateKey,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    pub fn new() -> io::Result<Self> {
        let key = || Ok::<_, io::Error>(PrivateKey::from(Ed25519Keypair::from_seed(&entropy::bytes()?)));
        Ok(Self { host: key()?, client: key()? })
    }

    /// Writes the client key in OpenSSH format to a new file that only its owner can read (mode 0600).
    pub fn write_client(&self, file: &Path) -> io::Result<()> {
        let text = self.client.to_openssh(LineEnding::LF).map_err(io::Error::other)?;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(text.as_bytes())
    }
}

/// A running server. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct SshServer {
    /// The address it listens on.
    pub address: SocketAddr,
    door: Arc<Door>,
    logins: Arc<AtomicU64>,
}

impl SshServer {
    /// Listens in front of the head of the cluster `name`, with this round-trip time. Must be called inside a tokio
    /// runtime.
    pub async fn start(head: &Head, name: &str, keys: &Keys, round_trip: Duration) -> io::Result<Self> {
        Self::listen(head, name, keys, (round_trip, None)).await
    }

    /// Like [`Self::start`], with the hosts of workers behind the head.
    pub(super) async fn start_with_workers(
        head: &Head,
        name: &str,
        keys: &Keys,
        round_trip: Duration,
    ) -> io::Result<Self> {
        let workers = Workers::new(head.shared.clone(), keys.client.public_key().clone());
        Self::listen(head, name, keys, (round_trip, Some(Arc::new(workers)))).await
    }

    async fn listen(
        head: &Head,
        name: &str,
        keys: &Keys,
        (round_trip, workers): (Duration, Option<Arc<Workers>>),
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.local_addr()?;
        let logins = Arc::new(AtomicU64::new(0));
        let host = Arc::new(Host {
            logins: logins.clone(),
            dashboard: head.dashboard,
            gcs: head.gcs,
            files: Files::new(head.shared.clone(), name),
            client: keys.client.public_key().clone(),
            round_trip,
            workers,
            config: Arc::new(config(&keys.host)),
        });
        let door = Arc::new(Door::open());
        task::spawn(accept(listener, address, host, door.watch()));
        Ok(Self { address, door, logins })
    }

    /// Closes all connections, as a network failure would; new ones are accepted.
    pub fn drop_connections(&self) {
        self.door.cut();
    }

    /// Number of successful logins since the start.
    pub fn logins(&self) -> u64 {
        self.logins.load(Ordering::Relaxed)
    }

    /// Opens and closes its port.
    pub(super) fn door(&self) -> &Arc<Door> {
        &self.door
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.door.remove();
    }
}

fn config(host_key: &PrivateKey) -> Config {
    Config {
        methods: MethodSet::from(&[MethodKind::PublicKey][..]),
        // No delay after a refused login: only the owner of this process connects.
        auth_rejection_time: Duration::ZERO,
        keys: vec![host_key.clone()],
        preferred: Preferred {
            cipher: Cow::Borrowed(CIPHERS),
            compression: Cow::Borrowed(&[compression::NONE]),
            ..Preferred::DEFAULT
        },
        inactivity_timeout: None,
        nodelay: true,
        ..Config::default()
    }
}

async fn accept(
    listener: TcpListener,
    address: SocketAddr,
    host: Arc<Host>,
    mut door: watch::Receiver<Doorway>,
) {
    let mut listener = Some(listener);
    while let Some(listening) = door::pass(&mut listener, address, &mut door).await {
        let stream = tokio::select! {
            accepted = listening.accept() => accepted,
            _ = door.changed() => continue,
        };
        let Ok((stream, _)) = stream else { continue };
        task::spawn(serve(stream, host.clone(), door.clone()));
    }
}

/// Serves one connection until the client disconnects or all connections are closed.
async fn serve(stream: TcpStream, host: Arc<Host>, mut door: watch::Receiver<Doorway>) {
    // Small answers must not wait for an acknowledgement; an error only costs speed.
    let _ = stream.set_nodelay(true);
    // The session runs in its own task, which ends with its socket: keep a second handle to the socket.
    let Ok((stream, socket)) = duplicate(stream) else { return };
    let (round_trip, config) = (host.round_trip, host.config.clone());
    let session = async {
        let login = Login::Head(host);
        if round_trip.is_zero() {
            return run_session(config, Box::new(stream), login).await;
        }
        let (near, far) = tokio::io::duplex(BUFFER);
        // An error means that one side disconnected; the other side sees the end of the stream.
        let _ =
            tokio::join!(with_latency(stream, near, round_trip), run_session(config, Box::new(far), login));
    };
    tokio::select! {
        () = session => {}
        _ = door.changed() => {}
    }
    // Fails only if it is already closed.
    let _ = socket.shutdown(Shutdown::Both);
}

/// A connection, or a channel of another login. Boxed, so that the protocol is compiled once.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

async fn run_session(config: Arc<Config>, stream: Box<dyn Transport>, login: Login) {
    if let Ok(session) = server::run_stream(config, stream, login).await {
        // An error means that the client disconnected.
        let _ = session.await;
    }
}

fn duplicate(stream: TcpStream) -> io::Result<(TcpStream, std::net::TcpStream)> {
    let stream = stream.into_std()?;
    let other = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, other))
}

/// State shared by all connections to a head.
struct Host {
    dashboard: SocketAddr,
    gcs: SocketAddr,
    files: Files,
    client: PublicKey,
    round_trip: Duration,
    logins: Arc<AtomicU64>,
    /// The worker hosts behind the head.
    workers: Option<Arc<Workers>>,
    config: Arc<Config>,
}

/// A login to one machine.
enum Login {
    Head(Arc<Host>),
    Worker(WorkerLogin),
}

impl Login {
    fn check(&self, key: &PublicKey) -> Auth {
        let client = match self {
            Self::Head(host) => &host.client,
            Self::Worker(login) => login.client(),
        };
        if key.key_data() == client.key_data() { Auth::Accept } else { Auth::reject() }
    }
}

impl server::Handler for Login {
    type Error = russh::Error;

    async fn auth_publickey_offered(&mut self, _user: &str, key: &PublicKey) -> Result<Auth, Self::Error> {
        Ok(self.check(key))
    }

    /// Called after the client has proved that it holds this key.
    async fn auth_publickey(&mut self, _user: &str, key: &PublicKey) -> Result<Auth, Self::Error> {
        let decision = self.check(key);
        if let (Self::Head(host), Auth::Accept) = (self, &decision) {
            host.logins.fetch_add(1, Ordering::Relaxed);
        }
        Ok(decision)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        match self {
            Self::Head(host) => _ = task::spawn(session::serve(channel, host.files.clone())),
            Self::Worker(login) => login.serve(channel),
        }
        Ok(())
    }

    // The session's task also receives these requests; they are answered here, each before the next is read.
    async fn pty_request(
        &mut self,
        channel: ChannelId,
        _term: &str,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        _modes: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }

    async fn shell_request(&mut self, channel: ChannelId, session: &mut Session) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        _command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        _name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(channel)
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _originator: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        match self {
            Self::Head(head) => head.forward(channel, (host, port), reply).await,
            Self::Worker(login) => login.forward(channel, (host, port), reply).await,
        }
        Ok(())
    }
}

impl Host {
    /// Connects a channel with a worker or with a port of the head.
    async fn forward(&self, channel: Channel<Msg>, (host, port): (&str, u32), reply: ChannelOpenHandle) {
        if let Some(workers) = self.workers.as_ref().filter(|workers| workers.has(host)) {
            reply.accept().await;
            let login = Login::Worker(WorkerLogin { workers: workers.clone(), address: host.to_owned() });
            task::spawn(run_session(self.config.clone(), Box::new(channel.into_stream()), login));
            return;
        }
        let here = matches!(host, "localhost" | "127.0.0.1" | "::1");
        let to = match port {
            DASHBOARD if here => Some(self.dashboard),
            GCS if here => Some(self.gcs),
            _ => None,
        };
        task::spawn(forward(channel, to, reply));
    }
}

/// Forwards bytes between a channel and a port of the head; if nothing listens there, rejects the channel as sshd does.
async fn forward(channel: Channel<Msg>, to: Option<SocketAddr>, reply: ChannelOpenHandle) {
    let stream = match to {
        Some(to) => TcpStream::connect(to).await.ok(),
        None => None,
    };
    let Some(mut stream) = stream else {
        return reply.reject(ChannelOpenFailure::ConnectFailed).await;
    };
    let _ = stream.set_nodelay(true);
    reply.accept().await;
    // An error means that one side disconnected; the other side sees the end of the stream.
    let _ = tokio::io::copy_bidirectional(&mut channel.into_stream(), &mut stream).await;
}
