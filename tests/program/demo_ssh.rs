//! The simulated head's SSH server through the system's own `ssh`, as the console uses it. No cloud needed.

use crate::pty::Pty;
use crate::soon::{DEADLINE, soon};
use marin_tui::demo::{Head, Keys, Scenario, SshServer};
use marin_tui::model::{ClusterName, HostName, SshAuth};
use marin_tui::ray::{Client, Endpoint, Poller};
use marin_tui::ssh::{self, Forward, KeepAlive, Local, PortPlan, SshError, Tunnel, TunnelSpec};
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// A head with its SSH server, and a directory with the key to it.
struct Fixture {
    dir: TempDir,
    head: Head,
    server: SshServer,
}

impl Fixture {
    async fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let head = Head::start(Scenario::default()).await.unwrap();
        let keys = Keys::new().unwrap();
        keys.write_client(&dir.path().join("key")).unwrap();
        fs::write(dir.path().join("ssh_config"), "").unwrap();
        let server = SshServer::start(&head, "marin-x", &keys, Duration::ZERO).await.unwrap();
        Self { dir, head, server }
    }

    fn spec(&self) -> TunnelSpec {
        let at = |name: &str| self.dir.path().join(name);
        TunnelSpec {
            name: ClusterName::new("marin-x"),
            host: HostName::parse("127.0.0.1").unwrap(),
            auth: SshAuth {
                user: Some("ray".into()),
                private_key: Some(at("key")),
                proxy_command: None,
                port: Some(self.server.address.port()),
            },
            forwards: Vec::new(),
            known_hosts: at("known_hosts"),
            run_dir: at("r"),
            ssh: "ssh".into(),
            ssh_config: Some(at("ssh_config")),
            connect_timeout: Duration::from_secs(10),
            keep_alive: KeepAlive { every: Duration::from_secs(2), misses: 3 },
        }
    }

    /// A spec with forwards to Ray's ports: sockets for the dashboard and the GCS, a local port for the client server.
    fn forwarding(&self) -> (TunnelSpec, u16) {
        let port = PortPlan::new().take(30_001).unwrap().port;
        let forwards = [(Local::Socket, 8265), (Local::Socket, 6379), (Local::Port(port), 10001)];
        let forwards = forwards.map(|(local, remote)| Forward { local, remote });
        (TunnelSpec { forwards: forwards.to_vec(), ..self.spec() }, port)
    }
}

fn client(tunnel: &Tunnel) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let socket = |remote| tunnel.socket(remote).unwrap().to_owned();
    Client::new(Endpoint::Sockets { dashboard: socket(8265), gcs: socket(6379) }, None).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn forwards_lead_to_the_head_and_unused_ports_are_refused() {
    let fixture = Fixture::new().await;
    let (spec, port) = fixture.forwarding();
    let tunnel = soon("the tunnel is open", Tunnel::open(spec)).await.unwrap();
    let client = client(&tunnel);
    assert_eq!(soon("the version", client.version()).await.unwrap().ray_version.raw(), "2.60.0");
    // Both forwards work: the state comes from the GCS.
    let mut poller = Poller::new(client);
    assert!(!soon("the state", Box::pin(poller.refresh())).await.unwrap().nodes.is_empty());
    assert!(poller.over_gcs());
    // The client server of that head is not simulated: the connection is refused, as by a head without one.
    let refused = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut refusals = tunnel.refusals();
    soon("a refusal is reported", refusals.wait_for(|r| r.count == 1)).await.unwrap();
    assert!(refusals.borrow().reason.contains("connect failed"), "{:?}", refusals.borrow());
    drop(refused);
    // Longer than the keepalive timeout: keepalives are answered.
    tokio::select! {
        why = tunnel.closed() => panic!("{why}"),
        () = tokio::time::sleep(Duration::from_secs(8)) => {}
    }
    fixture.server.drop_connections();
    assert!(matches!(soon("the loss is noticed", tunnel.closed()).await, SshError::Lost { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_and_streams_end() {
    let fixture = Fixture::new().await;
    fixture.head.write_file("monitor.log", b"one\ntwo\n");
    let tunnel = soon("the tunnel is open", Tunnel::open(fixture.spec())).await.unwrap();
    let remote = tunnel.remote();
    let file = "/tmp/ray/session_latest/logs/monitor.log";
    let output = remote.run(&format!("wc -c < {}", ssh::quote(file)), DEADLINE).await.unwrap();
    assert_eq!((output.status, &*output.stdout), (0, &b"8\n"[..]));
    let output = remote.run("ray stop", DEADLINE).await.unwrap();
    assert_eq!(output.status, 127);
    assert!(output.stderr.contains("this head is simulated"), "{}", output.stderr);
    let mut stream = remote.stream(&format!("exec tail -c +5 -F -- {}", ssh::quote(file))).unwrap();
    assert_eq!(soon("the file", stream.chunk()).await.unwrap().unwrap(), "two\n");
    fixture.head.write_file("monitor.log", b"three\n");
    assert_eq!(soon("its growth", stream.chunk()).await.unwrap().unwrap(), "three\n");
    drop(stream);
    soon("the tunnel is closed", tunnel.close()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_gets_a_shell_and_another_key_is_refused() {
    let fixture = Fixture::new().await;
    soon("the host is known", Tunnel::open(fixture.spec())).await.unwrap().close().await;
    let talk = |spec: TunnelSpec| {
        let mut shell = ssh::login(&spec);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        tokio::task::spawn_blocking(move || {
            let mut shell = shell.spawn().unwrap();
            shell.stdin.take().unwrap().write_all(b"hostname\nls\nnonsense\nexit 3\n").unwrap();
            shell.wait_with_output().unwrap()
        })
    };
    let output = soon("the shell ends", talk(fixture.spec())).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}");
    for words in ["a simulated Ray head", "ray-marin-x-head\n", "gcs_server.out\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(String::from_utf8_lossy(&output.stderr).contains("nonsense: not found"));
    // The key of another fleet is refused.
    let other_key = fixture.dir.path().join("other_key");
    Keys::new().unwrap().write_client(&other_key).unwrap();
    let mut spec = fixture.spec();
    spec.auth.private_key = Some(other_key);
    assert!(matches!(soon("the refusal", Tunnel::open(spec)).await, Err(SshError::KeyRefused { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_terminal_the_shell_edits_lines_and_is_interrupted() {
    let fixture = Fixture::new().await;
    soon("the host is known", Tunnel::open(fixture.spec())).await.unwrap().close().await;
    fixture.head.write_file("monitor.log", b"it is still here\n");
    let login = ssh::login(&fixture.spec());
    let typing = tokio::task::spawn_blocking(move || {
        let mut pty = Pty::of(&login, 120, 30);
        pty.wait_text("ray@ray-marin-x-head:logs$");
        pty.send("hostnamx\x7fe\r");
        pty.wait("the name on a line of its own", |t| t.lines().any(|l| l.trim_end() == "ray-marin-x-head"));
        pty.send("tail -F monitor.log\r");
        pty.wait_text("it is still here");
        pty.send("\x03echo once more\r");
        pty.wait("the shell again", |t| t.lines().any(|l| l.trim_end() == "once more"));
        pty.send("\x04");
        assert_eq!(pty.wait_exit().exit_code(), 0);
    });
    soon("the shell has ended", typing).await.unwrap();
}
