//! An SSH server in front of a simulated head, inside this process, for the console's own `ssh`.
//!
//! It listens on a free loopback port, knows one host key and one client key, both made when it starts, and offers
//! what the console needs of a head: connections to Ray's ports, commands, a small shell.
//!
//! Of a fleet it leads to the workers' hosts, too, as a head does (`worker`).
//!
//! `door` is its port, `distance` the way to it, `session` one login: `words` of a line, run by `commands`.

mod answer;
mod commands;
mod distance;
pub(super) mod door;
mod log_file;
mod session;
mod words;
mod worker;

use super::{Head, entropy};
use answer::Files;
use distance::apart;
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
use worker::{Login, Workers};

/// Ray's ports on a head: the dashboard's and the GCS's.
const DASHBOARD: u32 = 8265;
const GCS: u32 = 6379;
/// Cheap for both sides: one process may serve twenty heads. Ring computes it with the processor's own means.
const CIPHERS: &[cipher::Name] = &[cipher::AES_256_GCM];

/// Bytes between a far connection and its session.
const BUFFER: usize = 64 << 10;

/// The keys of a fleet, never used again.
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

    /// Writes the key that may log in, in OpenSSH's format and for its owner alone, to a file that does not exist.
    pub fn write_client(&self, file: &Path) -> io::Result<()> {
        let text = self.client.to_openssh(LineEnding::LF).map_err(io::Error::other)?;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(text.as_bytes())
    }
}

/// A running server. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct SshServer {
    /// Where it listens.
    pub address: SocketAddr,
    door: Arc<Door>,
    logins: Arc<AtomicU64>,
}

impl SshServer {
    /// Listens in front of a head that calls itself `name` and is a round trip away. Must be called inside a tokio
    /// runtime.
    pub async fn start(head: &Head, name: &str, keys: &Keys, round_trip: Duration) -> io::Result<Self> {
        Self::listen(head, name, keys, (round_trip, None)).await
    }

    /// The same, with hosts of workers behind the head.
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
        tokio::spawn(accept(listener, address, host, door.watch()));
        Ok(Self { address, door, logins })
    }

    /// Cuts all connections, as a network would; new ones are accepted.
    pub fn drop_connections(&self) {
        self.door.cut();
    }

    /// Logins that were let in since it was started.
    pub fn logins(&self) -> u64 {
        self.logins.load(Ordering::Relaxed)
    }

    /// What opens and shuts its port.
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
        tokio::spawn(serve(stream, host.clone(), door.clone()));
    }
}

/// Serves one connection until the client disconnects or all connections are closed.
async fn serve(stream: TcpStream, host: Arc<Host>, mut door: watch::Receiver<Doorway>) {
    // Small answers must not wait for an acknowledgement; an error only costs speed.
    let _ = stream.set_nodelay(true);
    // The session lives in a task of its own, which ends with its socket: we keep another handle of that.
    let Ok((stream, socket)) = twice(stream) else { return };
    let (round_trip, config) = (host.round_trip, host.config.clone());
    let session = async {
        if round_trip.is_zero() {
            return talk(config, stream, Connection(host)).await;
        }
        let (near, far) = tokio::io::duplex(BUFFER);
        // An error on the way is one side that went away; the other one sees its end.
        let _ = tokio::join!(apart(stream, near, round_trip), talk(config, far, Connection(host)));
    };
    tokio::select! {
        () = session => {}
        _ = door.changed() => {}
    }
    // Fails only when it is closed already.
    let _ = socket.shutdown(Shutdown::Both);
}

async fn talk<S, H>(config: Arc<Config>, stream: S, connection: H)
where
    H: server::Handler + Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if let Ok(session) = server::run_stream(config, stream, connection).await {
        // An error means that the client disconnected.
        let _ = session.await;
    }
}

fn twice(stream: TcpStream) -> io::Result<(TcpStream, std::net::TcpStream)> {
    let stream = stream.into_std()?;
    let other = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, other))
}

/// What all connections to a head share.
struct Host {
    dashboard: SocketAddr,
    gcs: SocketAddr,
    files: Files,
    client: PublicKey,
    round_trip: Duration,
    logins: Arc<AtomicU64>,
    /// The hosts behind it.
    workers: Option<Arc<Workers>>,
    config: Arc<Config>,
}

struct Connection(Arc<Host>);

impl Connection {
    fn judge(&self, key: &PublicKey) -> Auth {
        if key.key_data() == self.0.client.key_data() { Auth::Accept } else { Auth::reject() }
    }
}

impl server::Handler for Connection {
    type Error = russh::Error;

    async fn auth_publickey_offered(&mut self, _user: &str, key: &PublicKey) -> Result<Auth, Self::Error> {
        Ok(self.judge(key))
    }

    /// The client has proved that it holds this key.
    async fn auth_publickey(&mut self, _user: &str, key: &PublicKey) -> Result<Auth, Self::Error> {
        let judged = self.judge(key);
        if matches!(judged, Auth::Accept) {
            self.0.logins.fetch_add(1, Ordering::Relaxed);
        }
        Ok(judged)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        tokio::spawn(session::serve(channel, self.0.files.clone()));
        Ok(())
    }

    // The session's task sees these requests as well; they are answered here, each before the next is read.
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
        if let Some(workers) = self.0.workers.as_ref().filter(|workers| workers.has(host)) {
            reply.accept().await;
            let login = Login { workers: workers.clone(), address: host.to_owned() };
            tokio::spawn(talk(self.0.config.clone(), channel.into_stream(), login));
            return Ok(());
        }
        let here = matches!(host, "localhost" | "127.0.0.1" | "::1");
        let to = match port {
            DASHBOARD if here => Some(self.0.dashboard),
            GCS if here => Some(self.0.gcs),
            _ => None,
        };
        tokio::spawn(forward(channel, to, reply));
        Ok(())
    }
}

/// Forwards bytes between a channel and a port of the head; without a listener it fails as sshd does.
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
    // An error is one side that went away; the other one sees its end.
    let _ = tokio::io::copy_bidirectional(&mut channel.into_stream(), &mut stream).await;
}
