//! The console in a terminal restarts a real Ray of several hosts: the restart is confirmed, watched, killed in the
//! middle, and resumed.

use crate::bed::{Bed, CLUSTER, Ray};
use crate::pty::Pty;
use crate::until::until;
use std::process::Output;
use std::time::Duration;

/// Time limit for a connection or a step on two busy cores.
const LONG: Duration = Duration::from_secs(120);

/// A driver that holds no resources itself, with a task that holds a chip.
const TASK: &str = "python -c \"import ray, time; ray.init(); hold = lambda: (print('hold' + 'ing', flush=True), \
                    time.sleep(3600)); ray.get(ray.remote(num_cpus=0, resources={'TPU': 1})(hold).remote())\"";

/// Opens the console on the client of the bed.
fn open(bed: Bed) -> Pty {
    bed.console(160, 50)
}

fn command(bed: Bed, args: &[&str]) -> Output {
    bed.program(args).output().unwrap()
}

fn session(bed: Bed) -> String {
    bed.api("/api/version")["session_name"].as_str().unwrap().to_owned()
}

/// Confirms a restart, from the key to the first step: checks the list of jobs, sets the switch and enters the name.
fn begin(console: &mut Pty, jobs: &[&str]) {
    console.wait_for("connection", LONG, |text| text.contains("● up") && text.contains("3 hosts alive"));
    console.send("R");
    let seen = console.wait_for("affected jobs", LONG, |text| text.contains("will be restored"));
    for job in jobs {
        let row = seen.lines().find(|l| l.contains(job) && l.contains("yes"));
        assert!(row.is_some_and(|r| r.contains("somebody") && r.contains("TPU 1")), "{seen}");
    }
    assert!(seen.contains("[ ] also end") && seen.contains("[ Cancel ]"), "{seen}");
    // Move to the switch for other people's jobs, then to the name.
    console.send("\t\t \t");
    console.send(CLUSTER);
    console.wait_text("[x] also end jobs owned by somebody");
    console.send("\r");
    console.wait_text("[ Restart cluster ]");
    console.send("\r");
}

#[test]
fn a_restart_from_the_console_is_resumed_after_a_kill_and_restores_jobs() {
    let bed = Bed::restarted(Ray::Newest);
    let _ = command(bed, &["restart-cluster", "--abandon"]);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    // One job holds a chip itself, the other through a task.
    let (job, tasks) = (format!("console-{now}"), format!("tasks-{now}"));
    let submit = |id: &str, what: &[&str]| {
        let args = ["submit-job", "--no-wait", "--submission-id", id, "--metadata", "owner=somebody"];
        assert!(command(bed, &[&args[..], what].concat()).status.success());
        bed.job_becomes(id, "RUNNING");
    };
    submit(&job, &["--entrypoint-resources", "{\"TPU\": 1}", "--", "sleep 3600"]);
    submit(&tasks, &["--", TASK]);
    // Ray's workers report their tasks once a second at most.
    until("ray knows that the task holds a chip", || {
        let plan = command(bed, &["restart-cluster", "--dry-run"]);
        let output = [plan.stdout, plan.stderr].concat();
        let output = String::from_utf8_lossy(&output).into_owned();
        output.lines().any(|l| l.contains(&tasks) && l.contains("TPU 1")).then_some(())
    });
    let before = session(bed);

    let mut console = open(bed);
    begin(&mut console, &[&job, &tasks]);
    // Killed while Ray is being stopped, which cannot be undone.
    console.wait_for("the stop", LONG, |text| text.contains("◐ 4 run ray down"));
    bed.signal("KILL", "marin-tui");
    drop(console);

    let mut console = open(bed);
    let seen =
        console.wait_for("the interrupted operation", LONG, |text| text.contains("resumes at this step"));
    assert!(seen.contains("/9 interrupted") && seen.contains("jobs saved in"), "{seen}");
    // No other operation may start while this one runs.
    console.send("u");
    console.wait_for("the step", LONG, |text| text.contains("leave this page"));
    let refused = command(bed, &["stop-cluster", "--yes"]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("another operation"), "{stderr}");
    // Leave the page, open it again, and wait for the end.
    console.send("q");
    console.wait("the banner", |text| text.contains("restart ") && text.contains("p shows it"));
    console.send("p");
    console.wait_for("the end", LONG * 2, |text| text.contains(": done"));
    assert_ne!(session(bed), before);
    bed.job_becomes(&job, "RUNNING");
    let log = String::from_utf8(command(bed, &["audit"]).stdout).unwrap();
    assert!(log.lines().last().is_some_and(|l| l.contains("restart") && l.ends_with("done")), "{log}");
    console.send("q");
    console.wait_for("connection", LONG, |text| text.contains("● up") && text.contains(&job));
    assert!(command(bed, &["stop-job", "--yes", "--others", &job, &tasks]).status.success());
}
