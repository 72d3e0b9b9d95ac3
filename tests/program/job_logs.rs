//! Logs of jobs and their workers in the output of commands: progress lines in a trainer's own format, lines that Ray
//! left out, and unusual or broken logs. On a simulated slice of four hosts with a running job.

use crate::head_fixture::{HeadFixture, TOKEN};
use crate::program::Ran;
use crate::pty::Pty;
use marin_tui::demo::{Fault, FaultRule};
use marin_tui::logs::Repeated;
use marin_tui::model::{JobId, JobStatus, NodeId, Secret};
use marin_tui::ray::{Client, Endpoint, Listed};
use serde_json::{Value, json};

/// One slice of four hosts with a running job.
pub const LIFE: &str = "
types: [{name: slice, accelerator_type: v4-32, min_workers: 1, slices: 1}]
past_minutes: 60
jobs_per_hour: 0
preemptions_per_hour: 0
runs: [{node_type: slice}]
";

fn fixture() -> HeadFixture {
    HeadFixture::with_life(LIFE, "2.60.0")
}

fn set(fixture: &HeadFixture, settings: &Value) {
    fixture.file("config.yaml", &settings.to_string());
}

fn workers(fixture: &HeadFixture) -> Vec<Value> {
    let Value::Array(all) = fixture.json(&["job-workers", &running(fixture), "--json"]) else {
        panic!("no list")
    };
    all
}

fn running(fixture: &HeadFixture) -> String {
    fixture.job(JobStatus::Running)
}

/// Writes to a worker's standard error.
fn write(fixture: &HeadFixture, worker: &Value, bytes: &[u8]) {
    let files = worker["files"].as_array().unwrap();
    let file = files.iter().find(|file| file.as_str().unwrap().strip_suffix(".err").is_some()).unwrap();
    fixture.head.write_file(file.as_str().unwrap(), bytes);
}

fn of<'v>(rows: &'v [Value], worker: &Value) -> &'v Value {
    rows.iter().find(|row| row["pid"] == worker["pid"] && row["node_id"] == worker["node_id"]).unwrap()
}

#[test]
fn progress_lines_in_a_trainers_own_format_are_read_everywhere() {
    let fixture = fixture();
    let (job, worker) = (running(&fixture), workers(&fixture).remove(0));
    write(&fixture, &worker, b"sweep #4710 has energy x\nsweep #4711 has energy y\n");
    fixture.head.write_job_log(&job, b"sweep #4711 has energy y\n");
    let step = || of(&workers(&fixture), &worker)["step"].clone();
    let vitals = || {
        let rows = fixture.json(&["list-jobs", "--vitals", "--json"]);
        rows.as_array().unwrap().iter().find(|row| row["submission_id"] == *job).unwrap()["vitals"]["step"]
            .clone()
    };
    assert_eq!((step(), vitals()), (Value::Null, Value::Null), "no built-in pattern matches");
    set(&fixture, &json!({"progress_patterns": ["sweep #(?<step>\\d+)"], "vitals": {"refresh_seconds": 5}}));
    assert_eq!((step(), vitals()), (4711.into(), 4711.into()));
    let rows = fixture.lines(&["job-logs", &job, "--workers", "--fold", "--json"]);
    assert!(rows.iter().any(|row| row["step"] == 4711), "{rows:?}");
    // The console's table of jobs shows it too.
    let mut console = Pty::of(&fixture.command(&[]), 160, 40);
    let id: String = job.chars().skip(job.chars().count() - 8).collect();
    console.wait("the step", |text| text.lines().any(|l| l.contains(&id) && l.contains("step 4,711")));
    console.send("q");
    set(&fixture, &json!({"progress_patterns": ["(?<step>\\d+"]}));
    let mut broken = fixture.transcript().varying(&job, "JOB");
    fixture.shows(&mut broken, &["job-workers", &job]);
    broken.is("a_pattern_of_progress_that_is_none");
}

#[test]
fn lines_that_ray_left_out_are_found_in_the_workers_files() {
    let fixture = fixture();
    let (job, all) = (running(&fixture), workers(&fixture));
    let slice: Vec<&Value> = all.iter().filter(|worker| !worker["slice"].is_null()).collect();
    assert_eq!(slice.len(), 4, "{all:?}");
    for (number, worker) in slice.iter().enumerate() {
        let lines = format!("loading shard {number} of it's 4\nloading shard {number} failed\n");
        write(&fixture, worker, lines.as_bytes());
    }
    let line = "(train pid=7, ip=10.0.0.7) loading shard 3 of it's 4 [repeated 3x across cluster]";
    fixture.head.write_job_log(&job, format!("one\n{line}\n").as_bytes());
    let lines = fixture.lines(&["job-logs", &job, "--json"]);
    let repeated =
        &lines.iter().find(|line| line["text"].as_str().unwrap().contains("[repeated")).unwrap()["repeated"];
    assert_eq!(lines.iter().find(|line| line["text"] == "one").unwrap()["repeated"], Value::Null);
    let found = Repeated::of(line).unwrap();
    assert_eq!(*repeated, json!({"count": 3, "pattern": found.pattern}));
    let real = fixture.lines(&["job-logs", &job, "--workers", "-g", &found.pattern, "--json"]);
    let mut texts: Vec<&str> = real.iter().map(|line| line["text"].as_str().unwrap()).collect();
    texts.sort_unstable();
    let expected: Vec<String> = (0..4).map(|n| format!("loading shard {n} of it's 4")).collect();
    assert_eq!(texts, expected);
    // A worker that runs its own driver has such lines in its own log.
    write(&fixture, slice[0], format!("{line}\n").as_bytes());
    let folded = fixture.ok(&["job-logs", &job, "--workers", "--fold"]);
    assert!(folded.contains(&format!("--workers -g '{}'", found.pattern)), "{folded}");
}

#[test]
fn the_files_of_a_node_are_listed_once_until_something_changes() {
    let fixture = fixture();
    let endpoint = Endpoint::Direct { dashboard: format!("http://{}", fixture.head.dashboard), gcs: None };
    let client = {
        let _runtime = fixture.runtime.enter();
        Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap()
    };
    let jobs = fixture.json(&["list-jobs", "--json"]);
    let driver = jobs
        .as_array()
        .unwrap()
        .iter()
        .find(|job| job["submission_id"] == *running(&fixture))
        .unwrap()["job_id"]
        .clone();
    let driver = JobId(driver.as_str().unwrap().into());
    let nodes = fixture.head.nodes();
    let mut listed = Listed::default();
    let read = |listed: &mut Listed, nodes: &[NodeId]| {
        let requests = || fixture.head.cost().requests.get("/api/v0/logs").copied().unwrap_or(0);
        let before = requests();
        let gang = fixture.runtime.block_on(client.gang(&driver, nodes, listed)).unwrap();
        (gang.workers, gang.requests, requests() - before)
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
    let gang = fixture.runtime.block_on(client.gang(&JobId("ff000000".into()), &nodes, &mut listed)).unwrap();
    assert!(gang.workers.is_empty() && gang.requests == 4 + nodes.len(), "{gang:?}");
}

#[test]
fn unusual_logs_are_read_or_refused_with_a_reason() {
    let fixture = fixture();
    let (job, all) = (running(&fixture), workers(&fixture));
    let wide: Vec<u8> = "ERROR: wide 'words' -x\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    write(&fixture, &all[0], &wide);
    // UTF-16, a quote, and a leading hyphen.
    for pattern in ["wide 'words'", "-x$", "--x|-x"] {
        let found = fixture.lines(&["job-logs", &job, "--workers", "-g", pattern, "--json"]);
        assert_eq!(
            found.iter().map(|l| l["text"].as_str().unwrap()).collect::<Vec<_>>(),
            ["ERROR: wide 'words' -x"]
        );
        let found = fixture.lines(&["cluster-logs", "--node", "all", "-g", pattern, "--json"]);
        assert_eq!(found.len(), 1, "{pattern}: {found:?}");
    }
    assert_eq!(of(&workers(&fixture), &all[0])["line"], "ERROR: wide 'words' -x");
    let mut refused = fixture.transcript().varying(&job, "JOB");
    for command in [&["job-logs", "-g", "a\nb", &job][..], &["cluster-logs", "-g", "a\nb"]] {
        fixture.shows(&mut refused, command);
    }
    // A clock that is wrong by an hour.
    let hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(61);
    let line = format!("{} INFO late\n", hour_ago.strftime("%Y-%m-%d %H:%M:%S,000"));
    fixture.head.write_job_log(&job, line.as_bytes());
    let mut refused = refused.varying(r"1h 0\dm", "1h 01m").varying(r"\d\d-\d\d [\d:.]+,", "TIME,");
    fixture.shows(&mut refused, &["job-logs", "--since", "10m", &job]);
    // A log API that fails permanently.
    let fails = |status| {
        fixture
            .head
            .set_faults(vec![FaultRule { path: "/api/v0/logs/file".into(), fault: Fault::Status(status) }]);
    };
    fails(500);
    for command in [&["job-logs", "--workers", &job][..], &["cluster-logs"], &["job-logs", &job]] {
        fixture.shows(&mut refused, command);
    }
    let workers = fixture.run(&["job-workers", &job]);
    refused.add("job-workers JOB 2>&1 >/dev/null", &Ran { out: String::new(), ..workers });
    refused.is("logs_that_cannot_be_read");
    fails(503);
    let Ran { err: said, .. } = fixture.run(&["job-workers", &job]);
    let incomplete: Vec<&str> = said.lines().filter(|line| line.starts_with("incomplete: ")).collect();
    assert!(incomplete.len() == 1 && incomplete[0].contains("503"), "all in one line: {said}");
}
