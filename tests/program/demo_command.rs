//! The `demo` command: it shows its clusters or serves them, and leaves nothing behind, however it ends.

use crate::left::assert_no_process_names;
use crate::pty::Pty;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A folder for a demo's folder, an empty home, and how to run the binary there.
struct Room {
    dir: TempDir,
}

impl Room {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        for part in ["t", "home"] {
            fs::create_dir(dir.path().join(part)).unwrap();
        }
        Self { dir }
    }

    fn env(&self) -> [(&'static str, String); 2] {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        [("TMPDIR", at("t")), ("HOME", at("home"))]
    }

    fn demo(&self, arguments: &[&str]) -> Pty {
        let argv = [&[env!("CARGO_BIN_EXE_marin-tui"), "demo"], arguments].concat();
        let env = self.env();
        let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
        Pty::start(&argv, &env, 160, 45)
    }

    fn serve(&self, arguments: &[&str]) -> (Child, Value) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_marin-tui"))
            .args(["demo", "--serve"])
            .args(arguments)
            .envs(self.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, serde_json::from_str(&line).unwrap())
    }

    /// Nothing is left: no file, no process.
    fn assert_empty(&self) {
        for part in ["t", "home"] {
            let left: Vec<_> =
                fs::read_dir(self.dir.path().join(part)).unwrap().map(|e| e.unwrap().path()).collect();
            assert!(left.is_empty(), "{left:?}");
        }
        assert_no_process_names(self.dir.path());
    }
}

fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn demo_shows_its_clusters_and_leaves_nothing_behind() {
    let room = Room::new();
    let mut pty = room.demo(&[]);
    let all = ["12 of 14 up", "token refused", "unreachable"];
    let text = pty.wait("twelve of fourteen", |t| all.iter().all(|words| t.contains(words)));
    assert!(text.contains("marin-big-run"), "{text}");
    pty.send("q");
    assert!(pty.wait_exit().success());
    assert!(pty.is_restored());
    room.assert_empty();
}

#[test]
fn a_signal_ends_a_demo_and_its_folder() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let room = Room::new();
        let mut pty = room.demo(&["--scenario", "calm", "--clusters", "2"]);
        pty.wait_text("2 of 2 up");
        kill(signal, pty.pid());
        assert!(pty.wait_exit().success(), "{signal}");
        assert!(pty.is_restored(), "{signal}");
        room.assert_empty();
    }
}

#[test]
fn a_window_that_is_closed_ends_a_demo_and_its_folder() {
    let room = Room::new();
    let pair = portable_pty::native_pty_system().openpty(portable_pty::PtySize::default()).unwrap();
    let mut command = portable_pty::CommandBuilder::new(env!("CARGO_BIN_EXE_marin-tui"));
    command.args(["demo", "--scenario", "calm", "--clusters", "2"]);
    room.env().iter().for_each(|(k, v)| command.env(k, v));
    command.env("TERM", "xterm-256color");
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut screen = pair.master.try_clone_reader().unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("Clusters") {
        let mut part = [0; 4096];
        let n = screen.read(&mut part).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&part[..n]);
    }
    drop((screen, pair.master));
    assert!(child.wait().unwrap().success());
    room.assert_empty();
}

#[test]
fn a_demo_that_was_killed_is_cleared_away_by_the_next_one() {
    let room = Room::new();
    let (mut killed, _) = room.serve(&["--scenario", "calm", "--clusters", "1"]);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let (mut next, _) = room.serve(&["--scenario", "calm", "--clusters", "1"]);
    drop(next.stdin.take());
    assert!(next.wait().unwrap().success());
    room.assert_empty();
}

#[test]
fn a_served_fleet_is_attached_to_and_ends_with_its_input_or_a_signal() {
    let room = Room::new();
    let (mut child, line) =
        room.serve(&["--clusters=3", "--scenario=calm", "--fault=marin-big-run=unreachable"]);
    let folder = Path::new(line["folder"].as_str().unwrap()).to_owned();
    assert_eq!(line["clusters"].as_array().unwrap().len(), 3);
    let env: Vec<(&str, &str)> =
        line["env"].as_object().unwrap().iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap())).collect();
    let binary = env!("CARGO_BIN_EXE_marin-tui");
    let argv =
        [binary, "--config", line["settings"].as_str().unwrap(), "--infra", line["infra"].as_str().unwrap()];
    let mut pty = Pty::start(&argv, &env, 160, 45);
    let text = pty.wait_text("2 of 3 up");
    assert!(text.contains("unreachable"), "{text}");
    pty.send("q");
    assert!(pty.wait_exit().success());
    assert!(folder.exists());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    room.assert_empty();
    let (mut child, _) = room.serve(&["--clusters=1"]);
    kill("-TERM", child.id());
    assert!(child.wait().unwrap().success());
    room.assert_empty();
}

#[test]
fn without_a_terminal_demo_says_so_and_makes_nothing() {
    let room = Room::new();
    let output = Command::new(env!("CARGO_BIN_EXE_marin-tui"))
        .arg("demo")
        .envs(room.env())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("needs a terminal"));
    room.assert_empty();
}
