//! The console in a terminal restarts a real Ray of several hosts: asked about, watched, killed in the middle, resumed.

use crate::bed::{Bed, CLUSTER, Ray};
use crate::pty::Pty;
use crate::until::until;
use std::process::Output;
use std::time::Duration;

/// A connection, a step: what takes longer than a frame on two busy cores.
const LONG: Duration = Duration::from_secs(120);

/// A driver that itself holds nothing, and a task of it that holds a chip.
const TASK: &str = "python -c \"import ray, time; ray.init(); hold = lambda: (print('hold' + 'ing', flush=True), \
                    time.sleep(3600)); ray.get(ray.remote(num_cpus=0, resources={'TPU': 1})(hold).remote())\"";

/// The console on the client of the bed.
fn open(bed: Bed) -> Pty {
    bed.console(160, 50)
}

fn command(bed: Bed, args: &[&str]) -> Output {
    bed.program(args).output().unwrap()
}

fn session(bed: Bed) -> String {
    bed.api("/api/version")["session_name"].as_str().unwrap().to_owned()
}

/// From the key to the first step: the list of jobs, the switch, the name.
fn begin(console: &mut Pty, jobs: &[&str]) {
    console.wait_for("connection", LONG, |text| text.contains("● up") && text.contains("3 hosts alive"));
    console.send("R");
    let seen = console.wait_for("affected jobs", LONG, |text| text.contains("will be restored"));
    for job in jobs {
        let row = seen.lines().find(|l| l.contains(job) && l.contains("yes"));
        assert!(row.is_some_and(|r| r.contains("somebody") && r.contains("TPU 1")), "{seen}");
    }
    assert!(seen.contains("[ ] also end") && seen.contains("[ Cancel ]"), "{seen}");
    // To the switch of other people's jobs, then to the name.
    console.send("\t\t \t");
    console.send(CLUSTER);
    console.wait_text("[x] also end the jobs of somebody");
    console.send("\r");
    console.wait_text("[ Restart cluster ]");
    console.send("\r");
}

#[test]
fn a_restart_from_the_console_survives_its_own_death_and_brings_jobs_back() {
    let bed = Bed::restarted(Ray::Newest);
    let _ = command(bed, &["restart-cluster", "--abandon"]);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    // One holds a chip by itself, the other by a task.
    let (job, tasks) = (format!("console-{now}"), format!("tasks-{now}"));
    let submit = |id: &str, what: &[&str]| {
        let args = ["submit-job", "--no-wait", "--submission-id", id, "--metadata", "owner=somebody"];
        assert!(command(bed, &[&args[..], what].concat()).status.success());
        bed.job_becomes(id, "RUNNING");
    };
    submit(&job, &["--entrypoint-resources", "{\"TPU\": 1}", "--", "sleep 3600"]);
    submit(&tasks, &["--", TASK]);
    // Ray's workers tell of their tasks once a second at the most.
    until("ray knows that the task holds a chip", || {
        let plan = command(bed, &["restart-cluster", "--dry-run"]);
        let said = [plan.stdout, plan.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        said.lines().any(|l| l.contains(&tasks) && l.contains("TPU 1")).then_some(())
    });
    let before = session(bed);

    let mut console = open(bed);
    begin(&mut console, &[&job, &tasks]);
    // Once ray is being stopped there is no way back: the console dies there.
    console.wait_for("the stop", LONG, |text| text.contains("◐ 4 run ray down"));
    bed.signal("KILL", "marin-tui");
    drop(console);

    let mut console = open(bed);
    let seen = console.wait_for("what stands half way", LONG, |text| text.contains("resumes at this step"));
    assert!(seen.contains("/9 interrupted") && seen.contains("jobs saved in"), "{seen}");
    // Another console may not begin while this one is at it.
    console.send("u");
    console.wait_for("the step", LONG, |text| text.contains("leave this page"));
    let refused = command(bed, &["stop-cluster", "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("another operation"), "{said}");
    // Left, opened again, done.
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
