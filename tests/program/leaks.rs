//! A token is in no file but its cache file: a console and commands go through a fetch, a refusal, a rotation, an abort
//! and a panic; then everything that they wrote, showed and started is searched.

use crate::program::{kill, program};
use crate::pty::Pty;
use crate::until::until;
use marin_tui::demo::google::{Google, PROJECT};
use marin_tui::demo::{Head, Keys, Scenario, SshServer};
use marin_tui::model::{JobStatus, Secret};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Part of every token of this test; occurs nowhere else.
const NEEDLE: &str = "Zq7vX0tKw9";
const SECRET: &str = "RAY_AUTH_TOKEN_STAGING";
/// Time limit that includes the wait for the next retry after a refusal.
const LONG: Duration = Duration::from_secs(60);

fn token(n: u32) -> String {
    format!("tok-{NEEDLE}-{n}")
}

/// A home, a cluster behind SSH, and a Google that has its token.
struct Fixture {
    runtime: Runtime,
    dir: TempDir,
    double: Google,
    head: Head,
    ssh: Option<SshServer>,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        // The path of a control socket must be short.
        let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let at = |name: &str| dir.path().join(name);
        let (double, head, ssh) = runtime.block_on(async {
            let scenario = Scenario { token: Some(Secret::new(token(1))), nodes: 3, ..Scenario::default() };
            let (head, keys) = (Head::start(scenario).await.unwrap(), Keys::new().unwrap());
            keys.write_client(&at("key")).unwrap();
            let ssh = SshServer::start(&head, "marin-a", &keys, Duration::ZERO).await.unwrap();
            (Google::start().await.unwrap(), head, ssh)
        });
        for folder in ["home", "r", "t", "infra"] {
            fs::create_dir(at(folder)).unwrap();
        }
        fs::write(at("ssh_config"), "").unwrap();
        let file = format!(
            "cluster_name: marin-a\nprovider: {{type: gcp, project_id: {PROJECT}, availability_zone: us-central2-b}}\n\
             setup_commands:\n  - gcloud secrets versions access latest --secret={SECRET} > $HOME/.ray/auth_token\n"
        );
        fs::write(at("infra/a.yaml"), file).unwrap();
        let settings = format!(
            "google_endpoint: {}\nssh_config: {}\nray: [/bin/false]\nrefresh_seconds: 0.5\n\
             clusters:\n  marin-a: {{address: 127.0.0.1, port: {}, user: ray, key: {}}}\n",
            double.url(),
            at("ssh_config").display(),
            ssh.address.port(),
            at("key").display()
        );
        fs::write(at("config.yaml"), settings).unwrap();
        double.write_adc(dir.path()).unwrap();
        double.put_secret(SECRET, &token(1));
        Self { runtime, dir, double, head, ssh: Some(ssh) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn env(&self) -> Vec<(&'static str, String)> {
        let at = |name: &str| self.at(name).display().to_string();
        vec![
            ("HOME", at("home")),
            ("TMPDIR", at("t")),
            ("XDG_RUNTIME_DIR", at("r")),
            ("GOOGLE_APPLICATION_CREDENTIALS", at("adc.json")),
            ("RUST_BACKTRACE", "full".into()),
            ("PATH", std::env::var("PATH").unwrap()),
        ]
    }

    fn argv(&self, words: &str) -> Vec<String> {
        let own = [env!("CARGO_BIN_EXE_marin-tui"), "--config"].map(str::to_owned);
        let options = [
            self.at("config.yaml").display().to_string(),
            "--infra".into(),
            self.at("infra").display().to_string(),
        ];
        own.into_iter().chain(options).chain(words.split_whitespace().map(str::to_owned)).collect()
    }

    fn command(&self, words: &str) -> Command {
        let argv = self.argv(words);
        let mut command = program(&self.at("home"));
        command.args(&argv[1..]).envs(self.env());
        command
    }

    /// Runs a command; returns whether it succeeded, and its stdout and stderr.
    fn run(&self, words: &str) -> (bool, String) {
        let out = self.command(words).output().unwrap();
        let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert!(!said.contains(NEEDLE), "{words}: {said}");
        (out.status.success(), said)
    }

    fn kept(&self) -> PathBuf {
        self.at(&format!("home/.cache/marin-tui/tokens/secrets/{PROJECT}.{SECRET}"))
    }

    /// Rotates the token of the cluster and the secret.
    fn rotate(&self, n: u32) {
        self.double.put_secret(SECRET, &token(n));
        self.runtime.block_on(async { self.head.set_token(Some(Secret::new(token(n)))) });
    }

    /// Searches all files for the token. Files that the program created must be accessible only to their owner.
    fn search(&self) {
        for path in files(self.dir.path()) {
            // Sockets cannot be read.
            let Ok(content) = fs::read(&path) else { continue };
            let found = content.windows(NEEDLE.len()).any(|w| w == NEEDLE.as_bytes());
            let previous = self.kept().with_file_name(format!("{PROJECT}.{SECRET}.previous"));
            assert!(!found || path == self.kept() || path == previous, "a token is in {}", path.display());
        }
        for folder in ["home/.cache/marin-tui/tokens", "home/.local/state/marin-tui", "r/marin-tui"] {
            let all = files(&self.at(folder));
            assert!(!all.is_empty() || folder.starts_with('r'), "nothing in {folder}");
            for path in [vec![self.at(folder)], all].concat() {
                let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
                let inside_private = path != self.at(folder) && path.is_dir();
                let others = mode & 0o077;
                assert!(others == 0 || inside_private, "{}: {mode:o}", path.display());
            }
        }
        assert!(
            fs::read_to_string(self.kept()).unwrap().contains(NEEDLE),
            "the search finds the cached token"
        );
    }
}

/// All files and directories below a directory, recursively.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        all.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            all.extend(files(&entry.path()));
        }
    }
    all
}

/// The command lines and environments of a process and all its descendants, as other users of the machine see them.
fn seen_of(pid: u32) -> Vec<(u32, String)> {
    let read = |pid: u32, name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let mut family = vec![pid];
    let mut seen = Vec::new();
    let all: Vec<(u32, u32)> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = String::from_utf8_lossy(&read(pid, "stat")).into_owned();
            Some((pid, stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    let mut at = 0;
    while at < family.len() {
        let pid = family[at];
        let text = [read(pid, "cmdline"), read(pid, "environ")].concat();
        seen.push((pid, String::from_utf8_lossy(&text).replace('\0', " ")));
        family.extend(all.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| child));
        at += 1;
    }
    seen
}

fn is_up(text: &str) -> bool {
    text.contains("● up") && text.contains(" alive")
}

#[test]
fn tokens_of_a_console_are_only_in_their_file() {
    let fixture = Fixture::new();
    let env = fixture.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
    // The core file size limit is raised to the hard limit: the console itself must set it to 0.
    let shell = ["sh", "-c", "ulimit -c \"$(ulimit -H -c)\"; exec \"$@\"", "sh"].map(str::to_owned);
    let argv = [&shell[..], &fixture.argv("")].concat();
    let mut console = Pty::start(&argv.iter().map(String::as_str).collect::<Vec<_>>(), &env, 160, 45);
    console.wait_for("connection with the fetched token", LONG, is_up);
    let seen = seen_of(console.pid());
    assert!(seen.iter().any(|(_, text)| text.contains("ssh")), "its ssh runs: {seen:?}");
    assert!(!seen.iter().any(|(_, text)| text.contains(NEEDLE)), "{seen:?}");

    // The cluster's token is newer than the secret, then the secret is updated.
    fixture.runtime.block_on(async { fixture.head.set_token(Some(Secret::new(token(2)))) });
    console.wait_for("the refusal", LONG, |text| text.contains("version 1 of secret"));
    fixture.rotate(3);
    console.wait_for("recovery", LONG, is_up);
    for pane in ["1", "2", "3", "4", "?"] {
        console.send(pane);
    }
    console.wait_text("(palette)");

    let limits = fs::read_to_string(format!("/proc/{}/limits", console.pid())).unwrap();
    let core = limits.lines().find(|l| l.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    kill("-ABRT", console.pid());
    console.wait_exit();
    let cores: Vec<_> = files(fixture.dir.path())
        .into_iter()
        .filter(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with("core")))
        .collect();
    assert!(cores.is_empty(), "{cores:?}");
    assert!(!String::from_utf8_lossy(&console.raw()).contains(NEEDLE), "the token was on the screen");
    fixture.search();
}

/// Another program on this machine that listens on a port that was ours, and counts connections to it.
struct Thief {
    listeners: Vec<TcpListener>,
}

impl Thief {
    /// Takes the port at both addresses, as soon as it is free.
    fn at(port: u16) -> Self {
        let six = TcpListener::bind("[::1]:0").is_ok();
        let addresses = ["127.0.0.1", "::1"].into_iter().take(1 + usize::from(six));
        let take = |address| {
            let began = Instant::now();
            // Faster than the previous owner could bind it again.
            let listener = loop {
                match TcpListener::bind((address, port)) {
                    Ok(listener) => break listener,
                    Err(e) => assert!(began.elapsed() < LONG, "{address}:{port} is never free: {e}"),
                }
                std::thread::yield_now();
            };
            listener.set_nonblocking(true).unwrap();
            listener
        };
        Self { listeners: addresses.map(take).collect() }
    }

    /// Number of connections, regardless of what was sent.
    fn visits(&self) -> usize {
        self.listeners.iter().map(|l| std::iter::from_fn(|| l.accept().ok()).count()).sum()
    }
}

#[test]
fn nothing_is_sent_to_a_released_port() {
    let mut fixture = Fixture::new();
    let job = fixture.head.submissions(JobStatus::Running).pop().unwrap();
    let start = |words: &str| {
        let mut command = fixture.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut forward = start("forward --json");
    let mut line = String::new();
    BufReader::new(forward.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let ports: Value = serde_json::from_str(&line).unwrap();
    let ports = ["dashboard", "gcs", "client"].map(|s| u16::try_from(ports[s].as_u64().unwrap()).unwrap());
    // The ports lead to the head, for everybody who has a token.
    let mut answer = String::new();
    let mut dashboard = TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
    dashboard.write_all(b"GET /api/version HTTP/1.0\r\n\r\n").unwrap();
    dashboard.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.") && answer.contains("401"), "{answer}");

    let limit = "--give-up-after 3";
    let followers: Vec<Child> = [
        format!("job-logs -f {limit} {job}"),
        format!("wait-job --show-logs {limit} {job}"),
        format!("wait-job {limit} {job}"),
        format!("submit-job {limit} --submission-id s1 -- sleep 600"),
    ]
    .map(|words| start(&words))
    .into();
    let env = fixture.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let argv = fixture.argv("");
    let mut console = Pty::start(&argv.iter().map(String::as_str).collect::<Vec<_>>(), &env, 160, 45);
    console.wait_for("connection", LONG, is_up);
    console.send("P");
    console.wait_text("local ports ");
    console.send("2l");
    console.wait_text("─ Log ");
    until("the submitted job runs", || {
        fixture.head.submissions(JobStatus::Running).contains(&"s1".to_owned())
    });

    // The SSH server of the head no longer responds, and another program has the ports.
    fixture.ssh = None;
    let thieves = ports.map(Thief::at);
    for follower in followers {
        let out = follower.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(4), "{said}");
        assert!(said.contains("connection lost") && said.contains("timed out after 3 s"), "{said}");
    }
    console.wait_for("the loss", LONG, |text| !is_up(text) && text.contains("INTERRUPTED"));
    assert_eq!(thieves.map(|thief| thief.visits()), [0; 3]);
    // Closes the log, then the console.
    console.send("qq");
    console.wait_exit();
    kill("-INT", forward.id());
    assert!(forward.wait().unwrap().success());
    // No file that another user could open is left.
    assert_eq!(
        files(&fixture.at("r")).iter().filter(|f| !f.is_dir()).count(),
        0,
        "{:?}",
        files(&fixture.at("r"))
    );
    fixture.search();
}

#[test]
fn tokens_of_commands_are_only_in_their_file() {
    let fixture = Fixture::new();
    assert!(fixture.run("list-jobs --all").0, "with the fetched token");
    for words in
        ["token status", "token status --json", "token fetch", "auth-env --cluster a", "clusters --json"]
    {
        let (well, said) = fixture.run(words);
        assert!(well, "{words}: {said}");
    }
    let (well, said) = fixture.run("submit-job --no-wait --submission-id s1 -- true");
    assert!(well, "{said}");
    fixture.rotate(2);
    assert!(fixture.run("list-jobs").0, "after the rotation");
    // Refused permanently.
    fixture.runtime.block_on(async { fixture.head.set_token(Some(Secret::new("another"))) });
    let (well, said) = fixture.run("list-jobs");
    assert!(!well && said.contains("version 2 of secret"), "{said}");
    fixture.rotate(3);
    // An operation with a journal and a backup that fails early: the ray command fails.
    let (well, said) = fixture.run("restart-cluster --yes --others");
    assert!(!well, "{said}");
    let state = fixture.at("home/.local/state/marin-tui");
    assert!(files(&state).iter().any(|f| f.extension().is_some_and(|e| e == "jsonl")), "{:?}", files(&state));
    assert!(fixture.run("audit --json").0);
    // The standard output is full: a failed write must not become a panic whose message contains the token.
    let mut command = fixture.command("submit-job --no-wait --submission-id s2 -- true");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let out = command.stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("os error 28") && !said.contains(NEEDLE), "{said}");
    fixture.search();
}
