//! What running jobs really do, as commands say it, on simulated slices with a run that hangs, one that became slower, one
//! whose loss rises, one that is well, and one that waits for a slice.

use crate::program::program;
use marin_tui::demo::{Head, Life, Scenario};
use marin_tui::model::Secret;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Output;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TOKEN: &str = "tok-vitals-never-shown";

const LIFE: &str = "
types:
- {name: stalls, accelerator_type: v4-32, slices: 1}
- {name: slows, accelerator_type: v4-64, slices: 1}
- {name: diverges, accelerator_type: v4-128, slices: 1}
- {name: steady, accelerator_type: v4-256, slices: 1}
past_minutes: 90
jobs_per_hour: 0
preemptions_per_hour: 0
refusal: stockout
refused: 1.0
runs:
- {node_type: stalls, stalls: {worker: 3, minutes_ago: 22}}
- {node_type: slows, slows: 12}
- {node_type: diverges, diverges: 8}
- {node_type: steady}
- {node_type: stalls, waits: 47}
";

struct Place {
    _runtime: Runtime,
    head: Head,
    home: TempDir,
}

impl Place {
    fn new(ray: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let life: Life = serde_yaml::from_str(LIFE).unwrap();
        let scenario = Scenario {
            token: Some(Secret::new(TOKEN)),
            jobs: 0,
            dead: 0,
            log_rate: 1,
            ray_version: ray.into(),
            life: Some(life),
            ..Scenario::default()
        };
        let head = runtime.block_on(Head::start(scenario)).unwrap();
        Self { _runtime: runtime, head, home: tempfile::tempdir().unwrap() }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = program(self.home.path());
        command.env("RAY_AUTH_TOKEN", TOKEN).env("TZ", "UTC");
        command.args(["--address", &format!("http://{}", self.head.dashboard)]);
        command.args(["--gcs", &self.head.gcs.to_string()]).args(args);
        command.output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// The jobs with their vitals, by the TPU type that they ask for; the one that waits is `waits`.
    fn jobs(&self) -> BTreeMap<String, Value> {
        let jobs: Vec<Value> = serde_json::from_str(&self.ok(&["list-jobs", "--vitals", "--json"])).unwrap();
        let name = |job: &Value| match job["vitals"]["does"].as_str() {
            Some("waiting") => "waits".to_owned(),
            _ => job["metadata"]["tpu"].as_str().unwrap().to_owned(),
        };
        jobs.into_iter().map(|job| (name(&job), job)).collect()
    }
}

fn warnings(job: &Value) -> Vec<&str> {
    let all = job["vitals"]["warnings"].as_array().unwrap();
    all.iter().map(|warning| warning["kind"].as_str().unwrap()).collect()
}

#[test]
fn sick_runs_are_named_with_their_evidence_and_one_that_is_well_is_not() {
    for ray in ["2.53.0", "2.60.0"] {
        let place = Place::new(ray);
        let jobs = place.jobs();
        assert_eq!(jobs.len(), 5, "{jobs:#?}");
        let of = |name: &str| &jobs[name];
        assert_eq!(warnings(of("v4-32")), ["run stalled"]);
        assert_eq!(warnings(of("v4-64")), ["run slowed"], "{:#}", of("v4-64"));
        assert_eq!(warnings(of("v4-128")), ["loss diverging"], "{:#}", of("v4-128"));
        assert_eq!(warnings(of("v4-256")), [""; 0]);
        assert_eq!(warnings(of("waits")), ["job waits"]);
        let well = &of("v4-256")["vitals"];
        assert_eq!(
            (well["does"].as_str(), well["chips"].as_f64()),
            (Some("training"), Some(128.0)),
            "{well:#}"
        );
        assert_eq!(
            (well["steps"].as_u64(), well["node_ids"].as_array().unwrap().len()),
            (Some(200_000), 33),
            "and the head, where its actor is"
        );
        assert!(well["checkpoint"]["step"].as_u64().is_some_and(|step| step % 500 == 0), "{well:#}");
        assert!(of("waits")["vitals"]["what"].as_str().unwrap().starts_with("waits for v4-32, "));
        assert!(of("v4-32")["vitals"]["what"].as_str().unwrap().starts_with("silent 2"), "{:#}", of("v4-32"));
        let slow = of("v4-64")["vitals"]["warnings"][0]["evidence"].as_str().unwrap().to_owned();
        assert!(slow.contains("fewer steps"), "{slow}");
    }
}

#[test]
fn the_table_and_one_job_say_it_in_words() {
    let place = Place::new("2.60.0");
    let table = place.ok(&["list-jobs", "--vitals"]);
    assert!(table.lines().next().unwrap().contains("DOES"), "{table}");
    assert!(table.contains("run stalled for 2") && table.contains("its log is silent"), "{table}");
    let plain = place.ok(&["list-jobs"]);
    assert!(!plain.contains("DOES"), "{plain}");
    let jobs = place.jobs();
    let status = |name: &str| place.ok(&["job-status", jobs[name]["submission_id"].as_str().unwrap()]);
    let well = status("v4-256");
    assert!(
        well.contains("TPU 128") && well.contains("checkpoint") && well.contains("1.0 steps/s"),
        "{well}"
    );
    assert!(!well.contains("warning"), "{well}");
    let sick = status("v4-32");
    assert!(sick.contains("run stalled for 2") && sick.contains("at step"), "{sick}");
    let explained = place.ok(&["explain-job", jobs["waits"]["submission_id"].as_str().unwrap()]);
    assert!(explained.contains("TPU-v4-32-head"), "{explained}");
}
