//! The `demo` command: it shows its clusters or serves them, and leaves nothing behind, regardless of how it ends.

use crate::left::assert_no_process_names;
use crate::program::{Ran, kill, program};
use crate::pty::Pty;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A temporary directory and an empty home for a demo, and functions that run the binary there.
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

    /// Asserts that no file and no process is left.
    fn assert_empty(&self) {
        for part in ["t", "home"] {
            let left: Vec<_> =
                fs::read_dir(self.dir.path().join(part)).unwrap().map(|e| e.unwrap().path()).collect();
            assert!(left.is_empty(), "{left:?}");
        }
        assert_no_process_names(self.dir.path());
    }
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
fn the_next_demo_removes_the_folder_of_a_killed_one() {
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
fn a_served_fleet_can_be_attached_to_and_ends_with_its_input_or_a_signal() {
    let room = Room::new();
    let (mut child, line) =
        room.serve(&["--clusters=3", "--scenario=calm", "--fault=marin-big-run=unreachable"]);
    let folder = Path::new(line["dir"].as_str().unwrap()).to_owned();
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

impl Room {
    /// Starts `marin-tui --plain demo` without a terminal; returns the process and its lines.
    fn plain(&self, arguments: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_marin-tui"))
            .args(["--plain", "demo"])
            .args(arguments)
            .envs(self.env())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        (child, lines)
    }
}

/// Reads lines until each of the words has occurred; fails if the lines end before that.
fn await_lines(lines: &mut impl Iterator<Item = String>, words: &[&str]) -> Vec<String> {
    let mut seen = Vec::new();
    while !words.iter().all(|words| seen.iter().any(|line: &String| line.contains(words))) {
        let Some(line) = lines.next() else { panic!("{words:?} is not in\n{}", seen.join("\n")) };
        seen.push(line);
    }
    seen
}

#[test]
fn plain_prints_what_changes_and_ends_by_a_signal() {
    for signal in ["-INT", "-TERM"] {
        let room = Room::new();
        let (mut child, mut lines) = room.plain(&["--fault", "marin-big-run=unreachable"]);
        let seen = await_lines(
            &mut lines,
            &[
                "marin-us-central2: connected",
                "marin-us-central2: Ray 2.",
                "alive",
                "marin-big-run: down, retrying: ",
                "Hint: ",
                "issue: ",
            ],
        );
        for line in &seen {
            let (clock, rest) = line.split_once(' ').unwrap();
            assert!(clock.len() == 8 && clock.bytes().filter(|b| *b == b':').count() == 2, "{line}");
            assert!(rest.contains(": ") && !rest.contains('\x1b'), "{line}");
        }
        let once = seen.iter().filter(|line| line.contains("marin-us-central2: connected")).count();
        assert_eq!(once, 1, "each state is printed once");
        kill(signal, child.id());
        assert!(child.wait().unwrap().success(), "{signal}");
        room.assert_empty();
    }
}

#[test]
fn plain_exits_successfully_when_its_pipe_is_closed() {
    let room = Room::new();
    let (mut child, mut lines) = room.plain(&["--cluster", "marin-us-central2"]);
    let seen = await_lines(&mut lines, &["marin-us-central2: connected"]);
    assert!(seen.iter().all(|line| line.contains("marin-us-central2")), "{seen:?}");
    drop(lines);
    assert!(child.wait().unwrap().success());
    room.assert_empty();
}

#[test]
fn without_a_terminal_demo_fails_and_creates_nothing() {
    let room = Room::new();
    let demo = program(&room.dir.path().join("home")).arg("demo").envs(room.env()).output().unwrap();
    assert!(Ran::of(&demo).exits(1).err.contains("needs a terminal"));
    room.assert_empty();
}

#[test]
fn a_cleanup_of_the_demo_ends_a_leftover_process() {
    let room = Room::new();
    let (mut child, info) = room.serve(&["--scenario", "calm", "--clusters", "1", "--nodes", "5"]);
    let cluster = info["clusters"][0]["cluster"].as_str().unwrap();
    let run = |words: &str| {
        let mut command = program(&room.dir.path().join("home"));
        for (key, value) in info["env"].as_object().unwrap() {
            match value.as_str().unwrap() {
                "" => command.env_remove(key),
                value => command.env(key, value),
            };
        }
        command.arg("--config").arg(info["settings"].as_str().unwrap());
        command.arg("--infra").arg(info["infra"].as_str().unwrap());
        command.args(["-c", cluster, "run-cleanup", "--only", "processes", "--json"]);
        Ran::of(&command.args(words.split_whitespace()).output().unwrap()).exits(0)
    };
    let outcomes = |ran: Ran| {
        let rows = ran.json();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| text(row, "kind") + ": " + &text(row, "outcome"))
            .collect::<Vec<_>>()
    };
    assert_eq!(outcomes(run("--dry-run")), ["process: would be killed", "lock file: would be removed"]);
    assert_eq!(outcomes(run("--yes")), ["process: killed", "lock file: removed"]);
    assert!(outcomes(run("--dry-run")).is_empty(), "nothing is left");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
