//! `marin-tui stacks` and `W` on a real Ray: among 24 workers on three hosts, the stuck one is distinguished from those
//! that are slow, in native code, killed or not readable by py-spy. Stacks are read through Ray where its head provides
//! them (2.53), and over ssh where it does not (2.60).

use crate::bed::{Bed, Job, Ray, TIMEOUT};
use crate::until::until;
use serde_json::Value;
use std::collections::BTreeSet;

/// Number of workers that are in their methods; the 24th is killed.
const WORKERS: usize = 23;

/// A group of actors, one of which waits forever.
const GANG: &str = "import ray, ctypes, os, threading, time
ray.init()
@ray.remote(num_cpus=0.01, scheduling_strategy='SPREAD')
class W:
    def train(self):
        while True:
            time.sleep(0.5)
    def stuck(self):
        threading.Event().wait()
    def slow(self):
        time.sleep(1)
        self.slow()
    def native(self):
        ctypes.CDLL(None).sleep(3600)
    def killed(self):
        os.kill(os.getpid(), 9)
    def closed(self):
        ctypes.CDLL(None).prctl(4, 0)
        time.sleep(3600)
ws = [W.remote() for _ in range(24)]
does = {17: 'stuck', 5: 'slow', 9: 'native', 11: 'killed', 13: 'closed'}
going = [getattr(w, does.get(i, 'train')).remote() for i, w in enumerate(ws)]
ray.wait(going, num_returns=24)
";

/// The group whose workers are in this method.
fn group<'a>(found: &'a Value, method: &str) -> &'a Value {
    let is_it =
        |group: &&Value| group["top_frame"].as_str().unwrap().contains(&format!("{method} (gang.py:"));
    found["groups"].as_array().unwrap().iter().find(is_it).unwrap_or(&Value::Null)
}

fn start(bed: Bed) -> Job {
    let job = bed.start("stacks", &format!("cat >gang.py <<'END'\n{GANG}END\nexec python gang.py"));
    bed.job_becomes(&job.id, "RUNNING");
    job
}

/// Reads the stacks of a job until they satisfy this condition.
fn stacks(bed: Bed, job: &Job, what: &str, is_true: impl Fn(&Value) -> bool) -> Value {
    until(what, || {
        let out = bed.program(&["stacks", &job.id, "--json"]).output().unwrap();
        // Shown if the time limit expires.
        let stderr = String::from_utf8_lossy(&out.stderr);
        let found = serde_json::from_slice(&out.stdout).ok().filter(|found| is_true(found));
        if found.is_none() {
            eprintln!("not yet: {what}: {stderr}{}", String::from_utf8_lossy(&out.stdout));
        }
        found
    })
}

/// Why the stacks of workers were not read.
fn unread(found: &Value) -> Vec<&str> {
    found["unread"].as_array().unwrap().iter().map(|worker| worker["reason"].as_str().unwrap()).collect()
}

fn the_stuck_worker_is_found(bed: Bed, job: &Job, through: &str) {
    let found = stacks(bed, job, "all workers are in their methods", |found| {
        let count = |method: &str| group(found, method)["count"].as_u64();
        let counts = ["train", "stuck", "slow", "native"].map(count);
        found["workers"] == WORKERS && counts == [Some(19), Some(1), Some(1), Some(1)]
    });
    assert_eq!(found["source"], through, "{found}");
    let at = |method: &str| group(&found, method)["top_frame"].as_str().unwrap();
    assert!(at("train").contains("gang.py:7)") && at("stuck").contains("gang.py:9)"), "{found}");
    assert_eq!(unread(&found).len(), 1, "{found}");
    assert!(unread(&found)[0].contains("py-spy has no permission"), "{found}");
    let all = group(&found, "train")["workers"].as_array().unwrap();
    let hosts: BTreeSet<_> = all.iter().map(|worker| worker["address"].as_str().unwrap()).collect();
    assert!(hosts.len() > 1, "{hosts:?}");

    // Two samples distinguish slow from stuck; a worker in native code is shown at the line that called it.
    let out = bed.program(&["stacks", &job.id, "--interval", "2s"]).output().unwrap();
    let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1), "one could not be read: {stdout}");
    let line = |method: &str| {
        let line = stdout.lines().find(|line| line.contains(&format!("{method} (gang.py:")));
        line.unwrap_or_else(|| panic!("{method}: {stdout}")).trim()
    };
    for method in ["stuck", "slow", "native"] {
        let pace = if method == "slow" { "changed between samples" } else { "same in both samples" };
        assert!(line(method).starts_with("1  ! ") && line(method).ends_with(pace), "{stdout}");
    }
    let pid = group(&found, "stuck")["workers"][0]["pid"].to_string();
    assert!(stdout.contains(&format!("pid {pid} W")), "{stdout}");
}

#[test]
fn stacks_are_read_over_ssh_where_the_head_provides_none() {
    let bed = Bed::shared(Ray::Newest);
    let job = start(bed);
    the_stuck_worker_is_found(bed, &job, "ssh");

    // The same in the console, by one key.
    let mut console = bed.console(160, 50);
    console.wait_for("connection", TIMEOUT, |text| text.contains("● up") && text.contains(" alive"));
    console.send(&format!("2/{}\r", job.id));
    console.wait_text(&format!("/{}", job.id));
    console.send("W");
    let shows = |text: &str, location: &str, pace: &str| {
        text.lines().any(|line| line.contains(location) && line.contains(pace))
    };
    console.wait_for("both samples", TIMEOUT, |text| {
        shows(text, "stuck (gang.py:9)", "same in both samples")
            && shows(text, "slow (gang.py:", "changed between samples")
    });
    drop(console);

    // The raylets of all hosts, one of which is stopped; Ray reports it dead only later.
    let found = stacks(bed, &job, "the raylets of three hosts", |found| {
        let raylets = found["raylets"].as_array().unwrap();
        raylets.len() == 3 && raylets.iter().all(|raylet| raylet["problem"].is_null())
    });
    let of_w1 =
        found["raylets"].as_array().unwrap().iter().find(|raylet| raylet["address"] == "10.77.0.2").unwrap();
    assert!(of_w1["threads"].as_array().unwrap().len() > 5, "{found}");
    bed.on_root("w1", &["pkill", "-STOP", "-x", "raylet"]);
    let out = bed.program(&["stacks", &job.id]).output().unwrap();
    bed.on_root("w1", &["pkill", "-CONT", "-x", "raylet"]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    let named = format!("(10.77.0.2) pid {}: stopped by a signal or a debugger", of_w1["pid"]);
    assert!(stdout.lines().any(|line| line.starts_with("raylets: ! ") && line.ends_with(&named)), "{stdout}");

    // A host without py-spy: its workers are reported with the command that installs it, and the others are read.
    let path = bed.on("w2", &["sh", "-c", "command -v py-spy"]);
    bed.on_root("w2", &["mount", "--bind", "/dev/null", path.trim()]);
    let found = stacks(bed, &job, "w2 is not read", |found| unread(found).len() > 1);
    bed.on_root("w2", &["umount", path.trim()]);
    let reasons = unread(&found);
    let missing = reasons.iter().filter(|why| why.contains("pip install 'ray[default]'"));
    assert!(missing.count() + 1 >= reasons.len(), "{reasons:?}");
    assert!(group(&found, "train")["count"].as_u64() > Some(5), "{found}");
}

#[test]
fn stacks_are_read_through_the_oldest_ray_whose_head_provides_them() {
    let bed = Bed::shared(Ray::Oldest);
    the_stuck_worker_is_found(bed, &start(bed), "ray");
}
