//! The activity of running jobs in the output of commands, on simulated slices with a run that hangs, one that became
//! slower, one whose loss rises, one without problems, and one that waits for a slice.

use crate::head_fixture::HeadFixture;
use marin_tui::demo::{Fault, FaultRule};
use serde_json::Value;
use std::collections::BTreeMap;

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

fn fixture(ray: &str) -> HeadFixture {
    HeadFixture::with_life(LIFE, ray)
}

/// Jobs with their vitals, by the TPU type that they request; the pending one is `waits`.
fn jobs(fixture: &HeadFixture) -> BTreeMap<String, Value> {
    let jobs = fixture.json(&["list-jobs", "--vitals", "--json"]);
    let name = |job: &Value| match job["vitals"]["activity"].as_str() {
        Some("waiting") => "waits".to_owned(),
        _ => job["metadata"]["tpu"].as_str().unwrap().to_owned(),
    };
    jobs.as_array().unwrap().iter().map(|job| (name(job), job.clone())).collect()
}

fn warnings(job: &Value) -> Vec<&str> {
    let all = job["vitals"]["warnings"].as_array().unwrap();
    all.iter().map(|warning| warning["kind"].as_str().unwrap()).collect()
}

#[test]
fn runs_with_problems_have_warnings_with_evidence_and_a_healthy_run_has_none() {
    for ray in ["2.53.0", "2.60.0"] {
        let fixture = fixture(ray);
        let jobs = jobs(&fixture);
        assert_eq!(jobs.len(), 5, "{jobs:#?}");
        let of = |name: &str| &jobs[name];
        assert_eq!(warnings(of("v4-32")), ["run stalled"]);
        assert_eq!(warnings(of("v4-64")), ["run slowed"], "{:#}", of("v4-64"));
        assert_eq!(warnings(of("v4-128")), ["loss diverging"], "{:#}", of("v4-128"));
        assert_eq!(warnings(of("v4-256")), [""; 0]);
        assert_eq!(warnings(of("waits")), ["job pending too long"]);
        assert_eq!((&of("waits")["status"], &of("v4-32")["status"]), (&"pending".into(), &"running".into()));
        let well = &of("v4-256")["vitals"];
        assert_eq!(
            (well["activity"].as_str(), well["chips"].as_f64()),
            (Some("training"), Some(128.0)),
            "{well:#}"
        );
        assert_eq!(
            (well["steps"].as_u64(), well["node_ids"].as_array().unwrap().len()),
            (Some(200_000), 33),
            "and the head, on which its actor runs"
        );
        assert!(well["checkpoint"]["step"].as_u64().is_some_and(|step| step % 500 == 0), "{well:#}");
        assert!(of("waits")["vitals"]["description"].as_str().unwrap().starts_with("waits for v4-32, "));
        assert!(
            of("v4-32")["vitals"]["description"].as_str().unwrap().starts_with("silent 2"),
            "{:#}",
            of("v4-32")
        );
        let slow = of("v4-64")["vitals"]["warnings"][0]["evidence"].as_str().unwrap().to_owned();
        assert!(slow.contains("slower"), "{slow}");
    }
}

#[test]
fn the_status_of_a_cluster_has_its_runs_when_requested() {
    let fixture = fixture("2.60.0");
    let findings = |words: &[&str]| -> Vec<String> {
        let is_well = words.is_empty();
        let ran = fixture.run(&[&["status", "--check", "--json"], words].concat()).exits(i32::from(!is_well));
        let all = ran.json()[0]["findings"].as_array().unwrap().clone();
        all.iter().map(|finding| finding["kind"].as_str().unwrap().to_owned()).collect()
    };
    let (with, without) = (findings(&["--vitals"]), findings(&[]));
    for kind in ["run stalled", "run slowed", "loss diverging"] {
        let has = |all: &[String]| all.iter().any(|found| found == kind);
        assert!(has(&with) && !has(&without), "{kind}: {with:?}, {without:?}");
    }
    let said = fixture.ok(&["status", "--vitals"]);
    assert!(said.lines().any(|line| line.contains("run stalled: ")), "{said}");
    // Ray reports the job that waits for its first node as running.
    assert!(said.contains("; jobs: 4 running, 1 pending\n"), "{said}");
    let counts =
        |words: &[&str]| fixture.run(&[&["status", "--json"], words].concat()).json()[0]["jobs"].clone();
    assert_eq!(counts(&["--vitals"]), serde_json::json!({"running": 4, "pending": 1}));
    assert_eq!(counts(&[]), serde_json::json!({"running": 5, "pending": 0}));
    // The requests for actors fail.
    let fails = FaultRule { path: "/api/v0/".into(), fault: Fault::Status(500) };
    fixture.head.set_faults(vec![fails]);
    let ran = fixture.run(&["status", "--vitals"]).exits(0);
    assert!(ran.err.contains("incomplete: activity of jobs unknown: "), "{}", ran.err);
}

#[test]
fn the_table_and_the_status_of_a_job_show_vitals() {
    let fixture = fixture("2.60.0");
    let table = fixture.ok(&["list-jobs", "--vitals"]);
    assert!(table.lines().next().unwrap().contains("ACTIVITY"), "{table}");
    assert!(table.contains("run stalled for 2"), "{table}");
    let (titles, rows) = table.split_once('\n').unwrap();
    let steady = rows.lines().find(|row| row.contains(" step ") && row.trim_end().ends_with(" -")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    };
    let (titles, steady) = (cells(titles), cells(steady));
    let of = |title: &str| &steady[titles.iter().position(|known| known == title).unwrap()];
    assert!(of("RATE").ends_with(" steps/s") && of("CHECKPOINT").ends_with('m'), "{steady:?}");
    assert_eq!(of("RESTARTS"), "0", "{steady:?}");
    let plain = fixture.ok(&["list-jobs"]);
    assert!(!plain.contains("ACTIVITY"), "{plain}");
    let jobs = jobs(&fixture);
    let waits = jobs["waits"]["submission_id"].as_str().unwrap();
    let with_status = |status: &str| fixture.ok(&["list-jobs", "--vitals", "--status", status]);
    assert!(with_status("pending").contains(waits) && !with_status("running").contains(waits));
    let shown = fixture.json(&["job-status", waits, "--json"]);
    assert_eq!(shown["status"], "pending", "{shown}");
    let status = |name: &str| fixture.ok(&["job-status", jobs[name]["submission_id"].as_str().unwrap()]);
    let labels = |text: String| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.split_once("  ")?.0.to_owned())).collect()
    };
    let (well, sick) = (labels(status("v4-256")), labels(status("v4-32")));
    let has = |labels: &[String], label: &str| labels.iter().any(|l| l == label);
    assert!(
        has(&well, "checkpoint") && has(&well, "rate") && !has(&well, "warning") && !has(&well, "issue"),
        "{well:?}"
    );
    assert!(has(&sick, "warning") || has(&sick, "issue"), "{sick:?}");
    let explained =
        fixture.json(&["explain-job", jobs["waits"]["submission_id"].as_str().unwrap(), "--json"]);
    assert!(explained["evidence"][0].as_str().unwrap().contains("TPU-v4-32-head"), "{explained}");
}
