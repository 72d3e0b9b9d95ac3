//! Operations that cannot begin, or cannot go on: what is said, and that nothing is done. The ray command is a script.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A home with a cluster of provider `local` whose head refuses connections, and a ray command.
struct Place {
    home: TempDir,
}

impl Place {
    fn new(ray: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let place = Self { home };
        place.file("ray", &format!("#!/bin/sh\necho \"$@\" >>{0}/asked\n{ray}\n", place.path("")));
        fs::set_permissions(place.path("ray"), fs::Permissions::from_mode(0o755)).unwrap();
        place.file(
            "settings.yaml",
            &format!("ray: [{}]\nclusters: {{lab: {{port: 9}}}}\n", place.path("ray")),
        );
        place.file(
            "infra/lab.yaml",
            "cluster_name: lab\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n",
        );
        place
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_marin-tui"));
        command.env_clear().env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command.args(["--infra", &self.path("infra"), "--config", &self.path("settings.yaml")]).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs what must fail; what it says.
    fn fails(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stderr).unwrap()
    }

    /// What ray was asked for so far.
    fn asked(&self) -> String {
        fs::read_to_string(self.path("asked")).unwrap_or_default()
    }
}

#[test]
fn a_ray_command_that_fails_is_found_before_anything_is_stopped() {
    let place = Place::new("echo 'no module named ray' >&2; exit 1");
    let said = place.fails(&["restart-cluster", "--yes"]);
    assert!(said.contains("no module named ray") && said.contains("nothing was changed"), "{said}");
    assert_eq!(place.asked(), "--version\n");
    let said = place.fails(&["restart-cluster", "--yes"]);
    assert!(said.contains("stopped at step 1 of 9") && said.contains("--resume"), "{said}");
    assert!(place.run(&["restart-cluster", "--abandon"]).status.success());
    assert!(place.fails(&["restart-cluster", "--abandon"]).contains("no operation on lab stopped"));
}

#[test]
fn a_head_that_is_gone_is_stopped_only_with_consent() {
    let place = Place::new("echo 'ray, version 2.60.0'");
    let said = place.fails(&["restart-cluster", "--yes"]);
    assert!(said.contains("--preserve-jobs=0"), "{said}");
    assert_eq!(place.asked(), "--version\n", "nothing was stopped");
    let said = place.fails(&["stop-cluster", "--resume"]);
    assert!(said.contains("restart-cluster"), "another operation stands open: {said}");
    let log = String::from_utf8(place.run(&["audit"]).stdout).unwrap();
    assert!(log.contains("restart lab") && log.contains("stopped: "), "{log}");
}

#[test]
fn nothing_is_done_unasked_or_dry() {
    let place = Place::new("exit 0");
    let said = place.fails(&["restart-cluster"]);
    assert!(said.contains("--yes") && said.contains("ray down"), "{said}");
    let dry = place.run(&["restart-cluster", "--dry-run", "--preserve-jobs=0"]);
    let said = String::from_utf8(dry.stderr).unwrap();
    assert!(dry.status.success() && said.contains("7. ") && !said.contains("save the jobs"), "{said}");
    assert_eq!(place.asked(), "");
    assert!(place.run(&["restart-cluster", "--preserve-jobs=maybe"]).status.code() == Some(2));
}

#[test]
fn read_only_refuses_what_changes_a_cluster_by_switch_and_by_setting() {
    let place = Place::new("exit 0");
    let locked = Place::new("exit 0");
    locked.file("settings.yaml", "read_only: true\n");
    for command in [
        &["restart-cluster", "--yes"][..],
        &["start-cluster", "--yes"],
        &["stop-cluster", "--yes"],
        &["restore-jobs", "/nowhere"],
        &["submit-job", "--", "true"],
        &["stop-job", "--yes", "x"],
        &["delete-job", "--yes", "x"],
        &["token", "init-secret"],
        &["clean-preempted", "--yes"],
    ] {
        let by_switch = place.fails(&[&["--read-only"], command].concat());
        let by_setting = String::from_utf8(locked.run(command).stderr).unwrap();
        for said in [by_switch, by_setting] {
            assert!(said.contains(command[0]) && said.contains("read-only"), "{command:?}: {said}");
        }
    }
    assert!(place.run(&["--read-only", "start-cluster", "--dry-run"]).status.success());
    assert_eq!(place.asked() + &locked.asked(), "");
}

#[test]
fn two_cannot_work_on_one_cluster() {
    let place = Place::new("exec sleep 600");
    let mut first = place.command(&["restart-cluster", "--yes"]).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while place.asked().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "the first never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = place.fails(&["stop-cluster", "--yes"]);
    assert!(said.contains("another operation on lab is under way"), "{said}");
    first.kill().unwrap();
    first.wait().unwrap();
    // Killed, it holds nothing, and is found again.
    assert!(place.fails(&["restart-cluster", "--yes"]).contains("stopped at step 1 of 9"));
}

#[test]
fn other_providers_are_refused() {
    let place = Place::new("exit 0");
    place.file("infra/lab.yaml", "cluster_name: lab\nprovider: {type: aws, region: a}\n");
    let said = place.fails(&["restart-cluster", "--yes"]);
    assert!(said.contains("not offered yet for provider aws"), "{said}");
    assert_eq!(place.asked(), "");
}
