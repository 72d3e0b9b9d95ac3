//! A real Ray cluster of several hosts behind real sshd on this machine, for tests: starts it with the scripts in
//! `tests/bed` (once; later tests and runs reuse it), sends requests to it, and injects faults that occur in practice.
//!
//! Hosts: `client` (runs the console, nothing listens there), `head`, `w1` and `w2` (joined by the autoscaler), `w3`
//! (joined by [`Bed::join_spare`]). A test of `tests/real` has exclusive use of a bed. There are two kinds, those that
//! tests share one after another and those that they also restart, and as many of each as tests of that kind run at a
//! time (`.config/nextest.toml`). A test repairs what it breaks, and the next `up` repairs what a killed test left.

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
/// Home directory of the user `ray` on every host.
pub const HOME: &str = "/home/ray";
/// Directory of cluster YAML files on the client.
pub const INFRA: &str = "/home/ray/infra";
/// The cluster's YAML on the client.
pub const YAML: &str = "/home/ray/infra/marin-bed.yaml";
/// The private key on the client.
pub const KEY: &str = "/home/ray/.ssh/id_ed25519";
/// The token file on the client.
pub const TOKEN: &str = "/home/ray/.ray/auth_token";
/// Time limit for a condition to become true, on two busy cores.
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// The Ray version of a bed. The autoscaler version differs too, so that both are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ray {
    /// The newest supported release, with autoscaler v2.
    Newest,
    /// The oldest supported release, with autoscaler v1.
    Oldest,
}

/// A running bed.
#[derive(Clone, Copy, Debug)]
pub struct Bed {
    /// Its group, the kind and a number, and after a hyphen what runs on it: `shared1-newest`. One bed of a group is up
    /// at a time.
    name: &'static str,
}

/// A job that is stopped when this is dropped, so that a failed test leaves no running job.
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
            Ray::Newest => Self::up("shared", "newest", &["--ray", "2.60.0", "--autoscaler", "2"]),
            Ray::Oldest => Self::up("shared", "oldest", &["--ray", "2.53.0", "--autoscaler", "1"]),
        }
    }

    /// A separate healthy cluster for tests that restart it, so that they do not affect other tests.
    pub fn restarted(ray: Ray) -> Self {
        match ray {
            Ray::Newest => Self::up("restarted", "newest", &["--ray", "2.60.0", "--autoscaler", "2"]),
            Ray::Oldest => Self::up("restarted", "oldest", &["--ray", "2.53.0", "--autoscaler", "1"]),
        }
    }

    /// A cluster whose autoscaler (v2) cannot get any machine of type `tpu_v5e`; two nodes alive.
    pub fn stuck() -> Self {
        Self::up("shared", "stuck", &["--cluster", "stuck"])
    }

    fn up(kind: &str, label: &str, args: &[&str]) -> Self {
        // Without nextest, or outside a test group, it is the first one.
        let slot = std::env::var("NEXTEST_TEST_GROUP_SLOT").ok().and_then(|slot| slot.parse::<u32>().ok());
        let name = format!("{kind}{}-{label}", slot.unwrap_or(0));
        let bed = Self { name: Box::leak(name.into_boxed_str()) };
        bed.take_turn();
        let up = bed.script("up").args(args).output().unwrap();
        assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
        bed
    }

    /// Waits until no other test process uses a bed of this group. The bed is released when this process ends, for any
    /// reason: `cat` in the script reads the end of its standard input.
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

    /// Ends the cluster and its hosts; the next test starts another.
    pub fn remove(&self) {
        output(self.script("down"), "");
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

    /// The prefix of a command line that runs the rest on the client as `ray`; for a pseudo-terminal, e.g.
    /// `[&bed.on_client(&["RUST_BACKTRACE"])[..], &[env!("CARGO_BIN_EXE_marin-tui").into()]].concat()`. The variables
    /// named in `pass` are passed; no others are. The command is killed with it: to send a signal use [`Bed::signal`].
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

    /// The console: the program without a command, in a terminal with this many columns and rows.
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

    /// Runs a command on a host as `ray` and returns its standard output. Fails the test if the command fails.
    pub fn on(&self, host: &str, argv: &[&str]) -> String {
        output(self.command(host, argv), "")
    }

    /// Runs a command on a host as root and returns its standard output.
    pub fn on_root(&self, host: &str, argv: &[&str]) -> String {
        self.on_root_with(host, argv, "")
    }

    /// Like [`Bed::on_root`], with standard input.
    pub fn on_root_with(&self, host: &str, argv: &[&str], input: &str) -> String {
        let mut command = self.script("on");
        command.arg("-r").arg(host).args(argv);
        output(command, input)
    }

    /// Writes a file on the client (mode 0600) and creates its directory.
    pub fn write(&self, path: &str, text: &str) {
        let script = r#"umask 077 && mkdir -p "$(dirname "$0")" && cat >"$0""#;
        output(self.command("client", &["sh", "-c", script, path]), text);
    }

    /// Reads a file on the client.
    pub fn read(&self, path: &str) -> String {
        self.on("client", &["cat", path])
    }

    /// Sends a signal (`TERM`, `KILL`..) to all processes with exactly this name on the client.
    pub fn signal(&self, signal: &str, program: &str) {
        self.on_root("client", &["pkill", &format!("-{signal}"), "-x", program]);
    }

    /// Number of processes on the client whose whole command line matches this regular expression.
    pub fn running(&self, command_line: &str) -> usize {
        let out = self.command("client", &["pgrep", "-fx", command_line]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).lines().count()
    }

    /// Sends a GET request to the dashboard, with the token.
    pub fn api(&self, path: &str) -> Value {
        self.curl(path, &[], "")
    }

    /// Sends a POST request with JSON to the dashboard, with the token.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.curl(path, &["--data-binary", "@-"], &body.to_string())
    }

    fn curl(&self, path: &str, options: &[&str], body: &str) -> Value {
        let mut command = self.script("api");
        command.arg(path).args(options);
        let answer = output(command, body);
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{path}: {e}: {answer}"))
    }

    /// Submits a job that runs a shell command; returns its unique submission id, which begins with `label`.
    pub fn submit(&self, label: &str, entrypoint: &str) -> String {
        self.submit_with(label, entrypoint, &json!({}))
    }

    /// Like [`Bed::submit`], with further fields of Ray's job submission request, e.g. `{"entrypoint_num_gpus": 8}`.
    pub fn submit_with(&self, label: &str, entrypoint: &str, fields: &Value) -> String {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        let id = format!("{label}-{now}");
        let mut request = fields.clone();
        request["entrypoint"] = entrypoint.into();
        request["submission_id"] = id.as_str().into();
        assert_eq!(self.post("/api/jobs/", &request)["submission_id"], id.as_str());
        id
    }

    /// Submits a job that is stopped at the end of the test.
    pub fn start(self, label: &str, entrypoint: &str) -> Job {
        Job { bed: self, id: self.submit(label, entrypoint) }
    }

    /// The job, from `GET /api/jobs/{id}`.
    pub fn job(&self, id: &str) -> Value {
        self.api(&format!("/api/jobs/{id}"))
    }

    /// Waits until a job has this status (`RUNNING`, `SUCCEEDED`..); returns the job.
    pub fn job_becomes(&self, id: &str, status: &str) -> Value {
        until(&format!("{id} is {status}"), || Some(self.job(id)).filter(|job| job["status"] == status))
    }

    /// All nodes that Ray lists, from `GET /api/v0/nodes?detail=true`.
    pub fn nodes(&self) -> Vec<Value> {
        let answer = self.api("/api/v0/nodes?detail=true");
        answer["data"]["result"]["result"].as_array().unwrap().clone()
    }

    /// Waits until a node is in this state (`ALIVE`, `DEAD`); returns the node.
    pub fn node_becomes(&self, id: &str, state: &str) -> Value {
        let found = |n: &Value| n["node_id"] == id && n["state"] == state;
        until(&format!("{id} is {state}"), || self.nodes().into_iter().find(found))
    }

    /// Joins `w3` to the cluster manually, not by the autoscaler; returns its node id.
    pub fn join_spare(&self) -> String {
        let known: Vec<Value> = self.nodes().into_iter().map(|n| n["node_id"].clone()).collect();
        self.join("w3", "", "");
        let is_spare = |n: &Value| n["node_ip"] == "10.77.0.4" && n["state"] == "ALIVE";
        let fresh = |n: &Value| is_spare(n) && !known.contains(&n["node_id"]);
        let node = until("w3 is alive", || self.nodes().into_iter().find(fresh));
        node["node_id"].as_str().unwrap().to_owned()
    }

    /// Starts Ray on a host as a worker, with these environment variables and these options of `ray start`.
    pub fn join(&self, host: &str, variables: &str, options: &str) {
        let script = format!(
            "umask 077; cat >~/.ray/auth_token; exec >~/join.log 2>&1; ray stop --force; {variables} \
             ray start --address=10.77.0.1:6379 --num-cpus=1 --object-store-memory=80000000 \
             --dashboard-agent-grpc-port=52366 --metrics-export-port=52367 --runtime-env-agent-port=52368 {options}"
        );
        output(self.command(host, &["sh", "-c", &script]), &self.read(TOKEN));
    }

    /// Kills a host's raylet with SIGKILL. Ray marks the node dead about 5 seconds later.
    pub fn kill_raylet(&self, host: &str) {
        self.on_root(host, &["pkill", "-KILL", "-x", "raylet"]);
    }

    /// Sends a signal (`STOP`, `CONT`, `KILL`) to the head's dashboard; the GCS, the jobs and sshd are not affected.
    pub fn signal_dashboard(&self, signal: &str) {
        self.on_root("head", &["pkill", &format!("-{signal}"), "-f", "ray/dashboard/dashboard.py"]);
    }

    /// Sends a signal to the head's GCS. Ray's own daemons exit after a minute without it.
    pub fn signal_gcs(&self, signal: &str) {
        self.on_root("head", &["pkill", &format!("-{signal}"), "-x", "gcs_server"]);
    }

    /// Kills a host's sshd and all its connections; new ones are refused.
    pub fn sshd_stop(&self, host: &str) {
        // Since OpenSSH 9.8, connections are separate programs.
        let all = "sshd(-session|-auth)?";
        self.on_root(host, &["pkill", "-KILL", "-x", all]);
        let is_running =
            || self.script("on").args(["-r", host, "pgrep", "-x", all]).output().unwrap().status.success();
        // A new sshd cannot bind the port while an old process runs.
        until("sshd is gone", || (!is_running()).then_some(()));
    }

    /// Restarts a host's sshd.
    pub fn sshd_start(&self, host: &str) {
        self.on_root(host, &["/usr/sbin/sshd", "-E", "/run/sshd.log"]);
    }

    /// Disconnects a host from the network: packets are lost without a response.
    pub fn cut(&self, host: &str) {
        self.on_root("switch", &["ip", "link", "set", &format!("v-{host}"), "down"]);
    }

    /// Reconnects the host to the network.
    pub fn heal(&self, host: &str) {
        self.on_root("switch", &["ip", "link", "set", &format!("v-{host}"), "up"]);
    }
}

/// Runs the body of a test on the client host of a bed, from which the head can be reached: starts the test's own
/// binary there again, for this one test, as the user `ray`. Must be the only statement of a `#[test]`.
pub fn inside(ray: Ray, body: impl FnOnce()) {
    inside_of(|| Bed::shared(ray), body);
}

/// Like [`inside`], on the bed that `bed` starts.
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
    let text = String::from_utf8_lossy(&out.stdout);
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && text.contains("1 passed"), "{text}\n{error}");
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
