//! What is half dead, on a real Ray behind a real sshd: links that are cut, a dashboard that hangs while the GCS
//! answers, requests of which nobody knows whether they arrived. Console and commands alike.

use crate::bed::{self, Bed, Ray};
use crate::pty::Pty;
use crate::running::{Running, count};
use crate::until::until;
use std::time::Duration;

/// A reconnection, on two busy cores.
const LONG: Duration = Duration::from_secs(90);
/// Prints a number twice a second, from 1 on.
const TICKS: &str = "for i in $(seq 1 100000); do printf 'ti%s=%d\\n' ck $i; sleep 0.5; done";
/// The home's part that one console leaves and another must not find.
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
    console.wait_text(&format!("3 Log {job}"));
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

/// The head's cable, pulled until this is dropped.
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

/// A program of the head, stopped until this is dropped.
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
    // Longer than ssh's own patience with a head that does not answer.
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
    let stop = command(bed, &["stop-job", "--yes", "--others", &ticking.id]).ends();
    assert_eq!(stop.0, Some(0), "{stop:?}");
    let ((followed, lines, said), (waited, _, also)) = (log.ends(), wait.ends());
    // Neither 0 nor an error of the command's own: the job was stopped.
    assert_eq!((followed, waited), (Some(3), Some(3)), "{said:?} {also:?}");
    let numbers: Vec<usize> = lines.lines().filter_map(|l| l.strip_prefix("tick=")?.parse().ok()).collect();
    let whole: Vec<usize> = (1..=numbers.len()).collect();
    assert_eq!(numbers, whole, "no line is lost, none is repeated");
    for said in [said, also] {
        assert_eq!(count(&said, "connection lost"), 2, "said once each: {said:?}");
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
    console.wait_for("the break", LONG, |text| text.contains("INTERRUPTED"));
    // Nothing is printed: the connection alone says that the log is live.
    console.wait_for("the log, live again", LONG, |text| {
        text.contains("● up") && text.contains("the-only-line") && !text.contains("INTERRUPTED")
    });
}

#[test]
fn a_silent_dashboard_beside_a_living_gcs_is_shown_as_both() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "sleep 3600");
    let console = connected(bed);
    console.wait_text(&job.id);
    let frozen = Frozen::new(bed, Bed::signal_dashboard);
    let half = |text: &str| {
        text.contains("dashboard not responding")
            && text.contains("state from the GCS")
            && text.contains(" alive")
    };
    let text = console.wait_for("both facts", LONG, half);
    assert!(!text.contains("● up") && text.contains(&job.id), "what is half dead is not green:\n{text}");
    // Started in that state, it shows what the GCS has.
    let second = open(bed);
    let text = second.wait_for("both facts at once", LONG, half);
    assert!(!text.contains("ray up") && text.contains(" alive"), "{text}");
    drop(second);
    // A command says it, too, and recommends nothing that would end the jobs.
    let (code, _, said) = command(bed, &["list-jobs"]).ends();
    assert!(code == Some(1) && said.contains("dashboard"), "{said}");
    assert!(!said.contains("start-cluster"), "{said}");
    drop(frozen);
    console.wait_for("recovery", LONG, |text| {
        text.contains("● up") && !text.contains("dashboard not responding") && text.contains(&job.id)
    });
}

#[test]
fn old_data_of_a_gcs_that_hangs_are_not_green_and_it_is_used_again() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "sleep 3600");
    let console = connected(bed);
    console.wait_text(&job.id);
    let frozen = Frozen::new(bed, Bed::signal_gcs);
    // The dashboard itself asks the GCS for jobs and nodes: nobody knows the state now.
    let text = console.wait_for("that nothing is known", LONG, |text| !text.contains("● up"));
    assert!(
        text.contains(&job.id) && !text.contains("ray up"),
        "what was known stays, and no hint ends it:\n{text}"
    );
    drop(frozen);
    console.wait_for("recovery", LONG, |text| text.contains("● up") && text.contains("3 hosts alive"));
    // A Ray that was only slow has lost nothing.
    bed.job_becomes(&job.id, "RUNNING");
}

#[test]
fn a_stop_whose_answer_never_came_is_unknown_until_its_effect_is_seen() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "sleep 3600");
    let mut console = connected(bed);
    console.send(&format!("2/{}\r", job.id));
    console.wait("the job alone", |text| text.contains(&format!("/{}", job.id)) && text.contains("running"));
    let frozen = Frozen::new(bed, Bed::signal_dashboard);
    console.send("s");
    console.wait_text("[ Cancel ]");
    console.send("y");
    console.wait_text("Stop jobs of unknown owner?");
    console.send("y");
    let text = console.wait_for("that it is not known", LONG, |text| {
        text.contains(&format!("cannot tell whether {} was stopped", job.id))
    });
    assert!(!text.contains(&format!("{} was not stopped", job.id)), "{text}");
    let audited = || bed.on("client", &[env!("CARGO_BIN_EXE_marin-tui"), "audit"]);
    drop(frozen);
    // The request lay in the dashboard's socket all the time.
    console.wait_for("the truth", LONG, |text| text.contains(&format!("{} has ended (stopped)", job.id)));
    assert_eq!(bed.job(&job.id)["status"], "STOPPED");
    until("the audit log has the truth", || audited().trim_end().ends_with("ended (stopped)").then_some(()));
    let log = audited();
    assert!(log.contains("stop not confirmed"), "and what was not known: {log}");
}

#[test]
fn logs_of_the_head_are_read_while_its_dashboard_is_stopped() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "echo the-only-line; sleep 3600");
    let log = || String::from_utf8(bed.program(&["job-logs", &job.id]).output().unwrap().stdout).unwrap();
    until("the line is written", || log().lines().any(|line| line == "the-only-line").then_some(()));
    let frozen = Frozen::new(bed, Bed::signal_dashboard);
    let (code, out, said) = command(bed, &["job-logs", "-g", "^the-only", &job.id]).ends();
    assert_eq!((code, out.as_str()), (Some(0), "the-only-line\n"), "{said}");
    assert!(said.contains("on the head over SSH"), "{said}");
    let (code, out, said) = command(bed, &["cluster-logs", "--file", "dashboard.log", "-n", "3"]).ends();
    assert!(code == Some(0) && out.lines().count() == 3, "{out}{said}");
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
    // As somebody does it in a shell of their own; it ends the old Ray first.
    let up = ["ray", "up", "-y", "--no-config-cache", bed::YAML];
    bed.on("client", &[&["env", "RAY_UP_enable_autoscaler_v2=1", "PYTHONUNBUFFERED=1"], &up[..]].concat());
    let lost = format!("1 job lost: {}", job.id);
    let text = console.wait_for("the restart", LONG, |text| {
        text.contains("outside this console") && text.contains(&lost) && text.contains("● up")
    });
    assert!(text.contains("(owner unknown)") && text.contains("find out who restarted it"), "{text}");
    // The message covers the log.
    console.send("\x1b");
    console.wait_for("why the log ends", LONG, |text| text.contains(&format!("{} was lost", job.id)));
    for running in [wait, log] {
        let (code, _, said) = running.ends();
        assert!(
            code == Some(3) && said.contains(&format!("{} was lost when Ray was restarted", job.id)),
            "{said}"
        );
        assert!(said.contains(&logs), "{said}");
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
    console.wait_for("what died", LONG, |text| {
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
    let (code, _, said) = command(bed, &["list-jobs"]).ends();
    assert_eq!(code, Some(1), "{said}");
    // Whichever way the connection ended: nothing that is recommended ends the jobs that run on.
    assert!(said.contains("dashboard") && !said.contains("start-cluster"), "{said}");
}
