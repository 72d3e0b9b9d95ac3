//! Partial failures of a real Ray behind a real sshd, in the console and in commands: links that are cut, a dashboard
//! that hangs while the GCS answers, requests whose delivery is unknown.

use crate::bed::{self, Bed, Ray};
use crate::pty::Pty;
use crate::running::{Running, count};
use crate::until::until;
use std::time::Duration;

/// Time limit for a reconnection on two busy cores.
const LONG: Duration = Duration::from_secs(90);
/// Prints a number twice a second, starting at 1.
const TICKS: &str = "for i in $(seq 1 100000); do printf 'ti%s=%d\\n' ck $i; sleep 0.5; done";
/// State directory that a console writes; the next console must start without it.
const STATE: &str = ".local/state/marin-tui";

fn command(bed: Bed, words: &[&str]) -> Running {
    Running::start(bed.program(words))
}

fn open(bed: Bed) -> Pty {
    bed.on("client", &["rm", "-rf", STATE, ".cache/marin-tui"]);
    bed.console(200, 50)
}

fn connected(bed: Bed) -> Pty {
    let console = open(bed);
    console.wait_for("connection", LONG, |text| text.contains("● up") && text.contains(" alive"));
    console
}

/// Shows the log of a job.
fn follow(console: &mut Pty, job: &str) {
    console.send(&format!("2/{job}\r"));
    console.wait_text(&format!("/{job}"));
    console.send("l");
    console.wait_text(&format!("─ Log {job}"));
}

/// A job that runs until the end of the test.
struct Job {
    bed: Bed,
    id: String,
}

impl Job {
    fn new(bed: Bed, entrypoint: &str) -> Self {
        let id = bed.submit("fault", entrypoint);
        let job = Self { bed, id };
        bed.job_becomes(&job.id, "RUNNING");
        job
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let stop = format!("ray job stop --no-wait --address http://127.0.0.1:8265 {}", self.id);
        let _ = self.bed.command("head", &["sh", "-c", &stop]).output();
    }
}

/// The head's network link, cut until this value is dropped.
struct Cut(Bed);

impl Cut {
    fn new(bed: Bed) -> Self {
        bed.cut("head");
        Self(bed)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.0.heal("head");
    }
}

/// A process on the head, stopped until this value is dropped.
struct Frozen {
    bed: Bed,
    signal: fn(&Bed, &str),
}

impl Frozen {
    fn new(bed: Bed, signal: fn(&Bed, &str)) -> Self {
        signal(&bed, "STOP");
        Self { bed, signal }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        (self.signal)(&self.bed, "CONT");
    }
}

#[test]
fn commands_that_follow_survive_a_cut_link_and_a_killed_ssh() {
    let bed = Bed::shared(Ray::Newest);
    let ticking = Job::new(bed, TICKS);
    let mut log = command(bed, &["job-logs", "-f", &ticking.id]);
    let mut wait = command(bed, &["wait-job", &ticking.id]);
    log.out.until("tick=3");
    wait.err.until("waiting for");
    // Cut for longer than ssh's own timeout for a head that does not answer.
    let cut = Cut::new(bed);
    log.err.until("connection lost");
    wait.err.until("connection lost");
    drop(cut);
    log.err.until("reconnected after");
    wait.err.until("reconnected after");
    bed.signal("KILL", "ssh");
    log.err.until_times("reconnected after", 2);
    wait.err.until_times("reconnected after", 2);
    let before = count(&log.out.all, "tick=");
    log.out.until(&format!("tick={}", before + 20));
    let stop = command(bed, &["stop-job", "--yes", "--others", &ticking.id]).finish();
    assert_eq!(stop.0, Some(0), "{stop:?}");
    let ((followed, lines, log_stderr), (waited, _, wait_stderr)) = (log.finish(), wait.finish());
    // Neither 0 nor the code for an error of the command itself: the job was stopped.
    assert_eq!((followed, waited), (Some(3), Some(3)), "{log_stderr:?} {wait_stderr:?}");
    let numbers: Vec<usize> = lines.lines().filter_map(|l| l.strip_prefix("tick=")?.parse().ok()).collect();
    let whole: Vec<usize> = (1..=numbers.len()).collect();
    assert_eq!(numbers, whole, "no line is lost or repeated");
    for stderr in [log_stderr, wait_stderr] {
        assert_eq!(count(&stderr, "connection lost"), 2, "each loss is reported once: {stderr:?}");
    }
}

#[test]
fn a_quiet_log_is_followed_again_as_soon_as_the_cluster_is_up() {
    let bed = Bed::shared(Ray::Newest);
    let quiet = Job::new(bed, "echo the-only-line; sleep 3600");
    let mut console = connected(bed);
    follow(&mut console, &quiet.id);
    console.wait_text("the-only-line");
    console.wait("the log, live", |text| !text.contains("INTERRUPTED"));
    bed.signal("KILL", "ssh");
    console.wait_for("the interruption", LONG, |text| text.contains("INTERRUPTED"));
    // The job prints nothing: only the connection shows that the log is live.
    console.wait_for("the log, live again", LONG, |text| {
        text.contains("● up") && text.contains("the-only-line") && !text.contains("INTERRUPTED")
    });
}

#[test]
fn a_silent_dashboard_with_a_responding_gcs_is_shown_as_both() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "sleep 3600");
    let console = connected(bed);
    console.wait_text(&job.id);
    let frozen = Frozen::new(bed, Bed::signal_dashboard);
    let is_partial = |text: &str| {
        text.contains("dashboard not responding")
            && text.contains("state from the GCS")
            && text.contains(" alive")
    };
    let text = console.wait_for("both facts", LONG, is_partial);
    assert!(
        !text.contains("● up") && text.contains(&job.id),
        "a partial failure is not shown as up:\n{text}"
    );
    // A console that is started in that state shows what the GCS has.
    let second = open(bed);
    let text = second.wait_for("both facts at once", LONG, is_partial);
    assert!(!text.contains("ray up") && text.contains(" alive"), "{text}");
    drop(second);
    // A command reports it, too, and recommends nothing that would end the jobs.
    let (code, _, stderr) = command(bed, &["list-jobs"]).finish();
    assert!(code == Some(1) && stderr.contains("dashboard"), "{stderr}");
    assert!(!stderr.contains("start-cluster"), "{stderr}");
    drop(frozen);
    console.wait_for("recovery", LONG, |text| {
        text.contains("● up") && !text.contains("dashboard not responding") && text.contains(&job.id)
    });
}

#[test]
fn stale_data_of_a_hanging_gcs_is_not_shown_as_up_until_the_gcs_answers_again() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "sleep 3600");
    let console = connected(bed);
    console.wait_text(&job.id);
    let frozen = Frozen::new(bed, Bed::signal_gcs);
    // The dashboard itself reads jobs and nodes from the GCS: the state is unknown now.
    let text = console.wait_for("the unknown state", LONG, |text| !text.contains("● up"));
    assert!(
        text.contains(&job.id) && !text.contains("ray up"),
        "known data stays on the screen, and no hint would end the jobs:\n{text}"
    );
    drop(frozen);
    console.wait_for("recovery", LONG, |text| text.contains("● up") && text.contains("3 hosts alive"));
    // Ray was only slow and has lost nothing.
    bed.job_becomes(&job.id, "RUNNING");
}

#[test]
fn a_stop_without_a_response_is_unknown_until_its_effect_is_seen() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "sleep 3600");
    let mut console = connected(bed);
    console.send(&format!("2/{}\r", job.id));
    console.wait("the job alone", |text| text.contains(&format!("/{}", job.id)) && text.contains("running"));
    let frozen = Frozen::new(bed, Bed::signal_dashboard);
    console.send("s");
    console.wait_text("[ Cancel ]");
    console.send("y");
    console.wait_text("Stop jobs of an unknown owner?");
    console.send("y");
    let text = console.wait_for("the unknown outcome", LONG, |text| {
        text.contains(&format!("outcome of stopping {} unknown", job.id))
    });
    assert!(!text.contains(&format!("{} was not stopped", job.id)), "{text}");
    let audited = || bed.on("client", &[env!("CARGO_BIN_EXE_marin-tui"), "audit"]);
    drop(frozen);
    // The request was in the dashboard's socket all the time.
    console.wait_for("the outcome", LONG, |text| text.contains(&format!("{} has ended (stopped)", job.id)));
    assert_eq!(bed.job(&job.id)["status"], "STOPPED");
    until("the audit log has the outcome", || {
        audited().trim_end().ends_with("ended (stopped)").then_some(())
    });
    let log = audited();
    assert!(log.contains("stop not confirmed"), "the unknown outcome is recorded, too: {log}");
}

#[test]
fn logs_of_the_head_are_read_while_its_dashboard_is_stopped() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "echo the-only-line; sleep 3600");
    let log = || String::from_utf8(bed.program(&["job-logs", &job.id]).output().unwrap().stdout).unwrap();
    until("the line is written", || log().lines().any(|line| line == "the-only-line").then_some(()));
    let frozen = Frozen::new(bed, Bed::signal_dashboard);
    let (code, out, stderr) = command(bed, &["job-logs", "-g", "^the-only", &job.id]).finish();
    assert_eq!((code, out.as_str()), (Some(0), "the-only-line\n"), "{stderr}");
    assert!(stderr.contains("on the head over SSH"), "{stderr}");
    let (code, out, stderr) = command(bed, &["cluster-logs", "--file", "dashboard.log", "-n", "3"]).finish();
    assert!(code == Some(0) && out.lines().count() == 3, "{out}{stderr}");
    drop(frozen);
}

#[test]
fn a_restart_by_somebody_else_is_announced_with_what_it_ended() {
    let bed = Bed::restarted(Ray::Newest);
    let job = Job::new(bed, "echo the-only-line; sleep 3600");
    let mut console = connected(bed);
    follow(&mut console, &job.id);
    console.wait_text("the-only-line");
    let mut wait = command(bed, &["wait-job", &job.id]);
    wait.err.until("waiting for");
    let log = command(bed, &["job-logs", "-f", &job.id]);
    let logs = format!("/tmp/ray/{}/logs", bed.api("/api/version")["session_name"].as_str().unwrap());
    // As an operator does it in another shell; `ray up` ends the old Ray first.
    let up = ["ray", "up", "-y", "--no-config-cache", bed::YAML];
    bed.on("client", &[&["env", "RAY_UP_enable_autoscaler_v2=1", "PYTHONUNBUFFERED=1"], &up[..]].concat());
    let lost = format!("1 job lost: {}", job.id);
    let text = console.wait_for("the restart", LONG, |text| {
        text.contains("outside this console") && text.contains(&lost) && text.contains("● up")
    });
    assert!(text.contains("(owner unknown)") && text.contains("find out who restarted it"), "{text}");
    // The message covers the log.
    console.send("\x1b");
    console.wait_for("the reason for the end of the log", LONG, |text| {
        text.contains(&format!("{} was lost", job.id))
    });
    for running in [wait, log] {
        let (code, _, stderr) = running.finish();
        assert!(
            code == Some(3) && stderr.contains(&format!("{} was lost when Ray was restarted", job.id)),
            "{stderr}"
        );
        assert!(stderr.contains(&logs), "{stderr}");
    }
}

#[test]
fn an_actor_that_died_is_named_with_its_node_and_the_reason() {
    let bed = Bed::shared(Ray::Newest);
    let script = "import ray, os, time; ray.init(log_to_driver=False); \
                  H = ray.remote(type('Holder', (), {'die': lambda self: os._exit(3)})); \
                  h = H.options(name='h1').remote(); h.die.remote(); time.sleep(3600)";
    let job = Job::new(bed, &format!("python -c \"{script}\""));
    until("the actor is dead", || {
        let all =
            bed.api("/api/v0/actors?filter_keys=state&filter_predicates=%3D&filter_values=DEAD&detail=1");
        let all = all["data"]["result"]["result"].as_array().cloned().unwrap_or_default();
        all.iter().any(|a| a["class_name"] == "Holder" && a["name"] == "h1").then_some(())
    });
    let mut console = connected(bed);
    console.send(&format!("2/{}\r", job.id));
    console.wait("the job alone", |text| text.contains(&format!("/{}", job.id)) && text.contains("running"));
    console.send("d");
    console.wait_for("the dead actor", LONG, |text| {
        text.contains("Holder h1 on bed-") && text.contains("worker process has died")
    });
}

#[test]
fn a_killed_dashboard_leaves_the_state_and_no_hint_ends_a_job() {
    let bed = Bed::restarted(Ray::Newest);
    let job = Job::new(bed, "sleep 3600");
    let console = connected(bed);
    console.wait_text(&job.id);
    bed.signal_dashboard("KILL");
    let text = console.wait_for("both facts", LONG, |text| {
        text.contains("state from the GCS") && text.contains(" alive") && !text.contains("● up")
    });
    assert!(text.contains(&job.id), "{text}");
    let (code, _, stderr) = command(bed, &["list-jobs"]).finish();
    assert_eq!(code, Some(1), "{stderr}");
    // However the connection ended, no recommendation ends the running jobs.
    assert!(stderr.contains("dashboard") && !stderr.contains("start-cluster"), "{stderr}");
}
