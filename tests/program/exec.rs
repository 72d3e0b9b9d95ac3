//! `marin-tui exec` over a real sshd. There is no container: `docker` is a stub that parses its arguments as docker's
//! command line does, and runs the command with another environment and another home instead of the container's.

use crate::program::program;
use crate::pty::Pty;
use crate::sshd::{Sshd, user};
use marin_tui::demo::google::{Google as Double, PROJECT};
use serde_json::json;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A stub: `docker inspect --type container -f FORMAT NAME` and `docker exec OPTIONS NAME COMMAND..`.
const DOCKER: &str = r#"#!/bin/bash
echo "$*" >>"$(dirname "$0")/calls"
says=$(cat "$(dirname "$0")/says" 2>/dev/null)
[ -z "$says" ] || { echo "$says" >&2; exit 1; }
command=$1
shift
terminal= format=
while [ $# -gt 0 ]; do
  case $1 in
    -it) terminal=1 ;;
    -i) ;;
    --type) [ "$2" = container ] || exit 125; shift ;;
    -f) format=$2; shift ;;
    --) shift; break ;;
    -*) echo "unknown shorthand flag: $1" >&2; exit 125 ;;
    *) break ;;
  esac
  shift
done
name=$1
shift
[ "$name" = ray_docker ] || { echo "Error response from daemon: No such container: $name" >&2; exit 1; }
case $command in
  inspect) [ "$format" = '{{.State.Running}}' ] && cat "$(dirname "$0")/state" ;;
  exec)
    [ $# -gt 0 ] || { echo '"docker exec" requires at least 2 arguments.' >&2; exit 1; }
    [ -z "$terminal" ] || [ -t 0 ] || { echo 'the input device is not a TTY' >&2; exit 1; }
    cd / && exec env -i PATH=/usr/bin:/bin TERM=dumb HOME="$(dirname "$0")/home" CONTAINER="$name" "$@"
    ;;
  *) exit 125 ;;
esac
"#;

/// A home, clusters whose head is a real sshd, and a stub of docker on the head.
struct Fixture {
    _google: (Runtime, Double),
    home: TempDir,
    there: TempDir,
    sshd: Sshd,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let temporary = || tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let (home, there) = (temporary(), temporary());
        let double = runtime.block_on(Double::start()).unwrap();
        double.write_adc(home.path()).unwrap();
        let path = there.path().display();
        let sshd = Sshd::start(&format!("SetEnv PATH={path}:/usr/bin:/bin"));
        let google = double.url();
        let fixture = Self { _google: (runtime, double), home, there, sshd };
        fixture.docker("docker", DOCKER);
        fixture.there("state", "true\n");
        fixture.there("home/.bashrc", "export FROM_BASHRC=yes\n");
        let container = "docker: {image: i, container_name: ray_docker}\n";
        let local = "provider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n";
        fixture.file("infra/lab.yaml", &format!("cluster_name: lab\n{local}{container}"));
        fixture.file("infra/bare.yaml", &format!("cluster_name: bare\n{local}"));
        let gcp =
            format!("provider: {{type: gcp, project_id: {PROJECT}, availability_zone: us-central2-b}}\n");
        fixture.file("infra/cloud.yaml", &format!("cluster_name: cloud\n{gcp}{container}"));
        let key = fixture.sshd.dir().path("key");
        let login = json!({"address": "127.0.0.1", "port": fixture.sshd.port, "user": user(), "key": key});
        let settings = json!({"google_endpoint": google, "infra": [fixture.home.path().join("infra")],
            "ssh_config": fixture.file("ssh_config", ""),
            "clusters": {"lab": login, "bare": login, "cloud": login}});
        fixture.file("config.yaml", &settings.to_string());
        fixture
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a file on the head.
    fn there(&self, name: &str, text: &str) {
        let path = self.there.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Installs a program on the head.
    fn docker(&self, name: &str, text: &str) {
        self.there(name, text);
        fs::set_permissions(self.there.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.there.path().join("calls")).unwrap_or_default()
    }

    fn command(&self, cluster: &str, args: &[&str]) -> Command {
        let mut command = program(self.home.path());
        command.arg("--config").arg(self.home.path().join("config.yaml")).args(["-c", cluster, "exec"]);
        command.args(args).env("RAY_AUTH_TOKEN", "tok-never-shown");
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.home.path().join("adc.json"));
        command
    }

    fn run(&self, cluster: &str, args: &[&str]) -> Output {
        self.command(cluster, args).output().unwrap()
    }

    /// Runs a command that must succeed without an error from bash; returns its stdout.
    fn stdout(&self, cluster: &str, args: &[&str]) -> String {
        let out = self.run(cluster, args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && !said.contains("bash:"), "{args:?}: {said}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn fails(&self, args: &[&str]) -> String {
        let out = self.run("lab", args);
        assert_eq!(out.status.code(), Some(1), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(out.stdout.is_empty());
        String::from_utf8(out.stderr).unwrap()
    }

    fn terminal(&self, args: &[&str]) -> Pty {
        let (settings, home) = (self.home.path().join("config.yaml"), self.home.path().to_str().unwrap());
        let first =
            [env!("CARGO_BIN_EXE_marin-tui"), "--config", settings.to_str().unwrap(), "-c", "lab", "exec"];
        Pty::start(&[&first[..], args].concat(), &[("HOME", home)], 120, 30)
    }
}

#[test]
fn arguments_are_passed_unchanged() {
    let fixture = Fixture::new();
    let hostile =
        ["it's", "a  b", "new\nline", "-n", "--help", "$HOME `id` $(id)", "!x", "\"", "\\", "", "*", "ä~/"];
    let words = [&["--", "printf", "%s|"][..], &hostile].concat();
    for cluster in ["lab", "bare"] {
        assert_eq!(fixture.stdout(cluster, &words), hostile.join("|") + "|", "{cluster}");
        assert_eq!(fixture.stdout(cluster, &words[1..]), hostile.join("|") + "|", "{cluster}, without --");
    }
}

#[test]
fn it_runs_in_the_container_with_its_shell_and_its_exit_code() {
    let fixture = Fixture::new();
    let line = "echo $CONTAINER $FROM_BASHRC [$RAY_AUTH_TOKEN] ~ | cat # a comment";
    let said = fixture.stdout("lab", &["--", line]);
    assert_eq!(said, format!("ray_docker yes [] {}/home\n", fixture.there.path().display()));
    let said = fixture.stdout("bare", &["--", "echo [$CONTAINER]"]);
    assert_eq!(said, "[]\n", "without a container in the file the command runs on the machine itself");
    let out = fixture.run("lab", &["--", "echo out; echo err >&2; exit 7"]);
    assert_eq!(out.status.code(), Some(7));
    assert_eq!((&*out.stdout, &*out.stderr), (&b"out\n"[..], &b"err\n"[..]));
    // Standard input is passed on, both to a command and as a script for a shell.
    for (args, input, said) in
        [(&["--", "tr", "a-z", "A-Z"][..], "abc", "ABC"), (&[], "echo $CONTAINER", "ray_docker\n")]
    {
        let mut child = fixture.command("lab", args);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, said.as_bytes());
    }
    assert!(
        !fixture.calls().contains("-it"),
        "no terminal is requested when there is none: {}",
        fixture.calls()
    );
}

#[test]
fn a_command_run_from_a_terminal_gets_a_terminal() {
    let fixture = Fixture::new();
    let mut shell = fixture.terminal(&[]);
    shell.send("echo in:$CONTAINER; tty\r");
    shell.wait_text("in:ray_docker");
    shell.wait_text("/dev/pts/");
    shell.send("exit 3\r");
    assert_eq!(shell.wait_exit().exit_code(), 3);
    let mut command = fixture.terminal(&["--", "test -t 0 && test -t 1 && echo both of $CONTAINER"]);
    command.wait_text("both of ray_docker");
    assert_eq!(command.wait_exit().exit_code(), 0);
    assert_eq!(fixture.calls().matches("exec -it ray_docker bash").count(), 2, "{}", fixture.calls());
}

#[test]
fn container_errors_have_a_hint() {
    let fixture = Fixture::new();
    fixture.there("state", "false\n");
    let said = fixture.fails(&["--", "true"]);
    assert!(said.contains("ray_docker on ") && said.contains("is stopped"), "{said}");
    assert!(said.contains("`docker start ray_docker`"), "{said}");
    fixture.there("says", "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock");
    let said = fixture.fails(&["--", "true"]);
    assert!(said.contains(&format!("{} has no permission to use docker", user())), "{said}");
    assert!(said.contains(&format!("`sudo usermod -aG docker {}`", user())), "{said}");
    fixture.there("says", "Error: No such container: ray_docker");
    let said = fixture.fails(&["--host", "127.0.0.1", "--", "true"]);
    assert!(said.contains("no container ray_docker on "), "{said}");
    assert!(said.contains(" -c lab ssh 127.0.0.1 -- docker ps`"), "{said}");
    fixture.there("says", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.");
    assert!(fixture.fails(&["--", "true"]).contains("Cannot connect to the Docker daemon at"));
    let lab = fs::read_to_string(fixture.home.path().join("infra/lab.yaml")).unwrap();
    fixture.file("infra/lab.yaml", &lab.replace("container_name:", "use_podman: true, container_name:"));
    let said = fixture.fails(&["--", "true"]);
    assert!(said.contains("podman is not installed on ") && said.contains(" -c lab ssh`"), "{said}");
    fixture.docker("podman", DOCKER);
    fixture.there("says", "");
    fixture.there("state", "true\n");
    assert_eq!(fixture.stdout("lab", &["--", "echo $CONTAINER"]), "ray_docker\n");
    for name in ["-x", "a b", "$(touch owned)"] {
        fixture.file("infra/lab.yaml", &lab.replace("ray_docker", &format!("'{name}'")));
        assert!(fixture.fails(&["--", "true"]).contains("is not a valid container name"), "{name}");
    }
}

#[test]
fn an_unknown_host_or_a_closed_pipe_ends_exec() {
    let fixture = Fixture::new();
    let out = fixture.run("cloud", &["--host", "nobody", "--", "true"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("cloud has no TPU VM named nobody"), "{said}");
    assert_eq!(fixture.run("lab", &["--host", "127.0.0.1:x", "--", "true"]).status.code(), Some(1));
    let mut endless = fixture.command("lab", &["--", "yes"]);
    let mut endless = endless.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(endless.stdout.take());
    assert!(!endless.wait().unwrap().success());
}
