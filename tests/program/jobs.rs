//! Job commands on a simulated head: what they print, send and exit with.

mod backup;

use crate::head_fixture::{HeadFixture, TOKEN};
use crate::program::{Ran, program};
use crate::pty::Pty;
use crate::until::until;
use marin_tui::demo::{Fault, FaultRule, Scenario};
use marin_tui::model::{JobStatus, Secret};
use serde_json::{Value, json};
use std::fs;
use std::process::Stdio;
use std::time::Duration;

fn fixture() -> HeadFixture {
    HeadFixture::new(Scenario { jobs: 0, ..Scenario::default() })
}

impl HeadFixture {
    /// Entries of the audit log, each with its outcome.
    fn audited(&self) -> Vec<(String, String)> {
        let rows = self.json(&["audit", "--json"]);
        let of = |row: &Value, key| row[key].as_str().unwrap().to_owned();
        rows.as_array().unwrap().iter().map(|row| (of(row, "action"), of(row, "outcome"))).collect()
    }

    /// Sends GET to the dashboard.
    fn get(&self, path: &str) -> (u16, String) {
        self.runtime.block_on(async {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
            let url = format!("http://{}{path}", self.head.dashboard);
            let answer = client.get(url).bearer_auth(TOKEN).send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        })
    }

    fn post(&self, path: &str, body: &Value) {
        self.runtime.block_on(async {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
            let url = format!("http://{}{path}", self.head.dashboard);
            let body = serde_json::to_vec(body).unwrap();
            let request = client.post(url).bearer_auth(TOKEN).header("content-type", "application/json");
            assert!(request.body(body).send().await.unwrap().status().is_success());
        });
    }

    fn details(&self, id: &str) -> Value {
        serde_json::from_str(&self.get(&format!("/api/jobs/{id}")).1).unwrap()
    }

    fn job_becomes(&self, id: &str, status: &str) {
        until(&format!("{id} is {status}"), || self.details(id)["status"] == status);
    }

    /// Runs a command as the user `me`.
    fn by_me(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).env("USER", "me").output().unwrap())
    }

    /// Submits a job of `me`.
    fn submit(&self, id: &str) {
        self.by_me(&["submit-job", "--no-wait", "--submission-id", id, "--", "python x.py"]).good();
    }
}

#[test]
fn a_job_is_submitted_with_all_options() {
    let fixture = fixture();
    fixture.file("work/train.py", "print(1)\n");
    fixture.file("work/.gitignore", "*.ckpt\n");
    fixture.file("work/big.ckpt", "x");
    fixture.file("requirements.txt", "# ours\nnumpy==2.0\n\n");
    let said = fixture.json(&[
        "submit-job",
        "--no-wait",
        "--json",
        "--submission-id",
        "all",
        "--working-dir",
        "work",
        "--env",
        "A=b=c",
        "--env",
        "HOME",
        "--pip",
        "requirements.txt",
        "--pip",
        "jax",
        "--metadata",
        "owner=alice",
        "--entrypoint-num-cpus",
        "0.5",
        "--entrypoint-memory",
        "1000",
        "--runtime-env",
        "{\"env_vars\": {\"Z\": \"1\"}}",
        "--",
        "python",
        "train.py",
        "--name",
        "a b",
    ]);
    assert_eq!(said, json!({"submission_id": "all"}));
    let job = fixture.details("all");
    assert_eq!(job["entrypoint"], "python train.py --name 'a b'");
    assert_eq!(job["metadata"], json!({"owner": "alice"}));
    let env = &job["runtime_env"];
    assert_eq!(env["pip"], json!(["numpy==2.0", "jax"]));
    let home = fixture.home.path().to_str().unwrap();
    assert_eq!(env["env_vars"], json!({"A": "b=c", "HOME": home, "Z": "1"}));
    let uri = env["working_dir"].as_str().unwrap();
    assert!(uri.starts_with("gcs://_ray_pkg_"), "{uri}");
    assert_eq!(fixture.get(&format!("/api/packages/gcs/{}", &uri[6..])).0, 200);
    // The same directory is not uploaded again; the same id is refused.
    let puts = || fixture.head.cost().requests.get(&format!("/api/packages/gcs/{}", &uri[6..])).copied();
    let before = puts().unwrap();
    fixture.ok(&["submit-job", "--no-wait", "--working-dir", "work", "--", "true"]);
    assert_eq!(puts().unwrap(), before + 1, "queried, but not uploaded");
    let again = fixture.run(&["submit-job", "--no-wait", "--submission-id", "all", "--", "true"]);
    let refused = fixture.transcript();
    refused.with("submit-job --submission-id all", &again).is("a_job_whose_id_is_taken");
}

#[test]
fn a_dry_run_sends_nothing_and_shows_no_secret() {
    let fixture = fixture();
    fixture.file("work/train.py", "print(1)\n");
    let dry = fixture.ok(&[
        "submit-job",
        "--dry-run",
        "--submission-id",
        "dry",
        "--working-dir",
        "work",
        "--env",
        "KEY=hunter2",
        "--",
        "true",
    ]);
    assert!(
        dry.contains("gcs://_ray_pkg_") && dry.contains("\"KEY\": \"***\"") && !dry.contains("hunter2"),
        "{dry}"
    );
    assert_eq!(fixture.get("/api/jobs/dry").0, 404);
    assert_eq!(fixture.head.cost().requests.get("/api/version"), None, "not even connected");
}

#[test]
fn packing_errors_are_reported_before_anything_is_sent() {
    let fixture = fixture();
    fixture.file("work/x", "");
    fs::File::create(fixture.home.path().join("work/w.bin")).unwrap().set_len((100 << 20) + 1).unwrap();
    let mut refused = fixture.transcript();
    for args in [
        &["--working-dir", "work", "--", "true"][..],
        &["--working-dir", "nowhere", "--", "true"],
        &["--env", "UNSET_HERE", "--", "true"],
        // The quoted part of the error contains no secret.
        &["--runtime-env", "{\"env_vars\": hunter2", "--", "true"],
        &["--pip", "missing.txt", "--", "true"],
        &[],
    ] {
        fixture.shows(&mut refused, &[&["submit-job"], args].concat());
    }
    refused.is("what_cannot_be_submitted");
    assert!(fixture.head.submissions(JobStatus::Pending).is_empty());
}

#[test]
fn the_time_limit_of_a_wait_includes_connecting() {
    let fixture = fixture();
    fixture.submit("one");
    fixture.head.set_faults(vec![FaultRule { path: String::new(), fault: Fault::Stall }]);
    let waited = fixture.run(&["wait-job", "--timeout", "2", "--json", "one"]).exits(4).json();
    assert_eq!(waited, json!({"submission_id": "one", "status": null, "ended": false, "lost": false}));
}

#[test]
fn a_list_that_cannot_be_read_is_a_failure_and_not_an_empty_list() {
    let fixture = fixture();
    fixture.submit("one");
    let list = "/ray.rpc.JobInfoGcsService/GetAllJobInfo";
    let lists = [list, "/api/jobs/"].map(|path| FaultRule { path: path.into(), fault: Fault::Status(500) });
    fixture.head.set_faults(lists.to_vec());
    for args in [&["list-jobs", "--json"][..], &["job-status", "one"]] {
        let ran = fixture.run(args).exits(1);
        assert!(ran.out.is_empty() && ran.err.contains("cannot read jobs"), "{args:?}: {}", ran.err);
    }
    let status = fixture.run(&["status", "--json"]).exits(0).json();
    assert!(status[0]["jobs"].is_null() && status[0]["nodes"]["alive"].is_number(), "{status}");
    fixture.run(&["status", "--check"]).exits(1);
}

#[test]
fn a_stop_with_a_truncated_response_is_watched_until_the_job_ends() {
    let fixture = fixture();
    fixture.submit("one");
    fixture.job_becomes("one", "RUNNING");
    fixture.head.set_faults(vec![FaultRule { path: "/api/jobs/one/stop".into(), fault: Fault::HalfBody }]);
    let stopped = fixture.by_me(&["stop-job", "--yes", "--json", "one"]).exits(0).json();
    assert_eq!(stopped, json!([{"submission_id": "one", "done": true, "outcome": "stopped"}]));
    assert_eq!(fixture.audited().pop().unwrap(), ("stop-job one".into(), "ended (stopped)".into()));
}

#[test]
fn a_token_that_ray_repeats_is_masked() {
    let fixture = fixture();
    let ran = Ran::of(&fixture.command(&["stop-job", "--yes", "--json", TOKEN]).output().unwrap()).exits(1);
    assert!(ran.json()[0]["outcome"].as_str().unwrap().contains("***"), "{}", ran.out);
}

#[test]
fn jobs_are_listed_stopped_and_deleted() {
    let fixture = fixture();
    for id in ["one", "two", "three"] {
        fixture.submit(id);
    }
    fixture.job_becomes("one", "RUNNING");
    let listed = fixture.json(&["list-jobs", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 3);
    for row in listed.as_array().unwrap() {
        let is_pending = row["status"] == "pending";
        assert_eq!(
            is_pending,
            row["reason"].as_str().is_some_and(|why| why.starts_with("waits for ")),
            "{row}"
        );
    }
    let early = fixture.run(&["delete-job", "--yes", "one"]);
    let unasked = fixture.run(&["stop-job", "one"]);
    let refused = fixture.transcript().with("delete-job --yes one", &early).with("stop-job one", &unasked);
    refused.is("jobs_that_are_neither_deleted_nor_stopped");
    assert_ne!(fixture.details("one")["status"], "STOPPED");
    let dry = fixture.by_me(&["stop-job", "--dry-run", "--json", "one", "two"]).exits(0).json();
    let would = |id, what| json!({"submission_id": id, "done": true, "outcome": what});
    assert_eq!(dry, json!([would("one", "would be stopped"), would("two", "would be stopped")]));
    let dry = fixture.run(&["delete-job", "--dry-run", "--json", "one", "none"]).exits(1).json();
    let not = |id, why| json!({"submission_id": id, "done": false, "outcome": why});
    let not_ended = "has not ended; stop it first with stop-job";
    assert_eq!(dry, json!([not("one", not_ended), not("none", "Job none does not exist")]));
    fixture.by_me(&["stop-job", "--dry-run", "none"]).exits(1);
    fixture.by_me(&["stop-job", "--dry-run", "one"]).good();
    assert_eq!(fixture.details("one")["status"], "RUNNING");
    let stopped = fixture.by_me(&["stop-job", "--yes", "--json", "one", "two"]).exits(0).json();
    let ended = "ended (stopped)";
    let stops = [("stop-job", "started: one, two"), ("stop-job one", ended), ("stop-job two", ended)];
    let stops = stops.map(|(what, outcome)| (what.to_owned(), outcome.to_owned()));
    assert!(fixture.audited().ends_with(&stops), "{:?}", fixture.audited());
    assert!(
        stopped.as_array().unwrap().iter().all(|r| r["done"] == true && r["outcome"] == "stopped"),
        "{stopped}"
    );
    assert_eq!(fixture.details("two")["status"], "STOPPED");
    let ids = |rows: &Value| {
        let mut ids: Vec<String> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["submission_id"].as_str().unwrap().into())
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&fixture.json(&["list-jobs", "--json"])), ["three"]);
    assert_eq!(ids(&fixture.json(&["list-jobs", "--all", "--json"])), ["one", "three", "two"]);
    let rows = |args: &[&str]| fixture.ok(args).lines().count() - 1;
    assert_eq!((rows(&["list-jobs"]), rows(&["list-jobs", "--all"])), (1, 3));
    fixture.ok(&["delete-job", "--yes", "one"]);
    assert_eq!(fixture.get("/api/jobs/one").0, 404);
    let gone = fixture.by_me(&["stop-job", "--yes", "one", "three"]);
    assert_eq!(gone.code, Some(1), "one of two failed");
    assert_eq!(fixture.details("three")["status"], "STOPPED");
}

#[test]
fn the_confirmation_of_a_stop_names_owners() {
    let fixture = fixture();
    fixture.ok(&[
        "submit-job",
        "--no-wait",
        "--submission-id",
        "one",
        "--metadata",
        "owner=dara",
        "--",
        "sleep 600",
    ]);
    fixture.post("/api/jobs/", &json!({"entrypoint": "sleep 600", "submission_id": "two"}));
    fixture.job_becomes("two", "RUNNING");
    let ask = |command: &str, answer: &str| {
        let others: &[&str] = if command == "stop-job" { &["--others"] } else { &[] };
        let mut console = Pty::of(&fixture.command(&[&[command, "one", "two"], others].concat()), 120, 40);
        console.wait_text("[y/N]");
        // Progress is shown after a second; it must not be mixed with the question.
        std::thread::sleep(Duration::from_millis(1300));
        let seen = console.wait_text("[y/N]");
        assert!(seen.trim_end().ends_with("? [y/N]") || seen.trim_end().ends_with("kept. [y/N]"), "{seen}");
        let of = |id: &str| seen.lines().find(|l| l.starts_with(id)).unwrap_or_default().to_owned();
        assert!(of("one").contains("dara") && of("two").contains("owner unknown"), "{seen}");
        let including = seen.contains("owned by dara or an unknown owner?");
        assert_eq!(including, command == "stop-job", "{seen}");
        console.send(answer);
        console.wait_exit();
    };
    // Without --others the stop is refused without a question.
    let mut refused = Pty::of(&fixture.command(&["stop-job", "one", "two"]), 120, 40);
    refused.wait_exit();
    let said = refused.wait_text("--others");
    assert!(said.contains("dara") && !said.contains("[y/N]"), "{said}");
    ask("stop-job", "n\r");
    ask("delete-job", "\r");
    assert_eq!(fixture.details("one")["status"], "RUNNING");
    ask("stop-job", "y\r");
    assert_eq!(
        (fixture.details("one")["status"].as_str(), fixture.details("two")["status"].as_str()),
        (Some("STOPPED"), Some("STOPPED"))
    );
}

#[test]
fn the_jobs_of_others_are_stopped_only_when_that_is_allowed() {
    let fixture = fixture();
    fixture.submit("mine");
    fixture.post("/api/jobs/", &json!({"entrypoint": "sleep 9", "submission_id": "unowned"}));
    let of_bo = json!({"entrypoint": "sleep 9", "submission_id": "it's bo's", "metadata": {"owner": "bo"}});
    fixture.post("/api/jobs/", &of_bo);
    let ended = json!({"entrypoint": "true", "submission_id": "over", "metadata": {"owner": "bo"}});
    fixture.post("/api/jobs/", &ended);
    for id in ["mine", "unowned", "it's bo's", "over"] {
        fixture.head.turn_job(id, JobStatus::Running);
    }
    assert!(fixture.head.turn_job("over", JobStatus::Succeeded));
    let status = |id: &str| fixture.details(id)["status"].as_str().unwrap().to_owned();
    let mut shown = fixture.transcript();
    for args in [
        &["stop-job", "--yes", "it's bo's"][..],
        &["stop-job", "--yes", "unowned"],
        &["stop-job", "--yes", "mine", "it's bo's", "unowned"],
        &["stop-job", "--yes", "--json", "mine", "it's bo's"],
        &["stop-job", "--dry-run", "mine", "it's bo's", "unowned"],
        &["stop-job", "--dry-run", "--json", "mine", "it's bo's"],
        &["stop-job", "--dry-run", "--others", "mine", "it's bo's"],
    ] {
        let ran = fixture.by_me(args);
        assert_eq!(ran.code, Some(i32::from(!args.contains(&"--dry-run"))), "{args:?}: {}", ran.err);
        shown.add(&args.join(" "), &ran);
    }
    for id in ["mine", "it's bo's", "unowned"] {
        assert_eq!(status(id), "RUNNING", "{id}");
    }
    // A user without a name owns no jobs.
    assert_eq!(fixture.run(&["stop-job", "--yes", "mine"]).code, Some(1));
    assert_eq!(status("mine"), "RUNNING");
    // A job that has ended or does not exist does not need --others.
    fixture.by_me(&["stop-job", "--yes", "over", "mine"]).good();
    assert_eq!((status("mine"), status("over")), ("STOPPED".into(), "SUCCEEDED".into()));
    shown.add("stop-job --yes none", &fixture.by_me(&["stop-job", "--yes", "none"]).exits(1));
    fixture.by_me(&["stop-job", "--yes", "--others", "it's bo's", "unowned"]).good();
    assert_eq!((status("it's bo's"), status("unowned")), ("STOPPED".into(), "STOPPED".into()));
    shown.is("the_jobs_of_others");
}

#[test]
fn a_job_that_cannot_be_read_counts_as_another_persons() {
    let fixture = fixture();
    fixture.submit("one");
    fixture.head.set_faults(vec![FaultRule { path: "/api/jobs/one".into(), fault: Fault::HalfBody }]);
    let refused = fixture.by_me(&["stop-job", "--yes", "one"]).exits(1);
    assert!(
        refused.err.contains("unknown owner (one)") && refused.err.contains("--others"),
        "{}",
        refused.err
    );
}

#[test]
fn a_stop_that_ray_ignores_is_not_a_success() {
    let fixture = fixture();
    fixture.submit("stays");
    fixture.job_becomes("stays", "RUNNING");
    fixture.head.ignore_stop(true);
    let mut transcript = fixture.transcript();
    transcript.add("stop-job --yes stays", &fixture.by_me(&["stop-job", "--yes", "stays"]));
    transcript.is("a_stop_that_ray_ignores");
    assert_eq!(fixture.details("stays")["status"], "RUNNING");
}

#[test]
fn waiting_ends_with_the_job_and_reports_its_status() {
    let fixture = fixture();
    for id in ["good", "bad", "slow"] {
        fixture.submit(id);
    }
    for id in ["good", "bad", "slow"] {
        fixture.job_becomes(id, "RUNNING");
    }
    assert_eq!(fixture.run(&["wait-job", "slow", "--timeout", "1"]).code, Some(4));
    let waiting = fixture.command(&["wait-job", "good", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    fixture.head.turn_job("good", JobStatus::Succeeded);
    let out = waiting.wait_with_output().unwrap();
    assert_eq!(
        Ran::of(&out).exits(0).json(),
        json!({"submission_id": "good", "status": "succeeded", "ended": true, "lost": false})
    );
    fixture.head.turn_job("bad", JobStatus::Failed);
    assert_eq!(fixture.run(&["wait-job", "bad"]).code, Some(3));
    assert_eq!(fixture.run(&["wait-job", "unknown"]).code, Some(1));
}

#[test]
fn logs_are_printed_whole_filtered_and_followed() {
    let fixture = fixture();
    fixture.submit("talks");
    fixture.job_becomes("talks", "RUNNING");
    fixture.head.write_job_log(
        "talks",
        b"step 1 loss 3\n\x1b[31mstep 2\x1b[0m loss 2\nwarning \xff bytes\nstep 3 loss 1\n",
    );
    let log = fixture.ok(&["job-logs", "talks"]);
    assert!(log.lines().any(|l| l == "step 2 loss 2") && !log.contains('\x1b'), "{log:?}");
    assert_eq!(fixture.ok(&["job-logs", "talks", "-n", "1"]).lines().count(), 1);
    let steps = fixture.ok(&["job-logs", "talks", "-g", "^step [13]"]);
    assert_eq!(steps.lines().filter(|l| l.starts_with("step ")).count(), steps.lines().count());
    assert_eq!(fixture.run(&["job-logs", "talks", "-g", "("]).code, Some(2));
    // A pattern in lower case matches regardless of case.
    assert_eq!(fixture.ok(&["job-logs", "talks", "-g", "WARN|loss 3"]), "step 1 loss 3\n");
    assert_eq!(fixture.lines(&["job-logs", "talks", "-g", "warning", "--json"])[0]["time_ms"], Value::Null);
    let nothing = fixture.run(&["job-logs", "talks", "-g", "never said"]);
    assert_eq!((nothing.code, &*nothing.out), (Some(1), ""));
    let mut timeless = fixture.transcript();
    fixture.shows(&mut timeless, &["job-logs", "talks", "--since", "5m", "-g", "step 2"]);
    timeless.is("lines_without_times_since");
    let following = fixture.command(&["job-logs", "-f", "talks"]).stdout(Stdio::piped()).spawn().unwrap();
    fixture.head.turn_job("talks", JobStatus::Succeeded);
    let out = following.wait_with_output().unwrap();
    assert!(Ran::of(&out).good().lines().any(|l| l == "step 3 loss 1"), "{out:?}");
}

#[test]
fn a_cluster_that_cannot_be_reached_is_named_with_a_hint() {
    let fixture = fixture();
    fixture.head.set_token(Some(Secret::new("another")));
    let mut transcript = fixture.transcript();
    fixture.shows(&mut transcript, &["list-jobs"]);
    let mut nobody = program(fixture.home.path());
    let nobody = nobody.args(["--address", "http://127.0.0.1:9", "list-jobs"]).output().unwrap();
    transcript
        .with("--address http://127.0.0.1:9 list-jobs", &Ran::of(&nobody))
        .is("clusters_that_do_not_answer");
    assert!(fixture.home.path().join(".local/state/marin-tui").is_dir());
}

#[test]
fn submitted_jobs_have_an_owner() {
    let fixture = fixture();
    let submit = |id: &str, more: &[&str]| {
        let mut command = fixture.command(&["submit-job", "--no-wait", "--submission-id", id]);
        let out = command.args(more).args(["--", "true"]).env("USER", "alice").output().unwrap();
        Ran::of(&out).good();
        fixture.details(id)["metadata"].clone()
    };
    assert_eq!(submit("mine", &[]), json!({"owner": "alice"}));
    assert_eq!(submit("for-bo", &["--metadata", "user=bo"]), json!({"user": "bo"}));
    let rows = fixture.json(&["list-jobs", "--owner", "alice", "--json"]);
    assert!(rows.as_array().unwrap().len() == 1 && rows[0]["submission_id"] == "mine", "{rows}");
}

#[test]
fn a_cluster_without_a_file_is_not_restarted() {
    let fixture = fixture();
    let mut transcript = fixture.transcript();
    fixture.shows(&mut transcript, &["restart-cluster", "--yes"]);
    transcript.is("a_cluster_without_a_file_is_not_restarted");
}
