//! Logs of jobs and of their workers as commands give them: lines in a trainer's own words, lines that Ray left out, and logs
//! that are not as they should be. On a simulated slice of four hosts with a run at work.

use crate::program::program;
use crate::pty::Pty;
use marin_tui::demo::{Fault, Head, Life, Scenario, Trouble};
use marin_tui::logs::Repeated;
use marin_tui::model::{JobId, JobStatus, NodeId, Secret};
use marin_tui::ray::{Client, Endpoint, Listed};
use serde_json::{Value, json};
use std::process::{Command, Output};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TOKEN: &str = "tok-job-logs-never-shown";
const LIFE: &str = "
types: [{name: slice, accelerator_type: v4-32, min_workers: 1, slices: 1}]
past_minutes: 60
jobs_per_hour: 0
preemptions_per_hour: 0
runs: [{node_type: slice}]
";

struct Place {
    runtime: Runtime,
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
            ray_version: ray.into(),
            life: Some(life),
            ..Scenario::default()
        };
        let head = runtime.block_on(Head::start(scenario)).unwrap();
        Self { runtime, head, home: tempfile::tempdir().unwrap() }
    }

    fn set(&self, settings: &Value) {
        std::fs::write(self.home.path().join("config.yaml"), settings.to_string()).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program(self.home.path());
        command.env("RAY_AUTH_TOKEN", TOKEN).env("TZ", "UTC");
        command.args(["--address", &format!("http://{}", self.head.dashboard)]);
        command.args(["--gcs", &self.head.gcs.to_string()]);
        let settings = self.home.path().join("config.yaml");
        if settings.exists() {
            command.arg("--config").arg(settings);
        }
        command.args(args);
        command
    }

    fn run(&self, args: &[&str]) -> (String, String) {
        let Output { stdout, stderr, .. } = self.command(args).output().unwrap();
        (text(&stdout), text(&stderr))
    }

    /// The objects of a command that prints one a line.
    fn lines(&self, args: &[&str]) -> Vec<Value> {
        let (out, said) = self.run(args);
        let rows = out.lines().map(serde_json::from_str);
        rows.collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e}: {out}{said}"))
    }

    fn workers(&self) -> Vec<Value> {
        let (out, said) = self.run(&["job-workers", &self.job(), "--json"]);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{said}"))
    }

    fn job(&self) -> String {
        self.head.submissions(JobStatus::Running).remove(0)
    }

    /// Writes to a worker's standard error.
    fn write(&self, worker: &Value, bytes: &[u8]) {
        let files = worker["files"].as_array().unwrap();
        let file = files.iter().find(|file| file.as_str().unwrap().strip_suffix(".err").is_some()).unwrap();
        self.head.write_file(file.as_str().unwrap(), bytes);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn of<'v>(rows: &'v [Value], worker: &Value) -> &'v Value {
    rows.iter().find(|row| row["pid"] == worker["pid"] && row["node_id"] == worker["node_id"]).unwrap()
}

#[test]
fn a_trainers_own_progress_lines_are_known_everywhere() {
    let place = Place::new("2.60.0");
    let (job, worker) = (place.job(), place.workers().remove(0));
    place.write(&worker, b"sweep #4710 has energy x\nsweep #4711 has energy y\n");
    place.head.write_job_log(&job, b"sweep #4711 has energy y\n");
    let step = || of(&place.workers(), &worker)["step"].clone();
    let vitals = || {
        let (out, said) = place.run(&["list-jobs", "--vitals", "--json"]);
        let rows: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{said}"));
        rows.as_array().unwrap().iter().find(|row| row["submission_id"] == *job).unwrap()["vitals"]["step"]
            .clone()
    };
    assert_eq!((step(), vitals()), (Value::Null, Value::Null), "nobody else writes so");
    place.set(&json!({"progress_patterns": ["sweep #(?<step>\\d+)"], "vitals": {"every_seconds": 5}}));
    assert_eq!((step(), vitals()), (4711.into(), 4711.into()));
    let rows = place.lines(&["job-logs", &job, "--workers", "--fold", "--json"]);
    assert!(rows.iter().any(|row| row["step"] == 4711), "{rows:?}");
    // And in the console's table of jobs.
    let command = place.command(&[]);
    let argv: Vec<&str> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(|word| word.to_str().unwrap())
        .collect();
    let home = place.home.path().to_str().unwrap();
    let mut console = Pty::start(&argv, &[("HOME", home), ("RAY_AUTH_TOKEN", TOKEN)], 160, 40);
    let id: String = job.chars().take(8).collect();
    console.wait("the step", |text| text.lines().any(|l| l.contains(&id) && l.contains("step 4,711")));
    console.send("q");
    place.set(&json!({"progress_patterns": ["(?<step>\\d+"]}));
    let (_, said) = place.run(&["job-workers", &job]);
    assert!(said.contains("progress_patterns") && said.contains("(?<step>"), "{said}");
}

#[test]
fn the_lines_that_ray_left_out_are_found_in_the_workers_files() {
    let place = Place::new("2.60.0");
    let (job, workers) = (place.job(), place.workers());
    let slice: Vec<&Value> = workers.iter().filter(|worker| !worker["slice"].is_null()).collect();
    assert_eq!(slice.len(), 4, "{workers:?}");
    for (number, worker) in slice.iter().enumerate() {
        let lines = format!("loading shard {number} of it's 4\nloading shard {number} failed\n");
        place.write(worker, lines.as_bytes());
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
    // A worker that runs a driver of its own has such lines itself.
    place.write(slice[0], format!("{line}\n").as_bytes());
    let (folded, said) = place.run(&["job-logs", &job, "--workers", "--fold"]);
    let stands = format!("stands for 3 lines that Ray left out; --workers -g '{}' finds them", found.pattern);
    assert!(folded.contains(&stands), "{folded}{said}");
}

#[test]
fn nodes_list_their_files_once_until_a_worker_comes() {
    let place = Place::new("2.60.0");
    let endpoint = Endpoint::Direct { dashboard: format!("http://{}", place.head.dashboard), gcs: None };
    let client = {
        let _runtime = place.runtime.enter();
        Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap()
    };
    let (out, _) = place.run(&["list-jobs", "--json"]);
    let jobs: Vec<Value> = serde_json::from_str(&out).unwrap();
    let driver = jobs.iter().find(|job| job["submission_id"] == *place.job()).unwrap()["job_id"].clone();
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
    // A file that is gone: its node lists again, and no other.
    listed.forget(&nodes[1]);
    assert_eq!(read(&mut listed, &nodes).2, 1);
    // A node that was not there.
    let mut fewer = Listed::default();
    read(&mut fewer, &nodes[1..]);
    let (all, _, listings) = read(&mut fewer, &nodes);
    assert!(listings >= 1 && all == first, "{listings}");
    // Another job.
    let gang = place.runtime.block_on(client.gang(&JobId("ff000000".into()), &nodes, &mut listed)).unwrap();
    assert!(gang.workers.is_empty() && gang.requests == 4 + nodes.len(), "{gang:?}");
}

#[test]
fn logs_that_are_not_as_they_should_be_are_read_or_say_why() {
    let place = Place::new("2.60.0");
    let (job, workers) = (place.job(), place.workers());
    let wide: Vec<u8> = "ERROR: wide 'words' -x\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write(&workers[0], &wide);
    // UTF-16, a quote, and a hyphen at the beginning.
    for pattern in ["wide 'words'", "-x$", "--x|-x"] {
        let found = place.lines(&["job-logs", &job, "--workers", "-g", pattern, "--json"]);
        assert_eq!(
            found.iter().map(|l| l["text"].as_str().unwrap()).collect::<Vec<_>>(),
            ["ERROR: wide 'words' -x"]
        );
        let found = place.lines(&["cluster-logs", "--node", "all", "-g", pattern, "--json"]);
        assert_eq!(found.len(), 1, "{pattern}: {found:?}");
    }
    assert_eq!(of(&place.workers(), &workers[0])["line"], "ERROR: wide 'words' -x");
    for command in [&["job-logs", "-g", "a\nb", &job][..], &["cluster-logs", "-g", "a\nb"]] {
        let (_, said) = place.run(command);
        assert!(said.contains("no line has a line break in it; write a|b"), "{said}");
    }
    // Clocks that are wrong by an hour.
    let hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(61);
    let line = format!("{} INFO late\n", hour_ago.strftime("%Y-%m-%d %H:%M:%S,000"));
    place.head.write_job_log(&job, line.as_bytes());
    let (out, said) = place.run(&["job-logs", "--since", "10m", &job]);
    assert!(out.is_empty() && said.contains("no line since then: the newest says "), "{out}{said}");
    assert!(said.contains(" ago by this machine's clock"), "{said}");
    // A log API that fails, for good.
    let fails = |status| {
        place.head.trouble(vec![Trouble { path: "/api/v0/logs/file".into(), fault: Fault::Status(status) }]);
    };
    fails(500);
    for command in [&["job-workers", &job][..], &["job-logs", "--workers", &job]] {
        let (_, said) = place.run(command);
        assert!(
            said.contains("Ray answered HTTP 500 for every file: they are empty, or its log API fails"),
            "{said}"
        );
    }
    let (out, said) = place.run(&["cluster-logs"]);
    assert!(out.is_empty() && said.contains("Ray answered HTTP 500 for every file"), "{out}{said}");
    let (out, said) = place.run(&["job-logs", &job]);
    assert!(out.is_empty() && said.contains("500"), "{out}{said}");
    fails(503);
    let (_, said) = place.run(&["job-workers", &job]);
    let told: Vec<&str> =
        said.lines().filter(|line| line.starts_with("incomplete: cannot read the log of ")).collect();
    assert!(told.len() == 1 && told[0].contains("503") && told[0].contains(", "), "all in a line: {said}");
}
