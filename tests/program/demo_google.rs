//! The Google of a simulated fleet, from commands and from the console: TPUs that the autoscaler has lost, pending
//! requests, workers that are added and removed. The user's own Google login is not used.

use crate::program::{Ran, program};
use crate::pty::Pty;
use marin_tui::demo::{Fleet, Plan};
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// One cluster whose autoscaler is stuck and has lost its TPUs, one with simulated activity, a static one, and one with
/// a rotated token.
const PLAN: &str = "
clusters:
  - name: marin-us-central2
    dead: 0
    activity: {stuck: true, jobs_per_hour: 20, past_minutes: 60}
    slices: {tpu_worker: 6, tpu_slice_v4_32: 3}
    queued_resources: [v4-256]
  - name: marin-us-central1
    dead: 0
    activity: {jobs_per_hour: 0, preemptions_per_hour: 0, past_minutes: 10}
  - {name: marin-us-west4, nodes: 6, dead: 2}
  - {name: marin-us-central2-staging, nodes: 2, fault: rotated-token}
";

/// A fleet, and a home without a Google login.
struct Fixture {
    fleet: Fleet,
    home: TempDir,
    _runtime: Runtime,
}

impl Fixture {
    fn new() -> Self {
        Self::of(PLAN)
    }

    fn of(plan: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let plan = Plan::parse(plan, Path::new("test")).unwrap();
        let fleet = runtime.block_on(Fleet::start(plan)).unwrap();
        Self { fleet, home: tempfile::tempdir().unwrap(), _runtime: runtime }
    }

    /// The program with its first arguments, and its environment.
    fn start(&self) -> (Vec<String>, Vec<(&'static str, String)>) {
        let folder = self.fleet.folder();
        let path = |p: &Path| p.display().to_string();
        let program = env!("CARGO_BIN_EXE_marin-tui").to_owned();
        let argv = vec![
            program,
            "--config".into(),
            path(&folder.settings()),
            "--infra".into(),
            path(&folder.infra()),
        ];
        let mut env = folder.env();
        env.push(("HOME", path(self.home.path())));
        // Reading the user's own login would fail.
        env.push(("GOOGLE_APPLICATION_CREDENTIALS", path(&self.home.path().join("none"))));
        env.push(("NO_PROXY", "127.0.0.1".into()));
        (argv, env)
    }

    /// Runs a command without the name of a cluster.
    fn run_on_all(&self, words: &str) -> Ran {
        let (argv, env) = self.start();
        let mut command = program(self.home.path());
        Ran::of(&command.args(&argv[1..]).envs(env).args(words.split(' ')).output().unwrap())
    }

    fn run(&self, cluster: &str, words: &str) -> Output {
        let (argv, env) = self.start();
        let mut command = program(self.home.path());
        command.args(&argv[1..]).envs(env).args(["--cluster", cluster]).args(words.split(' '));
        command.output().unwrap()
    }

    /// Stdout of a command that must succeed.
    fn stdout(&self, cluster: &str, words: &str) -> String {
        let out = self.run(cluster, words);
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{words}: {said}{}", String::from_utf8_lossy(&out.stderr));
        said
    }

    /// Status and name of each of the cluster's TPUs.
    fn tpus(&self, cluster: &str) -> Vec<(String, String)> {
        let all: Value = serde_json::from_str(&self.stdout(cluster, "tpus --json")).unwrap();
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        let row = |row: &Value| (text(&row["status"]), text(&row["name"]));
        all["rows"].as_array().unwrap().iter().map(row).collect()
    }

    fn count(&self, cluster: &str, status: &str) -> usize {
        self.tpus(cluster).iter().filter(|(is, _)| is == status).count()
    }

    fn nodes(&self, cluster: &str) -> usize {
        self.fleet.member(cluster).unwrap().head.nodes().len()
    }
}

/// The cluster files are valid: the user's own ray command would terminate the clusters that they name.
#[test]
fn no_ray_command_is_run_on_a_cluster_of_a_demo() {
    let fixture = Fixture::new();
    let (bin, ran) = (fixture.home.path().join("bin"), fixture.home.path().join("ran"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("ray"), format!("#!/bin/sh\necho \"$@\" >>{}\n", ran.display())).unwrap();
    std::fs::set_permissions(bin.join("ray"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    for command in ["restart-cluster --yes --others", "stop-cluster --yes --others"] {
        let (argv, env) = fixture.start();
        let words = [&argv[1..], &["--cluster".into(), "us-west4".into()]].concat();
        let mut program = program(fixture.home.path());
        program.args(words).envs(env).env("PATH", &path).args(command.split(' '));
        let out = program.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains("no ray command was run"), "{command}: {said}");
        let name = command.split(' ').next().unwrap();
        fixture.stdout("us-west4", &format!("{name} --abandon"));
    }
    assert!(!ran.exists(), "{:?}", std::fs::read_to_string(ran));
}

#[test]
fn status_has_the_findings_of_the_console_with_commands() {
    let fixture = Fixture::new();
    let read = |words: &[&str]| {
        let (argv, env) = fixture.start();
        let out = program(fixture.home.path()).args(&argv[1..]).envs(env).args(words).output().unwrap();
        (out.status.code().unwrap(), String::from_utf8(out.stdout).unwrap())
    };
    let (code, all) = read(&["status", "--json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!((code, all.as_array().unwrap().len()), (0, 4));
    let of = |name: &str| all.as_array().unwrap().iter().find(|c| c["cluster"] == name).unwrap().clone();
    let refused = of("marin-us-central2-staging");
    assert_eq!(
        (&refused["status"], &refused["issues"], &refused["nodes"]),
        (&"down".into(), &1.into(), &Value::Null)
    );
    assert!(refused["error"].as_str().unwrap().contains("refuses this token"), "{refused}");
    assert!(refused["findings"][0]["since_ms"].is_null(), "the problem may be much older than the command");
    let stuck = of("marin-us-central2");
    assert_eq!((&stuck["status"], &stuck["error"]), (&"up".into(), &Value::Null));
    let quota = stuck["findings"].as_array().unwrap().iter().find(|f| f["kind"] == "quota").unwrap().clone();
    assert!(quota["evidence"].as_str().unwrap().contains("nobody has deleted them"), "{quota}");
    let line = quota["fixes"][0]["command"].as_str().unwrap();
    assert!(line.ends_with(" -c marin-us-central2 clean-preempted"), "{line}");
    let fix = serde_json::json!({"text": "delete them", "action": "clean-preempted", "command": line});
    assert_eq!((&quota["severity"], &quota["fixes"][0]), (&"warning".into(), &fix));
    assert!(quota["hint"].as_str().unwrap().contains(line), "{quota}");
    let (_, table) = read(&["status"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("CLUSTER") && lines[0].ends_with("WORST ISSUE"), "{table}");
    assert!(lines.len() == 5 && lines[4].contains("marin-us-"), "{table}");
    // Clusters with issues come first, and `--check` reports them by the exit code.
    let issues = |line: &&str| line.split_whitespace().nth(5) != Some("0");
    assert!(issues(&lines[1]) && !issues(&lines[4]), "{table}");
    // The quota held by its preempted TPUs is a warning, which does not count as an issue.
    let stuck = lines.iter().find(|line| line.starts_with("marin-us-central2 ")).unwrap();
    assert_ne!(stuck.split_whitespace().nth(6), Some("0"), "{table}");
    assert_eq!((read(&["status", "--check"]).0, read(&["-c", "us-west4", "status", "--check"]).0), (1, 0));
    let (code, one) = read(&["-c", "us-central2-staging", "status"]);
    assert!(code == 0 && one.contains("issue: token refused"), "{one}");
    assert!(one.lines().any(|line| line.starts_with("  hint: ")), "{one}");
}

#[test]
fn tpus_lost_by_a_stuck_autoscaler_hold_quota_until_deleted() {
    let fixture = Fixture::new();
    let lost = fixture.count("us-central2", "preempted, holds quota");
    assert!(lost >= 4, "{lost}");
    let said = fixture.stdout("us-central2", "clean-preempted --yes");
    assert_eq!(said.matches("deleted").count(), lost, "{said}");
    // The pending request was not preempted, and stays.
    assert_eq!(fixture.tpus("us-central2"), [("waiting".into(), "ray-worker-manual-v4-256".into())]);
    fixture.stdout("us-central2", "remove-worker ray-worker-manual-v4-256 --now --yes");
    assert_eq!(fixture.tpus("us-central2"), []);
}

#[test]
fn the_console_shows_the_lost_tpus_and_deletes_them() {
    let fixture = Fixture::new();
    let (mut argv, env) = fixture.start();
    argv.extend(["--cluster".into(), "us-central2".into()]);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let mut pty = Pty::start(&argv, &env, 140, 45);
    pty.wait_text("● up");
    pty.send("T");
    let text = pty.wait("its TPUs", |t| t.contains("holds quota") && t.contains("waiting"));
    assert!(text.contains("ray-marin-us-central2-worker-"), "{text}");
    pty.send("x");
    pty.wait_text("Delete preempted TPUs on");
    pty.send("y");
    pty.wait("all gone", |t| !t.contains("holds quota") && t.contains("ray-worker-manual-v4-256"));
    pty.send("\x03");
    assert!(pty.wait_exit().success());
    assert_eq!(fixture.count("us-central2", "preempted, holds quota"), 0);
}

/// Adds a worker of that many hosts and removes it; asserts that Ray and Google both reflect it.
fn add_and_remove(cluster: &str, tpu: &str, capacity: &str, hosts: usize, how: &str) {
    let fixture = Fixture::new();
    let (before, rows) = (fixture.nodes(cluster), fixture.tpus(cluster).len());
    let adding = format!("add-worker --type {tpu} --capacity {capacity} --name extra --yes");
    let said: Value = serde_json::from_str(&fixture.stdout(cluster, &format!("{adding} --json"))).unwrap();
    assert_eq!(said[0]["hosts"].as_array().unwrap().len(), hosts, "{said}");
    assert_eq!(fixture.nodes(cluster), before + hosts);
    assert!(fixture.tpus(cluster).contains(&("registered".into(), "extra".into())));
    let again = fixture.run(cluster, &format!("{adding} --no-wait"));
    assert!(String::from_utf8_lossy(&again.stderr).contains("already requested from Google"), "{again:?}");
    fixture.stdout(cluster, &format!("remove-worker extra {how} --yes"));
    assert_eq!(fixture.nodes(cluster), before);
    assert_eq!(fixture.tpus(cluster).len(), rows);
}

#[test]
fn a_worker_joins_and_is_drained() {
    add_and_remove("marin-us-central1", "v5p-32", "preemptible", 4, "--drain");
}

#[test]
fn a_worker_joins_and_is_removed_at_once() {
    add_and_remove("marin-us-west4", "v5litepod-8", "best-effort", 2, "--now");
}

#[test]
fn a_tpu_of_the_autoscaler_can_be_deleted_too() {
    let fixture = Fixture::new();
    for cluster in ["marin-us-central1", "marin-us-west4"] {
        let (before, all) = (fixture.nodes(cluster), fixture.tpus(cluster));
        let (status, name) = &all[0];
        assert_eq!(status, "registered", "{all:?}");
        fixture.stdout(cluster, &format!("remove-worker {name} --now --others --yes"));
        assert!(!fixture.tpus(cluster).iter().any(|(_, other)| other == name), "{name}");
        // With simulated activity, the autoscaler requests another one at once.
        assert!(cluster == "marin-us-central1" || fixture.nodes(cluster) < before);
    }
}

#[test]
fn a_slice_of_compute_engine_is_listed_with_cloud_tpus_and_removed_as_a_whole() {
    let fixture = Fixture::of("clusters: [{name: marin-us-west4, nodes: 6, dead: 0, groups: [tpu7x-16]}]");
    let (cluster, name) = ("marin-us-west4", "marin-us-west4-tpu7x-16");
    let output: Value = serde_json::from_str(&fixture.stdout(cluster, "tpus --json")).unwrap();
    let rows = output["rows"].as_array().unwrap();
    let slice = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{output}"));
    let fields =
        ["resource", "status", "accelerator_type", "chips", "hosts", "in_ray", "capacity", "managed_by"];
    let values: Vec<&Value> = fields.iter().map(|field| &slice[field]).collect();
    let expected = ["instance group", "registered", "tpu7x-16", "8", "2", "2", "spot", "manual"];
    let values: Vec<String> =
        values.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
    assert_eq!(values, expected);
    assert!(rows.iter().any(|row| row["resource"] == "tpu vm" && row["status"] == "registered"), "{rows:?}");

    // The address of a host selects its slice.
    let host = slice["addresses"][1].as_str().unwrap();
    let (before, count) = (fixture.nodes(cluster), rows.len());
    let dry = fixture.stdout(cluster, &format!("remove-worker {host} --now --others --yes --dry-run"));
    assert!(dry.contains(&format!("/instanceGroupManagers/{name}")), "{dry}");
    assert_eq!(fixture.nodes(cluster), before);
    fixture.stdout(cluster, &format!("remove-worker {host} --now --others --yes"));
    assert_eq!((fixture.nodes(cluster), fixture.tpus(cluster).len()), (before - 2, count - 1));
    assert!(!fixture.tpus(cluster).iter().any(|(_, other)| other == name));
}

#[test]
fn a_slice_and_a_host_of_compute_engine_are_added_and_removed() {
    let fixture = Fixture::of("clusters: [{name: marin-us-west4, nodes: 6, dead: 0}]");
    let cluster = "marin-us-west4";
    let file = fixture.fleet.folder().infra().join("marin-us-west4.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let types = "available_node_types:\n  ironwood: {resources: {TPU: 4}, node_config: {acceleratorType: tpu7x-16}}\n  \
                 trillium: {resources: {TPU: 4}, node_config: {machineType: ct6e-standard-4t}}\n";
    std::fs::write(&file, text.replacen("available_node_types:\n", types, 1)).unwrap();
    for (kind, name, hosts) in [("ironwood", "a-slice", 2), ("trillium", "a-host", 1)] {
        let before = fixture.nodes(cluster);
        let output = fixture.stdout(cluster, &format!("add-worker --type {kind} --name {name} --yes --json"));
        let output: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(output[0]["hosts"].as_array().unwrap().len(), hosts, "{output}");
        assert_eq!(fixture.nodes(cluster), before + hosts);
        assert!(fixture.tpus(cluster).contains(&("registered".into(), name.into())));
        fixture.stdout(cluster, &format!("remove-worker {name} --now --others --yes"));
        assert!(!fixture.tpus(cluster).iter().any(|(_, other)| other == name));
    }
}

#[test]
fn a_rotated_token_is_fetched_once_the_old_one_is_removed() {
    let fixture = Fixture::new();
    let refused = fixture.run("marin-us-central2-staging", "list-jobs");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("refuses this token"), "{refused:?}");
    let stale =
        fixture.fleet.folder().path().join("cache/marin-tui/tokens/clusters/marin-us-central2-staging");
    std::fs::remove_file(stale).unwrap();
    fixture.stdout("marin-us-central2-staging", "list-jobs");
}

/// Two clusters, and one whose token was rotated.
const SEVERAL: &str = "
clusters:
  - {name: marin-us-west4, nodes: 2, dead: 0, jobs: 6}
  - {name: marin-eu-west4, nodes: 2, dead: 0, jobs: 4}
  - {name: marin-us-central2-staging, nodes: 2, fault: rotated-token}
";

#[test]
fn without_a_cluster_the_jobs_of_all_clusters_are_listed() {
    let fixture = Fixture::of(SEVERAL);
    let all = fixture.run_on_all("list-jobs --all --json").exits(0);
    let refused = "incomplete: marin-us-central2-staging: the cluster refuses this token";
    assert!(all.err.lines().any(|line| line.starts_with(refused)), "{}", all.err);
    let (err, rows) = (&all.err, all.json());
    let rows = rows.as_array().unwrap();
    let started: Vec<Option<i64>> = rows.iter().map(|row| row["started_ms"].as_i64()).collect();
    assert!(started.is_sorted_by(|a, b| a >= b), "newest first: {started:?} {err}");
    let mut count = 0;
    for cluster in ["marin-us-west4", "marin-eu-west4"] {
        let own: Value = serde_json::from_str(&fixture.stdout(cluster, "list-jobs --all --json")).unwrap();
        let own = own.as_array().unwrap();
        assert!(own.iter().all(|row| row.get("cluster").is_none()), "{own:?}");
        let ids = |rows: &mut dyn Iterator<Item = &Value>| -> Vec<String> {
            rows.map(|row| format!("{} {}", row["submission_id"], row["job_id"])).collect()
        };
        let listed = ids(&mut rows.iter().filter(|row| row["cluster"] == cluster));
        assert_eq!(listed, ids(&mut own.iter()), "{cluster}");
        count += own.len();
    }
    assert!(rows.len() == count && count > 2, "{rows:?}");
    for (words, title) in [("list-jobs --all", "COMMAND"), ("list-jobs --all --vitals", "ACTIVITY")] {
        let table = fixture.run_on_all(words).good();
        let mut lines = table.lines();
        let titles = lines.next().unwrap();
        assert!(titles.starts_with("CLUSTER ") && titles.contains(title), "{table}");
        let clusters = ["marin-us-west4 ", "marin-eu-west4 "];
        assert!(lines.all(|line| clusters.iter().any(|name| line.starts_with(name))), "{table}");
        assert_eq!(table.lines().count(), count + 1, "{table}");
        assert!(fixture.stdout("us-west4", words).starts_with("JOB "), "one cluster needs no column");
    }
}

#[test]
fn a_list_of_jobs_fails_if_no_cluster_can_be_read() {
    let fixture = Fixture::of(
        "clusters: [{name: marin-a, nodes: 1, fault: rotated-token}, {name: marin-b, nodes: 1, fault: rotated-token}]",
    );
    let err = fixture.run_on_all("list-jobs --json").exits(1).bad();
    assert!(err.contains("incomplete: marin-a: ") && err.contains("incomplete: marin-b: "), "{err}");
}
