//! Commands on a terminal, where everything that a cluster, a file name or an error contains is hostile: no control
//! sequence may reach the terminal. Into a pipe, the same commands write the data unchanged.

use crate::program::program;
use crate::pty::Pty;
use marin_tui::demo::{Head, Scenario};
use marin_tui::model::JobStatus;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Sets the terminal's title, clears the screen, sets a color by an 8-bit control, reverses a row, writes the
/// clipboard.
const ORDERS: &str =
    "\x1b]0;pwned\x07\x1b[2J\u{9b}31m\u{202e}\x1bP1;pwned\x1b\\\x1b]52;c;cHduZWQ=\x07\u{2066}";

struct Fixture {
    runtime: Runtime,
    head: Head,
    home: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let scenario = Scenario { jobs: 0, ..Scenario::default() };
        let head = runtime.block_on(Head::start(scenario)).unwrap();
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        Self { runtime, head, home }
    }

    fn address(&self) -> String {
        format!("http://{}", self.head.dashboard)
    }

    fn env(&self) -> [(&str, &str); 1] {
        [("HOME", self.home.path().to_str().unwrap())]
    }

    /// Output of a command on a terminal that is both its stdout and its stderr.
    fn on_terminal(&self, args: &[&str]) -> String {
        let argv = [&[env!("CARGO_BIN_EXE_marin-tui")], args].concat();
        let mut pty = Pty::start(&argv, &self.env(), 250, 50);
        pty.wait_exit();
        let raw = pty.raw();
        let text = String::from_utf8(raw).unwrap_or_else(|e| panic!("{args:?}: {e}"));
        let acts = |c: char| {
            (c.is_control() && !matches!(c, '\r' | '\n' | '\t'))
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        let found: Vec<char> = text.chars().filter(|c| acts(*c)).collect();
        assert!(found.is_empty(), "{args:?} lets {found:?} through:\n{text:?}");
        assert!(!text.contains("panicked"), "{args:?}: {text}");
        text
    }

    fn in_pipe(&self, args: &[&str]) -> Vec<u8> {
        program(self.home.path()).args(args).output().unwrap().stdout
    }

    fn submit(&self, id: &str) {
        let job = json!({"submission_id": id, "entrypoint": format!("python {ORDERS}"),
            "metadata": {"owner": ORDERS, ORDERS: ORDERS}});
        let url = format!("{}/api/jobs/", self.address());
        let answer = self.runtime.block_on(async {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
            client.post(url).body(job.to_string()).send().await.unwrap().status()
        });
        assert!(answer.is_success(), "{answer}");
    }
}

#[test]
fn job_commands_pass_no_control_sequences_to_the_terminal() {
    let fixture = Fixture::new();
    let (evil, ended) = (format!("evil-{ORDERS}-name"), format!("ended-{ORDERS}-name"));
    fixture.submit(&evil);
    fixture.submit(&ended);
    assert!(fixture.head.turn_job(&evil, JobStatus::Running));
    fixture.head.write_job_log(&ended, format!("before {ORDERS} after\nraw \u{9b}31m end\n").as_bytes());
    assert!(
        fixture.head.turn_job(&ended, JobStatus::Running) && fixture.head.turn_job(&ended, JobStatus::Failed)
    );
    let address = fixture.address();
    let at = ["--address", &address];
    let dir = fixture.home.path().join(format!("backup-{ORDERS}"));
    let dir = dir.to_str().unwrap();
    let all: &[&[&str]] = &[
        &["list-jobs", "--all"],
        &["list-jobs", "--all", "--json"],
        &["job-logs", &ended],
        &["job-logs", "--follow", &ended],
        &["job-logs", "no-such-\x1b]0;pwned\x07-job"],
        &["wait-job", &ended],
        &["wait-job", "--json", &ended],
        &["wait-job", "--show-logs", &ended],
        &["wait-job", "--timeout", "0", &evil],
        &["submit-job", "--no-wait", "--submission-id", ORDERS, "--", "true", ORDERS],
        &["submit-job", "--dry-run", "--", "true", ORDERS],
        &["stop-job", "--dry-run", &evil],
        &["stop-job", "--yes", &evil],
        &["stop-job", "--yes", "--json", &evil],
        &["stop-job", "--yes", "--others", &evil],
        &["backup-jobs", "--dry-run", dir],
        &["backup-jobs", dir],
        &["backup-jobs", dir],
        &["restore-jobs", dir],
        &["restore-jobs", "--json", dir],
        &["delete-job", "--dry-run", &ended],
        &["delete-job", "--yes", &ended],
        &["delete-job", "--yes", &ended],
        &["audit"],
        &["audit", "--json"],
        &["restart-cluster", "--dry-run"],
        &["--no-such-\x1b]0;pwned\x07-option"],
    ];
    for args in all {
        fixture.on_terminal(&[&at[..], args].concat());
    }
}

#[test]
fn json_on_a_terminal_has_the_same_values_as_in_a_pipe() {
    let fixture = Fixture::new();
    let evil = format!("evil-{ORDERS}-name");
    fixture.submit(&evil);
    let address = fixture.address();
    let args = ["--address", &address, "list-jobs", "--all", "--json"];
    let shown = fixture.on_terminal(&args);
    assert!(shown.contains("\\u202e") && shown.contains("\\u009b"), "{shown}");
    let piped = String::from_utf8(fixture.in_pipe(&args)).unwrap();
    assert!(piped.contains('\u{202e}'), "a script gets the cluster's data unchanged: {piped}");
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap()[0].clone();
    assert_eq!(parsed(&shown)["submission_id"], evil);
    assert_eq!(parsed(&shown)["metadata"], parsed(&piped)["metadata"]);
}

#[test]
fn server_errors_are_sanitized() {
    let fixture = Fixture::new();
    let body = json!({"result": false, "msg": format!("first\nsecond {ORDERS}"), "data": {}}).to_string();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.1 500 Oh\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
        }
    });
    for args in
        [&["list-jobs"][..], &["job-logs", "a"], &["stop-job", "--yes", "a"], &["delete-job", "--yes", "a"]]
    {
        let said = fixture.on_terminal(&[&["--address", &address][..], args].concat());
        assert!(said.contains("second "), "{args:?}: {said}");
    }
}

#[test]
fn file_names_are_sanitized() {
    let fixture = Fixture::new();
    // The name is not UTF-8 either: some terminals interpret 8-bit C1 controls.
    let name = [b"work-", ORDERS.as_bytes(), b"\x9b31m\x90"].concat();
    let folder: PathBuf = fixture.home.path().join(std::ffi::OsStr::from_bytes(&name));
    fs::create_dir(&folder).unwrap();
    File::create(folder.join(format!("weights-{ORDERS}.bin"))).unwrap().set_len((100 << 20) + 1).unwrap();
    fs::write(folder.join(format!("broken-{ORDERS}.yaml")), "cluster_name: [").unwrap();
    fs::write(folder.join("good.yaml"), format!("cluster_name: {}\n", json!(format!("c-{ORDERS}")))).unwrap();
    std::os::unix::fs::symlink(&folder, fixture.home.path().join("link")).unwrap();
    let link = fixture.home.path().join("link");
    let link = link.to_str().unwrap();
    let address = fixture.address();
    let said =
        fixture.on_terminal(&["--address", &address, "submit-job", "--working-dir", link, "--", "true"]);
    assert!(said.contains("100 MiB") && said.contains("weights-"), "{said}");
    for args in [
        &["clusters"][..],
        &["clusters", "--json"],
        &["configs", "list"],
        &["configs", "validate"],
        &["configs", "validate", "--json"],
        &["token", "status"],
        &["token", "status", "--json"],
        &["token", "path"],
        &["list-jobs"],
        &["tpus"],
    ] {
        let said = fixture.on_terminal(&[&["--infra", link][..], args].concat());
        assert!(!said.trim().is_empty(), "{args:?}");
    }
}
