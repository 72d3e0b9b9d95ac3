//! Clusters of a served demo, restarted, stopped and started by the program's own commands: heads are deleted and
//! created at the demo's Google, jobs are restored, and the user's own ray command is not run.

use crate::program::{kill, program};
use crate::until::until;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A fleet in a separate process, and how commands attach to it.
struct Served {
    dir: TempDir,
    fleet: Child,
    settings: String,
    infra: String,
    env: BTreeMap<String, String>,
}

impl Served {
    fn new(plan: &str, arguments: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        for part in ["t", "home", "bin"] {
            fs::create_dir(dir.path().join(part)).unwrap();
        }
        let (scenario, ran) = (dir.path().join("plan.yaml"), dir.path().join("ran"));
        fs::write(&scenario, plan).unwrap();
        // The cluster files are valid: the user's own ray would terminate the clusters that they name.
        let ray = dir.path().join("bin/ray");
        fs::write(&ray, format!("#!/bin/sh\necho \"$@\" >>{}\n", ran.display())).unwrap();
        fs::set_permissions(&ray, fs::Permissions::from_mode(0o755)).unwrap();
        let mut fleet = Command::new(env!("CARGO_BIN_EXE_marin-tui"));
        fleet.args(["demo", "--serve", "--scenario"]).arg(&scenario).args(arguments);
        fleet.env("TMPDIR", dir.path().join("t")).env("HOME", dir.path().join("home"));
        let mut fleet = fleet.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(fleet.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        let env = line["env"].as_object().unwrap().iter().map(|(k, v)| (k.clone(), text(v))).collect();
        Self { settings: text(&line["settings"]), infra: text(&line["infra"]), dir, fleet, env }
    }

    fn command(&self, cluster: &str, words: &str) -> Command {
        let mut command = program(&self.dir.path().join("home"));
        command.args(["--config", &self.settings, "--infra", &self.infra, "--cluster", cluster]);
        command.args(words.split(' ')).envs(&self.env);
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.dir.path().join("none"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.dir.path().join("bin").display()));
        command
    }

    fn run(&self, cluster: &str, words: &str) -> Output {
        self.command(cluster, words).output().unwrap()
    }

    /// Runs a command, and interrupts it when its stderr contains `at`.
    fn interrupt(&self, cluster: &str, words: &str, at: &str) {
        let mut child = self.command(cluster, words).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut stderr = stderr.inspect(|line| assert!(!line.contains("failed"), "{line}"));
        assert!(stderr.any(|line| line.contains(at)), "{words} never printed: {at}");
        kill("-INT", child.id());
        let last = stderr.last().unwrap_or_default();
        assert!(!child.wait().unwrap().success() && last.contains("--resume"), "{last}");
    }

    /// Stdout and stderr of a command that must succeed.
    fn succeeds(&self, cluster: &str, words: &str) -> (String, String) {
        let out = self.run(cluster, words);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
        assert!(out.status.success(), "{words}: {stdout}{stderr}");
        (stdout, stderr)
    }

    /// Stderr of a command that must fail.
    fn fails(&self, cluster: &str, words: &str) -> String {
        let out = self.run(cluster, words);
        assert_eq!(out.status.code(), Some(1), "{words}: {out:?}");
        String::from_utf8(out.stderr).unwrap()
    }

    fn json(&self, cluster: &str, words: &str) -> Value {
        serde_json::from_str(&self.succeeds(cluster, words).0).unwrap()
    }

    /// Submissions that have not ended, each with its status.
    fn open(&self, cluster: &str) -> BTreeMap<String, String> {
        let all = self.json(cluster, "list-jobs --json");
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let rows = all.as_array().unwrap().iter();
        let open = rows.filter_map(|j| Some((text(&j["submission_id"])?, text(&j["status"])?)));
        open.filter(|(_, status)| ["PENDING", "RUNNING"].contains(&status.to_uppercase().as_str())).collect()
    }

    /// Status and name of each of the cluster's TPUs.
    fn tpus(&self, cluster: &str) -> BTreeSet<(String, String)> {
        let all = self.json(cluster, "tpus --json");
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        all["rows"].as_array().unwrap().iter().map(|r| (text(&r["status"]), text(&r["name"]))).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.fleet.stdin.take());
        let _ = self.fleet.wait();
        let ran = fs::read_to_string(self.dir.path().join("ran"));
        assert!(ran.is_err() || std::thread::panicking(), "a ray command was run: {ran:?}");
    }
}

const NO_HEAD: &str = "no machine in hai-gcp-models is labeled as the head of marin-us-central2";

/// The first exercise of a new user: the cluster whose autoscaler is stuck.
#[test]
fn a_restart_restores_the_jobs_and_a_working_autoscaler() {
    let served = Served::new(
        "clusters:\n- {name: marin-us-central2, dead: 0, autoscaler: v1, slices: {tpu_worker: 5}, ownerless: 1,\n   \
         activity: {stuck: true, jobs_per_hour: 20, job_minutes: 600, failing: 0, launch_seconds: 2, past_minutes: 60}}\n",
        &[],
    );
    let (before, lost) = (served.open("us-central2"), served.tpus("us-central2"));
    assert!(!before.is_empty() && !lost.is_empty());
    assert!(lost.iter().all(|(status, _)| status == "preempted, holds quota"), "{lost:?}");
    let (_, planned) = served.succeeds("us-central2", "restart-cluster --dry-run");
    assert!(before.keys().all(|id| planned.contains(id.as_str())), "{planned}");
    // Their owners are unknown: a plain `ray job submit`, and a driver that was started manually.
    let refused = served.fails("us-central2", "restart-cluster --yes");
    let unowned = |id: &str| refused.lines().any(|l| l.starts_with(id) && l.contains("owner unknown"));
    let plain = before.keys().find(|id| id.starts_with("raysubmit_")).unwrap();
    assert!(unowned(plain) && unowned("07000000"), "{refused}");
    assert!(refused.contains(&format!("unknown owner ({plain}, 07000000)")), "{refused}");
    let (stdout, stderr) = served.succeeds("us-central2", "restart-cluster --yes --others");
    assert!(stdout.contains("restart marin-us-central2: done"), "{stdout}");
    for words in [
        "ray, version 2.60.0 (simulated)",
        "deleting the head ray-marin-us-central2-head-",
        "TPU VMs launched by the autoscaler",
        "No nodes remaining.",
        "Launched a new head node: ray-marin-us-central2-head-",
        "jobs restored",
    ] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(!stderr.contains("not restored"), "{stderr}");
    // None of them was stopped, and others may have been submitted since.
    let after = served.open("us-central2");
    assert!(before.keys().all(|id| after.contains_key(id)), "{before:?}: {after:?}");
    let status = |tpus: &BTreeSet<(String, String)>, is: &str| tpus.iter().filter(|t| t.0 == is).count();
    let tpus = until("its slices are there again", || {
        Some(served.tpus("us-central2")).filter(|tpus| status(tpus, "registered") >= 4)
    });
    assert!(tpus.is_disjoint(&lost) && status(&tpus, "preempted, holds quota") == 0, "{tpus:?}");
    let runs = |open: &BTreeMap<String, String>| {
        before.keys().any(|id| open.get(id).is_some_and(|status| status.eq_ignore_ascii_case("running")))
    };
    until("one of them runs", || runs(&served.open("us-central2")));
}

#[test]
fn a_stopped_cluster_has_no_head_until_it_is_started_and_keeps_manually_added_workers() {
    let served = Served::new(
        "clusters:\n- {name: marin-us-central2, dead: 0, jobs: 3, slices: {tpu_worker: 2},\n   \
         activity: {jobs_per_hour: 0, preemptions_per_hour: 0, launch_seconds: 2, past_minutes: 10}}\n",
        &[],
    );
    served.succeeds("us-central2", "add-worker --type v4-16 --capacity preemptible --name extra --yes");
    let (_, stderr) = served.succeeds("us-central2", "stop-cluster --yes --others");
    assert!(stderr.contains("the head no longer responds"), "{stderr}");
    let said = served.fails("us-central2", "list-jobs");
    assert!(said.contains(NO_HEAD) && said.contains("start-cluster"), "{said}");
    let said = served.fails("us-central2", "restart-cluster --yes --others");
    assert!(said.contains(NO_HEAD) && said.contains("--abandon"), "{said}");
    served.succeeds("us-central2", "restart-cluster --abandon");
    // An interrupted start is completed.
    served.interrupt("us-central2", "start-cluster --yes", "Launched a new head node");
    assert!(served.fails("us-central2", "list-jobs").contains("refused"));
    let (_, stderr) = served.succeeds("us-central2", "start-cluster --resume");
    assert!(stderr.contains("up-to-date") && !stderr.contains("Launched"), "{stderr}");
    assert!(served.open("us-central2").is_empty(), "stopping saves no job");
    let added = ("registered".to_owned(), "extra".to_owned());
    until("all of it is there", || {
        let tpus = served.tpus("us-central2");
        tpus.contains(&added) && tpus.iter().filter(|(status, _)| status == "registered").count() > 4
    });
    // With a worker that rejoins on its own, and a Ray that is already running.
    let (_, stderr) = served.succeeds("us-central2", "restart-cluster --yes --others");
    assert!(stderr.contains("2 workers added manually"), "{stderr}");
    assert!(stderr.contains("2 manually added workers have rejoined"), "{stderr}");
    let (_, stderr) = served.succeeds("us-central2", "start-cluster --yes");
    assert!(stderr.contains("already running") && !stderr.contains("Checking GCP"), "{stderr}");
}

#[test]
fn faults_are_reported_and_a_new_head_replaces_an_unreachable_one() {
    let served = Served::new(
        "clusters:\n- {name: marin-us-central2, nodes: 3, fault: unreachable}\n\
         - {name: marin-us-central2-staging, nodes: 2, fault: rotated-token}\n- {name: lab, nodes: 2}\n",
        &[],
    );
    // The affected jobs cannot be determined or saved, and nothing that would lose them begins.
    let said = served.fails("us-central2", "restart-cluster --yes");
    assert!(said.contains("cannot determine affected jobs") && said.contains("--others"), "{said}");
    assert!(!said.contains("[1/9]"), "{said}");
    let said = served.fails("us-central2", "restart-cluster --yes --others");
    assert!(said.contains("[2/9] failed") && said.contains("--preserve-jobs=0"), "{said}");
    served.succeeds("us-central2", "restart-cluster --abandon");
    let said = served.fails("us-central2", "start-cluster --yes");
    // It is running, and its jobs would end.
    assert!(said.contains("cannot reach") && !said.contains("Checking GCP"), "{said}");
    served.succeeds("us-central2", "start-cluster --abandon");
    served.succeeds("us-central2", "restart-cluster --yes --others --preserve-jobs=0");
    assert!(served.open("us-central2").is_empty());
    // A Ray that refuses our token is running: `ray up` would end its jobs.
    let said = served.fails("us-central2-staging", "start-cluster --yes");
    assert!(said.contains("refuses this token") && !said.contains("Checking GCP"), "{said}");
    served.succeeds("us-central2-staging", "start-cluster --abandon");
    // A cluster that is not in Google Cloud could not be started again.
    let said = served.fails("lab", "restart-cluster --yes --others");
    assert!(said.contains("no ray command was run"), "{said}");
    assert!(!served.open("lab").is_empty(), "nothing was stopped");
}

#[test]
fn a_restart_completes_with_a_fixed_time() {
    let served = Served::new(
        "clusters:\n- {name: marin-us-central2, nodes: 6, jobs: 12}\n",
        &["--fixed-time=2026-01-31T12:00:00Z"],
    );
    let before = served.open("us-central2");
    let (_, stderr) = served.succeeds("us-central2", "restart-cluster --yes --others");
    assert!(stderr.contains("jobs restored"), "{stderr}");
    assert_eq!(
        served.open("us-central2").into_keys().collect::<Vec<_>>(),
        before.into_keys().collect::<Vec<_>>()
    );
}
