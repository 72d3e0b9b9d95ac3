//! Cleanup of a real Ray's workers over real ssh: processes that an ended job left behind are ended, those of a running
//! job are kept.

use crate::bed::{Bed, Ray};
use crate::until::until;
use serde_json::Value;
use std::process::Output;

/// A job whose task leaves a process behind that holds a stand-in for a TPU; the job ends.
const LEAVES: &str = "python -c \"import ray, subprocess; ray.init(); \
    leave = lambda: subprocess.run(['sh', '-c', 'touch /tmp/accel-left; (exec 3</tmp/accel-left; exec setsid sleep 7001) >/dev/null 2>&1 &']); \
    ray.get(ray.remote(num_cpus=0, resources={'TPU': 1})(leave).remote())\"";
/// A job whose task holds such a stand-in, in a separate process, while the job runs.
const HOLDS: &str = "python -c \"import ray, subprocess; ray.init(); \
    hold = lambda: subprocess.run(['sh', '-c', 'touch /tmp/accel-held; exec 3</tmp/accel-held; exec sleep 7002']); \
    ray.get(ray.remote(num_cpus=0, resources={'TPU': 1})(hold).remote())\"";

fn cleanup(bed: Bed, words: &[&str]) -> Output {
    let common = ["run-cleanup", "--only", "processes", "--devices", "^/tmp/accel-", "--json"];
    bed.program(&[&common[..], words].concat()).output().unwrap()
}

/// Number of `sleep` processes with this duration on both workers.
fn sleeping(bed: Bed, seconds: &str) -> usize {
    let on = |host| {
        let out = bed.command(host, &["pgrep", "-fx", &format!("sleep {seconds}")]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).lines().count()
    };
    on("w1") + on("w2")
}

#[test]
fn leftover_processes_on_a_worker_are_ended_and_running_ones_are_kept() {
    let bed = Bed::shared(Ray::Newest);
    let holds = bed.submit("holds", HOLDS);
    until("the task of the running job has started", || sleeping(bed, "7002") == 1);
    let leaves = bed.submit("leaves", LEAVES);
    bed.job_becomes(&leaves, "SUCCEEDED");
    assert_eq!(sleeping(bed, "7001"), 1, "it outlives its job");
    // One minute after the end of the job.
    let found = until("it counts as left over", || {
        let planned = cleanup(bed, &["--dry-run"]);
        let rows: Value = serde_json::from_slice(&planned.stdout).unwrap();
        rows.as_array()
            .unwrap()
            .first()
            .cloned()
            .map(|row| (row, String::from_utf8_lossy(&planned.stderr).into_owned()))
    });
    let (row, stderr) = found;
    assert!(row["name"].as_str().unwrap().ends_with(" sleep"), "{row}: {stderr}");
    let evidence = row["evidence"].as_str().unwrap();
    assert!(evidence.contains("has ended") && evidence.contains("/tmp/accel-left"), "{evidence}");
    assert_eq!((sleeping(bed, "7001"), sleeping(bed, "7002")), (1, 1), "a dry run ends nothing");

    let done = cleanup(bed, &["-y"]);
    let rows: Value = serde_json::from_slice(&done.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["outcome"]), (1, &"killed".into()), "{rows:?}");
    // The cluster file lists a host that does not exist.
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.matches("was not checked").count(), 1, "{stderr}");
    assert!(stderr.contains("10.77.0.250 was not checked"), "{stderr}");
    assert_eq!((sleeping(bed, "7001"), sleeping(bed, "7002")), (0, 1));
    assert_eq!(bed.job(&holds)["status"], "RUNNING");

    // A worker whose login fails is named. Its link is not cut, because Ray would report the node dead, and the bed
    // would be rebuilt for the next test.
    bed.sshd_stop("w2");
    let refused = cleanup(bed, &["--dry-run"]);
    bed.sshd_start("w2");
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && stderr.contains("10.77.0.3 was not checked"), "{stderr}");
    assert!(bed.program(&["stop-job", "--yes", "--others", &holds]).status().unwrap().success());
}
