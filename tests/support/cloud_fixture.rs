//! A cluster in Google Cloud as a shell sees it: simulated Google services that list simulated heads behind SSH, and a
//! script as the `ray` command.

use crate::google::google;
use crate::program::{Ran, program};
use crate::running::Running;
use marin_tui::config::{self, Entry, Env, Folders, Sources};
use marin_tui::demo::google::{Google as Double, PROJECT, compute, tpu};
use marin_tui::demo::{Head, Keys, Scenario, SshServer};
use marin_tui::model::{StepName, Task, Timestamp};
use marin_tui::operation::{Audit, Environment, Facts, Journal, Scope};
use marin_tui::state::Update;
use marin_tui::supervisor::{Options, Supervisor};
use marin_tui::token::TokenSources;
use marin_tui::tui::{Multiplexer, Performer, TerminalEnv};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

pub const ZONE: &str = "us-central2-b";
/// The external address of the heads.
pub const HEAD: &str = "127.0.0.11";
/// The address of a worker of the simulated head in Ray.
pub const WORKER: &str = "10.128.0.2";

/// A home directory, the simulated Google services, and the simulated heads.
pub struct CloudFixture {
    pub runtime: Runtime,
    pub home: TempDir,
    pub double: Double,
    pub heads: Vec<(Head, SshServer)>,
}

impl CloudFixture {
    pub fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        // The path of a control socket is limited to about 100 bytes.
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let double = runtime.block_on(Double::start()).unwrap();
        double.write_adc(home.path()).unwrap();
        let fixture = Self { runtime, home, double, heads: Vec::new() };
        let home_dir = fixture.home.path().display().to_string();
        fixture.file("ssh_config", "");
        fixture.program(
            "ray",
            &format!(
                "echo \"$@\" >>{home_dir}/calls\necho 'ray, version 2.60.0'\n\
                 [ \"$1\" != up ] || while [ ! -e {home_dir}/is-up ]; do sleep 0.1; done\n\
                 [ \"$1\" != down ] || while [ -e {home_dir}/hold-down ]; do sleep 0.1; done\n"
            ),
        );
        fixture.program("ssh", "exec /usr/bin/ssh \"$@\"\n");
        let settings = json!({"google_endpoint": fixture.double.url(), "ssh_config": format!("{home_dir}/ssh_config"),
            "infra": [format!("{home_dir}/infra")],
            "ray": [format!("{home_dir}/ray")], "ssh": format!("{home_dir}/ssh"),
            "clusters": {"marin-a": {"user": "ray", "key": format!("{home_dir}/key")}}});
        fixture.file("config.yaml", &settings.to_string());
        fixture.file(
            "infra/a.yaml",
            &format!(
                "cluster_name: marin-a\nhead_node_type: head\n\
                 provider: {{type: gcp, project_id: {PROJECT}, availability_zone: {ZONE}}}\n\
                 docker: {{image: us-docker.pkg.dev/p/r/i:latest, container_name: ray_docker}}\n\
                 available_node_types:\n  head: {{max_workers: 0, node_config: {{machineType: n2}}}}\n  \
                 tpu_worker: {{resources: {{TPU: 4}}, node_config: {{acceleratorType: v4-8, runtimeVersion: r, schedulingConfig: {{preemptible: true}}}}}}\n"
            ),
        );
        fixture
    }

    pub fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a shell script that replaces a program.
    pub fn program(&self, name: &str, script: &str) {
        self.file(name, &format!("#!/bin/sh\n{script}"));
        fs::set_permissions(self.home.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Adds a machine labeled as head, with its own Ray and host key; each new head has the address of the previous
    /// one.
    pub fn head(&mut self) {
        self.head_of(|_| ());
    }

    /// Like [`Self::head`], with a changed scenario.
    pub fn head_of(&mut self, change: impl FnOnce(&mut Scenario)) {
        let _ = fs::remove_file(self.home.path().join("key"));
        let keys = Keys::new().unwrap();
        keys.write_client(&self.home.path().join("key")).unwrap();
        let seed = self.heads.len() as u64 + 1;
        let (head, server) = self.runtime.block_on(async {
            let mut scenario = Scenario { seed, nodes: 3, dead: 0, ..Scenario::default() };
            change(&mut scenario);
            let head = Head::start(scenario).await.unwrap();
            let server = SshServer::start(&head, "marin-a", &keys, Duration::ZERO).await.unwrap();
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

    /// The environment of operations in this fixture, with the settings of its owner, `me`.
    pub fn environment(&self) -> Environment {
        let home = self.home.path();
        let env = Env::new(&[("HOME", home.to_str().unwrap()), ("USER", "me")], home);
        let infra = Some(home.join("infra"));
        let sources = Sources { infra, config: Some(home.join("config.yaml")), ..Sources::default() };
        let config = config::load(&sources, &env, Timestamp::now()).unwrap();
        let folders = Folders::new(&env);
        for folder in [&folders.state, &folders.tokens, &folders.run] {
            config::create_private(folder).unwrap();
        }
        let mut options = Options::new(&config.settings, &folders, TokenSources::default());
        options.google = google(&self.double, home);
        Environment {
            clusters: config.entries.iter().filter_map(Entry::cluster).cloned().collect(),
            connections: BTreeMap::new(),
            options,
            audit: Audit::new(&folders.state, "me@here"),
            state: folders.state,
            env,
            me: "me".into(),
            read_only: config.settings.read_only,
        }
    }

    /// Writes the journal of an operation that was killed after these steps, and has stopped Ray; `session` is that of Ray.
    pub fn interrupted(&self, task: &Task, done: &[StepName], session: &str) {
        let environment = self.environment();
        let spec = &environment.clusters[0];
        let mut journal = Journal::open(&environment.state, &spec.name).unwrap();
        journal.begin(task, &Scope::of(spec)).unwrap();
        journal.facts(&Facts { session: session.into(), stopping: true, ..Facts::default() }).unwrap();
        for step in done {
            journal.done(*step, "").unwrap();
        }
    }

    /// A performer that executes a console's effects, with its own connections.
    pub fn performer(&self, environment: Environment, updates: &mpsc::Sender<Update>) -> Performer {
        let _runtime = self.runtime.enter();
        let (clusters, options) = (environment.clusters.clone(), environment.options.clone());
        let supervisor = Supervisor::start(clusters, options, updates);
        let home_dir = TerminalEnv { remote: true, multiplexer: Multiplexer::None };
        Performer::new(supervisor, home_dir).operating(environment)
    }

    pub fn command(&self, words: &str) -> Command {
        let mut command = program(self.home.path());
        command.arg("--config").arg(self.home.path().join("config.yaml")).args(words.split_whitespace());
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.home.path().join("adc.json"));
        command
    }

    pub fn run(&self, words: &str) -> (Option<i32>, String, String) {
        let Ran { code, out, err } = Ran::of(&self.command(words).output().unwrap());
        (code, out, err)
    }

    /// The gate that rejects this operation, as `--json` reports it, and the standard error.
    pub fn refused(&self, words: &str) -> (String, String) {
        Ran::of(&self.command(&format!("{words} --json")).output().unwrap()).refused()
    }

    pub fn spawn(&self, words: &str) -> Running {
        Running::start(self.command(words))
    }

    /// The subcommands with which `ray` was called so far.
    pub fn calls(&self) -> Vec<String> {
        let requests = fs::read_to_string(self.home.path().join("calls")).unwrap_or_default();
        requests.lines().filter_map(|l| l.split(' ').next()).map(str::to_owned).collect()
    }

    /// The requested deletions, except those of instance groups, which mark operations.
    pub fn deletions(&self) -> Vec<String> {
        let all = self.double.requests().into_iter();
        all.filter(|r| r.starts_with("DELETE") && !r.contains("instanceGroups")).collect()
    }

    pub fn turn(&self, name: &str, state: &str) {
        let mut double = self.double.state();
        let queued = double.queued.iter_mut().find(|q| q["name"].as_str().unwrap().ends_with(name)).unwrap();
        queued["state"] = json!({ "state": state });
    }

    /// Grants the queued resource its TPU VM, whose host is already a worker in Ray.
    pub fn grant(&self, name: &str) {
        let queued = format!("projects/{PROJECT}/locations/{ZONE}/queuedResources/{name}");
        let mut node = tpu::node(ZONE, name, "v4-8", "READY", &labels("unmanaged"), &[WORKER]);
        node["queuedResource"] = queued.into();
        self.double.state().nodes.push(node);
        self.turn(name, "ACTIVE");
    }
}

pub fn labels(kind: &str) -> Value {
    json!({"ray-cluster-name": "marin-a", "ray-node-type": kind, "ray-user-node-type": "tpu_worker"})
}
