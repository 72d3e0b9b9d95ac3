//! Logs of jobs and their workers in the output of commands: progress lines in a trainer's own format, lines that Ray
//! left out, and unusual or broken logs. On a simulated slice of four hosts with a running job.

use crate::place::{Place, TOKEN};
use crate::program::Ran;
use crate::pty::Pty;
use marin_tui::demo::{Fault, FaultRule};
use marin_tui::logs::Repeated;
use marin_tui::model::{JobId, JobStatus, NodeId, Secret};
use marin_tui::ray::{Client, Endpoint, Listed};
use serde_json::{Value, json};

const LIFE: &str = "
types: [{name: slice, accelerator_type: v4-32, min_workers: 1, slices: 1}]
past_minutes: 60
jobs_per_hour: 0
preemptions_per_hour: 0
runs: [{node_type: slice}]
";

fn place() -> Place {
    Place::with_life(LIFE, "2.60.0")
}

fn set(place: &Place, settings: &Value) {
    place.file("config.yaml", &settings.to_string());
}

fn workers(place: &Place) -> Vec<Value> {
    let Value::Array(all) = place.json(&["job-workers", &running(place), "--json"]) else {
        panic!("no list")
    };
    all
}

fn running(place: &Place) -> String {
    place.job(JobStatus::Running)
}

/// Writes to a worker's standard error.
fn write(place: &Place, worker: &Value, bytes: &[u8]) {
    let files = worker["files"].as_array().unwrap();
    let file = files.iter().find(|file| file.as_str().unwrap().strip_suffix(".err").is_some()).unwrap();
    place.head.write_file(file.as_str().unwrap(), bytes);
}

fn of<'v>(rows: &'v [Value], worker: &Value) -> &'v Value {
    rows.iter().find(|row| row["pid"] == worker["pid"] && row["node_id"] == worker["node_id"]).unwrap()
}

#[test]
fn progress_lines_in_a_trainers_own_format_are_read_everywhere() {
    let place = place();
    let (job, worker) = (running(&place), workers(&place).remove(0));
    write(&place, &worker, b"sweep #4710 has energy x\nsweep #4711 has energy y\n");
    place.head.write_job_log(&job, b"sweep #4711 has energy y\n");
    let step = || of(&workers(&place), &worker)["step"].clone();
    let vitals = || {
        let rows = place.json(&["list-jobs", "--vitals", "--json"]);
        rows.as_array().unwrap().iter().find(|row| row["submission_id"] == *job).unwrap()["vitals"]["step"]
            .clone()
    };
    assert_eq!((step(), vitals()), (Value::Null, Value::Null), "no built-in pattern matches");
    set(&place, &json!({"progress_patterns": ["sweep #(?<step>\\d+)"], "vitals": {"every_seconds": 5}}));
    assert_eq!((step(), vitals()), (4711.into(), 4711.into()));
    let rows = place.lines(&["job-logs", &job, "--workers", "--fold", "--json"]);
    assert!(rows.iter().any(|row| row["step"] == 4711), "{rows:?}");
    // The console's table of jobs shows it too.
    let mut console = Pty::of(&place.command(&[]), 160, 40);
    let id: String = job.chars().skip(job.chars().count() - 8).collect();
    console.wait("the step", |text| text.lines().any(|l| l.contains(&id) && l.contains("step 4,711")));
    console.send("q");
    set(&place, &json!({"progress_patterns": ["(?<step>\\d+"]}));
    let mut broken = place.transcript().varying(&job, "JOB");
    place.shows(&mut broken, &["job-workers", &job]);
    broken.is("a_pattern_of_progress_that_is_none");
}

#[test]
fn lines_that_ray_left_out_are_found_in_the_workers_files() {
    let place = place();
    let (job, all) = (running(&place), workers(&place));
    let slice: Vec<&Value> = all.iter().filter(|worker| !worker["slice"].is_null()).collect();
    assert_eq!(slice.len(), 4, "{all:?}");
    for (number, worker) in slice.iter().enumerate() {
        let lines = format!("loading shard {number} of it's 4\nloading shard {number} failed\n");
        write(&place, worker, lines.as_bytes());
    }
    let line = "(train pid=7, ip=10.0.0.7) loading shard 3 of it's 4 [repeated 3x across cluster]";
    place.head.write_job_log(&job, format!("one\n{line}\n").as_bytes());
    let lines = place.lines(&["job-logs", &job, "--json"]);
    let repeated =
        &lines.iter().find(|line| line["text"].as_str().unwrap().contains("[repeated")).unwrap()["repeated"];
    assert_eq!(lines.iter().find(|line| line["text"] == "one").unwrap()["repeated"], Value::Null);
    let found = Repeated::of(line).unwrap();
    assert_eq!(*repeated, json!({"count": 3, "pattern": found.pattern}));
    let real = place.lines(&["job-logs", &job, "--workers", "-g", &found.pattern, "--json"]);
    let mut texts: Vec<&str> = real.iter().map(|line| line["text"].as_str().unwrap()).collect();
    texts.sort_unstable();
    let expected: Vec<String> = (0..4).map(|n| format!("loading shard {n} of it's 4")).collect();
    assert_eq!(texts, expected);
    // A worker that runs its own driver has such lines in its own log.
    write(&place, slice[0], format!("{line}\n").as_bytes());
    let folded = place.ok(&["job-logs", &job, "--workers", "--fold"]);
    assert!(folded.contains(&format!("--workers -g '{}'", found.pattern)), "{folded}");
}

#[test]
fn the_files_of_a_node_are_listed_once_until_something_changes() {
    let place = place();
    let endpoint = Endpoint::Direct { dashboard: format!("http://{}", place.head.dashboard), gcs: None };
    let client = {
        let _runtime = place.runtime.enter();
        Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap()
    };
    let jobs = place.json(&["list-jobs", "--json"]);
    let driver = jobs
        .as_array()
        .unwrap()
        .iter()
        .find(|job| job["submission_id"] == *running(&place))
        .unwrap()["job_id"]
        .clone();
    let driver = JobId(driver.as_str().unwrap().into());
    let nodes = place.head.nodes();
    let mut listed = Listed::default();
    let read = |listed: &mut Listed, nodes: &[NodeId]| {
        let asked = || place.head.cost().requests.get("/api/v0/logs").copied().unwrap_or(0);
        let before = asked();
        let gang = place.runtime.block_on(client.gang(&driver, nodes, listed)).unwrap();
        (gang.workers, gang.requests, asked() - before)
    };
    let (first, requests, listings) = read(&mut listed, &nodes);
    assert!(listings >= nodes.len() as u64 && requests as u64 == 4 + listings, "{requests} {listings}");
    let (second, requests, listings) = read(&mut listed, &nodes);
    assert_eq!((requests, listings), (4, 0), "nothing is listed again");
    assert_eq!(first, second);
    // A file is gone: only its node is listed again.
    listed.forget(&nodes[1]);
    assert_eq!(read(&mut listed, &nodes).2, 1);
    // A node that was not listed before.
    let mut fewer = Listed::default();
    read(&mut fewer, &nodes[1..]);
    let (all, _, listings) = read(&mut fewer, &nodes);
    assert!(listings >= 1 && all == first, "{listings}");
    // Another job.
    let gang = place.runtime.block_on(client.gang(&JobId("ff000000".into()), &nodes, &mut listed)).unwrap();
    assert!(gang.workers.is_empty() && gang.requests == 4 + nodes.len(), "{gang:?}");
}

#[test]
fn unusual_logs_are_read_or_refused_with_a_reason() {
    let place = place();
    let (job, all) = (running(&place), workers(&place));
    let wide: Vec<u8> = "ERROR: wide 'words' -x\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    write(&place, &all[0], &wide);
    // UTF-16, a quote, and a leading hyphen.
    for pattern in ["wide 'words'", "-x$", "--x|-x"] {
        let found = place.lines(&["job-logs", &job, "--workers", "-g", pattern, "--json"]);
        assert_eq!(
            found.iter().map(|l| l["text"].as_str().unwrap()).collect::<Vec<_>>(),
            ["ERROR: wide 'words' -x"]
        );
        let found = place.lines(&["cluster-logs", "--node", "all", "-g", pattern, "--json"]);
        assert_eq!(found.len(), 1, "{pattern}: {found:?}");
    }
    assert_eq!(of(&workers(&place), &all[0])["line"], "ERROR: wide 'words' -x");
    let mut refused = place.transcript().varying(&job, "JOB");
    for command in [&["job-logs", "-g", "a\nb", &job][..], &["cluster-logs", "-g", "a\nb"]] {
        place.shows(&mut refused, command);
    }
    // A clock that is wrong by an hour.
    let hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(61);
    let line = format!("{} INFO late\n", hour_ago.strftime("%Y-%m-%d %H:%M:%S,000"));
    place.head.write_job_log(&job, line.as_bytes());
    let mut refused = refused.varying(r"1h 0\dm", "1h 01m").varying(r"\d\d-\d\d [\d:.]+,", "TIME,");
    place.shows(&mut refused, &["job-logs", "--since", "10m", &job]);
    // A log API that fails permanently.
    let fails = |status| {
        place
            .head
            .set_faults(vec![FaultRule { path: "/api/v0/logs/file".into(), fault: Fault::Status(status) }]);
    };
    fails(500);
    for command in [&["job-logs", "--workers", &job][..], &["cluster-logs"], &["job-logs", &job]] {
        place.shows(&mut refused, command);
    }
    let workers = place.run(&["job-workers", &job]);
    refused.add("job-workers JOB 2>&1 >/dev/null", &Ran { out: String::new(), ..workers });
    refused.is("logs_that_cannot_be_read");
    fails(503);
    let Ran { err: said, .. } = place.run(&["job-workers", &job]);
    let incomplete: Vec<&str> = said.lines().filter(|line| line.starts_with("incomplete: ")).collect();
    assert!(incomplete.len() == 1 && incomplete[0].contains("503"), "all in one line: {said}");
}
