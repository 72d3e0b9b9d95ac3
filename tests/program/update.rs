//! `marin-tui update-cluster` on a simulated cluster: differences, refusals, confirmations, and that jobs and workers
//! are compared. The ray command is a script that asks for confirmation as Ray does.

use crate::cloud_fixture::CloudFixture;
use crate::program::Ran;
use crate::transcript::Transcript;
use crate::until::until;
use marin_tui::demo::{Fault, FaultRule};
use marin_tui::model::AutoscalerVersion;
use serde_json::{Value, json};
use std::fs;

/// Asks for confirmation as `ray up --no-restart` does. With the file `replaces` its head machine differs. The test
/// writes the head's file, then `is-up`.
const RAY: &str = r#"cd "$(dirname "$0")"
echo "$@" >>calls
case "$*" in
  *--version*) echo 'ray, version 2.60.0'; exit ;;
  *--no-restart*) ;;
  *) exit 9 ;;
esac
[ ! -e invalid ] || { echo 'Cluster config invalid'; exit 1; }
[ ! -e knows-no-head ] || { [ -t 0 ] && touch launched; echo 'This command requires user confirmation.'; exit 1; }
echo 'Cluster Ray runtime will not be restarted due to `--no-restart`.'
[ -t 0 ] || { echo 'This command requires user confirmation.'; exit 1; }
read -r answer
echo "answered $answer" >>calls
[ "$answer" = y ] || exit 1
if [ -e replaces ]; then
  echo 'Currently running head node is out-of-date with cluster configuration'
  read -r answer
  echo "answered $answer" >>calls
  [ "$answer" = y ] && touch launched
  echo Exiting...
  exit 1
fi
[ ! -e fails ] || { echo 'Setup command failed.'; exit 1; }
while [ ! -e is-up ]; do sleep 0.05; done
echo 'New status: up-to-date'
"#;

struct Fixture(CloudFixture);

impl Fixture {
    /// A cluster that matches its cluster file.
    fn new() -> Self {
        Self::with(AutoscalerVersion::V2)
    }

    /// Like [`Self::new`], with this autoscaler.
    fn with(autoscaler: AutoscalerVersion) -> Self {
        let mut cloud = CloudFixture::new();
        cloud.head_of(|s| {
            s.jobs = 4;
            s.autoscaler = autoscaler;
        });
        cloud.program("ray", RAY);
        let fixture = Self(cloud);
        fixture.edit(
            "head_node_type: head",
            "head_node_type: head\nmax_workers: 4\nsetup_commands: [pip install a]",
        );
        fixture.runs();
        fixture
    }

    fn file(&self) -> String {
        fs::read_to_string(self.0.home.path().join("infra/a.yaml")).unwrap()
    }

    /// Changes the cluster file.
    fn edit(&self, from: &str, to: &str) {
        let text = self.file();
        assert!(text.contains(from), "{text}");
        self.0.file("infra/a.yaml", &text.replace(from, to));
    }

    /// Writes the current file to the head, in the form that Ray prepares.
    fn runs(&self) {
        let mut config: Value = serde_yaml::from_str(&self.file()).unwrap();
        config["head_setup_commands"] = config["setup_commands"].clone();
        let commands = ["setup_commands", "worker_setup_commands"].map(|key| config[key].as_array().cloned());
        config["worker_setup_commands"] = commands.into_iter().flatten().flatten().collect();
        config["idle_timeout_minutes"] = json!(5);
        config["upscaling_speed"] = json!(1.0);
        config["provider"]["_config_cache_path"] = json!("/tmp/ray-config-1");
        config["head_start_ray_commands"] = json!(["ray stop", "ray start --head"]);
        config["no_restart"] = json!(false);
        for (_, kind) in config["available_node_types"].as_object_mut().unwrap() {
            kind["node_config"]["networkInterfaces"] = json!([{"subnetwork": "default"}]);
        }
        config["available_node_types"]["tpu_worker"]["resources"]["TPU-v4-8-head"] = json!(1);
        self.0.heads.last().unwrap().0.write_bootstrap(config.to_string().as_bytes());
    }

    fn run(&self, words: &str) -> Ran {
        Ran::of(&self.0.command(words).output().unwrap())
    }

    /// An empty transcript.
    fn transcript(&self) -> Transcript {
        // The error is in the words of this machine's `cat`.
        Transcript::new(self.0.home.path()).varying(r"cat: .*?: (No such file)", "cat: $1")
    }

    /// Runs a command and adds its output to the transcript.
    fn shows(&self, shown: &mut Transcript, words: &str, code: i32) -> Ran {
        let ran = self.run(words).exits(code);
        shown.add(words, &ran);
        ran
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.0.home.path().join("calls")).unwrap_or_default()
    }

    fn launched(&self) -> bool {
        self.0.home.path().join("launched").exists()
    }

    /// Applies the file, as the ray command would after the confirmation.
    fn applies(&self, words: &str) -> (Option<i32>, String, String) {
        let running = self.0.spawn(words);
        until("ray was answered", || self.calls().contains("answered y"));
        self.runs();
        self.0.file("is-up", "");
        running.finish()
    }
}

#[test]
fn a_cluster_that_matches_its_file_needs_no_update() {
    let fixture = Fixture::new();
    let mut shown = fixture.transcript();
    for words in ["update-cluster", "update-cluster --dry-run"] {
        assert_eq!(fixture.shows(&mut shown, words, 0).out, "");
    }
    shown.is("a_cluster_that_runs_as_its_file_says");
    assert_eq!(fixture.run("update-cluster --json").exits(0).json(), json!([]));
    assert_eq!(fixture.calls(), "");
}

#[test]
fn a_raised_limit_is_applied_and_the_jobs_stay() {
    let fixture = Fixture::new();
    fixture.edit("max_workers: 4", "max_workers: 6");
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "update-cluster --dry-run", 0);
    fixture.shows(&mut shown, "update-cluster", 1);
    shown.is("a_limit_that_is_raised");
    assert_eq!(fixture.calls(), "--version\n", "a dry run only checks the ray command");
    assert_eq!(fixture.run("--read-only update-cluster --yes --json").refused().0, "read-only");

    let jobs = fixture.run("list-jobs --json").good();
    let (code, out, err) = fixture.applies("update-cluster --yes --json");
    assert_eq!(code, Some(0), "{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&said[0]["cluster"], &said[0]["updated"]), (&json!("marin-a"), &json!(true)));
    let changes = said[0]["changes"].as_array().unwrap();
    let limit = json!({"key": "max_workers", "running": 4, "file": 6, "effect": "now", "node_type": null});
    assert!(changes.contains(&limit), "{changes:?}");
    assert!(changes.iter().all(|change| change["effect"] == "now"), "{changes:?}");
    assert!(err.contains("[4/4] Ray was not restarted; ") && err.contains(" jobs as before; "), "{err}");
    assert_eq!(fixture.run("list-jobs --json").good(), jobs);
    let log = fixture.run("audit").good();
    assert!(log.lines().last().unwrap().ends_with("done") && log.contains("update marin-a"), "{log}");
    assert_eq!(fixture.run("update-cluster --json").exits(0).json(), json!([]));
}

#[test]
fn changes_that_need_a_restart_are_refused_or_restart_the_cluster() {
    let fixture = Fixture::new();
    fixture.edit("[pip install a]", "[pip install a, pip install b]");
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "update-cluster --yes", 1);
    let ran = fixture.run("update-cluster --yes --json").exits(1);
    assert_eq!(ran.json(), json!([{"cluster": "marin-a", "refused": "needs-restart"}]));
    assert_eq!(fixture.calls(), "");
    let ran = fixture.run("update-cluster --restart-ray --dry-run").exits(0);
    assert!(ran.err.contains("restart marin-a: ") && ran.err.contains("RESTORED"), "{}", ran.err);
    let ran = fixture.run("update-cluster --restart-ray --yes --json");
    assert_eq!(ran.refused().0, "others-jobs", "the jobs of others are theirs");
    fixture.edit("availability_zone: us-central2-b", "availability_zone: us-central2-c");
    fixture.0.double.state().instances[0]["zone"] = json!("https://x/zones/us-central2-c");
    fixture.shows(&mut shown, "update-cluster --yes --restart-ray", 1);
    shown.is("updates_that_need_a_restart");
}

/// Every update records nodes and jobs before it changes anything. What runs on each worker matters only to changes
/// that end workers.
#[test]
fn an_update_is_refused_if_the_state_that_it_needs_cannot_be_read() {
    let fixture = Fixture::new();
    let fails = |faults: Vec<(&str, Fault)>| {
        let rule = |(path, fault): (&str, Fault)| FaultRule { path: path.to_owned(), fault };
        fixture.0.heads[0].0.set_faults(faults.into_iter().map(rule).collect());
    };
    // The list of jobs, of the GCS and of the dashboard.
    fails(vec![("/ray.rpc.JobInfoGcsService/", Fault::HangUp), ("/api/jobs/", Fault::Status(500))]);
    fixture.edit("max_workers: 4", "max_workers: 6");
    for _ in 0..2 {
        let (reason, said) = fixture.run("update-cluster --yes --json").refused();
        assert_eq!(reason, "not-checked", "nothing is begun that would have to be resumed: {said}");
    }
    assert_eq!(fixture.calls(), "");
    // What runs on each worker.
    fails(vec![("/api/v0/", Fault::Status(500))]);
    let (code, _, err) = fixture.applies("update-cluster --yes");
    assert_eq!(code, Some(0), "{err}");
    fixture.edit("max_workers: 6", "max_workers: 1");
    assert_eq!(fixture.run("update-cluster --yes --json").refused().0, "not-checked");
    fixture.edit("[pip install a]", "[pip install a, pip install b]");
    assert_eq!(fixture.run("update-cluster --yes --json").refused().0, "needs-restart");
    let ran = fixture.run("update-cluster --restart-ray --dry-run").exits(0);
    assert!(ran.err.contains("restart marin-a: "), "{}", ran.err);
}

/// Ray asks before it replaces a head machine, regardless of what this program has read.
#[test]
fn a_head_is_neither_replaced_nor_started_twice() {
    let fixture = Fixture::new();
    fixture.edit("max_workers: 4", "max_workers: 6");
    fixture.0.file("replaces", "");
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "update-cluster --yes", 1);
    assert!(
        fixture.calls().ends_with("answered y\nanswered n\n") && !fixture.launched(),
        "{}",
        fixture.calls()
    );
    fixture.run("update-cluster --abandon").good();
    fs::remove_file(fixture.0.home.path().join("replaces")).unwrap();
    fixture.0.file("knows-no-head", "");
    fixture.shows(&mut shown, "update-cluster --yes", 1);
    shown.is("an_update_that_would_replace_the_head");
    assert!(!fixture.launched());
    // It is resumed once the cause is removed.
    fs::remove_file(fixture.0.home.path().join("knows-no-head")).unwrap();
    fs::write(fixture.0.home.path().join("calls"), "").unwrap();
    let (reason, said) = fixture.run("update-cluster --yes --json").refused();
    assert!(reason == "interrupted" && said.contains("(apply)"), "{reason}: {said}");
    let (code, _, err) = fixture.applies("update-cluster --resume");
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn a_setup_command_that_fails_is_named_and_can_be_resumed() {
    let fixture = Fixture::new();
    fixture.edit("max_workers: 4", "max_workers: 6");
    fixture.0.file("fails", "");
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "update-cluster --yes", 1);
    // Somebody else has applied it in the meantime.
    fixture.runs();
    fixture.shows(&mut shown, "update-cluster --resume", 0);
    shown.is("a_setup_command_that_fails");
}

#[test]
fn workers_that_the_autoscaler_would_end_are_named_and_protected() {
    let fixture = Fixture::new();
    let nodes: Vec<Value> = serde_json::from_str(&fixture.run("list-nodes --json").good()).unwrap();
    let worker = nodes.iter().find(|node| node["head"] == false).unwrap();
    let kind = worker["type"].as_str().unwrap();
    // The type of its workers is in the file, and is applied.
    fixture.edit(
        "  tpu_worker:",
        &format!("  {kind}: {{resources: {{}}, node_config: {{acceleratorType: a}}}}\n  tpu_worker:"),
    );
    fixture.runs();
    fixture.edit("acceleratorType: a", "acceleratorType: b");
    let ran = fixture.run("update-cluster --dry-run").exits(0);
    let key = format!("available_node_types.{kind}.node_config (terminates workers of type {kind})");
    assert!(ran.out.contains(&key), "{}", ran.out);
    assert!(
        ran.err.contains("the autoscaler terminates 2 workers: ")
            && ran.err.contains(worker["address"].as_str().unwrap()),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("RUNS ON WORKER") || ran.err.contains("JOB"), "what runs there: {}", ran.err);
    assert_eq!(fixture.run("update-cluster --yes --json").refused().0, "worker-busy");
    assert_eq!(fixture.run("update-cluster --yes --now --json").refused().0, "others-jobs");
    let (code, _, err) = fixture.applies("update-cluster --yes --now --others");
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn workers_above_a_lowered_limit_are_protected() {
    let fixture = Fixture::new();
    fixture.edit("max_workers: 4", "max_workers: 2");
    let ran = fixture.run("update-cluster --dry-run").exits(0);
    assert!(
        ran.err.contains("no affected jobs") && !ran.err.contains("the autoscaler terminates"),
        "{}",
        ran.err
    );
    fixture.edit("max_workers: 2", "max_workers: 1");
    let ran = fixture.run("update-cluster --dry-run").exits(0);
    assert!(ran.out.contains("max_workers (applies immediately)\n  4 -> 1"), "{}", ran.out);
    assert!(
        ran.err.contains("warning: the autoscaler terminates 1 of 2 workers, idle ones first")
            && ran.err.contains("RUNS ON WORKER"),
        "{}",
        ran.err
    );
    assert_eq!(fixture.run("update-cluster --yes --json").refused().0, "worker-busy");
    assert_eq!(fixture.run("update-cluster --yes --now --json").refused().0, "others-jobs");
    assert!(!fixture.calls().contains("--no-restart"), "{}", fixture.calls());
    let (code, _, err) = fixture.applies("update-cluster --yes --now --others");
    assert_eq!(code, Some(0), "{err}");
}

/// Autoscaler v1 runs changed worker commands on running workers, and ends those where they fail.
#[test]
fn worker_commands_run_on_running_workers_only_with_autoscaler_v1() {
    let commands = |autoscaler| {
        let fixture = Fixture::with(autoscaler);
        fixture.edit("max_workers: 4", "max_workers: 4\nworker_setup_commands: [pip install w]");
        fixture
    };
    let fixture = commands(AutoscalerVersion::V2);
    let ran = fixture.run("update-cluster --dry-run").exits(0);
    assert!(
        ran.out.contains("worker_setup_commands (applies to new workers after the next restart of Ray)"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("no affected jobs"), "{}", ran.err);
    let ran = fixture.run("update-cluster --restart-ray --dry-run").exits(0);
    assert!(ran.err.contains("restart marin-a: ") && ran.err.contains("RESTORED"), "{}", ran.err);
    // The effect is the same next to a change that needs a restart now.
    fixture.edit("[pip install a]", "[pip install a, pip install b]");
    let ran = fixture.run("update-cluster --yes").exits(1);
    let next = "worker_setup_commands (applies to new workers after the next restart of Ray)";
    assert!(
        ran.out.contains("setup_commands (requires a restart of Ray)") && ran.out.contains(next),
        "{}",
        ran.out
    );
    fixture.edit("[pip install a, pip install b]", "[pip install a]");
    let (code, _, err) = fixture.applies("update-cluster --yes");
    let later =
        "1 change takes effect only after the next restart of Ray: worker_setup_commands; restart it: `";
    assert!(code == Some(0) && err.contains(later) && err.contains("restart-cluster`"), "{err}");

    let fixture = commands(AutoscalerVersion::V1);
    let ran = fixture.run("update-cluster --dry-run").exits(0);
    let effect =
        "worker_setup_commands (updates running workers, which may terminate them)\n  + pip install w";
    assert!(ran.out.contains(effect), "{}", ran.out);
    assert!(
        ran.err.contains("warning: the autoscaler updates 2 running workers, may restart Ray there")
            && ran.err.contains("RUNS ON WORKER"),
        "{}",
        ran.err
    );
    assert_eq!(fixture.run("update-cluster --yes --json").refused().0, "worker-busy");
    assert_eq!(fixture.run("update-cluster --yes --now --json").refused().0, "others-jobs");
    let (code, out, err) = fixture.applies("update-cluster --yes --now --others --json");
    assert_eq!(code, Some(0), "{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(said[0]["changes"][0]["effect"], "updates-workers", "{said}");
}

#[test]
fn a_cluster_that_cannot_be_compared_is_not_updated() {
    let fixture = Fixture::new();
    fixture.edit("max_workers: 4", "max_workers: 6");
    let head = &fixture.0.heads[0].0;
    let mut shown = fixture.transcript();
    for config in [&b""[..], b"{\"a\": ", b"[]"] {
        head.write_bootstrap(config);
        fixture.shows(&mut shown, "update-cluster --yes", 1);
    }
    let gone = CloudFixture::new();
    let words = "update-cluster --yes";
    let ran = Ran::of(&gone.command(words).output().unwrap()).exits(1);
    Transcript::new(gone.home.path()).with(words, &ran).is("an_update_of_a_cluster_that_is_gone");
    assert_eq!(fixture.calls(), "");
    // A file that Ray refuses, and one that is not valid YAML.
    fixture.edit("max_workers: 6", "max_workers: 4");
    fixture.runs();
    fixture.edit("max_workers: 4", "max_workers: 6");
    fixture.0.file("invalid", "");
    fixture.shows(&mut shown, "update-cluster --yes", 1);
    assert!(!fixture.calls().contains("answered"), "{}", fixture.calls());
    fixture.0.file("infra/a.yaml", "cluster_name: [\n");
    fixture.shows(&mut shown, "update-cluster --yes", 1);
    shown.is("updates_that_cannot_be_compared");
}

#[test]
fn an_operation_of_another_operator_blocks_the_update() {
    let fixture = Fixture::new();
    fixture.edit("max_workers: 4", "max_workers: 6");
    let home = fixture.0.home.path().join("alice");
    fs::create_dir(&home).unwrap();
    let mut first = fixture.0.command("update-cluster --yes");
    let mut first = first.env("HOME", &home).env("USER", "alice").env("HOSTNAME", "desk").spawn().unwrap();
    until("ray was answered", || fixture.calls().contains("answered y"));
    let ran = fixture.run("update-cluster --yes").exits(1);
    assert!(
        ran.err.contains("operation by alice@desk") && ran.err.contains("update by alice, step 3 of 4"),
        "{}",
        ran.err
    );
    fixture.runs();
    fixture.0.file("is-up", "");
    assert!(first.wait().unwrap().success());
}
