//! `marin-tui ssh` against a real sshd: the head, a machine behind it, and how a name selects a machine.

use crate::program::program;
use crate::sshd::{Sshd, user};
use marin_tui::demo::google;
use marin_tui::demo::google::{Google as Double, PROJECT, tpu};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const ZONE: &str = "us-central2-b";
const REACHED: &str = "127.0.0.1";

/// A home, a gcp cluster whose head is a real sshd, and a Google that knows its TPUs.
struct Fixture {
    _runtime: Runtime,
    home: TempDir,
    double: Double,
    sshd: Sshd,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let double = runtime.block_on(Double::start()).unwrap();
        double.write_adc(home.path()).unwrap();
        let fixture = Self { _runtime: runtime, home, double, sshd: Sshd::start("LogLevel VERBOSE") };
        let provider = format!("{{type: gcp, project_id: {PROJECT}, availability_zone: {ZONE}}}");
        fixture.file("infra/a.yaml", &format!("cluster_name: marin-a\nprovider: {provider}\n"));
        fixture.file(
            "infra/lab.yaml",
            "cluster_name: lab\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n",
        );
        fixture.file("ssh_config", "");
        fixture.settings("ssh");
        fixture
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn settings(&self, ssh: &str) {
        let login = json!({"address": REACHED, "port": self.sshd.port, "user": user(), "key": self.sshd.dir().path("key")});
        let settings = json!({"google_endpoint": self.double.url(), "ssh": ssh,
            "infra": [self.home.path().join("infra")], "ssh_config": self.home.path().join("ssh_config"), "clusters": {"marin-a": login, "lab": login}});
        self.file("config.yaml", &settings.to_string());
    }

    /// From now on ssh only records its arguments.
    fn record(&self) {
        let real = "case \"$1\" in -G) exec ssh \"$@\";; esac";
        let log = self.home.path().join("calls");
        let ssh =
            self.file("ssh", &format!("#!/bin/sh\n{real}\nprintf '%s\\n' \"$@\" > {}\n", log.display()));
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700)).unwrap();
        self.settings(ssh.to_str().unwrap());
    }

    fn recorded(&self, args: &[&str]) -> Vec<String> {
        let out = self.run(args);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = fs::read_to_string(self.home.path().join("calls")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = program(self.home.path());
        // Options come before `--`.
        let end = args.iter().position(|a| *a == "--").unwrap_or(args.len());
        command
            .args(&args[..end])
            .arg("--config")
            .arg(self.home.path().join("config.yaml"))
            .args(&args[end..]);
        command.env("RAY_AUTH_TOKEN", "tok-never-shown");
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.home.path().join("adc.json"));
        command.output().unwrap()
    }

    fn fails(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status.code(), Some(1), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stderr).unwrap()
    }

    fn nodes(&self, nodes: &[Value]) {
        self.double.state().nodes = nodes.to_vec();
    }
}

fn node(id: &str, ips: &[&str]) -> Value {
    tpu::node(ZONE, id, "v4-16", "READY", &json!({"ray-cluster-name": "marin-a"}), ips)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[test]
fn a_command_runs_on_the_head_and_its_exit_code_is_returned() {
    let fixture = Fixture::new();
    let out = fixture.run(&["ssh", "-c", "a", "--", "echo $SSH_CONNECTION; echo [$RAY_AUTH_TOKEN]; exit 7"]);
    assert_eq!(out.status.code(), Some(7), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.contains(&format!(" {REACHED} {}", fixture.sshd.port)) && said.ends_with("[]"), "{said}");
    let out = fixture.run(&["ssh", "-c", "lab", "--", "printf", "%s|", "it's", "a b"]);
    assert_eq!(text(&out.stdout), "it's|a b|", "{}", text(&out.stderr));
    assert!(fixture.double.requests().is_empty(), "the head is known: {:?}", fixture.double.requests());
}

#[test]
fn a_machine_behind_the_head_is_reached_through_it() {
    let fixture = Fixture::new();
    fixture.nodes(&[node("ray-marin-a-worker-1-tpu", &["10.128.0.8", "10.128.0.9"])]);
    // In the head's network this address is the head's own loopback.
    let ssh = fixture.file(
        "ssh",
        "#!/bin/sh\nfor a; do shift; [ \"$a\" = 10.128.0.9 ] && a=127.0.0.1; set -- \"$@\" \"$a\"; done\nexec ssh \"$@\"\n",
    );
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700)).unwrap();
    fixture.settings(ssh.to_str().unwrap());
    let accepted = || {
        let log = fs::read_to_string(fixture.sshd.dir().path("sshd.log")).unwrap();
        log.matches("Accepted publickey").count()
    };
    // On the first login its key is accepted and recorded under the machine's name; after that it is known.
    for logins in [2, 4] {
        let out = fixture.run(&["ssh", "-c", "a", "worker-1/1", "--", "echo here; exit 3"]);
        assert_eq!(
            (text(&out.stdout).as_str(), out.status.code()),
            ("here", Some(3)),
            "{}",
            text(&out.stderr)
        );
        assert_eq!(accepted(), logins, "one on the head, one behind it");
    }
    let known = fs::read_to_string(fixture.home.path().join(".local/state/marin-tui/known_hosts")).unwrap();
    assert!(known.contains("ray-marin-a-worker-1-tpu.1.marin-a ssh-"), "{known}");
}

#[test]
fn the_connection_through_the_head_is_one_proxy_command() {
    let fixture = Fixture::new();
    fixture.nodes(&[node("ray-marin-a-worker-1-tpu", &["10.128.0.8", "10.128.0.9"])]);
    fixture.record();
    let arguments = fixture.recorded(&["ssh", "-c", "a", "ray-marin-a-worker-1-tpu/1", "--", "uptime"]);
    let at = arguments.iter().position(|a| a == "--").unwrap();
    assert_eq!(arguments[at..], ["--", "10.128.0.9", "uptime"]);
    assert!(
        arguments.contains(&"HostKeyAlias=ray-marin-a-worker-1-tpu.1.marin-a".to_owned()),
        "{arguments:?}"
    );
    assert!(arguments.contains(&"StrictHostKeyChecking=accept-new".to_owned()), "{arguments:?}");
    let proxy = arguments.iter().find(|a| a.starts_with("ProxyCommand=")).unwrap();
    assert!(proxy.ends_with(&format!(" -W '[%h]:%p' -- '{REACHED}'")), "{proxy}");
}

#[test]
fn an_external_address_is_reached_directly() {
    let fixture = Fixture::new();
    let mut open = node("open", &["10.128.0.8"]);
    open["networkEndpoints"][0]["accessConfig"] = json!({"externalIp": "203.0.113.7"});
    fixture.nodes(&[open]);
    fixture.record();
    for target in ["open", "10.128.0.8", "203.0.113.7"] {
        let arguments = fixture.recorded(&["ssh", "-c", "a", target]);
        assert_eq!(arguments.last().unwrap(), "203.0.113.7");
        assert!(!arguments.iter().any(|a| a.starts_with("ProxyCommand")), "{arguments:?}");
    }
    // Google does not know this address: a node without TPUs.
    let arguments = fixture.recorded(&["ssh", "-c", "a", "10.128.0.77"]);
    assert!(arguments.iter().any(|a| a.starts_with("ProxyCommand")), "{arguments:?}");
}

#[test]
fn an_address_is_used_unchanged_when_google_cannot_be_queried() {
    let fixture = Fixture::new();
    let refuse =
        google::Fault::Refuse { code: 403, status: "PERMISSION_DENIED", reason: "", message: "not you" };
    fixture.double.fail("/nodes", refuse);
    fixture.record();
    let out = fixture.run(&["ssh", "-c", "a", "10.128.0.8"]);
    let said = text(&out.stderr);
    assert!(out.status.success() && said.contains("not you") && said.contains("as given"), "{said}");
    let arguments = fs::read_to_string(fixture.home.path().join("calls")).unwrap();
    assert!(arguments.contains("ProxyCommand=") && arguments.contains("\n10.128.0.8\n"), "{arguments}");
    assert!(fixture.fails(&["ssh", "-c", "a", "some-name"]).contains("ask the project's owner"));
}

#[test]
fn an_address_or_a_name_that_could_be_an_option_is_refused() {
    let fixture = Fixture::new();
    let mut hostile = node("bad", &["-oProxyCommand=touch /tmp/x"]);
    hostile["networkEndpoints"][0]["accessConfig"] = json!({"externalIp": "$(touch x)"});
    fixture.nodes(&[hostile, node("ray-1", &["10.1.1.1"]), node("ray-2", &["10.1.1.2"])]);
    fixture.record();
    let said = fixture.fails(&["ssh", "-c", "a", "bad"]);
    assert!(said.contains("has no host 0 with an address"), "{said}");
    let said = fixture.fails(&["ssh", "-c", "a", "ray"]);
    assert!(said.contains("match: ray-1, ray-2"), "{said}");
    assert!(fixture.fails(&["ssh", "-c", "a", "ray-1/x"]).contains("use NAME/0"));
    assert!(fixture.fails(&["ssh", "-c", "a", "ray-1/4"]).contains("use 0 to 0"));
    assert!(fixture.fails(&["ssh", "-c", "a", "nobody"]).contains(" -c marin-a tpus`"));
    assert!(fixture.fails(&["ssh", "-c", "a", "a b"]).contains("is not a host"));
    assert!(!fixture.home.path().join("calls").exists(), "ssh was started");
}
