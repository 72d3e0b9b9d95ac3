//! A restart that is interrupted by a failure: the network fails, the disk is full, packages are missing. Against a
//! Google, heads behind SSH, and a ray command that is a script.

use crate::cloud_fixture::CloudFixture;
use crate::until::until;
use marin_tui::demo::google::{self, compute};
use marin_tui::demo::{Fault, FaultRule};
use marin_tui::model::{JobStatus, Secret, StepName, Task};
use serde_json::json;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The route from which packages are read.
const READS: &str = "/ray.rpc.InternalKVGcsService/InternalKVGet";

fn trouble(path: &str, fault: Fault) -> Vec<FaultRule> {
    vec![FaultRule { path: path.into(), fault }]
}

/// A cluster with these jobs, each with a package.
fn with_jobs(names: &[&str]) -> CloudFixture {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    for name in names {
        submit(&fixture, name);
    }
    fixture
}

fn submit(fixture: &CloudFixture, name: &str) {
    fixture.file(&format!("{name}/train.py"), &format!("print('{name}')\n"));
    let (code, _, said) = fixture
        .run(&format!("submit-job --no-wait --submission-id {name} --working-dir {name} -- python train.py"));
    assert_eq!(code, Some(0), "{said}");
}

fn submit_as(fixture: &CloudFixture, name: &str, metadata: &str) {
    let (code, _, said) = fixture
        .run(&format!("submit-job --no-wait --submission-id {name} --metadata-json {metadata} -- true"));
    assert_eq!(code, Some(0), "{said}");
}

/// Google's response to a service account without permission to delete.
const DENIED: google::Fault =
    google::Fault::Refuse { code: 403, status: "", reason: "forbidden", message: "no" };

/// Waits until `ray up` runs, asserts that the old head is deleted, and starts the new one.
fn renew(fixture: &mut CloudFixture) {
    until("ray up is run", || fixture.calls().iter().any(|w| w == "up"));
    assert!(fixture.double.state().instances.is_empty());
    fixture.head_of(|s| s.jobs = 0);
}

fn known(fixture: &CloudFixture, head: usize) -> Vec<String> {
    let head = &fixture.heads[head].0;
    let mut all = [head.submissions(JobStatus::Pending), head.submissions(JobStatus::Running)].concat();
    all.sort();
    all
}

#[test]
fn a_connection_lost_during_the_backup_changes_nothing() {
    let mut fixture = with_jobs(&["one", "two"]);
    fixture.heads[0].0.set_faults(trouble(READS, Fault::Stall));
    let mut restarting = fixture.spawn("restart-cluster --yes --others");
    restarting.wait_for("[3/9] save jobs");
    let reads = || fixture.heads[0].0.cost().requests.get(READS).copied().unwrap_or_default();
    let before = reads();
    until("the backup reads", || reads() > before);
    fixture.heads[0].1.drop_connections();
    let (code, _, said) = restarting.finish();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("[3/9] failed") && said.contains("restart marin-a: not completed: "), "{said}");
    assert!(
        fixture.double.requests_with("DELETE") == 0 && fixture.calls() == ["--version"],
        "nothing was stopped"
    );
    assert_eq!(known(&fixture, 0), ["one", "two"]);
    let backups = fs::read_dir(fixture.home.path().join(".local/state/marin-tui/backups")).unwrap();
    for folder in backups.map(Result::unwrap) {
        assert!(!folder.path().join("jobs.json").exists(), "an incomplete backup does not look complete");
    }

    fixture.heads[0].0.set_faults(Vec::new());
    let resuming = fixture.spawn("restart-cluster --resume");
    renew(&mut fixture);
    fixture.file("is-up", "");
    let (code, _, said) = resuming.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 jobs restored"), "{said}");
    assert_eq!(known(&fixture, 1), ["one", "two"]);
}

#[test]
fn a_connection_lost_during_the_restore_submits_nothing_twice() {
    let mut fixture = with_jobs(&["one", "three", "two"]);
    let restarting = fixture.spawn("restart-cluster --yes --others");
    renew(&mut fixture);
    // Ray accepts each job, but its response is lost; then the connection is lost.
    let quick = |path: &str| FaultRule { path: path.into(), fault: Fault::Latency(Duration::ZERO) };
    fixture.heads[1].0.set_faults(vec![
        quick("/api/jobs/one"),
        quick("/api/jobs/three"),
        FaultRule { path: "/api/jobs/two".into(), fault: Fault::Stall },
        FaultRule { path: "/api/jobs/".into(), fault: Fault::HalfBody },
    ]);
    fixture.file("is-up", "");
    let requests = |path: &str| fixture.heads[1].0.cost().requests.get(path).copied().unwrap_or_default();
    until("it checks whether the last job exists", || requests("/api/jobs/two") > 0);
    fixture.heads[1].1.drop_connections();
    let (code, _, said) = restarting.finish();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("[8/9] failed") && said.contains("jobs saved in"), "{said}");
    assert_eq!(known(&fixture, 1), ["one", "three"]);
    assert_eq!(fixture.refused("restart-cluster --yes").0, "interrupted");

    // The connection is lost once more, while it checks which workers are back: this step only reads, and continues by
    // itself.
    let slow = Fault::Latency(Duration::from_secs(1));
    fixture.heads[1].0.set_faults(trouble("/ray.rpc.", slow));
    let mut resuming = fixture.spawn("restart-cluster --resume");
    resuming.wait_for("[9/9] wait for workers to rejoin");
    fixture.heads[1].1.drop_connections();
    fixture.heads[1].0.set_faults(Vec::new());
    let (code, _, said) = resuming.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("[8/9] 3 jobs restored") && said.contains("already done"), "{said}");
    assert_eq!(known(&fixture, 1), ["one", "three", "two"]);
    assert_eq!(requests("/api/jobs/"), 3, "each job was submitted once");
    assert_eq!(fixture.calls(), ["--version", "down", "up", "--version"]);
}

/// Jobs change while they are saved, and while a killed restart waits to be resumed.
#[test]
fn jobs_that_ended_since_stay_ended_and_new_jobs_are_saved() {
    let mut fixture = with_jobs(&["four", "one", "two"]);
    fixture.heads[0].0.set_faults(trouble(READS, Fault::Stall));
    let mut restarting = fixture.spawn("restart-cluster --yes --others");
    restarting.wait_for("[3/9] save jobs");
    let reads = || fixture.heads[0].0.cost().requests.get(READS).copied().unwrap_or_default();
    let before = reads();
    until("a package is read", || reads() > before);
    assert!(fixture.heads[0].0.turn_job("one", JobStatus::Succeeded));
    submit(&fixture, "three");
    // The backup continues; the next step gets no further than its connection.
    fixture.heads[0].0.set_faults(trouble("/api/version", Fault::Stall));
    restarting.wait_for("[3/9] 3 jobs in");
    restarting.wait_for("[4/9]");
    restarting.child.kill().unwrap();
    restarting.child.wait().unwrap();

    fixture.heads[0].0.set_faults(Vec::new());
    assert!(fixture.heads[0].0.turn_job("two", JobStatus::Succeeded));
    submit(&fixture, "five");
    let resuming = fixture.spawn("restart-cluster --resume --others");
    renew(&mut fixture);
    fixture.file("is-up", "");
    let (code, _, said) = resuming.finish();
    assert_eq!(code, Some(0), "{said}");
    let names = |words: &str| {
        let line = said.lines().find_map(|l| l.trim_start().strip_prefix(words));
        let mut names: Vec<_> = line.unwrap_or_else(|| panic!("{said}")).split(", ").collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(
        (names("ended since the operation began: "), names("submitted since the operation began: ")),
        ("one two".into(), "five three".into())
    );
    assert!(said.contains("3 jobs restored"), "{said}");
    assert_eq!(known(&fixture, 1), ["five", "four", "three"]);
}

/// Runs a command that cannot write files larger than this many blocks, as on a full disk.
fn on_a_full_disk(fixture: &CloudFixture, words: &str, blocks: u32) -> (Option<i32>, String) {
    let command = fixture.command(words);
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""), "sh"]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.env_clear().envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let out = limited.current_dir(fixture.home.path()).stdin(Stdio::null()).output().unwrap();
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

/// Another person's Ray is running and refuses our token: `ray up` would end it with all its jobs.
#[test]
fn a_ray_that_refuses_our_token_is_not_restarted() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.token = Some(Secret::new("theirs")));
    fixture.file("token", "ours\n");
    fixture.file("is-up", "");
    let mut starting = fixture.command("start-cluster --yes");
    starting.env("RAY_AUTH_TOKEN_PATH", fixture.home.path().join("token"));
    let out = starting.output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("refuses this token"), "{said}");
    assert!(said.contains("start marin-a: not completed: ") && said.contains("then resume"), "{said}");
    assert_eq!(fixture.calls(), ["--version"]);
}

#[test]
fn a_full_disk_during_the_backup_stops_nothing() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    fixture.file("big/data", &"x".repeat(300_000));
    let (code, _, said) =
        fixture.run("submit-job --no-wait --submission-id big --working-dir big -- python train.py");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = on_a_full_disk(&fixture, "restart-cluster --yes --others", 200);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("[3/9] failed: cannot write") && said.contains("free disk space there"), "{said}");
    assert!(said.contains("nothing was changed") && said.contains("then resume"), "{said}");
    assert!(!said.contains("jobs saved in") && !said.contains("choose another directory"), "{said}");
    assert!(
        fixture.double.requests_with("DELETE") == 0 && fixture.calls() == ["--version"],
        "nothing was stopped"
    );
    assert_eq!(known(&fixture, 0), ["big"]);
    assert_eq!(fixture.refused("restart-cluster --yes").0, "interrupted");

    let resuming = fixture.spawn("restart-cluster --resume");
    renew(&mut fixture);
    fixture.file("is-up", "");
    let (code, _, said) = resuming.finish();
    assert!(code == Some(0) && said.contains("1 job restored"), "{said}");
}

/// The journal is written before each step: if it cannot be written, the operation ends before the next step.
#[test]
fn a_full_disk_for_the_journal_begins_no_step() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let (code, said) = on_a_full_disk(&fixture, "restart-cluster --yes --others --preserve-jobs=0", 0);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot write the journal"), "{said}");
    assert!(fixture.double.requests_with("DELETE") == 0 && fixture.calls().is_empty(), "{said}");
}

/// A resumed operation does not end jobs that the user has not been shown.
#[test]
fn a_resumed_stop_checks_the_affected_jobs_again() {
    let fixture = with_jobs(&["one"]);
    fixture.program("ray", "exit 3\n");
    let (code, _, said) = fixture.run("stop-cluster --yes --others");
    assert!(code == Some(1) && said.contains("[1/4] failed"), "{said}");
    submit_as(&fixture, "hers", "{\"owner\":\"alice\"}");
    fixture.program("ray", "echo 'ray, version 2.60.0'\n");
    let (reason, said) = fixture.refused("stop-cluster --resume");
    assert!(reason == "others-jobs" && said.contains("hers"), "{reason}: {said}");
    assert_eq!(fixture.double.requests_with("DELETE"), 0);
    fixture.heads[0].0.set_faults(trouble("", Fault::HangUp));
    assert_eq!(fixture.refused("stop-cluster --resume").0, "unknown-jobs");
    fixture.heads[0].0.set_faults(Vec::new());
    let (code, _, said) = fixture.run("stop-cluster --resume --others");
    assert!(code == Some(0) && fixture.double.state().instances.is_empty(), "{said}");
}

/// After a failed stop Ray still runs and people use it: what they did since then counts when the stop is resumed.
#[test]
fn a_failed_stop_that_is_resumed_saves_jobs_submitted_in_the_meantime() {
    let mut fixture = with_jobs(&["ended", "kept", "through"]);
    fixture.double.fail_at("DELETE", "", DENIED);
    let (code, _, said) = fixture.run("restart-cluster --yes --others");
    assert!(code == Some(1) && said.contains("[4/9] failed"), "{said}");
    assert_eq!(known(&fixture, 0), ["ended", "kept", "through"]);
    fixture.heads[0].0.turn_job("through", JobStatus::Succeeded);
    // The failed stop may have ended it.
    fixture.heads[0].0.turn_job("ended", JobStatus::Failed);
    submit(&fixture, "late");
    fixture.double.recover();
    // The permission was given for the jobs of that time.
    let (reason, said) = fixture.refused("restart-cluster --resume");
    assert!(reason == "others-jobs" && said.contains("late"), "{reason}: {said}");
    assert_eq!(known(&fixture, 0), ["kept", "late"], "nothing was stopped");
    let restarting = fixture.spawn("restart-cluster --resume --others");
    renew(&mut fixture);
    fixture.file("is-up", "");
    let (code, _, said) = restarting.finish();
    assert!(code == Some(0) && said.contains("jobs restored"), "{said}");
    assert_eq!(known(&fixture, 1), ["ended", "kept", "late"]);
}

#[test]
fn another_ray_that_somebody_started_in_the_meantime_is_not_stopped() {
    let mut fixture = with_jobs(&["one"]);
    fixture.double.fail_at("DELETE", "", DENIED);
    let (code, _, said) = fixture.run("restart-cluster --yes --others");
    assert!(code == Some(1) && said.contains("[4/9] failed"), "{said}");
    fixture.double.recover();
    fixture.double.state().instances.clear();
    fixture.head_of(|s| s.jobs = 0);
    let (code, _, said) = fixture.run("restart-cluster --resume");
    assert!(code == Some(1) && said.contains("(head-2, id "), "{said}");
    assert_eq!(fixture.double.state().instances.len(), 1, "{said}");
}

/// Ray's launcher identifies a cluster by its name and its zone.
#[test]
fn a_cluster_of_the_same_name_in_another_zone_stays() {
    let mut fixture = with_jobs(&["one"]);
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": "marin-a"});
    let theirs = compute::instance("us-west1-a", "theirs", &labels, "10.0.0.9", Some("34.0.0.9"));
    fixture.double.state().instances.push(theirs);
    let restarting = fixture.spawn("restart-cluster --yes --others");
    until("ray up is run", || fixture.calls().iter().any(|w| w == "up"));
    let left = || fixture.double.state().instances.iter().map(|i| i["name"].clone()).collect::<Vec<_>>();
    assert_eq!(left(), ["theirs"]);
    fixture.head_of(|s| s.jobs = 0);
    fixture.file("is-up", "");
    let (code, _, said) = restarting.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(known(&fixture, 1), ["one"]);
    fixture.double.state().instances.retain(|i| i["name"] == "theirs");
    let (_, _, said) = fixture.run("list-jobs");
    assert!(said.contains("but one in us-west1-a is"), "{said}");
}

/// "No available agent to submit job": the error of a Ray that has just started.
#[test]
fn a_ray_that_does_not_accept_jobs_yet_is_retried() {
    let mut fixture = with_jobs(&["one", "two"]);
    let restarting = fixture.spawn("restart-cluster --yes --others");
    renew(&mut fixture);
    fixture.heads[1].0.set_faults(trouble("/api/jobs/", Fault::Status(500)));
    fixture.file("is-up", "");
    let requests = || fixture.heads[1].0.cost().requests.get("/api/jobs/one").copied().unwrap_or_default();
    until("it retries", || requests() > 1);
    fixture.heads[1].0.set_faults(Vec::new());
    let (code, _, said) = restarting.finish();
    assert!(code == Some(0) && said.contains("2 jobs restored"), "{said}");
    assert_eq!(known(&fixture, 1), ["one", "two"]);
}

#[test]
fn a_ray_whose_dashboard_is_silent_is_not_started_again() {
    let fixture = with_jobs(&["one"]);
    fixture.heads[0].0.set_faults(trouble("/", Fault::HangUp));
    let (code, _, said) = fixture.run("start-cluster --yes");
    assert!(code == Some(1) && said.contains("its dashboard"), "{said}");
    fixture.heads[0].0.set_faults(trouble("/", Fault::Status(503)));
    let (code, _, said) = fixture.run("start-cluster --resume");
    assert!(code == Some(1) && said.contains("then resume"), "{said}");
    assert!(!fixture.calls().iter().any(|w| w == "up"), "{said}");
}

/// A restart was killed before its `ray up`, and somebody has started the cluster since.
#[test]
fn a_resumed_restart_does_not_start_ray_over_the_ray_of_somebody_else() {
    let fixture = with_jobs(&["theirs"]);
    let done = [StepName::Check, StepName::ReadState, StepName::Stop, StepName::CleanUp];
    fixture.interrupted(&Task::Restart { preserve: false }, &done, "an_old_session");
    fixture.heads[0].0.set_faults(trouble("/", Fault::HangUp));
    let (code, _, said) = fixture.run("restart-cluster --resume --others");
    assert!(code == Some(1) && said.contains("its dashboard does not respond"), "{said}");
    fixture.heads[0].0.set_faults(trouble("/", Fault::Status(503)));
    let (code, _, said) = fixture.run("restart-cluster --resume --others");
    assert!(code == Some(1) && said.contains("then resume"), "{said}");
    fixture.heads[0].0.set_faults(Vec::new());
    // Once it responds, it is not taken for the Ray of this restart either.
    let (code, _, said) = fixture.run("restart-cluster --resume --others");
    assert!(code == Some(1) && said.contains("Ray was restarted since this operation began"), "{said}");
    assert!(said.contains("restart-cluster --abandon"), "{said}");
    assert!(!fixture.calls().iter().any(|w| w == "up"), "{said}");
    assert_eq!(known(&fixture, 0), ["theirs"]);
}

/// Ray did not respond when a restart without saved jobs began.
#[test]
fn a_ray_that_responds_only_since_the_restart_began_is_not_taken_for_its_own() {
    let fixture = with_jobs(&["theirs"]);
    let done = [StepName::Check, StepName::ReadState, StepName::Stop, StepName::CleanUp];
    fixture.interrupted(&Task::Restart { preserve: false }, &done, "");
    let (code, _, said) = fixture.run("restart-cluster --resume --others");
    assert!(
        code == Some(1) && said.contains("Ray responds, but did not when this operation began"),
        "{said}"
    );
    assert!(!fixture.calls().iter().any(|w| w == "up"), "{said}");
    assert_eq!(known(&fixture, 0), ["theirs"]);
}

/// The same name in another directory of cluster files is another cluster.
#[test]
fn an_operation_is_resumed_with_the_file_that_it_started_with() {
    let fixture = with_jobs(&["one"]);
    fixture.double.fail_at("DELETE", "", DENIED);
    let (code, _, said) = fixture.run("restart-cluster --yes --others");
    assert_eq!(code, Some(1), "{said}");
    let file = fs::read_to_string(fixture.home.path().join("infra/a.yaml")).unwrap();
    fixture.file("other/a.yaml", &file);
    let (code, _, said) = fixture.run("--infra other restart-cluster --resume");
    assert!(code == Some(1) && said.contains("was started with") && said.contains("other/a.yaml"), "{said}");
    assert!(!fixture.calls().iter().any(|w| w == "down"), "{said}");
    let (code, _, said) = fixture.run("--infra infra restart-cluster --abandon");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_job_whose_package_is_missing_is_reported_and_blocks_no_other() {
    let mut fixture = with_jobs(&["kept"]);
    let gone = "submit-job --no-wait --submission-id orphan --runtime-env {\"working_dir\":\"gcs://_ray_pkg_0.zip\"} -- true";
    let (code, _, said) = fixture.run(gone);
    assert_eq!(code, Some(0), "{said}");
    let (_, _, plan) = fixture.run("restart-cluster --dry-run");
    let row = |id: &str| plan.lines().find(|l| l.contains(id)).unwrap_or_else(|| panic!("{plan}"));
    assert!(
        row("orphan").contains("its package no longer exists (gcs://_ray_pkg_0.zip)")
            && row("kept").contains("yes"),
        "{plan}"
    );
    let restarting = fixture.spawn("restart-cluster --yes --others");
    renew(&mut fixture);
    fixture.file("is-up", "");
    let (code, _, said) = restarting.finish();
    assert_eq!(code, Some(1), "a script must see that a job is missing: {said}");
    assert!(said.contains("done; not restored: orphan; ") && said.contains("restore-jobs "), "{said}");
    assert!(
        said.contains(
            "cannot restore orphan: its package no longer exists on the cluster (gcs://_ray_pkg_0.zip)"
        ),
        "{said}"
    );
    assert!(said.contains("2 jobs in") && said.contains("1 with missing packages"), "{said}");
    assert!(
        said.contains("orphan: not restored: its package") && said.contains("when the job was saved"),
        "{said}"
    );
    assert!(said.contains("not restored: orphan (saved in "), "{said}");
    assert_eq!(known(&fixture, 1), ["kept"]);
}

#[test]
fn a_job_that_was_not_restored_is_still_reported_after_a_resume() {
    let mut fixture = with_jobs(&["kept"]);
    let gone = "submit-job --no-wait --submission-id orphan --runtime-env {\"working_dir\":\"gcs://_ray_pkg_0.zip\"} -- true";
    let (code, _, said) = fixture.run(gone);
    assert_eq!(code, Some(0), "{said}");
    let mut restarting = fixture.spawn("restart-cluster --yes --others");
    renew(&mut fixture);
    // It is killed while it reads which workers are back.
    let slow = Fault::Latency(Duration::from_secs(2));
    fixture.heads[1].0.set_faults(trouble("/ray.rpc.", slow));
    fixture.file("is-up", "");
    restarting.wait_for("[9/9] wait for workers to rejoin");
    restarting.child.kill().unwrap();
    restarting.child.wait().unwrap();
    fixture.heads[1].0.set_faults(Vec::new());
    let (code, _, said) = fixture.run("restart-cluster --resume");
    assert!(code == Some(1) && said.contains("done; not restored: orphan; "), "{said}");
}
