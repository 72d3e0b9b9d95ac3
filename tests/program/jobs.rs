//! Job commands on a simulated head: what they print, send and exit with.

use crate::pty::Pty;
use marin_tui::demo::{Fault, Head, Scenario, Trouble};
use marin_tui::model::{JobStatus, Secret};
use marin_tui::ray::{Client, Endpoint};
use serde_json::{Value, json};
use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_marin-tui"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("RAY_AUTH_TOKEN", TOKEN)
            .env("PATH", "/usr/bin:/bin");
        command.args(["--address", &format!("http://{}", self.head.dashboard)]);
        command.args(["--gcs", &self.head.gcs.to_string()]).args(args);
        command.current_dir(self.home.path()).stdin(Stdio::null());
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
        let began = Instant::now();
        while self.job(id)["status"] != status {
            assert!(began.elapsed() < Duration::from_secs(20), "{id} is never {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
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
    let mut nobody = Command::new(env!("CARGO_BIN_EXE_marin-tui"));
    nobody.env_clear().env("HOME", place.home.path()).args(["--address", "http://127.0.0.1:9", "list-jobs"]);
    let out = nobody.output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains("127.0.0.1"), "{}", stderr(&out));
    assert!(Path::new(place.home.path()).join(".local/state/marin-tui").is_dir());
}

/// Names of files and folders under a folder, with their permissions.
fn modes(dir: &Path) -> Vec<(String, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        all.push((entry.file_name().into_string().unwrap(), mode));
        if entry.path().is_dir() {
            all.extend(modes(&entry.path()));
        }
    }
    all
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
fn jobs_are_saved_and_restored_once() {
    let old = Place::new();
    old.file("work/train.py", "print(1)\n");
    let submit = |args: &[&str]| old.ok(&[&["submit-job", "--no-wait", "--submission-id"], args].concat());
    submit(&["plain", "--metadata", "owner=alice", "--", "python x.py"]);
    submit(&["dir", "--working-dir", "work", "--env", "KEY=hunter2", "--", "python train.py"]);
    submit(&[
        "waits",
        "--entrypoint-num-cpus",
        "0.5",
        "--entrypoint-resources",
        "{\"TPU\": 4}",
        "--",
        "true",
    ]);
    submit(&["ended", "--", "true"]);
    submit(&["ours", "--metadata", "marin-tui=probe", "--", "true"]);
    submit(&["loop", "--", "python cluster.py start-cleanup --interval 600"]);
    submit(&["gone", "--runtime-env", "{\"working_dir\": \"gcs://_ray_pkg_0.zip\"}", "--", "true"]);
    old.head.turn_job("ended", JobStatus::Succeeded);
    let dir = old.home.path().join("saved");
    let saved = dir.to_str().unwrap();
    let dry = old.run(&["backup-jobs", saved, "--json", "--dry-run"]);
    assert_eq!(dry.status.code(), Some(1), "one job could not be restored: {}", stderr(&dry));
    assert!(!dir.exists());
    let out = old.run(&["backup-jobs", saved, "--json"]);
    assert_eq!(out.status.code(), Some(1), "one job cannot be restored: {}", stderr(&out));
    let mut report: Value = serde_json::from_slice(&out.stdout).unwrap();
    // A dry run prints the same, but for the outcome.
    let said: Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert!(report["jobs"].as_array().unwrap().iter().all(|j| j["outcome"] == "saved"), "{report}");
    report["jobs"].as_array_mut().unwrap().iter_mut().for_each(|j| j["outcome"] = json!("would be saved"));
    assert_eq!(said, report);
    let ids: Vec<_> = report["jobs"].as_array().unwrap().iter().map(|j| j["submission_id"].clone()).collect();
    assert_eq!(ids, ["dir", "gone", "plain", "waits"]);
    assert_eq!(report["jobs"][1]["missing_packages"], json!(["gcs://_ray_pkg_0.zip"]));
    assert_eq!(report["skipped"].as_array().unwrap().len(), 2);
    for (name, mode) in modes(&dir) {
        assert_eq!(mode, if name == "packages" { 0o700 } else { 0o600 }, "{name}");
    }
    assert_eq!(modes(old.home.path()).into_iter().find(|(n, _)| n == "saved").unwrap().1, 0o700);
    let twice = old.run(&["backup-jobs", saved]);
    assert!(stderr(&twice).contains("already contains a backup"), "{}", stderr(&twice));

    // A new cluster, with none of it.
    let new = Place::new();
    let restored = new.run(&["restore-jobs", saved, "--json"]);
    assert_eq!(restored.status.code(), Some(1));
    let rows: Value = serde_json::from_slice(&restored.stdout).unwrap();
    let outcome = |i: usize| rows[i]["outcome"].as_str().unwrap().to_owned();
    assert_eq!([outcome(0), outcome(2), outcome(3)], ["submitted", "submitted", "submitted"]);
    assert!(outcome(1).contains("was already gone when the job was saved"), "{rows}");
    for id in ["plain", "dir", "waits"] {
        let (before, after) = (old.job(id), new.job(id));
        for part in ["entrypoint", "metadata", "runtime_env"] {
            assert_eq!(before[part], after[part], "{part} of {id}");
        }
    }
    let again: Value = serde_json::from_slice(&new.run(&["restore-jobs", saved, "--json"]).stdout).unwrap();
    assert_eq!(again[0]["outcome"], "already exists");
    // What the entrypoint needs has come along: saving the new cluster saves the same.
    let copy = new.home.path().join("copy");
    new.ok(&["backup-jobs", copy.to_str().unwrap()]);
    let list = |dir: &Path| -> Value {
        serde_json::from_str(&fs::read_to_string(dir.join("jobs.json")).unwrap()).unwrap()
    };
    let needs = |list: &Value| {
        let jobs = list["jobs"].as_array().unwrap();
        jobs.iter().find(|j| j["submission"]["submission_id"] == "waits").unwrap().clone()
    };
    assert_eq!(needs(&list(&dir)), needs(&list(&copy)));
    assert_eq!(needs(&list(&dir))["submission"]["entrypoint_resources"], json!({"TPU": 4.0}));
    let log = new.ok(&["audit"]);
    assert!(log.contains("restore-jobs") && !log.contains("hunter2"), "{log}");
}

/// A package beyond what a dashboard takes: `ray.init` uploads such ones past it. The commands hold it never whole.
#[test]
fn a_package_of_500_megabytes_passes_through_little_memory() {
    const SIZE: u64 = (500 << 20) - 100;
    let (old, new) = (Place::new(), Place::new());
    let uri = "gcs://_ray_pkg_1a46e.zip";
    let client = |place: &Place| {
        let endpoint = Endpoint::Direct {
            dashboard: format!("http://{}", place.head.dashboard),
            gcs: Some(place.head.gcs.to_string()),
        };
        Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap()
    };
    let large = old.home.path().join("large");
    let mut file = fs::File::create(&large).unwrap();
    file.set_len(SIZE).unwrap();
    // Not all of it is nothing.
    for at in [0, 1 << 20, 300_000_001, SIZE - 5] {
        file.seek(std::io::SeekFrom::Start(at)).unwrap();
        file.write_all(b"bytes").unwrap();
    }
    let upload = client(&old);
    old.runtime.block_on(upload.upload_package_file(uri, fs::File::open(&large).unwrap())).unwrap();
    let env = json!({"working_dir": uri}).to_string();
    old.ok(&["submit-job", "--no-wait", "--submission-id", "large", "--runtime-env", &env, "--", "true"]);
    let saved = old.home.path().join("saved");
    for (place, command) in [(&old, "backup-jobs"), (&new, "restore-jobs")] {
        let kilobytes = peak(place, &[command, saved.to_str().unwrap()]);
        assert!(kilobytes < 100_000, "{command} held {kilobytes} kB");
    }
    let files = |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(files(&saved.join("packages")), ["0"]);
    let mut find = Command::new("find");
    let left = find.arg(new.home.path()).args(["-size", "+1M"]).output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&left), "", "nothing of it lies about");
    let back = new.home.path().join("back");
    let mut to = fs::File::create(&back).unwrap();
    new.runtime.block_on(client(&new).package(uri, &mut to)).unwrap().unwrap();
    let same = Command::new("cmp").arg(&large).arg(saved.join("packages/0")).status().unwrap();
    assert!(same.success() && Command::new("cmp").arg(&large).arg(back).status().unwrap().success());
}

/// Runs a command that must succeed; the most memory that it had, in kB.
fn peak(place: &Place, args: &[&str]) -> u64 {
    let mut child = place.command(args).stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        // A mark that only rises: the last look tells it.
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mark =
            text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak = mark.unwrap_or(peak).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success() && peak > 0, "{args:?}");
            return peak;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_full_disk_leaves_no_backup_that_looks_like_one() {
    let place = Place::new();
    fs::create_dir(place.home.path().join("work")).unwrap();
    fs::write(place.home.path().join("work/data"), vec![1; 200_000]).unwrap();
    place.ok(&["submit-job", "--no-wait", "--working-dir", "work", "--", "true"]);
    // A write beyond the limit fails as one to a full disk does.
    let command = place.command(&["backup-jobs", "saved"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$@\"", "sh"]).arg(command.get_program());
    limited.args(command.get_args()).env_clear().current_dir(place.home.path()).stdin(Stdio::null());
    limited.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let out = limited.output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(
        stderr(&out).contains("cannot write") && stderr(&out).contains("free disk space"),
        "{}",
        stderr(&out)
    );
    assert_eq!(place.run(&["restore-jobs", "saved"]).status.code(), Some(1));
    assert_eq!(
        fs::read_dir(place.home.path().join("saved/packages")).unwrap().count(),
        0,
        "nothing half-written"
    );
    place.ok(&["backup-jobs", "saved"]);
}

#[test]
fn a_backup_touches_nothing_of_others() {
    let place = Place::new();
    place.submit("one");
    place.file("notes/mine.txt", "mine");
    let out = place.run(&["backup-jobs", "notes"]);
    assert!(stderr(&out).contains("not empty"), "{}", stderr(&out));
    assert_eq!(fs::read_dir(place.home.path().join("notes")).unwrap().count(), 1);
    let none = place.run(&["restore-jobs", "notes"]);
    assert!(stderr(&none).contains("jobs.json"), "{}", stderr(&none));
    // An interrupted backup is taken up again.
    place.file("half/marin-tui-backup", "");
    place.file("half/packages/0", "torn");
    place.ok(&["backup-jobs", "half"]);
    assert!(place.home.path().join("half/jobs.json").exists());
    // A list that leads out of its folder is not followed.
    let list = json!({"version": 1, "cluster": "x", "jobs": [], "packages": {"gcs://a.zip": "packages/../../notes/mine.txt"}});
    place.file("evil/jobs.json", &list.to_string());
    assert_eq!(place.run(&["restore-jobs", "evil"]).status.code(), Some(1));
    // Nor a link, and what a record names here stays here.
    let job = json!({"submission": {
        "entrypoint": "true", "submission_id": "evil",
        "runtime_env": {"working_dir": "gcs://a.zip", "py_modules": ["~/notes"], "pip": "notes/mine.txt"}
    }, "missing": []});
    let list =
        json!({"version": 1, "cluster": "x", "jobs": [job], "packages": {"gcs://a.zip": "packages/0"}});
    place.file("evil/jobs.json", &list.to_string());
    fs::create_dir(place.home.path().join("evil/packages")).unwrap();
    let package = place.home.path().join("evil/packages/0");
    std::os::unix::fs::symlink("../../notes/mine.txt", &package).unwrap();
    let out = place.run(&["restore-jobs", "evil"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.code() == Some(1) && said.contains("not a file in the backup folder"), "{said}");
    assert_eq!(place.get("/api/packages/gcs/a.zip").0, 404, "nothing is uploaded");
    fs::remove_file(&package).unwrap();
    fs::write(&package, "zip").unwrap();
    place.ok(&["restore-jobs", "evil"]);
    assert_eq!(place.job("evil")["runtime_env"], job["submission"]["runtime_env"], "verbatim");
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
