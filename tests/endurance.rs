//! What the console bears for as long as it runs: a full disk, and being stopped and continued from outside.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod pty;

use marin_tui::demo::{Head, Scenario};
use pty::Pty;
use std::fs;
use std::os::unix::fs::symlink;
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
    fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // Every write to it fails with ENOSPC.
    symlink("/dev/full", state.join("marin-tui.log")).unwrap();
    // Nobody answers there: each try is logged.
    let argv = [env!("CARGO_BIN_EXE_marin-tui"), "--address", "http://127.0.0.1:9"];
    let mut pty = Pty::start(&argv, &[("HOME", place.home.path().to_str().unwrap())], 120, 40);
    pty.wait("why there is no connection", |s| s.contains("again in"));
    pty.send("q");
    let exit = pty.wait_exit();
    let raw = String::from_utf8_lossy(&pty.raw()).into_owned();
    assert!(exit.success(), "{raw}");
    assert!(!raw.contains("tracing-subscriber"), "the log writer printed on the screen");
    assert!(raw.contains("the log was not written whole: No space left on device"), "{}", pty.text());
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
    let is_shown = |s: &str| s.contains("Nodes") && !s.contains("held");
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
    let console = children.trim();
    let stop = || std::process::Command::new("kill").args(["-TSTP", console]).status().unwrap();
    assert!(stop().success());
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
    pty.wait_text("Nodes");
    pty.send("\x1a");
    pty.wait_text("not suspended");
    pty.send("q");
    assert!(pty.wait_exit().success());
}
