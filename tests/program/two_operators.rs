//! Two operators with separate homes, and one cluster: the second is told who operates on it and how far the operation
//! is; a mark left by a killed program is taken over only on request.

use crate::cloud_fixture::CloudFixture;
use crate::program::program;
use crate::sshd::{self, Sshd};
use crate::until::until;
use marin_tui::demo::google::Fault;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A command of an operator who uses the same cluster files but a separate home, which has no journal.
fn by(fixture: &CloudFixture, user: &str, words: &str) -> Command {
    let home = fixture.home.path().join(user);
    if !home.exists() {
        fs::create_dir(&home).unwrap();
    }
    let mut command = fixture.command(words);
    command.env("HOME", home).env("USER", user).env("HOSTNAME", "desk");
    command
}

fn run(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// The description and the named ports of the cluster's instance group.
fn mark(fixture: &CloudFixture) -> Option<(Value, Value)> {
    let group = fixture.double.state().groups.first().cloned()?;
    let note = serde_json::from_str(group["description"].as_str().unwrap()).unwrap();
    Some((note, group["namedPorts"].clone()))
}

#[test]
fn a_second_operator_is_refused_and_takes_over_what_a_killed_program_left() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let mut first = by(&fixture, "alice", "restart-cluster --yes --others");
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("ray up is run", || fixture.calls().iter().any(|w| w == "up"));
    let (note, ports) = mark(&fixture).unwrap();
    assert_eq!((note["who"].as_str(), note["title"].as_str()), (Some("alice@desk"), Some("restart marin-a")));
    assert_eq!((ports[0]["name"].as_str(), ports[0]["port"].as_u64()), (Some("step"), Some(6)));
    let requests = fixture.double.requests_with("DELETE");

    // While the cluster is down the mark still exists.
    for words in
        ["restart-cluster --yes --others", "start-cluster --yes", "add-worker --type v4-8 --name x --yes"]
    {
        let (code, said) = run(by(&fixture, "bo", words));
        assert_eq!(code, Some(1), "{words}: {said}");
        assert!(said.contains("operation by alice@desk (process "), "{words}: {said}");
        assert!(said.contains("restart by alice, step 6 of 9"), "{words}: {said}");
        assert!(said.contains("`ps -p ") && said.contains("--take-over"), "{words}: {said}");
    }
    assert_eq!(fixture.double.requests_with("DELETE"), requests, "the second operator has changed nothing");

    first.kill().unwrap();
    first.wait().unwrap();
    // It has not been updated for a long time.
    fixture.double.state().groups[0]["namedPorts"][1]["name"] = "seen-1000".into();
    let (code, said) = run(by(&fixture, "bo", "start-cluster --yes"));
    assert!(code == Some(1) && said.contains("no update for"), "{said}");
    assert!(said.contains("to have exited"), "{said}");
    fixture.head_of(|s| s.jobs = 0);
    fixture.file("is-up", "");
    fixture.double.state().instances.clear();
    fixture.program("ray", "echo 'ray, version 2.60.0'; [ \"$1\" != up ] || exit 7\n");
    let (code, said) = run(by(&fixture, "bo", "start-cluster --yes --take-over"));
    assert!(code == Some(1) && said.contains("taken over from alice@desk"), "{said}");
    // It has stopped, and its mark shows that to other operators.
    let (code, said) = run(by(&fixture, "carol", "start-cluster --yes"));
    assert!(code == Some(1) && said.contains("start by bo, interrupted"), "{said}");
    assert!(said.contains("to resume or abandon it"), "{said}");
    // The operator whose operation was taken over is told so, and changes nothing.
    let (code, said) = run(by(&fixture, "alice", "restart-cluster --resume"));
    assert!(code == Some(1) && said.contains("operation by bo@desk"), "{said}");
    let (code, said) = run(by(&fixture, "bo", "start-cluster --abandon"));
    assert_eq!((code, mark(&fixture)), (Some(0), None), "{said}");
}

#[test]
fn a_mark_is_removed_with_its_operation_and_a_running_operation_stops_when_taken_over() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let first = by(&fixture, "alice", "stop-cluster --yes --others").stderr(Stdio::piped()).spawn().unwrap();
    let out = first.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(mark(&fixture), None);

    fixture.file("hold-down", "");
    fixture.head_of(|s| s.jobs = 0);
    let first = by(&fixture, "alice", "stop-cluster --yes --others").stderr(Stdio::piped()).spawn().unwrap();
    until("ray down is run again", || fixture.calls().iter().filter(|w| *w == "down").count() == 2);
    let second =
        by(&fixture, "bo", "start-cluster --yes --take-over").stderr(Stdio::piped()).spawn().unwrap();
    until("bo has the mark", || mark(&fixture).is_some_and(|(note, _)| note["who"] == "bo@desk"));
    fs::remove_file(fixture.home.path().join("hold-down")).unwrap();
    let out = first.wait_with_output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && said.contains("this operation was taken over"), "{said}");
    assert!(said.contains("start by bo") && said.contains("[4/4] failed"), "{said}");
    assert_eq!(mark(&fixture).unwrap().0["who"], "bo@desk", "only its owner removes a mark");
    until("bo's ray up is run", || fixture.calls().iter().any(|w| w == "up"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&second), rustix::process::Signal::INT)
        .unwrap();
    second.wait_with_output().unwrap();
    assert_eq!(mark(&fixture).unwrap().1[0]["name"], "stopped");
}

#[test]
fn without_permission_to_leave_a_mark_there_is_one_warning_and_the_operation_continues() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let message = "Required 'compute.instanceGroups.create' permission for 'projects/p'";
    fixture.double.fail_at(
        "POST",
        "instanceGroups",
        Fault::Refuse { code: 403, status: "", reason: "forbidden", message },
    );
    let (code, said) = run(by(&fixture, "alice", "stop-cluster --yes --others"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("other operators cannot see this operation").count(), 1, "{said}");
    assert!(said.contains("a role with compute.instanceGroups.create"), "{said}");
}

/// A home with a cluster of provider `local` whose head is this machine behind a real sshd. The ray command waits.
fn home(dir: &Path, user: &str, sshd: &Sshd, cluster: &str) -> impl Fn(&str) -> Command {
    let home = dir.join(user);
    fs::create_dir_all(home.join("infra")).unwrap();
    let key = sshd.dir().path("key");
    let ray = dir.join("ray");
    fs::write(
        home.join("settings.yaml"),
        format!(
            "ray: [{}]\nssh_config: {}\nclusters: {{{cluster}: {{port: {}, key: {}, user: {}}}}}\n",
            ray.display(),
            sshd.dir().path("ssh_config").display(),
            sshd.port,
            key.display(),
            sshd::user()
        ),
    )
    .unwrap();
    fs::write(
        home.join("infra/lab.yaml"),
        format!("cluster_name: {cluster}\nprovider: {{type: local, head_ip: 127.0.0.1, worker_ips: []}}\n"),
    )
    .unwrap();
    let user = user.to_owned();
    move |words: &str| {
        let mut command = program(&home);
        command.env("USER", &user).env("HOSTNAME", "desk");
        command.arg("--infra").arg(home.join("infra")).arg("--config").arg(home.join("settings.yaml"));
        command.args(words.split(' '));
        command
    }
}

#[test]
fn on_a_local_cluster_the_mark_is_a_file_on_the_head() {
    let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    // Other Ray processes on this machine are ignored.
    for (name, text) in [
        ("bin/pgrep", "exit 1"),
        (
            "ray",
            "cd \"$(dirname \"$0\")\"\n[ \"$1\" != up ] || { echo >up; while [ -e hold ]; do sleep 0.1; done; exit 7; }",
        ),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::write(dir.path().join("hold"), "").unwrap();
    let sshd = Sshd::start(&format!("SetEnv PATH={}:/usr/bin:/bin", bin.display()));
    let cluster = format!("lab-{}", sshd.port);
    let file = format!("/var/tmp/marin-tui-operation-{cluster}.json");
    let (alice, bo) = (home(dir.path(), "alice", &sshd, &cluster), home(dir.path(), "bo", &sshd, &cluster));
    let mut first = alice("start-cluster --yes").stderr(Stdio::piped()).spawn().unwrap();
    until("ray up is run", || dir.path().join("up").exists() || first.try_wait().unwrap().is_some());
    let there: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!((there["who"].as_str(), there["step"].as_u64()), (Some("alice@desk"), Some(2)));
    let (code, said) = run(bo("start-cluster --yes"));
    assert!(code == Some(1) && said.contains("start by alice, step 2 of 3"), "{said}");
    first.kill().unwrap();
    first.wait().unwrap();
    let (code, said) = run(bo("start-cluster --yes"));
    assert!(code == Some(1) && said.contains("start by alice"), "{said}");
    fs::remove_file(dir.path().join("hold")).unwrap();
    let (code, said) = run(bo("start-cluster --yes --take-over"));
    assert!(code == Some(1) && said.contains("taken over from alice@desk"), "{said}");
    let (code, said) = run(alice("start-cluster --resume"));
    assert!(code == Some(1) && said.contains("start by bo, interrupted"), "{said}");
    let (code, said) = run(bo("start-cluster --abandon"));
    assert!(code == Some(0) && !Path::new(&file).exists(), "{said}");
    assert_eq!(run(alice("start-cluster --abandon")).0, Some(0));
}
