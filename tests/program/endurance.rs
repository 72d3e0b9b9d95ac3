//! Conditions that a running console must survive: a full disk, and being stopped and continued from outside.

use crate::head_fixture::{HeadFixture, TOKEN};
use crate::program::{Ran, kill, program};
use crate::pty::Pty;
use marin_tui::demo::Scenario;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

fn fixture() -> HeadFixture {
    HeadFixture::new(Scenario::default())
}

fn console(fixture: &HeadFixture) -> Pty {
    Pty::of(&fixture.command(&[]), 120, 40)
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_does_not_disturb_the_screen_and_is_reported_at_the_end() {
    let fixture = fixture();
    let state = fixture.home.path().join(".local/state/marin-tui");
    fs::create_dir_all(&state).unwrap();
    fs::set_permissions(&state, PermissionsExt::from_mode(0o700)).unwrap();
    // Every write to the log fails with ENOSPC.
    symlink("/dev/full", state.join("marin-tui.log")).unwrap();
    // Nothing listens there: each attempt is logged.
    let mut command = program(fixture.home.path());
    let mut pty = Pty::of(command.args(["--address", "http://127.0.0.1:9"]), 120, 40);
    pty.wait("why there is no connection", |s| s.contains("retry in"));
    pty.send("q");
    let exit = pty.wait_exit();
    let raw = String::from_utf8_lossy(&pty.raw()).into_owned();
    assert!(exit.success(), "{raw}");
    assert!(!raw.contains("tracing-subscriber"), "the log writer printed on the screen");
    assert!(raw.contains("No space left on device"), "{}", pty.text());
    assert!(pty.is_restored());
}

/// A shell with job control runs the console; after each stop it waits for a line before it continues the console.
const SHELL: &str = "set -m; \"$@\"; while [ $? -gt 128 ]; do echo held; read -r line; fg; done";

#[test]
#[cfg(target_os = "linux")]
fn a_stopped_console_restores_the_terminal_and_takes_it_again() {
    let fixture = fixture();
    let address = format!("http://{}", fixture.head.dashboard);
    let argv = ["/bin/bash", "-c", SHELL, "bash", env!("CARGO_BIN_EXE_marin-tui"), "--address", &address];
    let home = fixture.home.path().to_str().unwrap();
    let mut pty = Pty::start(&argv, &[("HOME", home), ("RAY_AUTH_TOKEN", TOKEN)], 120, 40);
    // A small window shows the names of its panes in one line.
    let is_shown = |s: &str| (s.contains("1 Slices") || s.contains("1 Nodes")) && !s.contains("held");
    pty.wait("the console", is_shown);
    // Stopped with the key.
    pty.send("\x1a");
    pty.wait("the shell", |s| s.contains("held"));
    pty.wait("the terminal as the shell knows it", |_| pty.is_restored());
    pty.send("\r");
    pty.wait("the console again", is_shown);
    // Stopped from outside.
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
fn without_a_shell_the_key_does_not_suspend_the_console() {
    let fixture = fixture();
    let mut pty = console(&fixture);
    pty.wait_text("1 Slices");
    pty.send("\x1a");
    pty.wait_text("cannot suspend");
    pty.send("q");
    assert!(pty.wait_exit().success());
}

#[test]
fn old_backups_are_reported_at_the_start_and_deleted_on_request() {
    let fixture = fixture();
    let state = fixture.home.path().join(".local/state/marin-tui");
    let folder = state.join("backups/a-1");
    fs::create_dir_all(folder.join("packages")).unwrap();
    fs::set_permissions(&state, PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(folder.join("marin-tui-backup"), "").unwrap();
    let list = folder.join("jobs.json");
    fs::write(&list, r#"{"version":1,"cluster":"a","jobs":[],"packages":{}}"#).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(31 * 24 * 3600);
    fs::File::options().write(true).open(&list).unwrap().set_modified(long_ago).unwrap();
    let mut pty = console(&fixture);
    pty.wait_text("1 backup older than 30 days");
    pty.send("q");
    assert!(pty.wait_exit().success());
    let run = |args: &[&str]| Ran::of(&program(fixture.home.path()).args(args).output().unwrap());
    let listed = run(&["backups", "--json"]).json();
    assert_eq!((&listed[0]["cluster"], &listed[0]["outcome"]), (&"a".into(), &"old".into()));
    let mut transcript = fixture.transcript();
    let mut delete = |more: &[&str]| {
        let words = [&["backups", "--delete-older-than"], more].concat();
        transcript.add(&words.join(" "), &run(&words));
        folder.exists()
    };
    assert!(delete(&["30d"]) && delete(&["30d", "--dry-run"]) && delete(&["60d", "--yes"]));
    assert!(!delete(&["30d", "--yes"]));
    transcript.is("old_backups");
    let audited = run(&["audit", "--json"]).json();
    let last = audited.as_array().unwrap().last().unwrap();
    assert_eq!(last["outcome"], "deleted", "{last}");
}
