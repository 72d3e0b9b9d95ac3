//! A cluster in Google Cloud that is started, stopped and restarted.

use crate::cloud_fixture::{CloudFixture, HEAD, WORKER, ZONE, labels};
use crate::until::until;
use marin_tui::demo::google::{Fault, tpu};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use tokio::sync::Semaphore;

#[test]
fn a_restart_deletes_the_head_first_and_keeps_manually_added_workers() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    fixture.double.state().nodes = vec![
        tpu::node(ZONE, "of-autoscaler-1", "v4-8", "READY", &labels("worker"), &["10.9.9.1"]),
        tpu::node(ZONE, "of-autoscaler-2", "v4-8", "READY", &labels("worker"), &["10.9.9.2"]),
        tpu::node(ZONE, "by-hand", "v4-8", "READY", &labels("unmanaged"), &[WORKER]),
        tpu::node(
            ZONE,
            "others",
            "v4-8",
            "READY",
            &json!({"ray-cluster-name": "b", "ray-node-type": "worker"}),
            &["10.9.9.4"],
        ),
    ];
    let (code, out, said) = fixture.run("restart-cluster --dry-run");
    assert_eq!(code, Some(0), "{said}");
    let calls: Vec<&str> = out.lines().collect();
    let position = |words: &str| {
        calls.iter().position(|c| c.contains(words)).unwrap_or_else(|| panic!("{words}: {out}"))
    };
    assert!(position("(head-1)") < position("nodes/of-autoscaler-1"), "{out}");
    assert!(
        position("nodes/of-autoscaler-2") < position(" down -y")
            && position(" down -y") < position(" up -y --no-config-cache")
    );
    assert!(!out.contains("by-hand") && !out.contains("others"), "{out}");
    assert!(out.contains(r#""method":"POST","url":"/api/jobs/""#) && !out.contains("ssh "), "{out}");
    assert!(out.contains(r#""HF_TOKEN":"***""#), "a variable is a secret: {out}");
    assert_eq!(fixture.double.requests_with("DELETE"), 0);

    let restarting = fixture.spawn("restart-cluster --yes --others --preserve-jobs=0");
    until("ray up is run", || fixture.calls().iter().any(|w| w == "up"));
    assert_eq!(fixture.double.state().instances.len(), 0, "the head is gone before ray up");
    fixture.head();
    fixture.file("is-up", "");
    let (code, _, said) = restarting.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 manually added worker has rejoined"), "{said}");
    let requests = fixture.calls();
    assert_eq!(requests, ["--version", "--version", "down", "up"], "the dry run checks the ray command, too");
    let deleted = fixture.deletions();
    assert!(deleted.len() == 3 && deleted[0].contains("/instances/7"), "{deleted:?}");
    let names = fixture.double.state().nodes.iter().map(|n| n["name"].to_string()).collect::<String>();
    assert!(
        names.contains("by-hand") && names.contains("others") && !names.contains("of-autoscaler"),
        "{names}"
    );
}

#[test]
fn a_dry_restart_of_a_local_cluster_names_each_machine_and_each_job() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let local = format!("provider: {{type: local, head_ip: {HEAD}, worker_ips: [{WORKER}]}}");
    let start = "worker_start_ray_commands: ['ray start --address=$RAY_HEAD_IP:6379']";
    fixture.file("infra/a.yaml", &format!("cluster_name: marin-a\n{local}\n{start}\n"));
    fixture.file("work/train.py", "print(1)\n");
    for submit in [
        "submit-job --no-wait --submission-id first --working-dir work -- python train.py",
        "submit-job --no-wait --submission-id lost --runtime-env {\"working_dir\":\"gcs://_ray_pkg_0.zip\"} -- true",
        "submit-job --no-wait --submission-id second --working-dir work -- python train.py",
    ] {
        let (code, _, said) = fixture.run(submit);
        assert_eq!(code, Some(0), "{said}");
    }
    let (code, out, said) = fixture.run("restart-cluster --dry-run");
    assert_eq!(code, Some(0), "{said}");
    // A line without file names, scripts and the package's name.
    let short = |l: &str| {
        let l = l.replace(fixture.home.path().to_str().unwrap(), "");
        match l.split_once("    (") {
            Some((call, note)) if call.starts_with("ssh ") => {
                format!("{} ({note}", call.split(' ').take(2).collect::<Vec<_>>().join(" "))
            }
            Some((call, note)) => {
                let sent: Value = serde_json::from_str(call).unwrap();
                format!("{} {} ({note}", sent["method"].as_str().unwrap(), sent["url"].as_str().unwrap())
            }
            None => l.split("_ray_pkg_").next().unwrap().split(" -y").next().unwrap().to_owned(),
        }
    };
    let lines: Vec<String> = out.lines().map(short).collect();
    assert_eq!(
        lines,
        [
            "RAY_UP_enable_autoscaler_v2=1 /ray down",
            "ssh 10.128.0.2 (stops leftover processes of Ray and its jobs)",
            "ssh 10.128.0.3 (stops leftover processes of Ray and its jobs)",
            "ssh 127.0.0.11 (stops leftover processes of Ray and its jobs)",
            "RAY_UP_enable_autoscaler_v2=1 /ray up",
            "PUT /api/packages/gcs/",
            "POST /api/jobs/ (first)",
            "POST /api/jobs/ (second)",
            "ssh 10.128.0.3 (starts Ray)",
        ],
        "{out}"
    );
    let (_, out, _) = fixture.run("restart-cluster --dry-run --preserve-jobs=0");
    assert!(!out.contains("/api/") && out.contains("ssh 10.128.0.2 "), "{out}");
    let (_, out, _) = fixture.run("stop-cluster --dry-run");
    assert_eq!(out.lines().map(short).collect::<Vec<_>>(), lines[..4], "{out}");
    // A cluster that does not respond reports neither its workers nor jobs that could be saved.
    fixture.heads.clear();
    let (code, out, said) = fixture.run("restart-cluster --dry-run");
    assert!(code == Some(1) && out.is_empty() && said.contains("--preserve-jobs=0"), "{out}{said}");
    let (code, out, said) = fixture.run("restart-cluster --dry-run --preserve-jobs=0");
    assert_eq!(code, Some(0), "{said}");
    assert!(!out.contains("10.128.0.2") && out.contains("ssh 127.0.0.11 "), "{out}");
    assert!(
        fixture.calls().iter().all(|word| word == "--version"),
        "nothing was done: {:?}",
        fixture.calls()
    );
}

#[test]
fn a_cluster_is_started() {
    let mut fixture = CloudFixture::new();
    fixture.file("hold-down", "");
    let (code, out, said) = fixture.run("start-cluster --dry-run");
    assert!(
        code == Some(0) && out.lines().count() == 1 && out.contains(" up -y --no-config-cache"),
        "{out}{said}"
    );
    let starting = fixture.spawn("start-cluster");
    until("ray up is run", || fixture.calls().iter().any(|w| w == "up"));
    fixture.head();
    fixture.file("is-up", "");
    let (code, _, said) = starting.finish();
    assert_eq!(code, Some(0), "{said}");
    // The dry run checked the ray command, too.
    assert_eq!(
        (fixture.calls(), fixture.deletions().len()),
        (["--version", "--version", "up"].map(str::to_owned).to_vec(), 0)
    );
    // It is running: nothing is started again.
    for again in ["start-cluster", "start-cluster --dry-run"] {
        let (code, out, said) = fixture.run(again);
        assert!(
            code == Some(0) && out.is_empty() && said.contains("marin-a: already running, with"),
            "{out}{said}"
        );
    }
    assert_eq!(fixture.calls().iter().filter(|w| *w == "up").count(), 1);
}

#[test]
fn a_cluster_is_stopped_head_first_then_its_tpus_in_parallel_then_ray_down() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let own = ["of-autoscaler-1", "of-autoscaler-2", "of-autoscaler-3"];
    let one = |name: &str, kind: &str| tpu::node(ZONE, name, "v4-8", "READY", &labels(kind), &["10.9.9.1"]);
    fixture.double.state().nodes = own.map(|name| one(name, "worker")).to_vec();
    fixture.double.state().nodes.push(one("by-hand", "unmanaged"));
    // No deletion is answered before all are requested.
    let all = Arc::new(Semaphore::new(0));
    fixture.double.fail_at("DELETE", "/nodes/", Fault::Held(all.clone()));
    fixture.file("hold-down", "");
    let head = fixture.double.state().instances[0]["id"].as_str().unwrap().to_owned();
    let deletions = || fixture.deletions();
    let stopping = fixture.spawn("stop-cluster --yes");
    until("all deletions are requested", || {
        deletions().iter().filter(|d| d.contains("/nodes/")).count() == 3
    });
    assert!(deletions()[0].contains(&format!("/instances/{head}")), "{:#?}", deletions());
    all.add_permits(3);
    until("ray down is run", || fixture.calls().iter().any(|w| w == "down"));
    {
        let state = fixture.double.state();
        assert!(state.instances.is_empty(), "the machines are gone before ray down");
        assert_eq!(state.nodes.len(), 1, "only the manually added worker is left");
    }
    fs::remove_file(fixture.home.path().join("hold-down")).unwrap();
    let (code, _, said) = stopping.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fixture.calls(), ["--version", "down"]);
}
