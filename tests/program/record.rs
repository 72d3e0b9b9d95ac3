//! A dry run lists the same calls as the real run: each operation is run dry and then for real, against a Google, a
//! head behind SSH and a ray command that all record the changes that are requested. Both lists must be equal, in the
//! same order.
//!
//! One value is not known beforehand: the deadline of a drain, which counts from the moment of its request.

use crate::cloud_fixture::{CloudFixture, HEAD, WORKER, ZONE, labels};
use crate::until::until;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use marin_tui::demo::google::{compute, tpu};
use marin_tui::demo::{Fault, FaultRule, RequestObserver};
use marin_tui::model::{Secret, StepName, Task};
use marin_tui::ssh::quote;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// The other worker of the simulated head; it is not in the cluster file.
const BY_HAND: &str = "10.128.0.3";
/// Commands on other machines that only read. Any other command counts as a change.
const READ_COMMANDS: [&str; 4] = ["pgrep -x gcs_server", "cat ~/.ray/auth_token", "hostname -I", " sh ':'"];

/// Appends a line about what was observed. It is a single write, so that lines of several programs stay whole.
fn note(file: &Path, line: &Value) {
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// An observer that records all changing requests.
fn observer(fixture: &CloudFixture) -> RequestObserver {
    let file = fixture.home.path().join("seen");
    RequestObserver::new(move |method, url, body| {
        note(&file, &json!({"kind": "http", "method": method, "url": url, "body": body}));
    })
}

/// A cluster whose Google, head, `ray` and `ssh` are all observed. No command reaches a machine: a check for `ray`
/// finds none, everything else succeeds.
fn watched(change: impl FnOnce(&mut marin_tui::demo::Scenario)) -> CloudFixture {
    let mut fixture = CloudFixture::new();
    let home_dir = fixture.home.path().display().to_string();
    let noted = |kind: &str| {
        format!(
            "printf '{{\"kind\":\"{kind}\",\"host\":\"%s\",\"line\":\"%s\"}}\\n' \"$host\" \
             \"$(printf %s \"$line\" | base64 -w0)\" >>{home_dir}/seen\n"
        )
    };
    let setting = "${RAY_UP_enable_autoscaler_v2+RAY_UP_enable_autoscaler_v2=$RAY_UP_enable_autoscaler_v2 }";
    fixture.program(
        "ray",
        &format!(
            "echo 'ray, version 2.60.0'\nhost= line=\"{setting}$0 $*\"\n{}\
             [ \"$1\" != up ] || while [ ! -e {home_dir}/is-up ]; do sleep 0.1; done\n\
             [ \"$1\" != down ] || while [ ! -e {home_dir}/is-down ]; do sleep 0.1; done\n",
            noted("run")
        ),
    );
    fixture.program(
        "ssh",
        &format!(
            "before=; host=; line=\nfor word; do\n  [ -z \"$host\" ] || line=$word\n  \
             [ \"$before\" != -- ] || host=$word\n  before=$word\ndone\n\
             [ -n \"$line\" ] || exec /usr/bin/ssh \"$@\"\n{}\
             case $line in\n  exit) exec /usr/bin/ssh \"$@\";;\n  *'pgrep -x gcs_server'*) exit 1;;\n  *'cat ~/.ray/auth_token'*) exec /usr/bin/ssh \"$@\";;\n  \
             *'hostname -I'*) echo \"$host\";;\n  *'tar -xpf'*) cat >/dev/null;;\nesac\n",
            noted("ssh")
        ),
    );
    fixture.double.state().observer = observer(&fixture);
    head(&mut fixture, change);
    fixture
}

/// Starts another head, observed, and reachable at the addresses of all its machines.
fn head(fixture: &mut CloudFixture, change: impl FnOnce(&mut marin_tui::demo::Scenario)) {
    fixture.head_of(change);
    let (head, server) = fixture.heads.last().unwrap();
    head.observe_requests(observer(fixture));
    let port = server.address.port();
    let config = format!(
        "Host {HEAD}\n  HostKeyAlias head-of-a\nHost {HEAD} {WORKER} {BY_HAND}\n  HostName 127.0.0.1\n  Port {port}\n"
    );
    fixture.file("ssh_config", &config);
}

/// Makes the cluster one of provider `local`. Workers are started with a file and a directory.
fn local(fixture: &CloudFixture) {
    let home_dir = fixture.home.path().display();
    fixture.file("script", "a file");
    fixture.file("folder/inside", "in a folder");
    fixture.file(
        "infra/a.yaml",
        &format!(
            "cluster_name: marin-a\nprovider: {{type: local, head_ip: {HEAD}, worker_ips: [{WORKER}]}}\n\
             file_mounts: {{~/script: {home_dir}/script, /there: {home_dir}/folder}}\ninitialization_commands: ['true']\n\
             worker_setup_commands: [\"echo 'set up'\"]\n\
             worker_start_ray_commands: ['ray start --address=$RAY_HEAD_IP:6379']\n"
        ),
    );
}

/// Submits two jobs that run indefinitely, one of them with a package and a secret.
fn jobs(fixture: &CloudFixture) {
    fixture.file("work/train.py", "print(1)\n");
    for job in [
        "submit-job --no-wait --submission-id packed --working-dir work --runtime-env {\"env_vars\":{\"KEY\":\"hunter2\"}} -- python train.py",
        "submit-job --no-wait --submission-id plain --entrypoint-num-cpus 0.5 --metadata-json {\"owner\":\"al\"} -- true",
    ] {
        let (code, _, said) = fixture.run(job);
        assert_eq!(code, Some(0), "{said}");
    }
    fs::remove_file(fixture.home.path().join("seen")).unwrap();
}

/// Everything that was observed so far. The last line may be incomplete while it is written.
fn seen(fixture: &CloudFixture) -> Vec<Value> {
    let text = fs::read_to_string(fixture.home.path().join("seen")).unwrap_or_default();
    let complete = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let mut all: Vec<Value> = complete.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for one in &mut all {
        if let Some(line) = one["line"].as_str() {
            one["line"] = String::from_utf8(STANDARD.decode(line).unwrap()).unwrap().into();
        }
    }
    all
}

/// Part of the path of a mark on a head.
const MARK: &str = "marin-tui-operation-";

fn only_reads(seen: &Value) -> bool {
    let line = seen["line"].as_str().unwrap_or_default();
    match seen["kind"].as_str().unwrap() {
        "run" => line.ends_with("/ray --version"),
        // A login that only asks for the host's key runs `exit`.
        "ssh" => {
            line == "exit"
                || READ_COMMANDS.iter().any(|command| line.contains(command))
                || line.contains(MARK)
        }
        // The mark of an operation is not one of its steps.
        "http" => seen["url"].as_str().is_some_and(|url| url.contains("/instanceGroups")),
        _ => false,
    }
}

/// Waits until a changing command with these words was observed.
fn until_seen(fixture: &CloudFixture, words: &str) {
    let has = |s: &Value| !only_reads(s) && s.to_string().contains(words);
    until(&format!("{words} is seen"), || seen(fixture).iter().any(has));
}

/// Whether the call of a dry run is the observed one.
fn is_same(fixture: &CloudFixture, call: &Value, seen: &Value) -> bool {
    let line = seen["line"].as_str().unwrap_or_default();
    let word = |key: &str| call[key].as_str().unwrap();
    let base = fixture.double.url();
    match (word("kind"), seen["kind"].as_str().unwrap()) {
        ("http", "http") => {
            let mut bodies = [call["body"].clone(), seen["body"].clone()];
            for body in &mut bodies {
                if let Some(variables) = body.pointer_mut("/runtime_env/env_vars") {
                    variables.as_object_mut().unwrap().values_mut().for_each(|v| *v = "***".into());
                }
                if let Some(deadline) = body.get_mut("deadline_timestamp_ms") {
                    assert!(deadline.take().as_i64().unwrap() > 0);
                }
            }
            let url = word("url").strip_prefix(&base).unwrap_or(word("url"));
            call["method"] == seen["method"] && url == seen["url"] && bodies[0] == bodies[1]
        }
        ("run", "run") => word("command") == line,
        ("ssh", "ssh") => {
            let command = word("command");
            // A guarded command is an argument of the guard.
            let is_guarded =
                line.starts_with("exec sh -c ") && line.ends_with(&format!(" sh {}", quote(command)));
            call["host"] == seen["host"] && (line == command || is_guarded)
        }
        ("copy", "ssh") => {
            let is_to = |line: &str| line.contains(" mv -f ") || line.contains("tar -xpf - -C ");
            let to = word("to").rsplit('/').next().unwrap();
            call["host"] == seen["host"] && is_to(line) && line.contains(to)
        }
        _ => false,
    }
}

/// Sorts consecutive calls that are made in parallel: deletions of TPU VMs by name, and cleanups of workers by address. The
/// head is cleaned up after all workers.
fn in_order(calls: &mut [Value]) {
    let group = |call: &Value| {
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        // The key is `command` in a dry run and `line` in a recorded call.
        let command = text("command") + &text("line");
        if call["method"] == "DELETE" && text("url").contains("/nodes/") {
            Some("delete")
        } else if call["kind"] == "ssh" && call["host"] != HEAD && command.contains("ray stop --force") {
            Some("clean up")
        } else {
            None
        }
    };
    let target = |call: &Value| call["url"].as_str().or(call["host"].as_str()).unwrap_or_default().to_owned();
    for parallel in calls.chunk_by_mut(|a, b| group(a).is_some() && group(a) == group(b)) {
        if parallel.len() > 1 {
            parallel.sort_by_key(target);
        }
    }
}

/// Runs a command dry, then for real with `meanwhile`; asserts that both make the same calls, and how many.
fn same(
    fixture: &mut CloudFixture,
    command: &str,
    consent: &str,
    count: usize,
    meanwhile: impl FnOnce(&mut CloudFixture),
) {
    let before = seen(fixture);
    assert_eq!(before, Vec::<Value>::new(), "{command}");
    let (code, out, said) = fixture.run(&format!("{command} --dry-run --json"));
    assert_eq!(code, Some(0), "{command}: {said}");
    let mut planned: Vec<Value> = serde_json::from_str(&out).unwrap();
    let changed: Vec<Value> = seen(fixture).into_iter().filter(|s| !only_reads(s)).collect();
    assert_eq!(changed, Vec::<Value>::new(), "the dry run of {command} changes something");
    assert!(!out.contains("hunter2"), "{out}");
    let state = fixture.home.path().join(".local/state/marin-tui");
    for left in ["backups", "workers"] {
        assert!(!state.join(left).exists(), "the dry run of {command} leaves {left}");
    }

    let running = fixture.spawn(&format!("{command} {consent}"));
    meanwhile(fixture);
    let (code, _, said) = running.finish();
    assert_eq!(code, Some(0), "{command}: {said}");
    let mut done: Vec<Value> = seen(fixture).into_iter().filter(|s| !only_reads(s)).collect();
    in_order(&mut planned);
    in_order(&mut done);
    let is_same =
        planned.len() == done.len() && planned.iter().zip(&done).all(|(t, d)| is_same(fixture, t, d));
    assert!(is_same, "{command}:\nplanned {:#}\ndone {:#}", Value::from(planned), Value::from(done));
    assert_eq!(planned.len(), count, "{command}: {:#}", Value::from(planned));
}

/// Stops Ray on the head once `ray down` is run.
fn goes_down(fixture: &CloudFixture) {
    until_seen(fixture, " down -y");
    let silent = FaultRule { path: "/".into(), fault: Fault::HangUp };
    fixture.heads[0].0.set_faults(vec![silent]);
    fixture.file("is-down", "");
}

#[test]
fn a_restart_of_a_local_cluster() {
    let mut fixture = watched(|s| s.jobs = 0);
    local(&fixture);
    jobs(&fixture);
    // Down and up, three machines cleaned up, a package and two jobs, and the manually added worker with a file and a
    // directory.
    same(&mut fixture, "restart-cluster", "--yes --others", 2 + 3 + 3 + 3, |fixture| {
        goes_down(fixture);
        until_seen(fixture, " up -y");
        // Late enough that a slow machine does not find the manually added worker, which would then not be started.
        fixture.heads[0].0.restart_before_workers(Duration::from_secs(10));
        fixture.file("is-up", "");
    });
}

#[test]
fn a_restart_in_google_cloud() {
    let mut fixture = watched(|s| s.jobs = 0);
    jobs(&fixture);
    let node = |name: &str, of: &str| tpu::node(ZONE, name, "v4-8", "READY", &labels(of), &["10.9.9.1"]);
    fixture.double.state().nodes =
        vec![node("one", "worker"), node("two", "worker"), node("three", "worker")];
    // The head and three TPU VMs, down and up, a package and two jobs.
    same(&mut fixture, "restart-cluster", "--yes --others", 4 + 2 + 3, |fixture| {
        fixture.file("is-down", "");
        until_seen(fixture, " up -y");
        head(fixture, |s| s.jobs = 0);
        fixture.file("is-up", "");
    });
}

#[test]
fn a_restart_that_deletes_two_heads() {
    let mut fixture = watched(|s| s.jobs = 0);
    let mut stopped = compute::instance(ZONE, "head-0", &labels("head"), "10.0.0.9", None);
    stopped["status"] = json!("TERMINATED");
    fixture.double.state().instances.insert(0, stopped);
    // Two heads, down and up. The new head has the address of the second one, with another host key.
    same(&mut fixture, "restart-cluster", "--yes --others", 2 + 2, |fixture| {
        fixture.file("is-down", "");
        until_seen(fixture, " up -y");
        head(fixture, |s| s.jobs = 0);
        fixture.file("is-up", "");
    });
}

#[test]
fn a_stop_and_a_start_of_a_local_cluster() {
    let mut fixture = watched(|s| s.jobs = 0);
    local(&fixture);
    same(&mut fixture, "stop-cluster", "--yes --others", 1 + 3, |fixture| goes_down(fixture));
    fs::remove_file(fixture.home.path().join("seen")).unwrap();
    same(&mut fixture, "start-cluster", "--yes", 1, |fixture| {
        until_seen(fixture, " up -y");
        fixture.heads[0].0.restart();
        fixture.file("is-up", "");
    });
}

#[test]
fn a_stop_and_a_start_in_google_cloud() {
    let mut fixture = watched(|s| s.jobs = 0);
    let node = tpu::node(ZONE, "one", "v4-8", "READY", &labels("worker"), &["10.9.9.1"]);
    fixture.double.state().nodes = vec![node];
    same(&mut fixture, "stop-cluster", "--yes --others", 3, |fixture| fixture.file("is-down", ""));

    let mut fixture = watched(|_| ());
    fixture.heads.clear();
    fixture.double.state().instances.clear();
    same(&mut fixture, "start-cluster", "--yes", 1, |fixture| {
        until_seen(fixture, " up -y");
        head(fixture, |s| s.jobs = 0);
        fixture.file("is-up", "");
    });
}

#[test]
fn workers_that_are_requested_from_google() {
    let mut fixture = watched(|s| s.jobs = 0);
    let adding = "add-worker --type v4-8 --capacity best-effort --count 2 --name extra";
    same(&mut fixture, adding, "--yes", 2, |fixture| {
        until("both are requested", || fixture.double.state().queued.len() == 2);
        fixture.grant("extra-1");
        fixture.grant("extra-2");
    });
}

#[test]
fn a_host_that_is_added_with_the_clusters_token() {
    let mut fixture = watched(|s| (s.jobs, s.token) = (0, Some(Secret::new("hunter2".to_owned()))));
    local(&fixture);
    fixture.file(".ray/auth_token", "hunter2");
    let token = fixture.home.path().join(".ray/auth_token");
    fs::set_permissions(token, fs::Permissions::from_mode(0o600)).unwrap();
    let head = &fixture.heads[0].0;
    assert!(head.kill_node(head.nodes()[1]));
    // A file, a directory, the token, and Ray.
    same(&mut fixture, &format!("add-worker --host {WORKER}"), "--yes", 4, |fixture| {
        until_seen(fixture, "RAY_HEAD_IP");
        fixture.heads[0].0.restart();
    });
}

#[test]
fn workers_that_are_initialized_again() {
    let mut fixture = watched(|s| s.jobs = 0);
    let node = tpu::node(ZONE, "by-hand", "v4-8", "READY", &labels("unmanaged"), &[WORKER]);
    fixture.double.state().nodes = vec![node];
    // Its metadata, and its host.
    same(&mut fixture, "init-worker by-hand", "--yes --others", 2, |fixture| {
        until_seen(fixture, "startup.sh");
        let head = &fixture.heads[0].0;
        assert!(head.renew_node(head.nodes()[1]));
    });

    let mut fixture = watched(|s| s.jobs = 0);
    local(&fixture);
    same(&mut fixture, &format!("init-worker {WORKER}"), "--yes --others", 3, |fixture| {
        until_seen(fixture, "RAY_HEAD_IP");
        let head = &fixture.heads[0].0;
        assert!(head.renew_node(head.nodes()[1]));
    });
}

/// A worker that nothing reaches, and the head: its step may be skipped, so the head is cleaned up in any case.
#[test]
fn the_head_is_cleaned_up_even_if_a_worker_cannot_be() {
    let fixture = watched(|s| s.jobs = 0);
    local(&fixture);
    let config = fs::read_to_string(fixture.home.path().join("ssh_config")).unwrap();
    // The first value counts; nothing listens on the discard port.
    fixture.file("ssh_config", &format!("Host {WORKER}\n  HostName 127.0.0.1\n  Port 9\n{config}"));
    let stopping = fixture.spawn("stop-cluster --yes --others");
    goes_down(&fixture);
    let (code, _, said) = stopping.finish();
    assert!(code == Some(1) && said.contains("cannot stop the Ray processes on 10.128.0.2"), "{said}");
    assert!(said.contains("stop-cluster --resume --skip-failed-step"), "{said}");
    let is_cleaned =
        |s: &Value, host: &str| s["host"] == host && s["line"].to_string().contains("ray stop --force");
    for host in [BY_HAND, HEAD] {
        assert!(seen(&fixture).iter().any(|s| is_cleaned(s, host)), "{host}: {said}");
    }
}

/// Somebody else has started Ray again since an attempt was interrupted between `ray down` and the clean-up.
#[test]
fn a_ray_that_was_started_since_is_not_cleaned_up() {
    let fixture = watched(|s| s.jobs = 0);
    local(&fixture);
    let stopped = [StepName::Check, StepName::ReadState, StepName::Stop];
    fixture.interrupted(&Task::Stop, &stopped, "an_old_session");
    let (code, _, said) = fixture.run("stop-cluster --resume --others");
    assert!(code == Some(1) && said.contains("Ray was restarted since this operation began"), "{said}");
    assert!(said.contains("stop-cluster --abandon"), "{said}");
    let changed: Vec<Value> = seen(&fixture).into_iter().filter(|s| !only_reads(s)).collect();
    assert_eq!(changed, Vec::<Value>::new(), "{said}");
}

/// Like [`a_ray_that_was_started_since_is_not_cleaned_up`], and the other Ray has another token.
#[test]
fn a_ray_that_refuses_our_token_is_neither_stopped_nor_cleaned_up() {
    let stopped = [StepName::Check, StepName::ReadState, StepName::Stop];
    for (done, at) in [(&stopped[..], "[4/4]"), (&stopped[..2], "[3/4]")] {
        let fixture = watched(|s| (s.jobs, s.token) = (0, Some(Secret::new("theirs"))));
        local(&fixture);
        fixture.file("token", "ours\n");
        fixture.interrupted(&Task::Stop, done, "an_old_session");
        let mut resuming = fixture.command("stop-cluster --resume --others");
        resuming.env("RAY_AUTH_TOKEN_PATH", fixture.home.path().join("token"));
        let out = resuming.output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(1) && said.contains("refuses this token"), "{said}");
        assert!(said.contains("then resume") && said.contains(&format!("{at} failed")), "{said}");
        let changed: Vec<Value> = seen(&fixture).into_iter().filter(|s| !only_reads(s)).collect();
        assert_eq!(changed, Vec::<Value>::new(), "{said}");
    }
}

#[test]
fn a_tpu_that_is_drained() {
    let mut fixture = watched(|s| s.jobs = 0);
    fixture.double.state().nodes =
        vec![tpu::node(ZONE, "vm", "v4-8", "READY", &labels("unmanaged"), &[WORKER])];
    let worker = fixture.heads[0].0.nodes()[1];
    // Its startup script, its node in Ray, and the TPU VM.
    same(&mut fixture, "remove-worker vm --drain --within 60", "--yes --others", 3, |fixture| {
        until_seen(fixture, "DrainNode");
        // An idle node may have ended already.
        fixture.heads[0].0.kill_node(worker);
    });
}

#[test]
fn workers_that_are_removed() {
    let mut fixture = watched(|s| s.jobs = 0);
    fixture.double.state().nodes =
        vec![tpu::node(ZONE, "vm", "v4-8", "READY", &labels("unmanaged"), &[WORKER])];
    same(&mut fixture, "remove-worker vm --now", "--yes --others", 1, |fixture| {
        until_seen(fixture, "/nodes/vm");
        let head = &fixture.heads[0].0;
        assert!(head.kill_node(head.nodes()[1]));
    });

    let mut fixture = watched(|s| s.jobs = 0);
    local(&fixture);
    same(&mut fixture, &format!("remove-worker {WORKER} --now"), "--yes --others", 1, |fixture| {
        until_seen(fixture, "ray stop");
        let head = &fixture.heads[0].0;
        assert!(head.kill_node(head.nodes()[1]));
    });
    // The other worker is asked to drain, and then stopped.
    fs::remove_file(fixture.home.path().join("seen")).unwrap();
    same(
        &mut fixture,
        &format!("remove-worker {BY_HAND} --drain --within 60"),
        "--yes --others",
        2,
        |fixture| {
            until_seen(fixture, "DrainNode");
            let head = &fixture.heads[0].0;
            assert!(head.kill_node(head.nodes()[1]));
        },
    );
}
