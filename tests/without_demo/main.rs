//! Tests of the program without the simulated fleet (`--no-default-features`): commands, man pages and console are
//! those of the default build, and `demo` reports that the fleet is missing. `tests/run without-demo` builds and runs
//! them; a build with the fleet contains none of these tests.

#![cfg(not(feature = "demo"))]
#![allow(clippy::unwrap_used, reason = "a test stops at the first unexpected value")]

#[path = "../program/man.rs"]
mod man;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/pty.rs"]
mod pty;
#[path = "../program/scripts.rs"]
mod scripts;

use program::{Ran, program};
use pty::Pty;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Response of Ray 2.60 to `GET /api/jobs/`.
const JOBS: &str = include_str!("../fixtures/2.60.0/busy_jobs.http.json");

fn recorded() -> String {
    serde_json::from_str::<Value>(JOBS).unwrap()["body"].as_str().unwrap().to_owned()
}

/// Answers the requests on a connection, one after the other.
fn answer(mut stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        let _headers = lines.by_ref().take_while(|line| !line.is_empty()).count();
        let (status, body) = match request.split(' ').nth(1) {
            Some("/api/jobs/") => ("200 OK", recorded()),
            Some("/api/version") => ("200 OK", r#"{"version": "4", "ray_version": "2.60.0"}"#.to_owned()),
            _ => ("404 Not Found", String::new()),
        };
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
        if write!(stream, "{head}\r\n\r\n{body}").is_err() {
            break;
        }
    }
}

/// Starts a dashboard that serves its version and its jobs.
fn dashboard() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(&stream));
        }
    });
    address
}

fn run(arguments: &[&str]) -> Ran {
    let home = tempfile::tempdir().unwrap();
    Ran::of(&program(home.path()).args(arguments).output().unwrap())
}

#[test]
fn demo_names_the_build_that_includes_it() {
    let error = run(&["demo", "--plain"]).bad();
    assert!(error.contains("--no-default-features"), "{error}");
}

#[test]
fn the_stand_in_for_ray_is_not_a_command() {
    let error = run(&["demo-ray", "status"]).exits(2).err;
    assert!(error.contains("demo-ray"), "{error}");
    assert!(!run(&["completions", "bash"]).good().contains("demo-ray"));
}

#[test]
fn jobs_of_a_dashboard_are_listed() {
    let address = format!("http://{}", dashboard());
    let rows: Vec<Value> =
        serde_json::from_str(&run(&["--address", &address, "list-jobs", "--all", "--json"]).good()).unwrap();
    let theirs: Vec<Value> = serde_json::from_str(&recorded()).unwrap();
    let submitted = theirs.iter().filter_map(|job| job["submission_id"].as_str());
    for id in submitted {
        assert!(rows.iter().any(|row| row["submission_id"] == id), "{id}: {rows:?}");
    }
}

#[test]
fn the_console_opens_and_restores_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let env = [("HOME", home.path().to_str().unwrap())];
    let address = format!("http://{}", dashboard());
    let mut pty = Pty::start(&[env!("CARGO_BIN_EXE_marin-tui"), "--address", &address], &env, 120, 40);
    pty.wait_text("noct-1");
    pty.send("q");
    assert!(pty.wait_exit().success());
    assert!(pty.is_restored());
}
