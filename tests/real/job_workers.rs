//! Workers of a job on a real Ray cluster of three hosts: which one is silent, which one failed first, and what their
//! log files contain.

use crate::bed::{Bed, Job, Ray, TIMEOUT};
use crate::pty::Pty;
use crate::until::until;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Stdio;

/// Twelve actors, spread over all hosts. In mode `ends` each one finishes after step 50; in `stall` rank 7 stops
/// at step 5; in `raise` rank 5 raises at step 10, and the others raise four seconds later, as if they had lost their
/// connection to it.
const GANG: &str = r#"
import logging, sys, time
import ray

@ray.remote(num_cpus=0)
class Member:
    def __init__(self, rank):
        self.rank = rank
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True)

    def ready(self):
        return self.rank

    def train(self, mode):
        for step in range(100_000):
            logging.info(f"step {step} loss {1 / (step + 1):.3f}")
            print("rank", self.rank, "has done", step, flush=True)
            if mode == "stall" and self.rank == 7 and step == 5:
                time.sleep(100_000)
            if mode == "raise" and step == 10:
                if self.rank == 5:
                    logging.error("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm")
                    raise RuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm")
                time.sleep(4)
                logging.error("UNAVAILABLE: Connection reset by peer: task 5")
                raise ConnectionError("UNAVAILABLE: Connection reset by peer: task 5")
            if mode == "ends" and step == 50:
                return
            time.sleep(0.5)

ray.init(log_to_driver=False)
members = [Member.options(scheduling_strategy="SPREAD").remote(rank) for rank in range(12)]
ray.get([member.ready.remote() for member in members])
ray.get([member.train.remote(sys.argv[1]) for member in members])
"#;

/// Submits [`GANG`] in one of these modes.
fn submit(bed: Bed, mode: &str) -> Job {
    let script = GANG.replace('\n', "\\n").replace('\'', "\\x27").replace('"', "\\\"");
    let entrypoint = format!("python -c \"exec('{script}')\" {mode}");
    bed.start(mode, &entrypoint)
}

fn json_of(bed: Bed, args: &[&str]) -> Value {
    let out = bed.program(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Rows of `job-workers` that run the class of [`GANG`].
fn rows(bed: Bed, id: &str) -> Vec<Value> {
    let all = json_of(bed, &["job-workers", id, "--json"]);
    all.as_array().unwrap().iter().filter(|row| row["name"] == "Member").cloned().collect()
}

/// Opens the console and selects a job.
fn console(bed: Bed, id: &str) -> Pty {
    let mut console = bed.console(160, 50);
    console.wait_for("connection", TIMEOUT, |text| text.contains("● up") && text.contains(" alive"));
    console.send(&format!("2/{id}\r"));
    console.wait_text(&format!("/{id}"));
    console
}

/// The worker list in the console: the silent worker is first.
fn the_console_shows_the_silent_worker(bed: Bed, stalled: &str, pid: &str) {
    let mut console = console(bed, stalled);
    console.send("w");
    console.wait_for("the worker list", TIMEOUT, |text| {
        let first = text.lines().skip_while(|line| !line.contains("LAST LINE")).nth(1);
        text.contains("silent") && first.is_some_and(|line| line.split_whitespace().any(|word| word == pid))
    });
    // Follow the logs of all workers: lines of at least two hosts are shown.
    console.send("f");
    console.wait_for("lines of workers on two hosts", TIMEOUT, |text| {
        let of = |host: &str| text.lines().any(|line| line.contains(host) && line.contains(" INFO step "));
        text.contains(" logs ") && ["head/", "w1/", "w2/"].into_iter().filter(|host| of(host)).count() >= 2
    });
}

/// The console shows the first cause and searches all logs; a match opens at its line.
fn the_console_shows_the_first_failure(bed: Bed, failed: &str, pid: &str) {
    let mut console = console(bed, failed);
    console.send("w4");
    console.wait_for("the first cause", TIMEOUT, |text| {
        text.lines().any(|line| line.contains("RESOURCE_EXHAUSTED") && line.contains(&format!("/{pid}")))
    });
    console.send("\x1b\x1bg/RESOURCE_EXHAUSTED: Ran out of memory in\r");
    console.wait_for("matches", TIMEOUT, |text| {
        text.contains("Search results") && text.contains(&format!("/{pid}"))
    });
    console.send(&format!("/{pid}\r\r"));
    console.wait_for("the line in its log", TIMEOUT, |text| {
        text.lines().any(|line| line.contains('▸') && line.contains("RESOURCE_EXHAUSTED: Ran out of memory"))
    });
}

/// Follows the output of all workers from their first line to the end of the job, although the connection to one host
/// is lost in between.
fn no_line_of_any_worker_is_lost(bed: Bed) {
    let gang = submit(bed, "ends");
    let args = ["job-logs", gang.id.as_str(), "--workers", "-f", "-n", "all", "--json"];
    let mut follow = bed.program(&args);
    let follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ssh = "[m]arin-tui-follow-logs";
    let host = until("a worker's host is followed", || {
        // pgrep fails if there is no such process.
        let follows = |host: &&str| bed.on(host, &["sh", "-c", "pgrep -f $0 || echo none", ssh]) != "none\n";
        ["w1", "w2"].into_iter().find(follows)
    });
    bed.on(host, &["pkill", "-f", ssh]);
    let out = follow.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{stderr}");
    assert!(stderr.contains("logs interrupted") && stderr.contains("logs resumed"), "{stderr}");
    let mut steps: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for line in String::from_utf8(out.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let words: Vec<&str> = line["text"].as_str().unwrap().split(' ').collect();
        if let ["rank", rank, "has", "done", step] = words[..] {
            let worker = (rank.parse().unwrap(), line["pid"].as_u64().unwrap());
            steps.entry(worker).or_default().push(step.parse().unwrap());
        }
    }
    assert_eq!(steps.len(), 12, "{stderr}");
    for (worker, steps) in steps {
        assert_eq!(steps, (0..=50).collect::<Vec<_>>(), "of {worker:?}: {stderr}");
    }
}

#[test]
fn all_workers_are_followed_on_the_newest_ray() {
    no_line_of_any_worker_is_lost(Bed::shared(Ray::Newest));
}

#[test]
fn all_workers_are_followed_on_the_oldest_ray() {
    no_line_of_any_worker_is_lost(Bed::shared(Ray::Oldest));
}

fn a_stalled_and_a_failed_worker_are_found(bed: Bed) {
    let gang = submit(bed, "stall");
    let stalled = gang.id.as_str();
    let rows = until("the stalled worker is silent", || {
        let job = bed.job(stalled);
        assert_ne!(job["status"], "FAILED", "{job}");
        let rows = rows(bed, stalled);
        (rows.len() == 12 && rows[0]["note"] == "silent").then_some(rows)
    });
    assert_eq!(rows[0]["step"], 5, "{}", rows[0]);
    assert!(rows[1..].iter().all(|row| row["note"] != "silent" && row["state"] == "running"), "{rows:?}");
    let hosts: std::collections::BTreeSet<&str> =
        rows.iter().map(|row| row["node_id"].as_str().unwrap()).collect();
    assert!(hosts.len() >= 2, "{hosts:?}");
    let explained = json_of(bed, &["explain-job", stalled, "--json"]);
    assert_eq!(explained["verdict"], "silent", "{explained}");
    let worker = format!("{}/{}", rows[0]["host"].as_str().unwrap(), rows[0]["pid"]);
    assert!(explained["summary"].as_str().unwrap().contains(&worker), "{explained}");
    let folded = bed.program(&["job-logs", stalled, "--workers", "--fold", "-n", "20"]).output().unwrap();
    let folded = String::from_utf8_lossy(&folded.stdout).into_owned();
    assert!(folded.contains("missing: "), "{folded}");
    let searched = |words: &[&str]| {
        let found =
            bed.program(&[&["cluster-logs", "--node", "all", "-g"], words].concat()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&found.stdout), text(&found.stderr))
    };
    let (found, stderr) = searched(&["rank 7 has done 5$", "--file", "worker-*"]);
    // One file of this job; another run of this test may have left others.
    let heading = format!("-{}.out <==", rows[0]["pid"]);
    assert_eq!(found.lines().filter(|line| line.ends_with(&heading)).count(), 1, "{found}{stderr}");
    assert!(stderr.contains("searched: all of ") && !stderr.contains("not searched"), "{stderr}");
    // A search on the hosts and a search through the dashboard find the same lines.
    let (whole, stderr) = searched(&["has done [0-2]$", "--file", "worker-*"]);
    assert!(whole.matches("has done").count() >= 36, "{stderr}");
    let (ends, stderr) = searched(&["has done [0-2]$", "--file", "worker-*", "-n", "100000"]);
    assert!(stderr.contains("searched: the last 100,000 lines of "), "{stderr}");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&whole), sorted(&ends));
    the_console_shows_the_silent_worker(bed, stalled, &rows[0]["pid"].to_string());
    bed.post(&format!("/api/jobs/{stalled}/stop"), &json!({}));
    bed.job_becomes(stalled, "STOPPED");

    let gang = submit(bed, "raise");
    let failed = gang.id.as_str();
    bed.job_becomes(failed, "FAILED");
    let explained = json_of(bed, &["explain-job", failed, "--json"]);
    let first = &explained["first"];
    assert!(explained["verdict"] == "failed" && first["kind"] == "out of device memory", "{explained}");
    let file = bed.program(&["job-logs", failed, "--workers", "-g", "RESOURCE_EXHAUSTED", "--json"]).output();
    let file = String::from_utf8(file.unwrap().stdout).unwrap();
    let line: Value = serde_json::from_str(file.lines().next().expect("a worker logged it")).unwrap();
    let process = format!("{}/{}", line["host"].as_str().unwrap(), line["pid"]);
    assert_eq!(first["process"], process, "{explained}");
    the_console_shows_the_first_failure(bed, failed, &line["pid"].to_string());
}

#[test]
fn stalled_and_failed_workers_are_found_on_the_newest_ray() {
    a_stalled_and_a_failed_worker_are_found(Bed::shared(Ray::Newest));
}

#[test]
fn stalled_and_failed_workers_are_found_on_the_oldest_ray() {
    a_stalled_and_a_failed_worker_are_found(Bed::shared(Ray::Oldest));
}
