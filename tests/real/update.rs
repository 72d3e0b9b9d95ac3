//! `marin-tui update-cluster` on a real Ray: the cluster file is compared with what Ray has written to its head, a
//! raised limit adds a worker while jobs run, and a change that requires a restart is applied only if that is allowed.

use crate::bed::{Bed, Ray, YAML};
use crate::until::until;
use marin_tui::model::amount::counted;
use serde_json::Value;
use std::process::Output;

/// Directory of the test's own cluster files.
const OURS: &str = "/home/ray/infra-update";

/// Runs the program on the client with the test's own cluster file.
fn run(bed: Bed, args: &[&str]) -> Output {
    let mut command = bed.command("client", &[env!("CARGO_BIN_EXE_marin-tui"), "--infra", OURS]);
    command.args(args).output().unwrap()
}

fn exits(bed: Bed, code: i32, args: &[&str]) -> (String, String) {
    let out = run(bed, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(code), "{args:?}: {stdout}\n{stderr}");
    (stdout, stderr)
}

fn session(bed: Bed) -> String {
    bed.api("/api/version")["session_name"].as_str().unwrap().to_owned()
}

/// Number of jobs that have not ended, as a step of an operation counts them. Earlier tests may have left a pending
/// one, because Ray ignores a request to stop a job that has not started (ray-project/ray#58353).
fn jobs_not_ended(bed: Bed) -> String {
    let jobs = bed.api("/api/jobs/");
    let left = |job: &&Value| job["status"] == "RUNNING" || job["status"] == "PENDING";
    counted(jobs.as_array().unwrap().iter().filter(left).count(), "job")
}

fn alive(bed: Bed) -> Vec<String> {
    let (nodes, _) = exits(bed, 0, &["list-nodes", "--json"]);
    let nodes: Vec<Value> = serde_json::from_str(&nodes).unwrap();
    let workers = nodes.iter().filter(|node| node["head"] == false);
    workers.map(|node| node["address"].as_str().unwrap().to_owned()).collect()
}

/// A copy of the bed's own cluster file, which the test edits in [`OURS`].
struct File(Bed, String);

impl File {
    fn new(bed: Bed) -> Self {
        let _ = bed.program(&["restart-cluster", "--abandon"]).output().unwrap();
        let file = Self(bed, bed.read(YAML));
        file.write();
        let _ = run(bed, &["update-cluster", "--abandon"]);
        file
    }

    fn write(&self) {
        self.0.write(&format!("{OURS}/marin-bed.yaml"), &self.1);
    }

    fn edit(&mut self, from: &str, to: &str) {
        assert!(self.1.contains(from), "{}", self.1);
        self.1 = self.1.replace(from, to);
        self.write();
    }

    /// Removes the mount by which the bed copies this machine's launcher state to the head. A running head keeps its
    /// own.
    fn without_state(&mut self) {
        self.edit("  \"/tmp/ray/cluster-marin-bed.state\": \"/tmp/ray/cluster-marin-bed.state\"\n", "");
    }
}

#[test]
fn a_limit_of_the_newest_ray_is_applied_while_a_job_runs() {
    let bed = Bed::restarted(Ray::Newest);
    let mut file = File::new(bed);
    // An earlier run of this test left other settings on the head.
    let matches = || exits(bed, 0, &["update-cluster"]).1;
    if !matches().contains("matches its cluster file") {
        let _ = exits(bed, 0, &["restart-cluster", "--yes", "--others"]);
    }
    let output = matches();
    assert!(output.contains("matches its cluster file"), "{output}");
    let (before, workers) = (session(bed), alive(bed));
    let job = bed.submit("update", "sleep 3600");
    bed.job_becomes(&job, "RUNNING");
    file.without_state();
    file.edit("idle_timeout_minutes: 5", "idle_timeout_minutes: 60");
    let (output, _) = exits(bed, 0, &["update-cluster", "--dry-run"]);
    assert!(output.contains("idle_timeout_minutes (applies immediately)\n  5 -> 60"), "{output}");
    let (_, output) = exits(bed, 0, &["update-cluster", "--yes"]);
    let done = format!("[4/4] Ray was not restarted; {} as before; 2 workers as before", jobs_not_ended(bed));
    assert!(output.contains(&done), "{output}");
    assert_eq!((session(bed), alive(bed)), (before, workers));
    assert_eq!(bed.job(&job)["status"], "RUNNING");
    let (_, output) = exits(bed, 0, &["update-cluster"]);
    assert!(output.contains("matches its cluster file"), "{output}");
    exits(bed, 0, &["stop-job", "--yes", "--others", &job]);
}

#[test]
fn the_oldest_ray_is_restarted_only_if_allowed_and_a_raised_limit_brings_a_worker() {
    let bed = Bed::restarted(Ray::Oldest);
    let mut file = File::new(bed);
    let job = bed.submit("update", "sleep 3600");
    bed.job_becomes(&job, "RUNNING");
    let before = session(bed);
    // A third host, and a further setup command of the head.
    file.without_state();
    file.edit("[10.77.0.2, 10.77.0.3]", "[10.77.0.2, 10.77.0.3, 10.77.0.4]");
    file.edit("setup_commands:\n", "setup_commands:\n  - touch ~/was-set-up\n");
    let (output, error) = exits(bed, 1, &["update-cluster", "--yes", "--others"]);
    assert!(
        output.contains("setup_commands (requires a restart of Ray)\n  + touch ~/was-set-up"),
        "{output}"
    );
    assert!(error.contains("provider.worker_ips") && error.contains("--restart-ray"), "{error}");
    assert_eq!((session(bed), bed.job(&job)["status"].as_str()), (before.clone(), Some("RUNNING")));
    let restored = format!("{} restored", jobs_not_ended(bed));
    let (_, output) = exits(bed, 0, &["update-cluster", "--restart-ray", "--yes", "--others"]);
    assert!(output.contains(&restored), "{output}");
    assert_ne!(session(bed), before);
    bed.job_becomes(&job, "RUNNING");
    bed.on("head", &["test", "-e", "was-set-up"]);
    until("two workers are back", || (alive(bed).len() == 2).then_some(()));

    let before = session(bed);
    file.edit("min_workers: 2", "min_workers: 3");
    file.edit("max_workers: 2", "max_workers: 3");
    let (output, _) = exits(bed, 0, &["update-cluster", "--dry-run"]);
    assert!(output.contains("max_workers (applies immediately)\n  2 -> 3"), "{output}");
    let (_, output) = exits(bed, 0, &["update-cluster", "--yes"]);
    let done = format!("Ray was not restarted; {} as before; 2 workers as before", jobs_not_ended(bed));
    assert!(output.contains(&done), "{output}");
    until("the autoscaler starts the third", || alive(bed).contains(&"10.77.0.4".to_owned()).then_some(()));
    assert_eq!((session(bed), bed.job(&job)["status"].as_str()), (before, Some("RUNNING")));

    // The launcher of another machine does not know the head: it would start a new Ray.
    file.edit("idle_timeout_minutes: 5", "idle_timeout_minutes: 60");
    bed.on("client", &["mv", "/tmp/ray/cluster-marin-bed.state", "/tmp/ray/kept"]);
    let (_, output) = exits(bed, 1, &["update-cluster", "--yes"]);
    assert!(
        output.contains("the head of marin-bed") && output.contains("abandon this operation"),
        "{output}"
    );
    assert_eq!(bed.job(&job)["status"], "RUNNING");
    bed.on("client", &["mv", "/tmp/ray/kept", "/tmp/ray/cluster-marin-bed.state"]);
    // With different login settings the launcher would replace its head: it asks, and the answer is no.
    exits(bed, 0, &["update-cluster", "--abandon"]);
    let proxy = "bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3; kill $!'";
    file.edit("  ssh_user: ray\n", &format!("  ssh_user: ray\n  ssh_proxy_command: {proxy}\n"));
    let (_, output) = exits(bed, 1, &["update-cluster", "--yes"]);
    assert!(output.contains("replaced the head's machine"), "{output}");
    assert_eq!(bed.job(&job)["status"], "RUNNING");
    exits(bed, 0, &["update-cluster", "--abandon"]);
    // The head knows a host and settings that the bed's own file lacks.
    bed.remove();
}
