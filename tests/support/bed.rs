//! A real Ray of several hosts behind real sshd on this machine, for tests: brings one up with the scripts of
//! `tests/bed` (once; tests and runs that follow use it again), talks to it, and breaks it in the ways that life does.
//!
//! Hosts: `client` (the console runs there, nothing listens), `head`, `w1` and `w2` (joined by the autoscaler), `w3`
//! (joined by [`Bed::join_spare`]). A test of `tests/real` has a bed to itself while it runs: one test at a time uses the
//! shared beds, and one those that tests restart (`.config/nextest.toml`). What a test breaks it mends, and the next `up`
//! mends what a killed test left.

use crate::pty::Pty;
use crate::until::until;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// `cluster_name` of the bed's YAML.
pub const CLUSTER: &str = "marin-bed";
/// Address of the head as the client sees it; its dashboard and GCS listen on all addresses.
pub const HEAD: &str = "10.77.0.1";
/// Home folder of the user `ray` on every host.
pub const HOME: &str = "/home/ray";
/// Folder of cluster YAMLs on the client.
pub const INFRA: &str = "/home/ray/infra";
/// The cluster's YAML on the client.
pub const YAML: &str = "/home/ray/infra/marin-bed.yaml";
/// The private key on the client.
pub const KEY: &str = "/home/ray/.ssh/id_ed25519";
/// The token file on the client.
pub const TOKEN: &str = "/home/ray/.ray/auth_token";
/// How long a condition may take to come true, on two busy cores.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Which Ray a bed runs. The autoscaler differs too, so that both of Ray's are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ray {
    /// The newest supported release, with autoscaler v2.
    Newest,
    /// The oldest supported release, with autoscaler v1.
    Oldest,
}

/// A bed that is up.
#[derive(Clone, Copy, Debug)]
pub struct Bed {
    name: &'static str,
}

/// A job that is stopped when this is dropped, so that a failed test leaves no work behind.
#[derive(Debug)]
pub struct Job {
    bed: Bed,
    /// Its submission id.
    pub id: String,
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.bed.script("api").arg(format!("/api/jobs/{}/stop", self.id)).args(["-d", "{}"]).output();
    }
}

impl Bed {
    /// A healthy cluster: three nodes alive.
    pub fn shared(ray: Ray) -> Self {
        match ray {
            Ray::Newest => Self::up("shared-newest", &["--ray", "2.60.0", "--autoscaler", "2"]),
            Ray::Oldest => Self::up("shared-oldest", &["--ray", "2.53.0", "--autoscaler", "1"]),
        }
    }

    /// A healthy cluster of its own, for tests that restart it: what they leave is no other test's.
    pub fn restarted(ray: Ray) -> Self {
        match ray {
            Ray::Newest => Self::up("restarted-newest", &["--ray", "2.60.0", "--autoscaler", "2"]),
            Ray::Oldest => Self::up("restarted-oldest", &["--ray", "2.53.0", "--autoscaler", "1"]),
        }
    }

    /// A cluster whose autoscaler (v2) is refused every machine of type `tpu_v5e`; two nodes alive.
    pub fn stuck() -> Self {
        Self::up("shared-stuck", &["--cluster", "stuck"])
    }

    fn up(name: &'static str, args: &[&str]) -> Self {
        let bed = Self { name };
        bed.take_turn();
        let up = bed.script("up").args(args).output().unwrap();
        assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
        bed
    }

    /// Waits until no other test process has a bed of this kind. The turn ends with this process, however it ends: `cat`
    /// in the script sees its standard input closed.
    fn take_turn(&self) {
        static TURN: OnceLock<Child> = OnceLock::new();
        TURN.get_or_init(|| {
            let mut command = self.script("turn");
            command.args(["sh", "-c", "echo && exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.stderr(Stdio::null()).spawn().unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            child
        });
    }

    fn script(&self, script: &str) -> Command {
        let [program, args @ ..] = &self.argv(script)[..] else { unreachable!("argv is never empty") };
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command
    }

    fn argv(&self, script: &str) -> Vec<String> {
        let path = format!("{}/tests/bed/{script}", env!("CARGO_MANIFEST_DIR"));
        vec!["env".into(), format!("BED={}", self.name), path]
    }

    /// The start of a command line that runs what follows on the client as `ray`; for a pseudo-terminal, e.g.
    /// `[&bed.on_client(&["RUST_BACKTRACE"])[..], &[env!("CARGO_BIN_EXE_marin-tui").into()]].concat()`. The variables
    /// named in `pass` go along; no others do. What it runs dies with it: to send a signal use [`Bed::signal`].
    pub fn on_client(&self, pass: &[&str]) -> Vec<String> {
        let mut argv = self.argv("on");
        argv.insert(1, format!("BED_ENV={}", pass.join(" ")));
        argv.push("client".into());
        argv
    }

    /// The program on the client as the user `ray`, with the bed's cluster files.
    pub fn program(&self, args: &[&str]) -> Command {
        let mut command = self.command("client", &[env!("CARGO_BIN_EXE_marin-tui"), "--infra", INFRA]);
        command.args(args);
        command
    }

    /// The same without a command, in a terminal of that many columns and rows: the console.
    pub fn console(&self, cols: u16, rows: u16) -> Pty {
        let mut argv = self.on_client(&[]);
        argv.extend([env!("CARGO_BIN_EXE_marin-tui"), "--infra", INFRA].map(str::to_owned));
        Pty::start(&argv.iter().map(String::as_str).collect::<Vec<_>>(), &[], cols, rows)
    }

    /// A command on a host as the user `ray`.
    pub fn command(&self, host: &str, argv: &[&str]) -> Command {
        let mut command = self.script("on");
        command.arg(host).args(argv);
        command
    }

    /// Runs a command on a host as `ray`; its standard output. Fails the test when the command fails.
    pub fn on(&self, host: &str, argv: &[&str]) -> String {
        output(self.command(host, argv), "")
    }

    /// Runs a command on a host as root; its standard output.
    pub fn on_root(&self, host: &str, argv: &[&str]) -> String {
        self.on_root_with(host, argv, "")
    }

    /// The same with a standard input.
    pub fn on_root_with(&self, host: &str, argv: &[&str], input: &str) -> String {
        let mut command = self.script("on");
        command.arg("-r").arg(host).args(argv);
        output(command, input)
    }

    /// Writes a file on the client (mode 0600, its folder is made).
    pub fn write(&self, path: &str, text: &str) {
        let script = r#"umask 077 && mkdir -p "$(dirname "$0")" && cat >"$0""#;
        output(self.command("client", &["sh", "-c", script, path]), text);
    }

    /// Reads a file on the client.
    pub fn read(&self, path: &str) -> String {
        self.on("client", &["cat", path])
    }

    /// Sends a signal (`TERM`, `KILL`..) to the programs of this name on the client, and to no others.
    pub fn signal(&self, signal: &str, program: &str) {
        self.on_root("client", &["pkill", &format!("-{signal}"), "-x", program]);
    }

    /// How many processes with this command line (a regular expression for the whole of it) run on the client.
    pub fn running(&self, command_line: &str) -> usize {
        let out = self.command("client", &["pgrep", "-fx", command_line]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).lines().count()
    }

    /// GET of the dashboard, with the token.
    pub fn api(&self, path: &str) -> Value {
        self.curl(path, &[], "")
    }

    /// POST of JSON to the dashboard, with the token.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.curl(path, &["--data-binary", "@-"], &body.to_string())
    }

    fn curl(&self, path: &str, options: &[&str], body: &str) -> Value {
        let mut command = self.script("api");
        command.arg(path).args(options);
        let answer = output(command, body);
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{path}: {e}: {answer}"))
    }

    /// Submits a job that runs a shell command; its submission id, which begins with `label` and is unique.
    pub fn submit(&self, label: &str, entrypoint: &str) -> String {
        self.submit_with(label, entrypoint, &json!({}))
    }

    /// The same, with further fields of Ray's job submission request, e.g. `{"entrypoint_num_gpus": 8}`.
    pub fn submit_with(&self, label: &str, entrypoint: &str, fields: &Value) -> String {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        let id = format!("{label}-{now}");
        let mut request = fields.clone();
        request["entrypoint"] = entrypoint.into();
        request["submission_id"] = id.as_str().into();
        assert_eq!(self.post("/api/jobs/", &request)["submission_id"], id.as_str());
        id
    }

    /// The same for a job that is stopped at the end of the test.
    pub fn start(self, label: &str, entrypoint: &str) -> Job {
        Job { bed: self, id: self.submit(label, entrypoint) }
    }

    /// The job as `GET /api/jobs/{id}` tells it.
    pub fn job(&self, id: &str) -> Value {
        self.api(&format!("/api/jobs/{id}"))
    }

    /// Waits until a job has this status (`RUNNING`, `SUCCEEDED`..); the job.
    pub fn job_becomes(&self, id: &str, status: &str) -> Value {
        until(&format!("{id} is {status}"), || Some(self.job(id)).filter(|job| job["status"] == status))
    }

    /// All nodes that Ray remembers, as `GET /api/v0/nodes?detail=true` tells them.
    pub fn nodes(&self) -> Vec<Value> {
        let answer = self.api("/api/v0/nodes?detail=true");
        answer["data"]["result"]["result"].as_array().unwrap().clone()
    }

    /// Waits until a node is in this state (`ALIVE`, `DEAD`); the node.
    pub fn node_becomes(&self, id: &str, state: &str) -> Value {
        let found = |n: &Value| n["node_id"] == id && n["state"] == state;
        until(&format!("{id} is {state}"), || self.nodes().into_iter().find(found))
    }

    /// Joins `w3` to the cluster by hand, as no autoscaler's worker; its node id.
    pub fn join_spare(&self) -> String {
        let known: Vec<Value> = self.nodes().into_iter().map(|n| n["node_id"].clone()).collect();
        self.join("w3", "", "");
        let is_it = |n: &Value| n["node_ip"] == "10.77.0.4" && n["state"] == "ALIVE";
        let fresh = |n: &Value| is_it(n) && !known.contains(&n["node_id"]);
        let node = until("w3 is alive", || self.nodes().into_iter().find(fresh));
        node["node_id"].as_str().unwrap().to_owned()
    }

    /// Starts Ray on a host as a worker, with these variables in its environment and these options of `ray start`.
    pub fn join(&self, host: &str, variables: &str, options: &str) {
        let script = format!(
            "umask 077; cat >~/.ray/auth_token; exec >~/join.log 2>&1; ray stop --force; {variables} \
             ray start --address=10.77.0.1:6379 --num-cpus=1 --object-store-memory=80000000 {options}"
        );
        output(self.command(host, &["sh", "-c", &script]), &self.read(TOKEN));
    }

    /// Kills a host's raylet with -9. Ray calls the node dead about 15 seconds later.
    pub fn kill_raylet(&self, host: &str) {
        self.on_root(host, &["pkill", "-KILL", "-x", "raylet"]);
    }

    /// Sends a signal (`STOP`, `CONT`, `KILL`) to the head's dashboard: the GCS, the jobs and sshd stay.
    pub fn signal_dashboard(&self, signal: &str) {
        self.on_root("head", &["pkill", &format!("-{signal}"), "-f", "ray/dashboard/dashboard.py"]);
    }

    /// Sends a signal to the head's GCS. After a minute without it Ray's own daemons give up.
    pub fn signal_gcs(&self, signal: &str) {
        self.on_root("head", &["pkill", &format!("-{signal}"), "-x", "gcs_server"]);
    }

    /// Ends a host's sshd and all its connections: new ones are refused.
    pub fn sshd_stop(&self, host: &str) {
        // Since OpenSSH 9.8 connections are programs of their own.
        let all = "sshd(-session|-auth)?";
        self.on_root(host, &["pkill", "-KILL", "-x", all]);
        let is_there =
            || self.script("on").args(["-r", host, "pgrep", "-x", all]).output().unwrap().status.success();
        // Another one cannot have the port as long as one is there.
        until("sshd is gone", || (!is_there()).then_some(()));
    }

    /// Starts a host's sshd again.
    pub fn sshd_start(&self, host: &str) {
        self.on_root(host, &["/usr/sbin/sshd", "-E", "/run/sshd.log"]);
    }

    /// Pulls a host's network cable: packets are lost without an answer.
    pub fn cut(&self, host: &str) {
        self.on_root("switch", &["ip", "link", "set", &format!("v-{host}"), "down"]);
    }

    /// Plugs the cable in again.
    pub fn heal(&self, host: &str) {
        self.on_root("switch", &["ip", "link", "set", &format!("v-{host}"), "up"]);
    }
}

/// Runs the body of a test on the client host of a bed, where the head can be reached: the test's own binary is started
/// there again, for this one test, as the user `ray`. Call it as the only thing that a `#[test]` does.
pub fn inside(ray: Ray, body: impl FnOnce()) {
    inside_of(|| Bed::shared(ray), body);
}

/// The same on another bed, which `bed` brings up.
pub fn inside_of(bed: impl FnOnce() -> Bed, body: impl FnOnce()) {
    const MARK: &str = "MARIN_TEST_INSIDE";
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    let argv = bed().on_client(&[MARK]);
    let test = std::thread::current().name().unwrap().to_owned();
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture"]).env(MARK, "1").stdin(Stdio::null());
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("1 passed"), "{said}\n{error}");
}

fn output(mut command: Command, input: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}\n{text}\n{error}", out.status);
    text
}
