//! An untrusted directory cannot make the binary run, contact, read or send anything before a confirmation, and can
//! after it.

use crate::program::{Ran, program};
use crate::pty::Pty;
use crate::transcript::Transcript;
use marin_tui::demo::google::{Google as Double, PROJECT};
use marin_tui::demo::{Head, Scenario};
use marin_tui::model::Secret;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TOKEN: &str = "tok-61c7e0d93b-never-shown";

/// A home with settings and a token, and a directory that somebody else has filled.
struct Fixture {
    runtime: Runtime,
    dir: TempDir,
    double: Double,
    head: Head,
    /// The dashboard address in `.marin.yaml`, where no connection may arrive.
    silent: TcpListener,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let double = runtime.block_on(Double::start()).unwrap();
        double.put_secret("STOLEN", TOKEN);
        let scenario = Scenario { token: Some(Secret::new(TOKEN)), nodes: 2, ..Scenario::default() };
        let head = runtime.block_on(Head::start(scenario)).unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        silent.set_nonblocking(true).unwrap();
        let fixture = Self { runtime, dir, double, head, silent };
        fs::create_dir_all(fixture.file("home")).unwrap();
        fixture.double.write_adc(&fixture.file("home")).unwrap();
        fixture.program("ray", "echo 127.0.0.1");
        let settings =
            format!("google_endpoint: {}\nray: [{}]\n", fixture.double.url(), fixture.file("ray").display());
        fixture.write("home/.config/marin-tui/config.yaml", &settings);
        fixture.write("home/token", TOKEN);
        fixture.write("home/.ray/auth_token", TOKEN);
        fixture
    }

    /// Fills the directory with clusters that run a command, have Ray look up the head, and name a secret to fetch.
    fn untrusted_files(&self) {
        let proof = self.file("proof-of-proxy");
        self.write(
            "repo/infra/a.yaml",
            &format!(
                "cluster_name: evil\nprovider: {{type: local, head_ip: 127.0.0.1}}\n\
                 auth: {{ssh_user: ray, ssh_proxy_command: 'touch {}'}}\nfile_mounts: {{/there: ~/.ssh}}\n",
                proof.display()
            ),
        );
        self.write(
            "repo/infra/g.yaml",
            &format!(
                "cluster_name: thief\nprovider: {{type: gcp, project_id: {PROJECT}, availability_zone: us-central2-b}}\n\
                 setup_commands:\n  - gcloud secrets versions access latest --secret=STOLEN > ~/.ray/auth_token\n"
            ),
        );
        self.write(
            "repo/infra/r.yaml",
            "cluster_name: asker\nprovider: {type: external, module: evil.provider}\n",
        );
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Writes a program that creates a proof file when it is run.
    fn program(&self, name: &str, then: &str) {
        self.write(
            name,
            &format!("#!/bin/sh\ntouch {}\n{then}\n", self.file(&format!("proof-of-{name}")).display()),
        );
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn env(&self) -> Vec<(&'static str, String)> {
        let home = self.file("home").display().to_string();
        let run = self.file("r");
        fs::create_dir_all(&run).unwrap();
        vec![
            ("GOOGLE_APPLICATION_CREDENTIALS", format!("{home}/adc.json")),
            ("HOME", home),
            ("PATH", "/usr/bin:/bin".into()),
            ("GCE_METADATA_HOST", "127.0.0.1:9".into()),
            ("XDG_RUNTIME_DIR", run.display().to_string()),
        ]
    }

    fn run(&self, words: &str) -> Ran {
        let mut command = program(&self.file("home"));
        command.args(words.split_whitespace()).envs(self.env()).current_dir(self.file("repo"));
        let ran = Ran::of(&command.output().unwrap());
        assert!(!ran.out.contains("61c7e0d93b") && !ran.err.contains("61c7e0d93b"), "{}{}", ran.out, ran.err);
        ran
    }

    fn good(&self, words: &str) -> String {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(0), "{words}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// A transcript of a command, in which the temporary directory is `~`.
    fn shown(&self, words: &str, ran: &Ran) -> Transcript {
        Transcript::new(self.dir.path()).with(words, ran)
    }

    fn bad(&self, words: &str) -> String {
        let ran = self.run(words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{words}: {}", ran.err);
        ran.err
    }

    /// Asserts that nothing was run, queried, sent or fetched.
    fn assert_untouched(&self, when: &str) {
        let names =
            fs::read_dir(self.dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let proofs: Vec<String> = names.filter(|n| n.starts_with("proof-of")).collect();
        assert!(proofs.is_empty(), "{when}: {proofs:?}");
        assert_eq!(self.double.requests_with(""), 0, "{when}: Google was asked");
        let heard = self.silent.accept().map_err(|e| e.kind());
        assert_eq!(heard.unwrap_err(), std::io::ErrorKind::WouldBlock, "{when}: the address was contacted");
        assert!(!self.file("home/.cache/marin-tui").exists(), "{when}: a token was kept");
    }
}

#[test]
fn nothing_of_an_untrusted_folder_is_used_before_a_confirmation() {
    let fixture = Fixture::new();
    fixture.untrusted_files();
    for words in [
        "-c evil list-jobs",
        "-c evil ssh -- true",
        "-c evil submit-job --no-wait -- true",
        "-c evil restart-cluster --yes",
        "-c evil stop-cluster --dry-run",
        "-c thief token fetch",
        "-c thief token path",
        "-c thief tpus",
        "-c thief auth --no-copy --no-open",
        "-c asker list-jobs",
        "-c asker auth-env",
        "token status",
    ] {
        // Regardless of the command, everything that the directory would cause is listed.
        fixture.shown("..", &fixture.run(words).exits(1)).is("a_strangers_folder");
        fixture.assert_untouched(words);
    }
    // Commands that only read need no trust.
    assert!(fixture.good("clusters").lines().any(|line| line.starts_with("evil ")));
    fixture.good("print-settings");
    fixture.good("audit");
    fixture.assert_untouched("commands that only read");
    // Without a terminal the question cannot be confirmed.
    fixture.shown("trust", &fixture.run("trust").exits(1)).is("trust_without_a_terminal");
    fixture.bad("-c evil list-jobs");
    fixture.assert_untouched("trust without a terminal");

    // After the confirmation everything that was listed happens.
    fixture.good("trust --yes");
    fixture.run("-c evil list-jobs");
    assert!(fixture.file("proof-of-proxy").exists());
    fixture.run("-c asker list-jobs");
    assert!(fixture.file("proof-of-ray").exists());
    fixture.good("-c thief token fetch");
    assert!(fixture.double.requests_with("STOLEN") > 0);
}

#[test]
fn a_table_of_clusters_alone_does_not_query_google() {
    let fixture = Fixture::new();
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/infra")).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        if name == "clusters.yaml" || name.contains("template") {
            let text = fs::read_to_string(file.path()).unwrap().replace("hai-gcp-models", PROJECT);
            fixture.write(&format!("repo/infra/{name}"), &text);
        }
    }
    let words = "configs images us-central2";
    fixture.shown(words, &fixture.run(words).exits(1)).is("a_table_of_clusters_that_nobody_trusts");
    fixture.assert_untouched("a table alone");
    // A directory named on the command line was chosen by the user.
    fixture.run("--infra infra configs images us-central2");
    assert!(fixture.double.requests_with("") > 0);
}

#[test]
fn a_folder_is_confirmed_once_and_again_when_it_changes() {
    let fixture = Fixture::new();
    fixture.untrusted_files();
    fixture.good("trust --yes");
    let records = fixture.file("home/.local/state/marin-tui/trusted");
    let record = fs::read_dir(&records).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o600);
    let all: serde_json::Value = serde_json::from_str(&fixture.good("trust --list --json")).unwrap();
    assert_eq!(all[0]["dir"], fixture.file("repo").canonicalize().unwrap().to_str().unwrap());
    assert!(
        all[0]["files"].as_object().unwrap().values().all(|d| d.as_str().unwrap().starts_with("sha256:"))
    );
    fixture.shown("trust --list", &fixture.run("trust --list").exits(0)).is("trusted_folders");
    fixture.good("trust");
    fixture.good("token status");
    // Changed content, a new file, another target of a symbolic link.
    let proof = fixture.file("proof-of-change").display().to_string();
    let cluster = |name: &str| {
        format!(
            "cluster_name: {name}\nprovider: {{type: local, head_ip: 127.0.0.1}}\nauth: {{ssh_proxy_command: 'touch {proof}'}}\n"
        )
    };
    fixture.write("repo/infra/a.yaml", &cluster("evil"));
    let err = fixture.bad("token status");
    assert!(err.contains("has changed since") && err.contains(&proof), "{err}");
    fixture.good("trust --yes");
    fixture.good("token status");
    fixture.write("elsewhere/b.yaml", &cluster("b"));
    symlink("../../elsewhere/b.yaml", fixture.file("repo/infra/b.yaml")).unwrap();
    assert!(fixture.bad("token status").contains("has changed since"));
    fixture.good("trust --yes");
    fixture.good("token status");
    fs::create_dir(fixture.file("third")).unwrap();
    fs::copy(fixture.file("elsewhere/b.yaml"), fixture.file("third/b.yaml")).unwrap();
    fs::remove_file(fixture.file("repo/infra/b.yaml")).unwrap();
    symlink("../../third/b.yaml", fixture.file("repo/infra/b.yaml")).unwrap();
    assert!(fixture.bad("token status").contains("has changed since"), "the same text elsewhere");
    // Trust is removed.
    fixture.good("trust --yes");
    assert!(fixture.good("trust --remove").contains("is no longer trusted"));
    assert!(fixture.bad("trust --remove").contains("is not trusted"));
    assert!(fixture.bad("token status").contains("not trusted yet"));
    assert!(!fixture.file("proof-of-change").exists());
}

#[test]
fn files_that_others_can_write_are_never_used() {
    let fixture = Fixture::new();
    fixture.untrusted_files();
    fixture.good("trust --yes");
    // In a trusted directory `token status` would query Google.
    fixture.good("clusters");
    let refused = |path: &Path, why: &str| {
        for words in ["token status", "trust --yes", "-c evil list-jobs"] {
            let err = fixture.bad(words);
            let named = err.contains(&format!("{} ", path.display())) && err.contains("--infra");
            assert!(named && err.contains(why), "{words}: {err}");
        }
        fixture.assert_untouched(why);
    };
    let (repo, infra, file) =
        (fixture.file("repo"), fixture.file("repo/infra"), fixture.file("repo/infra/a.yaml"));
    for path in [&repo, &infra, &file] {
        let kept = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(kept.mode() | 0o002)).unwrap();
        refused(path, "is writable by every user");
        fs::set_permissions(path, kept).unwrap();
    }
    // A group whose members are unknown.
    let is_root = fs::metadata(&file).unwrap().uid() == 0;
    if is_root {
        chown(&file, None, Some(54_321)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).unwrap();
        refused(&file, "is writable by its group");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(65_534), None).unwrap();
        refused(&file, "is owned by another user (uid 65534)");
        chown(&file, Some(0), Some(0)).unwrap();
    }
    // A symbolic link through a directory that every user can write.
    fixture.write("open/t.yaml", "cluster_name: t\nprovider: {type: local, head_ip: h}\n");
    fs::set_permissions(fixture.file("open"), fs::Permissions::from_mode(0o777)).unwrap();
    symlink("../../open/t.yaml", fixture.file("repo/infra/t.yaml")).unwrap();
    refused(&fixture.file("open").canonicalize().unwrap(), "is writable by every user");
    fs::remove_file(fixture.file("repo/infra/t.yaml")).unwrap();
    // A named pipe would block the program.
    let made = Command::new("mkfifo").arg(fixture.file("repo/infra/p.yaml")).status().unwrap();
    assert!(made.success());
    assert!(fixture.good("clusters").contains("it is not a regular file"));
    fixture.good("token status");
    // A record that others could have written is ignored.
    let records = fixture.file("home/.local/state/marin-tui/trusted");
    let record = fs::read_dir(&records).unwrap().next().unwrap().unwrap().path();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o606)).unwrap();
    assert!(fixture.bad("token status").contains("not trusted yet"));
}

#[test]
fn variables_of_a_folder_are_not_used_before_a_confirmation() {
    let fixture = Fixture::new();
    let address = fixture.silent.local_addr().unwrap();
    symlink(fixture.file("home/token"), {
        fs::create_dir_all(fixture.file("repo")).unwrap();
        fixture.file("repo/tok")
    })
    .unwrap();
    let variables = |address: &str| {
        format!("env:\n  RAY_ADDRESS: http://{address}\n  RAY_AUTH_TOKEN_PATH: tok\n  WANDB: x\n")
    };
    fixture.write("repo/.marin.yaml", &variables(&address.to_string()));
    let err = fixture.bad("list-jobs");
    let led = fixture.file("home/token").canonicalize().unwrap();
    for named in [
        format!("contact  http://{address}"),
        format!("the Ray token to http://{address}"),
        format!("read     the first line of {}", led.display()),
        "the values of WANDB".to_owned(),
    ] {
        assert!(err.contains(&named), "{named}: {err}");
    }
    fixture.assert_untouched("an address");
    // With a directory on the command line the variables of this one are not used, and a message says so.
    fixture.write(
        "elsewhere/c.yaml",
        &format!("cluster_name: c\nprovider: {{type: gcp, project_id: {PROJECT}}}\n"),
    );
    let elsewhere = fixture.file("elsewhere").display().to_string();
    let ran = fixture.run(&format!("--infra {elsewhere} token status"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.err.contains(".marin.yaml is not used") && ran.out.contains(".ray/auth_token"),
        "{}{}",
        ran.out,
        ran.err
    );
    fixture.assert_untouched("--infra");

    let dashboard = fixture.head.dashboard;
    fixture.write("repo/.marin.yaml", &variables(&dashboard.to_string()));
    fixture.good("trust --yes");
    fixture.good("list-jobs");
    let ran = fixture.run(&format!("--infra {elsewhere} token status"));
    assert!(ran.err.is_empty() && ran.out.contains("repo/tok"), "{}{}", ran.out, ran.err);
    // The symbolic link now has another target.
    fs::remove_file(fixture.file("repo/tok")).unwrap();
    symlink(fixture.file("home/.config/marin-tui/config.yaml"), fixture.file("repo/tok")).unwrap();
    assert!(fixture.bad("list-jobs").contains("has changed since"));
}

#[test]
fn the_console_asks_on_the_terminal_before_it_opens() {
    let fixture = Fixture::new();
    fixture.untrusted_files();
    let open = || {
        let env = fixture.env();
        let mut env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
        env.extend([("RAY_AUTH_TOKEN", ""), ("RAY_AUTH_TOKEN_PATH", ""), ("RAY_ADDRESS", "")]);
        let line =
            format!("cd {} && exec {}", fixture.file("repo").display(), env!("CARGO_BIN_EXE_marin-tui"));
        Pty::start(&["sh", "-c", &line], &env, 120, 40)
    };
    let mut pty = open();
    let question = pty.wait_text("Trust this directory with this content? [y/N]");
    assert!(question.contains("touch ") && !pty.screen(vt100::Screen::alternate_screen), "{question}");
    fixture.assert_untouched("the question");
    pty.send("\r");
    assert_eq!(pty.wait_exit().exit_code(), 1);
    assert!(pty.text().contains("nothing was done"), "{}", pty.text());
    fixture.assert_untouched("a no");

    let mut pty = open();
    pty.wait_text("[y/N]");
    pty.send("y\r");
    pty.wait("the console", |_| pty.screen(vt100::Screen::alternate_screen));
    pty.wait_text("thief");
    pty.send("q");
    pty.wait_exit();
    let mut again = open();
    again.wait_text("thief");
    assert!(again.screen(vt100::Screen::alternate_screen));
    again.send("q");
    again.wait_exit();
    assert!(!again.text().contains("[y/N]"));
}

#[test]
fn without_a_home_a_folder_cannot_supply_settings_or_records() {
    let fixture = Fixture::new();
    fixture.untrusted_files();
    fixture.good("trust --yes");
    // The directory contains the files that our own directories would contain.
    let state = fixture.file("repo/.marin-tui/.local/state/marin-tui/trusted");
    fs::create_dir_all(&state).unwrap();
    for entry in fs::read_dir(fixture.file("home/.local/state/marin-tui/trusted")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), state.join(entry.file_name())).unwrap();
    }
    fixture.program("theirs", "");
    let settings = format!("ssh: {}\nray: [{0}]\n", fixture.file("theirs").display());
    fixture.write("repo/.marin-tui/.config/marin-tui/config.yaml", &settings);
    for words in ["-c evil list-jobs", "-c asker list-jobs", "trust --yes"] {
        let mut command = program(&fixture.file("repo"));
        let out = command.args(words.split_whitespace()).env_remove("HOME").output().unwrap();
        assert!(!out.status.success(), "{words}");
    }
    fixture.assert_untouched("a start without a home");
    // Dropped here: the servers must run until now.
    drop(fixture.runtime);
}
