//! The binary in a terminal, on a simulated head: what the screen shows in normal operation and for each kind of
//! failure.

mod log;

use crate::program::{Ran, kill, program};
use crate::pty::Pty;
use crate::until::until;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use marin_tui::demo::{Fault, FaultRule, Head, Scenario};
use marin_tui::model::{JobStatus, Secret};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TOKEN: &str = "tok-7d1f0c2b9a8e4f65-never-shown";
const UP: &str = "● up";

/// A simulated head and a home directory for the test.
struct Fixture {
    runtime: Runtime,
    head: Option<Head>,
    home: TempDir,
}

impl Fixture {
    fn new(scenario: Scenario) -> Self {
        let runtime = Runtime::new().unwrap();
        let head = Some(runtime.block_on(Head::start(scenario)).unwrap());
        Self { runtime, head, home: tempfile::tempdir().unwrap() }
    }

    fn with_token() -> Self {
        let fixture = Self::new(Scenario { token: Some(Secret::new(TOKEN)), ..Scenario::default() });
        fixture.write_token(TOKEN);
        fixture
    }

    fn head(&self) -> &Head {
        self.head.as_ref().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write_token(&self, token: &str) {
        let file = self.file("token");
        fs::write(&file, format!("{token}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The environment of a user with only this home.
    fn env(&self) -> Vec<(&'static str, String)> {
        let home = self.home.path().display().to_string();
        let run = self.file("run");
        fs::create_dir_all(&run).unwrap();
        let token = self.file("token");
        let token = if token.exists() { token.display().to_string() } else { String::new() };
        vec![
            ("HOME", home.clone()),
            ("XDG_CONFIG_HOME", format!("{home}/.config")),
            ("XDG_STATE_HOME", format!("{home}/.state")),
            ("XDG_CACHE_HOME", format!("{home}/.cache")),
            ("XDG_RUNTIME_DIR", run.display().to_string()),
            ("RAY_AUTH_TOKEN_PATH", token),
            ("RAY_AUTH_TOKEN", String::new()),
            ("RAY_ADDRESS", String::new()),
            // As in an SSH session: the terminal's clipboard is used, and no browser starts.
            ("SSH_TTY", "/dev/pts/0".into()),
            ("TMUX", String::new()),
            ("STY", String::new()),
        ]
    }

    fn open(&self, arguments: &[&str], more: &[(&str, &str)], cols: u16, rows: u16) -> Pty {
        let mut argv = vec![env!("CARGO_BIN_EXE_marin-tui")];
        argv.extend(arguments);
        let env = self.env();
        let mut env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
        env.extend(more);
        Pty::start(&argv, &env, cols, rows)
    }

    /// The console on the head, for this user.
    fn console_of(&self, user: &str, cols: u16, rows: u16) -> Pty {
        let (dashboard, gcs) = (format!("http://{}", self.head().dashboard), self.head().gcs.to_string());
        self.open(&["--address", &dashboard, "--gcs", &gcs], &[("USER", user)], cols, rows)
    }

    /// The console on the head.
    fn console(&self, cols: u16, rows: u16) -> Pty {
        let (dashboard, gcs) = (format!("http://{}", self.head().dashboard), self.head().gcs.to_string());
        self.open(&["--address", &dashboard, "--gcs", &gcs], &[], cols, rows)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // A head closes its sockets inside its runtime.
        let _inside = self.runtime.enter();
        self.head = None;
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}

fn quit(pty: &mut Pty) {
    pty.send("q");
    assert!(pty.wait_exit().success());
    assert!(pty.is_restored());
}

#[test]
fn chosen_columns_are_kept_across_restarts() {
    let fixture = Fixture::new(Scenario::default());
    let has_owner = |t: &str| t.lines().any(|line| line.contains("OWNER") && line.contains("STATUS"));
    let mut pty = fixture.console(200, 60);
    pty.wait("the owner", has_owner);
    pty.send("2Cjj ");
    pty.wait("no owner", |t| !has_owner(t));
    pty.send("\r");
    pty.wait("closed dialog", |t| !t.contains("Columns of jobs"));
    quit(&mut pty);
    let file = fixture.file(".state/marin-tui/layout.yaml");
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.starts_with("# Written by marin-tui") && kept.contains("- entrypoint"), "{kept}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mut pty = fixture.console(200, 60);
    let text = pty.wait_text("running  ");
    assert!(!has_owner(&text), "{text}");
    pty.send("2Cr\r");
    pty.wait("the owner again", has_owner);
    quit(&mut pty);
    assert!(!fs::read_to_string(&file).unwrap().contains("jobs"), "the default columns are not saved");
    fs::write(&file, "tables: [").unwrap();
    let mut pty = fixture.console(200, 60);
    pty.wait_text("layout.yaml:");
    quit(&mut pty);
}

#[test]
fn it_shows_the_cluster_and_is_controlled_by_keys() {
    let fixture = Fixture::new(Scenario::default());
    let mut pty = fixture.console(200, 60);
    pty.wait_text(UP);
    let running = fixture.head().submissions(JobStatus::Running).pop().unwrap();
    let text = pty.wait_text(&running);
    assert!(text.contains("Ray 2.60.0") && text.contains("no token needed"), "{text}");
    assert!(text.contains("16 hosts alive") && text.contains("Autoscaler v2"), "{text}");
    pty.send("?");
    pty.wait_text("(stop-job)");
    pty.send("\x1b");
    pty.wait("closed dialog", |t| !t.contains("(stop-job)"));
    pty.send("2/no-such-job");
    pty.wait("a filter that nothing passes", |t| {
        t.contains("/no-such-job 0 of ") && t.contains("esc clears it")
    });
    // A key right after Esc would be read as Alt and that key.
    pty.send("\x1b");
    pty.wait("all jobs again", |t| !t.contains("filter: ") && t.contains("s stop"));
    pty.send("/failed\r");
    let failed = fixture.head().submissions(JobStatus::Failed).pop().unwrap();
    pty.wait("only failed jobs", |t| t.contains(&failed) && t.contains("/failed"));
    pty.send("3z");
    pty.wait("the log alone", |t| !t.contains("1 Slices") && t.contains("3 "));
    pty.send("z");
    pty.wait_text("1 Slices");
    quit(&mut pty);
}

#[test]
fn every_size_is_drawn_and_the_first_size_again() {
    let fixture = Fixture::new(Scenario::default());
    let mut pty = fixture.console(120, 40);
    pty.wait_text(UP);
    // A key right after a resize is handled normally.
    for columns in [110, 130, 110, 130] {
        pty.resize(columns, 40);
        pty.wait("the new width", |t| {
            t.lines().map(|l| l.chars().count()).max() == Some(usize::from(columns))
        });
        pty.send("?");
        pty.wait_text("Stop the marked jobs");
        pty.send("\x1b");
        pty.wait("no help", |t| !t.contains("Stop the marked jobs"));
    }
    pty.resize(80, 24);
    pty.wait("tabs", |t| t.contains("4 Autoscaler") && t.lines().all(|l| l.chars().count() <= 80));
    pty.resize(200, 60);
    pty.wait("four panes", |t| t.contains("1 Slices") && t.lines().any(|l| l.chars().count() > 190));
    pty.resize(1, 1);
    pty.wait("one cell", |t| t.chars().count() <= 1);
    pty.resize(20, 5);
    pty.wait_text("enlarge the window");
    pty.resize(120, 40);
    pty.wait_text(UP);
    quit(&mut pty);
}

#[test]
fn a_signal_restores_the_terminal() {
    let fixture = Fixture::new(Scenario::default());
    for signal in ["-TERM", "-HUP", "-INT"] {
        let mut pty = fixture.console(80, 24);
        pty.wait_text(UP);
        assert!(!pty.is_restored());
        kill(signal, pty.pid());
        assert!(pty.wait_exit().success(), "{signal}");
        assert!(pty.is_restored(), "{signal}");
    }
}

/// The screen shows a failure of the head with these words, the console keeps running, and it recovers after the
/// failure.
fn trouble(fault: Fault, words: &[&str]) {
    let fixture = Fixture::new(Scenario::default());
    let mut pty = fixture.console(200, 60);
    pty.wait_text(UP);
    let known = pty.wait_text("16 hosts alive");
    assert!(known.contains("data <5s"), "{known}");
    fixture.head().set_faults(vec![FaultRule { path: String::new(), fault }]);
    pty.send("r");
    // The last known state stays visible.
    let all = [words, &["16 hosts alive", "r reconnect"]].concat();
    pty.wait(&format!("{all:?}"), |t| all.iter().all(|w| t.contains(w)) && !t.contains(UP));
    fixture.head().set_faults(Vec::new());
    fixture.head().drop_connections();
    pty.send("r");
    pty.wait("recovery", |t| t.contains(UP) && t.contains("data <5s") && !t.contains(words[0]));
    quit(&mut pty);
}

#[test]
fn an_html_page_is_not_mistaken_for_ray() {
    trouble(Fault::Html, &["not a Ray dashboard", "check the address"]);
}

#[test]
fn a_truncated_response_is_reported() {
    trouble(Fault::HalfBody, &["end of file before message length reached", "retry in"]);
}

#[test]
fn an_error_status_is_reported() {
    trouble(Fault::Status(500), &["Ray returned HTTP 500", "dashboard.log on the head"]);
}

#[test]
fn a_head_that_never_responds_is_reported() {
    trouble(Fault::Stall, &["did not respond within 15 s", "dashboard.log on the head"]);
}

#[test]
fn a_response_that_is_too_large_is_refused() {
    trouble(Fault::Padding(65 << 20), &["larger than 64 MiB"]);
}

#[test]
fn a_head_that_closes_the_connection_is_reported() {
    trouble(Fault::HangUp, &["no response", "a head needs about 10 s to start"]);
}

#[test]
fn dropped_connections_are_reopened_without_a_status_change() {
    let fixture = Fixture::new(Scenario::default());
    let mut pty = fixture.console(120, 40);
    pty.wait_text(UP);
    for _ in 0..5 {
        let before = fixture.head().cost();
        fixture.head().drop_connections();
        until("more requests", || fixture.head().cost() != before);
        pty.wait_text(UP);
    }
    quit(&mut pty);
}

#[test]
fn a_head_that_is_gone_is_reported_and_its_last_state_stays() {
    let mut fixture = Fixture::new(Scenario::default());
    let mut pty = fixture.console(200, 60);
    pty.wait_text("16 hosts alive");
    {
        let _inside = fixture.runtime.enter();
        fixture.head = None;
    }
    let text = pty.wait("silence", |t| t.contains("no response") && t.contains("retry in"));
    assert!(text.contains("16 hosts alive"), "{text}");
    quit(&mut pty);
}

#[test]
fn a_missing_token_has_a_hint_where_to_put_it() {
    let fixture = Fixture::new(Scenario { token: Some(Secret::new(TOKEN)), ..Scenario::default() });
    let mut pty = fixture.console(200, 60);
    let text = pty.wait_text("no token");
    assert!(text.contains(".ray/auth_token") && text.contains("chmod 600"), "{text}");
    quit(&mut pty);
}

#[test]
fn a_refused_token_is_reported_and_a_new_one_is_used() {
    let fixture = Fixture::with_token();
    fixture.write_token("tok-of-another-cluster");
    let mut pty = fixture.console(200, 60);
    pty.wait_text("refuses this token");
    fixture.write_token(TOKEN);
    pty.wait("recovery by itself", |t| {
        t.contains(UP) && t.contains("token ok") && t.contains("16 hosts alive")
    });
    // The cluster's token changes while the console runs.
    fixture.head().set_token(Some(Secret::new("tok-that-is-new")));
    pty.wait_text("refuses this token");
    fixture.write_token("tok-that-is-new");
    pty.wait("recovery by itself", |t| t.contains(UP) && !t.contains("refuses"));
    assert!(!contains(&pty.raw(), b"tok-of-another") && !contains(&pty.raw(), b"tok-that"));
    quit(&mut pty);
}

#[test]
fn the_token_is_copied_and_found_nowhere_else() {
    let fixture = Fixture::with_token();
    let mut pty = fixture.console(120, 40);
    pty.wait_text("token ok");
    pty.send("t");
    pty.wait_text("copied token");
    assert_eq!(pty.clipboard(), [BASE64_STANDARD.encode(TOKEN).into_bytes()]);
    pty.send("d");
    pty.wait_text("job");
    pty.send("q?");
    pty.wait_text("(stop-job)");
    pty.send("q");
    let proc = PathBuf::from(format!("/proc/{}", pty.pid()));
    for file in ["cmdline", "environ"] {
        assert!(!contains(&fs::read(proc.join(file)).unwrap(), TOKEN.as_bytes()), "{file}");
    }
    fixture.head().set_faults(vec![FaultRule { path: String::new(), fault: Fault::Status(500) }]);
    pty.wait_text("Ray returned HTTP 500");
    // The screen may show the error of another request.
    let log = || fs::read_to_string(fixture.file(".state/marin-tui/marin-tui.log")).unwrap();
    until("a refresh has failed", || log().contains("refresh failed").then_some(()));
    quit(&mut pty);
    assert!(!contains(&pty.raw(), TOKEN.as_bytes()), "on the screen");
    assert!(!log().contains(TOKEN), "{}", log());
    assert_nowhere_else(fixture.home.path(), &fixture.file("token"));
}

/// Asserts that no file under the directory holds the token, except the one that it was written to.
fn assert_nowhere_else(folder: &Path, but: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            assert_nowhere_else(&entry, but);
        } else if entry != but && entry.is_file() {
            assert!(!contains(&fs::read(&entry).unwrap(), TOKEN.as_bytes()), "{}", entry.display());
        }
    }
}

#[test]
fn no_child_gets_the_token() {
    let fixture = Fixture::with_token();
    let bin = fixture.file("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(fixture.file("infra")).unwrap();
    // The file has no address: `ray` is asked for the head's address, and then `ssh` logs in to it.
    fs::write(fixture.file("infra/lab.yaml"), "cluster_name: lab\nprovider: {type: gcp}\n").unwrap();
    for (name, rest) in [("ray", "echo 127.0.0.1"), ("ssh", "exit 255")] {
        let dump = format!("#!/bin/sh\n(echo argv \"$@\"; env) >>\"$HOME/{name}.seen\"\n{rest}\n");
        fs::write(bin.join(name), dump).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let infra = fixture.file("infra").display().to_string();
    let more = [("PATH", path.as_str()), ("RAY_AUTH_TOKEN", TOKEN)];
    let mut pty = fixture.open(&["--infra", &infra], &more, 120, 40);
    let seen = |name: &str| fs::read_to_string(fixture.file(&format!("{name}.seen"))).unwrap_or_default();
    for name in ["ray", "ssh"] {
        until(name, || seen(name).contains("HOME="));
        assert!(!seen(name).contains(TOKEN) && !seen(name).contains("RAY_AUTH"), "{}", seen(name));
    }
    quit(&mut pty);
}

/// Sends a request to the head without a client of this crate.
fn post(fixture: &Fixture, path: &str, body: &str) {
    let mut stream = TcpStream::connect(fixture.head().dashboard).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: head\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The response of the head as one string.
fn get(fixture: &Fixture, path: &str) -> String {
    let mut stream = TcpStream::connect(fixture.head().dashboard).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: head\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_job_is_submitted_from_the_form_and_again_with_changes() {
    const SECRET: &str = "value-9c1e-never-shown";
    const BACK: &str = "\x1b[Z";
    let fixture = Fixture::new(Scenario::default());
    fs::create_dir(fixture.file("src")).unwrap();
    fs::write(fixture.file("src/train.py"), "print(1)\n").unwrap();
    let mut pty = fixture.console_of("farid", 120, 40);
    pty.wait_text(UP);
    pty.send("n");
    pty.wait_text("Submit job");
    pty.send(&format!("sleep 601\t~/src\tKEY={SECRET}\t"));
    pty.wait_text("KEY=•••");
    // Skips the empty variable, the runtime environment, four amounts, the label selector and the TPU; fills in the id;
    // skips metadata and Cancel.
    pty.send("\t\t\t\t\t\t\t\tmine-1\t\t\t\r");
    pty.wait_text("mine-1 submitted");
    let first = get(&fixture, "/api/jobs/mine-1");
    assert!(
        first.contains(SECRET) && first.contains(r#"{"owner": "farid"}"#),
        "the job has the variable: {first}"
    );
    quit(&mut pty);
    assert!(!contains(&pty.raw(), SECRET.as_bytes()), "never on the screen");
    // Another user submits it again and becomes its owner.
    let mut pty = fixture.console_of("hana", 120, 40);
    pty.wait_text(UP);
    pty.send("2/mine-1\r");
    pty.wait_text("/mine-1 1 of ");
    pty.send("e");
    let seen =
        pty.wait("what it was submitted with", |t| t.contains("KEY=***") && t.contains("gcs://_ray_pkg_"));
    assert!(seen.contains("Resubmit mine-1") && seen.contains("sleep 601"), "{seen}");
    // Appends a character, sets another id after the owner, and moves to the button.
    pty.send(&format!("1{BACK}{BACK}{BACK}{BACK}{BACK}mine-2\t\t\t\t\r"));
    pty.wait_text("mine-2 submitted");
    let again = get(&fixture, "/api/jobs/mine-2");
    assert!(
        again.contains("sleep 6011") && again.contains(SECRET) && again.contains("gcs://_ray_pkg_"),
        "{again}"
    );
    assert!(again.contains(r#"{"owner": "hana"}"#) && !again.contains("farid"), "{again}");
    quit(&mut pty);
    assert!(!contains(&pty.raw(), SECRET.as_bytes()), "never on the screen");
    let audit =
        Ran::of(&program(fixture.home.path()).envs(fixture.env()).arg("audit").output().unwrap()).good();
    assert!(audit.contains("submit-job mine-1") && audit.contains("submit-job mine-2"), "{audit}");
}

#[test]
fn resubmitting_a_job_reads_no_local_files_that_its_record_names() {
    const BACK: &str = "\x1b[Z";
    let fixture = Fixture::new(Scenario { jobs: 0, ..Scenario::default() });
    for name in [".ssh/id_ed25519", ".aws/credentials"] {
        let path = fixture.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "hunter2\n").unwrap();
    }
    let body = serde_json::json!({
        "entrypoint": "sleep 601", "submission_id": "evil",
        "runtime_env": {"working_dir": "~", "py_modules": ["~/.aws"], "pip": "~/.ssh/id_ed25519"}
    });
    post(&fixture, "/api/jobs/", &body.to_string());
    let before = fixture.head().submissions(JobStatus::Pending).len()
        + fixture.head().submissions(JobStatus::Running).len();
    let mut pty = fixture.console(160, 40);
    pty.wait_text(UP);
    pty.wait_text("evil");
    pty.send("2e");
    pty.wait_text("Resubmit evil");
    pty.wait("the record", |t| t.contains("id_ed25519"));
    pty.send(&format!("{BACK}\r"));
    pty.wait_text("which is not used");
    let requests = fixture.head().cost().requests;
    assert!(!requests.keys().any(|route| route.starts_with("/api/packages")), "{requests:?}");
    let after = fixture.head().submissions(JobStatus::Pending).len()
        + fixture.head().submissions(JobStatus::Running).len();
    assert_eq!((before, after), (1, 1));
    pty.send("\x03");
    assert!(pty.wait_exit().success());
}

#[test]
fn control_sequences_from_a_cluster_do_not_reach_the_terminal() {
    const ORDERS: &str = "\x1b]0;pwned\x07\x1b[2J\u{9b}31m\u{202e}\x1bP1;pwned\x1b\\\x1b]52;c;cHduZWQ=\x07";
    let fixture = Fixture::new(Scenario::default());
    let hostile = format!("evil-{ORDERS}-name");
    let body = serde_json::json!({
        "submission_id": hostile, "entrypoint": format!("python {ORDERS}"), "metadata": {"owner": ORDERS},
    });
    post(&fixture, "/api/jobs/", &body.to_string());
    assert!(fixture.head().turn_job(&hostile, JobStatus::Running));
    assert!(fixture.head().write_job_log(&hostile, format!("before {ORDERS} after-the-orders\n").as_bytes()));
    let mut pty = fixture.console(200, 60);
    pty.wait_text("evil-");
    // The log of the newest running job, which is the hostile one.
    pty.wait_text("after-the-orders");
    for keys in ["d", "qs", "q/evil\r", "3z", "z2:log\r", "q"] {
        pty.send(keys);
        pty.wait("a frame", |t| !t.is_empty());
    }
    pty.send("y");
    until("copy", || !pty.clipboard().is_empty());
    let copied = String::from_utf8(BASE64_STANDARD.decode(&pty.clipboard()[0]).unwrap()).unwrap();
    assert!(copied.starts_with("evil-") && !copied.contains(char::is_control), "{copied:?}");
    quit(&mut pty);
    let raw = pty.raw();
    for order in ["pwned\x07", "\x1b]0;", "\x1bP1;", "\x1b]52;c;cHdu", "\u{9b}", "\u{202e}"] {
        assert!(!contains(&raw, order.as_bytes()), "{order:?} reached the terminal");
    }
}

#[test]
fn stopping_a_job_from_the_keyboard_ends_it() {
    let fixture = Fixture::new(Scenario::default());
    let mut pty = fixture.console(200, 60);
    let running = fixture.head().submissions(JobStatus::Running).pop().unwrap();
    pty.wait_text(&running);
    pty.send(&format!("2/{running}\rs"));
    pty.wait_text("Stop job");
    pty.send("\r");
    pty.wait("closed dialog", |t| !t.contains("Stop job"));
    assert!(fixture.head().submissions(JobStatus::Running).contains(&running), "enter is cancel");
    pty.send("s");
    pty.wait_text("Stop job");
    pty.send("y");
    pty.wait_text("Stop jobs owned by ");
    assert!(
        fixture.head().submissions(JobStatus::Running).contains(&running),
        "another person's job needs a second confirmation"
    );
    pty.send("y");
    pty.wait_text("has ended (stopped)");
    assert!(fixture.head().submissions(JobStatus::Stopped).contains(&running));
    quit(&mut pty);
}

#[test]
fn a_stop_without_effect_is_reported() {
    let fixture = Fixture::new(Scenario::default());
    fixture.head().ignore_stop(true);
    let mut pty = fixture.console(200, 60);
    let running = fixture.head().submissions(JobStatus::Running).pop().unwrap();
    pty.wait_text(&running);
    pty.send(&format!("2/{running}\rs"));
    pty.wait_text("Stop job");
    pty.send("y");
    pty.wait_text("Stop jobs owned by ");
    pty.send("y");
    pty.wait_for("the truth", Duration::from_secs(50), |t| t.contains("stop its driver"));
    quit(&mut pty);
}

#[test]
fn ray_address_is_enough() {
    let fixture = Fixture::new(Scenario::default());
    let address = format!("http://{}", fixture.head().dashboard);
    let mut pty = fixture.open(&[], &[("RAY_ADDRESS", &address)], 120, 40);
    pty.wait_text(UP);
    pty.wait_text("over HTTP");
    quit(&mut pty);
}

#[test]
fn an_ambiguous_or_unknown_name_opens_no_cluster() {
    let fixture = Fixture::new(Scenario::default());
    fs::create_dir_all(fixture.file("infra")).unwrap();
    for name in ["marin-us-east1", "marin-us-east5"] {
        let text = format!("cluster_name: {name}\nprovider: {{type: gcp}}\n");
        fs::write(fixture.file(&format!("infra/{name}.yaml")), text).unwrap();
    }
    let infra = fixture.file("infra").display().to_string();
    for (name, words) in [
        ("us-east", "`us-east` is ambiguous: marin-us-east1, marin-us-east5; type more of the name"),
        ("us-esat1", "no cluster `us-esat1`, did you mean `us-east1`?"),
    ] {
        let mut pty = fixture.open(&["--infra", &infra, "--cluster", name], &[], 120, 10);
        assert_eq!(pty.wait_exit().exit_code(), 1);
        assert!(pty.text().contains(words), "{}", pty.text());
        assert!(!contains(&pty.raw(), b"\x1b[?1049h"), "the screen was not taken over");
    }
}
