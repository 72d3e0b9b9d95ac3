//! What the console bears for as long as it runs: a full disk, and being stopped and continued from outside.

use crate::program::{Ran, kill, program};
use crate::pty::Pty;
use marin_tui::demo::{Head, Scenario};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A simulated head, and a person's home.
struct Place {
    _runtime: Runtime,
    head: Head,
    home: TempDir,
}

impl Place {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let head = runtime.block_on(Head::start(Scenario::default())).unwrap();
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        Self { _runtime: runtime, head, home }
    }

    fn console(&self) -> Pty {
        let address = format!("http://{}", self.head.dashboard);
        let argv = [env!("CARGO_BIN_EXE_marin-tui"), "--address", &address];
        Pty::start(&argv, &[("HOME", self.home.path().to_str().unwrap())], 120, 40)
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_the_screen_alone_and_is_told_at_the_end() {
    let place = Place::new();
    let state = place.home.path().join(".local/state/marin-tui");
    fs::create_dir_all(&state).unwrap();
    fs::set_permissions(&state, PermissionsExt::from_mode(0o700)).unwrap();
    // Every write to it fails with ENOSPC.
    symlink("/dev/full", state.join("marin-tui.log")).unwrap();
    // Nobody answers there: each try is logged.
    let argv = [env!("CARGO_BIN_EXE_marin-tui"), "--address", "http://127.0.0.1:9"];
    let mut pty = Pty::start(&argv, &[("HOME", place.home.path().to_str().unwrap())], 120, 40);
    pty.wait("why there is no connection", |s| s.contains("retry in"));
    pty.send("q");
    let exit = pty.wait_exit();
    let raw = String::from_utf8_lossy(&pty.raw()).into_owned();
    assert!(exit.success(), "{raw}");
    assert!(!raw.contains("tracing-subscriber"), "the log writer printed on the screen");
    assert!(raw.contains("is incomplete: No space left on device"), "{}", pty.text());
    assert!(pty.is_restored());
}

/// A shell that controls jobs runs the console, and after each stop waits for a line before it continues it.
const SHELL: &str = "set -m; \"$@\"; while [ $? -gt 128 ]; do echo held; read -r line; fg; done";

#[test]
#[cfg(target_os = "linux")]
fn a_stopped_console_gives_the_terminal_back_and_takes_it_again() {
    let place = Place::new();
    let address = format!("http://{}", place.head.dashboard);
    let argv = ["/bin/bash", "-c", SHELL, "bash", env!("CARGO_BIN_EXE_marin-tui"), "--address", &address];
    let home = place.home.path().to_str().unwrap();
    let mut pty = Pty::start(&argv, &[("HOME", home)], 120, 40);
    // A small window has the names of its panes in a line.
    let is_shown = |s: &str| (s.contains("1 Slices") || s.contains("1 Nodes")) && !s.contains("held");
    pty.wait("the console", is_shown);
    // By the key.
    pty.send("\x1a");
    pty.wait("the shell", |s| s.contains("held"));
    pty.wait("the terminal as the shell knows it", |_| pty.is_restored());
    pty.send("\r");
    pty.wait("the console again", is_shown);
    // From outside.
    let shell = pty.pid();
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    kill("-TSTP", children.trim().parse().unwrap());
    pty.wait("the shell", |s| s.contains("held"));
    pty.wait("the terminal as the shell knows it", |_| pty.is_restored());
    pty.resize(100, 30);
    pty.send("\r");
    pty.wait("the console again", is_shown);
    pty.send("q");
    assert!(pty.wait_exit().success());
    assert!(pty.is_restored());
}

#[test]
fn without_a_shell_the_key_does_not_stop_it() {
    let place = Place::new();
    let mut pty = place.console();
    pty.wait_text("1 Slices");
    pty.send("\x1a");
    pty.wait_text("cannot suspend");
    pty.send("q");
    assert!(pty.wait_exit().success());
}

#[test]
fn old_backups_are_said_at_the_start_and_deleted_when_asked() {
    let place = Place::new();
    let state = place.home.path().join(".local/state/marin-tui");
    let folder = state.join("backups/a-1");
    fs::create_dir_all(folder.join("packages")).unwrap();
    fs::set_permissions(&state, PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(folder.join("marin-tui-backup"), "").unwrap();
    let list = folder.join("jobs.json");
    fs::write(&list, r#"{"version":1,"cluster":"a","jobs":[],"packages":{}}"#).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(31 * 24 * 3600);
    fs::File::options().write(true).open(&list).unwrap().set_modified(long_ago).unwrap();
    let mut pty = place.console();
    pty.wait_text("1 backup older than 30 days");
    pty.send("q");
    assert!(pty.wait_exit().success());
    let run = |args: &[&str]| {
        let Ran { code, out, err } = Ran::of(&program(place.home.path()).args(args).output().unwrap());
        (code, out, err)
    };
    let (code, listed, _) = run(&["backups", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((code, &listed[0]["cluster"], &listed[0]["outcome"]), (Some(0), &"a".into(), &"old".into()));
    let (code, _, said) = run(&["backups", "--delete-older-than", "30"]);
    assert!(code == Some(1) && said.contains("--yes") && folder.exists(), "{said}");
    let (_, would, _) = run(&["backups", "--delete-older-than", "30", "--dry-run"]);
    assert!(would.contains("would be deleted") && folder.exists(), "{would}");
    let (_, none, _) = run(&["backups", "--delete-older-than", "60", "--yes"]);
    assert!(!none.contains("deleted") && folder.exists(), "{none}");
    let (code, done, said) = run(&["backups", "--delete-older-than", "30", "--yes"]);
    assert!(code == Some(0) && done.contains("deleted") && !folder.exists(), "{done}{said}");
    let (_, audited, _) = run(&["audit"]);
    assert!(audited.contains("delete backup") && audited.trim_end().ends_with("deleted"), "{audited}");
}
