//! Commands on all workers of a job and on the logs of nodes, on a simulated slice of 32 hosts where one run has failed
//! and another is running.

use crate::head_fixture::HeadFixture;
use marin_tui::demo::{Fault, FaultRule};
use marin_tui::model::JobStatus;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// The first run fails because of worker 5. In the second run worker 9 is silent, and worker 3 is slow.
const LIFE: &str = "
types: [{name: tpu_slice_v4_256, accelerator_type: v4-256, min_workers: 1, slices: 1}]
past_minutes: 60
jobs_per_hour: 0
preemptions_per_hour: 0
infeasible: [v4-4096]
runs:
- {node_type: tpu_slice_v4_256, fails: {worker: 5, minutes_ago: 30}}
- {node_type: tpu_slice_v4_256, silent: {worker: 9, minutes_ago: 20}, slow: 3}
";

/// The same with 256 hosts, one worker on each.
const LIFE_OF_256: &str = "
types: [{name: tpu_slice_v4_2048, accelerator_type: v4-2048, min_workers: 1, slices: 1}]
past_minutes: 60
jobs_per_hour: 0
preemptions_per_hour: 0
runs:
- {node_type: tpu_slice_v4_2048, fails: {worker: 137, minutes_ago: 30}}
- {node_type: tpu_slice_v4_2048, silent: {worker: 201, minutes_ago: 20}}
";

fn fixture(ray: &str) -> HeadFixture {
    HeadFixture::with_life(LIFE, ray)
}

/// Whether the value names the worker with this number.
fn is_worker(host: &Value, number: usize) -> bool {
    host.as_str().unwrap().ends_with(&format!("-w-{number}"))
}

#[test]
fn the_list_of_workers_has_the_silent_one_first_and_then_the_slow_one() {
    for ray in ["2.60.0", "2.53.0"] {
        let fixture = fixture(ray);
        let job = fixture.job(JobStatus::Running);
        let rows = fixture.json(&["job-workers", &job, "--json"]);
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), 33, "32 hosts and an actor on the head");
        assert!(rows[0]["note"] == "silent" && is_worker(&rows[0]["host"], 9), "{}", rows[0]);
        assert!(rows[1]["note"] == "lagging" && is_worker(&rows[1]["host"], 3), "{}", rows[1]);
        assert!(rows[2..].iter().all(|row| row["note"].is_null()), "{ray}: {rows:?}");
        assert!(rows[0]["step"].as_u64() < rows[1]["step"].as_u64());
        let table = fixture.ok(&["job-workers", &job]);
        assert!(table.lines().nth(1).unwrap().contains("-w-9 "), "{table}");
    }
}

#[test]
fn a_failed_job_is_explained_by_the_first_worker_that_failed() {
    let fixture = fixture("2.60.0");
    let job = fixture.job(JobStatus::Failed);
    let found = fixture.json(&["explain-job", &job, "-n", "12", "--json"]);
    assert_eq!((&found["verdict"], &found["certainty"]), (&"failed".into(), &"earliest".into()), "{found}");
    let first = &found["first"];
    assert!(is_worker(&first["host"], 5) && first["kind"] == "out of device memory", "{first}");
    let followed = found["followed"].as_array().unwrap();
    let lost = followed.iter().find(|f| f["kind"] == "lost a peer").unwrap();
    assert!(lost["hosts"].as_u64() >= Some(31), "{lost}");
    assert!(first["text"].as_str().unwrap().contains("RESOURCE_EXHAUSTED"), "{first}");
    fixture.ok(&["explain-job", &job, "-n", "12"]);
}

#[test]
fn a_job_that_hangs_or_waits_is_explained_too() {
    let fixture = fixture("2.60.0");
    let hangs = fixture.json(&["explain-job", &fixture.job(JobStatus::Running), "-n", "12", "--json"]);
    assert_eq!(hangs["verdict"], "silent", "{hangs}");
    assert!(hangs["summary"].as_str().unwrap().contains("-w-9/"), "{hangs}");
    let waits = fixture.json(&["explain-job", &fixture.job(JobStatus::Pending), "--json"]);
    assert_eq!(waits["verdict"], "waiting", "{waits}");
    assert!(waits["summary"].as_str().unwrap().contains("TPU-v4-4096-head"), "{waits}");
    let mut unknown = fixture.transcript();
    fixture.shows(&mut unknown, &["explain-job", "nobody"]);
    unknown.is("a_job_that_nobody_knows");
}

#[test]
fn workers_logs_are_merged_and_folded() {
    let fixture = fixture("2.60.0");
    let job = fixture.job(JobStatus::Running);
    let merged = fixture.ok(&["job-logs", &job, "--workers", "-n", "3"]);
    let times: Vec<&str> = merged.lines().map(|line| &line[..18]).collect();
    assert!(times.len() >= 32 * 3 && times.is_sorted(), "{merged}");
    let folded = fixture.lines(&["job-logs", &job, "--workers", "--fold", "-n", "12", "--json"]);
    let row = folded.iter().find(|row| row["workers"] == 30 && row["total_workers"] == 32);
    let row = row.unwrap_or_else(|| panic!("{folded:#?}"));
    for silent in [3, 9] {
        let missing = row["missing"].as_array().unwrap();
        assert!(
            missing.iter().any(|worker| worker.as_str().unwrap().contains(&format!("-w-{silent}/"))),
            "{row}"
        );
    }
    let recent = fixture.lines(&["job-logs", &job, "--workers", "-n", "3", "--since", "10m", "--json"]);
    let of = |number| recent.iter().any(|line| is_worker(&line["host"], number));
    assert!(!of(9) && of(3), "{recent:?}");
    let failed = fixture.job(JobStatus::Failed);
    let found = fixture.lines(&["job-logs", &failed, "--workers", "-g", "RESOURCE_EXHAUSTED", "--json"]);
    assert!(!found.is_empty() && found.iter().all(|line| is_worker(&line["host"], 5)), "{found:?}");
    let pending = fixture.job(JobStatus::Pending);
    let of_pending = ["job-logs", &pending, "--workers"];
    assert!(fixture.run(&of_pending).exits(0).err.contains(" workers"));
    fixture.run(&[&of_pending[..], &["-g", "step"]].concat()).exits(1);
}

#[test]
fn the_silent_worker_has_another_stack_and_the_driver_waits_for_all() {
    let fixture = fixture("2.60.0");
    let job = fixture.job(JobStatus::Running);
    let found = fixture.json(&["stacks", &job, "--json"]);
    let counts: Vec<u64> =
        found["groups"].as_array().unwrap().iter().map(|g| g["count"].as_u64().unwrap()).collect();
    assert!(counts.contains(&31) && counts.contains(&1), "{found}");
    let overview = fixture.json(&["job-workers", &job, "--json"]);
    let (host, pid) = (&overview[0]["node_id"], &overview[0]["pid"]);
    let alone = found["groups"].as_array().unwrap().iter().find(|group| {
        let workers = group["workers"].as_array().unwrap();
        workers.len() == 1 && (&workers[0]["node_id"], &workers[0]["pid"]) == (host, pid)
    });
    assert!(alone.is_some(), "{host} {pid}: {found}");
    let driver = &found["driver"];
    assert_eq!(
        (&driver["pid"], &driver["threads"][0]["name"]),
        (&867.into(), &"MainThread".into()),
        "{found}"
    );
    assert_eq!(driver["threads"][0]["top_frame"], "main (marin/run/train.py:88) in get", "{found}");
    let output = fixture.ok(&["stacks", &job]);
    assert!(output.contains("pid 867\n       MainThread: main (marin/run/train.py:88) in get"), "{output}");
}

#[test]
fn a_head_with_256_workers_gets_at_most_eight_requests_at_a_time() {
    let fixture = HeadFixture::with_life(LIFE_OF_256, "2.60.0");
    // Responses take a while, so that requests overlap.
    let slow = Fault::Latency(Duration::from_millis(5));
    fixture.head.set_faults(vec![FaultRule { path: "/api/v0/".into(), fault: slow }]);
    let job = fixture.job(JobStatus::Running);
    let rows = fixture.json(&["job-workers", &job, "--json"]);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 257, "256 hosts and an actor on the head");
    assert!(is_worker(&rows[0]["host"], 201) && rows[0]["note"] == "silent", "{}", rows[0]);
    let explained = fixture.ok(&["explain-job", &job]);
    assert!(explained.contains("-w-201"), "{explained}");
    let found = fixture.ok(&["cluster-logs", "--node", "all", "-g", "RESOURCE_EXHAUSTED", "-n", "20"]);
    assert!(found.contains("-w-137 worker-"), "{found}");
    let cost = fixture.head.cost();
    assert!((2..=8).contains(&cost.most_at_once), "{cost:?}");
}

#[test]
fn a_worker_whose_node_died_is_reported_as_lost() {
    let fixture = fixture("2.60.0");
    let job = fixture.job(JobStatus::Running);
    let host = fixture.head.nodes().pop().unwrap();
    assert!(fixture.head.kill_node(host), "its slice dies with it");
    let rows = fixture.json(&["job-workers", &job, "--json"]);
    let lost = rows.as_array().unwrap().iter().filter(|row| row["state"] == "lost");
    assert_eq!(lost.clone().count(), 32, "{rows}");
    assert!(lost.clone().all(|row| row["reason"].as_str().unwrap().starts_with("node died")), "{rows}");
    let said = fixture.run(&["job-logs", &job, "--workers"]).err;
    assert!(said.contains("32 workers were lost"), "{said}");
}

#[test]
fn a_nodes_logs_are_listed_printed_and_searched() {
    let fixture = fixture("2.60.0");
    assert!(fixture.ok(&["cluster-logs", "-n", "5"]).lines().count() == 5, "monitor.log");
    let host = fixture.json(&["job-workers", &fixture.job(JobStatus::Running), "--json"])[0]["host"].clone();
    let host = host.as_str().unwrap();
    let files = fixture.json(&["cluster-logs", "--node", host, "--json"]);
    let listed =
        |file: &str| files.as_array().unwrap().iter().any(|row| row["file"].as_str().unwrap() == file);
    assert!(listed("raylet.out") && listed("raylet.err"), "{files}");
    let plain = |row: &Value| row["rotated_from"].is_null() && row["compressed"] == false;
    assert!(files.as_array().unwrap().iter().all(plain), "{files}");
    let refused = fixture.run(&["cluster-logs", "--node", host, "--file", "raylet.out.1.gz"]).exits(1);
    let command = " -- zcat /tmp/ray/session_latest/logs/raylet.out.1.gz`";
    assert!(
        refused.err.contains("raylet.out.1.gz is compressed; print it with `marin-tui "),
        "{}",
        refused.err
    );
    assert!(refused.err.contains(" exec --host ") && refused.err.contains(command), "{}", refused.err);
    let raylet =
        fixture.lines(&["cluster-logs", "--node", host, "--file", "raylet.out", "-n", "2", "--json"]);
    assert!(raylet.len() == 2 && raylet.iter().all(|line| line["file"] == "raylet.out"), "{raylet:?}");
    let found =
        fixture.run(&["cluster-logs", "--node", "all", "-g", "RESOURCE_EXHAUSTED", "-n", "20"]).exits(0);
    let heads: Vec<&str> = found.out.lines().filter(|line| line.starts_with("==> ")).collect();
    assert!(heads.iter().any(|head| head.contains("-w-5 worker-")), "{}{}", found.out, found.err);
    assert!(found.err.contains("searched: the last 20 lines of "), "{}", found.err);
    assert_eq!(fixture.run(&["cluster-logs", "-g", "nowhere-to-be-found"]).code, Some(1));
    let on_all = ["cluster-logs", "--all-clusters", "-g", "RESOURCE_EXHAUSTED", "-m", "1"];
    let rows = fixture.run(&[&on_all[..], &["--json"]].concat()).exits(0).lines();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["cluster"].is_string()), "{rows:?}");
    let files: BTreeSet<String> = rows.iter().map(|row| row["file"].to_string()).collect();
    assert_eq!(files.len(), rows.len(), "one line of each file: {rows:?}");
    let said = fixture.run(&on_all).exits(0).err;
    assert!(said.contains(" before these; -m prints more"), "{said}");
    fixture.run(&["cluster-logs", "-m", "1"]).exits(2);
    let mut refused = fixture.transcript().varying(r"session_[\d_-]+", "SESSION");
    for args in [&["--node", "nobody"][..], &["--file", "nope.log"], &["--node", "all"]] {
        fixture.shows(&mut refused, &[&["cluster-logs"], args].concat());
    }
    refused.is("logs_that_are_not_there");
}
