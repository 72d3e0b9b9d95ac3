//! Job commands on a simulated head: what they print, send and exit with.

mod backup;

use crate::program::program;
use crate::pty::Pty;
use crate::until::until;
use marin_tui::demo::{Fault, Head, Scenario, Trouble};
use marin_tui::model::{JobStatus, Secret};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TOKEN: &str = "tok-jobs-never-shown";

/// A simulated head, and a person's home.
struct Place {
    runtime: Runtime,
    head: Head,
    home: TempDir,
}

impl Place {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let scenario = Scenario { token: Some(Secret::new(TOKEN)), jobs: 0, ..Scenario::default() };
        let head = runtime.block_on(Head::start(scenario)).unwrap();
        Self { runtime, head, home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program(self.home.path());
        command.env("RAY_AUTH_TOKEN", TOKEN);
        command.args(["--address", &format!("http://{}", self.head.dashboard)]);
        command.args(["--gcs", &self.head.gcs.to_string()]).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs what must succeed; its standard output.
    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// GET of the dashboard.
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
            let asked = client.post(url).bearer_auth(TOKEN).header("content-type", "application/json");
            assert!(asked.body(body).send().await.unwrap().status().is_success());
        });
    }

    fn job(&self, id: &str) -> Value {
        serde_json::from_str(&self.get(&format!("/api/jobs/{id}")).1).unwrap()
    }

    fn job_becomes(&self, id: &str, status: &str) {
        until(&format!("{id} is {status}"), || self.job(id)["status"] == status);
    }

    fn submit(&self, id: &str) {
        self.ok(&["submit-job", "--no-wait", "--submission-id", id, "--", "python x.py"]);
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn a_job_is_submitted_with_all_that_was_said() {
    let place = Place::new();
    place.file("work/train.py", "print(1)\n");
    place.file("work/.gitignore", "*.ckpt\n");
    place.file("work/big.ckpt", "x");
    place.file("requirements.txt", "# ours\nnumpy==2.0\n\n");
    let said = place.json(&[
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
    let job = place.job("all");
    assert_eq!(job["entrypoint"], "python train.py --name 'a b'");
    assert_eq!(job["metadata"], json!({"owner": "alice"}));
    let env = &job["runtime_env"];
    assert_eq!(env["pip"], json!(["numpy==2.0", "jax"]));
    let home = place.home.path().to_str().unwrap();
    assert_eq!(env["env_vars"], json!({"A": "b=c", "HOME": home, "Z": "1"}));
    let uri = env["working_dir"].as_str().unwrap();
    assert!(uri.starts_with("gcs://_ray_pkg_"), "{uri}");
    assert_eq!(place.get(&format!("/api/packages/gcs/{}", &uri[6..])).0, 200);
    // The same folder again is not uploaded again; the same id is refused.
    let puts = || place.head.cost().requests.get(&format!("/api/packages/gcs/{}", &uri[6..])).copied();
    let before = puts().unwrap();
    place.ok(&["submit-job", "--no-wait", "--working-dir", "work", "--", "true"]);
    assert_eq!(puts().unwrap(), before + 1, "asked for, and not sent");
    let again = place.run(&["submit-job", "--no-wait", "--submission-id", "all", "--", "true"]);
    assert_eq!(again.status.code(), Some(1));
    let taken = "already exists. Please use a different submission_id.";
    assert!(stderr(&again).contains(taken) && !stderr(&again).contains("by itself"), "{}", stderr(&again));
}

#[test]
fn a_dry_run_sends_nothing_and_shows_no_secret() {
    let place = Place::new();
    place.file("work/train.py", "print(1)\n");
    let out = place.run(&[
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
    assert!(out.status.success(), "{}", stderr(&out));
    let all = format!("{}{}", String::from_utf8_lossy(&out.stdout), stderr(&out));
    assert!(
        all.contains("gcs://_ray_pkg_") && all.contains("\"KEY\": \"***\"") && !all.contains("hunter2"),
        "{all}"
    );
    assert_eq!(place.get("/api/jobs/dry").0, 404);
    assert_eq!(place.head.cost().requests.get("/api/version"), None, "not even connected");
}

#[test]
fn what_cannot_be_packed_is_said_before_anything_is_sent() {
    let place = Place::new();
    place.file("work/x", "");
    fs::File::create(place.home.path().join("work/w.bin")).unwrap().set_len((100 << 20) + 1).unwrap();
    let refused = |args: &[&str], words: &str| {
        let out = place.run(args);
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert!(stderr(&out).contains(words), "{}", stderr(&out));
    };
    refused(&["submit-job", "--working-dir", "work", "--", "true"], "w.bin (100 MiB)");
    refused(&["submit-job", "--working-dir", "nowhere", "--", "true"], "is not a folder");
    refused(
        &["submit-job", "--env", "UNSET_HERE", "--", "true"],
        "UNSET_HERE is not set in the local environment",
    );
    refused(&["submit-job", "--runtime-env", "{\"env_vars\": hunter2", "--", "true"], "line 2");
    let out = place.run(&["submit-job", "--runtime-env", "{\"env_vars\": hunter2", "--", "true"]);
    assert!(!stderr(&out).contains("hunter2"), "{}", stderr(&out));
    refused(&["submit-job", "--pip", "missing.txt", "--", "true"], "no requirements file");
    assert_eq!(place.run(&["submit-job"]).status.code(), Some(2));
    assert!(place.head.submissions(JobStatus::Pending).is_empty());
}

#[test]
fn a_stop_whose_answer_broke_off_is_watched_to_the_truth() {
    let place = Place::new();
    place.submit("one");
    place.job_becomes("one", "RUNNING");
    place.head.trouble(vec![Trouble { path: "/api/jobs/one/stop".into(), fault: Fault::HalfBody }]);
    let stopped = place.json(&["stop-job", "--yes", "--json", "one"]);
    assert_eq!(stopped, json!([{"submission_id": "one", "done": true, "outcome": "stopped"}]));
    let log = place.ok(&["audit"]);
    assert!(log.contains("ended (stopped)") && !log.contains("not stopped"), "{log}");
}

#[test]
fn a_token_that_ray_repeats_is_masked() {
    let place = Place::new();
    let out = place.run(&["stop-job", "--yes", "--json", TOKEN]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("Job *** does not exist"), "{said}");
}

#[test]
fn jobs_are_listed_stopped_and_deleted() {
    let place = Place::new();
    for id in ["one", "two", "three"] {
        place.submit(id);
    }
    place.job_becomes("one", "RUNNING");
    let listed = place.json(&["list-jobs", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 3);
    for row in listed.as_array().unwrap() {
        let is_pending = row["status"] == "pending";
        assert_eq!(
            is_pending,
            row["reason"].as_str().is_some_and(|why| why.starts_with("waits for ")),
            "{row}"
        );
    }
    let early = place.run(&["delete-job", "--yes", "one"]);
    assert_eq!(early.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&early.stdout).contains("stop-job"), "{early:?}");
    let unasked = place.run(&["stop-job", "one"]);
    assert_eq!(unasked.status.code(), Some(1));
    assert!(stderr(&unasked).contains("--yes"), "{}", stderr(&unasked));
    assert_ne!(place.job("one")["status"], "STOPPED");
    let dry = place.json(&["stop-job", "--dry-run", "--json", "one", "two"]);
    let would = |id, what| json!({"submission_id": id, "done": true, "outcome": what});
    assert_eq!(dry, json!([would("one", "would be stopped"), would("two", "would be stopped")]));
    let dry = place.json(&["delete-job", "--dry-run", "--json", "one"]);
    assert_eq!(dry, json!([would("one", "would be deleted")]));
    assert!(place.ok(&["stop-job", "--dry-run", "one"]).starts_with("would stop one on "));
    assert_eq!(place.job("one")["status"], "RUNNING");
    let stopped = place.json(&["stop-job", "--yes", "--json", "one", "two"]);
    let log = place.ok(&["audit"]);
    assert!(log.contains("ended (stopped)") && !log.contains("Ended("), "{log}");
    assert!(
        stopped.as_array().unwrap().iter().all(|r| r["done"] == true && r["outcome"] == "stopped"),
        "{stopped}"
    );
    assert_eq!(place.job("two")["status"], "STOPPED");
    let table = place.ok(&["list-jobs"]);
    assert!(table.contains("three") && !table.contains("one"), "{table}");
    let all = place.ok(&["list-jobs", "--all"]);
    assert!(all.contains("one") && all.lines().count() == 4, "{all}");
    place.ok(&["delete-job", "--yes", "one"]);
    assert_eq!(place.get("/api/jobs/one").0, 404);
    let gone = place.run(&["stop-job", "--yes", "one", "three"]);
    assert_eq!(gone.status.code(), Some(1), "one of two failed");
    assert_eq!(place.job("three")["status"], "STOPPED");
}

#[test]
fn the_question_of_a_stop_names_owners() {
    let place = Place::new();
    place.ok(&[
        "submit-job",
        "--no-wait",
        "--submission-id",
        "one",
        "--metadata",
        "owner=dara",
        "--",
        "sleep 600",
    ]);
    place.post("/api/jobs/", &json!({"entrypoint": "sleep 600", "submission_id": "two"}));
    place.job_becomes("two", "RUNNING");
    let ask = |command: &str, answer: &str| {
        let command = place.command(&[command, "one", "two"]);
        let argv: Vec<&str> = [command.get_program()]
            .into_iter()
            .chain(command.get_args())
            .map(|word| word.to_str().unwrap())
            .collect();
        let home = place.home.path().to_str().unwrap();
        let mut console = Pty::start(&argv, &[("HOME", home), ("RAY_AUTH_TOKEN", TOKEN)], 120, 40);
        console.wait_text("[y/N]");
        // Progress is shown after a second; it must not run into the question.
        std::thread::sleep(Duration::from_millis(1300));
        let seen = console.wait_text("[y/N]");
        assert!(seen.trim_end().ends_with("? [y/N]") || seen.trim_end().ends_with("kept. [y/N]"), "{seen}");
        let of = |id: &str| seen.lines().find(|l| l.starts_with(id)).unwrap_or_default().to_owned();
        assert!(of("one").contains("dara") && of("two").contains("owner unknown"), "{seen}");
        console.send(answer);
        console.wait_exit();
    };
    ask("stop-job", "n\r");
    ask("delete-job", "\r");
    assert_eq!(place.job("one")["status"], "RUNNING");
    ask("stop-job", "y\r");
    assert_eq!(
        (place.job("one")["status"].as_str(), place.job("two")["status"].as_str()),
        (Some("STOPPED"), Some("STOPPED"))
    );
}

#[test]
fn a_stop_that_ray_ignores_is_not_a_success() {
    let place = Place::new();
    place.submit("stays");
    place.job_becomes("stays", "RUNNING");
    place.head.ignore_stop(true);
    let out = place.run(&["stop-job", "--yes", "stays"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stdout).contains("still running"), "{out:?}");
}

#[test]
fn waiting_ends_with_the_job_and_says_how() {
    let place = Place::new();
    for id in ["good", "bad", "slow"] {
        place.submit(id);
    }
    for id in ["good", "bad", "slow"] {
        place.job_becomes(id, "RUNNING");
    }
    let late = place.run(&["wait-job", "slow", "--timeout", "1"]);
    assert_eq!(late.status.code(), Some(4));
    assert!(stderr(&late).contains("still running"), "{}", stderr(&late));
    let waiting = place.command(&["wait-job", "good", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    place.head.turn_job("good", JobStatus::Succeeded);
    let out = waiting.wait_with_output().unwrap();
    assert!(out.status.success());
    assert_eq!(
        serde_json::from_slice::<Value>(&out.stdout).unwrap(),
        json!({"submission_id": "good", "status": "succeeded", "ended": true, "lost": false})
    );
    place.head.turn_job("bad", JobStatus::Failed);
    assert_eq!(place.run(&["wait-job", "bad"]).status.code(), Some(3));
    assert_eq!(place.run(&["wait-job", "unknown"]).status.code(), Some(1));
}

#[test]
fn logs_are_printed_whole_filtered_and_followed() {
    let place = Place::new();
    place.submit("talks");
    place.job_becomes("talks", "RUNNING");
    place.head.write_job_log(
        "talks",
        b"step 1 loss 3\n\x1b[31mstep 2\x1b[0m loss 2\nwarning \xff bytes\nstep 3 loss 1\n",
    );
    let log = place.ok(&["job-logs", "talks"]);
    assert!(log.contains("step 2 loss 2") && !log.contains('\x1b'), "{log:?}");
    assert_eq!(place.ok(&["job-logs", "talks", "-n", "1"]).lines().count(), 1);
    let steps = place.ok(&["job-logs", "talks", "-g", "^step [13]"]);
    assert_eq!(steps.lines().filter(|l| l.starts_with("step ")).count(), steps.lines().count());
    assert_eq!(place.run(&["job-logs", "talks", "-g", "("]).status.code(), Some(2));
    // All in lower case it matches in any case.
    assert!(place.ok(&["job-logs", "talks", "-g", "WARN|loss 3"]).contains("loss 3"));
    assert!(place.ok(&["job-logs", "talks", "-g", "warning", "--json"]).contains(r#""time_ms":null"#));
    let nothing = place.run(&["job-logs", "talks", "-g", "never said"]);
    assert_eq!((nothing.status.code(), &*nothing.stdout), (Some(0), &b""[..]));
    let timeless = place.run(&["job-logs", "talks", "--since", "5m", "-g", "step 2"]);
    assert!(String::from_utf8(timeless.stderr).unwrap().contains("--since"));
    let following = place.command(&["job-logs", "-f", "talks"]).stdout(Stdio::piped()).spawn().unwrap();
    place.head.turn_job("talks", JobStatus::Succeeded);
    let out = following.wait_with_output().unwrap();
    assert!(out.status.success());
    assert!(String::from_utf8_lossy(&out.stdout).contains("step 3 loss 1"), "{out:?}");
}

#[test]
fn a_cluster_that_cannot_be_reached_is_named_with_the_mend() {
    let place = Place::new();
    place.head.set_token(Some(Secret::new("another")));
    let out = place.run(&["list-jobs"]);
    assert_eq!(out.status.code(), Some(1));
    let said = stderr(&out);
    assert!(said.contains("token") && said.contains("~/.ray/auth_token") && !said.contains(TOKEN), "{said}");
    let mut nobody = program(place.home.path());
    let out = nobody.args(["--address", "http://127.0.0.1:9", "list-jobs"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains("127.0.0.1"), "{}", stderr(&out));
    assert!(place.home.path().join(".local/state/marin-tui").is_dir());
}

#[test]
fn what_is_submitted_says_whose_it_is() {
    let place = Place::new();
    let submit = |id: &str, more: &[&str]| {
        let mut command = place.command(&["submit-job", "--no-wait", "--submission-id", id]);
        let out = command.args(more).args(["--", "true"]).env("USER", "alice").output().unwrap();
        assert!(out.status.success(), "{}", stderr(&out));
        place.job(id)["metadata"].clone()
    };
    assert_eq!(submit("mine", &[]), json!({"owner": "alice"}));
    assert_eq!(submit("for-bo", &["--metadata", "user=bo"]), json!({"user": "bo"}));
    let rows = place.json(&["list-jobs", "--owner", "alice", "--json"]);
    assert!(rows.as_array().unwrap().len() == 1 && rows[0]["submission_id"] == "mine", "{rows}");
}

#[test]
fn other_providers_are_told_what_is_not_offered() {
    let place = Place::new();
    let out = place.run(&["restart-cluster", "--yes"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        stderr(&out).contains("has no cluster file") && stderr(&out).contains("backup-jobs"),
        "{}",
        stderr(&out)
    );
}
