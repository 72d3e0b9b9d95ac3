//! Workers by hand and the restart of a cluster in Google Cloud, as a shell does them: against a Google, a head behind
//! SSH, and a ray command that is a script.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod google;
mod world;

use google::{Fault, PROJECT, tpu};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};
use world::{WORKER, World, ZONE, labels, until};

#[test]
fn a_worker_is_asked_for_and_followed_until_it_has_joined() {
    let mut world = World::new();
    world.head();
    let mut adding = world.spawn("add-worker --type v4-8 --capacity best-effort --name extra --yes --json");
    adding.says("extra: waiting");
    let sent = world.double.state().queued[0].clone();
    assert_eq!(sent["bestEffort"], json!({}));
    let node = &sent["tpu"]["nodeSpec"][0]["node"];
    assert_eq!((&node["labels"], &node["acceleratorType"]), (&labels("unmanaged"), &json!("v4-8")));
    assert!(node["schedulingConfig"].is_null(), "the queued resource says it");
    assert!(node["metadata"]["startup-script"].as_str().unwrap().starts_with("#!"));
    assert!(world.double.asked("POST /v2alpha1/") == 1, "best effort is known to v2alpha1 only");
    world.turn("extra", "PROVISIONING");
    adding.says("extra: being made");
    world.grant("extra");
    let (code, out, said) = adding.ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 of 1 hosts have joined ray"), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&rows[0]["name"], &rows[0]["joined"]), (&json!("extra"), &json!(true)));
    // Once more: it is there, so it is followed and not asked for twice.
    let (code, _, said) = world.run("add-worker --type v4-8 --name extra --yes");
    assert!(code == Some(0) && said.contains("google has it already"), "{said}");
    assert_eq!(world.double.state().queued.len(), 1);
    let (_, log, _) = world.run("audit");
    assert!(log.contains("add-worker extra") && log.contains("done"), "{log}");
}

#[test]
fn a_request_that_comes_to_nothing_says_why_and_what_to_do() {
    let mut world = World::new();
    world.head();
    let (code, out, _) =
        world.run("add-worker --type tpu_worker --capacity reserved --count 2 --name r --dry-run");
    let calls: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, calls.len()), (Some(0), 2));
    assert!(
        calls[1]["url"].as_str().unwrap().ends_with("/queuedResources?queuedResourceId=r-2"),
        "{}",
        calls[1]
    );
    let reservation = format!("projects/{PROJECT}/locations/{ZONE}/reservations/-");
    assert_eq!(calls[0]["body"]["reservationName"], reservation.as_str());
    assert_eq!(world.double.asked("POST"), world.double.asked("POST /token"), "a dry run sends nothing");
    let (code, _, said) = world.run("add-worker --type v9-8 --yes");
    assert!(code == Some(1) && said.contains("its types are tpu_worker"), "{said}");
    let (code, _, said) = world.run("add-worker --type v4-8 --name ../x --yes");
    assert!(code == Some(1) && said.contains("is no name"), "{said}");

    let mut adding = world.spawn("add-worker --type v4-8 --name poor --yes");
    adding.says("poor: waiting");
    {
        let mut state = world.double.state();
        state.queued[0]["state"] = json!({"state": "FAILED",
            "failedData": {"error": {"code": 8, "message": "no quota for v4 in this zone"}}});
    }
    let (code, _, said) = adding.ends();
    assert_eq!(code, Some(1));
    assert!(said.contains("no quota for v4") && said.contains("remove-worker poor"), "{said}");
    let (code, _, said) = world.run("remove-worker poor --yes");
    assert_eq!((code, world.double.state().queued.len()), (Some(0), 0), "{said}");
    let (code, _, said) = world.run("remove-worker poor --yes");
    assert!(code == Some(1) && said.contains("no TPU VM, host or queued resource"), "{said}");
}

#[test]
fn a_restart_deletes_the_head_first_and_keeps_what_a_person_added() {
    let mut world = World::new();
    world.head();
    world.double.state().nodes = vec![
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
    let (code, out, said) = world.run("restart-cluster --dry-run");
    assert_eq!(code, Some(0), "{said}");
    let calls: Vec<&str> = out.lines().collect();
    let place = |words: &str| {
        calls.iter().position(|c| c.contains(words)).unwrap_or_else(|| panic!("{words}: {out}"))
    };
    assert!(place("instances/head-1") < place("nodes/of-autoscaler-1"), "{out}");
    assert!(
        place("nodes/of-autoscaler-2") < place(" down -y")
            && place(" down -y") < place(" up -y --no-config-cache")
    );
    assert!(!out.contains("by-hand") && !out.contains("others"), "{out}");
    assert_eq!(world.double.asked("DELETE"), 0);

    let restarting = world.spawn("restart-cluster --yes --others --preserve-jobs=0");
    let begin = Instant::now();
    let asked = world.home.path().join("asked");
    while !fs::read_to_string(&asked).unwrap_or_default().contains("up -y") {
        assert!(begin.elapsed() < Duration::from_secs(60), "ray up was never run: {}", restarting.ends().2);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(world.double.state().instances.len(), 0, "the head is gone before ray up");
    world.head();
    world.file("is-up", "");
    let (code, _, said) = restarting.ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 workers added by hand are back"), "{said}");
    let asked = fs::read_to_string(asked).unwrap();
    let words: Vec<&str> = asked.lines().filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(words, ["--version", "down", "up"]);
    let deleted: Vec<String> =
        world.double.requests().into_iter().filter(|r| r.starts_with("DELETE")).collect();
    assert!(deleted.len() == 3 && deleted[0].contains("/instances/head-1"), "{deleted:?}");
    let names = world.double.state().nodes.iter().map(|n| n["name"].to_string()).collect::<String>();
    assert!(
        names.contains("by-hand") && names.contains("others") && !names.contains("of-autoscaler"),
        "{names}"
    );
}

#[test]
fn a_cluster_is_started_alone() {
    let mut world = World::new();
    world.file("hold-down", "");
    let (code, out, said) = world.run("start-cluster --dry-run");
    assert!(
        code == Some(0) && out.lines().count() == 1 && out.contains(" up -y --no-config-cache"),
        "{out}{said}"
    );
    let starting = world.spawn("start-cluster");
    until("ray up is run", || world.asked().iter().any(|w| w == "up"));
    world.head();
    world.file("is-up", "");
    let (code, out, said) = starting.ends();
    assert!(code == Some(0) && out.contains("start marin-a: done"), "{out}{said}");
    assert_eq!((world.asked(), world.double.asked("DELETE")), (vec!["--version".into(), "up".into()], 0));
    // It runs: nothing is begun again.
    let (code, _, said) = world.run("start-cluster");
    assert!(code == Some(0) && said.contains("a ray answers already"), "{said}");
    assert_eq!(world.asked().iter().filter(|w| *w == "up").count(), 1);
}

#[test]
fn a_cluster_is_stopped_head_first_then_its_tpus_side_by_side_then_ray_down() {
    let mut world = World::new();
    world.head_of(|s| s.jobs = 0);
    let own = ["of-autoscaler-1", "of-autoscaler-2", "of-autoscaler-3"];
    let one = |name: &str, kind: &str| tpu::node(ZONE, name, "v4-8", "READY", &labels(kind), &["10.9.9.1"]);
    world.double.state().nodes = own.map(|name| one(name, "worker")).to_vec();
    world.double.state().nodes.push(one("by-hand", "unmanaged"));
    // Each deletion is asked for before the first is answered, if they go side by side.
    world.double.fail_at("DELETE", "/nodes/", Fault::Latency(Duration::from_millis(500)));
    world.file("hold-down", "");
    let stopping = world.spawn("stop-cluster --yes");
    until("ray down is run", || world.asked().iter().any(|w| w == "down"));
    {
        let state = world.double.state();
        assert!(state.instances.is_empty(), "the machines are gone before ray down");
        assert_eq!(state.nodes.len(), 1, "only what a person added is left");
    }
    fs::remove_file(world.home.path().join("hold-down")).unwrap();
    let (code, out, said) = stopping.ends();
    assert!(code == Some(0) && out.contains("stop marin-a: done"), "{out}{said}");
    assert_eq!(world.asked(), ["--version", "down"]);
    let requests = world.double.requests();
    let at =
        |words: &str| requests.iter().position(|r| r.starts_with("DELETE") && r.contains(words)).unwrap();
    let [first, .., last] = own.map(at);
    assert!(at("/instances/head-1") < first.min(last), "{requests:#?}");
    let between = &requests[first.min(last)..=first.max(last)];
    assert!(between.iter().all(|r| r.starts_with("DELETE")), "one after the other: {between:#?}");
}

/// A login on a TPU host, in the place of sshd there: what came in is kept.
const LOGINS: &str = "case \" $* \" in *\" -T -- 127.\"*) ;; *\" -T -- \"*) \
     to=${*#* -T -- }; cat >\"$HOME/script-${to%% *}\"; echo \"$to\" >>\"$HOME/logins\"; exit 0;; esac\n\
     exec /usr/bin/ssh \"$@\"\n";

#[test]
fn a_tpu_vm_gets_its_startup_anew_on_each_host() {
    let mut world = World::new();
    world.head_of(|s| s.jobs = 0);
    let hosts = [WORKER, "10.128.0.3"];
    world.program("ssh", LOGINS);
    let mut node = tpu::node(ZONE, "by-hand", "v4-16", "READY", &labels("unmanaged"), &hosts);
    node["metadata"] = json!({"startup-script": "#!old", "enable-oslogin": "TRUE"});
    world.double.state().nodes.push(node);
    let metadata = || world.double.state().nodes[0]["metadata"].clone();
    let (code, _, said) = world.run("init-worker by-hand --dry-run");
    assert!(code == Some(0) && metadata()["startup-script"] == "#!old", "{said}");
    assert!(!world.home.path().join("logins").exists());

    let starting = world.spawn("init-worker by-hand --yes");
    let script = |host: &str| fs::read_to_string(world.home.path().join(format!("script-{host}")));
    until("both hosts have the script", || hosts.iter().all(|h| script(h).is_ok_and(|s| !s.is_empty())));
    assert_eq!(metadata()["enable-oslogin"], "TRUE", "what else is there stays");
    let written = metadata()["startup-script"].as_str().unwrap().to_owned();
    assert!(written.starts_with("#!") && written.contains("marin-a"), "{written}");
    for host in hosts {
        until("it is the same script", || script(host).unwrap() == written);
    }
    // Its old nodes are no sign that it has joined.
    for node in world.heads[0].0.nodes().into_iter().skip(1) {
        assert!(world.heads[0].0.renew_node(node));
    }
    let (code, _, said) = starting.ends();
    assert!(code == Some(0) && said.contains("joined"), "{said}");
    let logins = fs::read_to_string(world.home.path().join("logins")).unwrap();
    assert_eq!(logins.lines().filter(|l| l.starts_with("10.")).count(), 2, "each host once: {logins}");
    assert!(logins.contains("sudo -n sh -c"), "{logins}");
    let (_, log, _) = world.run("audit");
    assert!(log.contains("init-worker by-hand"), "{log}");
}

#[test]
fn a_living_tpu_vm_is_removed_from_google_and_seen_gone_from_ray() {
    let mut world = World::new();
    world.head_of(|s| s.jobs = 0);
    let hosts = [WORKER, "10.128.0.3"];
    let node = tpu::node(ZONE, "by-hand", "v4-16", "READY", &labels("unmanaged"), &hosts);
    world.double.state().nodes.push(node);
    let (code, out, said) = world.run("remove-worker by-hand --dry-run");
    assert!(code == Some(0) && format!("{out}{said}").contains("by-hand"), "{out}{said}");
    assert_eq!(world.double.asked("DELETE"), 0);
    let removing = world.spawn("remove-worker by-hand --now --yes");
    until("google has deleted it", || world.double.state().nodes.is_empty());
    for node in world.heads[0].0.nodes().into_iter().skip(1) {
        world.heads[0].0.kill_node(node);
    }
    let (code, _, said) = removing.ends();
    assert!(code == Some(0) && said.contains("by-hand is gone"), "{said}");
    assert_eq!(world.double.asked("DELETE"), 1);
    let (_, log, _) = world.run("audit");
    assert!(log.contains("remove-worker by-hand"), "{log}");
}
