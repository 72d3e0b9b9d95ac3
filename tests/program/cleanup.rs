//! The cleanup of a cluster's workers, against a Google, a head behind SSH, and hosts whose processes are real and
//! whose `/proc` shows only those that the test has started.

use crate::cloud_fixture::{CloudFixture, WORKER, ZONE, labels};
use crate::program::Ran;
use crate::running::Running;
use crate::until::until;
use marin_tui::demo::google::tpu;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Logins to workers run on this machine, with the test's `/proc` and `/tmp`; one host never responds.
const LOGINS: &str = "case \" $* \" in *\" -T -- 127.\"*) ;; *\" -T -- 10.128.0.3 \"*) \
     echo 'ssh: connect to host 10.128.0.3 port 22: Connection timed out' >&2; exit 255;; *\" -T -- \"*) \
     to=${*#* -T -- }; line=$(printf %s \"${to#* }\" | sed \"s#/proc#$HOME/proc#; s#/tmp/libtpu#$HOME/libtpu#\"); \
     PATH=\"$HOME/nosudo:$PATH\"; exec sh -c \"$line\";; esac\nexec /usr/bin/ssh \"$@\"\n";

/// Processes of a worker, killed at the end of the test.
struct Worker<'a> {
    fixture: &'a CloudFixture,
    pids: Vec<u32>,
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        for pid in &self.pids {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
        }
    }
}

impl<'a> Worker<'a> {
    fn new(fixture: &'a CloudFixture) -> Self {
        fixture.program("ssh", LOGINS);
        fixture.program("nosudo/sudo", "exit 1\n");
        let home = fixture.home.path();
        fs::create_dir_all(home.join("proc")).unwrap();
        // Processes that have just started are skipped, so the host's uptime is longer.
        let up: f64 = fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap();
        fixture.file("proc/uptime", &format!("{:.2} 1.00\n", up + 5000.0));
        fixture.file("accel0", "");
        symlink("/proc/self", home.join("proc/self")).unwrap();
        for (name, program) in
            [("ray::train", "/bin/sleep"), ("raylet", "/bin/sh"), ("trainer", "/bin/sleep")]
        {
            fs::copy(fs::canonicalize(program).unwrap(), home.join(name)).unwrap();
        }
        let node =
            |name: &str, host: &str| tpu::node(ZONE, name, "v4-8", "READY", &labels("worker"), &[host]);
        fixture.double.state().nodes = vec![node("w-0", WORKER)];
        Self { fixture, pids: Vec::new() }
    }

    /// Runs a shell script that starts a background process and prints its pid; the shell exits at once and leaves an
    /// orphan.
    fn starts(&mut self, script: &str, variables: &[(&str, &str)]) -> u32 {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.fixture.home.path()).envs(variables.iter().copied());
        let pid: u32 = String::from_utf8(shell.output().unwrap().stdout).unwrap().trim().parse().unwrap();
        self.pids.push(pid);
        let mut at = pid;
        while at != 0 {
            let link = self.fixture.home.path().join(format!("proc/{at}"));
            if at == pid {
                symlink(format!("/proc/{at}"), link).unwrap();
            } else if !link.exists() {
                // Of an ancestor only `stat` is linked: its open files are not the worker's, and not readable
                // everywhere.
                fs::create_dir(&link).unwrap();
                symlink(format!("/proc/{at}/stat"), link.join("stat")).unwrap();
            }
            let stat = fs::read_to_string(format!("/proc/{at}/stat")).unwrap();
            at = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
        }
        pid
    }

    /// Starts an orphan with that name that holds the file that stands for a TPU.
    fn orphan(&mut self, name: &str, variables: &[(&str, &str)]) -> u32 {
        self.starts(&format!("exec 3<accel0; ./{name} 600 >/dev/null 2>&1 & echo $!"), variables)
    }

    /// Starts a raylet with a worker that holds the file that stands for a TPU; returns the worker's pid.
    fn raylet(&mut self) -> u32 {
        // Start times of processes have a resolution of 10 ms.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let script =
            "exec 3<accel0; ./raylet -c './ray::train 600 & echo $! >worker; wait' >/dev/null 2>&1 & echo $!";
        self.starts(script, &[]);
        let at = self.fixture.home.path().join("worker");
        let pid = until("the raylet has a worker", || fs::read_to_string(&at).ok()?.trim().parse().ok());
        self.pids.push(pid);
        symlink(format!("/proc/{pid}"), self.fixture.home.path().join(format!("proc/{pid}"))).unwrap();
        until("the worker is itself", || {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.trim() == "ray::train")
                .then_some(())
        });
        pid
    }

    fn device(&self) -> PathBuf {
        fs::canonicalize(self.fixture.home.path().join("accel0")).unwrap()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.fixture.command("run-cleanup");
        command.arg("--devices").arg(format!("^{}$", self.device().display())).args(words.split_whitespace());
        command
    }

    fn rows(&self, words: &str) -> (Option<i32>, Vec<Value>, String) {
        let output = self.command(words).arg("--json").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let rows = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{words}: {e}: {said}"));
        (output.status.code(), rows, said)
    }
}

/// Whether the process runs; a zombie does not count.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The job id of the driver of an ended job, or of one that has not ended.
fn job(fixture: &CloudFixture, is_ended: bool) -> String {
    let (_, out, _) = fixture.run("list-jobs --all --json");
    let jobs: Vec<Value> = serde_json::from_str(&out).unwrap();
    let over = |job: &Value| ["succeeded", "failed", "stopped"].contains(&job["status"].as_str().unwrap());
    let fitting = jobs.iter().filter(|job| over(job) == is_ended && job["job_id"].is_string());
    // A job that has just ended may still be ending its processes, so the one that ended first is used.
    let found = fitting.min_by_key(|job| job["ended_ms"].as_i64());
    found.unwrap_or_else(|| panic!("{out}"))["job_id"].as_str().unwrap().to_owned()
}

fn outcomes(rows: &[Value]) -> Vec<(String, String)> {
    let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    rows.iter().filter(|r| r["kind"] != "disk").map(|r| (word(r, "name"), word(r, "outcome"))).collect()
}

#[test]
fn only_processes_that_are_proved_to_be_left_over_are_ended() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.nodes = 2);
    let (over, open) = (job(&fixture, true), job(&fixture, false));
    let mut worker = Worker::new(&fixture);
    let older = worker.orphan("ray::train", &[]);
    let of_raylet = worker.raylet();
    let of_ended = worker.orphan("trainer", &[("RAY_JOB_ID", &over)]);
    let of_living = worker.orphan("trainer", &[("RAY_JOB_ID", &open)]);
    let by_hand = worker.orphan("trainer", &[]);
    let (code, rows, said) = worker.rows("--only processes --dry-run");
    let wanted = |pid: u32, name: &str, outcome: &str| (format!("{pid} {name}"), outcome.to_owned());
    let mut left =
        vec![wanted(older, "ray::train", "would be killed"), wanted(of_ended, "trainer", "would be killed")];
    left.sort_by_key(|(name, _)| name.split(' ').next().unwrap().parse::<u32>().unwrap());
    assert_eq!((code, outcomes(&rows)), (Some(0), left), "{said}");
    let proof = |pid: u32| {
        let row =
            rows.iter().find(|row| row["name"].as_str().unwrap().starts_with(&pid.to_string())).unwrap();
        assert_eq!(row["host"], WORKER);
        row["evidence"].as_str().unwrap().to_owned()
    };
    assert!(
        proof(older).contains("its raylet has exited") && proof(older).contains("accel0"),
        "{}",
        proof(older)
    );
    assert!(proof(of_ended).contains(&format!("its job {over} has ended")), "{}", proof(of_ended));
    assert!(said.contains(&format!(
        "process {of_living} (trainer) uses a TPU and was skipped: its job may still be running"
    )));
    assert!(said.contains(&format!(
        "process {by_hand} (trainer) uses a TPU and was skipped: it was not started by Ray"
    )));
    assert!([older, of_ended].iter().all(|pid| runs(*pid)), "a dry run ends nothing");

    let Ran { code, err: said, .. } =
        Ran::of(&worker.command("--only processes").stdin(Stdio::null()).output().unwrap());
    assert!(
        code == Some(1) && said.contains("use --yes") && said.contains("EVIDENCE"),
        "the table is shown first: {said}"
    );
    let Ran { code, err: said, .. } =
        Ran::of(&worker.command("--only processes -y --read-only").output().unwrap());
    assert!(code == Some(1) && said.contains("run-cleanup refused: read-only"), "{said}");
    let (code, rows, said) = worker.rows("--only processes -y");
    assert_eq!((code, outcomes(&rows).len()), (Some(0), 2), "{said}");
    assert!(outcomes(&rows).iter().all(|(_, outcome)| outcome == "killed"), "{rows:?}");
    assert!(!runs(older) && !runs(of_ended), "they are ended");
    assert!([of_raylet, of_living, by_hand].iter().all(|pid| runs(*pid)), "and nothing else");
    let (_, log, _) = fixture.run("audit");
    assert!(log.contains(&format!("run-cleanup process {older} ray::train on {WORKER}")), "{log}");
    let (code, rows, said) = worker.rows("--only processes -y");
    assert!(code == Some(0) && rows.is_empty() && said.contains("nothing to clean up"), "{said}");
}

#[test]
fn a_lock_file_is_removed_once_no_process_can_hold_a_tpu() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| (s.jobs, s.nodes) = (0, 2));
    let mut worker = Worker::new(&fixture);
    fixture.file("libtpu_lockfile", "");
    let lock = fixture.home.path().join("libtpu_lockfile");
    let by_hand = worker.orphan("trainer", &[]);
    let (_, rows, _) = worker.rows("--only processes -y");
    assert!(rows.is_empty() && lock.exists(), "{rows:?}");
    assert!(Command::new("kill").arg(by_hand.to_string()).status().unwrap().success());
    until("it is gone", || (!runs(by_hand)).then_some(()));
    let (code, rows, said) = worker.rows("--only processes -y");
    assert_eq!(
        (code, rows[0]["kind"].as_str(), rows[0]["outcome"].as_str()),
        (Some(0), Some("lock file"), Some("removed")),
        "{said}"
    );
    assert!(!lock.exists());
}

#[test]
fn a_cleanup_deletes_tpus_and_reports_unreachable_hosts_and_low_disks() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let worker = Worker::new(&fixture);
    let node = |name: &str, state: &str, host: &str| {
        tpu::node(ZONE, name, "v4-8", state, &labels("worker"), &[host])
    };
    fixture
        .double
        .state()
        .nodes
        .extend([node("w-1", "READY", "10.128.0.3"), node("w-2", "PREEMPTED", "10.9.9.9")]);
    // A `df` that reports little free space.
    fixture.program("nosudo/df", "echo head; echo /dev/x 100 97 3072 97% /\n");
    let (code, rows, said) = worker.rows("--dry-run");
    assert_eq!(code, Some(1), "not all hosts were checked: {said}");
    assert!(said.contains("10.128.0.3 was not checked"), "{said}");
    let kinds: Vec<&str> = rows.iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tpu vm", "disk"], "{rows:?}");
    assert!(
        rows[1]["hint"].as_str().unwrap().contains(&format!(" -c marin-a ssh {WORKER} -- 'df -h")),
        "{}",
        rows[1]
    );
    assert_eq!(fixture.double.requests_with("DELETE"), 0);
    let (code, rows, said) = worker.rows("--only tpus -y");
    assert_eq!((code, rows[0]["outcome"].as_str()), (Some(0), Some("deleted")), "{said}");
    assert_eq!(fixture.deletions().len(), 1);

    let mut repeating = Running::start({
        let mut command = worker.command("--only processes --only disk -y");
        command.args(["--interval", "1s"]);
        command
    });
    for _ in 0..2 {
        let line = repeating.out.next();
        let is_reported = line.contains("10.128.0.3 was not checked");
        assert!(line.starts_with("20") && is_reported, "{line}");
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&repeating.child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let (code, _, said) = repeating.finish();
    assert!(code == Some(0) && said.contains("cleanup stopped"), "{said}");
    for wrong in [
        "--interval 0",
        "--interval ten",
        "--interval 10m --interval 5m",
        "--only disks",
        "--interval 5 --dry-run",
        "--yes --yes",
    ] {
        assert_eq!(worker.command(wrong).output().unwrap().status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn without_ray_no_job_counts_as_ended_and_without_ssh_no_host_is_checked() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let over = job(&fixture, true);
    let mut worker = Worker::new(&fixture);
    worker.raylet();
    let of_ended = worker.orphan("trainer", &[("RAY_JOB_ID", &over)]);
    fixture.program(
        "ssh",
        &LOGINS.replace(
            "exec /usr/bin/ssh",
            "case \" $* \" in *\" -G \"*) exec /usr/bin/ssh \"$@\";; esac; exit 255 #",
        ),
    );
    let (code, rows, said) = worker.rows("--only processes -y");
    assert!(code == Some(1) && rows.is_empty(), "{rows:?}");
    assert!(said.contains("no job counts as ended") && runs(of_ended), "{said}");
    fs::remove_file(fixture.home.path().join("ssh")).unwrap();
    let (code, _, said) = worker.rows("--only processes -y");
    assert!(code == Some(1) && said.contains("was not checked"), "{said}");
}
