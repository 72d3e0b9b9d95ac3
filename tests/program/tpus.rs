//! `marin-tui tpus` and `clean-preempted` in a shell: Google's data, Ray's data through SSH, what is deleted, and what
//! is never deleted.

use crate::program::{Ran, program};
use crate::transcript::Transcript;
use crate::until::until;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, compute, tpu};
use marin_tui::demo::{Head, Keys, Scenario, SshServer};
use marin_tui::ray::{Client, Endpoint, Poller};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

const ZONE: &str = "us-central2-b";

/// A home, a directory with a gcp cluster, its head behind SSH, and a Google.
struct Fixture {
    runtime: Runtime,
    home: TempDir,
    double: Double,
    head: Head,
    server: Option<SshServer>,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        // The path of a control socket is limited to about 100 bytes.
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let keys = Keys::new().unwrap();
        keys.write_client(&home.path().join("key")).unwrap();
        let (double, head, server) = runtime.block_on(async {
            let head = Head::start(Scenario { nodes: 3, dead: 0, ..Scenario::default() }).await.unwrap();
            let server = SshServer::start(&head, "marin-a", &keys, Duration::ZERO).await.unwrap();
            (Double::start().await.unwrap(), head, server)
        });
        double.write_adc(home.path()).unwrap();
        let home_dir = home.path().display();
        let settings = json!({"google_endpoint": double.url(), "ssh_config": format!("{home_dir}/ssh_config"),
            "infra": [format!("{home_dir}/infra")],
            "clusters": {"marin-a": {"address": "127.0.0.1", "port": server.address.port(), "user": "ray",
                "key": format!("{home_dir}/key")}}});
        fs::write(home.path().join("ssh_config"), "").unwrap();
        fs::write(home.path().join("config.yaml"), settings.to_string()).unwrap();
        fs::create_dir(home.path().join("infra")).unwrap();
        let cluster = format!(
            "cluster_name: marin-a\nmax_workers: 1024\nhead_node_type: head_default\n\
             provider: {{type: gcp, project_id: {PROJECT}, availability_zone: {ZONE}}}\n\
             available_node_types:\n  head_default: {{max_workers: 0}}\n  tpu_worker: {{min_workers: 4}}\n"
        );
        fs::write(home.path().join("infra/a.yaml"), cluster).unwrap();
        let lab = "cluster_name: lab\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n";
        fs::write(home.path().join("infra/lab.yaml"), lab).unwrap();
        Self { runtime, home, double, head, server: Some(server) }
    }

    fn command(&self, words: &str) -> Command {
        let mut command = program(self.home.path());
        command.args(words.split_whitespace()).arg("--config").arg(self.home.path().join("config.yaml"));
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.home.path().join("adc.json"));
        command
    }

    fn run(&self, words: &str) -> Ran {
        Ran::of(&self.command(words).output().unwrap())
    }

    fn nodes(&self, nodes: &[Value]) {
        self.double.state().nodes = nodes.to_vec();
    }

    /// Addresses of the live workers in Ray.
    fn workers(&self) -> Vec<String> {
        let endpoint = Endpoint::Direct {
            dashboard: format!("http://{}", self.head.dashboard),
            gcs: Some(self.head.gcs.to_string()),
        };
        let snapshot = self.runtime.block_on(async {
            let _ = rustls::crypto::ring::default_provider().install_default();
            Poller::new(Client::new(endpoint, None).unwrap()).refresh().await.unwrap()
        });
        let alive = snapshot.nodes.iter().filter(|n| n.state.is_alive() && !n.is_head);
        alive.map(|n| n.address.raw().to_owned()).collect()
    }

    /// Names of the TPU VMs and queued resources that Google still has.
    fn left(&self) -> Vec<String> {
        let name = |v: &Value| v["name"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let state = self.double.state();
        state.nodes.iter().chain(&state.queued).map(name).collect()
    }
}

fn labels(cluster: &str) -> Value {
    json!({"ray-cluster-name": cluster, "ray-user-node-type": "tpu_worker"})
}

fn node(id: &str, kind: &str, state: &str, ips: &[&str]) -> Value {
    tpu::node(ZONE, id, kind, state, &labels("marin-a"), ips)
}

fn queued(id: &str, state: &str, cluster: &str, nodes: &[&str]) -> Value {
    let spec =
        |n: &&str| json!({"nodeId": n, "node": {"acceleratorType": "v4-8", "labels": labels(cluster)}});
    json!({"name": format!("projects/{PROJECT}/locations/{ZONE}/queuedResources/{id}"), "state": {"state": state},
        "spot": {}, "tpu": {"nodeSpec": nodes.iter().map(spec).collect::<Vec<_>>()},
        "createTime": "2026-11-20T08:00:00.000000000Z"})
}

fn in_queue(mut node: Value, queued: &str) -> Value {
    node["queuedResource"] = json!(format!("projects/{PROJECT}/locations/{ZONE}/queuedResources/{queued}"));
    node
}

/// Status, name and number of joined hosts of each row.
fn rows(value: &Value) -> Vec<(String, String, u64)> {
    let word = |v: &Value| v.as_str().unwrap().to_owned();
    let rows = value["rows"].as_array().unwrap().iter();
    rows.map(|r| (word(&r["status"]), word(&r["name"]), r["in_ray"].as_u64().unwrap())).collect()
}

#[test]
fn data_of_google_and_ray_is_combined() {
    let fixture = Fixture::new();
    let [a, b] = &fixture.workers()[..] else { panic!("{:?}", fixture.workers()) };
    fixture.double.state().page = 1;
    fixture.nodes(&[
        node("whole", "v4-8", "READY", &[a]),
        node("half", "v4-16", "READY", &[b, "10.9.9.9"]),
        node("leak", "v4-8", "PREEMPTED", &["10.9.9.8"]),
        tpu::node(ZONE, "foreign", "v4-8", "PREEMPTED", &labels("marin-b"), &["10.9.9.7"]),
    ]);
    fixture.double.state().queued = vec![queued("q", "WAITING_FOR_RESOURCES", "marin-a", &["q-node"])];
    let value = fixture.run("tpus --cluster a --json").exits(0).json();
    let row = |s: &str, n: &str, j| (s.to_owned(), n.to_owned(), j);
    let expected = [
        row("incomplete", "half", 1),
        row("preempted, holds quota", "leak", 0),
        row("waiting", "q", 0),
        row("registered", "whole", 1),
    ];
    assert_eq!(rows(&value), expected);
    assert_eq!(value["rows"][0]["missing"], json!(["10.9.9.9"]));
    assert_eq!(value["ray"]["responded"], true);
    assert_eq!(value["chips"]["v4"], json!({"held": 16, "in_ray": 8, "holds_quota": 4, "waiting": 4}));
    let kind = &value["types"][0];
    assert_eq!(
        (&kind["min"], &kind["existing"], &kind["in_ray"], &kind["missing"]),
        (&json!(4), &json!(2), &json!(1), &json!(3))
    );
    let ran = fixture.run("tpus --cluster a").exits(0);
    for words in [
        "incomplete",
        "1/2",
        "v4 16 chips, 8 in Ray, 4 preempted, 4 more requested",
        "Hints:",
        "missing in Ray: 10.9.9.9",
        "clean-preempted",
        "tpu_worker is 3 below its minimum of 4",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    assert!(!ran.out.contains("foreign"), "{}", ran.out);
}

#[test]
fn googles_own_state_is_shown_where_it_is_unknown_and_always_in_json() {
    let fixture = Fixture::new();
    let mut new = node("new", "v4-8", "CREATING", &[]);
    new["createTime"] = json!("2099-01-01T00:00:00Z");
    fixture.nodes(&[
        node("strange", "v4-8", "HIBERNATED", &[]),
        node("repaired", "v4-8", "REPAIRING", &["10.9.9.9"]),
        node("old", "v4-8", "CREATING", &[]),
        new,
    ]);
    fixture.double.state().queued = vec![queued("q", "PAUSED_BY_ADMIN", "marin-a", &["q-node"])];
    let value = fixture.run("tpus --cluster a --json").exits(0).json();
    let of =
        |name: &str| value["rows"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone();
    for (name, status, state) in [
        ("strange", "unknown state", "HIBERNATED"),
        ("repaired", "joining", "REPAIRING"),
        ("old", "delayed", "CREATING"),
        ("new", "joining", "CREATING"),
        ("q", "unknown state", "PAUSED_BY_ADMIN"),
    ] {
        assert_eq!((&of(name)["status"], &of(name)["state"]), (&json!(status), &json!(state)), "{name}");
    }
    let out = fixture.run("tpus --cluster a").exits(0).out;
    let line = |name: &str| out.lines().find(|l| l.contains(name)).unwrap().to_owned();
    for (name, words) in [("strange", "HIBERNATED"), ("repaired", "REPAIRING"), (" q ", "PAUSED_BY_ADMIN")] {
        assert!(line(name).contains(&format!("Google reports {words}")), "{out}");
    }
    assert!(out.contains("status.cloud.google.com") && out.contains("remove-worker old"), "{out}");
}

#[test]
fn a_password_in_an_address_is_not_in_any_message() {
    let fixture = Fixture::new();
    for words in ["status --address http://me:hunter2@h:8265", "clusters --address me:hunter2@h"] {
        let ran = fixture.run(words);
        assert!(ran.code != Some(0) && ran.err.contains("me:***@h"), "{words}: {}", ran.err);
        assert!(
            !ran.err.contains("hunter2") && !ran.out.contains("hunter2"),
            "{words}: {}{}",
            ran.out,
            ran.err
        );
    }
}

#[test]
fn a_ghost_is_alive_in_ray_but_does_not_exist_at_google() {
    let fixture = Fixture::new();
    let [a, _] = &fixture.workers()[..] else { panic!("{:?}", fixture.workers()) };
    fixture.nodes(&[node("unnoticed", "v4-8", "PREEMPTED", &[a])]);
    let ran = fixture.run("tpus --cluster a --json").exits(0);
    let value = ran.json();
    let ghosts: Vec<_> = rows(&value).into_iter().filter(|r| r.0 == "stale node").collect();
    assert_eq!(ghosts.len(), 2, "{value:#}");
    assert!(ghosts.iter().any(|g| g.1 == "unnoticed"));
    assert!(ran.err.contains("`stale node`"), "{}", ran.err);
}

#[test]
fn without_ray_the_data_of_google_is_still_shown() {
    let mut fixture = Fixture::new();
    fixture.server = None;
    fixture.nodes(&[
        node("up", "v4-8", "READY", &["10.9.9.1"]),
        node("leak", "v4-8", "PREEMPTED", &[]),
        node("ended", "v4-8", "TERMINATED", &[]),
    ]);
    let ran = fixture.run("tpus --cluster a --json").exits(0);
    let value = ran.json();
    let statuses: Vec<_> = rows(&value).into_iter().map(|r| r.0).collect();
    assert_eq!(statuses, ["preempted, holds quota", "terminated, holds quota", "up, Ray unknown"]);
    assert_eq!((&value["ray"]["responded"], &value["types"][0]["in_ray"]), (&json!(false), &Value::Null));
    assert!(ran.err.contains("showing Google's data only") && ran.err.contains("; "), "{}", ran.err);
    assert!(fixture.run("tpus --cluster a").exits(0).out.contains("?/1"));
}

#[test]
fn when_google_fails_there_is_a_hint_and_no_wait_for_ray() {
    let fixture = Fixture::new();
    let refuse = |code, status, reason| Fault::Refuse { code, status, reason, message: "no" };
    let mut shown = Transcript::new(fixture.home.path());
    for fault in [
        refuse(403, "PERMISSION_DENIED", "IAM_PERMISSION_DENIED"),
        refuse(403, "PERMISSION_DENIED", "SERVICE_DISABLED"),
        refuse(429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED"),
    ] {
        fixture.double.fail("/nodes", fault);
        shown.add("tpus --cluster a", &fixture.run("tpus --cluster a").exits(1));
        fixture.double.recover();
    }
    let words = "clean-preempted --cluster a --yes";
    let mut command = fixture.command(words);
    let ran = Ran::of(&command.env("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere").output().unwrap()).exits(1);
    shown.with(words, &ran).is("tpus_when_google_fails");
}

#[test]
fn a_command_waits_as_long_as_google_requests_and_reports_it() {
    let fixture = Fixture::new();
    fixture.nodes(&[node("works", "v4-8", "READY", &["10.9.1.3"])]);
    fixture.double.fail("/nodes", Fault::Busy(3));
    let mut command = fixture.command("tpus --cluster a");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("Google has refused", || fixture.double.requests_with("/nodes") > 0);
    fixture.double.recover();
    let ran = Ran::of(&child.wait_with_output().unwrap()).exits(0);
    assert!(ran.err.contains("Waiting 3 s as requested by Google (quota exceeded: "), "{}", ran.err);
    assert!(ran.err.contains("next try in 3 s") && ran.out.contains("works"), "{}{}", ran.err, ran.out);
}

#[test]
fn other_providers_have_no_tpus() {
    let fixture = Fixture::new();
    let mut shown = Transcript::new(fixture.home.path());
    for words in ["tpus -c lab", "clean-preempted -c lab --yes", "tpus --address http://127.0.0.1:9"] {
        shown.add(words, &fixture.run(words).exits(1));
    }
    shown.is("clusters_without_tpus");
    assert!(fixture.double.requests().is_empty(), "{:?}", fixture.double.requests());
}

/// Preempted resources with the cluster's label, and others that must stay.
fn populate(fixture: &Fixture) {
    let mut unlabelled = node("of-nobody", "v4-8", "PREEMPTED", &[]);
    unlabelled["labels"] = json!({});
    fixture.nodes(&[
        node("taken", "v4-32", "PREEMPTED", &["10.9.1.1"]),
        node("ended", "v4-8", "TERMINATED", &[]),
        in_queue(node("held", "v4-8", "PREEMPTED", &[]), "q-held"),
        in_queue(node("pair-0", "v4-8", "PREEMPTED", &[]), "q-pair"),
        in_queue(node("pair-1", "v4-8", "READY", &["10.9.1.2"]), "q-pair"),
        node("works", "v4-8", "READY", &["10.9.1.3"]),
        node("stopped", "v4-8", "STOPPED", &[]),
        tpu::node(ZONE, "foreign", "v4-8", "PREEMPTED", &labels("marin-b"), &[]),
        tpu::node("us-east5-a", "elsewhere", "v4-8", "PREEMPTED", &labels("marin-a"), &[]),
        unlabelled,
    ]);
    fixture.double.state().queued = vec![
        queued("q-held", "ACTIVE", "marin-a", &["held"]),
        queued("q-pair", "ACTIVE", "marin-a", &["pair-0", "pair-1"]),
        queued("q-empty", "SUSPENDED", "marin-a", &["gone"]),
        queued("q-waits", "WAITING_FOR_RESOURCES", "marin-a", &["later"]),
        queued("q-foreign", "SUSPENDED", "marin-b", &["gone-too"]),
    ];
}

const STAY: [&str; 9] =
    ["pair-1", "works", "stopped", "foreign", "elsewhere", "of-nobody", "q-pair", "q-waits", "q-foreign"];

#[test]
fn only_this_clusters_leftovers_are_deleted_and_each_is_verified() {
    let fixture = Fixture::new();
    populate(&fixture);
    fixture.double.state().page = 2;
    let dry = fixture.run("clean-preempted -c a --dry-run --json").exits(0).json();
    assert_eq!(dry.as_array().unwrap().len(), 6, "{dry:#}");
    assert!(dry.as_array().unwrap().iter().all(|r| r["outcome"] == "would be deleted"));
    let unasked = fixture.run("clean-preempted -c a").exits(1);
    assert!(
        unasked.err.contains("--yes") && unasked.err.contains("4 TPU VMs and 2 queued resources (28 chips)"),
        "{}",
        unasked.err
    );
    assert_eq!(fixture.double.requests_with("DELETE"), 0, "{:?}", fixture.double.requests());

    let ran = fixture.run("clean-preempted -c a --yes").exits(0);
    assert_eq!(ran.out.matches("deleted").count(), 6, "{}", ran.out);
    assert_eq!(fixture.left(), STAY);
    assert_eq!(fixture.double.requests_with("DELETE"), 6);
    assert_eq!(fixture.double.requests_with("force=true"), 0, "nothing is forced");
    let log = fixture.run("audit").exits(0).out;
    assert!(
        log.contains("clean-preempted TPU VM taken")
            && log.contains("clean-preempted queued resource q-held"),
        "{log}"
    );
    assert!(fixture.run("clean-preempted -c a --yes").exits(0).err.contains("no preempted TPUs"));
}

#[test]
fn one_failed_deletion_does_not_stop_the_others() {
    let fixture = Fixture::new();
    populate(&fixture);
    let refuse = |code, status| Fault::Refuse { code, status, reason: "", message: "not you" };
    fixture.double.fail_at("DELETE", "/nodes/held", refuse(403, "PERMISSION_DENIED"));
    fixture.double.fail_at("DELETE", "/nodes/ended", refuse(429, "RESOURCE_EXHAUSTED"));
    let value = fixture.run("clean-preempted -c a --yes --json").exits(1).json();
    let of = |name: &str| value.as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone();
    assert!(of("held")["hint"].as_str().unwrap().contains("ask the project's owner"), "{value:#}");
    assert!(of("ended")["hint"].as_str().unwrap().contains("wait a minute"), "{value:#}");
    assert_eq!((&of("taken")["outcome"], &of("pair-0")["outcome"]), (&json!("deleted"), &json!("deleted")));
    // Its TPU VM still exists, so the request that holds it is kept too.
    assert_eq!(of("q-held")["outcome"], "skipped");
    assert_eq!(
        fixture
            .double
            .requests_with("DELETE /v2/projects/hai-test/locations/us-central2-b/queuedResources/q-held"),
        0
    );
    assert!(fixture.run("audit").exits(0).out.contains("permission denied by Google"));
}

#[test]
fn tpus_that_recover_before_their_deletion_are_not_touched() {
    let fixture = Fixture::new();
    fixture.nodes(&[
        node("back", "v4-8", "PREEMPTED", &[]),
        node("moved", "v4-8", "PREEMPTED", &[]),
        node("gone", "v4-8", "PREEMPTED", &[]),
    ]);
    // Each is read once more before it is deleted: that read is held back until the state has changed.
    let changed = Arc::new(Semaphore::new(0));
    fixture.double.fail_at("GET", "/nodes/", Fault::Held(changed.clone()));
    let mut child = fixture.command("clean-preempted -c a --yes --json");
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("each is read again", || fixture.double.requests_with("/nodes/") >= 3);
    fixture.nodes(&[
        node("back", "v4-8", "READY", &["10.9.1.1"]),
        tpu::node(ZONE, "moved", "v4-8", "PREEMPTED", &labels("marin-b"), &[]),
    ]);
    changed.add_permits(Semaphore::MAX_PERMITS);
    let ran = Ran::of(&child.wait_with_output().unwrap()).exits(0);
    let value = ran.json();
    let of = |name: &str| value.as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone();
    assert_eq!(
        (&of("back")["outcome"], &of("back")["reason"]),
        (&json!("skipped"), &json!("it is ready now"))
    );
    assert_eq!(of("moved")["reason"], "it now belongs to a different cluster");
    assert_eq!(of("gone")["outcome"], "already gone");
    assert_eq!(fixture.double.requests_with("DELETE"), 0);
}

#[test]
fn a_deletion_that_fails_or_has_no_effect_is_reported() {
    let fixture = Fixture::new();
    fixture.nodes(&[node("stuck", "v4-8", "PREEMPTED", &[])]);
    fixture.double.state().failing_operations = Some("in use by another".into());
    let value = fixture.run("clean-preempted -c a --yes --json").exits(1).json();
    assert!(value[0]["reason"].as_str().unwrap().contains("in use by another"), "{value:#}");
    fixture.double.state().failing_operations = None;
    fixture.double.state().idle_deletions = true;
    let value = fixture.run("clean-preempted -c a --yes --json").exits(1).json();
    assert!(value[0]["reason"].as_str().unwrap().contains("still lists it"), "{value:#}");
    assert_eq!(fixture.left(), ["stuck"]);
}

#[test]
fn a_deleted_tpu_counts_as_deleted_if_its_operation_cannot_be_read() {
    let fixture = Fixture::new();
    fixture.nodes(&[node("left", "v4-8", "PREEMPTED", &[])]);
    fixture.double.fail("/operations/", Fault::Html(502));
    let value = fixture.run("clean-preempted -c a --yes --json").exits(0).json();
    assert_eq!(value[0]["outcome"], "already gone", "{value:#}");
    assert!(fixture.left().is_empty());
}

#[test]
fn a_name_that_would_change_the_url_is_never_deleted() {
    let fixture = Fixture::new();
    fixture.nodes(&[node("left?force=true", "v4-8", "PREEMPTED", &[]), node("..", "v4-8", "PREEMPTED", &[])]);
    let ran = fixture.run("clean-preempted -c a --yes").exits(1);
    assert!(ran.out.contains("not a valid Google Cloud name"), "{}", ran.out);
    assert_eq!(fixture.double.requests_with("DELETE"), 0);
    assert_eq!(fixture.left().len(), 2);
}

/// `clusters --wide`, which queries the same Google for the heads.
#[test]
fn a_wide_list_has_the_addresses_of_heads_at_google() {
    let fixture = Fixture::new();
    let head = |zone: &str, name: &str, cluster: &str, internal: &str, external: Option<&str>| {
        let labels = json!({"ray-node-type": "head", "ray-cluster-name": cluster});
        compute::instance(zone, name, &labels, internal, external)
    };
    let mut stopped = head(ZONE, "old", "marin-a", "10.0.0.2", None);
    stopped["status"] = json!("TERMINATED");
    fixture.double.state().instances = vec![
        head(ZONE, "ours", "marin-a", "10.0.0.1", Some("34.0.0.1")),
        stopped,
        head(ZONE, "theirs", "marin-ab", "10.0.0.3", None),
        head("us-east5-a", "elsewhere", "marin-a", "10.0.0.4", None),
    ];
    let rows = fixture.run("clusters --json").exits(0).json();
    assert_eq!((&rows[1]["project"], &rows[1]["machines"]), (&json!(PROJECT), &Value::Null));
    assert_eq!(fixture.double.requests_with("/compute/"), 0, "a list without --wide does not query Google");
    let rows = fixture.run("clusters --wide --json").exits(0).json();
    let ours = json!([{"name": "ours", "zone": ZONE, "internal": "10.0.0.1", "external": "34.0.0.1"}]);
    assert_eq!((&rows[0]["machines"], &rows[1]["machines"]), (&Value::Null, &ours), "{rows:#}");
    let table = fixture.run("cluster-info").good();
    let line: Vec<&str> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(&line[..7], ["marin-a", "gcp", PROJECT, ZONE, "127.0.0.1", "10.0.0.1", "34.0.0.1"], "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with("lab      local     -"), "{table}");
    // Failed queries are reported, and the rest is listed.
    fixture.double.state().unreachable = vec!["us-central2-c".into()];
    let ran = fixture.run("clusters --wide").exits(1);
    assert!(ran.out.contains("34.0.0.1") && ran.err.contains("could not list us-central2-c"), "{}", ran.err);
    fixture.double.fail("aggregated", Fault::Html(502));
    let ran = fixture.run("clusters --wide -c lab").exits(0);
    assert_eq!((ran.out.lines().count(), ran.err.as_str()), (2, ""), "no cluster in Google Cloud is listed");
    let ran = fixture.run("clusters --wide").exits(1);
    assert!(ran.out.contains("marin-a") && ran.err.contains("cannot list the heads in"), "{}", ran.err);
}
