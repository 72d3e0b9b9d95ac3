//! Logs that are followed through a dashboard that refuses to read them. On a simulated head with a running job.

use crate::head_fixture::{HeadFixture, TOKEN};
use crate::job_logs::LIFE;
use crate::running::Running;
use marin_tui::demo::{Fault, FaultRule};
use marin_tui::model::{JobStatus, Secret};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

#[test]
fn a_log_that_cannot_be_read_is_retried_after_growing_pauses() {
    let fixture = HeadFixture::with_life(LIFE, "2.60.0");
    let job = fixture.job(JobStatus::Running);
    assert!(fixture.head.write_job_log(&job, b"line 1\n"));
    let mut follower = Running::start(fixture.command(&["job-logs", "-f", "-n", "1", &job]));
    follower.out.until("line 1");
    let fault = FaultRule { path: "/api/v0/logs/file".into(), fault: Fault::Status(503) };
    fixture.head.set_faults(vec![fault]);
    follower.wait_for("connection lost");
    let requests = || {
        let requests = fixture.head.cost().requests;
        ["/api/version", "/api/v0/logs/file"].map(|route| requests.get(route).copied().unwrap_or(0))
    };
    let before = requests();
    thread::sleep(Duration::from_secs(4));
    let after = requests();
    let [checks, reads] = [after[0] - before[0], after[1] - before[1]];
    assert!((1..=5).contains(&checks), "{checks} checks of the connection");
    assert!((1..=15).contains(&reads), "{reads} reads of the log");
    fixture.head.set_faults(Vec::new());
    assert!(fixture.head.write_job_log(&job, b"line 2\n"));
    follower.out.until("line 2");
    assert_eq!(follower.out.all, "line 1\nline 2\n");
}

#[test]
fn a_followed_file_continues_with_a_new_token() {
    const NEW: &str = "tok-another-one-never-shown";
    let fixture = HeadFixture::with_life(LIFE, "2.60.0");
    fixture.file(".ray/auth_token", TOKEN);
    let file = fixture.home.path().join(".ray/auth_token");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fixture.head.write_file("monitor.log", b"line 1\n");
    let mut command = fixture.command(&["cluster-logs", "-f", "-n", "1"]);
    command.env_remove("RAY_AUTH_TOKEN");
    let mut follower = Running::start(command);
    follower.out.until("line 1");
    fixture.file(".ray/auth_token", NEW);
    fixture.head.set_token(Some(Secret::new(NEW)));
    follower.wait_for("connection lost");
    fixture.head.write_file("monitor.log", b"line 2\n");
    follower.out.until("line 2");
    assert_eq!(follower.out.all, "line 1\nline 2\n");
    follower.wait_for("reconnected after");
    let shown = [&follower.out.all, &follower.err.all];
    assert!(shown.iter().all(|shown| !shown.contains(TOKEN) && !shown.contains(NEW)), "{shown:?}");
}
