//! Workers by hand and the restart of a cluster in Google Cloud, as a shell does them: against a Google, a head behind
//! SSH, and a ray command that is a script.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use google::{Google as Double, PROJECT, compute, tpu};
use marin_tui::demo::google;
use marin_tui::demo::{Head, Keys, Scenario, SshServer};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const ZONE: &str = "us-central2-b";
/// Where heads are reached from outside.
const HEAD: &str = "127.0.0.11";
/// A worker of the simulated head, as Ray has it.
const WORKER: &str = "10.128.0.2";

struct World {
    runtime: Runtime,
    home: TempDir,
    double: Double,
    heads: Vec<(Head, SshServer)>,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        // A control socket's path has about 100 bytes.
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let double = runtime.block_on(Double::start()).unwrap();
        double.write_adc(home.path()).unwrap();
        let world = Self { runtime, home, double, heads: Vec::new() };
        let place = world.home.path().display().to_string();
        world.file("ssh_config", "");
        world.file("ray", &format!("#!/bin/sh\necho \"$@\" >>{place}/asked\necho 'ray, version 2.60.0'\n[ \"$1\" != up ] || while [ ! -e {place}/is-up ]; do sleep 0.1; done\n"));
        fs::set_permissions(world.home.path().join("ray"), fs::Permissions::from_mode(0o755)).unwrap();
        let settings = json!({"google_endpoint": world.double.url(), "ssh_config": format!("{place}/ssh_config"),
            "ray": [format!("{place}/ray")],
            "clusters": {"marin-a": {"user": "ray", "key": format!("{place}/key")}}});
        world.file("config.yaml", &settings.to_string());
        world.file(
            "infra/a.yaml",
            &format!(
                "cluster_name: marin-a\nhead_node_type: head\n\
                 provider: {{type: gcp, project_id: {PROJECT}, availability_zone: {ZONE}}}\n\
                 docker: {{image: us-docker.pkg.dev/p/r/i:latest, container_name: ray_docker}}\n\
                 available_node_types:\n  head: {{max_workers: 0, node_config: {{machineType: n2}}}}\n  \
                 tpu_worker: {{resources: {{TPU: 4}}, node_config: {{acceleratorType: v4-8, runtimeVersion: r, schedulingConfig: {{preemptible: true}}}}}}\n"
            ),
        );
        world
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A machine labelled as head, with a Ray and a host key of its own; each at the address of the one before.
    fn head(&mut self) {
        let _ = fs::remove_file(self.home.path().join("key"));
        let keys = Keys::new().unwrap();
        keys.write_client(&self.home.path().join("key")).unwrap();
        let seed = self.heads.len() as u64 + 1;
        let (head, server) = self.runtime.block_on(async {
            let scenario = Scenario { seed, nodes: 3, dead: 0, ..Scenario::default() };
            let head = Head::start(scenario).await.unwrap();
            let server = SshServer::start(&head, "marin-a", &keys).await.unwrap();
            (head, server)
        });
        let port = server.address.port();
        let config = format!("Host {HEAD}\n  HostName 127.0.0.1\n  Port {port}\n  HostKeyAlias head-of-a\n");
        self.file("ssh_config", &config);
        self.heads.push((head, server));
        let labels = json!({"ray-node-type": "head", "ray-cluster-name": "marin-a"});
        let name = format!("head-{}", self.heads.len());
        let machine = compute::instance(ZONE, &name, &labels, "10.0.0.1", Some(HEAD));
        self.double.state().instances.push(machine);
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_marin-tui"));
        command.args(words.split_whitespace()).env_clear().current_dir(self.home.path());
        command.arg("--config").arg(self.home.path().join("config.yaml"));
        command.env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.home.path().join("adc.json"));
        // Nobody's metadata server.
        command.env("GCE_METADATA_HOST", "127.0.0.1:9");
        command
    }

    fn run(&self, words: &str) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }

    fn spawn(&self, words: &str) -> Running {
        let mut child = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Running { child, lines: Box::new(lines), said: String::new() }
    }

    fn turn(&self, name: &str, state: &str) {
        let mut double = self.double.state();
        let queued = double.queued.iter_mut().find(|q| q["name"].as_str().unwrap().ends_with(name)).unwrap();
        queued["state"] = json!({ "state": state });
    }

    /// The queued resource has its TPU VM, whose host is a worker in Ray already.
    fn grant(&self, name: &str) {
        let queued = format!("projects/{PROJECT}/locations/{ZONE}/queuedResources/{name}");
        let mut node = tpu::node(ZONE, name, "v4-8", "READY", &labels("unmanaged"), &[WORKER]);
        node["queuedResource"] = queued.into();
        self.double.state().nodes.push(node);
        self.turn(name, "ACTIVE");
    }
}

struct Running {
    child: Child,
    lines: Box<dyn std::io::BufRead>,
    said: String,
}

impl Running {
    /// Reads until it says so.
    fn says(&mut self, words: &str) {
        let from = self.said.len();
        while !self.said[from..].contains(words) {
            let read = self.lines.read_line(&mut self.said).unwrap();
            assert!(read > 0, "it ended without saying {words:?}: {}", self.said);
        }
    }

    fn ends(mut self) -> (Option<i32>, String, String) {
        let mut out = String::new();
        self.lines.read_to_string(&mut self.said).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code(), out, self.said)
    }
}

fn labels(kind: &str) -> Value {
    json!({"ray-cluster-name": "marin-a", "ray-node-type": kind, "ray-user-node-type": "tpu_worker"})
}

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
