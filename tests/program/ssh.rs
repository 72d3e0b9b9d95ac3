//! `src/ssh` against a real OpenSSH server: success, every kind of failure with its message, and that nothing is left
//! behind.

mod host_keys;

use crate::pty::Pty;
use crate::sshd::{self, DEADLINE, Sshd, SshdDir, free_port, running};
use crate::until::until;
use marin_tui::model::{ClusterName, HostName, ProblemKind, Timestamp};
use marin_tui::ssh::{self, Forward, KeepAlive, KeyFault, Local, SshError, Tunnel, TunnelSpec};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::timeout;

/// The error of a connection attempt that must fail.
async fn failure(spec: TunnelSpec) -> SshError {
    timeout(DEADLINE, Tunnel::open(spec)).await.unwrap().unwrap_err()
}

/// A server behind a forward: answers every connection with its greeting.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            stream.write_all(b"hello").unwrap();
        }
    });
    port
}

fn fetch(port: u16) -> std::io::Result<String> {
    let mut text = String::new();
    TcpStream::connect(("127.0.0.1", port))?.read_to_string(&mut text)?;
    Ok(text)
}

fn fetch_over(socket: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    UnixStream::connect(socket)?.read_to_string(&mut text)?;
    Ok(text)
}

/// A forward from this local port.
fn port(local: u16, remote: u16) -> Forward {
    Forward { local: Local::Port(local), remote }
}

#[tokio::test]
async fn forwards_carry_bytes_and_end_with_the_tunnel() {
    let sshd = Sshd::start("");
    let forwards = [(free_port(), greeter()), (free_port(), greeter())];
    let mut spec = sshd.spec();
    spec.forwards = forwards.map(|(local, remote)| port(local, remote)).to_vec();
    let tunnel = Tunnel::open(spec).await.unwrap();
    for (local, _) in forwards {
        assert_eq!(fetch(local).unwrap(), "hello");
        // Browsers try the IPv6 address first.
        if TcpListener::bind("[::1]:0").is_ok() {
            let mut text = String::new();
            TcpStream::connect(("::1", local)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello");
        }
    }
    tunnel.close().await;
    // At once: a closed tunnel has released its ports.
    for (local, _) in forwards {
        TcpListener::bind(("127.0.0.1", local)).unwrap();
    }
    assert!(running(&sshd.dir().path("r")).is_empty());
}

#[tokio::test]
async fn a_port_is_opened_over_an_existing_connection_and_released() {
    let sshd = Sshd::start("");
    let tunnel = Tunnel::open(sshd.spec()).await.unwrap();
    let (local, remote) = (free_port(), greeter());
    assert!(TcpStream::connect(("127.0.0.1", local)).is_err());
    tunnel.listen(local, remote).await.unwrap();
    assert_eq!(fetch(local).unwrap(), "hello");
    tunnel.unlisten(local, remote).await;
    assert!(TcpStream::connect(("127.0.0.1", local)).is_err());
    // If another program has the port at one of the two addresses, the tunnel keeps neither.
    if let Ok(six) = TcpListener::bind("[::1]:0") {
        let taken = six.local_addr().unwrap().port();
        assert_eq!(tunnel.listen(taken, remote).await, Err(SshError::PortInUse { port: taken }));
        assert!(TcpStream::connect(("127.0.0.1", taken)).is_err());
    }
    tunnel.listen(local, remote).await.unwrap();
    assert_eq!(fetch(local).unwrap(), "hello");
    tunnel.close().await;
}

#[tokio::test]
async fn sockets_lead_to_the_head_only_for_this_user() {
    let sshd = Sshd::start("");
    let sshd_dir = sshd.dir();
    // Permissive options in the user's own configuration do not apply to our sockets; the length of the cluster's name
    // does not matter.
    fs::write(sshd_dir.path("ssh_config"), "StreamLocalBindMask 0000\nGatewayPorts yes\n").unwrap();
    let remote = greeter();
    let mut spec = sshd.spec();
    spec.name = ClusterName::new("marin-".repeat(40));
    spec.forwards = vec![Forward { local: Local::Socket, remote }];
    let tunnel = Tunnel::open(spec.clone()).await.unwrap();
    let socket = tunnel.socket(remote).unwrap().to_owned();
    assert_eq!(tunnel.socket(1), None);
    assert_eq!(fetch_over(&socket).unwrap(), "hello");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!((mode(&socket), mode(&sshd_dir.path("r"))), (0o600, 0o700));
    // A second connection has its own socket.
    let second = Tunnel::open(spec.clone()).await.unwrap();
    assert_ne!(second.socket(remote).unwrap(), socket);
    second.close().await;
    assert_eq!(fetch_over(&socket).unwrap(), "hello");
    tunnel.close().await;
    assert_eq!(fs::read_dir(sshd_dir.path("r")).unwrap().count(), 0, "nothing is left to connect to");

    // A directory whose path is too long for a socket is refused before ssh is started.
    spec.run_dir = sshd_dir.path(&"long".repeat(30));
    let problem = failure(spec).await.problem(Timestamp::default());
    assert!(
        problem.what.contains("too long") && problem.hint.to_string().contains("XDG_RUNTIME_DIR"),
        "{problem:?}"
    );
}

#[tokio::test]
async fn commands_run_with_their_code_output_and_limits() {
    let sshd = Sshd::start("");
    let tunnel = Tunnel::open(sshd.spec()).await.unwrap();
    let remote = tunnel.remote();
    let run = async |command: &str| remote.run(command, DEADLINE).await.unwrap();

    let said = run("echo out; echo 'e\x1b]0;rr' >&2; exit 7").await;
    assert_eq!((said.status, &said.stdout[..], &said.stderr[..]), (7, &b"out\n"[..], "e·]0;rr"));
    assert_eq!(run("kill -9 $$").await.status, 137);
    assert_eq!(run("exit 255").await.status, 254, "not taken for a lost connection");
    assert_eq!(run("cat").await.stdout, b"", "a command's standard input is empty");
    let odd = "it's $HOME \"quoted\"\n`twice` \\ ! *";
    assert_eq!(run(&format!("printf %s {}", ssh::quote(odd))).await.stdout, odd.as_bytes());
    let big = run("head -c 5000000 /dev/zero").await;
    assert_eq!((big.stdout.len(), big.cut, big.status), (4 << 20, true, 0));

    let marker = sshd.dir().path("marker");
    let endless = format!("cd / && tail -f {}", ssh::quote(marker.to_str().unwrap()));
    fs::write(&marker, "").unwrap();
    let error = remote.run(&endless, Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, SshError::TooSlow { seconds: 1, .. }), "{error}");
    until("the slow command is gone from the head", || running(&marker).is_empty());
}

#[tokio::test]
async fn a_stream_follows_a_file_and_ends_on_the_head_when_dropped() {
    let sshd = Sshd::start("");
    let tunnel = Tunnel::open(sshd.spec()).await.unwrap();
    let log = sshd.dir().path("driver.log");
    fs::write(&log, b"one\n\xff\n").unwrap();
    let mut stream = tunnel.remote().stream(&format!("tail -n +1 -F {}", log.display())).unwrap();
    let mut heard = Vec::new();
    while heard != b"one\n\xff\ntwo\n" {
        heard.extend(timeout(DEADLINE, stream.chunk()).await.unwrap().unwrap().unwrap());
        if heard == b"one\n\xff\n" {
            fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"two\n").unwrap();
        }
    }
    assert!(!running(&log).is_empty());
    drop(stream);
    until("tail is gone here and on the head", || running(&log).is_empty());

    let mut stream = tunnel.remote().stream("echo last; exit 0").unwrap();
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "last\n");
    assert_eq!(stream.chunk().await.unwrap(), None);
    let mut stream = tunnel.remote().stream("echo no such log >&2; exit 3").unwrap();
    let error = stream.chunk().await.unwrap_err();
    assert!(
        matches!(&error, SshError::Command { status: 3, stderr, .. } if stderr == "no such log"),
        "{error}"
    );
}

#[tokio::test]
async fn too_many_sessions_are_reported() {
    let sshd = Sshd::start("MaxSessions 2");
    let tunnel = Tunnel::open(sshd.spec()).await.unwrap();
    let mut streams: Vec<_> =
        (0..8).map(|_| tunnel.remote().stream("echo up; exec tail -f /dev/null").unwrap()).collect();
    assert!(
        matches!(tunnel.remote().stream("true"), Err(SshError::SessionsExhausted { .. })),
        "our own limit"
    );
    let mut refused = 0;
    for stream in &mut streams {
        match timeout(DEADLINE, stream.chunk()).await.unwrap() {
            Ok(chunk) => assert_eq!(chunk.unwrap(), "up\n"),
            Err(error) => {
                assert!(matches!(error, SshError::SessionsExhausted { .. }), "sshd's limit: {error:?}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 6);
    assert_eq!(tunnel.refusals().borrow().count, 0, "no refusal behind a forward");
    drop(streams);
    // sshd needs a moment to notice that sessions have ended.
    let again = async {
        loop {
            match tunnel.remote().run("exit 4", DEADLINE).await {
                Err(SshError::SessionsExhausted { .. }) => tokio::task::yield_now().await,
                other => return other.unwrap().status,
            }
        }
    };
    assert_eq!(timeout(DEADLINE, again).await.unwrap(), 4);
}

#[tokio::test]
async fn a_silent_port_behind_a_forward_is_counted() {
    let sshd = Sshd::start("");
    let (local, nobody) = (free_port(), free_port());
    let mut spec = sshd.spec();
    spec.forwards = vec![port(local, nobody)];
    let tunnel = Tunnel::open(spec).await.unwrap();
    let mut refusals = tunnel.refusals();
    // The connection is either reset or closed, depending on timing.
    let _ = fetch(local);
    let seen = timeout(DEADLINE, refusals.wait_for(|r| r.count > 0)).await.unwrap().unwrap().clone();
    assert_eq!(seen.reason, "connect failed: Connection refused");
}

#[tokio::test]
async fn a_killed_server_is_a_lost_connection() {
    let mut sshd = Sshd::start("");
    let tunnel = Tunnel::open(sshd.spec()).await.unwrap();
    let mut stream = tunnel.remote().stream("echo up; exec tail -f /dev/null").unwrap();
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "up\n");
    sshd.stop();
    let error = timeout(DEADLINE, tunnel.closed()).await.unwrap();
    assert_eq!(error.problem(Timestamp::default()).kind, ProblemKind::TunnelLost, "{error}");
    let error = timeout(DEADLINE, stream.chunk()).await.unwrap().unwrap_err();
    assert!(matches!(error, SshError::Lost { .. }), "{error:?}");
    let error = tunnel.remote().run("true", DEADLINE).await.unwrap_err();
    assert!(matches!(error, SshError::Lost { .. }), "{error:?}");
    sshd.restart();
    let error = tunnel.remote().run("true", DEADLINE).await.unwrap_err();
    assert!(matches!(error, SshError::Lost { .. }), "no new connection is opened: {error:?}");
    Tunnel::open(sshd.spec()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_responding_is_a_lost_connection() {
    let sshd = Sshd::start("");
    let mut spec = sshd.spec();
    spec.keep_alive = KeepAlive { every: Duration::from_secs(2), misses: 2 };
    let tunnel = Tunnel::open(spec).await.unwrap();
    sshd.signal("STOP");
    let error = timeout(DEADLINE, tunnel.closed()).await.unwrap();
    assert_eq!(
        error.to_string(),
        "connection to 127.0.0.1 lost: the host does not respond (keepalive timeout)"
    );
}

#[tokio::test]
async fn a_refused_key_names_user_and_key() {
    let sshd = Sshd::start("");
    fs::write(sshd.dir().path("authorized_keys"), "").unwrap();
    let problem = failure(sshd.spec()).await.problem(Timestamp::default());
    assert_eq!(problem.kind, ProblemKind::KeyRefused);
    let key = sshd.dir().path("key");
    assert_eq!(
        problem.what,
        format!("127.0.0.1 refused login as {} with key {}", sshd::user(), key.display())
    );
    assert!(problem.hint.to_string().contains("authorized_keys"), "{}", problem.hint);
}

#[tokio::test]
async fn an_unusable_key_is_reported_with_a_hint() {
    let sshd = Sshd::start("");
    let sshd_dir = sshd.dir();
    let fault = async |spec: TunnelSpec| match failure(spec).await {
        SshError::KeyFile { fault, path } => (fault, path),
        error => panic!("{error:?}"),
    };
    let mut spec = sshd.spec();
    spec.auth.private_key = Some(sshd_dir.path("nowhere"));
    assert_eq!(fault(spec).await.0, KeyFault::Missing);

    fs::set_permissions(sshd_dir.path("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = failure(sshd.spec()).await.problem(Timestamp::default());
    assert_eq!(error.hint.to_string(), format!("run `chmod 600 {}`", sshd_dir.path("key").display()));
    fs::set_permissions(sshd_dir.path("key"), fs::Permissions::from_mode(0o600)).unwrap();

    sshd_dir.keygen("locked", "ed25519", "a passphrase");
    let authorized = fs::read_to_string(sshd_dir.path("locked.pub")).unwrap();
    fs::write(sshd_dir.path("authorized_keys"), authorized).unwrap();
    let mut spec = sshd.spec();
    spec.auth.private_key = Some(sshd_dir.path("locked"));
    assert_eq!(fault(spec).await.0, KeyFault::Locked);

    let mut spec = sshd.spec();
    spec.auth.private_key = Some(sshd_dir.path("broken"));
    fs::write(sshd_dir.path("broken"), "not a key\n").unwrap();
    fs::set_permissions(sshd_dir.path("broken"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(fault(spec).await.0, KeyFault::Unusable(_)));
}

#[tokio::test]
async fn an_unreachable_host_is_reported_with_the_reason() {
    let sshd = Sshd::start("");
    let why = async |spec: TunnelSpec| match failure(spec).await {
        SshError::Unreachable { why, .. } => why,
        error => panic!("{error:?}"),
    };
    let sshd_dir = sshd.dir();
    assert_eq!(why(sshd_dir.spec(free_port())).await, "connection refused");
    assert!(why(sshd_dir.spec(greeter())).await.contains("not an ssh server"));

    // Accepts connections into its backlog and never responds.
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut spec = sshd_dir.spec(hole.local_addr().unwrap().port());
    spec.connect_timeout = Duration::from_secs(1);
    assert_eq!(why(spec).await, "connection timed out");

    let mut spec = sshd.spec();
    spec.auth.proxy_command = Some("sh -c 'echo the bastion is closed >&2; exit 1'".into());
    assert_eq!(why(spec).await, "the bastion is closed");
    until("no process is left", || running(&sshd_dir.path("r")).is_empty());
}

#[tokio::test]
async fn a_taken_local_port_is_named() {
    let sshd = Sshd::start("");
    let (free, holder) = (free_port(), TcpListener::bind("127.0.0.1:0").unwrap());
    let taken = holder.local_addr().unwrap().port();
    let mut spec = sshd.spec();
    spec.forwards = [free, taken].map(|local| port(local, 1)).to_vec();
    assert_eq!(failure(spec).await, SshError::PortInUse { port: taken });
    until("ssh is gone", || running(&sshd.dir().path("r")).is_empty());
}

#[tokio::test]
async fn a_missing_ssh_is_reported() {
    let sshd = Sshd::start("");
    let mut spec = sshd.spec();
    spec.ssh = sshd.dir().path("no-ssh");
    let problem = failure(spec).await.problem(Timestamp::default());
    assert!(
        problem.what.contains("no-ssh") && problem.hint.to_string().contains("openssh-client"),
        "{problem:?}"
    );
}

#[tokio::test]
async fn a_proxy_command_and_an_alias_lead_to_the_host() {
    let sshd = Sshd::start("");
    let sshd_dir = sshd.dir();
    let config = format!(
        "Host head\n  HostName 127.0.0.1\n  Port {}\n  User {}\n  HostKeyAlias the-head\n  LocalForward {} localhost:1\n\
         Host *\n  ControlMaster auto\n  ControlPath {}\n  ControlPersist 60\n  RequestTTY force\n  RemoteCommand false\n",
        sshd.port,
        sshd::user(),
        free_port(),
        sshd_dir.path("users-own.sock").display()
    );
    fs::write(sshd_dir.path("ssh_config"), config).unwrap();
    let mut spec = sshd.spec();
    spec.host = HostName::parse("head").unwrap();
    (spec.auth.user, spec.auth.port) = (None, None);
    let local = free_port();
    spec.forwards = vec![port(local, greeter())];
    let tunnel = Tunnel::open(spec.clone()).await.unwrap();
    assert_eq!(fetch(local).unwrap(), "hello");
    assert!(!sshd_dir.path("users-own.sock").exists());
    assert!(fs::read_to_string(&spec.known_hosts).unwrap().starts_with("the-head "));
    tunnel.close().await;

    // Through another ssh, as a jump host does.
    let jump = format!(
        "ssh -F none -i {} -o UserKnownHostsFile={} -o StrictHostKeyChecking=accept-new -p {} -W %h:%p 127.0.0.1",
        sshd_dir.path("key").display(),
        sshd_dir.path("jump_hosts").display(),
        sshd.port
    );
    spec.auth.proxy_command = Some(jump);
    let tunnel = Tunnel::open(spec).await.unwrap();
    assert_eq!(fetch(local).unwrap(), "hello");
    drop(tunnel);
    until("the jump is gone too", || running(&sshd_dir.path("jump_hosts")).is_empty());
}

#[tokio::test]
async fn a_login_has_the_terminal_to_itself() {
    let sshd = Sshd::start("");
    let spec = sshd.spec();
    let tunnel = Tunnel::open(spec.clone()).await.unwrap();
    let mut terminal = Pty::of(&ssh::login(&spec), 80, 24);
    terminal.send("echo $((40 + 2)); exit 5\r");
    terminal.wait("answer of the head's shell", |text| text.lines().any(|l| l.trim() == "42"));
    assert_eq!(terminal.wait_exit().exit_code(), 5);
    tunnel.close().await;
}

#[tokio::test]
async fn a_login_does_not_trust_an_unknown_host_key() {
    let sshd = Sshd::start("");
    let output = ssh::login(&sshd.spec()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(255), "{output:?}");
}

#[cfg(target_os = "linux")] // Reads /proc.
#[tokio::test]
async fn tokens_stay_out_of_every_child() {
    let sshd = Sshd::start("AcceptEnv *");
    let sshd_dir = sshd.dir();
    fs::write(sshd_dir.path("ssh_config"), "SendEnv RAY_*\n").unwrap();
    let held = hold(&sshd_dir, sshd.port, "tail", &[("RAY_AUTH_TOKEN", "hunter2")]);
    let tunnel = Tunnel::open(sshd.spec()).await.unwrap();
    let environments = tunnel.remote().run("cat /proc/[0-9]*/environ", DEADLINE).await.unwrap();
    drop(held);
    assert!(!environments.cut);
    let all: Vec<_> = environments.stdout.split(|b| *b == 0).collect();
    let with_token = all.iter().filter(|v| v.starts_with(b"RAY_AUTH_TOKEN=hunter2")).count();
    assert_eq!(with_token, 1, "only the console itself has it");
}

/// A console in a separate process, killed with -9 when dropped.
struct Held(std::process::Child);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts this test program again as a console, and waits until it has reached that phase of a connection.
fn hold(sshd_dir: &SshdDir, port: u16, phase: &str, env: &[(&str, &str)]) -> Held {
    let mut console = Command::new(std::env::current_exe().unwrap());
    console
        .args(["--exact", "ssh::nothing_outlives_a_killed_console", "--nocapture"])
        .envs(env.iter().copied());
    console.env("HOLD_PHASE", phase).env("HOLD_PORT", port.to_string()).env("HOLD_DIR", sshd_dir.path(""));
    let held = Held(console.stdout(Stdio::null()).spawn().unwrap());
    let some =
        |path: &str, is_it: fn(&str) -> bool| running(&sshd_dir.path(path)).iter().any(|p| is_it(&p.args));
    until(&format!("the console is {phase}"), || match phase {
        // Not the ssh that only reads the settings before that.
        "connecting" => some("r", |args| args.contains("ControlMaster=yes")),
        // Not the ssh that is given the proxy command.
        "proxied" => some("r/proxy", |args| !args.contains("ProxyCommand")),
        _ => sshd_dir.path(phase).exists() && some("r", |_| true),
    });
    held
}

/// Runs in the console's process: connects and keeps the connection open.
async fn hold_on(phase: &str) {
    let sshd_dir = SshdDir::at(std::env::var_os("HOLD_DIR").unwrap().as_ref());
    let mut spec = sshd_dir.spec(std::env::var("HOLD_PORT").unwrap().parse().unwrap());
    // Longer than the test waits, so that no ssh ends on its own.
    spec.connect_timeout = Duration::from_secs(600);
    if phase == "proxied" {
        // Ignores all signals but -9, and has a child of its own.
        let marker = sshd_dir.path("r/proxy");
        let script = format!("trap \"\" TERM HUP INT PIPE; sleep 600 & : {}; wait", marker.display());
        spec.auth.proxy_command = Some(format!("sh -c '{script}'"));
    }
    let tunnel = Tunnel::open(spec).await.unwrap();
    let log = sshd_dir.path("driver.log");
    fs::write(&log, "up\n").unwrap();
    let mut stream = tunnel.remote().stream(&format!("tail -n +1 -F {}", log.display())).unwrap();
    stream.chunk().await.unwrap();
    fs::write(sshd_dir.path(phase), "").unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn nothing_outlives_a_killed_console() {
    if let Ok(phase) = std::env::var("HOLD_PHASE") {
        return tokio::runtime::Runtime::new().unwrap().block_on(hold_on(&phase));
    }
    let sshd = Sshd::start("");
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let hole = hole.local_addr().unwrap().port();
    for (phase, port) in [("connecting", hole), ("proxied", sshd.port), ("tail", sshd.port)] {
        let sshd_dir = sshd.dir();
        drop(hold(&sshd_dir, port, phase, &[]));
        until(&format!("nothing is left of {phase}"), || {
            running(&sshd_dir.path("r")).is_empty() && running(&sshd_dir.path("driver.log")).is_empty()
        });
    }
    // The next start removes what the killed consoles left behind.
    let run_dir = sshd.dir().path("r");
    assert_eq!(ssh::clear_stale_sockets(&run_dir).unwrap(), 1);
    assert_eq!(fs::read_dir(run_dir).unwrap().count(), 0);
}
