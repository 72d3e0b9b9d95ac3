//! Vitals of running jobs on a real Ray, with short thresholds: of several concurrent runs, each unhealthy one is
//! reported with its warning, in the console's findings and by the command, and the healthy one is not. A slice that
//! loses a host is reported as well.

use crate::bed::{Bed, CLUSTER, INFRA, Ray};
use crate::until::until;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// A run with an actor that makes one step per second. After twenty steps, the loss of `nan` is no longer finite and
/// `stalls` makes no further step; `waits` requests a resource that no node has.
const RUN: &str = "import ray, sys, time, threading
@ray.remote(num_cpus=0, resources={'TPU-v5p-256-head': 1} if sys.argv[1] == 'waits' else {})
class Trainer:
    def train(self, kind):
        for step in range(100000):
            if kind == 'stalls' and step == 20:
                threading.Event().wait()
            loss = float('nan') if kind == 'nan' and step >= 20 else 9 / (1 + step / 60) ** 0.5 + step % 3 * 0.05
            now = time.strftime('%Y-%m-%d %H:%M:%S')
            print(f'{now} step {step}/100000 loss {loss:.4f}', flush=True)
            time.sleep(1)
ray.init()
ray.get(Trainer.remote().train.remote(sys.argv[1]))
";

/// The smallest values that can be set.
const SETTINGS: &str = "vitals: {refresh_seconds: 5, stalled_minutes: 1, pending_minutes: 1}\n";
const FILE: &str = "/home/ray/vitals.yaml";

/// The program with `--plain`, which prints the console's findings. Killed on drop.
struct Feed {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Feed {
    fn start(bed: Bed) -> Self {
        let words = ["--infra", INFRA, "--config", FILE, "-c", CLUSTER, "--plain"];
        let program = [&[env!("CARGO_BIN_EXE_marin-tui")][..], &words].concat();
        let mut command = bed.command("client", &program);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (lines, out) = (Arc::new(Mutex::new(Vec::new())), child.stdout.take().unwrap());
        let into = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                into.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Whether a finding of this kind names this job.
    fn has_found(&self, kind: &str, job: &str) -> bool {
        self.lines().iter().any(|line| line.contains(&format!(": {kind}: ")) && line.contains(job))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn json_of(bed: Bed, args: &[&str]) -> Value {
    let out = bed.program(&[&["--config", FILE, "-c", CLUSTER], args].concat()).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The vitals of a running or pending job.
fn vitals(bed: Bed, job: &str) -> Value {
    let jobs = json_of(bed, &["list-jobs", "--vitals", "--json"]);
    let found = jobs.as_array().unwrap().iter().find(|row| row["submission_id"] == job);
    let row = found.unwrap_or_else(|| panic!("no {job} in {jobs}"));
    let status = row["status"].as_str();
    assert!(matches!(status, Some("running" | "pending")), "{row}");
    row["vitals"].clone()
}

fn kinds(vitals: &Value) -> Vec<&str> {
    let all = vitals["warnings"].as_array().into_iter().flatten();
    all.map(|warning| warning["kind"].as_str().unwrap()).collect()
}

#[test]
fn unhealthy_runs_are_distinguished_from_a_healthy_one() {
    let bed = Bed::shared(Ray::Newest);
    bed.write(FILE, SETTINGS);
    let start = |kind: &str| {
        // All jobs share one working directory.
        let script = format!("cat >run-{kind}.py <<'END'\n{RUN}END\nexec python run-{kind}.py {kind}");
        bed.start(kind, &script)
    };
    let runs = ["well", "nan", "stalls", "waits"].map(start);
    let [well, nan, stalls, waits] = runs.each_ref().map(|run| run.id.as_str());
    bed.job_becomes(well, "RUNNING");
    let feed = Feed::start(bed);
    let unhealthy = [(nan, "loss not finite"), (stalls, "run stalled"), (waits, "job pending too long")];
    for (job, kind) in unhealthy {
        let mut last = Value::Null;
        let reported = until(&format!("the command reports {kind}"), || {
            let healthy = vitals(bed, well);
            assert!(healthy.is_object() && kinds(&healthy).is_empty(), "a false alarm: {healthy}");
            let reported = vitals(bed, job);
            if reported["description"] != last {
                eprintln!("{job}: {reported}");
                last = reported["description"].clone();
            }
            Some(reported).filter(|reported| kinds(reported) == [kind])
        });
        until(&format!("the console reports {kind}"), || feed.has_found(kind, job));
        match kind {
            "loss not finite" => {
                assert_eq!((&reported["loss"], &reported["activity"]), (&json!("nan"), &json!("training")));
            }
            "run stalled" => {
                assert_eq!((&reported["step"], &reported["activity"]), (&json!(19), &json!("silent")));
            }
            _ => assert!(
                reported["description"].as_str().unwrap().starts_with("waits for v5p-256, "),
                "{reported}"
            ),
        }
    }
    let reported = vitals(bed, well);
    assert_eq!(
        (&reported["activity"], &reported["steps"]),
        (&json!("training"), &json!(100_000)),
        "{reported}"
    );
    assert!(reported["step"].as_u64() > Some(20) && reported["loss"].as_f64().is_some(), "{reported}");
    let about =
        |line: &&String| line.contains(well) && (line.contains("issue:") || line.contains("warning:"));
    assert_eq!(feed.lines().iter().filter(about).count(), 0, "a false alarm: {:#?}", feed.lines());
}

/// Two hosts that are joined manually as one slice. Ray is stopped there on drop.
struct Joined(Bed);

impl Joined {
    /// The client is a host like the others.
    const HOSTS: [&str; 2] = ["client", "w3"];

    fn as_slice(bed: Bed) -> Self {
        let joined = Self(bed);
        for (number, host) in Self::HOSTS.iter().enumerate() {
            // The environment of a TPU host on Kubernetes.
            let pod = format!(
                "TPU_NAME=two-hosts TPU_WORKER_ID={number} TPU_ACCELERATOR_TYPE=v5litepod-8 TPU_TOPOLOGY=2x4"
            );
            bed.join(host, &pod, "--resources='{\"TPU\":4}'");
        }
        joined
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        for host in Self::HOSTS {
            let _ = self.0.command(host, &["ray", "stop", "--force"]).output();
        }
    }
}

#[test]
fn a_slice_that_loses_a_host_shows_how_many_are_left_and_why() {
    let bed = Bed::shared(Ray::Newest);
    bed.write(FILE, SETTINGS);
    let _joined = Joined::as_slice(bed);
    let row = || {
        let rows = json_of(bed, &["list-nodes", "--slices", "--json"]);
        rows.as_array().unwrap().iter().find(|row| row["slice"] == "two-hosts").cloned()
    };
    let whole = until("both hosts are one slice", || row().filter(|row| row["alive"] == 2));
    assert_eq!(
        (&whole["hosts"], &whole["expected"], &whole["topology"], &whole["type"], &whole["state"]),
        (&json!(2), &json!(2), &json!("2x4"), &json!("v5litepod-8"), &json!("alive")),
        "{whole}"
    );
    assert_eq!((whole["chips"].as_f64(), whole["chips_used"].as_f64()), (Some(8.0), Some(0.0)), "{whole}");
    bed.kill_raylet("w3");
    let broken = until("one of them is lost", || row().filter(|row| row["alive"] == 1));
    assert_eq!(
        (&broken["state"], &broken["expected"], &broken["hosts"]),
        (&json!("incomplete"), &json!(2), &json!(2)),
        "{broken}"
    );
    assert!(broken["lost_ms"].as_u64().is_some(), "{broken}");
    assert!(broken["message"].as_str().unwrap().contains("heartbeat"), "{broken}");
    let status = json_of(bed, &["status", "--json"]);
    let findings = status[0]["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["kind"] == "slice incomplete");
    let evidence = finding.unwrap_or_else(|| panic!("{status}"))["evidence"].as_str().unwrap().to_owned();
    assert!(evidence.contains("two-hosts"), "{evidence}");
}
