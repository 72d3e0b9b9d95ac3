//! `src/ssh` against a real OpenSSH server: what works, every way to fail in words, and that nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod sshd;

use marin_tui::model::{ProblemKind, Timestamp};
use marin_tui::ssh::{self, Forward, KeyFault, SshError, Tunnel, TunnelSpec};
use sshd::{DEADLINE, Place, Sshd, free_port, running, until};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::timeout;

/// Why a connection does not come about.
async fn failure(spec: TunnelSpec) -> SshError {
    match timeout(DEADLINE, Tunnel::open(spec)).await.unwrap() {
        Ok(_) => panic!("it connected"),
        Err(error) => error,
    }
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

#[tokio::test]
async fn forwards_carry_bytes_and_end_with_the_tunnel() {
    let sshd = Sshd::start("");
    let forwards = [(free_port(), greeter()), (free_port(), greeter())];
    let mut spec = sshd.spec();
    spec.forwards = forwards.map(|(local, remote)| Forward { local, remote }).to_vec();
    let tunnel = Tunnel::open(spec).await.unwrap();
    for (local, _) in forwards {
        assert_eq!(fetch(local).unwrap(), "hello");
    }
    tunnel.close().await;
    // At once: a tunnel that is closed has given its ports back.
    for (local, _) in forwards {
        TcpListener::bind(("127.0.0.1", local)).unwrap();
    }
    assert!(running(&sshd.place().path("r")).is_empty());
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
    assert_eq!(run("exit 255").await.status, 255, "not taken for a lost connection");
    assert_eq!(run("cat").await.stdout, b"", "a command's standard input is empty");
    let odd = "it's $HOME \"quoted\"\n`twice` \\ ! *";
    assert_eq!(run(&format!("printf %s {}", ssh::quote(odd))).await.stdout, odd.as_bytes());
    let big = run("head -c 5000000 /dev/zero").await;
    assert_eq!((big.stdout.len(), big.cut, big.status), (4 << 20, true, 0));

    let marker = sshd.place().path("marker");
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
    let log = sshd.place().path("driver.log");
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
async fn one_command_too_many_is_told_as_that() {
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
    assert_eq!(tunnel.remote().run("exit 4", DEADLINE).await.unwrap().status, 4);
}

#[tokio::test]
async fn a_silent_port_behind_a_forward_is_counted() {
    let sshd = Sshd::start("");
    let (local, nobody) = (free_port(), free_port());
    let mut spec = sshd.spec();
    spec.forwards = vec![Forward { local, remote: nobody }];
    let tunnel = Tunnel::open(spec).await.unwrap();
    let mut refusals = tunnel.refusals();
    // Depending on who is faster, the connection is reset or ends.
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
    assert!(matches!(error, SshError::Lost { .. }), "no connection of its own: {error:?}");
    Tunnel::open(sshd.spec()).await.unwrap();
}
