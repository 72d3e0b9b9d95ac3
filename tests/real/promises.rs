//! Checks of the bed itself: what other tests use as a real Ray behind a real sshd is one, and fails like one.

use crate::bed::{self, Bed, HEAD, KEY, Ray, TOKEN};
use crate::until::until;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::Command;

fn alive(bed: Bed) -> usize {
    bed.nodes().iter().filter(|n| n["state"] == "ALIVE" && n["node_ip"] != "10.77.0.4").count()
}

fn ssh(bed: Bed) -> Command {
    let known = "-oUserKnownHostsFile=/dev/null";
    bed.command(
        "client",
        &[
            "ssh",
            "-oBatchMode=yes",
            "-oConnectTimeout=3",
            "-oStrictHostKeyChecking=no",
            known,
            "-i",
            KEY,
            HEAD,
            "hostname",
        ],
    )
}

#[test]
fn the_newest_ray_has_its_workers_and_runs_a_job() {
    let bed = Bed::shared(Ray::Newest);
    assert_eq!(bed.api("/api/version")["ray_version"], "2.60.0");
    assert_eq!(alive(bed), 3);
    let job = bed.submit("hello", "echo hello from $(hostname)");
    bed.job_becomes(&job, "SUCCEEDED");
    let log = bed.api(&format!("/api/jobs/{job}/logs"));
    assert!(log["logs"].as_str().unwrap().contains("hello from bed-head"), "{log}");
    let script =
        "import ray; ray.init(address='auto', log_to_driver=False); print(ray.cluster_resources()['TPU'])";
    assert_eq!(bed.on("head", &["python3", "-c", script]).trim(), "8.0");
}

#[test]
fn the_oldest_ray_has_its_workers_and_runs_a_job() {
    let bed = Bed::shared(Ray::Oldest);
    assert_eq!(bed.api("/api/version")["ray_version"], "2.53.0");
    assert_eq!(alive(bed), 3);
    bed.job_becomes(&bed.submit("hello", "true"), "SUCCEEDED");
    let failed = bed.job_becomes(&bed.submit("bad", "exit 3"), "FAILED");
    assert_eq!(failed["driver_exit_code"], 3);
}

#[test]
fn sshd_stops_and_starts_again() {
    let bed = Bed::shared(Ray::Newest);
    bed.sshd_stop("head");
    let out = ssh(bed).output().unwrap();
    assert_eq!(out.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&out.stderr).contains("Connection refused"));
    bed.sshd_start("head");
    until("sshd answers", || ssh(bed).output().unwrap().status.success().then_some(()));
}

#[test]
fn a_cut_link_gets_no_answer() {
    let bed = Bed::shared(Ray::Newest);
    bed.cut("head");
    let out = ssh(bed).output().unwrap();
    bed.heal("head");
    assert_eq!(out.status.code(), Some(255));
    until("the head answers", || ssh(bed).output().unwrap().status.success().then_some(()));
}

#[test]
fn a_pseudo_terminal_reaches_the_client() {
    let bed = Bed::shared(Ray::Newest);
    let size = PtySize { rows: 33, cols: 101, ..PtySize::default() };
    let pty = native_pty_system().openpty(size).unwrap();
    let mut command =
        CommandBuilder::from_argv(bed.on_client(&["NO_COLOR"]).into_iter().map(Into::into).collect());
    command.args(["sh", "-c", "stty size; echo $NO_COLOR $USER; exec sleep 4321"]);
    command.env("NO_COLOR", "yes");
    let mut child = pty.slave.spawn_command(command).unwrap();
    let mut lines = BufReader::new(pty.master.try_clone_reader().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "33 101");
    assert_eq!(lines.next().unwrap().unwrap(), "yes ray");
    child.kill().unwrap();
    until("its child process has ended, too", || (bed.running("sleep 4321") == 0).then_some(()));
}

#[test]
fn the_token_is_required() {
    let bed = Bed::shared(Ray::Newest);
    assert_eq!(bed.api("/api/authentication_mode")["authentication_mode"], "token");
    assert_eq!(bed.read(TOKEN).len(), 64);
    let url = format!("http://{HEAD}:8265/api/version");
    let status = bed.on("client", &["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", &url]);
    assert_eq!(status, "401");
}

#[test]
fn a_stuck_autoscaler_reports_what_it_lacks() {
    let bed = Bed::stuck();
    bed.submit_with("too-big", "true", &json!({"entrypoint_num_gpus": 8}));
    until("demand and failure are in the status", || {
        let status = bed.api("/api/cluster_status?format=1")["data"]["clusterStatus"].to_string();
        (status.contains("'GPU': 8.0") && status.contains("tpu_v5e: LaunchFailed")).then_some(())
    });
}

#[test]
fn a_test_can_run_on_the_client_host() {
    bed::inside(Ray::Newest, || {
        assert_eq!(std::env::var("HOME").unwrap(), bed::HOME);
        std::net::TcpStream::connect((HEAD, 6379)).unwrap();
    });
}
